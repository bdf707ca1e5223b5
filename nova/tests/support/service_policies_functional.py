"""What tests share with nova/tests/functional/test_service_policies.py."""
import re
import typing

from nova import policies
from nova.cmd import policy as policy_command
from nova.tests.support import waiting
from nova.tests.functional import callers

SERVICES = {service.name: policy_command.documented(service) for service in policies.SERVICES
            if service is not policies.COMPUTE}
ROOTS = {'image': '/image', 'identity': '/identity', 'block storage': '/volume/v3', 'network': '/network/v2.0',
         'key manager': '/key-manager'}
MISSING = '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00'
PATCH = {'Content-Type': 'application/openstack-images-v2.1-json-patch'}
# Other reasons have sentences; a public image of a volume needs the rule of the image API, too.
REFUSAL = {'image': re.compile("Policy doesn't allow"), 'identity': re.compile('You are not authorized'),
           'block storage': re.compile("Policy doesn't allow (?!publicize_image)"),
           'network': re.compile("Policy doesn't allow"), 'key manager': re.compile("Policy doesn't allow")}
NEWEST = {'OpenStack-API-Version': 'volume 3.68'}
OCTETS = {'Content-Type': 'application/octet-stream'}


class Probe(typing.NamedTuple):
    """A request that a rule guards.

    field    key of the answer that the rule guards; None: the whole operation
    hidden   whether 404 is the refusal
    """

    method: str
    path: str
    body: typing.Any = None
    field: str | None = None
    hidden: bool = False
    headers: dict[str, str] = {}


