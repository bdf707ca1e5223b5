"""Contents that come in chunks, each with a signature, and checksums behind them."""
import base64
import hashlib
import io
import os
import tracemalloc

from awscrt import checksums
import pytest
import requests

from nova.identity import signatures
from nova.objectstore import contents
from nova.objectstore import digests
from nova.objectstore import errors
from nova.objectstore import framing as frames
from nova.objectstore import payload
from nova.runtime import disk_space
from nova.tests.support import objectstore as test_objectstore
from nova.tests.support import objectstore_chunks
from nova.tests.support.objectstore_chunks import PLAIN
from nova.tests.support.objectstore_chunks import TRAILED
from nova.tests.support.objectstore_chunks import signed_put

bucket = objectstore_chunks.bucket
cloud = objectstore_chunks.cloud
pair = objectstore_chunks.pair
s3 = objectstore_chunks.s3


KIB = 1024
# The example of Amazon's documentation, "Signature Calculations for the Authorization Header: Transferring Payload in
# Multiple Chunks", and the one of the page on trailers: 65 KiB of 'a' in two chunks. The signature of the trailer is
# what the rules of that page give, as Amazon's own clients send it; the one printed there is another.
SECRET, SCOPE = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', '20130524/us-east-1/s3/aws4_request'
EXAMPLES = {
    PLAIN: ('4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
            'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
            '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
            'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9', b''),
    TRAILED: ('106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e',
              'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
              '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
              '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
              b'x-amz-checksum-crc32c:sOO8/Q==\n\r\n'
              b'x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n')}


def example(kind, data=b'a' * 65 * KIB):
    seed, first, second, last, trailer = EXAMPLES[kind]
    body = b''.join(b'%x;chunk-signature=%s\r\n%s\r\n' % (len(piece), made.encode(), piece) for piece, made in (
        (data[:64 * KIB], first), (data[64 * KIB:], second))) + b'0;chunk-signature=%s\r\n' % last.encode()
    chain = digests.Chain(signatures.key_of_scope(SECRET, SCOPE), f'x\n20130524T000000Z\n{SCOPE}\nx', seed)
    return payload.Payload({
        'wsgi.input': io.BytesIO(body + trailer + b'\r\n'), 'CONTENT_LENGTH': '66824',
        'HTTP_X_AMZ_CONTENT_SHA256': kind, 'HTTP_X_AMZ_DECODED_CONTENT_LENGTH': str(65 * KIB),
        **({'HTTP_X_AMZ_TRAILER': 'x-amz-checksum-crc32c'} if trailer else {})}, 1 << 20, chain)


@pytest.mark.parametrize('kind', EXAMPLES)
def test_documented_chunk_signatures_are_accepted(kind):
    assert b''.join(example(kind)) == b'a' * 65 * KIB
    with pytest.raises(errors.S3Error, match='signature of a chunk'):
        list(example(kind, b'a' * 64 * KIB + b'b' * KIB))


@pytest.mark.parametrize('most', [1, 7, 4096, 65536 + 90])
def test_frames_are_read_however_they_come(most):
    """Lines and contents are cut out of what one read brings, and lie across two of them."""
    class Slow(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, most))
    for kind in EXAMPLES:
        body = example(kind)
        body._input = Slow(body._input.read())
        assert b''.join(body) == b'a' * 65 * KIB


def test_a_line_without_an_end_is_not_looked_at_for_long():
    reads = []

    def read(size):
        reads.append(size)
        return b'x' * 100
    assert frames.FrameReader(read, KIB).line() == b'x' * frames.MAX_LINE and len(reads) == 3
    short = frames.FrameReader(io.BytesIO(b'one\r\ntwo').read, KIB)
    assert [short.line(), short.line(), short.line()] == [b'one', b'two', b'']
    assert not short.piece(KIB)


def test_partial_disk_writes_are_completed(tmp_path, monkeypatch):
    """A disk takes what it takes of one write; pieces are of any size, and many."""
    store = contents.Contents(tmp_path / 'contents', disk_space.Reserve(0))
    pieces = [os.urandom(size) for size in (1, 3 << 20, 0, 5, 70000)] + [b'ab'] * 1500
    for most in (None, 1000):
        if most:
            whole = os.writev
            monkeypatch.setattr(contents, 'MAX_PIECES', 3)
            monkeypatch.setattr(os, 'writev', lambda number, parts: whole(number, [parts[0][:most * 1000]]))
        name = store.write([memoryview(piece) for piece in pieces])
        assert b''.join(store.pieces(name)) == b''.join(pieces)
    store.close()


