"""Bare metal nodes (until 2.35): a read-only proxy to the Bare Metal service."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TYPE_CHECKING

from nova import exception
from nova.api import request as api_request
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.virt.ironic.client import Client

_RULE = 'os_compute_api:os-baremetal-nodes:'
LAST = 35
MANAGED = 'IRONIC MANAGED'


def _property(name: str) -> Callable[[api_request.Document, Any], str]:
    return lambda row, view: str((row['properties'] or {}).get(name) or 0)


SUMMARY = Fields(
    Field('id', 'uuid', type='string required'),
    Field('host', lambda row, view: MANAGED, type='string required'),
    Field('task_state', lambda row, view: row['provision_state'] or '', type='string required'),
    Field('cpus', _property('cpus'), type='string required'),
    Field('memory_mb', _property('memory_mb'), type='string required'),
    Field('disk_gb', _property('local_gb'), type='string required'),
    Field('interfaces', lambda row, view: [{'address': address} for address in view[row['uuid']]],
          type='array required'),
)
VIEW = SUMMARY + Fields(Field('instance_uuid', 'instance_uuid', type='string|null required'))


def index(req: api_request.Request) -> JsonDocument:
    service = _service(req)
    try:
        nodes, addresses = service.nodes(), service.addresses()
    except exception.VirtError as error:
        raise exception.Unavailable(str(error)) from None
    build = SUMMARY.builder(req, addresses)
    return {'nodes': [build(node) for node in nodes]}


def show(req: api_request.Request, id: str) -> JsonDocument:
    service = _service(req)
    try:
        node = service.find(id) if formats.is_uuid(id) else None
        addresses = service.addresses(id) if node is not None else {}
    except exception.VirtError as error:
        raise exception.Unavailable(str(error)) from None
    if node is None:
        raise exception.NotFound(f'Node {id[:40]} could not be found.')
    return {'node': VIEW.builder(req, addresses)(node)}


def _service(req: api_request.Request) -> Client:
    """Return the client of the Bare Metal service.

    :raises Unsupported: the deployment does not have this service
    """
    if req.services.bare_metal is None:
        raise exception.Unsupported('This deployment has no Bare Metal service.')
    return req.services.bare_metal


def write(req: api_request.Request, id: str | None = None) -> NoReturn:
    raise exception.BadRequest('Bare metal nodes are read-only here. Use the API of the Bare Metal service.')


_PATH = '/os-baremetal-nodes'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'list', until=LAST, errors=(404, 501)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', until=LAST, errors=(404, 501)),
    Route('POST', _PATH, write, policy=_RULE + 'list', until=LAST, errors=(400,)),
    Route('DELETE', _PATH + '/{id}', write, policy=_RULE + 'list', until=LAST, errors=(400,)),
    *(Route('POST', _PATH + '/{id}/action', write, policy=_RULE + 'show', until=LAST, errors=(400,), action=name)
      for name in ('add_interface', 'remove_interface')),
)