class World:
    """A cloud with a policy file for each API, and a member with one resource of each kind."""

    def __init__(self, cloud, files):
        self.cloud, self.files = cloud, files
        self.admin = cloud.admin()
        self.member = callers.Identity(self.admin).in_project('home', 'member')
        answer = self.admin.put(f'/os-quota-sets/{self.member.project_id}', {'quota_set': {
            'instances': 100, 'cores': 100, 'ram': 100000}})
        assert answer.status_code == 200, answer.text
        self.things = {'project': self.member.project_id, 'user': self.member.user_id}
        self.things['token'] = callers.Identity(self.admin).in_project('home', 'member').token
        self.things['credential'] = self._one(self.member, '/identity/v3/credentials', 'credential', type='totp',
                                              user_id=self.member.user_id, blob='A' * 32)
        self._delegations(self.things)
        self.things['member_role'] = callers.Identity(self.admin).roles['member']
        for name, values in (('role', {}), ('domain_role', {'domain_id': 'default'})):
            self.things[name] = self._one(self.admin, '/identity/v3/roles', 'role', name=name, **values)
        for make in (self._images, self._volumes, self._networks, self._keys):
            make(self.things)

    def _one(self, caller, path, key, expected=(200, 201, 202), **values):
        answer = caller.post(path, {key: values} if key else values)
        assert answer.status_code in expected, answer.text
        return answer.json()[key]['id'] if key else answer.json()['id']

    def _delegations(self, made):
        made['trust_body'] = {'trustor_user_id': self.member.user_id, 'trustee_user_id': self.admin.user_id,
                              'project_id': self.member.project_id, 'impersonation': False,
                              'roles': [{'name': 'member'}]}
        made['trust'] = self._one(self.member, '/identity/v3/OS-TRUST/trusts', 'trust', **made['trust_body'])
        service = self._one(self.admin, '/identity/v3/services', 'service', type='limited')
        limit = {'service_id': service, 'resource_name': 'things'}
        for noun, values in (('registered_limit', {'default_limit': 1}),
                             ('limit', {'resource_limit': 1, 'project_id': self.member.project_id})):
            answer = self.admin.post(f'/identity/v3/{noun}s', {f'{noun}s': [limit | values]})
            assert answer.status_code == 201, answer.text
            made[noun] = answer.json()[f'{noun}s'][0]['id']

    def _images(self, made):
        made['image'] = self._one(self.member, '/image/v2/images', '', disk_format='raw', container_format='bare')
        answer = self.member.request('PUT', f'/image/v2/images/{made["image"]}/tags/tag')
        assert answer.status_code == 204
        answer = self.member.post(f'/image/v2/images/{made["image"]}/members', {'member': 'friend'})
        assert answer.status_code == 200, answer.text
        made['namespace'] = f'of-{made["project"]}'
        answer = self.admin.post('/image/v2/metadefs/namespaces', {
            'namespace': made['namespace'], 'owner': made['project'], 'objects': [{'name': 'one'}],
            'properties': {'one': {'title': 'One', 'type': 'string'}}, 'tags': [{'name': 'one'}],
            'resource_type_associations': [{'name': 'one'}]})
        assert answer.status_code == 201, answer.text

    def _volumes(self, made):
        root = '/volume/v3'
        made['volume'] = self._one(self.member, f'{root}/volumes', 'volume', size=1)
        self._wait(f'{root}/volumes/{made["volume"]}', 'volume')
        made['snapshot'] = self._one(self.member, f'{root}/snapshots', 'snapshot', volume_id=made['volume'])
        self._wait(f'{root}/snapshots/{made["snapshot"]}', 'snapshot')
        made['backup'] = self._one(self.member, f'{root}/backups', 'backup', volume_id=made['volume'])
        self._wait(f'{root}/backups/{made["backup"]}', 'backup')
        made['type'] = self._one(self.admin, f'{root}/types', 'volume_type', name='kind',
                                 extra_specs={'storage_protocol': 'file'})
        answer = self.member.post(f'{root}/volumes/{made["volume"]}/action', {
            'os-set_image_metadata': {'metadata': {'key': 'value'}}})
        assert answer.status_code == 200, answer.text

    def _wait(self, path, key):
        waiting.wait_for(lambda: self.member.get(path).json()[key]['status'] == 'available', 30, key)

    def _networks(self, made):
        root, member, admin, project = '/network/v2.0', self.member, self.admin, made['project']
        made['network'] = self._one(member, f'{root}/networks', 'network', name='n')
        made['subnet'] = self._one(member, f'{root}/subnets', 'subnet', network_id=made['network'], ip_version=4,
                                   cidr='10.77.0.0/24')
        made['outside'] = self._one(admin, f'{root}/networks', 'network', name='o', **{'router:external': True})
        made['outside_subnet'] = self._one(admin, f'{root}/subnets', 'subnet', network_id=made['outside'],
                                           cidr='172.24.9.0/24', ip_version=4)
        made['router'] = self._one(member, f'{root}/routers', 'router', name='r', external_gateway_info={
            'network_id': made['outside']})
        answer = member.put(f'{root}/routers/{made["router"]}/add_router_interface', {'subnet_id': made['subnet']})
        assert answer.status_code == 200, answer.text
        made['port'] = self._one(member, f'{root}/ports', 'port', network_id=made['network'])
        made['floatingip'] = self._one(member, f'{root}/floatingips', 'floatingip',
                                       floating_network_id=made['outside'])
        made['port_forwarding'] = self._one(
            member, f'{root}/floatingips/{made["floatingip"]}/port_forwardings', 'port_forwarding', protocol='tcp',
            external_port=80, internal_port=80, internal_port_id=made['port'])
        made['conntrack_helper'] = self._one(member, f'{root}/routers/{made["router"]}/conntrack_helpers',
                                             'conntrack_helper', helper='ftp', protocol='tcp', port=21)
        made['security_group'] = self._one(member, f'{root}/security-groups', 'security_group', name='g')
        made['security_group_rule'] = self._one(member, f'{root}/security-group-rules', 'security_group_rule',
                                                security_group_id=made['security_group'], direction='ingress')
        made['rbac_policy'] = self._one(member, f'{root}/rbac-policies', 'rbac_policy', object_type='network',
                                        object_id=made['network'], action='access_as_shared', target_tenant='x')
        made['subnetpool'] = self._one(member, f'{root}/subnetpools', 'subnetpool', name='p',
                                       prefixes=['10.97.0.0/16'])
        made['trunk'] = self._one(member, f'{root}/trunks', 'trunk', port_id=self._one(
            member, f'{root}/ports', 'port', network_id=made['network']))
        made['bare'] = self._one(member, f'{root}/ports', 'port', network_id=made['network'])
        made['address_group'] = self._one(member, f'{root}/address-groups', 'address_group', name='g',
                                          addresses=['192.0.2.0/24'])
        made['address_scope'] = self._one(member, f'{root}/address-scopes', 'address_scope', ip_version=4)
        made['flavor'] = self._one(admin, f'{root}/flavors', 'flavor', service_type='L3_ROUTER_NAT')
        made['service_profile'] = self._one(admin, f'{root}/service_profiles', 'service_profile', metainfo='m')
        made['policy'] = self._one(admin, f'{root}/qos/policies', 'policy', name='q', project_id=project)
        for kind, value in (('bandwidth_limit', {'max_kbps': 1000}), ('dscp_marking', {'dscp_mark': 10}),
                            ('minimum_bandwidth', {'min_kbps': 10}), ('minimum_packet_rate', {'min_kpps': 10})):
            made[kind] = self._one(admin, f'{root}/qos/policies/{made["policy"]}/{kind}_rules', f'{kind}_rule',
                                   **value)
        made['default_security_group_rule'] = self._one(
            admin, f'{root}/default-security-group-rules', 'default_security_group_rule', direction='ingress',
            protocol='tcp', port_range_min=1, port_range_max=2)
        for plural, kind in TAGGED.items():
            answer = member.put(f'{root}/{plural}/{made[kind]}/tags/tag')
            assert answer.status_code == (403 if kind == 'policy' else 201), answer.text
        answer = admin.put(f'{root}/policies/{made["policy"]}/tags/tag')
        assert answer.status_code == 201, answer.text

    def _keys(self, made):
        root, refs = '/key-manager/v1', {}
        for kind, path, body in (('secret', 'secrets', {'payload': 'x', 'payload_content_type': 'text/plain'}),
                                 ('later', 'secrets', {'name': 'later'}),
                                 ('container', 'containers', {'type': 'generic'}),
                                 ('order', 'orders', {'type': 'key', 'meta': {'algorithm': 'aes', 'bit_length': 128}})):
            answer = self.member.post(f'{root}/{path}', body)
            assert answer.status_code in (201, 202), answer.text
            (refs[kind],) = answer.json().values()
            made[kind] = refs[kind].rpartition('/')[2]
        made['secret_ref'] = {'name': 's', 'secret_ref': refs['secret']}
        answer = self.member.put(f'{root}/secrets/{made["secret"]}/metadata', {'metadata': {'key': 'value'}})
        assert answer.status_code == 201, answer.text

    def set(self, service, **rules):
        """Replace the policy file of an API."""
        self.files[service].write_text(''.join(f'"{name}": "{check}"\n' for name, check in rules.items()))

    def ask(self, service, probe):
        return self.member.session.request(
            probe.method, self.cloud.url + ROOTS[service] + probe.path, json=probe.body,
            headers={'X-Auth-Token': self.member.token, **probe.headers})

    def is_allowed(self, service, probe):
        answer = self.ask(service, probe)
        assert answer.status_code < 500, answer.text
        if probe.field is not None:
            return f'"{probe.field}"' in answer.text
        assert answer.status_code != 401, answer.text
        refused = answer.status_code == 403 and (probe.method == 'HEAD' or REFUSAL[service].search(answer.text))
        return not refused and not (probe.hidden and answer.status_code == 404)

    def probe(self, service, rule):
        return PROBES[service](rule, self.things)


