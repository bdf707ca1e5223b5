"""The object store with boto3, in a whole cloud, and with requests that no client sends."""
import base64
import concurrent.futures
import datetime
import hashlib
import io
import os
import types

import boto3
import pytest
import requests
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.db.objects import objects
from nova.db.objects import tables
from nova.objectstore import errors
from nova.objectstore import part as object_store
from nova.objectstore import store as stores
from nova.runtime import disk_space
from nova.tests.support import waiting
from nova.tests.functional import callers
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import objectstore
from nova.tests.support.objectstore import code
from nova.tests.support.objectstore import connect

bucket = objectstore.bucket
cloud = objectstore.cloud
pair = objectstore.pair
s3 = objectstore.s3


MIB = 1 << 20


def test_token_with_access_rules_is_refused_with_the_reason():
    data = types.SimpleNamespace(project_id='p', user_id='u', roles=['member'], credential={'access_rules': []})
    callers = object_store.LocalCallers(types.SimpleNamespace(validate=lambda _token: data))
    with pytest.raises(errors.S3Error, match='an application credential with access rules, which the object store'):
        callers.owner('t')


def test_the_kernel_sends_objects_and_images(cloud, s3, bucket, monkeypatch):
    """What stands before the faces leaves their files to the HTTP server."""
    sent, real = [], os.sendfile
    monkeypatch.setattr(os, 'sendfile', lambda *args: sent.append(real(*args)) or sent[-1])
    data, demo = os.urandom(2 * MIB), cloud.client()
    s3.put_object(Bucket=bucket, Key='sent', Body=data)
    image = f'/image/v2/images/{demo.upload_image(data)}'
    reads = (lambda: s3.get_object(Bucket=bucket, Key='sent')['Body'].read(),
             lambda: s3.get_object(Bucket=bucket, Key='sent', Range='bytes=5-')['Body'].read(),
             lambda: demo.get(f'{image}/file').content,
             lambda: demo.get(f'{image}/file', headers={'Range': 'bytes=5-'}).content)
    for read in reads:
        least = sum(sent) + MIB
        assert read().endswith(data[5:])
        waiting.wait_for(lambda least=least: sum(sent) >= least, 5, 'the kernel to have sent it')
    demo.delete(image)


def test_object_is_stored_read_and_deleted(s3, bucket):
    data = os.urandom(3 * MIB + 7)
    made = s3.put_object(Bucket=bucket, Key='a/ü b+%.bin', Body=data, ContentType='x/y', CacheControl='no-cache',
                         Metadata={'colour': 'blue'})
    assert made['ETag'] == f'"{hashlib.md5(data).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key='a/ü b+%.bin')
    assert got['Body'].read() == data and got['ContentType'] == 'x/y' and got['Metadata'] == {'colour': 'blue'}
    assert got['CacheControl'] == 'no-cache' and got['ETag'] == made['ETag']
    head = s3.head_object(Bucket=bucket, Key='a/ü b+%.bin')
    assert head['ContentLength'] == len(data) and head['Metadata'] == {'colour': 'blue'}
    for span, wanted in (('bytes=0-0', data[:1]), ('bytes=5-9', data[5:10]), ('bytes=-4', data[-4:]),
                         (f'bytes={len(data) - 2}-', data[-2:]), ('bytes=0-99999999', data)):
        got = s3.get_object(Bucket=bucket, Key='a/ü b+%.bin', Range=span)
        assert got['Body'].read() == wanted and got['ResponseMetadata']['HTTPStatusCode'] == 206
        head = s3.head_object(Bucket=bucket, Key='a/ü b+%.bin', Range=span)
        assert head['ContentLength'] == len(wanted) and head['ContentRange'] == got['ContentRange']
    assert code(s3.get_object, Bucket=bucket, Key='a/ü b+%.bin', Range=f'bytes={len(data)}-') == ('InvalidRange', 416)
    assert code(s3.head_object, Bucket=bucket, Key='a/ü b+%.bin', Range=f'bytes={len(data)}-')[1] == 416
    got = s3.get_object(Bucket=bucket, Key='a/ü b+%.bin', Range='bytes=5-2')        # not valid, so it is ignored
    assert got['Body'].read() == data and got['ResponseMetadata']['HTTPStatusCode'] == 200
    head = s3.head_object(Bucket=bucket, Key='a/ü b+%.bin', ResponseContentType='z/z')
    assert head['ContentType'] == 'z/z' and head['ResponseMetadata']['HTTPStatusCode'] == 200
    assert code(s3.get_object, Bucket=bucket, Key='a/ü b+%.bin', IfMatch='"x"') == ('PreconditionFailed', 412)
    assert code(s3.get_object, Bucket=bucket, Key='a/ü b+%.bin', IfNoneMatch=made['ETag'])[1] == 304
    copied = s3.copy_object(Bucket=bucket, Key='copy', CopySource={'Bucket': bucket, 'Key': 'a/ü b+%.bin'})
    assert copied['CopyObjectResult']['ETag'] == made['ETag']
    assert s3.head_object(Bucket=bucket, Key='copy')['Metadata'] == {'colour': 'blue'}
    s3.copy_object(Bucket=bucket, Key='copy', CopySource={'Bucket': bucket, 'Key': 'copy'}, Metadata={'colour': 'red'},
                   MetadataDirective='REPLACE')
    assert s3.head_object(Bucket=bucket, Key='copy')['Metadata'] == {'colour': 'red'}
    s3.put_object(Bucket=bucket, Key='copy', Body=b'other')
    assert s3.get_object(Bucket=bucket, Key='copy')['Body'].read() == b'other'
    s3.delete_object(Bucket=bucket, Key='copy')
    s3.delete_object(Bucket=bucket, Key='copy')
    assert code(s3.get_object, Bucket=bucket, Key='copy') == ('NoSuchKey', 404)
    assert code(s3.delete_bucket, Bucket=bucket) == ('BucketNotEmpty', 409)
    assert [row['Key'] for row in s3.list_objects_v2(Bucket=bucket)['Contents']] == ['a/ü b+%.bin']


