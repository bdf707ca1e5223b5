"""A small Placement service over HTTP: providers in trees, aggregates, candidates of named groups, allocations."""
import itertools
import json
import threading
import urllib.parse


class Placement:
    """
    providers    {uuid: {'name', 'parent', 'inventory': {class: total}, 'traits': set, 'aggregates': [uuid]}}
    allocations  {consumer: {provider: {'resources': {class: amount}}}}
    consumers    {consumer: {'project_id', 'user_id'}}
    requests     [(method, path)] that came in
    """

    def __init__(self):
        self.providers, self.allocations, self.consumers, self.requests = {}, {}, {}, []
        self.versions = set()
        self.before_claim = lambda: None           # another claim that is faster
        self._lock = threading.RLock()

    def provider(self, uuid, name, parent=None, inventory=(), traits=(), aggregates=()):
        self.providers[uuid] = {'name': name, 'parent': parent, 'inventory': dict(inventory), 'traits': set(traits),
                                'aggregates': list(aggregates)}
        return uuid

    def free(self, uuid, resource):
        return self.providers[uuid]['inventory'].get(resource, 0) - sum(
            each.get(uuid, {'resources': {}})['resources'].get(resource, 0) for each in self.allocations.values())

    def root(self, uuid):
        while self.providers[uuid]['parent']:
            uuid = self.providers[uuid]['parent']
        return uuid

    def _one_subtree(self, uuids):
        """Whether one of them is above all the others."""
        def line(uuid):
            while uuid:
                yield uuid
                uuid = self.providers[uuid]['parent']
        return any(all(top in line(uuid) for uuid in uuids) for top in uuids)

    def __call__(self, environ, start_response):
        length = int(environ.get('CONTENT_LENGTH') or 0)
        body = json.loads(environ['wsgi.input'].read(length)) if length else {}
        query = urllib.parse.parse_qs(environ.get('QUERY_STRING', ''), strict_parsing=bool(environ['QUERY_STRING']))
        method, path = environ['REQUEST_METHOD'], environ['PATH_INFO'].strip('/').split('/')
        self.versions.add(environ.get('HTTP_OPENSTACK_API_VERSION'))
        with self._lock:
            self.requests.append((method, '/'.join(path)))
            code, document = self._answer(method, path, query, body)
        raw = b'' if document is None else json.dumps(document).encode()
        start_response(f'{code} x', [('Content-Type', 'application/json'), ('Content-Length', str(len(raw)))])
        return [raw]

    def _answer(self, method, path, query, body):
        if path == ['resource_providers'] and method == 'POST':
            if any(each['name'] == body['name'] for each in self.providers.values()) or body['uuid'] in self.providers:
                return 409, {'errors': []}
            self.provider(body['uuid'], body['name'])
            return 200, {}
        if path == ['resource_providers']:
            groups = [set(each.removeprefix('in:').split(',')) for each in query.get('member_of', ())]
            return 200, {'resource_providers': [
                {'uuid': uuid, 'name': each['name'], 'root_provider_uuid': self.root(uuid)}
                for uuid, each in self.providers.items()
                if query.get('name', [each['name']]) == [each['name']]
                and query.get('in_tree', [self.root(uuid)]) == [self.root(uuid)]
                and all(group & set(each['aggregates']) for group in groups)]}
        if path[0] == 'resource_providers' and path[2:] == ['aggregates']:
            known = self.providers.get(path[1])
            return (200, {'aggregates': known['aggregates']}) if known else (404, {})
        if path[0] == 'resource_providers' and path[2:] == ['allocations']:
            return 200, {'allocations': {
                consumer: each[path[1]] for consumer, each in self.allocations.items() if path[1] in each}}
        if path == ['usages']:
            owner, usages = {name: query[name][0] for name in ('project_id', 'user_id')}, {}
            for consumer, each in self.allocations.items():
                for name, amount in (pair for part in each.values() for pair in part['resources'].items()):
                    if self.consumers.get(consumer) == owner:
                        usages[name] = usages.get(name, 0) + amount
            return 200, {'usages': usages}
        if path == ['allocation_candidates']:
            return 200, self._candidates(query)
        if path[0] == 'allocations':
            if method == 'GET':
                known = self.allocations.get(path[1])
                return 200, {'allocations': known, **self.consumers.get(path[1], {})} if known else {'allocations': {}}
            if method == 'DELETE':
                return (204, None) if self.allocations.pop(path[1], None) else (404, {})
            assert body['consumer_generation'] is None and body['user_id'] and body['project_id']
            self.before_claim()
            if path[1] in self.allocations or any(
                    self.free(provider, resource) < amount for provider, each in body['allocations'].items()
                    for resource, amount in each['resources'].items()):
                return 409, {'errors': []}
            self.allocations[path[1]] = body['allocations']
            self.consumers[path[1]] = {'project_id': body['project_id'], 'user_id': body['user_id']}
            return 204, None
        return 400, {'errors': [path]}

    def _candidates(self, query):
        assert query['group_policy'] == ['none']
        groups = {}
        for name, (value, *_more) in query.items():
            kind, _, suffix = name.partition('_')
            if kind in ('resources', 'required') or name.startswith('in_tree_'):
                suffix = suffix.removeprefix('tree_')
                groups.setdefault('_' + suffix, {})[kind] = value
        fitting = {}
        for suffix, group in groups.items():
            wanted = {name: int(amount) for name, amount in (
                pair.split(':') for pair in group['resources'].split(','))}
            fitting[suffix] = [(uuid, wanted) for uuid, each in self.providers.items()
                               if all(self.free(uuid, name) >= amount for name, amount in wanted.items())
                               and set(group.get('required', '').split(',')) - {''} <= each['traits']
                               and group.get('in', self.root(uuid)) == self.root(uuid)]
        together = [set(each.split(',')) for each in query.get('same_subtree', ())]
        found, seen = [], {}
        for choice in itertools.product(*fitting.values()):
            chosen = dict(zip(fitting, choice))
            if len({self.root(uuid) for uuid, _wanted in choice}) != 1:
                continue
            if not all(self._one_subtree({chosen[suffix][0] for suffix in group}) for group in together):
                continue
            allocations = {}
            for uuid, wanted in choice:
                resources = allocations.setdefault(uuid, {'resources': {}})['resources']
                for name, amount in wanted.items():
                    resources[name] = resources.get(name, 0) + amount
            if any(self.free(uuid, name) < amount for uuid, each in allocations.items()
                   for name, amount in each['resources'].items()):
                continue
            found.append({'allocations': allocations,
                          'mappings': {suffix: [uuid] for suffix, (uuid, _wanted) in chosen.items()}})
            seen.update((uuid, {'root_provider_uuid': self.root(uuid)}) for uuid, _wanted in choice)
        return {'allocation_requests': found[:int(query.get('limit', ['1000'])[0])], 'provider_summaries': seen}
