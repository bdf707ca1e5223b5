"""Networks (until 2.35): each with its first IPv4 and IPv6 subnet."""
import functools
import ipaddress
from typing import Any

from nova import utils
from nova.api import request as api_request
from nova.json_types import JsonDocument
from nova.web import fields
from nova.web.fields import Fields
from nova.web.routes import Route

LAST = 35
Field = fields.Field

# Fields for administrators that are always null, because the embedded network service has no values for them.
_NOTHING = ('bridge_interface', 'deleted', 'deleted_at', 'host', 'injected', 'multi_host', 'priority', 'rxtx_base',
            'share_address', 'vlan', 'vpn_private_address', 'vpn_public_address', 'vpn_public_port')


def _shown(row: api_request.Row, subnets: list[Any]) -> JsonDocument:
    """Return {field: value} of a network, with all fields of VIEW and ADMIN_VIEW."""
    view = dict.fromkeys(('cidr', 'netmask', 'gateway', 'broadcast', 'cidr_v6', 'gateway_v6', 'netmask_v6', 'dns1',
                          'dns2', 'dhcp_server', 'dhcp_start', 'enable_dhcp', *_NOTHING))
    view |= {'id': row['id'], 'label': row['name'], 'bridge': row['bridge'], 'mtu': row['mtu'],
             'project_id': row['project_id'] or None, 'created_at': utils.exact_time(row['created_at']),
             'updated_at': utils.exact_time(row['updated_at'])}
    first: dict[int, Any] = {}                   # {IP version: first subnet}
    for subnet in subnets:
        first.setdefault(ipaddress.ip_network(subnet['cidr']).version, subnet)
    if (subnet := first.get(6)) is not None:
        view |= {'cidr_v6': subnet['cidr'], 'gateway_v6': subnet['gateway_ip'],
                 'netmask_v6': str(ipaddress.ip_network(subnet['cidr']).netmask)}
    if (subnet := first.get(4)) is not None:
        cidr, names = ipaddress.ip_network(subnet['cidr']), [*subnet['dns_nameservers'], None, None]
        pools = subnet['allocation_pools']
        view |= {'cidr': subnet['cidr'], 'netmask': str(cidr.netmask), 'gateway': subnet['gateway_ip'],
                 'broadcast': str(cidr.broadcast_address), 'dns1': names[0], 'dns2': names[1],
                 'enable_dhcp': str(subnet['enable_dhcp']),
                 'dhcp_server': subnet['gateway_ip'] if subnet['enable_dhcp'] else None,
                 'dhcp_start': pools[0]['start'] if pools else None}
    return view


_PUBLIC = ('id', 'label', 'cidr', 'netmask', 'gateway', 'broadcast', 'cidr_v6', 'gateway_v6', 'netmask_v6', 'dns1',
           'dns2')
_ADMIN = ('bridge', 'mtu', 'project_id', 'created_at', 'updated_at', 'dhcp_server', 'dhcp_start', 'enable_dhcp',
          *_NOTHING)
_TYPES = {'id': 'string format=string required', 'label': 'string required', 'mtu': 'integer|null',
          'vpn_public_port': 'integer|null'}
VIEW = fields.Fields(*(Field(name, name, type=_TYPES.get(name, 'string|null required')) for name in _PUBLIC))
ADMIN_VIEW = VIEW + [Field(name, name, type=_TYPES.get(name, 'string|null')) for name in _ADMIN]
# the documented value for a network without a subnet is 'None'
TENANT_VIEW = fields.Fields(
    Field('id', 'id', type='string format=uuid required'),
    Field('label', 'label', type='string required'),
    Field('cidr', lambda view, req: view['cidr'] or view['cidr_v6'] or 'None',
          type='oneOf(const=None / string format=cidr) required'),
)


def _table(req: api_request.Request, tenant: bool) -> Fields:
    if tenant:
        return TENANT_VIEW
    return ADMIN_VIEW if req.context.is_admin else VIEW


def _views(req: api_request.Request, rows: list[Any], tenant: bool) -> list[api_request.Document]:
    subnets = req.services.networks.subnets_of(req.context, [row['id'] for row in rows])
    build = _table(req, tenant).builder(req)
    return [build(_shown(row, subnets[row['id']])) for row in rows]


def index(req: api_request.Request, tenant: bool = False) -> JsonDocument:
    return {'networks': _views(req, req.services.networks.list_networks(req.context), tenant)}


def show(req: api_request.Request, id: str, tenant: bool = False) -> JsonDocument:
    return {'network': _views(req, [req.services.networks.show_network(req.context, id)], tenant)[0]}


_RULE = 'os_compute_api:os-networks:'
_TENANT = 'os_compute_api:os-tenant-networks:'
ROUTES = (
    Route('GET', '/os-networks', index, policy=_RULE + 'list', until=LAST, errors=(401, 403)),
    Route('GET', '/os-networks/{id}', show, policy=_RULE + 'show', until=LAST, errors=(401, 403, 404)),
    Route('GET', '/os-tenant-networks', functools.partial(index, tenant=True), policy=_TENANT + 'list', until=LAST,
          errors=(401, 403)),
    Route('GET', '/os-tenant-networks/{id}', functools.partial(show, tenant=True), policy=_TENANT + 'show', until=LAST,
          errors=(401, 403, 404)),
)
