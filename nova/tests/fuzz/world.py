"""What is there while the API is fuzzed: a cloud with some of everything, and the ids of it.

Requests with ids that nothing has are answered by 404 and reach little; so path parts and references in bodies mostly
name something real. What the requests delete, disable or use up is made again from time to time.
"""
import random
import re

from nova import actions

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test'
SERVERS = 10
LATEST = '2.104'

# segment before a part of a path: where what it may be is listed, key of the list, key of the id
LISTS = {
    'servers': ('/servers?all_tenants=1&limit=40', 'servers', 'id', LATEST),
    'os-volumes_boot': ('/servers?all_tenants=1&limit=40', 'servers', 'id', LATEST),
    'flavors': ('/flavors?is_public=None', 'flavors', 'id', LATEST),
    'os-keypairs': ('/os-keypairs', 'keypairs', 'keypair.name', LATEST),
    'os-aggregates': ('/os-aggregates', 'aggregates', 'id', LATEST),
    'os-server-groups': ('/os-server-groups', 'server_groups', 'id', LATEST),
    'os-services': ('/os-services', 'services', 'id', LATEST),
    'os-hypervisors': ('/os-hypervisors', 'hypervisors', 'id', LATEST),
    'images': ('/image/v2/images', 'images', 'id', None),
    'os-networks': ('/network/v2.0/networks', 'networks', 'id', None),
    'ports': ('/network/v2.0/ports', 'ports', 'id', None),
    'os-security-groups': ('/network/v2.0/security-groups', 'security_groups', 'id', None),
    'os-volumes': ('/volume/v3/{project}/volumes', 'volumes', 'id', None),
    'os-migrations': ('/os-migrations', 'migrations', 'id', LATEST),
}
# the same below one server
OF_SERVERS = {
    'tags': ('tags', None), 'metadata': ('metadata', None), 'os-interface': ('interfaceAttachments', 'port_id'),
    'os-volume_attachments': ('volumeAttachments', 'volumeId'), 'migrations': ('migrations', 'id'),
    'os-instance-actions': ('instanceActions', 'request_id'), 'ips': ('addresses', None),
    'shares': ('shares', 'share_id'),
}
FIXED = {
    'os-extra_specs': ['hw:cpu_policy'], 'extensions': ['os-keypairs'], 'versions': ['v2.1', 'v2.0'],
    'os-quota-class-sets': ['default'], 'os-hosts': ['host1', 'host2', 'host3'], 'os-simple-tenant-usage': [],
    'os-instance_usage_audit_log': ['2026-01-01 00:00:00'],
}
# What must be done to a server that is ACTIVE so that it has this status.
RECIPES = {
    'SHUTOFF': {'os-stop': None}, 'PAUSED': {'pause': None}, 'SUSPENDED': {'suspend': None},
    'RESCUE': {'rescue': None}, 'VERIFY_RESIZE': {'migrate': None}, 'SHELVED_OFFLOADED': {'shelve': None},
}
# key of a body: values that reach further than any string or object
VALUES = {
    'networks': ['auto', 'none', []], 'action': [{'os-stop': None}, {'delete': None}, {'lock': None}],
    'name': ['default', 'é ü', 'x' * 255, *(f'n{number}' for number in range(20))],
    'protocol': ['vnc'], 'type': ['novnc', 'ssh', 'HARD', 'SOFT'],
}
# key of a body: the pool that its value may come from
REFERENCES = {
    'imageRef': 'images', 'image': 'images', 'image_id': 'images', 'flavorRef': 'flavors', 'key_name': 'os-keypairs',
    'host': 'os-hosts', 'hypervisor_hostname': 'os-hosts', 'net_id': 'os-networks', 'port_id': 'ports',
    'port': 'ports', 'networkId': 'os-networks', 'volumeId': 'os-volumes', 'volume_id': 'os-volumes',
    'group': 'os-server-groups', 'server_uuid': 'servers', 'tenant': 'os-quota-sets', 'availability_zone': 'zones',
    'server_id': 'servers', 'instance_uuid': 'servers', 'ids': 'servers',
}