def test_copies_of_keys_with_a_question_mark(cloud, pair, s3, bucket):
    """The source was decoded before the version was split off: a copy of "a?" was a copy of "a"."""
    for key in ('a', 'a?', 'a?b', 'a%3F', 'a\N{REPLACEMENT CHARACTER}'):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    place = {'Bucket': bucket, 'Key': 'copy'}
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId'], 'PartNumber': 1}
    for key in ('a', 'a?', 'a?b', 'a%3F'):
        source = {'Bucket': bucket, 'Key': key}
        s3.copy_object(**place, CopySource=source)
        assert s3.get_object(**place)['Body'].read() == key.encode()
        etag = s3.upload_part_copy(**upload, CopySource=source)['CopyPartResult']['ETag']
        assert etag == f'"{hashlib.md5(key.encode()).hexdigest()}"'
    assert code(s3.copy_object, **place, CopySource={'Bucket': bucket, 'Key': 'a', 'VersionId': 'x'})[1] == 501
    for source, status in (('a?', 501), ('a%ff', 400)):
        answer = raw(cloud, pair, 'PUT', f'/{bucket}/copy', headers={'x-amz-copy-source': f'{bucket}/{source}'})
        assert answer.status_code == status, answer.text


def test_object_lists_are_paged_in_key_order(s3, bucket):
    keys = ['a', 'a/1', 'a/2', 'b/1/x', 'b/2', 'c', 'ä/1', 'ä/2']
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b'x')
    for size in (1, 2, 3, 1000):
        pages = s3.get_paginator('list_objects_v2').paginate(Bucket=bucket, PaginationConfig={'PageSize': size})
        assert [row['Key'] for page in pages for row in page.get('Contents', ())] == keys
        pages = s3.get_paginator('list_objects').paginate(Bucket=bucket, Delimiter='/',
                                                          PaginationConfig={'PageSize': size})
        found = [[row['Key'] for row in page.get('Contents', ())] + [
            row['Prefix'] for row in page.get('CommonPrefixes', ())] for page in pages]
        assert sorted(sum(found, [])) == ['a', 'a/', 'b/', 'c', 'ä/'], size
    assert [row['Prefix'] for row in s3.list_objects_v2(Bucket=bucket, Prefix='b/', Delimiter='/')['CommonPrefixes']
            ] == ['b/1/']
    assert s3.list_objects_v2(Bucket=bucket, StartAfter='b/1/x')['KeyCount'] == 4
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)['KeyCount'] == 0
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=2 ** 31 - 1)['KeyCount'] == len(keys)
    first = s3.list_objects(Bucket=bucket, Delimiter='/', MaxKeys=2)
    assert first['NextMarker'] == 'a/'
    following = s3.list_objects(Bucket=bucket, Delimiter='/', Marker='a/')
    assert [row['Prefix'] for row in following['CommonPrefixes']] == ['b/', 'ä/']
    assert s3.list_objects_v2(Bucket=bucket, Delimiter='/', StartAfter='a/')['CommonPrefixes'][0] == {'Prefix': 'a/'}
    gone = s3.delete_objects(Bucket=bucket, Delete={'Objects': [{'Key': 'a'}, {'Key': 'none & <no>'}]})
    assert [row['Key'] for row in gone['Deleted']] == ['a', 'none & <no>']


