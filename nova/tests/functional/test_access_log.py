"""[http] access_log: a line for each request."""
import logging
import re

import requests

from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds

LINE = re.compile(r'request_id=(\S+) remote=(\S+) user=(\S+) project=(\S+) "(\S+) (\S+)" status=(\d+) '
                  r'time=(\d+\.\d{3}) size=(\d+)\Z')


def lines(caplog):
    return [LINE.match(record.getMessage()).groups() for record in caplog.records
            if record.name == 'nova.runtime.access_log']


def test_each_request_is_one_line(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger='nova.runtime.access_log'), clouds.running(
            tmp_path, http__access_log=True) as cloud:
        user = cloud.client()
        image = user.upload_image(b'x' * 5000)
        caplog.clear()

        def logged(count, answer):
            waiting.wait_for(lambda: len(lines(caplog)) == count, 30, 'the line, which follows the answer')
            return answer
        answer = logged(1, user.get('/servers?name=secret-in-the-query'))
        downloaded = logged(2, user.request('GET', f'/image/v2/images/{image}/file'))
        refused = logged(3, requests.get(f'{cloud.url}/servers/a"b%20c%0Astatus=200', timeout=60))
        found = lines(caplog)
    listed, download, stranger = found
    assert listed[0] == answer.headers['x-openstack-request-id']
    assert listed[2:7] == (user.user_id, user.project_id, 'GET', listed[5], '200')
    assert listed[5].endswith('/servers') and 'secret' not in str(found)
    assert int(listed[8]) == len(answer.content) and float(listed[7]) < 60
    assert download[6] == '200' and int(download[8]) == 5000 == len(downloaded.content)
    assert stranger[2:4] == ('-', '-') and stranger[6] == str(refused.status_code)
    assert stranger[5].endswith('/servers/a\\x22b\\x20c\\x0astatus=200')


def test_no_lines_unless_they_are_wanted(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger='nova.runtime.access_log'), clouds.running(tmp_path) as cloud:
        cloud.client().get('/servers')
    assert lines(caplog) == []