def checksum(name, data):
    value = getattr(checksums, name)(data)
    return f'x-amz-checksum-{name}', base64.b64encode(value.to_bytes(8 if '64' in name else 4, 'big')).decode()


def test_chunks_are_taken(cloud, pair, s3, bucket):
    pieces = [os.urandom(64 * KIB), os.urandom(300 * KIB), os.urandom(7)]
    whole = b''.join(pieces)
    for trailer in ((), checksum('crc32c', whole), checksum('crc64nvme', whole), checksum('crc32', whole)):
        answer = signed_put(cloud.url + '/objectstore', pair, f'/{bucket}/signed', pieces, trailer,
                            **{'content-type': 'x/y'})
        assert answer.status_code == 200, answer.text
        assert answer.headers['ETag'] == f'"{hashlib.md5(whole).hexdigest()}"'
        got = s3.get_object(Bucket=bucket, Key='signed')
        assert got['Body'].read() == whole and got['ContentType'] == 'x/y' and 'ContentEncoding' not in got
        s3.delete_object(Bucket=bucket, Key='signed')
    assert signed_put(cloud.url + '/objectstore', pair, f'/{bucket}/empty', []).status_code == 200


def swapped(body):
    """The second chunk before the first: each has a signature that was once right."""
    first, second = (body.index(b'\r\n', place) for place in (0, 8192 + 100))
    length = first + 2 + 8192 + 2
    assert second == 2 * length - len(b'\r\n') - 8192 - 2
    return body[length:2 * length] + body[:length] + body[2 * length:]


@pytest.mark.parametrize('change, refused', [
    (lambda body: body.replace(b'aaaa', b'aaab', 1), 'SignatureDoesNotMatch'),
    (lambda body: body.replace(b'chunk-signature=', b'chunk-signature=' + 8 * b'0', 1), 'InvalidChunkSizeError'),
    (lambda body: body.replace(b';chunk-signature=', b';x=', 1), 'InvalidChunkSizeError'),
    (lambda body: body[:body.index(b';')] + body[body.index(b'\r\n'):], 'InvalidChunkSizeError'),
    (swapped, 'SignatureDoesNotMatch'),
    (lambda body: body.replace(b'2000;', b'1000;', 1), 'SignatureDoesNotMatch'),
    (lambda body: body.replace(b'2000;', b'9' * 16 + b';', 1), 'IncompleteBody'),
    (lambda body: body[:body.rindex(b'0;')] + b'0;chunk-signature=' + b'0' * 64 + b'\r\n\r\n',
     'SignatureDoesNotMatch'),
    (lambda body: body[:-200], ''),
    (lambda body: b'', ''), (lambda body: b'\r\n' * 9000, 'InvalidChunkSizeError'),
    (lambda body: b'x' * 100000, 'InvalidChunkSizeError')])
def test_chunks_of_another_are_refused(cloud, pair, s3, bucket, change, refused):
    answer = signed_put(cloud.url + '/objectstore', pair, f'/{bucket}/k', [b'a' * 8192, b'b' * 8192], change=change)
    assert answer.status_code in (400, 403) and refused in answer.text, answer.text
    assert 'Contents' not in s3.list_objects_v2(Bucket=bucket)


def test_trailers_are_signed(cloud, pair, s3, bucket):
    data = [b'a' * 8192]
    right, wrong = checksum('crc32c', data[0]), checksum('crc32c', b'other')

    def put(trailer, change=lambda body: body):
        return signed_put(cloud.url + '/objectstore', pair, f'/{bucket}/k', data, trailer, change)
    for answer, refused in (
            (put(wrong), 'BadDigest'),
            (put(right, lambda body: body.replace(right[1].encode(), wrong[1].encode())), 'SignatureDoesNotMatch'),
            (put(right, lambda body: body[:body.index(b'x-amz-trailer')] + b'\r\n'), 'MalformedTrailerError'),
            (put(right, lambda body: body[:body.index(b'x-amz-checksum')] + b'\r\n'), 'MalformedTrailerError'),
            (put(right, lambda body: body[:-2] + b'x-amz-checksum-sha1:abcd\r\n\r\n'), 'MalformedTrailerError'),
            (put(right, lambda body: body[:-2] + b'x-amz-checksum-crc32c:abcd\r\n\r\n'), 'MalformedTrailerError')):
        assert refused in answer.text, answer.text
    assert 'Contents' not in s3.list_objects_v2(Bucket=bucket)


