"""Create and delete operations of os-networks and os-tenant-networks, for the embedded network service.

A network that os-networks creates is shared unless the request names a project. The type of this network is VLAN if the
request has a VLAN ID, otherwise the default type of project networks.
"""
import ipaddress
from typing import Any

from nova import exception
from nova.api.projects import known
from nova.api.proxies import floating_ips
from nova.api.proxies import networks
from nova.api.request import Request
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.tables.rows import NetworksRow
from nova.json_types import JsonDocument
from nova.legacy_network.operations import Operation
from nova.network import ipam
from nova.network.operators import legacy_parameters
from nova.network.operators import networks as operators
from nova.network.rest import calls
from nova.network.rest import networks as rest_networks
from nova.network.rest.request import Deps
from nova.web import params
from nova.web.params import Object
from nova.web.params import Param

_LABEL = Param('label', params.string(1, 255), required=True)
_TEXT = params.nullable(params.string(1, 43))
_VLAN = {'type': ['integer', 'string', 'null']}
# {unsupported parameter: reason}
REFUSED = {
    **legacy_parameters.REFUSED,
    'fixed_cidr': 'allowed_start and allowed_end limit the addresses of servers',
    'vpn_start': 'os-cloudpipe configures the port of a VPN instance',
}
_CREATE = params.document(
    'network', _LABEL, *(Param(name, _TEXT) for name in ('cidr', 'cidr_v6', 'gateway', 'gateway_v6', 'dns1', 'dns2',
                                                         'allowed_start', 'allowed_end')),
    Param('project_id', params.nullable(params.string(1, 255))), Param('vlan', _VLAN), Param('vlan_start', _VLAN),
    Param('mtu', {'type': ['integer', 'string', 'null']}), Param('enable_dhcp', {'type': ['boolean', 'null']}),
    *(Param(name, {}) for name in REFUSED))
_TENANT_CREATE = params.document('network', _LABEL, Param('cidr', params.string(1, 43), required=True))
_ADD = Object(Param('id', params.nullable(params.string(1, 255)), required=True))


def _create(req: Request) -> JsonDocument:
    given = {name: value for name, value in req.body['network'].items() if value is not None}
    legacy_parameters.refuse(given, REFUSED)
    if 'vlan' in given and 'vlan_start' in given:
        raise exception.BadRequest('vlan and vlan_start have the same meaning for one network: send only one of them.')
    vlan, project = given.get('vlan', given.get('vlan_start')), given.get('project_id')
    if project is not None:
        known.check(req, project)
    kind = {} if vlan is None else {'provider:network_type': 'vlan', 'provider:segmentation_id': vlan}
    owner = {} if project is None else {'project_id': project}
    ident = _make(req, {'name': given['label'], 'shared': project is None, 'mtu': given.get('mtu'), **kind, **owner},
                  [*legacy_parameters.subnet_v4(given), *legacy_parameters.subnet_v6(given)], for_all=project is None)
    return networks.show(req, ident)


def _make(req: Request, network: dict[str, Any], subnets: list[dict[str, Any]], for_all: bool = False) -> str:
    """Create a network with subnets in one transaction; return its ID.

    :param for_all: the network does not belong to a project
    """
    deps = Deps(req.services.conf, req.services.api_db)

    def make(conn: Connection) -> str:
        return legacy_parameters.make(conn, deps, req.services.networks.caller(req.context), network, subnets, for_all)
    ident: str = req.services.api_db.run(ipam.retry_on_duplicate(make))
    floating_ips.notify_hosts(req, 'network')
    return ident


def _tenant_create(req: Request) -> JsonDocument:
    given = req.body['network']
    try:
        version = ipaddress.ip_network(given['cidr'], strict=False).version
    except ValueError:
        raise exception.BadRequest('cidr must be a network such as 10.0.0.0/24.') from None
    subnets = (legacy_parameters.subnet_v4(given) if version == 4
               else legacy_parameters.subnet_v6({'cidr_v6': given['cidr']}))
    return networks.show(req, _make(req, {'name': given['label']}, subnets), tenant=True)


def _changeable(conn: Connection, req: Request, id: str, rule: str) -> NetworksRow:
    row = calls.get_changeable(conn, req.services.networks.caller(req.context), rest_networks.NETWORKS, id, rule)
    if row['project_id']:
        log.belongs_to(row['project_id'])
    return row


def _delete(req: Request, id: str) -> None:
    deps = Deps(req.services.conf, req.services.api_db)

    def drop(conn: Connection) -> None:
        rest_networks.NETWORKS.delete(conn, deps, req.services.networks.caller(req.context),
                                      _changeable(conn, req, id, 'delete_network'))
    req.services.api_db.run(drop)
    floating_ips.notify_hosts(req, 'network')


def _add(req: Request) -> None:
    operators.add_network_to_project(req.services.conf, req.services.api_db, req.context, req.body['id'])
    floating_ips.notify_hosts(req, 'network')


def _release(req: Request, id: str) -> None:
    def give(conn: Connection) -> None:
        row = _changeable(conn, req, id, 'update_network')
        if not req.context.is_admin:
            raise exception.PolicyDenied(rule='update:shared')
        operators.release(conn, row['id'])
    req.services.api_db.run(give)
    floating_ips.notify_hosts(req, 'network')


SERVED = {
    ('os-networks', 'POST'): Operation(_create, _CREATE),
    ('os-networks/add', 'POST'): Operation(_add, _ADD),
    ('os-networks/{id}', 'DELETE'): Operation(_delete),
    ('os-networks/{id}/action', 'disassociate'): Operation(_release),
    ('os-networks/{id}/action', 'disassociate_project'): Operation(_release),
    ('os-tenant-networks', 'POST'): Operation(_tenant_create, _TENANT_CREATE),
    ('os-tenant-networks/{id}', 'DELETE'): Operation(_delete),
}
