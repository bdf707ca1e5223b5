"""What callers without a valid token or signature write into the log of a whole cloud."""
import hashlib
import logging

import pytest
import requests

from nova.runtime import log_limits
from nova.tests.functional import cloud as whole

YEARS = ('00010101T000000Z', '99991231T235959Z')


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('floods'), objectstore__enabled=True) as made:
        yield made


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []
        self.addFilter(log_limits.UnauthenticatedLimit(later=lambda tell: None))

    def emit(self, record):
        self.lines.append(self.format(record))


@pytest.fixture
def log():
    made = Lines()
    logging.getLogger().addHandler(made)
    yield made.lines
    logging.getLogger().removeHandler(made)


def signed(service, made, in_url):
    """(headers, parameters) of a request that somebody signed at a time; the signature is invented."""
    parts = {'Credential': f'{"a" * 32}/{made[:8]}/RegionOne/{service}/aws4_request', 'Signature': '0' * 64}
    if in_url:
        return {}, {'Action': 'DescribeInstances', 'Version': '2016-11-15', 'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
                    'X-Amz-Date': made, 'X-Amz-Expires': '900', 'X-Amz-SignedHeaders': 'host',
                    **{f'X-Amz-{name}': value for name, value in parts.items()}}
    return {'X-Amz-Date': made, 'X-Amz-Content-Sha256': hashlib.sha256(b'').hexdigest(), 'Authorization': (
        'AWS4-HMAC-SHA256 ' + ', '.join(f'{name}={value}' for name, value in {
            **parts, 'SignedHeaders': 'host;x-amz-content-sha256;x-amz-date'}.items()))}, {
                'Action': 'DescribeInstances', 'Version': '2016-11-15'} if service == 'ec2' else {}


@pytest.mark.parametrize('in_url', [False, True])
@pytest.mark.parametrize('made', YEARS)
@pytest.mark.parametrize('service, path', [('ec2', '/services/Cloud'), ('s3', '/objectstore/bucket/key')])
def test_a_signature_of_the_year_1_is_refused_without_an_error(cloud, log, service, path, made, in_url):
    """It was a 500 and 3 kB of log."""
    headers, params = signed(service, made, in_url)
    answer = requests.get(cloud.url + path, params=params, headers=headers, timeout=30)
    assert answer.status_code in (400, 401, 403), answer.text
    assert not any('Traceback' in line for line in log), log


def test_wrong_logins_fill_a_bounded_part_of_the_log(cloud, log):
    codes = set()
    for number in range(150):
        codes.add(requests.post(cloud.url + '/identity/v3/auth/tokens', json={'auth': {'identity': {
            'methods': ['password'], 'password': {'user': {
                'name': f'invented{number}', 'password': 'x', 'domain': {'id': 'default'}}}}}}, timeout=30).status_code)
    assert 401 in codes <= {401, 429, 503}
    about = [line for line in log if 'Login refused' in line]
    assert 10 < len(about) and sum(map(len, about)) + len(about) * log_limits.OVERHEAD <= log_limits.BYTES
