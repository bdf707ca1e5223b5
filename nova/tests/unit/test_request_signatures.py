"""Signatures of EC2 requests: what one of a version is good for."""
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
