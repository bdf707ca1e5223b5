"""POST /v3/s3tokens: an object store asks who has signed a request."""
import base64

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from nova.tests.functional import cloud as whole

PATH = '/identity/v3/s3tokens'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('s3tokens')) as running:
        yield running


@pytest.fixture(scope='module')
def demo(cloud):
    return cloud.client()


@pytest.fixture
def pair(demo):
    answer = demo.post(f'/identity/v3/users/{demo.user_id}/credentials/OS-EC2', {'tenant_id': demo.project_id})
    return answer.json()['credential']


@pytest.fixture
def service(cloud):
    return cloud.client('nova-service')


class Version4(botocore.auth.S3SigV4Auth):
    """What it signs."""

    def string_to_sign(self, request, canonical_request):
        self.text = super().string_to_sign(request, canonical_request)
        return self.text


class Version2(botocore.auth.HmacV1Auth):
    def sign_string(self, string_to_sign):
        self.text = string_to_sign
        return super().sign_string(string_to_sign)


def signed(pair, version):
    """The body of a request to s3tokens for what botocore signs."""
    keys = botocore.credentials.Credentials(pair['access'], pair['secret'])
    request = botocore.awsrequest.AWSRequest('GET', 'https://s3.example.com/bucket/key%20one?versioning')
    if version == 4:
        signer = Version4(keys, 's3', 'RegionOne')
        signer.add_auth(request)
        signature = request.headers['Authorization'].rpartition('Signature=')[2]
    else:
        signer = Version2(keys)
        signer.add_auth(request)
        signature = request.headers['Authorization'].rpartition(':')[2]
    return body(pair['access'], signer.text, signature)


def body(access, text, signature):
    token = base64.urlsafe_b64encode(text.encode()).decode()
    return {'credentials': {'access': access, 'token': token, 'signature': signature}}


@pytest.mark.parametrize('version', [4, 2])
def test_s3_signature_check_returns_the_signer_without_a_token(service, pair, demo, version):
    answer = service.post(PATH, signed(pair, version))
    assert answer.status_code == 200, answer.text
    token = answer.json()['token']
    assert (token['user']['id'], token['project']['id']) == (demo.user_id, demo.project_id)
    assert token['methods'] == ['ec2credential'] and 'X-Subject-Token' not in answer.headers


@pytest.mark.parametrize('version', [4, 2])
def test_forged_signatures_are_refused_with_the_same_words(service, pair, version):
    good = signed(pair, version)['credentials']
    text = base64.urlsafe_b64decode(good['token']).decode()
    refusals = [service.post(PATH, body(*each)) for each in (
        (good['access'], text, good['signature'][::-1]), (good['access'], text + ' ', good['signature']),
        (good['access'], text, good['signature'][:-1]), ('0' * 32, text, good['signature']),
        (good['access'], 'AWS4-HMAC-SHA256', good['signature']), (good['access'], '', good['signature']),
        (good['access'], text.replace('s3/aws4', 'ec2/aws4') + 'x', good['signature']))]
    assert {answer.status_code for answer in refusals} <= {401, 429}
    assert len({answer.text for answer in refusals if answer.status_code == 401}) == 1


@pytest.mark.parametrize('changes', [
    {'token': 'no base64!'}, {'token': base64.b64encode(b'\xff\xfe').decode()}, {'token': 'A' * 65537},
    {'signature': 's' * 257}, {'access': ''}, {'access': None}])
def test_malformed_signed_text_returns_400(service, pair, changes):
    given = {'credentials': {**signed(pair, 4)['credentials'], **changes}}
    assert service.post(PATH, given).status_code == 400


def test_services_alone_may_ask(cloud, pair, demo):
    """Otherwise an eavesdropper could find out whose a signed request is."""
    assert demo.post(PATH, signed(pair, 4)).status_code == 403
    assert cloud.admin().post(PATH, signed(pair, 4)).status_code == 200            # administrators may all
    assert demo.session.post(cloud.url + PATH, json=signed(pair, 4)).status_code == 401