def test_multipart_upload_is_joined(s3, bucket):
    data = os.urandom(11 * MIB)
    s3.upload_fileobj(io.BytesIO(data), bucket, 'large', Config=boto3.s3.transfer.TransferConfig(
        multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB))
    got = s3.get_object(Bucket=bucket, Key='large')
    assert got['Body'].read() == data and got['ETag'].endswith('-3"')
    s3.copy({'Bucket': bucket, 'Key': 'large'}, bucket, 'twin', Config=boto3.s3.transfer.TransferConfig(
        multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB))
    assert s3.get_object(Bucket=bucket, Key='twin')['Body'].read() == data
    place = {'Bucket': bucket, 'Key': 'small'}
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId']}
    parts = [{'PartNumber': number, 'ETag': s3.upload_part(**upload, PartNumber=number, Body=b'x')['ETag']}
             for number in (1, 2)]
    assert [row['PartNumber'] for row in s3.list_parts(**upload)['Parts']] == [1, 2]
    for wrong, refused in ((parts, 'EntityTooSmall'), (parts[::-1], 'InvalidPartOrder'), (
            [{**parts[0], 'ETag': '"0"'}], 'InvalidPart'), ([{**parts[0], 'PartNumber': 3}], 'InvalidPart')):
        assert code(s3.complete_multipart_upload, **upload, MultipartUpload={'Parts': wrong})[0] == refused
    s3.complete_multipart_upload(**upload, MultipartUpload={'Parts': parts[:1]})
    assert s3.get_object(**place)['Body'].read() == b'x'
    assert code(s3.abort_multipart_upload, **upload) == ('NoSuchUpload', 404)
    assert 'Uploads' not in s3.list_multipart_uploads(Bucket=bucket)


def test_range_of_a_copied_part_must_be_valid(s3, bucket):
    """A malformed range was ignored: the part became a copy of the whole source."""
    s3.put_object(Bucket=bucket, Key='source', Body=b'0123456789')
    place = {'Bucket': bucket, 'Key': 'ranges'}
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId']}
    part = {**upload, 'PartNumber': 1, 'CopySource': {'Bucket': bucket, 'Key': 'source'}}
    for wrong in ('0-2', 'bytes=0', 'bytes=0-', 'bytes=-3', 'bytes=hello-world', 'bytes=0-2,3-5', 'bytes=3-2', '',
                  'bytes=0-10', 'bytes=10-11'):
        assert code(s3.upload_part_copy, **part, CopySourceRange=wrong) == ('InvalidArgument', 400), wrong
    etag = s3.upload_part_copy(**part, CopySourceRange='bytes=2-9')['CopyPartResult']['ETag']
    s3.complete_multipart_upload(**upload, MultipartUpload={'Parts': [{'PartNumber': 1, 'ETag': etag}]})
    assert s3.get_object(**place)['Body'].read() == b'23456789'


def test_parts_beyond_the_largest_object_are_refused(s3, bucket, monkeypatch):
    """The limit was documented, and nothing looked at it."""
    monkeypatch.setattr(stores, 'MAX_OBJECT', 1)
    place = {'Bucket': bucket, 'Key': 'huge'}
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId']}
    parts = [{'PartNumber': 1, 'ETag': s3.upload_part(**upload, PartNumber=1, Body=b'xy')['ETag']}]
    assert code(s3.complete_multipart_upload, **upload, MultipartUpload={'Parts': parts})[0] == 'EntityTooLarge'
    assert code(s3.head_object, **place)[1] == 404
    s3.abort_multipart_upload(**upload)


def test_presigned_urls_and_streamed_uploads_work(cloud, s3, bucket, pair):
    url = s3.generate_presigned_url('put_object', {'Bucket': bucket, 'Key': 'p'}, ExpiresIn=600)
    assert requests.put(url, b'presigned').status_code == 200
    url = s3.generate_presigned_url('get_object', {'Bucket': bucket, 'Key': 'p'}, ExpiresIn=600)
    assert requests.get(url).content == b'presigned' and requests.put(url, b'x').status_code == 403
    assert requests.get(url.replace('/p?', '/q?')).status_code == 403
    for seconds, status in ((604800, 200), (604801, 400)):
        long = s3.generate_presigned_url('get_object', {'Bucket': bucket, 'Key': 'p'}, ExpiresIn=seconds)
        assert requests.get(long).status_code == status

    class Pipe(io.RawIOBase):                 # has no length and no way back: boto3 sends it as a stream of parts
        def __init__(self, data):
            self._data = io.BytesIO(data)

        def readable(self):
            return True

        def readinto(self, buffer):
            return self._data.readinto(buffer)
    s3.upload_fileobj(Pipe(b'y' * MIB), bucket, 'piped')
    assert s3.get_object(Bucket=bucket, Key='piped')['Body'].read() == b'y' * MIB


