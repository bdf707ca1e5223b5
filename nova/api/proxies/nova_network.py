"""What only the network service within the compute service had: by [api] nova_network_resources, for administrators.

(path, method or action) -> the handler and its last microversion. The rows are those of documents/removed.py.
"""
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.network import operators

LAST, LAST_INTERFACES = 35, 43
RESERVED, NETWORK_ID = 4, 12     # microversions that show whether an address is, and the network of an interface


def _show_fixed(req: api_request.Request, id: str) -> api_request.Document:
    found = operators.show_fixed(req.services.api_db, id)
    view = {'address': found['address'], 'cidr': found['cidr'], 'host': found['host'],
            'hostname': _hostname(req, found['instance_id'])}
    return {'fixed_ip': {**view, 'reserved': found['reserved']} if req.version >= RESERVED else view}


def _hostname(req: api_request.Request, server_id: str | None) -> str | None:
    try:
        cell = server_lookup.cell_of(req, server_id or '')
        with cell.db.reader() as conn:
            return server_lookup.find(req, conn, server_id or '')['hostname']
    except exception.InstanceNotFound:
        return None


def _reserve(req: api_request.Request, id: str) -> None:
    operators.reserve(req.services.api_db, id, True)


def _unreserve(req: api_request.Request, id: str) -> None:
    operators.reserve(req.services.api_db, id, False)


def _floating(req: api_request.Request, id: str | None = None) -> api_request.Document:
    return {'floating_ip_info': operators.floating(req.services.api_db, id)}


def _delete_network(req: api_request.Request, id: str) -> None:
    operators.delete_network(req.services.api_db, id[:255])


def _release_network(req: api_request.Request, id: str) -> None:
    operators.give_network(req.services.api_db, id[:255], None)


def _interfaces(req: api_request.Request, server_id: str) -> api_request.Document:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_lookup.find(req, conn, server_id)
    names = ('id', 'mac_address', 'net_id') if req.version >= NETWORK_ID else ('id', 'mac_address')
    shown = [{'id': vif['id'], 'mac_address': vif['address'], 'net_id': vif['network']['id']}
             for vif in row['network_info'] or ()]
    return {'virtual_interfaces': [{name: vif[name] for name in names} for vif in shown]}


SERVED: dict[tuple[str, str], tuple[Callable[..., Any], int]] = {
    ('os-fixed-ips/{id}', 'GET'): (_show_fixed, LAST),
    ('os-fixed-ips/{id}/action', 'reserve'): (_reserve, LAST),
    ('os-fixed-ips/{id}/action', 'unreserve'): (_unreserve, LAST),
    ('os-floating-ips-bulk', 'GET'): (_floating, LAST),
    ('os-floating-ips-bulk/{id}', 'GET'): (_floating, LAST),
    ('os-networks/{id}', 'DELETE'): (_delete_network, LAST),
    ('os-networks/{id}/action', 'disassociate'): (_release_network, LAST),
    ('os-networks/{id}/action', 'disassociate_project'): (_release_network, LAST),
    ('servers/{server_id}/os-virtual-interfaces', 'GET'): (_interfaces, LAST_INTERFACES),
}


def serve(req: api_request.Request, path: str, name: str, **parts: str) -> Any:
    """What one of them answers.

    :raises Gone, NotFound, PolicyDenied:
    """
    handler, last = SERVED[path, name]
    if req.version > last:
        raise exception.NotFound()
    if not req.context.is_admin and handler is not _interfaces:
        raise exception.PolicyDenied(rule='[api] nova_network_resources')
    return handler(req, **parts)


def code(name: str) -> int:
    """The code of success of a method or an action."""
    return 200 if name == 'GET' else 202


def offered(req: api_request.Request) -> bool:
    """Whether this deployment has them."""
    conf = req.services.conf
    return bool(conf.api.nova_network_resources and conf.network.backend == 'embedded')