TAGGED = {'networks': 'network', 'subnets': 'subnet', 'ports': 'port', 'routers': 'router',
          'floatingips': 'floatingip', 'security-groups': 'security_group', 'subnetpools': 'subnetpool',
          'policies': 'policy', 'trunks': 'trunk'}


def of_image(rule, things):
    """The Probe of a rule."""
    image = f'/v2/images/{things["image"]}'
    patched = {'publicize_image': 'public', 'communitize_image': 'community'}
    if rule.name in patched:
        change = [{'op': 'replace', 'path': '/visibility', 'value': patched[rule.name]}]
        return Probe('PATCH', image, change, headers=PATCH)
    method, path = rule.operations[0]
    path = path.format_map(_Parts(
        image_id=things['image'], member_id='friend', tag='tag', namespace_name=things['namespace'], object_name='one',
        property_name='one', name='one', tag_name='two' if rule.name == 'add_metadef_tag' else 'one'))
    body = {'add_image': {'name': 'i'}, 'add_member': {'member': 'other'}, 'modify_member': {'status': 'accepted'},
            'modify_image': [{'op': 'replace', 'path': '/name', 'value': 'x'}],
            'add_metadef_namespace': {'namespace': 'other'}, 'modify_metadef_namespace': {'description': 'x'},
            'add_metadef_object': {'name': 'two'}, 'modify_metadef_object': {'description': 'x'},
            'add_metadef_property': {'name': 'two', 'title': 'Two', 'type': 'string'},
            'modify_metadef_property': {'title': 'x'}, 'add_metadef_tags': {'tags': [{'name': 'one'}]},
            'modify_metadef_tag': {'name': 'one'}, 'add_metadef_resource_type_association': {'name': 'two'},
            }.get(rule.name)
    if path.endswith('/import'):
        body = {'method': {'name': 'glance-direct'}}
    headers = PATCH if method == 'PATCH' else OCTETS if path.endswith(('/file', '/stage')) and method == 'PUT' else {}
    return Probe(method, path, body, hidden=rule.name == 'get_image', headers=headers)