def test_signature_version_2_is_accepted(cloud, s3, bucket, pair):
    second = connect(cloud, pair, signature_version='s3')
    second.put_object(Bucket=bucket, Key='a b/ü', Body=b'two', Metadata={'a': 'b'})
    assert second.get_object(Bucket=bucket, Key='a b/ü')['Body'].read() == b'two'
    assert second.delete_objects(Bucket=bucket, Delete={'Objects': [{'Key': 'none'}]})['Deleted']
    url = second.generate_presigned_url('get_object', {'Bucket': bucket, 'Key': 'a b/ü'}, ExpiresIn=600)
    assert 'Expires=' in url and requests.get(url).content == b'two'
    assert requests.get(url.replace('Expires=', 'Expires=1')).status_code == 403
    assert requests.get(second.generate_presigned_url('get_object', {'Bucket': bucket, 'Key': 'a b/ü'},
                                                      ExpiresIn=-5)).status_code == 403
    wrong = connect(cloud, {**pair, 'secret': 'wrong'}, signature_version='s3')
    assert code(wrong.list_buckets) == ('SignatureDoesNotMatch', 403)


def aws_chunked(data, trailer):
    return f'{len(data):x}\r\n'.encode() + data + b'\r\n0\r\n' + trailer + b'\r\n\r\n'


@pytest.mark.parametrize('trailer, status', [
    (b'x-amz-checksum-crc32:' + base64.b64encode((0x3610a686).to_bytes(4, 'big')), 200),
    (b'x-amz-checksum-crc32:' + base64.b64encode(b'1234'), 400), (b'', 400), (b'x-amz-checksum-sha1:aaaa', 400)])
def test_chunked_body_with_a_trailer_is_verified(cloud, pair, bucket, s3, trailer, status):
    answer = raw(cloud, pair, 'PUT', f'/{bucket}/chunked', aws_chunked(b'hello', trailer), {
        'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER', 'x-amz-decoded-content-length': '5',
        'x-amz-trailer': 'x-amz-checksum-crc32', 'content-encoding': 'aws-chunked'})
    assert answer.status_code == status, answer.text
    if status == 200:
        got = s3.get_object(Bucket=bucket, Key='chunked')
        assert got['Body'].read() == b'hello' and 'ContentEncoding' not in got
    else:
        assert code(s3.get_object, Bucket=bucket, Key='chunked')[0] == 'NoSuchKey'


def raw(cloud, pair, method, path, data=b'', headers=(), digest=None):
    """A request that is signed as it stands."""
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
    given = {'x-amz-content-sha256': digest or hashlib.sha256(data).hexdigest(), **dict(headers)}
    request = botocore.awsrequest.AWSRequest(method, cloud.url + '/objectstore' + path, headers=given, data=data)
    keys = botocore.credentials.Credentials(pair['access'], pair['secret'])
    signer = botocore.auth.S3SigV4Auth(keys, 's3', 'RegionOne')
    signer.payload = lambda request: given['x-amz-content-sha256']
    request.context['payload_signing_enabled'] = True
    signer.add_auth(request)
    request.headers.replace_header('X-Amz-Content-SHA256', given['x-amz-content-sha256'])
    prepared = request.prepare()
    return requests.request(method, prepared.url, data=data, headers=dict(prepared.headers))


@pytest.mark.parametrize('query', ('prefix=%01', 'delimiter=%01', 'marker=%01', 'prefix=%01&uploads='))
def test_answers_have_no_characters_that_xml_cannot_contain(cloud, pair, bucket, query):
    answer = raw(cloud, pair, 'GET', f'/{bucket}?{query}')
    assert answer.status_code == 400 and '<Code>InvalidArgument</Code>' in answer.text
    answer = raw(cloud, pair, 'GET', f'/{bucket}?encoding-type=url&{query}')
    assert answer.status_code == 200 and '%01' in answer.text


def test_a_content_is_the_one_that_was_signed(cloud, pair, bucket, s3):
    assert raw(cloud, pair, 'PUT', f'/{bucket}/k', b'abc').status_code == 200
    other = hashlib.sha256(b'abd').hexdigest()
    for headers, digest, refused in (
            ({}, other, 'XAmzContentSHA256Mismatch'), ({'content-md5': 'AAAA'}, None, 'BadDigest'),
            ({'x-amz-checksum-crc32': 'AAAAAA=='}, None, 'BadDigest'),
            ({'x-amz-checksum-crc32c': 'AAAAAA=='}, None, 'BadDigest'),
            ({'x-amz-checksum-crc64nvme': 'AAAAAAAAAAA='}, None, 'BadDigest'),
            ({'x-amz-acl': 'public-read'}, None, 'NotImplemented'), ({'x-amz-tagging': 'a=b'}, None, 'NotImplemented'),
            ({'x-amz-server-side-encryption': 'AES256'}, None, 'NotImplemented'),
            ({'if-none-match': '*'}, None, 'NotImplemented'), ({'x-amz-meta-a': 'x' * 2048}, None, 'MetadataTooLarge')):
        answer = raw(cloud, pair, 'PUT', f'/{bucket}/k', b'other' if digest else b'xyz', headers, digest)
        assert f'<Code>{refused}</Code>' in answer.text, (headers, answer.text)
    assert s3.get_object(Bucket=bucket, Key='k')['Body'].read() == b'abc', 'the one before stays whole'


