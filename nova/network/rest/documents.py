"""Documents without a resource: versions, extensions, quotas, and empty collections."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
import ipaddress
import re
import typing

from nova import exception
from nova.db.networks import limits as db_limits
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.network import ipam
from nova.network import quotas as network_quotas
from nova.network.rest import flavors
from nova.network.rest import operations
from nova.network.rest import pages
from nova.network.rest import permissions
from nova.network.rest import quotas
from nova.network.rest import schemas as s
from nova.network.rest.rows import View
from nova.network.rest.rows import Resource
from nova.web import sizes
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Schema
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.db.tables.rows import SubnetsRow
    from nova.network.rest.request import NetworkRequest

EXTENSIONS = (
    ('address-group', 'Address group'), ('address-scope', 'Address scope'), ('agent', 'agent'),
    ('auto-allocated-topology', 'Auto Allocated Topology Services'),
    ('allowed-address-pairs', 'Allowed Address Pairs'),
    ('availability_zone', 'Availability Zone'), ('binding', 'Port Binding'),
    ('default-subnetpools', 'Default Subnetpools'),
    ('expose-port-forwarding-in-fip', 'Expose Port Forwarding in FIP'),
    ('l3_agent_scheduler', 'L3 Agent Scheduler'),
    ('l3-conntrack-helper', 'Conntrack helpers of routers'),
    ('expose-l3-conntrack-helper', 'Conntrack helpers in routers'),
    ('ext-gw-mode', 'Router Gateway Mode'), ('external-net', 'Neutron external network'),
    ('extraroute', 'Extra Route'), ('extraroute-atomic', 'Atomically add/remove extra routes'),
    ('extra_dhcp_opt', 'Extra DHCP options'),
    ('flavors', 'Service flavors'), ('l3-flavors', 'Router flavors'),
    ('fip-port-details', 'Floating IP Port Details'),
    ('floating-ip-port-forwarding', 'Floating IP Port Forwarding'),
    ('floating-ip-port-forwarding-description', 'Floating IP Port Forwarding new description field'),
    ('floating-ip-port-forwarding-port-ranges', 'Floating IP Port Forwarding support for port ranges'),
    ('network-ip-availability-details', 'Details of Network IP Availability'),
    ('network-ip-availability', 'Network IP Availability'),
    ('rbac-address-group', 'Add address_group type to RBAC'), ('rbac-address-scope', 'Add address_scope type to RBAC'),
    ('rbac-policies', 'RBAC Policies'),
    ('revision-if-match', 'If-Match on revision_number'),
    ('router', 'Router'), ('router_availability_zone', 'Router Availability Zone'),
    ('standard-attr-tag', 'Tags'), ('stateful-security-group', 'Stateful security group'),
    ('filter-validation', 'Filter parameters validation'), ('net-mtu', 'Network MTU'),
    ('net-mtu-writable', 'Network MTU (writable)'),
    ('network_availability_zone', 'Network Availability Zone'),
    ('pagination', 'Pagination support'), ('port-security', 'Port Security'),
    ('project-id', 'project_id field enabled'), ('provider', 'Provider Network'),
    ('qos', 'Quality of Service'), ('qos-bw-limit-direction', 'Direction for QoS bandwidth limit rule'),
    ('port-resource-request', 'Port Resource Request'),
    ('port-resource-request-groups', 'Port Resource Request Groups'),
    ('qos-bw-minimum-ingress', 'Ingress direction for QoS minimum bandwidth rule'),
    ('qos-pps-minimum', 'QoS minimum packet rate rule'),
    ('qos-gateway-ip', 'QoS policies of gateways'), ('qos-rule-type-filter', 'Filter of QoS rule types'),
    ('qos-rule-type-details', 'Details of QoS rule types'), ('quotas', 'Quota management support'),
    ('quota-check-limit', 'Quota engine limit check'),
    ('quota_details', 'Quota details management support'), ('security-group', 'security-group'),
    ('security-groups-default-rules', 'Default rules for security groups'),
    ('security-groups-remote-address-group', 'Remote address group id field for security group rules'),
    ('subnet-service-types', 'Subnet service types'), ('subnet_allocation', 'Subnet Allocation'),
    ('subnetpool-prefix-ops', 'Subnet Pool Prefix Operations'),
    ('sorting', 'Sorting support'), ('trunk', 'Trunk Extension'), ('trunk-details', 'Trunk port details'),
    ('standard-attr-description', 'standard-attr-description'),
    ('standard-attr-revisions', 'Resource revision numbers'), ('standard-attr-timestamp',
                                                               'Resource timestamps'),
)
# {collection that is always empty and exists only because clients read it: reason for rejecting a POST}
EMPTY = {
    'segments': 'A network has exactly one segment, described by its provider attributes.',
    'network-segment-ranges': 'Segmentation ids of overlay networks are 1 to 65535, allocated on demand.',
    'local_ips': 'Local IPs are not supported.',
    'ndp_proxies': 'NDP proxies are not supported: a router advertises IPv6 ranges and does not translate them.',
    'metering/metering-labels': 'Metering of router traffic is not supported.',
    'metering/metering-label-rules': 'Metering of router traffic is not supported.',
    'log/logs': 'Logging of packets refused by security groups is not supported.',
}

GET_QUOTA = 'get_quota'
# {first segment of a path: rule of the GET operations}
RULES = {'availability_zones': 'get_availability_zone', 'service-providers': 'get_service_provider',
         'network-ip-availabilities': 'get_network_ip_availability'}
# {first segment of a path: rules that the GET handlers, not the routes, check}
CHECKED = {'quotas': (GET_QUOTA,)}

# first segments of paths that callers may read with a token without a project
UNSCOPED = ('extensions', 'availability_zones', 'service-providers')


def version(url: str) -> JsonDocument:
    """Return the version document.

    :param url: URL of the service's root
    """
    return {'id': 'v2.0', 'status': 'CURRENT', 'links': [{'rel': 'self', 'href': url + '/v2.0/'}]}


_EXTENSIONS: list[View] = [{'alias': alias, 'name': name, 'description': name, 'updated': '2016-01-01T10:00:00-00:00',
                            'links': []} for alias, name in EXTENSIONS]
_ZONES: list[View] = [{'name': 'nova', 'resource': kind, 'state': 'available'} for kind in ('network', 'router')]
_PROVIDERS: list[View] = [{'service_type': flavors.ROUTER, 'name': flavors.PROVIDER, 'default': True}]


# ---- addresses ---------------------------------------------------------

def list_availability(req: NetworkRequest) -> JsonDocument:
    """List the total and used addresses of networks."""
    page, views = _availabilities(req, req.query)
    number = sizes.fitting(views)
    shown = pages.fields(req.query, views[:number])
    document = {_AVAILABLE: shown[::-1] if page.reverse else shown}
    if links := pages.links(req.url, req.query, page, number):
        document[_AVAILABLE + '_links'] = links
    return document


def show_availability(req: NetworkRequest, id: str) -> JsonDocument:
    for each in _availabilities(req, [('network_id', id)])[1]:
        return {'network_ip_availability': pages.fields(req.query, [each])[0]}
    raise exception.NetworkNotFound(network_id=id)


_AVAILABLE = 'network_ip_availabilities'
_AVAILABILITIES = listing.Listing(t.networks, {
    'network_id': t.networks.c.id, 'network_name': t.networks.c.name, 'project_id': t.networks.c.project_id,
    'tenant_id': t.networks.c.project_id}, special={'ip_version': db_networks.with_ip_version})


def _availabilities(req: NetworkRequest, query: pages.Query) -> tuple[listing.Page, list[View]]:
    """Return the networks that a query selects, and the total and used addresses of each of them.

    The filter ip_version selects the networks and also the subnets in the response.
    """
    versions = {value for name, value in query if name == 'ip_version'}
    with req.deps.api_db.reader() as conn:
        page = _AVAILABILITIES.page(conn, query, db_networks.visible(req.context))
        subnets: dict[str, list[SubnetsRow]] = {row['id']: [] for row in page.rows}
        for subnet in db_networks.many(conn, t.subnets, list(subnets), 'network_id'):
            if not versions or str(subnet['ip_version']) in versions:
                subnets[subnet['network_id']].append(subnet)
        every = [subnet for each in subnets.values() for subnet in each]
        used = db_networks.used_by_subnet(conn, [subnet['id'] for subnet in every])
        in_pools = db_networks.used_in_spans(conn, [
            (subnet['id'], *span) for subnet in every for span in ipam.pool_spans(subnet)])
    return page, [_availability(row, subnets[row['id']], used, in_pools) for row in page.rows]


def _availability(row: Mapping[str, typing.Any], subnets: list[SubnetsRow], used: dict[str, int],
                  in_pools: dict[str, int]) -> View:
    shown: list[View] = [{'subnet_id': subnet['id'], 'subnet_name': subnet['name'], 'cidr': subnet['cidr'],
              'ip_version': subnet['ip_version'], 'used_ips': used.get(subnet['id'], 0),
              'total_ips': sum(last - first + 1 for first, last in ipam.pool_spans(subnet))} for subnet in subnets]
    return {'network_id': row['id'], 'network_name': row['name'], 'project_id': row['project_id'],
            'tenant_id': row['project_id'], 'subnet_ip_availability': shown, 'ip_availability_details': {
                'total_ips_in_subnet': sum(_usable(subnet['cidr']) for subnet in subnets),
                'total_ips_in_allocation_pool': sum(subnet['total_ips'] for subnet in shown),
                'used_ips_in_subnet': sum(subnet['used_ips'] for subnet in shown),
                'used_ips_in_allocation_pool': sum(in_pools.get(subnet['id'], 0) for subnet in subnets)},
            **{name: sum(subnet[name] for subnet in shown) for name in ('total_ips', 'used_ips')}}


def _usable(cidr: str) -> int:
    """Return the number of addresses of a range, without the network and broadcast addresses of IPv4."""
    network = ipaddress.ip_network(cidr)
    return network.num_addresses - (2 if network.version == 4 and network.prefixlen < 31 else 0)


# ---- handlers ------------------------------------------------------------------

def list_extensions(req: NetworkRequest) -> JsonDocument:
    return {'extensions': pages.select(req.query, _EXTENSIONS, _EXTENSION, key='alias')}


def show_extension(req: NetworkRequest, alias: str) -> JsonDocument:
    for extension in _EXTENSIONS:
        if extension['alias'] == alias:
            return {'extension': extension}
    raise exception.ExtensionNotFound(alias=alias)


def list_zones(req: NetworkRequest) -> JsonDocument:
    # one page: no field names one of the two zones
    query = [(_SENT.get(name, name), value) for name, value in req.query if name not in ('limit', 'marker')]
    return {'availability_zones': pages.fields(query, pages.select(query, _ZONES, _ZONE))}


def list_providers(req: NetworkRequest) -> JsonDocument:
    found = pages.select(req.query, _PROVIDERS, _PROVIDER, key='service_type')
    return {'service_providers': pages.fields(req.query, found)}


def list_quotas(req: NetworkRequest) -> JsonDocument:
    permissions.authorize(req.context, GET_QUOTA, permissions.target({}))  # no project: the list has all projects
    with req.deps.api_db.reader() as conn:
        return {'quotas': pages.select(req.query, [
            {**quotas.limits(req.deps.conf, own), 'project_id': project, 'tenant_id': project}
            for project, own in db_limits.every(conn).items()], _QUOTAS, key='project_id')}


def show_quotas(req: NetworkRequest, project: str) -> JsonDocument:
    if project in ('tenant', 'project'):
        return {project: {f'{project}_id': req.context.project_id}}
    permissions.authorize_project(req.context, GET_QUOTA, project)
    with req.deps.api_db.reader() as conn:
        return {'quota': quotas.limits(req.deps.conf, db_limits.of(conn, project))}


def update_quotas(req: NetworkRequest, project: str) -> JsonDocument:
    quotas.check_project(project)
    body = {name: value for name, value in req.body.items() if name not in ('tenant_id', 'project_id')}
    check_usage = quotas.options(body)
    wanted = quotas.parse(body)
    req.deps.api_db.run(quotas.replace, project, wanted, check_usage)
    with req.deps.api_db.reader() as conn:
        return {'quota': quotas.limits(req.deps.conf, db_limits.of(conn, project))}


def reset_quotas(req: NetworkRequest, project: str) -> None:
    quotas.check_project(project)
    req.deps.api_db.run(db_limits.forget, project)


def show_defaults(req: NetworkRequest, project: str) -> JsonDocument:
    permissions.authorize_project(req.context, GET_QUOTA, project)
    return {'quota': quotas.limits(req.deps.conf)}


def show_details(req: NetworkRequest, project: str) -> JsonDocument:
    permissions.authorize_project(req.context, GET_QUOTA, project)
    with req.deps.api_db.reader() as conn:
        return {'quota': quotas.details(conn, req.deps.conf, project)}


def _empty(name: str) -> Callable[[NetworkRequest], JsonDocument]:
    """Return a handler that returns an empty list."""
    return lambda req: {_key(name): []}


def _key(name: str) -> str:
    return name.rpartition('/')[2].replace('-', '_')


def _refuse(reason: str) -> Callable[..., JsonDocument]:
    def handler(req: NetworkRequest, **_parts: str) -> typing.NoReturn:
        raise exception.BadRequest(reason)
    return handler


# unsupported operations -> reason
REFUSED = (
    *((method, path, 'nova-network manages agents: hosts register themselves, and each host serves the networks of its '
       'guests.') for method, path in (('DELETE', 'agents/{id}'), ('POST', 'agents/{id}/dhcp-networks'),
                                       ('DELETE', 'agents/{id}/dhcp-networks/{network}'))),
    ('PUT', 'subnetpools/{id}/onboard_network_subnets', 'Onboarding is not supported: a subnet cannot be moved into a '
                                                        'pool.'),
    ('POST', 'service-providers', 'The only service provider is nova-network.'),
    *(('POST', path, reason) for path, reason in EMPTY.items()),
)


# ---- types ---------------------------------------------------------------------

def selected(key: str, item: Schema, **optional: Schema) -> Document:
    """Return the schema of a list. All fields are optional, because queries select fields.

    :param optional: further keys of the document
    """
    return Document({key: s.array({**item, 'required': []})}, optional)


_EXTENSION = dict.fromkeys(('alias', 'name', 'description', 'updated'), s.TEXT)
_ZONE = dict.fromkeys(('name', 'resource', 'state'), s.TEXT)
_SENT = {'availability_zone': 'name', 'agent_type': 'resource'}       # openstacksdk sends these names as filters
_PROVIDER = {'service_type': s.TEXT, 'name': s.TEXT, 'default': s.FLAG}
_ADDRESSES = {'used_ips': s.NUMBER, 'total_ips': s.NUMBER}
_AVAILABILITY = s.shape(
    network_id=s.UUID, network_name=s.TEXT, project_id=s.TEXT, tenant_id=s.TEXT, **_ADDRESSES,
    ip_availability_details=s.shape(**{f'{name}_in_{where}': s.NUMBER for name in _ADDRESSES
                                       for where in ('subnet', 'allocation_pool')}),
    subnet_ip_availability=s.array(s.shape(subnet_id=s.UUID, subnet_name=s.TEXT, cidr=s.TEXT, ip_version=s.NUMBER,
                                           **_ADDRESSES)))
_LIMITS = dict.fromkeys(network_quotas.COUNTED, s.NUMBER)
_QUOTA = Document({'quota': s.shape(**_LIMITS)})
_QUOTAS = {**_LIMITS, 'project_id': s.TEXT, 'tenant_id': s.TEXT}
# {path of a list: names of filters}
_FILTERS: dict[str, Iterable[str]] = {
    'extensions': _EXTENSION, 'availability_zones': (*_ZONE, *_SENT), 'service-providers': _PROVIDER, 'quotas': _QUOTAS,
    'network-ip-availabilities': (*_AVAILABILITIES.columns, *_AVAILABILITIES.special)}
_VERSION = s.shape(id=s.TEXT, status=s.TEXT, links=s.LINKS)
_INDEX = Document({'version': _VERSION, 'resources': s.array(s.shape(name=s.TEXT, collection=s.TEXT, links=s.LINKS))})


class _Quotas(Document):
    """Response: the quotas of a project or, for the paths quotas/tenant and quotas/project, the caller's project id."""

    def __init__(self) -> None:
        super().__init__({})

    def schema(self, version: int) -> Schema:
        return {'anyOf': [_QUOTA.schema(version), *(s.shape(**{key: s.shape(**{f'{key}_id': s.TEXT_OR_NULL})})
                                                    for key in ('tenant', 'project'))]}