def _of_role(name, things):
    """The Probe of a rule of roles, or of those of the domain."""
    verb, of_domain = name.partition(':')[2].partition('_')[0], 'domain' in name
    body = {'role': {'name': 'new', **({'domain_id': 'default'} if of_domain else {})}}
    one = '/v3/roles/' + things['domain_role' if of_domain else 'role']
    return {'list': Probe('GET', '/v3/roles' + ('?domain_id=default' if of_domain else '')),
            'get': Probe('GET', one), 'create': Probe('POST', '/v3/roles', body),
            'update': Probe('PATCH', one, {'role': {'description': 'changed'}}),
            'delete': Probe('DELETE', one)}[verb]


# they would end the member that asks
ENDS = ('identity:delete_user', 'identity:delete_project')
# what they refuse is missing to the caller
HIDDEN = tuple(f'identity:{name}' for name in (
    'get_credential', 'update_credential', 'delete_credential', 'get_trust', 'delete_trust', 'list_roles_for_trust',
    'get_role_for_trust', 'get_limit'))


def of_identity(rule, things):
    method, path = rule.operations[0]
    hidden = rule.name in HIDDEN
    parts = _Parts(user_id=things['user'], project_id=things['project'], domain_id='default', trust_id=things['trust'],
                   limit_id=things['limit'])
    if rule.name.endswith('_credential') and hidden:
        parts['credential_id'] = things['credential']
    elif rule.name == 'identity:get_role_for_trust':
        parts['role_id'] = things['member_role']
    path = path.format_map(_Parts() if rule.name in ENDS else parts)
    body = {'credential': {'type': 'totp', 'user_id': things['user'], 'blob': 'A' * 32}, 'trust': things['trust_body']}
    if rule.name.endswith(('_role', '_roles')) and 'implied' not in rule.name:
        return _of_role(rule.name, things)
    if rule.name.endswith('_for_tree'):
        path += '?include_subtree&scope.project.id=' + things['project']
    elif rule.name.startswith('identity:list_trusts_for_'):
        path += f'?{rule.name.rpartition("_")[2]}_user_id={things["user"]}'
    headers = {'X-Subject-Token': things['token']} if path.endswith('/tokens') else {}
    return Probe(method, path, body if method in ('POST', 'PATCH') else None, headers=headers, hidden=hidden)


