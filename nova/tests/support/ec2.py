"""What tests share with nova/tests/functional/test_ec2.py."""
import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
import pytest
import requests

from nova.tests.functional import cloud as whole

PATH = '/services/Cloud'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('ec2'), ['host1'], objectstore__enabled=True) as running:
        yield running


def keys_of(client, by=None):
    """A new pair of a user; ``by`` an administrator for a reader, who may not make one."""
    answer = (by or client).post(f'/identity/v3/users/{client.user_id}/credentials/OS-EC2',
                                 {'tenant_id': client.project_id})
    assert answer.status_code == 201, answer.text
    return answer.json()['credential']


def boto(cloud, pair):
    return boto3.client('ec2', endpoint_url=cloud.url + PATH, region_name='RegionOne',
                        aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'],
                        config=botocore.config.Config(retries={'max_attempts': 0}, parameter_validation=False))


@pytest.fixture(scope='module')
def demo(cloud):
    client = cloud.client()
    client.image = client.upload_image(b'\0' * 1024, name='small')
    return client


@pytest.fixture(scope='module')
def pair(demo):
    return keys_of(demo)


@pytest.fixture(scope='module')
def ec2(cloud, pair):
    return boto(cloud, pair)


@pytest.fixture(scope='module')
def image(ec2, demo):
    found = ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['sm*']}])['Images']
    assert [row['Name'] for row in found] == ['small']
    return found[0]['ImageId']


def refused(call, **given):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**given)
    return error.value.response['Error']['Code'], error.value.response['ResponseMetadata']['HTTPStatusCode']


@pytest.fixture(scope='module')
def flavor(ec2):
    return min(ec2.describe_instance_types()['InstanceTypes'],
               key=lambda row: row['MemoryInfo']['SizeInMiB'])['InstanceType']


def run(ec2, image, flavor, **more):
    made = ec2.run_instances(**{'ImageId': image, 'InstanceType': flavor, 'MinCount': 1, 'MaxCount': 1, **more})
    return made


def member_of_another_project(cloud, admin):
    password = 'Ein-langes-Wort-9'
    project = admin.post('/identity/v3/projects', {'project': {'name': 'third'}}).json()['project']['id']
    user = admin.post('/identity/v3/users', {'user': {'name': 'third', 'password': password}}).json()['user']['id']
    role = next(row['id'] for row in admin.get('/identity/v3/roles').json()['roles'] if row['name'] == 'member')
    assert admin.put(f'/identity/v3/projects/{project}/users/{user}/roles/{role}', None).status_code == 204
    return whole.Client(cloud.url, 'third', password, 'third')


def signed(cloud, pair, moment=None, body='Action=DescribeRegions&Version=2016-11-15', **changes):
    """An answer to a request that botocore has signed, changed afterwards."""
    request = botocore.awsrequest.AWSRequest('POST', cloud.url + PATH, data=body, headers={
        'Content-Type': 'application/x-www-form-urlencoded'})
    credentials = botocore.credentials.Credentials(pair['access'], pair['secret'])
    signer = botocore.auth.SigV4Auth(credentials, changes.pop('service', 'ec2'), 'RegionOne')
    if moment is None:
        signer.add_auth(request)
    else:
        original = botocore.auth.get_current_datetime
        botocore.auth.get_current_datetime = lambda *_args, **_more: moment
        try:
            signer.add_auth(request)
        finally:
            botocore.auth.get_current_datetime = original
    prepared = request.prepare()
    return requests.request(changes.get('method', 'POST'), prepared.url + changes.get('query', ''),
                            data=changes.get('sent', body), headers=dict(prepared.headers), timeout=30)


# Each was refused with 401, but for the content type: SDKs sign what they please.
SIGNED_HEADERS = {'Content-Length': '42', 'Accept': 'text/xml, */*;q=0.1', 'Accept-Encoding': 'gzip',
                  'Traceparent': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'Cookie': 'a=1; b=\xfc',
                  'Date': 'x', 'X-Own': 'two  blanks', 'User-Agent': 'sdk/1 of a test', 'X-Amz-Own': 'signed'}


def signed_with(url, pair, service, headers, unsigned=(), sent=None):
    """An answer of EC2, STS or S3 to a request that signs every header but those of ``unsigned``.

    :param url: of the service
    :param sent: headers that change after signing
    """
    method, body = {'ec2': ('POST', 'Action=DescribeRegions&Version=2016-11-15'),
                    'sts': ('POST', 'Action=GetCallerIdentity&Version=2011-06-15'), 's3': ('GET', '')}[service]
    headers = {**headers, **({'Content-Length': str(len(body))} if 'Content-Length' in headers and body else {})}
    request = botocore.awsrequest.AWSRequest(method, url, data=body, headers={
        'Content-Type': 'application/x-www-form-urlencoded', **headers})
    credentials = botocore.credentials.Credentials(pair['access'], pair['secret'])
    signer = (botocore.auth.S3SigV4Auth if service == 's3' else botocore.auth.SigV4Auth)(
        credentials, service, 'RegionOne')
    if service == 's3':
        request.context['client_config'] = None
    every = signer.headers_to_sign

    def chosen(request):
        found = every(request)
        for name in unsigned:
            del found[name]
        return found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, 'SIGNED_HEADERS_BLACKLIST', [])
        patch.setattr(signer, 'headers_to_sign', chosen)
        signer.add_auth(request)
    prepared = request.prepare()
    wire = {name: value.encode() if isinstance(value, str) else value
            for name, value in {**prepared.headers, **(sent or {})}.items()}
    return requests.request(method, url, data=body, headers=wire, timeout=30)