class World:
    """The ids of a running cloud.

    :param cloud: functional.cloud.Cloud with the hosts host1, host2 and host3
    """

    def __init__(self, cloud, seed):
        self.random = random.Random(seed)
        self.admin, self.member = cloud.admin(LATEST), cloud.client('nova-demo', LATEST)
        self.pools = {name: list(values) for name, values in FIXED.items()}
        self.pools.update({'os-quota-sets': [self.admin.project_id, self.member.project_id], 'zones': ['nova']})
        self.pools['os-simple-tenant-usage'] = self.pools['os-quota-sets']
        self.below = {}
        self.image = self.flavor = None           # from which servers are made
        self.by_status = {}
        self.names = iter(range(10 ** 9))
        self.problems = []

    def refresh(self):
        """Make again what is missing, and look what there is."""
        self._mend()
        for segment, (path, key, name, version) in LISTS.items():
            self.pools[segment] = [_get(item, name) for item in self._list(path, key, version)]
        # Before 2.53 these had numbers, and what was to be done stood where the id stands.
        old = self.admin.get('/os-services', version='2.1').json()['services']
        self.pools['os-services'] += [service['id'] for service in old] + ['enable', 'disable']
        self.pools['os-hypervisors'] += [1, *self.pools['os-hosts']]
        self._replenish()
        self.below = {}

    def part(self, path, position):
        """A value for the n-th part of a path, or None where nothing is known.

        :param path: '/servers/{}/tags/{}', as the facts write it
        """
        segments = path.strip('/').partition('#')[0].split('/')
        places = [index for index, segment in enumerate(segments) if segment.startswith('{')]
        before = segments[places[position] - 1]
        if before in OF_SERVERS and segments[0] in ('servers', 'os-volumes_boot') and position:
            return None                                   # see ``parts``
        return self._one(before)

    def parts(self, path, names):
        """{name: value} for the parts of a path that are known; a server is one that the action is allowed for."""
        found = {}
        action = actions.ACTIONS.get(path.partition('#')[2])
        for position, name in enumerate(names):
            value = self._server_for(action) if action and not position else self.part(path, position)
            if value is not None:
                found[name] = value
        segments = path.strip('/').partition('#')[0].split('/')
        if len(names) == 2 and segments[0] == 'servers' and names[0] in found and segments[2] in OF_SERVERS:
            server, value = self._below(segments[2], found[names[0]])
            if value is not None:
                found[names[0]], found[names[1]] = server, value
        return found

    def forget(self, value):
        """What has this id is gone."""
        for pool in self.pools.values():
            pool[:] = [item for item in pool if str(item) != value]

    def reference(self, key):
        pool = REFERENCES.get(key)
        if pool in ('images', 'flavors') and self.random.random() < .7:
            return self._own_image() if pool == 'images' else self._own_flavor()
        return self._one(pool) if pool else None

    def _one(self, segment):
        pool = self.pools.get(segment)
        return self.random.choice(pool) if pool else None

    def _server_for(self, action):
        fitting = [server for status, servers in self.by_status.items() for server in servers
                   if any(vm_state == status for vm_state in action.conditions.vm_states or (status,))]
        return self.random.choice(fitting) if fitting else self._one('servers')

    def _below(self, segment, server):
        """(server, id of something of it), of another server when this one has none."""
        for candidate in (server, *self.random.sample(self.pools['servers'], min(3, len(self.pools['servers'])))):
            found = self.below.get((candidate, segment))
            if found is None:
                key, name = OF_SERVERS[segment]
                items = self._list(f'/servers/{candidate}/{segment}', key, LATEST)
                found = self.below[candidate, segment] = [_get(item, name) if name else item for item in items]
            if found:
                return candidate, self.random.choice(found)
        return server, None

    def _list(self, path, key, version):
        answer = self.admin.get(path.format(project=self.admin.project_id), version=version or LATEST)
        return list(answer.json().get(key) or ()) if answer.status_code == 200 else []

    # ---- what there must be

    def _mend(self):
        """Undo what would make every later request a refusal."""
        admin = self.admin
        for project in self.pools['os-quota-sets']:
            for user in ('', f'?user_id={admin.user_id}', f'?user_id={self.member.user_id}'):
                admin.delete(f'/os-quota-sets/{project}{user}')
            admin.put(f'/os-quota-sets/{project}', {'quota_set': {
                **dict.fromkeys(('instances', 'cores', 'ram', 'key_pairs', 'server_groups'), -1), 'force': True}})
        for service in self._list('/os-services?binary=nova-compute', 'services', LATEST):
            if service['status'] != 'enabled' or service['forced_down']:
                admin.put(f'/os-services/{service["id"]}', {'status': 'enabled', 'forced_down': False})
        for server in self._list('/servers/detail?all_tenants=1&limit=1000', 'servers', LATEST)[30:]:
            admin.delete(f'/servers/{server["id"]}')
        for server in self._list('/servers/detail?all_tenants=1&limit=40', 'servers', LATEST):
            if server['locked']:
                admin.post(f'/servers/{server["id"]}/action', {'unlock': None})
            if server['status'] == 'ERROR' and self.random.random() < .7:
                admin.delete(f'/servers/{server["id"]}')

    def _replenish(self):
        admin, pools = self.admin, self.pools
        for name in ('image', 'flavor'):
            pool = pools[name + 's']
            if getattr(self, name) not in pool:
                setattr(self, name, None)
                pool.append(getattr(self, f'_own_{name}')())
        for path, body, key, name in (
                ('os-keypairs', {'keypair': {'name': f'k{next(self.names)}', 'public_key': KEY}}, 'keypair', 'name'),
                ('os-aggregates', {'aggregate': {'name': f'a{next(self.names)}'}}, 'aggregate', 'id'),
                ('os-server-groups', {'server_group': {'name': 'g', 'policy': 'soft-affinity'}}, 'server_group', 'id')):
            if not pools[path]:
                self._made(admin.post('/' + path, body), path, key, name)
        for _missing in range(len(pools['os-volumes']), 3):
            self._made(admin.post(f'/volume/v3/{admin.project_id}/volumes', {'volume': {'size': 1}}), 'os-volumes',
                       'volume')
        for number in range(len(pools['servers']), SERVERS):
            self._boot(number)
        self._vary()

    def _vary(self):
        """Servers in every state, and with something attached."""
        shown = self._list('/servers/detail?all_tenants=1&limit=40', 'servers', LATEST)
        self.by_status = {}
        for server in shown:
            if server['OS-EXT-STS:task_state'] is None:
                self.by_status.setdefault(server['OS-EXT-STS:vm_state'], []).append(server['id'])
        there = {server['status'] for server in shown}
        idle = [server for server in shown if server['status'] == 'ACTIVE' and not server['OS-EXT-STS:task_state']]
        for status, body in RECIPES.items():
            if status not in there and len(idle) > 2:
                self.admin.post(f'/servers/{idle.pop()["id"]}/action', body)
        if idle:
            path = f'/servers/{idle[0]["id"]}'
            self.admin.post(path + '/os-volume_attachments',
                            {'volumeAttachment': {'volumeId': self._one('os-volumes')}})
            self.admin.put(path + '/tags/t')
            self.admin.post(path + '/metadata', {'metadata': {'k': 'v'}})
        self.admin.post(f'/images/{self._own_image()}/metadata', {'metadata': {'k': 'v'}}, version='2.1')

    def _boot(self, number):
        caller = self.member if number % 3 == 2 else self.admin
        for _attempt in range(3):                # an image or a flavor may have been changed or removed
            made = caller.post('/servers', {'server': {
                'name': f's{next(self.names)}', 'imageRef': self._own_image(), 'flavorRef': self._own_flavor(),
                'networks': 'auto', 'tags': ['t'], 'metadata': {'k': 'v'}}})
            if made.status_code == 202:
                break
            self.image = self.flavor = None
        self._made(made, 'servers', 'server')

    def _own_image(self):
        if self.image is None:
            self.image = self.admin.upload_image(b'\0' * 4096, 'image', visibility='public')
        return self.image

    def _own_flavor(self):
        if self.flavor is None:
            made = self.admin.post('/flavors', {'flavor': {'name': f'f{next(self.names)}', 'ram': 64, 'vcpus': 1,
                                                           'disk': 1}})
            self.flavor = made.json()['flavor']['id']
            self.admin.post(f'/flavors/{self.flavor}/os-extra_specs', {'extra_specs': {'hw:cpu_policy': 'shared'}})
        return self.flavor

    def _made(self, answer, pool, key, name='id'):
        if answer.status_code in (200, 201, 202):
            self.pools[pool].append(answer.json()[key][name])
        else:
            self.problems.append(f'{pool}: {answer.status_code} {answer.text[:200]}')