class _Parts(dict):
    def __missing__(self, name):
        return MISSING


FIELDS = {
    'volume_extension:volume_host_attribute': ('volumes/{volume}', 'os-vol-host-attr:host'),
    'volume_extension:volume_tenant_attribute': ('volumes/{volume}', 'os-vol-tenant-attr:tenant_id'),
    'volume_extension:volume_mig_status_attribute': ('volumes/{volume}', 'os-vol-mig-status-attr:migstat'),
    'volume_extension:volume_image_metadata:show': ('volumes/{volume}', 'volume_image_metadata'),
    'volume_extension:extended_snapshot_attributes': (
        'snapshots/{snapshot}', 'os-extended-snapshot-attributes:progress'),
    'backup:backup_project_attribute': ('backups/{backup}', 'os-backup-project-attr:project_id'),
    'volume_extension:access_types_extra_specs': ('types/{type}', 'extra_specs'),
    'volume_extension:types_extra_specs:read_sensitive': ('types/{type}', 'storage_protocol'),
    'volume_extension:access_types_qos_specs_id': ('types/{type}', 'qos_specs_id'),
    'volume_extension:volume_type_access': ('types/{type}', 'os-volume-type-access:is_public'),
    'limits_extension:used_limits': ('limits', 'totalVolumesUsed'),
}


def of_block_storage(rule, things):
    if rule.name in FIELDS:
        path, field = FIELDS[rule.name]
        return Probe('GET', '/' + path.format_map(things), field=field, headers=NEWEST)
    volume = '/volumes/' + things['volume']
    parts = {
        'volume:create_from_image': ('POST', '/volumes', {'volume': {'size': 1, 'imageRef': MISSING}}),
        'volume:multiattach': ('POST', '/volumes', {'volume': {'size': 1, 'multiattach': True, 'imageRef': MISSING}}),
        'volume:force_delete': ('DELETE', f'{volume}?force=true', None),
        'volume:reimage_reserved': ('POST', f'{volume}/action', {'os-reimage': {
            'image_id': MISSING, 'reimage_reserved': True}}),
        'volume_extension:volume_actions:upload_public': ('POST', f'{volume}/action', {'os-volume_upload_image': {
            'image_name': 'i', 'visibility': 'public'}}),
        'volume_extension:services:index': ('GET', '/os-services', None)}
    if rule.name in parts:
        return Probe(*parts[rule.name], headers=NEWEST)
    method, path = rule.operations[0]
    path, _, action = path.partition(' ')
    path = path.format_map(_Parts(project_id=things['project'], **things.get('named', {})))
    body = {action.strip('()'): {}} if action else {} if method in ('POST', 'PUT') else None
    if action.strip('()') in ('addProjectAccess', 'removeProjectAccess'):
        body = {action.strip('()'): {'project': 'p'}}
    return Probe(method, path, body, headers=NEWEST if path.startswith(
        ('/messages', '/default-types', '/manageable_volumes')) else {})


# values of restricted attributes, and bodies of creates and updates
def _values(things):
    outside = {'network_id': things['outside']}
    return {
        'shared': True, 'router:external': True, 'is_default': True, 'port_security_enabled': False,
        'provider:network_type': 'vxlan', 'provider:physical_network': 'x', 'provider:segmentation_id': 77,
        'service_types': ['compute:nova'], 'mac_address': '02:00:00:00:00:11', 'device_id': 'd',
        'device_owner': 'compute:x', 'binding:host_id': 'host', 'floating_ip_address': '172.24.9.200',
        'target_tenant': 'everyone', 'fixed_ips': [{'subnet_id': things['subnet'], 'ip_address': '10.77.0.200'}],
        'allowed_address_pairs': [{'ip_address': '10.77.0.201', 'mac_address': '02:00:00:00:00:12'}],
        'external_gateway_info': outside, 'external_gateway_info:enable_snat': {**outside, 'enable_snat': False},
        'external_gateway_info:external_fixed_ips': {**outside, 'external_fixed_ips': [
            {'ip_address': '172.24.9.201'}]}}


