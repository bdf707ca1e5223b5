"""Headers of objects: those that a write stores with the object, and the conditions and ranges of reads."""
import datetime
import email.utils
import re

from nova.db.engine import ResultRow
from nova.objectstore import errors
from nova.objectstore.request import Request
from nova.web import formats

STORED_HEADERS = ('cache-control', 'content-disposition', 'content-encoding', 'content-language', 'expires')
OF_SOURCE = 'x-amz-copy-source-'      # prefix of the conditions of a copy
MAX_META = 2048                   # maximum bytes of an object's metadata, and of one header


def kept(req: Request) -> dict[str, str]:
    """Return the headers of a request that are stored with the object."""
    kept = {'content-type': req.header('content-type') or 'binary/octet-stream'}
    kept.update({name: value for name in STORED_HEADERS if (value := req.header(name)) is not None})
    if 'aws-chunked' in kept.get('content-encoding', ''):
        rest = [each.strip() for each in kept['content-encoding'].split(',') if each.strip() != 'aws-chunked']
        kept.pop('content-encoding')
        kept.update({'content-encoding': ','.join(rest)} if rest else {})
    meta = {name[5:].replace('_', '-').lower(): str(value) for name, value in req.environ.items()
            if name.startswith('HTTP_X_AMZ_META_')}
    if sum(len(name) + len(value) for name, value in meta.items()) > MAX_META:
        raise errors.S3Error('MetadataTooLarge', f'The metadata of an object must have at most {MAX_META} bytes.')
    return {name: plain(value) for name, value in {**kept, **meta}.items()}


def plain(value: str) -> str:
    """Check that a value may be returned as a header."""
    if len(value) > MAX_META or not value.isprintable() or not all(ord(char) < 256 for char in value):
        raise errors.S3Error('InvalidArgument', 'A header is not printable or too long.')
    return value


def of(row: ResultRow) -> list[tuple[str, str]]:
    when = email.utils.format_datetime(row.modified_at.replace(microsecond=0, tzinfo=datetime.UTC), usegmt=True)
    return [('ETag', f'"{row.etag}"'), ('Last-Modified', when), ('Accept-Ranges', 'bytes'),
            # a browser must not run scripts of stored content with the rights of this origin
            ('X-Content-Type-Options', 'nosniff'), ('Content-Security-Policy', 'sandbox'),
            *((name.title() if not name.startswith('x-') else name, value) for name, value in row.headers.items())]


def span(text: str | None, size: int) -> tuple[int, int] | None:
    """Return (first, last) byte of a range, or None if there is no valid range (RFC 9110).

    :raises S3Error: the range begins after the end
    """
    match = re.fullmatch(r'bytes=(\d{0,18})-(\d{0,18})', text or '')
    if not match or not (match[1] or match[2]) or (match[1] and match[2] and int(match[1]) > int(match[2])):
        return None
    first = int(match[1]) if match[1] else max(0, size - int(match[2]))
    last = min(int(match[2]) if match[1] and match[2] else size - 1, size - 1)
    if first >= size:
        raise errors.S3Error('InvalidRange', 'The range cannot be satisfied.', 416)
    return first, last


def source_span(text: str | None, size: int) -> tuple[int, int]:
    """Return (first, last) byte to copy from a source of ``size`` bytes; without a range all bytes.

    :raises S3Error: the range is malformed, or not within the source
    """
    if text is None:
        return 0, size - 1
    match = re.fullmatch('bytes=([0-9]{1,18})-([0-9]{1,18})', text)
    if not match or int(match[1]) > int(match[2]):
        raise errors.S3Error('InvalidArgument', 'x-amz-copy-source-range must have the form bytes=first-last.')
    if int(match[2]) >= size:
        raise errors.S3Error('InvalidArgument', f'x-amz-copy-source-range exceeds the source of {size} bytes.')
    return int(match[1]), int(match[2])


def check(req: Request, row: ResultRow, prefix: str = '') -> None:
    """Check the conditional headers of a read, or of the source of a copy.

    :param prefix: of the headers: '' or OF_SOURCE
    :raises S3Error: a condition is false, or a condition of a copy has an invalid time
    """
    failed = errors.S3Error('PreconditionFailed', 'A condition of the request is not met.', 412)
    same, other, *times = (req.header(prefix + name) for name in (
        'if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'))
    since, until = map(formats.parse_http_date, times)
    if prefix and [text for text in times if text is not None and formats.parse_http_date(text) is None]:
        raise errors.S3Error('InvalidArgument', 'The time of a condition is not an HTTP date.')
    changed = row.modified_at.replace(microsecond=0)
    if not _named(same, row.etag) if same is not None else until is not None and changed > until:
        raise failed
    if _named(other, row.etag) if other is not None else since is not None and changed <= since:
        raise failed if prefix else errors.S3Error('NotModified', '', 304)


def check_write(req: Request) -> None:
    """Refuse conditional writes.

    :raises S3Error: the request has a condition, which could not be checked atomically
    """
    if req.header('if-match') is not None or req.header('if-none-match') is not None:
        raise errors.unsupported('A conditional write')


def _named(text: str, etag: str) -> bool:
    return text.strip() == '*' or etag in [each.strip().strip('"') for each in text.split(',')]