def test_conditions_of_writes_are_refused(s3, bucket):
    place, source = {'Bucket': bucket, 'Key': 'k'}, {'Bucket': bucket, 'Key': 'source'}
    s3.put_object(**place, Body=b'abc')
    s3.put_object(**source, Body=b'other')
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId']}
    parts = {'Parts': [{'PartNumber': 1, 'ETag': s3.upload_part(**upload, PartNumber=1, Body=b'x')['ETag']}]}
    for call, given in ((s3.copy_object, {**place, 'CopySource': source, 'IfNoneMatch': '*'}),
                        (s3.complete_multipart_upload, {**upload, 'MultipartUpload': parts, 'IfNoneMatch': '*'}),
                        (s3.delete_object, {**place, 'IfMatch': '"old"'}),
                        (s3.delete_object, {**place, 'IfMatchSize': 7}),
                        (s3.create_bucket, {'Bucket': f'{bucket}-locked', 'ObjectLockEnabledForBucket': True})):
        assert code(call, **given) == ('NotImplemented', 501), given
    for call, given in ((s3.delete_object, place), (s3.copy_object, {**place, 'CopySource': source})):
        assert code(call, **given, ExpectedBucketOwner='123456789012') == ('AccessDenied', 403)
    assert s3.get_object(**place)['Body'].read() == b'abc'
    assert bucket in {row['Name'] for row in s3.list_buckets()['Buckets']}
    assert f'{bucket}-locked' not in {row['Name'] for row in s3.list_buckets()['Buckets']}


def test_a_copy_checks_the_conditions_of_its_source(s3, bucket):
    place, source = {'Bucket': bucket, 'Key': 'k'}, {'Bucket': bucket, 'Key': 'source'}
    etag = s3.put_object(**source, Body=b'other')['ETag']
    then = s3.head_object(**source)['LastModified']
    before, hour = then - datetime.timedelta(hours=1), datetime.timedelta(hours=1)
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId']}
    for name, false, true in (('IfMatch', '"old"', etag), ('IfNoneMatch', etag, '"old"'),
                              ('IfModifiedSince', then, before), ('IfUnmodifiedSince', before, then + hour)):
        for call, given in ((s3.copy_object, place), (s3.upload_part_copy, {**upload, 'PartNumber': 1})):
            given = {**given, 'CopySource': source}
            s3.put_object(**place, Body=b'abc')
            assert code(call, **given, **{f'CopySource{name}': false}) == ('PreconditionFailed', 412), name
            assert s3.get_object(**place)['Body'].read() == b'abc'
            call(**given, **{f'CopySource{name}': true})
    s3.copy_object(**place, CopySource=source, CopySourceIfMatch=etag, CopySourceIfUnmodifiedSince=before)
    assert s3.get_object(**place)['Body'].read() == b'other'
    s3.abort_multipart_upload(**upload)


@pytest.mark.parametrize('body', [
    b'<!DOCTYPE a [<!ENTITY b "c">]><Delete><Object><Key>&b;</Key></Object></Delete>', b'<Delete', b'', b'<Delete/>',
    b'<Other/>', b'\xff', b'<Delete><Object/></Delete>',
    b'<Delete>' + b'<Object><Key>k</Key></Object>' * 1001 + b'</Delete>'])
def test_invalid_xml_documents_return_malformed_xml(cloud, pair, bucket, body):
    answer = raw(cloud, pair, 'POST', f'/{bucket}?delete=', body)
    assert answer.status_code == 400 and '<Code>MalformedXML</Code>' in answer.text, answer.text


@pytest.mark.parametrize('key', ['../../../etc/passwd', '..', '.', 'a/../b', '/lead', 'a//b', '%2e%2e/x', '\\x',
                                 'a?b=c', '-rf', '$(id)', 'ﬁ', '𝄞'])
def test_a_key_is_a_key_and_no_path(s3, bucket, key, cloud):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)['Body'].read() == key.encode()
    assert [row['Key'] for row in s3.list_objects_v2(Bucket=bucket)['Contents']] == [key]
    names = {path.name for path in (cloud.state_path / 'objects' / 'contents').rglob('*') if path.is_file()}
    assert all(len(name) == 32 and int(name, 16) for name in names)


