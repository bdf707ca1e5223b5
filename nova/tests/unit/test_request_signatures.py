"""Signatures of EC2 requests: what one of a version is good for."""
import datetime

from keystoneclient.contrib.ec2 import utils as ec2_utils
import pytest

from nova import utils
from nova.identity import signatures

ACCESS, SECRET = 'a' * 32, 's' * 40


def request_of_version_2(made):
    """What a client has signed, with its time among the parameters."""
    request = {'access': ACCESS, 'host': 'cloud.example', 'verb': 'GET', 'path': '/', 'headers': {}, 'body_hash': '',
               'params': {'Action': 'TerminateInstances', 'AWSAccessKeyId': ACCESS, 'SignatureVersion': '2',
                          'SignatureMethod': 'HmacSHA256', 'Timestamp': made}}
    request['signature'] = ec2_utils.Ec2Signer(SECRET).generate({**request, 'params': dict(request['params'])})
    return request


def good(request):
    return signatures.is_recent(request, utils.utcnow()) and signatures.matches(SECRET, request)


def test_a_request_of_version_2_is_good_near_its_time():
    assert good(request_of_version_2(utils.utcnow().strftime('%Y-%m-%dT%H:%M:%SZ')))
    assert not good(request_of_version_2('2020-01-01T00:00:00Z'))


@pytest.mark.parametrize('headers', [
    {'authorization': f'AWS4-HMAC-SHA256 Credential={ACCESS}, SignedHeaders=host, Signature=x'},
    {'Authorization': 'AWS4-HMAC-SHA256 SignedHeaders=host'},
])
def test_headers_of_version_4_do_not_make_an_old_request_of_version_2_recent(headers):
    """They are not signed by it: whoever has seen a request could send it again for ever."""
    now = utils.utcnow().strftime('%Y%m%dT%H%M%SZ')
    request = request_of_version_2('2020-01-01T00:00:00Z')
    assert not good({**request, 'headers': {**headers, 'host': 'cloud.example', 'x-amz-date': now}})


def request_of_version_4(made, in_url, **params):
    """A GET whose date is in a header, or in the query."""
    names = {'Algorithm': 'AWS4-HMAC-SHA256', 'Credential': f'{ACCESS}/{made[:8]}/RegionOne/ec2/aws4_request',
             'SignedHeaders': 'host' if in_url else 'host;x-amz-date'}
    request = {'access': ACCESS, 'host': 'cloud.example', 'verb': 'GET', 'path': '/', 'body_hash': 'b' * 64,
               'headers': {'Host': 'cloud.example'}, 'params': {'Action': 'TerminateInstances', **params}}
    if in_url:
        request['params'] |= {'X-Amz-Date': made, **{f'X-Amz-{name}': value for name, value in names.items()}}
    else:
        request['headers'] |= {'X-Amz-Date': made, 'Authorization': 'AWS4-HMAC-SHA256 ' + ', '.join(
            f'{name}={value}' for name, value in names.items() if name != 'Algorithm')}
    request['signature'] = ec2_utils.Ec2Signer(SECRET).generate({**request, 'params': dict(request['params'])})
    return request


def basic(days):
    return (utils.utcnow() - datetime.timedelta(days=days)).strftime('%Y%m%dT%H%M%SZ')


def requests_signed(days):
    """{form: request signed so many days ago}, in each form that a signature has."""
    extended = (utils.utcnow() - datetime.timedelta(days=days)).strftime('%Y-%m-%dT%H:%M:%SZ')
    return {'version 2': request_of_version_2(extended), 'version 4': request_of_version_4(basic(days), False),
            'version 4 in the query': request_of_version_4(basic(days), True, **{'X-Amz-Expires': '900'})}


FORMS = list(requests_signed(0))


@pytest.mark.parametrize('form', FORMS)
def test_unsigned_date_does_not_make_an_old_request_recent(form):
    """A request of version 2 from 30 days ago was accepted with an X-Amz-Date header that its signature does not cover.
    """
    assert good(requests_signed(0)[form])
    old = requests_signed(30)[form]
    assert not good(old)
    added = {'headers': [{name: basic(0)} for name in ('X-Amz-Date', 'x-amz-date', 'Date')] + [{'X-Amz-Date': ''}],
             'params': [{'X-Amz-Date': basic(0)}, {'X-Amz-Expires': '9999999'}, {'Expires': '2999-01-01T00:00:00Z'},
                        {'Timestamp': '2999-01-01T00:00:00Z'}, {'SignatureVersion': '2'}]}
    for part, every in added.items():
        for each in every:
            assert not good({**old, part: {**old[part], **each}}), each


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('year', ('0001', '9999'))
def test_a_time_at_the_end_of_the_calendar_is_not_recent(form, year):
    made = f'{year}0101T000000Z' if year == '0001' else '99991231T235959Z'
    request = {'version 2': lambda: request_of_version_2(
        f'{made[:4]}-{made[4:6]}-{made[6:8]}T{made[9:11]}:{made[11:13]}:{made[13:15]}Z'),
        'version 4': lambda: request_of_version_4(made, False),
        'version 4 in the query': lambda: request_of_version_4(made, True)}[form]()
    assert signatures.matches(SECRET, request) and not good(request)
