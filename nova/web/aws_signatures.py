"""Headers and dates covered by AWS Signature Version 4, read from a WSGI request (EC2, STS, S3)."""
import re
from wsgiref.types import WSGIEnvironment

from nova.web import formats

ALGORITHM = 'AWS4-HMAC-SHA256'
MAX_NAMES = 64                      # signed headers; SDKs sign 3 to 15
MAX_BYTES = 16 * 1024           # total size of signed names and values: enough for an 8 KiB cookie and tracing headers
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_BLANKS = re.compile('[ \t]+')
_CONTENT_HASH = 'x-amz-content-sha256'


class Incomplete(Exception):
    """The signature omits a required header or lists too many headers.

    :param message: sentence for the client
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def headers_of(environ: WSGIEnvironment) -> dict[str, str]:
    """Return all headers as {lowercase name: canonical value}.

    The canonical value is stripped and has single spaces. Bytes that are not UTF-8 become surrogates.
    """
    found = {name[5:]: value for name, value in environ.items() if name.startswith('HTTP_') and isinstance(value, str)}
    found |= {name: environ[name] for name in ('CONTENT_TYPE', 'CONTENT_LENGTH') if environ.get(name)}
    return {name.replace('_', '-').lower(): _canonical(value) for name, value in found.items()}


def covered(headers: dict[str, str], names: str, in_url: bool) -> dict[str, str]:
    """Return the signed headers in the order of SignedHeaders. A header that is missing in the request is ''.

    :param headers: result of ``headers_of``
    :param names: value of SignedHeaders
    :param in_url: the signature is in the query string, so the content hash may be unsigned
    :raises Incomplete: Host or an x-amz- header is unsigned, a name is malformed, or too many headers are listed
    """
    listed = names.split(';')
    if len(listed) > MAX_NAMES or len(set(listed)) < len(listed) or not all(map(_NAME.fullmatch, listed)):
        raise Incomplete(f'SignedHeaders must list 1 to {MAX_NAMES} different header names in lower case.')
    needed = {'host', *(name for name in headers if name.startswith('x-amz-'))} - set(listed)
    missing = sorted(needed - {_CONTENT_HASH} if in_url else needed)
    if missing:
        raise Incomplete(f'The header {missing[0][:255]} is sent but not signed: add it to SignedHeaders. '
                         'Host and each x-amz- header must be signed.')
    found = {name: headers.get(name, '') for name in listed}
    if sum(len(name) + len(value) for name, value in found.items()) > MAX_BYTES:
        raise Incomplete(f'The signed headers are larger than {MAX_BYTES} bytes.')
    return found


def date_of(headers: dict[str, str]) -> str:
    """Return the date of the string to sign (YYYYMMDDTHHMMSSZ): X-Amz-Date, or otherwise the converted Date.

    A Date that is not an HTTP date is returned unchanged.
    """
    if 'x-amz-date' in headers:
        return headers['x-amz-date']
    text = headers.get('date', '')
    moment = formats.parse_http_date(text)
    return moment.strftime('%Y%m%dT%H%M%SZ') if moment else text


def _canonical(value: str) -> str:
    text = value.encode('latin-1', 'replace').decode('utf-8', 'surrogateescape')
    return _BLANKS.sub(' ', text.strip(' \t'))