def test_a_project_sees_its_own(cloud, s3, bucket):
    s3.put_object(Bucket=bucket, Key='canary', Body=b'canary')
    identity = callers.Identity(cloud.admin())
    reader, member, admin = (connect(cloud, test_ec2.keys_of(identity.in_project('other', role), cloud.admin()))
                             for role in ('reader', 'member', 'admin'))
    for client in (reader, member, admin):
        assert [row['Name'] for row in client.list_buckets()['Buckets']] == []
        for call, given in ((client.list_objects_v2, {}), (client.get_object, {'Key': 'canary'}),
                            (client.get_bucket_location, {}), (client.list_multipart_uploads, {})):
            assert code(call, Bucket=bucket, **given) == ('NoSuchBucket', 404)
    assert code(member.put_object, Bucket=bucket, Key='canary', Body=b'x') == ('NoSuchBucket', 404)
    assert code(member.delete_object, Bucket=bucket, Key='canary') == ('NoSuchBucket', 404)
    member.create_bucket(Bucket=bucket)                        # names are a project's own
    assert code(member.copy_object, Bucket=bucket, Key='x', CopySource={'Bucket': bucket, 'Key': 'canary'}) == (
        'NoSuchKey', 404)
    assert code(reader.put_object, Bucket=bucket, Key='x', Body=b'x') == ('AccessDenied', 403)
    assert code(member.create_bucket, Bucket=bucket) == ('BucketAlreadyOwnedByYou', 409)
    assert s3.get_object(Bucket=bucket, Key='canary')['Body'].read() == b'canary'


def test_the_catalog_has_it_where_it_is_on(cloud):
    answer = cloud.client().get('/identity/v3/auth/catalog').json()['catalog']
    assert [entry['endpoints'][0]['url'] for entry in answer if entry['type'] == 's3'] == [cloud.url + '/objectstore']


def test_unsigned_and_unsupported_s3_requests_are_refused(cloud, pair, bucket):
    assert requests.get(f'{cloud.url}/objectstore/{bucket}').status_code == 403
    assert raw(cloud, {**pair, 'secret': 'x'}, 'GET', f'/{bucket}').status_code == 403
    assert raw(cloud, {**pair, 'access': 'x'}, 'GET', f'/{bucket}').status_code == 403
    for query in ('?policy=', '?versions=', '?tagging=', '?website='):
        assert raw(cloud, pair, 'GET', f'/{bucket}{query}').status_code == 501
    assert raw(cloud, pair, 'PATCH', f'/{bucket}').status_code == 405


def test_names_and_numbers_of_buckets(s3, bucket):
    for name in ('ab', 'A-bucket', 'a_b', '-ab', 'a..b', 'x' * 64):
        assert code(s3.meta.client.create_bucket if hasattr(s3.meta, 'client') else s3.create_bucket,
                    Bucket=name)[0] == 'InvalidBucketName'
    made = []
    try:
        for number in range(3):
            s3.create_bucket(Bucket=f'more-{number}')
            made.append(f'more-{number}')
        assert code(s3.create_bucket, Bucket='more-4')[0] == 'TooManyBuckets'
    finally:
        for name in made:
            s3.delete_bucket(Bucket=name)
    assert s3.get_bucket_location(Bucket=bucket)['LocationConstraint'] == 'RegionOne'
    assert s3.get_bucket_acl(Bucket=bucket)['Grants'][0]['Permission'] == 'FULL_CONTROL'
    assert code(s3.put_bucket_acl, Bucket=bucket, ACL='public-read')[0] == 'NotImplemented'


def test_writes_are_in_the_audit_log(cloud, pair, s3, bucket):
    place = {'Bucket': bucket, 'Key': 'a/ü'}
    upload = s3.create_multipart_upload(**place)['UploadId']
    part = {'PartNumber': 1, 'ETag': s3.upload_part(**place, UploadId=upload, PartNumber=1, Body=b'x')['ETag']}
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={'Parts': [part]})
    s3.get_object(**place)
    s3.copy_object(Bucket=bucket, Key='copy', CopySource=place)
    s3.delete_objects(Bucket=bucket, Delete={'Objects': [{'Key': 'copy'}, {'Key': 'none'}]})
    code(s3.delete_bucket, Bucket=bucket)
    s3.delete_object(**place)
    reader = callers.Identity(cloud.admin()).in_project('readers', 'reader')
    code(connect(cloud, test_ec2.keys_of(reader, cloud.admin())).create_bucket, Bucket=bucket)
    raw(cloud, {**pair, 'secret': 'x'}, 'PUT', f'/{bucket}/forged')
    found = cloud.admin().get('/os-audit?all_projects=true&limit=100').json()['audit_records']
    mine = [row for row in reversed(found) if row['target_id'] == bucket and row['action'] != 'objectstore:make_bucket']
    assert [(row['action'].partition(':')[2], row['target_part'], row['code'], row['outcome'], row['reason'])
            for row in mine] == [
        ('begin_upload', 'a/ü', 200, 'accepted', None), ('put_part', 'a/ü', 200, 'accepted', None),
        ('complete', 'a/ü', 200, 'accepted', None), ('put', 'copy', 200, 'accepted', None),
        ('remove_objects', '2: copy, none', 200, 'accepted', None),
        ('remove_bucket', None, 409, 'failed', 'BucketNotEmpty'), ('remove', 'a/ü', 204, 'accepted', None)]
    client = cloud.client()
    assert all((row['user_id'], row['project_id'], row['remote_address']) == (
        client.user_id, client.project_id, '127.0.0.1') and row['request_id'].startswith('req-') for row in mine)
    assert mine[1]['route'] == '/{bucket}/{key}?uploadId' and mine[1]['target_type'] == 'objects'
    refused, made = [row for row in found if row['target_id'] == bucket and row['action'] == 'objectstore:make_bucket']
    assert (refused['user_id'], refused['outcome'], refused['reason']) == (reader.user_id, 'denied', 'AccessDenied')
    assert made['outcome'] == 'accepted' and made['target_type'] == 'buckets'