# ---- routes --------------------------------------------------------------------

def routes(resources: Mapping[str, Resource[typing.Any]]) -> Iterator[Route]:
    """Return the routes of the documents without a resource.

    :param resources: {path: Resource} that the index lists
    """
    def index(req: NetworkRequest) -> JsonDocument:
        # clients with /v2.0 in the endpoint URL look for the version here
        return {'version': version(req.root_url),
                'resources': [{'name': resource.name, 'collection': resource.plural,
                               'links': [{'rel': 'self', 'href': f'{req.root_url}/v2.0/{path}'}]}
                              for path, resource in resources.items()]}
    extension = s.shape(**_EXTENSION, links=s.EMPTY)
    handlers: tuple[tuple[str, Callable[..., JsonDocument], str, Document], ...] = (
        ('', index, 'show_version', _INDEX),
        ('extensions', list_extensions, 'list_extensions', Document({'extensions': s.array(extension)})),
        ('extensions/{alias}', show_extension, 'show_extension', Document({'extension': extension})),
        ('availability_zones', list_zones, 'list_availability_zones',
         selected('availability_zones', s.shape(**_ZONE))),
        ('service-providers', list_providers, 'list_service_providers',
         selected('service_providers', s.shape(**_PROVIDER))),
        *((name, _empty(name), f'list_{_key(name)}', Document({_key(name): s.EMPTY})) for name in EMPTY),
        ('network-ip-availabilities', list_availability, 'list_availabilities',
         selected(_AVAILABLE, _AVAILABILITY, **{_AVAILABLE + '_links': s.LINKS})),
        ('network-ip-availabilities/{id}', show_availability, 'show_availability', Document({
            'network_ip_availability': {**_AVAILABILITY, 'required': []}})),
        ('quotas', list_quotas, 'list_quotas', Document({'quotas': s.array(s.shape(**_QUOTAS))})),
        ('quotas/{project}', show_quotas, 'show_quotas', _Quotas()),
        ('quotas/{project}/default', show_defaults, 'show_default_quotas', _QUOTA),
        ('quotas/{project}/details', show_details, 'show_quota_details', Document({'quota': s.shape(
            **dict.fromkeys(_LIMITS, s.shape(limit=s.NUMBER, reserved=s.const(0), used=s.NUMBER)))})))
    for path, handler, name, answer in handlers:
        first = path.partition('/')[0]
        yield Route('GET', f'/{path}', handler, RULES.get(first), CHECKED.get(first, ()), answer=answer, name=name,
                    any_scope=not path or first in UNSCOPED,
                    query=pages.parameters(_FILTERS[path], narrowed=path not in ('extensions', 'quotas'))
                    if path in _FILTERS else None)
    for method, path, reason in REFUSED:
        yield Route(method, f'/{path}', _refuse(reason), status=400, name='refuse_' + re.sub('[^a-z0-9]+', '_', path),
                    body=operations.UncheckedBody({'type': 'object'}) if method in ('POST', 'PUT') else None)
    flag = s.nullable(s.BOOLEAN)
    yield Route('PUT', '/quotas/{project}', update_quotas, 'update_quota', answer=_QUOTA, body=operations.WrappedBody(
        'quota', closed(**dict.fromkeys(_LIMITS, quotas.LIMIT), check_limit=flag, force=flag, tenant_id={},
                        project_id={})))
    yield Route('DELETE', '/quotas/{project}', reset_quotas, 'delete_quota', status=204)
