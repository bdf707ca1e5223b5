"""Resources of the Key Manager API: a row for each field."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova.db.tables import key_manager as t
from nova.keymanager import generation
from nova.keymanager import store
from nova.web import json_types
from nova.web.fields import ABSENT
from nova.web.fields import Constant
from nova.web.fields import exact_moment
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Field
from nova.web.resource import Getter
from nova.web.resource import Resource
from nova.web.resource import Schema

if TYPE_CHECKING:
    from nova.json_types import Json
    from nova.keymanager.rest.request import KeyManagerRequest

TEXT: Schema = {'type': 'string'}
TEXT_OR_NULL: Schema = {'type': ['string', 'null']}
BOOLEAN: Schema = {'type': 'boolean'}
INTEGER: Schema = {'type': 'integer'}
INTEGER_OR_NULL: Schema = {'type': ['integer', 'null']}
TIME: Schema = {'type': 'string', 'pattern': json_types.DATE_TIME['pattern']}
TIME_OR_NULL: Schema = {**TIME, 'type': ['string', 'null']}
REF: Schema = {'type': 'string', 'format': 'uri'}
STRINGS: Schema = {'type': 'object', 'additionalProperties': TEXT}
TYPES = ('symmetric', 'passphrase', 'private', 'public', 'certificate', 'opaque')
_NAME: Schema = {'type': ['string', 'null'], 'maxLength': 255}
_LENGTH: Schema = {'type': ['integer', 'null'], 'minimum': 1, 'maximum': 32767}
_NOW = Constant('ACTIVE')
# keys of the entries in the field "consumers" of a secret and of a container
SECRET_CONSUMER, CONTAINER_CONSUMER = ('service', 'resource_type', 'resource_id'), ('name', 'URL')
SECRET_REF = closed('secret_ref', name=TEXT_OR_NULL, secret_ref=REF)


def _texts(*names: str) -> Schema:
    return closed(*names, **dict.fromkeys(names, TEXT))


def _ref(path: str, column: str = 'id') -> Getter:
    """Return a function that makes a URL from a column of a row, or returns ABSENT if the column is NULL."""
    return lambda row, request: ABSENT if row[column] is None else request.ref(f'{path}/{row[column]}')


def _stamps() -> tuple[Field, ...]:
    return (Field('created', TIME, exact_moment('created_at'), 'Time of the creation.', column='created_at',
                  filter='created', sort=True),
            Field('updated', TIME, exact_moment('updated_at'), 'Time of the last change.', column='updated_at',
                  filter='updated', sort=True),
            Field('status', {'const': 'ACTIVE'}, _NOW, 'Always ACTIVE.'))


def _consumers(row: dict[str, Any], _request: KeyManagerRequest) -> list[Json]:
    return [consumer['document'] for consumer in row['consumers']]


def _refs(row: dict[str, Any], request: KeyManagerRequest) -> list[Json]:
    return [{'name': name or None, 'secret_ref': request.ref(f'secrets/{ident}')} for name, ident in row['secrets']]


def _content_types(row: dict[str, Any], _request: KeyManagerRequest) -> Any:
    return ABSENT if row['content_type'] is None else {'default': row['content_type']}


_CREATOR = Field('creator_id', TEXT, 'creator_id', 'User who created it.')
SECRET = Resource('secret', 'secrets', t.key_secrets, (
    *_stamps(),
    Field('name', TEXT_OR_NULL, 'name', 'Name.', filter='name', sort=True, write='create', accepts=_NAME),
    Field('secret_type', {'enum': [*TYPES]}, 'secret_type', 'Kind of the secret.', filter='secret_type', sort=True,
          write='create'),
    Field('expiration', TIME_OR_NULL, exact_moment('expires_at'),
          'Expiration time. The secret is not found after this time.', column='expires_at', filter='expiration',
          sort=True, write='create', accepts={'type': ['string', 'null'], 'maxLength': 40}),
    Field('algorithm', TEXT_OR_NULL, 'algorithm', 'Algorithm of the key, for information.', filter='alg',
          write='create', accepts=_NAME),
    Field('bit_length', INTEGER_OR_NULL, 'bit_length', 'Length of the key, for information.', filter='bits',
          write='create', accepts=_LENGTH),
    Field('mode', TEXT_OR_NULL, 'mode', 'Mode of the algorithm, for information.', filter='mode', sort=True,
          write='create', accepts=_NAME),
    _CREATOR,
    Field('consumers', [_texts(*SECRET_CONSUMER)], _consumers, 'Resources that use the secret.', since=1),
    Field('content_types', closed('default', default=TEXT), _content_types,
          'Media type of the payload; absent while there is none.', optional=True),
    Field('secret_ref', REF, _ref('secrets'), 'URL of the secret.'),
))

CONTAINER = Resource('container', 'containers', t.key_containers, (
    *_stamps(),
    Field('name', TEXT_OR_NULL, 'name', 'Name.', filter='name', sort=True, write='create', accepts=_NAME),
    Field('type', {'enum': [*store.CONTAINERS]}, 'type',
          'Type of the container, which determines the names of its secrets.', filter='type', sort=True, write='create',
          required=True),
    _CREATOR,
    Field('secret_refs', [SECRET_REF], _refs, 'Secrets of the container.'),
    Field('consumers', [_texts(*CONTAINER_CONSUMER)], _consumers, 'Resources that use the container.'),
    Field('container_ref', REF, _ref('containers'), 'URL of the container.'),
))

META = closed('name', 'algorithm', 'bit_length', 'expiration', name=TEXT_OR_NULL, algorithm=TEXT, bit_length=INTEGER,
              mode=TEXT_OR_NULL, payload_content_type=TEXT_OR_NULL, expiration=TIME_OR_NULL)
ORDER = Resource('order', 'orders', t.key_orders, (
    *_stamps(),
    Field('type', {'enum': [*generation.ALGORITHMS]}, 'type', 'key: a symmetric key. asymmetric: a key pair.'),
    Field('meta', META, 'meta', 'Request for the key.'),
    _CREATOR,
    Field('secret_ref', REF, _ref('secrets', 'secret_id'), 'URL of the key.', optional=True),
    Field('container_ref', REF, _ref('containers', 'container_id'), 'URL of the container with the key pair.',
          optional=True),
    Field('order_ref', REF, _ref('orders'), 'URL of the order.'),
))


class Bare(Document):
    """A response with the document of one row, without an enclosing key."""

    def __init__(self, resource: Resource) -> None:
        super().__init__({})
        self._view = resource.view('show')

    def schema(self, version: int) -> Schema:
        return self._view.schema(version)

    def render(self, request: Any, result: Any) -> Any:
        return self._view.documents(request)(result)


class Pages(Document):
    """A response with a page of a list.

    :param plural: key of the items
    :param item: schema of an item, or the resource of the rows
    """

    def __init__(self, plural: str, item: Schema | Resource) -> None:
        super().__init__({plural: [item.view('show') if isinstance(item, Resource) else item], 'total': INTEGER},
                         {'next': REF, 'previous': REF})
