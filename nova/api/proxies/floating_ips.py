"""Floating IPs of the configured network service."""
from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from nova import exception
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonDocument
from nova.network import interface
from nova.web import params
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.network import floating
    from nova.network.neutron import floating as neutron_floating

_RULE = 'os_compute_api:os-floating-ips:'
LAST = 35                   # last minor version of the resource
LAST_ACTION = 43            # last minor version of the server actions


LOG = logging.getLogger(__name__)


def _of(req: api_request.Request) -> floating.FloatingIps | neutron_floating.FloatingIps:
    return req.services.networks.floating_ips_of(req.context)


def notify_hosts(req: api_request.Request, what: str = 'floating IP') -> None:
    """Cast to the network services to reload ports. After a lost cast, the services reload at their next report."""
    try:
        req.services.network.refresh_ports(req.context, port_ids=[])
    except exception.Unavailable as error:
        LOG.warning('Cannot notify the network services of a changed %s: %s', what, error)


def pools(req: api_request.Request) -> JsonDocument:
    return {'floating_ip_pools': [{'name': name} for name in _of(req).pools()]}


def index(req: api_request.Request) -> JsonDocument:
    return {'floating_ips': _of(req).all()}


def create(req: api_request.Request) -> JsonDocument:
    return {'floating_ip': _of(req).create((req.body or {}).get('pool'))}


def show(req: api_request.Request, id: str) -> JsonDocument:
    return {'floating_ip': _of(req).show(id)}


def delete(req: api_request.Request, id: str) -> None:
    server_id = _of(req).show(id)['instance_id']
    _of(req).delete(id)
    notify_hosts(req)
    if server_id:
        with contextlib.suppress(exception.NotFound):
            _let_host_read(req, server_lookup.get(req, server_id))


def add(req: api_request.Request, id: str) -> None:
    row = server_lookup.get(req, id, _RULE + 'add')
    given = req.body['addFloatingIp']
    _of(req).add(id, given['address'], given.get('fixed_address'))
    notify_hosts(req)
    _let_host_read(req, row)


def remove(req: api_request.Request, id: str) -> None:
    row = server_lookup.get(req, id, _RULE + 'remove')
    _of(req).remove(id, req.body['removeFloatingIp']['address'])
    notify_hosts(req)
    _let_host_read(req, row)


def _let_host_read(req: api_request.Request, row: InstancesRow) -> None:
    """Make the host of a server refresh the stored network info, from which responses are made."""
    if row['host']:
        cell = server_lookup.cell_of(req, row['uuid'])
        casts.to_host(req, cell, row, cell.rpc.compute.external_instance_event,
                      events=[interface.NETWORK_CHANGED])


def _body(name: str, *more: params.Param) -> params.Object:
    return params.document(name, params.Param('address', params.IP_ADDRESS, required=True), *more)


_PATH, _SERVER = '/os-floating-ips', '/servers/{id}/action'
ROUTES = (
    Route('GET', '/os-floating-ip-pools', pools, policy='os_compute_api:os-floating-ip-pools', until=LAST),
    Route('GET', _PATH, index, policy=_RULE + 'list', until=LAST),
    Route('POST', _PATH, create, policy=_RULE + 'create', until=LAST, errors=(400, 403, 404),
          body=params.Object(params.Param('pool', params.nullable(params.STRING)), closed=False)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', until=LAST, errors=(400, 404)),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', until=LAST, status=202,
          errors=(400, 403, 404, 409)),
    Route('POST', _SERVER, add, policy=_RULE + 'add', until=LAST_ACTION,
          action='addFloatingIp', status=202, errors=(400, 403, 404),
          body=_body('addFloatingIp', params.Param('fixed_address', params.IP_ADDRESS))),
    Route('POST', _SERVER, remove, policy=_RULE + 'remove',
          until=LAST_ACTION, action='removeFloatingIp', status=202, errors=(400, 403, 404, 409),
          body=_body('removeFloatingIp')),
)