def _get(item, name):
    for key in name.split('.'):
        item = item[key]
    return item


def thin(value, schema, chance):
    """A body with some of what is optional in it left out: most values are refused for one odd field.

    :param chance: () -> whether to leave one out
    """
    if isinstance(value, dict):
        known, required = schema.get('properties', {}), schema.get('required', ())
        return {key: thin(item, known.get(key, {}), chance) for key, item in value.items()
                if key in required or not chance() or key in REFERENCES and not chance()}
    if isinstance(value, list):
        return [thin(item, schema.get('items', {}), chance) for item in value]
    return value


def filled(value, world, chance, key=None):
    """A body whose references name what is there, by chance.

    :param key: where the value stands
    """
    if key in VALUES and chance():
        return world.random.choice(VALUES[key])
    if isinstance(value, dict):
        if 'flavorRef' in value and chance():
            value = {'imageRef': '', **value}          # optional, but for servers of volumes alone
        return {name: filled(item, world, chance, name) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, world, chance, key) for item in value]
    if isinstance(value, (str, int)) and not isinstance(value, bool) and chance():
        reference = world.reference(key)
        if reference is not None:
            return reference
    if isinstance(value, float) and value.is_integer() and chance():
        return int(value)                  # an integer to JSON Schema, none to the API
    return value


def names_of(path):
    return re.findall(r'\{(\w+)\}', path)
