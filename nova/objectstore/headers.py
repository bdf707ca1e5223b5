"""Headers of objects: those that a write stores with the object, and the conditions and ranges of reads."""
import datetime
import email.utils
import re

from nova.db.engine import ResultRow
from nova.objectstore import errors
from nova.objectstore.request import Request
from nova.web import formats

STORED_HEADERS = ('cache-control', 'content-disposition', 'content-encoding', 'content-language', 'expires')
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
    """Return (first, last) byte of a range, or None if there is no valid range.

    :raises S3Error: the range begins after the end
    """
    match = re.fullmatch(r'bytes=(\d{0,18})-(\d{0,18})', text or '')
    if not match or not (match[1] or match[2]):
        return None
    first = int(match[1]) if match[1] else max(0, size - int(match[2]))
    last = min(int(match[2]) if match[1] and match[2] else size - 1, size - 1)
    if first >= size or first > last:
        raise errors.S3Error('InvalidRange', 'The range cannot be satisfied.', 416)
    return first, last


def check(req: Request, row: ResultRow) -> None:
    """Check the conditional headers of a read.

    :raises S3Error: a condition is false
    """
    failed = errors.S3Error('PreconditionFailed', 'A condition of the request is not met.', 412)
    same, other = req.header('if-match'), req.header('if-none-match')
    changed = row.modified_at.replace(microsecond=0)
    since, until = (formats.parse_http_date(req.header(name)) for name in ('if-modified-since', 'if-unmodified-since'))
    if same is not None:
        if not _named(same, row.etag):
            raise failed
    elif until is not None and changed > until:
        raise failed
    if (other is not None and _named(other, row.etag)) or (other is None and since is not None and changed <= since):
        raise errors.S3Error('NotModified', '', 304)


def check_write(req: Request) -> None:
    """Refuse conditional writes.

    :raises S3Error: the request has a condition, which could not be checked atomically
    """
    if req.header('if-match') is not None or req.header('if-none-match') is not None:
        raise errors.unsupported('A conditional write')


def _named(text: str, etag: str) -> bool:
    return text.strip() == '*' or etag in [each.strip().strip('"') for each in text.split(',')]
