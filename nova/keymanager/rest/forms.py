"""Requests of the Key Manager API: bodies and queries."""
from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING
import uuid

from nova import exception
from nova import utils
from nova.db.key_manager import records
from nova.keymanager import generation
from nova.keymanager import payloads
from nova.keymanager import store
from nova.keymanager.rest import resources
from nova.web import formats
from nova.web import params
from nova.web import resource
from nova.web.resource import closed

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.web.resource import Schema

MAX_KEYS = 100                           # maximum metadata items of a secret
MAX_USERS = 255                          # maximum users of an access control list
MAX_LIMIT, DEFAULT_LIMIT = 100, 10       # maximum and default rows of a page
MAX_COMPARISONS = 8                      # maximum comparisons in the filter of a time
_KEY: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255, 'pattern': r'^[A-Za-z0-9_.~-]+$'}
_SHORT: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_URL: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 500}
_REF_NAME: Schema = {'type': ['string', 'null'], 'maxLength': 255}
_SECRET_ID = re.compile(r'(?:.*/)?v1/secrets/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/?', re.DOTALL)


def expiration(text: str | None) -> datetime.datetime | None:
    """Parse the expiration of a new secret; None or '': the secret does not expire.

    :raises BadRequest: the text is not an ISO 8601 time, or the time is in the past
    """
    if not text:
        return None
    try:
        found = formats.parse_time(text)
    except ValueError:
        raise exception.BadRequest(f'expiration must be an ISO 8601 time, not {text!r}.') from None
    if found <= utils.utcnow():
        raise exception.BadRequest(f'expiration must be in the future, not {text!r}.')
    return found


def secret_id(ref: str) -> str:
    """Return the id of a secret from its URL.

    :raises BadRequest: it is not the URL of a secret
    """
    match = _SECRET_ID.fullmatch(ref)
    if match is None:
        raise exception.BadRequest(f'secret_ref must be the URL of a secret, not {ref[:80]!r}.')
    return str(uuid.UUID(match[1]))


_NO_TRANSPORT = 'Transport keys are not supported. Send the payload over TLS.'
_NEW = resources.SECRET.properties('create')
NEW_SECRET = resource.Whole(closed(
    **_NEW, payload={'type': ['string', 'null'], 'maxLength': 2 * payloads.MAX_BYTES},
    payload_content_type={'type': ['string', 'null'], 'maxLength': 80},
    payload_content_encoding={'enum': ['base64', None]}, transport_key_id={}, transport_key_needed={}),
    {'transport_key_id': _NO_TRANSPORT, 'transport_key_needed': _NO_TRANSPORT})
PAYLOAD = resource.Plain({})
METADATA = resource.Body('metadata', {'type': 'object', 'maxProperties': MAX_KEYS, 'propertyNames': _KEY,
                                      'additionalProperties': {'type': 'string', 'maxLength': 255}})
METADATUM = resource.Whole(closed('key', 'value', key=_KEY, value={'type': 'string', 'maxLength': 255}))
_USER: Schema = {'type': 'string', 'maxLength': 255, 'pattern': r'^[A-Za-z0-9_.:@-]+$'}
_USERS: Schema = {'type': 'array', 'items': _USER, 'maxItems': MAX_USERS}
ACL = resource.Whole(closed(read=closed(users=_USERS, **{'project-access': resources.BOOLEAN})))
SECRET_CONSUMER = resource.Whole(closed('service', 'resource_type', 'resource_id', service=_SHORT, resource_type=_SHORT,
                               resource_id=_SHORT))
CONTAINER_CONSUMER = resource.Whole(closed('name', 'URL', name=_SHORT, URL=_URL))
_SECRET_REF = closed('secret_ref', name=_REF_NAME, secret_ref=_URL)
SECRET_REF = resource.Whole(_SECRET_REF)
NEW_CONTAINER = resource.Whole(closed('type', **resources.CONTAINER.properties('create'), secret_refs={
    'type': 'array', 'items': _SECRET_REF, 'maxItems': store.MAX_SECRETS}))
