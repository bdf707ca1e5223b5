"""Verification of EC2 signatures (AWS Signature Version 2 and 4) and of the age of signed requests.

keystoneclient's Ec2Signer builds the strings to sign.
"""
from __future__ import annotations

import base64
import datetime
import hmac
import re
from typing import TypedDict

from keystoneclient.contrib.ec2 import utils as ec2_utils

VALID = datetime.timedelta(minutes=15)        # maximum difference between a request's time and now
ALGORITHM = 'AWS4-HMAC-SHA256'
_BASIC = re.compile(r'\d{8}T\d{6}Z')
_EXTENDED = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z?')


class SignedRequest(TypedDict):
    """A signed request in the format of ``POST /v3/ec2tokens``."""

    access: str
    signature: str
    host: str
    verb: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body_hash: str


def matches(secret: str, signed: SignedRequest) -> bool:
    """Verify the signature of a request. Versions 0 and 1 do not sign the whole request and never match."""
    params, headers = dict(signed['params']), _headers(signed)
    version_4 = _is_v4(params, headers)
    if version_4 and params.get('SignatureVersion') in ('0', '1', '2'):
        return False             # Ec2Signer would verify the signature of this version, which need not cover X-Amz-Date
    if not version_4 and (params.get('SignatureVersion'), params.get('SignatureMethod')) != ('2', 'HmacSHA256'):
        return False                           # Ec2Signer ignores SignatureMethod
    for name in ('Signature', 'X-Amz-Signature'):
        params.pop(name, None)
    if version_4 and (params.get('SignatureMethod') == 'HmacSHA1' or 'host' not in _signed_headers(params, headers)):
        return False
    try:
        wanted = ec2_utils.Ec2Signer(secret).generate({**signed, 'params': params, 'headers': headers})
    except Exception:                          # the request has a malformed scope, date or name
        return False
    return hmac.compare_digest(wanted.encode(), str(signed['signature']).encode())


def matches_text(secret: str, text: str, signature: str) -> bool:
    """Verify the signature of an S3 request.

    :param text: string to sign; version 4 if it begins with ALGORITHM (line 3 is the scope), otherwise HMAC-SHA1
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
    """Derive the signing key of version 4 for a day, a region and S3; None if the scope is not of this form."""
    parts = scope.split('/')
    if len(parts) != 4 or parts[2:] != ['s3', 'aws4_request']:
        return None
    key = ('AWS4' + secret).encode()
    for part in parts:
        key = hmac.digest(key, part.encode(), 'sha256')
    return key


def is_recent(signed: SignedRequest, now: datetime.datetime) -> bool:
    """Return True if the signed time of a request is recent, or the signed expiry is in the future.

    :param now: UTC, naive
    """
    params, headers = signed['params'], _headers(signed)
    lasts = ''
    if _is_v4(params, headers):                # version 4 signs the time only in X-Amz-Date
        made = _time(headers.get('X-Amz-Date', params.get('X-Amz-Date')))
        lasts = params.get('X-Amz-Expires', '')
    else:                                      # version 2 signs only parameters
        end = _time(params.get('Expires'))
        if end is not None:
            return now < end
        made = _time(params.get('Timestamp'))
    if made is None:
        return False
    valid = min(VALID, datetime.timedelta(seconds=int(lasts))) if re.fullmatch('[0-9]{1,7}', lasts) else VALID
    return -VALID <= now - made <= valid       # not now <= made + VALID, which could overflow


def _is_v4(params: dict[str, str], headers: dict[str, str]) -> bool:
    return (headers.get('Authorization', '').startswith(ALGORITHM)
            or 'Authorization' not in headers and params.get('X-Amz-Algorithm') == ALGORITHM)


def _signed_headers(params: dict[str, str], headers: dict[str, str]) -> list[str]:
    found = headers.get('Authorization', '').partition('SignedHeaders=')[2].split(',')[0]
    return (found or params.get('X-Amz-SignedHeaders', '')).split(';')


def _headers(signed: SignedRequest) -> dict[str, str]:
    """Return the headers with capitalized names, as Ec2Signer expects them."""
    return {'-'.join(part.capitalize() for part in name.split('-')): value
            for name, value in (signed.get('headers') or {}).items()}


def _time(text: str | None) -> datetime.datetime | None:
    """Parse a time of a request into naive UTC; None if it is malformed."""
    text = text or ''
    try:
        if _BASIC.fullmatch(text):
            return datetime.datetime.strptime(text, '%Y%m%dT%H%M%SZ')
        if _EXTENDED.fullmatch(text):
            return datetime.datetime.fromisoformat(text.rstrip('Z'))
    except ValueError:
        pass
    return None
