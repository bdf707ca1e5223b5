"""A small Networking service over HTTP: the documents of Neutron's API v2.0 as far as compute uses them.

Who has no token is the system; ``project_of`` says whose a token is. It keeps the rules that a client meets: users see
their own resources and shared networks, may not write bindings, quotas and addresses run out, revisions are compared,
a port of another host has one more binding.
"""
import collections
import contextlib
import ipaddress
import json
import threading
import urllib.parse
import uuid
from wsgiref import simple_server
import socketserver

SINGULAR = {'networks': 'network', 'subnets': 'subnet', 'ports': 'port', 'security-groups': 'security_group',
            'security-group-rules': 'security_group_rule', 'floatingips': 'floatingip', 'rbac-policies': 'rbac_policy'}
ADMIN_ONLY = ('binding:host_id', 'binding:profile', 'binding:vif_type', 'binding:vif_details', 'resource_request')
NO_TOKEN = 'notused'                 # what keystoneauth1 sends when auth_type is none
ALIASES = ['binding', 'binding-extended', 'router', 'quota_details', 'security-group', 'standard-attr-revisions',
           'revision-if-match', 'port-security', 'auto-allocated-topology']


class Refused(Exception):
    def __init__(self, code, kind, message=''):
        super().__init__(message)
        self.code, self.kind, self.message = code, kind, message or kind