def _bodies(things):
    return {
        'network': {'name': 'new'}, 'subnet': {'network_id': things['network'], 'cidr': '10.99.0.0/24',
                                               'ip_version': 4},
        'address_group': {'name': 'new'}, 'address_scope': {'ip_version': 6}, 'trunk': {'port_id': things['bare']},
        'subnetpool': {'name': 'new', 'prefixes': ['10.98.0.0/16']}, 'port': {'network_id': things['network']},
        'security_group': {'name': 'new'}, 'router': {'name': 'new'},
        'security_group_rule': {'security_group_id': things['security_group'], 'direction': 'egress',
                                'protocol': 'udp'},
        'floatingip': {'floating_network_id': things['outside']}, 'policy': {'name': 'new'},
        'rbac_policy': {'object_type': 'network', 'object_id': things['network'], 'action': 'access_as_shared',
                        'target_tenant': 'another'},
        'default_security_group_rule': {'direction': 'egress', 'protocol': 'udp'},
        'port_forwarding': {'protocol': 'tcp', 'external_port': 81, 'internal_port': 80,
                            'internal_port_id': things['port']},
        'conntrack_helper': {'helper': 'tftp', 'protocol': 'udp', 'port': 69},
        'flavor': {'service_type': 'L3_ROUTER_NAT'}, 'service_profile': {'metainfo': 'new'},
        'bandwidth_limit_rule': {'max_kbps': 500, 'direction': 'ingress'}, 'dscp_marking_rule': {'dscp_mark': 12},
        'minimum_bandwidth_rule': {'min_kbps': 5, 'direction': 'ingress'},
        'minimum_packet_rate_rule': {'min_kpps': 5, 'direction': 'ingress'}}


_CHANGES = {'conntrack_helper': {'port': 22}, 'flavor': {'name': 'changed'}, 'service_profile': {'metainfo': 'changed'},
            'rbac_policy': {'target_tenant': 'changed'}, 'floatingip': {'description': 'changed'},
            'security_group_rule': {'description': 'changed'}, 'port_forwarding': {'external_port': 82},
            'bandwidth_limit_rule': {'max_kbps': 900}, 'dscp_marking_rule': {'dscp_mark': 14},
            'minimum_bandwidth_rule': {'min_kbps': 6}, 'minimum_packet_rate_rule': {'min_kpps': 6}}
# path of a collection: kind of the thing that {id}, or {part} below it, stands for
_KINDS = {'networks': 'network', 'subnets': 'subnet', 'ports': 'port', 'routers': 'router',
          'floatingips': 'floatingip', 'security-groups': 'security_group', 'subnetpools': 'subnetpool',
          'security-group-rules': 'security_group_rule', 'rbac-policies': 'rbac_policy',
          'default-security-group-rules': 'default_security_group_rule', 'policies': 'policy',
          'address-groups': 'address_group', 'address-scopes': 'address_scope', 'trunks': 'trunk',
          'port_forwardings': 'port_forwarding', 'bandwidth_limit_rules': 'bandwidth_limit',
          'conntrack_helpers': 'conntrack_helper', 'flavors': 'flavor', 'service_profiles': 'service_profile',
          'dscp_marking_rules': 'dscp_marking', 'minimum_bandwidth_rules': 'minimum_bandwidth',
          'minimum_packet_rate_rules': 'minimum_packet_rate', 'network-ip-availabilities': 'network'}


