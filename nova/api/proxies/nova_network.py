"""Operations of nova-network that other network services lack; requires [api] nova_network_resources.

(path, method or action) -> Operation. documents/removed.py has the routes.
"""

from nova import exception
from nova.api import request as api_request
from nova.api.proxies import default_rules
from nova.api.proxies import floating_ip_dns
from nova.api.proxies import floating_ranges
from nova.api.proxies import network_writes
from nova.api.proxies.operations import ANY
from nova.api.proxies.operations import Operation
from nova.api.servers import lookup as server_lookup
from nova.network.operators import networks as operators
from nova.web.request import Content
from nova.web.request import Response

LAST_INTERFACES = 43
RESERVED, NETWORK_ID = 4, 12     # first microversions with the reserved flag, and with the network of an interface


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


def _interfaces(req: api_request.Request, server_id: str) -> api_request.Document:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_lookup.find(req, conn, server_id)
    names = ('id', 'mac_address', 'net_id') if req.version >= NETWORK_ID else ('id', 'mac_address')
    shown = [{'id': vif['id'], 'mac_address': vif['address'], 'net_id': vif['network']['id']}
             for vif in row['network_info'] or ()]
    return {'virtual_interfaces': [{name: vif[name] for name in names} for vif in shown]}


_FIXED = 'nova:fixed-ips'
SERVED: dict[tuple[str, str], Operation] = {
    ('os-fixed-ips/{id}', 'GET'): Operation(_show_fixed, _FIXED),
    ('os-fixed-ips/{id}/action', 'reserve'): Operation(_reserve, _FIXED, 202),
    ('os-fixed-ips/{id}/action', 'unreserve'): Operation(_unreserve, _FIXED, 202),
    ('servers/{server_id}/os-virtual-interfaces', 'GET'): Operation(_interfaces, None, last=LAST_INTERFACES),
    **default_rules.SERVED, **floating_ip_dns.SERVED, **floating_ranges.SERVED, **network_writes.SERVED,
}
CHECKS = {key: (row.rule, *row.more) for key, row in SERVED.items() if row.rule is not None}
BODIES = {key: ANY for key, row in SERVED.items() if row.body is not None}
# unsupported operations
REFUSED = {
    'os-fping': 'This network service does not ping servers.',
    'associate_host': 'Networks of this service are plugged on the hosts of their servers only.',
}
REFUSED['disassociate_host'] = REFUSED['associate_host']


def refusal(path: str, name: str) -> str | None:
    """Return the reason why an operation is unsupported, or None."""
    return REFUSED.get(name, REFUSED.get(path.partition('/')[0]))


def serve(req: api_request.Request, path: str, name: str, **parts: str) -> Response | Content:
    """Run an operation.

    :raises NotFound: this microversion does not have it
    :raises PolicyDenied, BadRequest: see the handlers
    """
    row = SERVED[path, name]
    if req.version > row.last:
        raise exception.NotFound()
    if row.rule is not None:
        req.authorize(row.rule)
    if row.body is not None:
        req.body = row.body.validate(req.body, req.version)
    return row.handler(req, **parts)


def code(path: str, name: str) -> int:
    """Return the success code."""
    return SERVED[path, name].code


def offered(req: api_request.Request) -> bool:
    """Return True if the deployment enables these operations."""
    conf = req.services.conf
    return bool(conf.api.nova_network_resources and conf.network.backend == 'embedded')