def test_the_daemon_keeps_records_where_it_knows_the_database(cloud):
    conf = nova_conf.new(files=[], api_database__connection=f'sqlite:///{cloud.state_path}/api.sqlite')
    finish, database = object_store.finish_of(conf)
    record = log.Record('PUT', '/{bucket}', 'objectstore:make_bucket', target_type='buckets', target_id='of-a-daemon')
    finish(record, 200)
    database.dispose()
    path = '/os-audit?all_projects=true&limit=1&action=objectstore:make_bucket'
    found = cloud.admin().get(path).json()['audit_records']
    assert (found[0]['target_id'], found[0]['code']) == ('of-a-daemon', 200)
    finish, database = object_store.finish_of(nova_conf.new(files=[]))
    assert database is None


# ---- the store itself

@pytest.fixture
def store(tmp_path):
    made = stores.Store(tmp_path, stores.Limits(100, 3, 10), disk_space.Reserve())
    made.make_bucket('p', 'bucket')
    yield made
    made.close()


def put(store, key, data, etag='0' * 32):
    return store.put('p', 'bucket', key, iter([data]), len(data), {}, lambda: etag)


def files(path):
    return {each.name for each in (path / 'contents').glob('*/*')}


def test_quotas_count_what_is_there(store, tmp_path):
    put(store, 'a', b'x' * 60)
    with pytest.raises(errors.S3Error, match='bytes'):
        put(store, 'b', b'x' * 41)
    put(store, 'a', b'x' * 100)
    store.remove('p', 'bucket', ['a'])
    for key in 'abc':
        put(store, key, b'')
    with pytest.raises(errors.S3Error, match='3 objects'):
        put(store, 'd', b'')
    store.remove('p', 'bucket', ['c'])
    upload = store.begin_upload('p', 'bucket', 'a', {})
    store.put_part('p', 'bucket', 'a', upload, 1, [b'x' * 99], 99, lambda: '0' * 32)
    with pytest.raises(errors.S3Error, match='bytes'):
        put(store, 'a', b'xx')
    store.abort('p', 'bucket', 'a', upload)
    put(store, 'a', b'xx')
    assert len(files(tmp_path)) == 2


def test_each_part_of_an_upload_counts_as_an_object(store, tmp_path):
    """Empty parts cost nothing: a project could have ten million files."""
    upload, etag = store.begin_upload('p', 'bucket', 'a', {}), hashlib.md5().hexdigest()

    def part(number, pieces=()):
        store.put_part('p', 'bucket', 'a', upload, number, pieces, 0, lambda: etag)

    def unread():
        raise AssertionError('the part is read although it cannot be stored')
        yield
    for number in (1, 2, 2, 3):
        part(number)
    with pytest.raises(errors.S3Error, match='3 objects'):
        part(4, unread())
    assert len(files(tmp_path)) == 3
    store.abort('p', 'bucket', 'a', upload)
    upload = store.begin_upload('p', 'bucket', 'a', {})
    for number in (1, 2, 3):
        part(number)
    store.complete('p', 'bucket', 'a', upload, [(1, etag)], lambda number, pieces: pieces, None)
    with store._db.reader() as conn:
        assert objects.used(conn, 'p') == (0, 1)


def test_a_start_counts_the_parts_that_an_older_release_did_not_count(store, tmp_path):
    put(store, 'a', b'123')
    upload = store.begin_upload('p', 'bucket', 'b', {})
    for number in (1, 2):
        store.put_part('p', 'bucket', 'b', upload, number, [b'x'], 1, lambda: '0' * 32)
    with store._db.writer() as conn:
        objects.set_used(conn, 'p', 5, 1)
    again = stores.Store(tmp_path, stores.Limits(100, 3, 10), disk_space.Reserve())
    with again._db.reader() as conn:
        assert objects.used(conn, 'p') == (5, 3)
    again.abort('p', 'bucket', 'b', upload)
    with again._db.reader() as conn:
        assert objects.used(conn, 'p') == (3, 1)
    again.close()