_NO_PASSPHRASE = 'The order would show the passphrase. Restrict the private key with an access control list.'
NEW_ORDER = resource.Whole(closed('type', 'meta', type={'enum': [*generation.ALGORITHMS]}, meta=closed(
    'algorithm', 'bit_length', name=_NEW['name'], mode=_NEW['mode'], expiration=_NEW['expiration'],
    algorithm=_SHORT, bit_length={'type': 'integer', 'minimum': 1, 'maximum': 32767},
    payload_content_type={'enum': [payloads.OCTETS, None]}, passphrase={})))
_LIMIT: Schema = {'type': ['integer', 'null'], 'minimum': -1, 'maximum': 2147483647}
QUOTAS = resource.Body('project_quotas', closed(**dict.fromkeys(records.COUNTED, _LIMIT), cas={'enum': [-1, 0, None]}))


def check_order(meta: JsonObject) -> None:
    """Refuse parts of an order that are not supported; raises BadRequest."""
    resource.refuse(meta, {'passphrase': _NO_PASSPHRASE})


# ---- queries

def _number(text: str) -> int:
    return int(text)


_NUMBER = params.Type({'type': 'string', 'pattern': '^[0-9]{1,9}$'}, _number)
_POSITIVE = params.Type({'type': 'string', 'pattern': '^[1-9][0-9]{0,8}$'}, _number)
_TEXT = params.Type({'type': 'string', 'maxLength': 255})
_PAGE = (params.Param('limit', _POSITIVE, since=0), params.Param('offset', _NUMBER, since=0))
PAGE = params.Query(*_PAGE, closed=0)


def listing(shown: resource.Resource, *more: params.Param) -> params.Query:
    """Return the query of a list with the filters and sort keys of a resource."""
    filters = (params.Param(name, _NUMBER if name == 'bits' else _TEXT, since=0) for name in shown.filters)
    sort = (params.Param('sort', _TEXT, since=0),) if shown.sort_keys else ()
    return params.Query(*filters, *sort, *more, *_PAGE, closed=0)


ACL_ONLY = params.Param('acl_only', params.Type({'enum': ['true', 'false', 'True', 'False', '']},
                                                lambda text: text.lower() == 'true'), since=0)


def comparisons(name: str, column: str, text: str) -> list[records.Comparison]:
    """Parse ``created=gt:2026-01-01T00:00:00,lt:2026-02-01T00:00:00``.

    :param name: of the parameter, for the message
    :raises BadRequest: a time or an operator is not valid
    """
    found: list[records.Comparison] = []
    for part in text.split(','):
        before, colon, after = part.partition(':')
        op, value = (before, after) if before in records.OPERATORS else ('eq', part)
        try:
            found.append((column, op, formats.parse_time(value)))
        except ValueError:
            raise exception.BadRequest(f'{name} must be ISO 8601 times separated by commas, each as TIME or '
                                       f'OPERATOR:TIME; the operators are {", ".join(records.OPERATORS)}.') from None
    if len(found) > MAX_COMPARISONS:
        raise exception.BadRequest(f'{name} may have at most {MAX_COMPARISONS} times.')
    return found


def order(shown: resource.Resource, text: str) -> list[tuple[str, bool]]:
    """Parse ``sort=name:desc,created`` into [(column, descending)]; an empty text sorts by creation time.

    :raises BadRequest: a key or direction is not valid
    """
    known = {field.name: field.source for field in shown.fields if field.sort}
    found: dict[str, bool] = {}
    for part in filter(None, text.split(',')):
        name, _colon, direction = part.partition(':')
        if name not in known or direction not in ('', 'asc', 'desc'):
            raise exception.BadRequest(f'Cannot sort by {part[:40]!r}. Sort by {", ".join(known)}, each with :asc or '
                                       ':desc.')
        found[known[name]] = direction == 'desc'
    return [*found.items()] or [('created_at', False)]
