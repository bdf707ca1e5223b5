"""Headers and dates of signatures of version 4, for EC2, STS and S3."""
import datetime

import pytest

from nova.ec2 import errors
from nova.ec2 import signing
from nova.objectstore import errors as s3_errors
from nova.objectstore import signing as s3_signing
from nova.web import aws_signatures

HEADERS = {'host': 'cloud.example', 'x-amz-date': '20260501T120000Z', 'x-amz-content-sha256': 'a' * 64}


def test_headers_are_read_in_their_canonical_form():
    environ = {'HTTP_HOST': 'cloud.example', 'HTTP_COOKIE': '  a=1;\t  b=\xc3\xa0  ', 'CONTENT_LENGTH': '12',
               'CONTENT_TYPE': '', 'HTTP_X_RAW': '\xff', 'wsgi.input': None}
    assert aws_signatures.headers_of(environ) == {
        'host': 'cloud.example', 'cookie': 'a=1; b=\xe0', 'content-length': '12', 'x-raw': '\udcff'}


def test_covered_headers_keep_their_order_and_an_absent_one_is_empty():
    names = 'host;accept;absent;x-amz-content-sha256;x-amz-date'
    found = aws_signatures.covered({**HEADERS, 'accept': '*/*'}, names, False)
    assert list(found.items()) == [('host', 'cloud.example'), ('accept', '*/*'), ('absent', ''), (
        'x-amz-content-sha256', 'a' * 64), ('x-amz-date', '20260501T120000Z')]


@pytest.mark.parametrize('names, more, reason', [
    ('x-amz-content-sha256;x-amz-date', {}, 'header host is sent but not signed'),
    ('host;x-amz-content-sha256', {}, 'header x-amz-date is sent but not signed'),
    ('host;x-amz-content-sha256;x-amz-date', {'x-amz-meta-a': 'b'}, 'header x-amz-meta-a is sent'),
    ('host;host;x-amz-content-sha256;x-amz-date', {}, 'different header names'),
    ('Host;x-amz-content-sha256;x-amz-date', {}, 'lower case'),
    ('', {}, 'different header names'),
    (';'.join(['host', 'x-amz-content-sha256', 'x-amz-date', *(f'n{n}' for n in range(62))]), {}, '1 to 64'),
    ('cookie;host;x-amz-content-sha256;x-amz-date', {'cookie': 'c' * (16 * 1024)}, 'larger than 16384 bytes'),
])
def test_an_incomplete_or_oversized_list_of_signed_headers_gets_403(names, more, reason):
    headers = {**HEADERS, **more}
    with pytest.raises(aws_signatures.Incomplete, match=reason):
        aws_signatures.covered(headers, names, False)
    environ = {'REQUEST_METHOD': 'POST', 'PATH_INFO': '/', **{
        'HTTP_' + name.upper().replace('-', '_'): value for name, value in headers.items()}}
    for service, action in (('ec2', 'DescribeRegions'), ('sts', 'GetCallerIdentity')):
        proof = (f'AWS4-HMAC-SHA256 Credential=a/20260501/r/{service}/aws4_request, SignedHeaders={names}, '
                 f'Signature={"0" * 64}')
        with pytest.raises(errors.Ec2Error, match=reason) as refused:
            signing.signed_of({**environ, 'HTTP_AUTHORIZATION': proof}, b'', [('Action', action)])
        assert (refused.value.code, refused.value.status) == ('SignatureDoesNotMatch', 403)
    proof = f'AWS4-HMAC-SHA256 Credential=a/20260501/r/s3/aws4_request,SignedHeaders={names},Signature={"0" * 64}'
    if names:                                    # S3 has another error for no list
        with pytest.raises(s3_errors.S3Error, match=reason) as refused:
            s3_signing.signed_of({**environ, 'HTTP_AUTHORIZATION': proof}, {}, datetime.datetime(2026, 5, 1, 12))
        assert (refused.value.code, refused.value.status) == ('AccessDenied', 403)


def test_the_hash_of_the_content_may_be_unsigned_in_a_signed_url():
    assert set(aws_signatures.covered(HEADERS, 'host;x-amz-date', True)) == {'host', 'x-amz-date'}


@pytest.mark.parametrize('headers, date', [
    ({'x-amz-date': '20260501T120000Z', 'date': 'Fri, 01 May 2020 12:00:00 GMT'}, '20260501T120000Z'),
    ({'x-amz-date': '', 'date': 'Fri, 01 May 2026 12:00:00 GMT'}, ''),
    ({'date': 'Fri, 01 May 2026 12:00:00 GMT'}, '20260501T120000Z'),
    ({'date': '20260501T120000Z'}, '20260501T120000Z'), ({'date': 'yesterday'}, 'yesterday'), ({}, '')])
def test_a_request_without_x_amz_date_is_dated_by_its_date_header(headers, date):
    assert aws_signatures.date_of(headers) == date


def test_keystone_gets_signed_headers_and_a_date_alone():
    proof = ('AWS4-HMAC-SHA256 Credential=a/20260501/r/ec2/aws4_request, SignedHeaders=content-length;date;host, '
             f'Signature={"0" * 64}')
    environ = {'REQUEST_METHOD': 'POST', 'HTTP_HOST': 'cloud.example', 'HTTP_AUTHORIZATION': proof,
               'CONTENT_LENGTH': '0', 'HTTP_DATE': 'Fri, 01 May 2026 12:00:00 GMT', 'HTTP_ACCEPT': '*/*'}
    assert signing.signed_of(environ, b'', [])['headers'] == {
        'Content-Length': '0', 'Date': 'Fri, 01 May 2026 12:00:00 GMT', 'Host': 'cloud.example',
        'X-Amz-Date': '20260501T120000Z', 'Authorization': proof}
