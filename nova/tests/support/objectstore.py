"""What tests share with nova/tests/functional/test_objectstore.py."""
import os

import boto3
import botocore.config
import botocore.exceptions
import pytest

from nova.tests.functional import cloud as whole
from nova.tests.support import ec2 as test_ec2


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('s3'), ['host1'], objectstore__enabled=True,
                       objectstore__buckets=4) as running:
        yield running


def connect(cloud, pair, **config):
    return boto3.client('s3', endpoint_url=cloud.url + '/objectstore', region_name='RegionOne',
                        aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'],
                        config=botocore.config.Config(retries={'max_attempts': 0}, s3={'addressing_style': 'path'},
                                                      parameter_validation=False, **config))


@pytest.fixture(scope='module')
def pair(cloud):
    return test_ec2.keys_of(cloud.client())


@pytest.fixture(scope='module')
def s3(cloud, pair):
    return connect(cloud, pair)


@pytest.fixture
def bucket(s3):
    name = 'b-' + os.urandom(4).hex()
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator('list_multipart_uploads').paginate(Bucket=name):
        for row in page.get('Uploads', ()):
            s3.abort_multipart_upload(Bucket=name, Key=row['Key'], UploadId=row['UploadId'])
    for page in s3.get_paginator('list_objects_v2').paginate(Bucket=name):
        for row in page.get('Contents', ()):
            s3.delete_object(Bucket=name, Key=row['Key'])
    s3.delete_bucket(Bucket=name)


def code(call, **given):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**given)
    return error.value.response['Error']['Code'], error.value.response['ResponseMetadata']['HTTPStatusCode']
