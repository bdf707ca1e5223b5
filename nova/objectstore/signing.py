"""Strings to sign of AWS Signature Versions 4 and 2, computed from received requests.

The Identity service verifies the signature; this module checks its age.
"""
import dataclasses
import datetime
import hashlib
import re
import urllib.parse
from wsgiref.types import WSGIEnvironment

from nova.objectstore import digests
from nova.objectstore import errors
from nova.objectstore import payload
from nova.web import aws_signatures
from nova.web import formats

VALID = datetime.timedelta(minutes=15)            # maximum difference between the time in a request and now
MAX_EXPIRES = 7 * 86400                           # seconds: maximum lifetime of a signature in a URL
_CREDENTIAL = re.compile(r'([^,\s/]{1,128})/((\d{8})/[^,\s/]*/s3/aws4_request)')
_PARTS = {'Credential': re.compile(r'([^,\s]+)'), 'Signature': re.compile(r'([0-9a-f]{64})'),
          'SignedHeaders': re.compile(r'([^,\s]+)')}
_V2 = re.compile(r'AWS ([^:\s]{1,128}):([A-Za-z0-9+/=]{1,64})')
# query parameters that a version 2 signature covers
_SUBRESOURCES = ('acl', 'cors', 'delete', 'lifecycle', 'location', 'logging', 'notification', 'partNumber', 'policy',
                 'requestPayment', 'restore', 'tagging', 'torrent', 'uploadId', 'uploads', 'versionId', 'versioning',
                 'versions', 'website', 'response-cache-control', 'response-content-disposition',
                 'response-content-encoding', 'response-content-language', 'response-content-type', 'response-expires')


@dataclasses.dataclass(frozen=True)
class Signed:
    """Signed parts of a request.

    access     access key
    text       string to sign, see ``nova.identity.signatures.matches_text``
    signature  signature of the text
    scope      day, region, service and terminator, for version 4 in an Authorization header; otherwise ''
    """

    access: str
    text: str
    signature: str
    scope: str = ''


def pairs_of(environ: WSGIEnvironment) -> dict[str, str]:
    """Parse the query.

    :raises S3Error: it is malformed, or a parameter is repeated
    """
    try:
        found = urllib.parse.parse_qsl(environ.get('QUERY_STRING', ''), keep_blank_values=True, errors='strict',
                                       max_num_fields=64)
    except ValueError:
        raise errors.S3Error('InvalidURI', 'The query is not form data in UTF-8.') from None
    if len(dict(found)) != len(found):
        raise errors.S3Error('InvalidArgument', 'A query parameter is repeated.')
    return dict(found)


def signed_of(environ: WSGIEnvironment, params: dict[str, str], now: datetime.datetime) -> Signed:
    """Extract the signed parts of a request.

    :param now: UTC, naive
    :raises S3Error: the signature is missing, expired, or does not cover required parts
    """
    headers = aws_signatures.headers_of(environ)
    authorization = headers.get('authorization', '')
    if not authorization.isascii():
        raise errors.S3Error('InvalidRequest', 'Only signatures of version 4 and 2 are accepted.')
    if authorization.startswith(digests.ALGORITHM):
        fields = [each.strip().partition('=') for each in authorization.removeprefix(digests.ALGORITHM).split(',')]
        given = {name: value for name, _, value in fields}
        if len(fields) != len(_PARTS):
            given = {}
        return _fourth(environ, headers, params, given, aws_signatures.date_of(headers), None, now)
    if authorization.startswith('AWS '):
        return _second(environ, headers, params, _V2.fullmatch(authorization), now)
    if authorization:
        raise errors.S3Error('InvalidRequest', 'Only signatures of version 4 and 2 are accepted.')
    if params.get('X-Amz-Algorithm') == digests.ALGORITHM:
        given = {name: params.get(f'X-Amz-{name}', '') for name in _PARTS}
        return _fourth(environ, headers, params, given, params.get('X-Amz-Date', ''), params.get('X-Amz-Expires'), now)
    if 'AWSAccessKeyId' in params:
        pair = f'AWS {params["AWSAccessKeyId"]}:{params.get("Signature", "")}'
        return _second(environ, headers, params, _V2.fullmatch(pair), now)
    raise errors.S3Error('AccessDenied', 'The request has no signature.', 403)


