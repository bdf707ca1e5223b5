"""Documents without a resource: versions, extensions, quotas, and empty collections."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import typing
import uuid

from nova import exception
from nova.db.networks import hosts as db_hosts
from nova.db.networks import limits as db_limits
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.network import ipam
from nova.network.rest import operations
from nova.network.rest import pages
from nova.network.rest import quotas
from nova.network.rest.resource import Resource
from nova.network.rest.resource import View
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.db.tables.rows import NetworkHostsRow, NetworksRow, SubnetsRow
    from nova.network.rest.request import NetworkRequest

EXTENSIONS = (
    ('agent', 'agent'), ('auto-allocated-topology', 'Auto Allocated Topology Services'),
    ('allowed-address-pairs', 'Allowed Address Pairs'),
    ('availability_zone', 'Availability Zone'), ('binding', 'Port Binding'),
    ('default-subnetpools', 'Default Subnetpools'),
    ('expose-port-forwarding-in-fip', 'Expose Port Forwarding in FIP'),
    ('ext-gw-mode', 'Router Gateway Mode'), ('external-net', 'Neutron external network'),
    ('extraroute', 'Extra Route'), ('extraroute-atomic', 'Atomically add/remove extra routes'),
    ('extra_dhcp_opt', 'Extra DHCP options'),
    ('fip-port-details', 'Floating IP Port Details'),
    ('floating-ip-port-forwarding', 'Floating IP Port Forwarding'),
    ('network-ip-availability', 'Network IP Availability'),
    ('rbac-policies', 'RBAC Policies'), ('revision-if-match', 'If-Match on revision_number'),
    ('router', 'Router'), ('router_availability_zone', 'Router Availability Zone'),
    ('standard-attr-tag', 'Tags'),
    ('filter-validation', 'Filter parameters validation'), ('net-mtu', 'Network MTU'),
    ('net-mtu-writable', 'Network MTU (writable)'),
    ('network_availability_zone', 'Network Availability Zone'),
    ('pagination', 'Pagination support'), ('port-security', 'Port Security'),
    ('project-id', 'project_id field enabled'), ('provider', 'Provider Network'),
    ('qos', 'Quality of Service'), ('qos-bw-limit-direction', 'Direction for QoS bandwidth limit rule'),
    ('qos-rule-type-details', 'Details of QoS rule types'), ('quotas', 'Quota management support'),
    ('quota-check-limit', 'Quota engine limit check'),
    ('quota_details', 'Quota details management support'), ('security-group', 'security-group'),
    ('security-groups-default-rules', 'Default rules for security groups'),
    ('subnet-service-types', 'Subnet service types'), ('subnet_allocation', 'Subnet Allocation'),
    ('subnetpool-prefix-ops', 'Subnet Pool Prefix Operations'),
    ('sorting', 'Sorting support'), ('standard-attr-description', 'standard-attr-description'),
    ('standard-attr-revisions', 'Resource revision numbers'), ('standard-attr-timestamp',
                                                               'Resource timestamps'),
)
# collections that clients read and that are always empty -> reason for refusing a POST
EMPTY = {
    'address-scopes': 'Address scopes are not supported: networks are isolated unless a router connects them.',
    'address-groups': 'Address groups are not supported: a rule names a range or a security group.',
    'trunks': 'Trunks are not supported: a port carries only untagged frames.',
    'segments': 'A network has exactly one segment, described by its provider attributes.',
    'network-segment-ranges': 'Segmentation ids of overlay networks are 1 to 65535, allocated on demand.',
    'service-providers': 'The only service provider is nova-network.',
    'flavors': 'Router flavors are not supported.',
    'service_profiles': 'Router flavors and service profiles are not supported.',
    'local_ips': 'Local IPs are not supported.',
    'ndp_proxies': 'NDP proxies are not supported: a router advertises IPv6 ranges and does not translate them.',
    'metering/metering-labels': 'Metering of router traffic is not supported.',
    'metering/metering-label-rules': 'Metering of router traffic is not supported.',
    'log/logs': 'Logging of packets refused by security groups is not supported.',
}

# first path segments that a token without project may read
UNSCOPED = ('extensions', 'availability_zones', 'service-providers')


def version(url: str) -> JsonDocument:
    """Return the version document.

    :param url: URL of the service's root
    """
    return {'id': 'v2.0', 'status': 'CURRENT', 'links': [{'rel': 'self', 'href': url + '/v2.0/'}]}


def extensions() -> list[View]:
    return [{'alias': alias, 'name': name, 'description': name, 'updated': '2016-01-01T10:00:00-00:00',
             'links': []} for alias, name in EXTENSIONS]


def zones() -> list[View]:
    return [{'name': 'nova', 'resource': 'network', 'state': 'available'}]


# ---- hosts and addresses ---------------------------------------------------------

def _agents(req: NetworkRequest) -> list[View]:
    if not req.context.is_admin:
        return []
    with req.deps.api_db.reader() as conn:
        return pages.fields(req.query, [_agent(req, row) for row in db_hosts.every(conn)])


def list_agents(req: NetworkRequest) -> JsonDocument:
    """List the hosts of networks as agents."""
    return {'agents': _agents(req)}


def show_agent(req: NetworkRequest, id: str) -> JsonDocument:
    for agent in _agents(req):
        if agent['id'] == id:
            return {'agent': agent}
    raise exception.NotFound()


def _agent(req: NetworkRequest, row: NetworkHostsRow) -> View:
    return {'id': str(uuid.uuid5(uuid.NAMESPACE_DNS, row['host'])), 'host': row['host'], 'binary': 'nova-network',
            'agent_type': 'L3 agent' if row['gateway'] else 'L2 agent', 'topic': 'network', 'admin_state_up': True,
            'alive': db_hosts.alive(row['last_seen_at'], req.deps.conf.service_down_time), 'availability_zone': 'nova',
            'configurations': {'tunnel_address': row['address']}, 'description': None,
            'heartbeat_timestamp': row['last_seen_at'].strftime('%Y-%m-%d %H:%M:%S')}


def list_availability(req: NetworkRequest) -> JsonDocument:
    """List the total and used addresses of networks."""
    if not req.context.is_admin:
        raise exception.PolicyDenied(rule='get_network_ip_availability')
    return {'network_ip_availabilities': pages.fields(req.query, _availabilities(req, req.query))}


def show_availability(req: NetworkRequest, id: str) -> JsonDocument:
    if not req.context.is_admin:
        raise exception.PolicyDenied(rule='get_network_ip_availability')
    for each in _availabilities(req, [('network_id', id)]):
        return {'network_ip_availability': pages.fields(req.query, [each])[0]}
    raise exception.NetworkNotFound(network_id=id)


_AVAILABILITIES = listing.Listing(t.networks, {
    'network_id': t.networks.c.id, 'network_name': t.networks.c.name, 'project_id': t.networks.c.project_id,
    'tenant_id': t.networks.c.project_id}, special={'ip_version': db_networks.with_ip_version})


def _availabilities(req: NetworkRequest, query: pages.Query) -> list[View]:
    """Return the addresses of the networks selected by a query, in three statements.

    A filter ip_version selects subnets, too.
    """
    versions = {value for name, value in query if name == 'ip_version'}
    with req.deps.api_db.reader() as conn:
        condition = _AVAILABILITIES.condition(query) & db_networks.visible(req.context)
        rows = db_networks.page(conn, t.networks, condition, [('id', 'asc')], None, None)
        subnets: dict[str, list[SubnetsRow]] = {row['id']: [] for row in rows}
        for subnet in db_networks.many(conn, t.subnets, list(subnets), 'network_id'):
            if not versions or str(subnet['ip_version']) in versions:
                subnets[subnet['network_id']].append(subnet)
        used = db_networks.used_by_subnet(conn, [subnet['id'] for each in subnets.values() for subnet in each])
    return [_availability(row, subnets[row['id']], used) for row in rows]


def _availability(row: NetworksRow, subnets: list[SubnetsRow], used: dict[str, int]) -> View:
    shown: list[View] = [{'subnet_id': subnet['id'], 'subnet_name': subnet['name'], 'cidr': subnet['cidr'],
              'ip_version': subnet['ip_version'], 'used_ips': used.get(subnet['id'], 0),
              'total_ips': sum(last - first + 1 for first, last in ipam.pool_spans(subnet))} for subnet in subnets]
    return {'network_id': row['id'], 'network_name': row['name'], 'project_id': row['project_id'],
            'tenant_id': row['project_id'], 'subnet_ip_availability': shown,
            **{name: sum(subnet[name] for subnet in shown) for name in ('total_ips', 'used_ips')}}


# ---- handlers ------------------------------------------------------------------

def list_extensions(req: NetworkRequest) -> JsonDocument:
    return {'extensions': extensions()}


def show_extension(req: NetworkRequest, alias: str) -> JsonDocument:
    for extension in extensions():
        if extension['alias'] == alias:
            return {'extension': extension}
    raise exception.ExtensionNotFound(alias=alias)


def list_zones(req: NetworkRequest) -> JsonDocument:
    return {'availability_zones': pages.fields(req.query, zones())}


def list_quotas(req: NetworkRequest) -> JsonDocument:
    if not req.context.is_admin:
        raise exception.PolicyDenied(rule='get_quotas')
    with req.deps.api_db.reader() as conn:
        return {'quotas': [{**quotas.limits(req.deps.conf, own), 'project_id': project, 'tenant_id': project}
                           for project, own in db_limits.every(conn).items()]}


def show_quotas(req: NetworkRequest, project: str) -> JsonDocument:
    if project in ('tenant', 'project'):
        return {project: {f'{project}_id': req.context.project_id}}
    _check_project(req, project)
    with req.deps.api_db.reader() as conn:
        return {'quota': quotas.limits(req.deps.conf, db_limits.of(conn, project))}


def update_quotas(req: NetworkRequest, project: str) -> JsonDocument:
    if not req.context.is_admin:
        raise exception.PolicyDenied(rule='update_quota')
    body = {name: value for name, value in req.body.items() if name not in ('tenant_id', 'project_id')}
    check_usage = quotas.options(body)
    wanted = quotas.parse(body)
    req.deps.api_db.run(quotas.replace, project[:255], wanted, check_usage)
    return show_quotas(req, project)


def reset_quotas(req: NetworkRequest, project: str) -> None:
    if not req.context.is_admin:
        raise exception.PolicyDenied(rule='delete_quota')
    req.deps.api_db.run(lambda conn: db_limits.forget(conn, project[:255]))


def show_defaults(req: NetworkRequest, project: str) -> JsonDocument:
    _check_project(req, project)
    return {'quota': quotas.limits(req.deps.conf)}


def show_details(req: NetworkRequest, project: str) -> JsonDocument:
    _check_project(req, project)
    with req.deps.api_db.reader() as conn:
        return {'quota': quotas.details(conn, req.deps.conf, project)}


def _check_project(req: NetworkRequest, project: str) -> None:
    if project != req.context.project_id and not req.context.is_admin:
        raise exception.NotFound()


def _empty(name: str) -> Callable[[NetworkRequest], JsonDocument]:
    """Return a handler that lists nothing."""
    key = name.rpartition('/')[2].replace('-', '_')
    return lambda req: {key: []}


def _refuse(reason: str) -> Callable[..., JsonDocument]:
    def handler(req: NetworkRequest, **_parts: str) -> typing.NoReturn:
        raise exception.BadRequest(reason)
    return handler


# unsupported operations -> reason
REFUSED = (
    *((method, path, 'nova-network manages agents: hosts register themselves, and it places routers.')
      for method, path in (('PUT', 'agents/{id}'), ('DELETE', 'agents/{id}'), ('POST', 'agents/{id}/l3-routers'),
                           ('DELETE', 'agents/{id}/l3-routers/{router}'), ('POST', 'agents/{id}/dhcp-networks'),
                           ('DELETE', 'agents/{id}/dhcp-networks/{network}'))),
    *((method, 'routers/{id}/conntrack_helpers', 'Conntrack helpers of routers are not supported.')
      for method in ('GET', 'POST')),
    ('PUT', 'subnetpools/{id}/onboard_network_subnets', 'Onboarding is not supported: a subnet cannot be moved into a '
                                                        'pool.'),
    *(('POST', path, reason) for path, reason in EMPTY.items()),
)


def routes(resources: Mapping[str, Resource[typing.Any]]) -> Iterator[Route]:
    """Return the routes of these documents.

    :param resources: {path: Resource} of the index
    """
    def index(req: NetworkRequest) -> JsonDocument:
        # also a version document, for clients with this path in their catalog
        return {'version': version(req.root_url),
                'resources': [{'name': resource.singular, 'collection': resource.plural,
                               'links': [{'rel': 'self', 'href': f'{req.root_url}/v2.0/{path}'}]}
                              for path, resource in resources.items()]}
    handlers: tuple[tuple[str, Callable[..., JsonDocument]], ...] = (
        ('', index), ('extensions', list_extensions), ('extensions/{alias}', show_extension),
        ('availability_zones', list_zones), *((name, _empty(name)) for name in EMPTY),
        ('agents', list_agents), ('agents/{id}', show_agent),
        ('network-ip-availabilities', list_availability),
        ('network-ip-availabilities/{id}', show_availability),
        ('quotas', list_quotas), ('quotas/{project}', show_quotas),
        ('quotas/{project}/default', show_defaults), ('quotas/{project}/details', show_details))
    for path, handler in handlers:
        yield Route('GET', f'/{path}', handler, any_scope=not path or path.partition('/')[0] in UNSCOPED)
    for method, path, reason in REFUSED:
        yield Route(method, f'/{path}', _refuse(reason),
                    body=operations.UncheckedBody() if method in ('POST', 'PUT') else None)
    yield Route('PUT', '/quotas/{project}', update_quotas, 'update_quota', body=operations.WrappedBody('quota'))
    yield Route('DELETE', '/quotas/{project}', reset_quotas, 'delete_quota', status=204)
