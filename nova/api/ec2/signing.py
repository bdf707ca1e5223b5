"""What a client has signed: the parts of a request that prove who it is."""
from __future__ import annotations

import hashlib
import re
from typing import Any
import urllib.parse

from nova.api.ec2 import errors

ALGORITHM = 'AWS4-HMAC-SHA256'
_CREDENTIAL = re.compile(r'([^,\s/]+)/(\d{8})/([^,\s/]*)/([^,\s/]+)/aws4_request')
_SIGNATURE = re.compile(r'[0-9a-f]{64}')
WHO = 'GetCallerIdentity'                 # of STS, which clients of EC2 ask who they are
FORM = 'application/x-www-form-urlencoded'
Pairs = list[tuple[str, str]]


def pairs_of(environ: dict[str, Any], body: bytes) -> Pairs:
    """The parameters of a request: of the query of a GET, of the form of a POST.

    :raises Ec2Error: both have some, since one of them would not be signed, or they are no text
    """
    query = environ.get('QUERY_STRING', '')
    if environ['REQUEST_METHOD'] == 'POST':
        if query:
            raise errors.Ec2Error('InvalidParameterCombination', 'A POST has its parameters in the body alone.')
        kind = environ.get('CONTENT_TYPE', '').partition(';')[0].strip().lower()
        if kind not in ('', FORM):
            raise errors.Ec2Error('InvalidParameterValue', f'The body of a POST is of type {FORM}.')
        query = body
    try:
        text = query.decode('ascii') if isinstance(query, bytes) else query
        return urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), encoding='utf-8',
                                      errors='strict', max_num_fields=4096)
    except (UnicodeDecodeError, ValueError):
        raise errors.Ec2Error('InvalidParameterValue', 'The parameters are not form data in UTF-8.') from None


def signed_of(environ: dict[str, Any], body: bytes, pairs: Pairs) -> dict[str, Any]:
    """The signed request, as ``POST /v3/ec2tokens`` takes it.

    :raises Ec2Error: it has no signature
    """
    params = dict(pairs)
    headers = {name[5:].replace('_', '-').lower(): value
               for name, value in environ.items() if name.startswith('HTTP_') and isinstance(value, str)}
    if environ.get('CONTENT_TYPE'):
        headers['content-type'] = environ['CONTENT_TYPE']
    authorization = headers.get('authorization', '')
    given = {name: params.get(f'X-Amz-{name}', '') for name in ('Credential', 'Signature')}
    if authorization:
        given = _fields(authorization)
    found, signature = (kind.fullmatch(given.get(name, '')) for kind, name in (
        (_CREDENTIAL, 'Credential'), (_SIGNATURE, 'Signature')))
    # a signature for another service is no signature here
    if found and signature and found[4] == ('sts' if params.get('Action') == WHO else 'ec2'):
        access, proof = found[1], signature[0]
    elif not authorization and params.get('AWSAccessKeyId') and params.get('Signature'):
        access, proof = params['AWSAccessKeyId'], params['Signature']
    else:
        raise errors.Ec2Error('MissingAuthenticationToken', 'The request has no signature of version 2 or 4.', 403)
    named = {'-'.join(part.capitalize() for part in name.split('-')): value for name, value in headers.items()
             if name in ('authorization', 'host', 'content-type', 'content-md5', 'user-agent')
             or name.startswith(('x-amz-', 'amz-sdk-'))}
    path = urllib.parse.quote((environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')).encode('latin-1'))
    return {'access': access[:128], 'signature': proof[:256], 'host': environ.get('HTTP_HOST', ''),
            'verb': environ['REQUEST_METHOD'], 'path': path or '/', 'params': params, 'headers': named,
            'body_hash': hashlib.sha256(body).hexdigest()}


def _fields(authorization: str) -> dict[str, str]:
    """The fields of a header of version 4, each of which stands there once; nothing of another one."""
    fields = [each.strip().partition('=') for each in authorization.removeprefix(ALGORITHM).split(',')]
    found = {name: value for name, _, value in fields}
    whole = len(fields) == len(found) and set(found) == {'Credential', 'SignedHeaders', 'Signature'}
    return found if whole and authorization.startswith(ALGORITHM) else {}
