"""Extraction of the signed parts of a request."""
from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING
import urllib.parse
from wsgiref.types import WSGIEnvironment

from nova.ec2 import errors
from nova.web import aws_signatures

if TYPE_CHECKING:
    from nova.identity.signatures import SignedRequest

_CREDENTIAL = re.compile(r'([^,\s/]+)/(\d{8})/([^,\s/]*)/([^,\s/]+)/aws4_request')
_SIGNATURE = re.compile(r'[0-9a-f]{64}')
WHO = 'GetCallerIdentity'                 # operation of STS
FORM = 'application/x-www-form-urlencoded'
Pairs = list[tuple[str, str]]


def pairs_of(environ: WSGIEnvironment, body: bytes) -> Pairs:
    """Return the parameters of a request: the query of a GET, the form of a POST.

    :raises Ec2Error: a POST has a query, which would be unsigned, or the parameters are malformed
    """
    query = environ.get('QUERY_STRING', '')
    if environ['REQUEST_METHOD'] == 'POST':
        if query:
            raise errors.Ec2Error('InvalidParameterCombination', 'A POST must have its parameters in the body.')
        kind = environ.get('CONTENT_TYPE', '').partition(';')[0].strip().lower()
        if kind not in ('', FORM):
            raise errors.Ec2Error('InvalidParameterValue', f'The body of a POST must have the type {FORM}.')
        query = body
    try:
        text = query.decode('ascii') if isinstance(query, bytes) else query
        return urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), encoding='utf-8',
                                      errors='strict', max_num_fields=4096)
    except (UnicodeDecodeError, ValueError):
        raise errors.Ec2Error('InvalidParameterValue', 'The parameters are not form data in UTF-8.') from None


def signed_of(environ: WSGIEnvironment, body: bytes, pairs: Pairs) -> SignedRequest:
    """Return the signed request in the format of ``POST /v3/ec2tokens``.

    :raises Ec2Error: the signature is missing or does not cover required parts
    """
    params, headers = dict(pairs), aws_signatures.headers_of(environ)
    authorization = headers.get('authorization', '')
    if not authorization.isascii():
        raise errors.Ec2Error('MissingAuthenticationToken', 'The request has no signature of version 2 or 4.', 403)
    given = {name: params.get(f'X-Amz-{name}', '') for name in ('Credential', 'SignedHeaders', 'Signature')}
    if authorization:
        given = _fields(authorization)
    found, signature = (kind.fullmatch(given.get(name, '')) for kind, name in (
        (_CREDENTIAL, 'Credential'), (_SIGNATURE, 'Signature')))
    sent: dict[str, str] = {}
    # signatures for other services are invalid here
    if found and signature and found[4] == ('sts' if params.get('Action') == WHO else 'ec2'):
        access, proof = found[1], signature[0]
        sent = _covered(headers, params, given['SignedHeaders'], in_url=not authorization)
        if not (sent.get('X-Amz-Date') or params.get('X-Amz-Date', '')).startswith(found[2]):
            raise errors.Ec2Error('SignatureDoesNotMatch', 'The date of the request is missing, or is not the day '
                                                           f'{found[2]} of its credential scope.', 403)
    elif not authorization and params.get('AWSAccessKeyId') and params.get('Signature'):
        access, proof = params['AWSAccessKeyId'], params['Signature']
    else:
        raise errors.Ec2Error('MissingAuthenticationToken', 'The request has no signature of version 2 or 4.', 403)
    path = urllib.parse.quote((environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')).encode('latin-1'))
    return {'access': access[:128], 'signature': proof[:256], 'host': environ.get('HTTP_HOST', ''),
            'verb': environ['REQUEST_METHOD'], 'path': path or '/', 'params': params, 'headers': sent,
            'body_hash': hashlib.sha256(body).hexdigest()}


def _covered(headers: dict[str, str], params: dict[str, str], names: str, in_url: bool) -> dict[str, str]:
    """Return the headers that Keystone needs to check a signature of version 4, with capitalized names.

    Keystone reads only X-Amz-Date, so a missing X-Amz-Date is set from Date. Date need not be a signed header, because
    the string to sign contains it.

    :raises Ec2Error: see ``aws_signatures.covered``
    """
    try:
        sent = aws_signatures.covered(headers, names, in_url)
    except aws_signatures.Incomplete as error:
        raise errors.Ec2Error('SignatureDoesNotMatch', error.message, 403) from None
    if 'X-Amz-Date' not in params:
        sent.setdefault('x-amz-date', aws_signatures.date_of(headers))
    for name in ('authorization', 'user-agent'):  # Keystone needs these to recognise version 4 and old Boto clients
        if name in headers:
            sent.setdefault(name, headers[name][:aws_signatures.MAX_BYTES])
    return {'-'.join(part.capitalize() for part in name.split('-')): value.encode('utf-8', 'replace').decode()
            for name, value in sent.items()}


def _fields(authorization: str) -> dict[str, str]:
    """Return the fields of an Authorization header of version 4; empty if it is malformed."""
    fields = [each.strip().partition('=') for each in authorization.removeprefix(aws_signatures.ALGORITHM).split(',')]
    found = {name: value for name, _, value in fields}
    whole = len(fields) == len(found) and set(found) == {'Credential', 'SignedHeaders', 'Signature'}
    return found if whole and authorization.startswith(aws_signatures.ALGORITHM) else {}
