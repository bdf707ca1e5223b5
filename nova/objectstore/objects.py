"""Operations on objects. Function names are action names in the audit log."""
import hashlib
from typing import BinaryIO
import urllib.parse

from nova.db.engine import ResultRow
from nova.objectstore import contents
from nova.objectstore import errors
from nova.objectstore import headers
from nova.objectstore import responses
from nova.objectstore import store as stores
from nova.objectstore.request import Answer
from nova.objectstore.request import Request
from nova.web.request import Stream


def get(req: Request) -> Answer:
    row, file = req.store.read(req.project, req.bucket, req.key)
    try:
        status, shown, start, size = _head(req, row)
    except BaseException:
        file.close()
        raise
    return status, shown, Stream.of_file(file, start, size, '')


def _head(req: Request, row: ResultRow) -> tuple[int, list[tuple[str, str]], int, int]:
    """Check the conditions of a read, and return (status, headers, first byte, number of bytes)."""
    headers.check(req, row)
    shown = headers.of(row)
    for name in ('content-type', 'content-language', 'expires', 'cache-control', 'content-disposition',
                 'content-encoding'):
        if f'response-{name}' in req.params:
            value = headers.plain(req.params[f'response-{name}'])
            shown = [each for each in shown if each[0].lower() != name] + [(name.title(), value)]
    start, size, status = 0, row.size, 200
    same = req.header('if-range') in (None, f'"{row.etag}"')
    span = headers.span(req.header('range'), row.size) if same else None
    if span is not None:
        start, size, status = span[0], span[1] - span[0] + 1, 206
        shown.append(('Content-Range', f'bytes {span[0]}-{span[1]}/{row.size}'))
    shown.append(('Content-Length', str(size)))
    return status, shown, start, size


def put(req: Request) -> Answer:
    if req.header('x-amz-copy-source') is not None:
        return _copy(req)
    body = req.body(stores.MAX_PUT, quick=True)
    row = req.store.put(req.project, req.bucket, req.key, body, body.length, headers.kept(req), body.etag)
    return 200, [('ETag', f'"{row.etag}"')], b''


def _copy(req: Request) -> Answer:
    found, file = source(req)
    with file:
        replace = (req.header('x-amz-metadata-directive') or 'COPY').upper() == 'REPLACE'
        if (req.bucket, req.key) == (found[0], found[1]) and not replace:
            raise errors.S3Error('InvalidRequest', 'A copy of an object onto itself must change its metadata.')
        digest, row = hashlib.md5(usedforsecurity=False), found[2]
        if row.size > stores.MAX_PUT:
            raise errors.S3Error('InvalidRequest', f'Use multipart copies for more than {stores.MAX_PUT} bytes.')
        made = req.store.put(req.project, req.bucket, req.key, stores.copied(contents.read(file), digest),
                             row.size, headers.kept(req) if replace else row.headers, digest.hexdigest)
    return responses.xml('CopyObjectResult', (('LastModified', responses.stamp(made.modified_at)),
                                            ('ETag', f'"{made.etag}"')))


def source(req: Request) -> tuple[tuple[str, str, ResultRow], BinaryIO]:
    """Return ((bucket, key, row), open file) of the source of a copy.

    :raises S3Error: the source is invalid or does not exist, or a condition of the copy is false
    """
    path, mark, _version = (req.header('x-amz-copy-source') or '').partition('?')     # in a key, it is %3F
    if mark:
        raise errors.unsupported('A version')
    try:
        path = urllib.parse.unquote(path, errors='strict')
    except UnicodeDecodeError:
        raise errors.S3Error('InvalidArgument', 'x-amz-copy-source is not UTF-8.') from None
    bucket, _, key = path.removeprefix('/').partition('/')
    row, file = req.store.read(req.project, bucket, key)
    try:
        headers.check(req, row, headers.OF_SOURCE)
    except BaseException:
        file.close()
        raise
    return (bucket, key, row), file


def head(req: Request) -> Answer:
    status, shown, _start, _size = _head(req, req.store.find(req.project, req.bucket, req.key))
    return status, shown, b''


def remove(req: Request) -> Answer:
    req.store.remove(req.project, req.bucket, [req.key])
    return 204, [], b''


def no_tags(req: Request) -> Answer:
    """Return an empty list of tags. Tags are not supported, but clients request them before a copy."""
    req.store.find(req.project, req.bucket, req.key)
    return responses.xml('Tagging', (('TagSet', ()),))
