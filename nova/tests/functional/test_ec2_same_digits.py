"""An id of the EC2 API has 17 digits of a uuid, and users choose the ids of their images: two images with the same."""
import contextlib
import uuid

import botocore.exceptions
import pytest

from nova import utils
from nova.db.ec2 import ids as db_ids
from nova.ec2 import ids as ec2_ids
from nova.tests.functional import cloud as whole
from nova.tests.support import ec2 as test_ec2


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('digits'), ['host1']) as running:
        yield running


def twin(image_id):
    """Another id with the same digits in the EC2 API."""
    return image_id[:20] + uuid.uuid4().hex[:3] + '-' + uuid.uuid4().hex[:12]


@contextlib.contextmanager
def refusal(code):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        yield
    assert error.value.response['Error']['Code'] == code


def test_no_image_takes_the_place_of_another_one(cloud):
    """Who named the image of the operator, by its id, got a server of an image that a stranger had made."""
    admin = cloud.admin()
    stranger = test_ec2.member_of_another_project(cloud, admin)
    official = admin.upload_image(b'official' * 128, name='debian', visibility='public')
    victim = test_ec2.boto(cloud, test_ec2.keys_of(cloud.client()))
    shown = utils.ec2_id(official, 'ami')
    assert shown in {image['ImageId'] for image in victim.describe_images()['Images']}
    made = stranger.post('/image/v2/images', {'id': twin(official), 'name': 'debian', 'disk_format': 'raw',
                                              'container_format': 'bare', 'visibility': 'community'})
    assert made.status_code == 409, made.text
    assert admin.delete(f'/image/v2/images/{official}').status_code == 204
    assert stranger.post('/image/v2/images', {'id': twin(official)}).status_code == 409      # nor of one that was there


def test_digits_stand_for_what_was_known_by_them_first(cloud):
    """An Image service of a fleet takes any id: what comes later has another one in the EC2 API."""
    first, later = str(uuid.uuid4()), None
    later = twin(first)
    ids = ec2_ids.Ids(cloud.api_db)
    shown = [ids.one('ami', image) for image in (first, later)]
    assert shown[0] == utils.ec2_id(first, 'ami')
    assert shown[1] == f'ami-{db_ids.numbers(cloud.api_db, "ami", [later])[later]:08x}'
    for known in (ids, ec2_ids.Ids(cloud.api_db)):
        assert known.uuids('ami', shown) == [first, later]
        assert known.shown('ami', [later, first]) == {None: None, first: shown[0], later: shown[1]}


def test_an_image_that_was_known_later_is_found_by_the_id_that_is_shown(cloud):
    demo = cloud.client()
    image = demo.upload_image(b'\0' * 1024, name='later')
    with cloud.api_db.writer() as conn:
        db_ids._add(conn, 'ami', [twin(image)])
    client = test_ec2.boto(cloud, test_ec2.keys_of(demo))
    shown, = {row['ImageId'] for row in client.describe_images()['Images'] if row['Name'] == 'later'}
    assert len(shown) == len('ami-') + 8
    assert client.describe_images(ImageIds=[shown])['Images'][0]['Name'] == 'later'
    client.create_tags(Resources=[shown], Tags=[{'Key': 'k', 'Value': 'v'}])
    assert [row['ResourceId'] for row in client.describe_tags(Filters=[{'Name': 'key', 'Values': ['k']}])['Tags']] == [
        shown]
    with refusal('InvalidAMIID.NotFound'):
        client.describe_image_attribute(ImageId=utils.ec2_id(image, 'ami'), Attribute='description')