def test_the_quota_counts_a_part_beside_the_object_and_in_place_of_itself(store):
    """It took the place of the object, and was read although there was no room, and had none in its own place."""
    put(store, 'a', b'x' * 60)
    upload, read = store.begin_upload('p', 'bucket', 'a', {}), []

    def part(size):
        def pieces():
            read.append(size)
            yield b'x' * size
        return store.put_part('p', 'bucket', 'a', upload, 1, pieces(), size, lambda: '0' * 32)
    with pytest.raises(errors.S3Error, match='bytes'):
        part(41)
    for size in (30, 40):
        assert part(size).size == size
    with pytest.raises(errors.S3Error, match='bytes'):
        part(41)
    assert read == [30, 40]


def test_interrupted_upload_keeps_the_previous_object(store, tmp_path):
    row = put(store, 'a', b'before')

    def broken():
        yield b'aft'
        raise exception.BadRequest('The body broke off.')
    with pytest.raises(exception.BadRequest):
        store.put('p', 'bucket', 'a', broken(), 5, {}, lambda: '')
    assert store.find('p', 'bucket', 'a') == row and files(tmp_path) == {row.file}


def test_a_start_moves_aside_what_a_crash_left(store, tmp_path):
    row = put(store, 'a', b'kept')
    stray = tmp_path / 'contents' / 'ab'
    stray.mkdir(exist_ok=True)
    (stray / ('ab' + '0' * 30)).write_bytes(b'no row names it')
    (stray / ('ab' + '1' * 30 + '.part')).write_bytes(b'half')
    again = stores.Store(tmp_path, stores.Limits(100, 3, 10), disk_space.Reserve())
    assert again.read('p', 'bucket', 'a')[1].read() == b'kept'
    assert files(tmp_path) == {row.file, 'ab' + '0' * 30} and not list(stray.iterdir())
    again.close()


def test_a_start_without_its_index_keeps_every_object(tmp_path, caplog):
    """It made an empty index, and deleted all that was not in it."""
    def start():
        return stores.Store(tmp_path, stores.Limits(100, 3, 10), disk_space.Reserve())
    first = start()
    first.make_bucket('p', 'bucket')
    row = put(first, 'a', b'kept')
    first.close()
    (tmp_path / 'index.sqlite').rename(tmp_path / 'saved')
    for _number in range(2):
        empty = start()
        assert empty.buckets('p') == [] and files(tmp_path) == {row.file}
        empty.close()
    assert '1 files of the object store are not in its index' in caplog.text
    (tmp_path / 'saved').rename(tmp_path / 'index.sqlite')
    again = start()
    with again.read('p', 'bucket', 'a')[1] as file:
        assert file.read() == b'kept'
    again.close()


def test_a_start_deletes_expired_uploads(store, tmp_path, monkeypatch):
    upload = store.begin_upload('p', 'bucket', 'a', {})
    store.put_part('p', 'bucket', 'a', upload, 1, [b'x'], 1, lambda: '0' * 32)
    monkeypatch.setattr(stores, 'UPLOADS_DAYS', -1)
    again = stores.Store(tmp_path, stores.Limits(100, 3, 10), disk_space.Reserve())
    assert files(tmp_path) == set() and not again.uploads('p', 'bucket')
    again.close()


def test_a_new_upload_deletes_those_that_got_no_part_for_days(store, tmp_path, monkeypatch):
    """Only a start did: a project with a thousand of them could begin none until then."""
    monkeypatch.setattr(stores, 'MAX_UPLOADS', 2)
    old, slow = (store.begin_upload('p', 'bucket', key, {}) for key in ('old', 'slow'))
    store.put_part('p', 'bucket', 'old', old, 1, [b'x'], 1, lambda: '0' * 32)
    before = utils.utcnow() - datetime.timedelta(days=stores.UPLOADS_DAYS, hours=1)
    with store._db.writer() as conn:
        conn.execute(sa.update(tables.uploads).values(created_at=before))
        conn.execute(sa.update(tables.parts).values(modified_at=before))
    kept = store.put_part('p', 'bucket', 'slow', slow, 1, [b'x'], 1, lambda: '0' * 32)
    new = store.begin_upload('p', 'bucket', 'new', {})
    assert {row.id for row in store.uploads('p', 'bucket')} == {slow, new} and files(tmp_path) == {kept.file}
    with pytest.raises(errors.S3Error, match='2 incomplete uploads'):
        store.begin_upload('p', 'bucket', 'other', {})


def test_parallel_writers_of_one_key_leave_one_object(store, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: put(store, 'a', bytes([number]) * 20), range(40)))
    row, file = store.read('p', 'bucket', 'a')
    with file:
        assert len(set(file.read())) == 1 and files(tmp_path) == {row.file}
    with store._db.reader() as conn:
        assert objects.used(conn, 'p') == (20, 1)


def test_full_disk_refuses_objects(tmp_path):
    full = stores.Store(tmp_path, stores.Limits(1 << 60, 3, 10), disk_space.Reserve(1 << 60))
    full.make_bucket('p', 'bucket')
    with pytest.raises(exception.InsufficientStorage):
        put(full, 'a', b'x')
    full.close()
