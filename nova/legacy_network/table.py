"""Operations of nova-network, for the embedded network service; served if [api] nova_network_resources is set.

nova/api/documents/removed.py has the routes, policy rules and status codes.
"""

from nova import exception
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.legacy_network import default_rules
from nova.legacy_network import floating_ip_dns
from nova.legacy_network import floating_ranges
from nova.legacy_network import network_writes
from nova.legacy_network.operations import Operation
from nova.network.operators import networks as operators
from nova.web.request import Content
from nova.web.request import Response

RESERVED, NETWORK_ID = 4, 12     # first minor versions that show "reserved" of an address, and "net_id" of an interface


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


def _interfaces(req: api_request.Request, server_id: str) -> api_request.Document:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_lookup.find(req, conn, server_id)
    names = ('id', 'mac_address', 'net_id') if req.version >= NETWORK_ID else ('id', 'mac_address')
    shown = [{'id': vif['id'], 'mac_address': vif['address'], 'net_id': vif['network']['id']}
             for vif in row['network_info'] or ()]
    return {'virtual_interfaces': [{name: vif[name] for name in names} for vif in shown]}


SERVED: dict[tuple[str, str], Operation] = {
    ('os-fixed-ips/{id}', 'GET'): Operation(_show_fixed),
    ('os-fixed-ips/{id}/action', 'reserve'): Operation(
        lambda req, id: operators.reserve(req.services.api_db, id, True)),
    ('os-fixed-ips/{id}/action', 'unreserve'): Operation(
        lambda req, id: operators.reserve(req.services.api_db, id, False)),
    ('servers/{server_id}/os-virtual-interfaces', 'GET'): Operation(_interfaces),
    **default_rules.SERVED, **floating_ip_dns.SERVED, **floating_ranges.SERVED, **network_writes.SERVED,
}


def serve(req: api_request.Request, path: str, name: str, **parts: str) -> Response | Content:
    """Run an operation.

    :raises BadRequest: the body is invalid; see also the handlers
    """
    row = SERVED[path, name]
    if row.body is not None:
        req.body = row.body.validate(req.body, req.version)
    result: Response | Content = row.handler(req, **parts)
    return result