def _fourth(environ: WSGIEnvironment, headers: dict[str, str], params: dict[str, str], given: dict[str, str], date: str,
            expires: str | None, now: datetime.datetime) -> Signed:
    """Extract a signature of version 4.

    :param given: values of _PARTS: credential, signature and names of the signed headers
    :param expires: X-Amz-Expires of a signature in the URL, or None for a signature in a header
    """
    in_url = expires is not None
    named, proof, covered = (pattern.fullmatch(given.get(name, '')) for name, pattern in _PARTS.items())
    scope = _CREDENTIAL.fullmatch(named[1]) if named else None
    body = headers.get('x-amz-content-sha256') or (payload.UNSIGNED if in_url else None)
    if scope is None or proof is None or covered is None or body is None:
        raise errors.S3Error('AuthorizationHeaderMalformed', 'The signature, its scope or x-amz-content-sha256 is '
                                                             'missing, or the scope is not for S3.')
    try:
        signed = aws_signatures.covered(headers, covered[1], in_url)
    except aws_signatures.Incomplete as error:
        raise errors.S3Error('AccessDenied', error.message, 403) from None
    _check_time(_basic(date), _lifetime(expires), now)
    if not date.startswith(scope[3]):
        raise errors.S3Error('AuthorizationHeaderMalformed', f'The date of the request is not the day {scope[3]} '
                                                             'of its credential scope.')
    lines = [f'{name}:{value}' for name, value in signed.items()]
    request = '\n'.join((environ['REQUEST_METHOD'], _path(environ), _query(params), *lines, '', covered[1], body))
    digest = hashlib.sha256(request.encode('utf-8', 'surrogateescape')).hexdigest()
    text = '\n'.join((digests.ALGORITHM, date, scope[2], digest))
    return Signed(scope[1], text, proof[1], '' if in_url else scope[2])


def _lifetime(expires: str | None) -> datetime.timedelta:
    """Return how long a version 4 signature is valid after its date."""
    if expires is None:
        return VALID
    if not (re.fullmatch('[0-9]{1,7}', expires) and 0 < int(expires) <= MAX_EXPIRES):
        raise errors.S3Error('AuthorizationQueryParametersError', f'X-Amz-Expires must be 1 to {MAX_EXPIRES} seconds.')
    return datetime.timedelta(seconds=int(expires))


def _query(params: dict[str, str]) -> str:
    """Return the canonical query of version 4: encoded, sorted, without the signature."""
    return '&'.join(f'{name}={value}' for name, value in sorted(
        (_quoted(name), _quoted(value)) for name, value in params.items() if name != 'X-Amz-Signature'))


def _second(environ: WSGIEnvironment, headers: dict[str, str], params: dict[str, str], found: re.Match[str] | None,
            now: datetime.datetime) -> Signed:
    """Extract a signature of version 2, in a header or in the query.

    This signature covers the content only through Content-MD5, and does not cover the host. The signed resource
    starts with the bucket; without a key it ends with a slash.
    """
    if found is None:
        raise errors.S3Error('InvalidSecurity', 'The signature of version 2 is malformed.', 403)
    if 'authorization' in headers:
        date = '' if 'x-amz-date' in headers else headers.get('date', '')
        _check_time(formats.parse_http_date(headers.get('x-amz-date', headers.get('date'))), VALID, now)
    else:
        date = params.get('Expires', '')
        if not re.fullmatch('[0-9]{1,11}', date) or int(date) <= now.replace(tzinfo=datetime.UTC).timestamp():
            raise errors.S3Error('AccessDenied', 'The request has expired.', 403)
    amz = ''.join(f'{name}:{value}\n' for name, value in sorted(headers.items()) if name.startswith('x-amz-'))
    subs = '&'.join(name + (f'={params[name]}' if params[name] else '') for name in sorted(_SUBRESOURCES)
                    if name in params)
    path = _path({'PATH_INFO': environ.get('PATH_INFO', '')})
    resource = (path if path.count('/') > 1 or path == '/' else path + '/') + (f'?{subs}' if subs else '')
    text = '\n'.join((environ['REQUEST_METHOD'], headers.get('content-md5', ''), headers.get('content-type', ''), date,
                      amz + resource))
    if any('\ud800' <= each <= '\udfff' for each in text):
        raise errors.S3Error('InvalidArgument', 'A signed header is not UTF-8.')
    return Signed(found[1], text, found[2])


def _check_time(made: datetime.datetime | None, lasts: datetime.timedelta, now: datetime.datetime) -> None:
    """Check the time of a signature.

    :raises S3Error: the signature is expired or from the future
    """
    if made is None:
        raise errors.S3Error('AccessDenied', 'The date of the request is missing or malformed.', 403)
    if not -VALID <= now - made <= lasts:
        code = 'RequestTimeTooSkewed' if lasts == VALID else 'AccessDenied'
        raise errors.S3Error(code, 'The request is too old or has expired, or the clock of the client is wrong.', 403)


def _basic(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, '%Y%m%dT%H%M%SZ')
    except ValueError:
        return None


def _path(environ: WSGIEnvironment) -> str:
    """Return the canonical path: each special byte is encoded once."""
    return _quoted((environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')).encode('latin-1'), '/-_.~') or '/'


def _quoted(text: str | bytes, safe: str = '-_.~') -> str:
    return urllib.parse.quote(text, safe=safe)
