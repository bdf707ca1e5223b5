"""Operations on QoS specs of volume types: routes and handlers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.volume.rest import listing
from nova.volume.rest import schemas
from nova.volume.rest.resources import QOS
from nova.volume.rest.schemas import route
from nova.volume.store import qos
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import Page
from nova.web.resource import Schema
from nova.web.resource import shape

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeQosSpecsRow
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest

_NAMED = ('name', 'consumer')            # keys of a body that are not specs


def create_qos_specs(request: VolumeRequest) -> VolumeQosSpecsRow:
    given = request.body
    return request.store.qos.create(given['name'], given.get('consumer') or qos.CONSUMERS[0], _specs(given))


def update_qos_specs(request: VolumeRequest, ident: str) -> JsonObject:
    given = request.body
    request.store.qos.update(ident, given.get('consumer'), _specs(given))
    return {'qos_specs': given}


def _specs(given: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in _NAMED}


def list_associations(request: VolumeRequest, ident: str) -> JsonObject:
    return {'qos_associations': [{'association_type': 'volume_type', 'name': kind['name'], 'id': kind['id']}
                                 for kind in request.store.qos.types(ident)]}


_ALL, _ONE, _RULE = '/qos-specs', '/qos-specs/{ident}', 'volume_extension:qos_specs_manage:'
_VALUE: Schema = {'type': 'string', 'maxLength': 255}
_NAME, _CONSUMER = {**_VALUE, 'minLength': 1}, {'enum': [*qos.CONSUMERS]}
_OF_TYPE = listing.Query('vol_type_id')
ROUTES = (
    route('GET', _ALL, lambda req: listing.page_of_types(req, req.store.qos.every()), _RULE + 'get_all',
          query=listing.Query(*listing.PAGED, *listing.SORTED),
          answer=Page(QOS, 'show', more={'qos_specs_links': schemas.LINKS}), name='list_qos_specs'),
    route('POST', _ALL, create_qos_specs, _RULE + 'create', answer=One(QOS, 'show'), body=Body('qos_specs', {
        **closed('name', name=_NAME, consumer=_CONSUMER), 'additionalProperties': _VALUE})),
    route('GET', _ONE, lambda req, ident: req.store.qos.get(ident), _RULE + 'get', answer=One(QOS, 'show'),
          name='show_qos_specs'),
    route('PUT', _ONE, update_qos_specs, _RULE + 'update', answer=Document({'qos_specs': schemas.STRINGS}),
          body=Body('qos_specs', {**closed(consumer=_CONSUMER), 'additionalProperties': _VALUE})),
    route('PUT', f'{_ONE}/delete_keys', lambda req, ident: req.store.qos.unset(ident, req.body), _RULE + 'update',
          status=202, name='unset_qos_specs', body=Body('keys', {
              'type': 'array', 'items': _VALUE, 'minItems': 1, 'maxItems': 64})),
    route('DELETE', _ONE, lambda req, ident: req.store.qos.delete(ident, schemas.flag('force', req.query.get('force'))),
          _RULE + 'delete', status=202, query=listing.Query('force'), name='delete_qos_specs'),
    route('GET', f'{_ONE}/associations', list_associations, _RULE + 'get_all', answer=Document({
        'qos_associations': [shape(association_type={'const': 'volume_type'}, name=schemas.TEXT, id=schemas.UUID)]})),
    # the Block Storage API defines GET for these changes
    route('GET', f'{_ONE}/associate',
          lambda req, ident: req.store.qos.associate(ident, req.query.get('vol_type_id', '')), _RULE + 'update',
          status=202, query=_OF_TYPE, name='associate_qos_specs'),
    route('GET', f'{_ONE}/disassociate',
          lambda req, ident: req.store.qos.disassociate(ident, req.query.get('vol_type_id', '')), _RULE + 'update',
          status=202, query=_OF_TYPE, name='disassociate_qos_specs'),
    route('GET', f'{_ONE}/disassociate_all', lambda req, ident: req.store.qos.disassociate_all(ident), _RULE + 'update',
          status=202, name='disassociate_all_types'),
)