class Neutron:
    """
    hosts     names of hosts where an agent runs: ports are bound there
    quota     ports of a project; -1: no limit
    page      maximum rows of an answer (pagination_max_limit)
    requests  [(method, path)] that came in
    """

    def __init__(self, hosts=(), project_of=None):
        self.hosts, self.quota, self.aliases = set(hosts), -1, list(ALIASES)
        self.page = 1000
        self.addresses = 10                                    # of floating IPs
        self.away = False                                      # every request gets 503
        self.slow = False                                      # ports are plugged when plug() says so
        self.trunks = {}                                       # port id -> the bridge of the trunk whose parent it is
        self.rows = collections.defaultdict(dict)
        self.bindings = collections.defaultdict(dict)          # port id -> {host: binding}
        self.requests, self.project_of = [], project_of or (lambda token: token.removeprefix('x:'))
        self._lock = threading.RLock()

    # ---- what tests prepare

    def network(self, project, cidr='10.9.0.0/24', name='net', **values):
        made = self._insert('networks', {'name': name, 'project_id': project, 'admin_state_up': True, 'shared': False,
                                         'router:external': False, 'mtu': 1442, 'subnets': [], **values})
        if cidr:
            self.subnet(made['id'], cidr)
        return made['id']

    def subnet(self, network_id, cidr):
        network = self.rows['networks'][network_id]
        first = str(ipaddress.ip_network(cidr)[1])
        made = self._insert('subnets', {
            'network_id': network_id, 'project_id': network['project_id'], 'cidr': cidr, 'gateway_ip': first,
            'ip_version': ipaddress.ip_network(cidr).version, 'enable_dhcp': True, 'dns_nameservers': [],
            'host_routes': [], 'allocation_pools': [{'start': str(ipaddress.ip_network(cidr)[2]),
                                                     'end': str(ipaddress.ip_network(cidr)[-2])}]})
        network['subnets'].append(made['id'])
        return made['id']

    def port(self, project, network_id, **values):
        return self._port({'project_id': project, 'network_id': network_id, **values})['id']

    def ports(self, **values):
        return [port for port in self.rows['ports'].values()
                if all(port[name] == value for name, value in values.items())]

    # ---- the service

    def __call__(self, environ, start_response):
        length = int(environ.get('CONTENT_LENGTH') or 0)
        body = json.loads(environ['wsgi.input'].read(length)) if length else {}
        path = environ['PATH_INFO'].removeprefix('/v2.0').strip('/').split('/')
        query = urllib.parse.parse_qs(environ.get('QUERY_STRING', ''))
        token = environ.get('HTTP_X_AUTH_TOKEN')
        method = environ['REQUEST_METHOD']
        if self.away:
            start_response('503 x', [('Content-Length', '0')])
            return [b'']
        with self._lock:
            self.requests.append((method, '/'.join(path)))
            try:
                project = self.project_of(token) if token not in (None, NO_TOKEN) else None
                code, document = 200, self._answer(method, path, query, body, project,
                                                   environ.get('HTTP_IF_MATCH', '').removeprefix('revision_number='))
                if method == 'POST':
                    code = 201
                elif method == 'DELETE':
                    code = 204
            except Refused as error:
                code, document = error.code, {'NeutronError': {
                    'type': error.kind, 'message': error.message, 'detail': ''}}
            raw = b'' if code == 204 else json.dumps(document).encode()
        start_response(f'{code} x', [('Content-Type', 'application/json'), ('Content-Length', str(len(raw)))])
        return [raw]

    def _answer(self, method, path, query, body, project, revision):
        if path == ['extensions']:
            return {'extensions': [{'alias': alias} for alias in self.aliases]}
        if path[0] == 'quotas':
            used = len(self.ports(project_id=path[1]))
            return {'quota': {'port': {'limit': self.quota, 'used': used, 'reserved': 0}}}
        if len(path) > 2 and path[0] == 'ports' and path[2] == 'bindings':
            return self._binding(method, path[1], path[3:], body, project)
        if path[0] == 'auto-allocated-topology':
            made = 'dry-run=pass' if query.get('fields') == ['dry-run'] else self._topology(path[1])
            return {'auto_allocated_topology': {'id': made, 'tenant_id': path[1]}}
        kind = path[0]
        if kind not in SINGULAR:
            raise Refused(404, 'HTTPNotFound')
        if kind == 'security-groups' and project:
            self._default_group(project)
        if len(path) == 1 and method == 'GET':
            rows = [row for row in sorted(self.rows[kind].values(), key=lambda row: row['id'])
                    if self._sees(kind, row, project) and _fits(row, query)]
            marker = query.get('marker', [''])[0]
            limit = min(self.page, int(query.get('limit', ['1000'])[0]))
            rows, key = [row for row in rows if row['id'] > marker], kind.replace('-', '_')
            more = {f'{key}_links': [{'rel': 'next', 'href': 'x'}]} if len(rows) > limit else {}
            return {key: [_shown(row, project) for row in rows[:limit]], **more}
        values = next(iter(body.values()), {})
        if project and set(values) & set(ADMIN_ONLY):
            raise Refused(403, 'PolicyNotAuthorized')
        if method == 'POST':
            return {SINGULAR[kind]: self._create(kind, {'project_id': project, **values})}
        row = self.rows[kind].get(path[1])
        if row is None or not self._sees(kind, row, project):
            raise Refused(404, SINGULAR[kind].title().replace('_', '') + 'NotFound')
        if revision and int(revision) != row['revision_number']:
            raise Refused(412, 'RevisionNumberConstraintFailed')
        if method == 'PUT':
            self._update(kind, row, values)
        elif method == 'DELETE':
            if kind == 'security-groups' and any(row['id'] in port['security_groups'] for port in self.ports()):
                raise Refused(409, 'SecurityGroupInUse')
            del self.rows[kind][path[1]]
            self.bindings.pop(path[1], None)
            return {}
        return {SINGULAR[kind]: _shown(row, project)}

    def _sees(self, kind, row, project):
        if project is None or row['project_id'] == project:
            return True
        if kind == 'networks':
            return row['shared'] or row['router:external'] or any(
                policy['object_id'] == row['id'] and policy['target_tenant'] == project
                for policy in self.rows['rbac-policies'].values())
        if kind == 'subnets':
            return self._sees('networks', self.rows['networks'][row['network_id']], project)
        return False

    def _insert(self, kind, values):
        row = {'id': str(uuid.uuid4()), 'revision_number': 1, 'created_at': '2026-01-01T00:00:00Z',
               'updated_at': '2026-01-01T00:00:00Z', 'description': '', **values}
        row['tenant_id'] = row['project_id']
        self.rows[kind][row['id']] = row
        return row

    def _create(self, kind, values):
        if kind == 'ports':
            return self._port(values)
        if kind == 'floatingips':
            self.addresses += 1
            return self._insert(kind, {'port_id': None, 'fixed_ip_address': None, 'router_id': None, 'status': 'DOWN',
                                       **values, 'floating_ip_address': f'172.24.0.{self.addresses}'})
        if kind == 'security-group-rules':
            group = self.rows['security-groups'].get(values['security_group_id'])
            if group is None:
                raise Refused(404, 'SecurityGroupNotFound')
            values = {**dict.fromkeys(('protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix',
                                       'remote_group_id')), **values, 'project_id': group['project_id']}
        return self._insert(kind, values)

    def _topology(self, project):
        for row in self.rows['networks'].values():
            if (row['project_id'], row['name']) == (project, 'auto_allocated_network'):
                return row['id']
        return self.network(project, name='auto_allocated_network')

    def _default_group(self, project):
        for row in self.rows['security-groups'].values():
            if row['project_id'] == project and row['name'] == 'default':
                return row['id']
        return self._insert('security-groups', {'project_id': project, 'name': 'default'})['id']

    def _port(self, values):
        project = values['project_id']
        if 0 <= self.quota <= len(self.ports(project_id=project)):
            raise Refused(409, 'OverQuota', "Quota exceeded for resources: ['port'].")
        network = self.rows['networks'].get(values['network_id'])
        if network is None:
            raise Refused(404, 'NetworkNotFound')
        wanted = values.pop('fixed_ips', None) or ([{}] if network['subnets'] else [])
        secured = network.get('port_security_enabled', True)
        row = {'name': '', 'device_id': '', 'device_owner': '', 'admin_state_up': True, 'status': 'DOWN',
               'mac_address': 'fa:16:3e:' + ':'.join(uuid.uuid4().hex[n:n + 2] for n in (0, 2, 4)),
               'security_groups': [self._default_group(project)] if secured else [], 'port_security_enabled': secured,
               'ip_allocation': 'immediate', 'binding:vnic_type': 'normal', 'binding:host_id': '',
               'binding:profile': {}, 'binding:vif_type': 'unbound', 'binding:vif_details': {}, **values}
        row['fixed_ips'] = []
        for entry in wanted:
            row['fixed_ips'].append(self._address(network, entry, row['fixed_ips']))
        row = self._insert('ports', row)
        self._bind(row, row['binding:host_id'])
        return row

    def _address(self, network, entry, others):
        taken = {ip['ip_address'] for port in self.ports() for ip in port['fixed_ips']} | {
            ip['ip_address'] for ip in others}
        for ident in network['subnets']:
            subnet = self.rows['subnets'][ident]
            if entry.get('subnet_id', ident) != ident:
                continue
            cidr = ipaddress.ip_network(subnet['cidr'])
            if 'ip_address' in entry:
                if ipaddress.ip_address(entry['ip_address']) not in cidr:
                    continue
                if entry['ip_address'] in taken and not any(ip == entry for ip in others):
                    raise Refused(409, 'IpAddressInUse')
                return {'subnet_id': ident, 'ip_address': entry['ip_address']}
            for address in list(cidr.hosts())[1:]:
                if str(address) not in taken:
                    return {'subnet_id': ident, 'ip_address': str(address)}
        raise Refused(400, 'InvalidIpForNetwork') if 'ip_address' in entry else Refused(
            409, 'IpAddressGenerationFailure', 'No more IP addresses available.')

    def _update(self, kind, row, values):
        if kind == 'ports' and 'fixed_ips' in values:
            network, before, row['fixed_ips'] = self.rows['networks'][row['network_id']], row['fixed_ips'], []
            for entry in values.pop('fixed_ips'):
                row['fixed_ips'].append(entry if entry in before else self._address(
                    network, entry, [*before, *row['fixed_ips']]))
        if kind == 'floatingips' and values.get('port_id') is None:
            values = {**values, 'fixed_ip_address': None}
        row.update(values)
        row['revision_number'] += 1
        if kind == 'ports' and 'binding:host_id' in values:
            self._bind(row, values['binding:host_id'])

    def _bind(self, row, host):
        row.update(self._type(host, row['id']))
        self.bindings[row['id']] = {other: binding for other, binding in self.bindings[row['id']].items()
                                    if binding['status'] != 'ACTIVE'}
        if host:
            self.bindings[row['id']][host] = {'host': host, 'status': 'ACTIVE', 'profile': row['binding:profile']}

    def _type(self, host, port_id):
        vnic = self.rows['ports'].get(port_id, {}).get('binding:vnic_type', 'normal')
        kind = 'unbound' if not host else 'binding_failed' if host not in self.hosts else (
            'ovs' if vnic == 'normal' else 'hw_veb')
        details = {'port_filter': True, 'bridge_name': self.trunks.get(port_id, 'br-int'),
                   'ovs_create_tap': True} if kind == 'ovs' else (
                       {'port_filter': False, 'vlan': '100'} if kind == 'hw_veb' else {})
        return {'binding:vif_type': kind, 'binding:vif_details': details,
                'status': 'ACTIVE' if kind in ('ovs', 'hw_veb') and not self.slow else 'DOWN'}

    def _binding(self, method, port_id, rest, body, project):
        row = self.rows['ports'].get(port_id)
        if row is None or project:
            raise Refused(404, 'PortNotFound')
        known = self.bindings[port_id]
        if method == 'GET':
            return {'bindings': [self._of(port_id, host) for host in known]}
        if method == 'POST':
            host = body['binding']['host']
            if host in known:
                raise Refused(409, 'PortBindingAlreadyExists')
            known[host] = {'host': host, 'status': 'INACTIVE', 'profile': body['binding'].get('profile', {})}
            return {'binding': self._of(port_id, host)}
        host = urllib.parse.unquote(rest[0])
        if host not in known:
            raise Refused(404, 'PortBindingNotFound')
        if method == 'DELETE':
            del known[host]
            return {}
        if known[host]['status'] == 'ACTIVE':
            raise Refused(409, 'PortBindingAlreadyActive')
        for other in known.values():
            other['status'] = 'INACTIVE'
        known[host]['status'] = 'ACTIVE'
        row.update({'binding:host_id': host, 'binding:profile': known[host].get('profile', row['binding:profile']),
                    **self._type(host, port_id)})
        row['revision_number'] += 1
        return {'binding': self._of(port_id, host)}

    def _of(self, port_id, host):
        kind = self._type(host, port_id)
        return {'profile': {}, **self.bindings[port_id][host], 'vif_type': kind['binding:vif_type'],
                'vif_details': kind['binding:vif_details'], 'vnic_type': 'normal'}


def _fits(row, query):
    return all(str(row.get(name)).lower() in [value.lower() for value in values]
               for name, values in query.items() if name not in ('limit', 'marker', 'fields'))


def _shown(row, project):
    return row if project is None else {name: value for name, value in row.items() if name not in ADMIN_ONLY}


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def listening(application):
    """The address of the service, on a free port."""
    server = simple_server.make_server('127.0.0.1', 0, application, _Server, _Quiet)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}'
    finally:
        server.shutdown()
        server.server_close()