def of_network(rule, things):
    name, _, attribute = rule.name.partition(':')
    operations = [each for each in rule.operations if name != 'get' and '{id}' in each[1]] or list(rule.operations)
    method, path = next((each for each in operations if name.startswith('get_') and each[1].endswith('{id}')),
                        operations[0])
    filled, kind = [], None
    for part in path.strip('/').split('/'):
        if part in ('{id}', '{part}'):
            part = things.get(kind, MISSING)
        filled.append({'{project}': things['project'], '{tag}': 'tag', '{kind}': 'bandwidth_limit'}.get(part, part))
        kind = _KINDS.get(part, kind)
    path, body = '/' + '/'.join(filled), None
    if 'l3-router' in name:
        return Probe(method, path.replace('{part}', MISSING), {'router_id': MISSING} if method == 'POST' else None)
    if name == 'get_agent':
        return Probe('GET', '/agents', field='agent_type')
    if name in ('get_router', 'get_port', 'get_network') and attribute and attribute != 'tags':
        return Probe('GET', f'/{name[4:]}s/{things[name[4:]]}', field=attribute)
    if 'auto_allocated' in name and method == 'GET':
        path += '?fields=dry-run'
    noun = name.partition('_')[2]
    if noun == 'addresses':
        return Probe(method, path, {'addresses': ['198.51.100.0/24']})
    for prefix in ('floatingip_', 'policy_', 'flavor_', 'router_'):
        noun = noun.removeprefix(prefix) if noun not in things else noun
    if method == 'POST':
        body = dict(_bodies(things).get(noun, {}))
    elif method == 'PUT' and '/tags' not in path:
        body = dict(_CHANGES.get(noun, {'name': 'changed'}))
    if attribute and attribute != 'tags':
        values, whole = _values(things), attribute if attribute in _values(things) else attribute.rpartition(':')[0]
        body[whole.split(':')[0] if whole.startswith('external_gateway') else whole] = values[whole]
    elif attribute == 'tags' and method == 'POST':
        body['tags'] = ['a']
    if path.endswith('/tags') and method == 'PUT':
        return Probe(method, path, {'tags': ['tag']})
    if method in ('POST', 'PUT'):
        wrapped = noun in _bodies(things) or noun == 'quota'
        body = {noun: body} if wrapped and '/tags/' not in path else {'subnet_id': MISSING}
    hidden = name.startswith('get_') and not attribute and path.count('/') > 1 and noun in _KINDS.values()
    return Probe(method, path, body, hidden=hidden and 'port_forwarding' not in noun)


# end of a path of the Key Manager API: body
_KEYS = {'/acl': {'read': {'users': ['friend']}}, '/secrets/{secret_id}/metadata': {'metadata': {'key': 'value'}},
         '/metadata/{key}': {'key': 'key', 'value': 'value'}, '/v1/secrets': {'name': 'new'},
         '/secrets/{secret_id}/consumers': {'service': 's', 'resource_type': 't', 'resource_id': 'i'},
         '/containers/{container_id}/consumers': {'name': 'n', 'URL': 'https://u'},
         '/v1/containers': {'type': 'generic'},
         '/v1/orders': {'type': 'key', 'meta': {'algorithm': 'aes', 'bit_length': 128}},
         '/v1/project-quotas/{project_id}': {'project_quotas': {'secrets': 5000}}}


def of_key_manager(rule, things):
    method, path = rule.operations[0]
    body = next((body for end, body in _KEYS.items() if path.endswith(end)), None) if method != 'GET' else None
    if path.endswith('/containers/{container_id}/secrets'):
        body = things['secret_ref']
    if rule.name == 'secret_meta:post':
        body = {'key': 'new', 'value': 'value'}
    elif method == 'DELETE' and not path.endswith(('/consumers', '/secrets')):
        body = None
    secret = things['later'] if rule.name == 'secret:put' else things['secret']
    return Probe(method, path.format(secret_id=secret, container_id=things['container'], order_id=things['order'],
                                     key='key', project_id=things['project']), body)


PROBES = {'image': of_image, 'identity': of_identity, 'block storage': of_block_storage, 'network': of_network,
          'key manager': of_key_manager}
# rules of conditions that no request of this test meets: where they are tested
ELSEWHERE = {
    'volume:extend_attached_volume': 'volumes of servers', 'volume:multiattach_bootable_volume': 'volumes of servers',
    'nova:volumes:administrative': 'test_categories_cloud',
    'get_agent': 'agents of hosts: test_network_hosts'}
