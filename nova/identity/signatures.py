"""Signatures of EC2 requests, versions 2 and 4: whether one is right, and whether it is recent.

A signed request is a mapping as ``POST /v3/ec2tokens`` takes it: access, signature, host, verb, path, params, headers,
body_hash. The strings to sign are those of AWS Signature Version 2 and 4; keystoneclient's Ec2Signer makes them.
"""
from __future__ import annotations

import base64
import datetime
import hmac
import re
from typing import Any

from keystoneclient.contrib.ec2 import utils as ec2_utils

VALID = datetime.timedelta(minutes=15)        # before and after the time that a request names
ALGORITHM = 'AWS4-HMAC-SHA256'
_BASIC = re.compile(r'\d{8}T\d{6}Z')
_EXTENDED = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z?')


def matches(secret: str, signed: dict[str, Any]) -> bool:
    """Whether a request was signed with this secret. Versions 0 and 1 leave parts of it unsigned and never match."""
    params, headers = dict(signed['params']), _headers(signed)
    version_4 = _is_v4(params, headers)
    if version_4 and params.get('SignatureVersion') in ('0', '1', '2'):
        return False                           # the library takes that version, which has no signed time of version 4
    if not version_4 and (params.get('SignatureVersion'), params.get('SignatureMethod')) != ('2', 'HmacSHA256'):
        return False                           # the library uses its own name of the method, not the one that was sent
    for name in ('Signature', 'X-Amz-Signature'):
        params.pop(name, None)
    if version_4 and (params.get('SignatureMethod') == 'HmacSHA1' or 'host' not in _signed_headers(params, headers)):
        return False
    try:
        wanted = ec2_utils.Ec2Signer(secret).generate({**signed, 'params': params, 'headers': headers})
    except Exception:                          # of a scope, a date or a name that cannot be cut into its parts
        return False
    return hmac.compare_digest(wanted.encode(), str(signed['signature']).encode())


def matches_text(secret: str, text: str, signature: str) -> bool:
    """Whether a string to sign of S3 was signed with this secret.

    :param text: of version 4, whose third line is the scope; any other is one of version 2, HMAC-SHA1
    """
    if text.startswith(ALGORITHM):
        key = key_of_scope(secret, ''.join(text.split('\n')[2:3]))
        if key is None:
            return False
        wanted = hmac.digest(key, text.encode(), 'sha256').hex()
    else:
        wanted = base64.b64encode(hmac.digest(secret.encode(), text.encode(), 'sha1')).decode()
    return hmac.compare_digest(wanted.encode(), signature.encode())


def key_of_scope(secret: str, scope: str) -> bytes | None:
    """The key of version 4 for one day, region and S3, which the secret does not follow from; None: another scope."""
    parts = scope.split('/')
    if len(parts) != 4 or parts[2:] != ['s3', 'aws4_request']:
        return None
    key = ('AWS4' + secret).encode()
    for part in parts:
        key = hmac.digest(key, part.encode(), 'sha256')
    return key


def is_recent(signed: dict[str, Any], now: datetime.datetime) -> bool:
    """Whether the signed time of a request is near, or its signed end is yet to come.

    :param now: UTC, naive
    """
    params, headers = signed['params'], _headers(signed)
    lasts = ''
    if _is_v4(params, headers):                # its string to sign has this date, and no other
        made = _time(headers.get('X-Amz-Date', params.get('X-Amz-Date')))
        lasts = params.get('X-Amz-Expires', '')
    else:                                      # version 2 signs the parameters alone
        end = _time(params.get('Expires'))
        if end is not None:
            return now < end
        made = _time(params.get('Timestamp'))
    if made is None:
        return False
    valid = min(VALID, datetime.timedelta(seconds=int(lasts))) if re.fullmatch('[0-9]{1,7}', lasts) else VALID
    return -VALID <= now - made <= valid       # the difference of two moments is in range, whatever their years are


def _is_v4(params: dict[str, str], headers: dict[str, str]) -> bool:
    return (headers.get('Authorization', '').startswith(ALGORITHM)
            or 'Authorization' not in headers and params.get('X-Amz-Algorithm') == ALGORITHM)


def _signed_headers(params: dict[str, str], headers: dict[str, str]) -> list[str]:
    found = headers.get('Authorization', '').partition('SignedHeaders=')[2].split(',')[0]
    return (found or params.get('X-Amz-SignedHeaders', '')).split(';')


def _headers(signed: dict[str, Any]) -> dict[str, str]:
    """The headers, named as Ec2Signer looks for them."""
    return {'-'.join(part.capitalize() for part in name.split('-')): value
            for name, value in (signed.get('headers') or {}).items()}


def _time(text: str | None) -> datetime.datetime | None:
    """A time of a request: UTC, naive; None where it is none."""
    text = text or ''
    try:
        if _BASIC.fullmatch(text):
            return datetime.datetime.strptime(text, '%Y%m%dT%H%M%SZ')
        if _EXTENDED.fullmatch(text):
            return datetime.datetime.fromisoformat(text.rstrip('Z'))
    except ValueError:
        pass
    return None
