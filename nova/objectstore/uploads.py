"""Operations on multipart uploads. Function names are action names in the audit log."""
from collections.abc import Iterable, Iterator
import hashlib
import re

from nova.objectstore import contents
from nova.objectstore import digests
from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore import headers
from nova.objectstore import objects
from nova.objectstore import responses
from nova.objectstore import store as stores
from nova.objectstore.request import Answer
from nova.objectstore.request import PAGE
from nova.objectstore.request import Request


def begin_upload(req: Request) -> Answer:
    ident = req.store.begin_upload(req.project, req.bucket, req.key, headers.kept(req))
    return responses.xml('InitiateMultipartUploadResult',
                         (('Bucket', req.bucket), ('Key', req.key), ('UploadId', ident)))


def put_part(req: Request) -> Answer:
    number = req.number('partNumber', 1, stores.MAX_PARTS + 1, 0)
    if not 0 < number <= stores.MAX_PARTS:
        raise errors.S3Error('InvalidArgument', f'partNumber must be 1 to {stores.MAX_PARTS}.')
    place = (req.project, req.bucket, req.key, req.params['uploadId'], number)
    if req.header('x-amz-copy-source') is None:
        body = req.body(stores.MAX_PUT)
        row = req.store.put_part(*place, body, body.length, body.etag)
        return 200, [('ETag', f'"{row.etag}"')], b''
    source, file = objects.source(req)
    with file:
        span = headers.source_span(req.header('x-amz-copy-source-range'), source[2].size)
        size, digest = span[1] - span[0] + 1, hashlib.md5(usedforsecurity=False)
        row = req.store.put_part(*place, stores.copied(contents.read(file, span[0], size), digest), size,
                                 digest.hexdigest)
    return responses.xml('CopyPartResult',
                         (('LastModified', responses.stamp(row.modified_at)), ('ETag', f'"{row.etag}"')))


def complete(req: Request) -> Answer:
    root = documents.parse(req.document(documents.MAX_DOCUMENT, sums=False), 'CompleteMultipartUpload')
    documents.only(root, 'Part')
    wanted, whole, sums = [], digests.Checksums(digests.sums_of(req.environ)), {}
    for part in root.findall('Part')[:stores.MAX_PARTS + 1]:
        documents.only(part, 'PartNumber', 'ETag', *(f'Checksum{name.upper()}' for name in digests.CHECKSUMS))
        number, etag = part.findtext('PartNumber', ''), part.findtext('ETag', '').strip('"')
        if not re.fullmatch('[0-9]{1,5}', number):
            raise errors.S3Error('MalformedXML', 'A part has no valid number.')
        wanted.append((int(number), etag))
        sums[int(number)] = digests.Checksums({each.tag[8:].lower(): each.text or '' for each in part
                                          if each.tag.startswith('Checksum')})

    def watched(number: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            whole.update(piece)
            sums[number].update(piece)
            yield piece
        sums[number].check()
        if number == wanted[-1][0]:
            whole.check()
    size = req.header('x-amz-mp-object-size')
    if size is not None and not re.fullmatch('[0-9]{1,16}', size):
        raise errors.S3Error('InvalidArgument', 'x-amz-mp-object-size must be a number of bytes.')
    row = req.store.complete(req.project, req.bucket, req.key, req.params['uploadId'], wanted, watched,
                             None if size is None else int(size))
    return responses.xml('CompleteMultipartUploadResult', (
        ('Location', f'/{req.bucket}/{req.key}'), ('Bucket', req.bucket), ('Key', req.key),
        ('ETag', f'"{row.etag}"')))


def abort(req: Request) -> Answer:
    req.store.abort(req.project, req.bucket, req.key, req.params['uploadId'])
    return 204, [], b''


def list_parts(req: Request) -> Answer:
    _row, found = req.store.upload(req.project, req.bucket, req.key, req.params['uploadId'])
    after, most = req.number('part-number-marker', 0, stores.MAX_PARTS, 0), req.number('max-parts', 0, PAGE, PAGE)
    rest = [part for part in found if part.number > after]
    page = rest[:most]
    return responses.xml('ListPartsResult', (
        ('Bucket', req.bucket), ('Key', req.key), ('UploadId', req.params['uploadId']),
        ('PartNumberMarker', after), ('NextPartNumberMarker', page[-1].number if page else 0), ('MaxParts', most),
        ('IsTruncated', len(rest) > len(page)), *(('Part', [
            ('PartNumber', part.number), ('LastModified', responses.stamp(part.modified_at)),
            ('ETag', f'"{part.etag}"'), ('Size', part.size)]) for part in page)))


def list_uploads(req: Request) -> Answer:
    prefix = req.params.get('prefix', '')
    if req.params.get('delimiter') or req.params.get('key-marker'):
        raise errors.unsupported('A delimiter or marker in a list of uploads')
    rows = [row for row in req.store.uploads(req.project, req.bucket) if row.key.startswith(prefix)]
    shown = responses.shown(req.params.get('encoding-type'))
    return responses.xml('ListMultipartUploadsResult', (
        ('Bucket', req.bucket), ('Prefix', shown(prefix)), ('EncodingType', req.params.get('encoding-type')),
        ('MaxUploads', stores.MAX_UPLOADS), ('IsTruncated', False),
        *(('Upload', [('Key', shown(row.key)), ('UploadId', row.id), ('Initiated', responses.stamp(row.created_at)),
                      ('StorageClass', 'STANDARD')]) for row in rows)))