def test_small_chunks_are_refused(cloud, pair, bucket):
    """Each costs a line and a signature: a stranger could have a store count for hours over few bytes."""
    assert 'InvalidChunkSizeError' in signed_put(cloud.url + '/objectstore', pair, f'/{bucket}/k', [b'a'] * 9).text


def test_chunked_document_is_verified(cloud, pair, s3, bucket):
    """A refusal leaves no bucket."""
    answer = signed_put(cloud.url + '/objectstore', pair, f'/{bucket}', [b'<CreateBucketConfiguration/>'],
                        change=lambda body: body.replace(b'<Create', b'<Creata'))
    assert answer.status_code == 403, answer.text


def test_chunks_need_a_signature_before_them(cloud, pair, s3, bucket):
    url = s3.generate_presigned_url('put_object', {'Bucket': bucket, 'Key': 'k'})
    answer = requests.put(url, b'1;chunk-signature=' + b'0' * 64 + b'\r\na\r\n', headers={
        'x-amz-content-sha256': PLAIN, 'x-amz-decoded-content-length': '1'})
    assert answer.status_code == 403, answer.text


def test_a_large_chunk_needs_little_memory(cloud):
    size = 64 << 20

    class Zeros:
        def __init__(self):
            self._left, self._line = size, b'%x;chunk-signature=%s\r\n' % (size, b'0' * 64)

        def read(self, most):
            if self._line:
                line, self._line = self._line, b''
                return line
            most = min(most, self._left)
            self._left -= most
            return bytes(most)
    chain = digests.Chain(b'key', 'x\ny\nz', '')
    body = payload.Payload({'wsgi.input': Zeros(), 'CONTENT_LENGTH': '1', 'HTTP_X_AMZ_CONTENT_SHA256': PLAIN,
                            'HTTP_X_AMZ_DECODED_CONTENT_LENGTH': str(size)}, size, chain)
    tracemalloc.start()
    with pytest.raises(errors.S3Error, match='signature of a chunk'):
        for _piece in body:
            pass
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 << 20


def test_etag_of_a_large_object_is_not_an_md5():
    """Counting it takes longer than writing; clients know by the hyphen that it is none."""
    environ = {'wsgi.input': None, 'CONTENT_LENGTH': str(payload.MAX_MD5_BYTES + 1)}
    first, second = (payload.Payload(environ, 1 << 40, quick=True).etag() for _ in range(2))
    assert first.endswith('-1') and first != second
    for more, quick in (({}, False), ({'HTTP_CONTENT_MD5': 'AAAA'}, True),
                        ({'CONTENT_LENGTH': str(payload.MAX_MD5_BYTES)}, True)):
        made = payload.Payload({**environ, **more}, 1 << 40, quick=quick)
        assert made.etag() == hashlib.md5().hexdigest()


def test_multipart_uploads_have_checksums(s3, bucket):
    data = [os.urandom(5 << 20), b'end']
    place = {'Bucket': bucket, 'Key': 'parts'}
    upload = {**place, 'UploadId': s3.create_multipart_upload(**place)['UploadId']}
    parts = [{'PartNumber': number, 'ETag': s3.upload_part(**upload, PartNumber=number, Body=piece,
                                                           ChecksumAlgorithm='CRC64NVME')['ETag']}
             for number, piece in enumerate(data, 1)]
    whole = checksum('crc64nvme', b''.join(data))[1]
    first = [parts[0] | {'ChecksumCRC64NVME': checksum('crc64nvme', data[0])[1]}, parts[1]]
    wrong = [parts[0], parts[1] | {'ChecksumCRC64NVME': whole}]

    def complete(parts, **more):
        return {**upload, 'MultipartUpload': {'Parts': parts}, **more}
    for given, refused in ((complete(wrong), 'BadDigest'),
                           (complete(parts, ChecksumCRC64NVME='AAAAAAAAAAA='), 'BadDigest'),
                           (complete(parts, MpuObjectSize=7), 'InvalidRequest')):
        assert test_objectstore.code(s3.complete_multipart_upload, **given)[0] == refused
    s3.complete_multipart_upload(**complete(first, ChecksumCRC64NVME=whole, MpuObjectSize=(5 << 20) + 3))
    assert s3.get_object(**place)['Body'].read() == b''.join(data)
