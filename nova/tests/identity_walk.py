"""A walk through the identity API: every resource, its filters, bad bodies, and callers of every kind.

``python -m nova.tests.identity_walk`` writes the answers to RECORDED. Names replace what differs between two walks.
"""
import gzip
import itertools
import json
import pathlib
import re
import tempfile
import unittest.mock
import uuid

from nova.tests import identity_fixture
from nova.tests import openapi_answers

RECORDED = pathlib.Path(__file__).parent / 'contract' / 'data' / 'identity-answers.json.gz'
BAD = (None, 5, -1, True, '', ' ', 'a\0b', 'x' * 300, 'x' * 70000, [], ['a', 'a'], {}, {'a': 1})
FEW_BAD, FEW_CALLERS = (None, 5, ''), ('admin', 'demo', 'auditor', 'nobody')
DOCUMENTS = (b'', b'{', b'[]', b'null', b'"x"', b'\xff\xfe', b'{}', b'{"x": {}}')
BLOB = 'GEZDGNBVGY3TQOJQGEZDGNBVGY'
HIDDEN = (          # (what differs between two walks, its name)
    (re.compile(r'req-[0-9a-f-]{36}'), 'req-ID'), (re.compile(r'gAAAA[\w=-]{40,}'), 'TOKEN'),
    (re.compile(r'("audit_ids": \[)[^]]*'), r'\1"RANDOM"'), (re.compile(r'\b[0-9a-f]{64}\b'), 'DIGEST'),
    (re.compile(r'("audit_id": |"secret": )"[^"]*"'), r'\1"RANDOM"'),
    (re.compile(r'\b[0-9a-f]{40}\b'), 'SECRET'), (re.compile(r'\b0{6}[0-9a-f]{6}40008000[0-9a-f]{12}\b'), 'ID'),
    (re.compile(r'\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d{6})?'), lambda match: 'TIME' + match[1] + (
        '.6' if match[2] else '')))
HEADERS = ('content-type', 'vary', 'allow', 'www-authenticate', 'location', 'x-subject-token', 'retry-after')
PROJECT = {'name': 'n', 'description': 'd', 'enabled': True, 'domain_id': 'default', 'parent_id': 'default',
           'is_domain': False, 'tags': ['t'], 'options': {'immutable': False}}
USER = {'name': 'n', 'description': 'd', 'enabled': True, 'domain_id': 'default', 'password': 'pw', 'email': 'a@b',
        'default_project_id': 'some', 'options': {'multi_factor_auth_enabled': True,
                                                  'multi_factor_auth_rules': [['password', 'totp']]}}
ROLE = {'name': 'n', 'description': 'd', 'domain_id': 'default', 'options': {}}
GROUP = {'name': 'n', 'description': 'd', 'domain_id': 'default'}
REGION = {'id': 'n', 'description': 'd', 'parent_region_id': 'RegionOne'}
SERVICE = {'type': 'n', 'name': 's', 'description': 'd', 'enabled': False}
FILTERS = ('name', 'enabled', 'type', 'domain_id', 'parent_id', 'parent_region_id', 'service_id', 'region_id',
           'interface', 'description', 'unknown')
OPERATORS = ('__contains', '__icontains', '__startswith', '__iendswith', '__none')


class Walk:
    """Asks and records.

    :param cloud: IdentityCloud
    :param full: all wrong values, filters and callers; else a few
    :param brief: only the parts whose statements are more than those of one table
    """

    def __init__(self, cloud, full=False, brief=False):
        self.cloud, self.full, self.brief, self.names, self.answers = cloud, full, brief, {}, []
        self.bad, self.checked = () if brief else BAD if full else FEW_BAD, set()         # (method, path, answer)
        for noun in ('role', 'project', 'user'):
            for row in cloud.service.list(noun):
                self.names[row['id']] = f'{noun}-{row["name"]}'
        for row in cloud.service.built_in(None):
            self.names[row['id']] = 'service-' + row['type']
            self.names |= {each['id']: f'endpoint-{row["type"]}-{each["interface"]}' for each in row['endpoints']}
        self.ids = {name: row_id for row_id, name in self.names.items()}
        self.names |= {password: f'password-{name}' for name, password in cloud.passwords.items()}
        self.tokens = {'nobody': None, 'forged': 'forged'}

    def hidden(self, text):
        for row_id, name in self.names.items():
            text = text.replace(row_id, name)
        for pattern, name in HIDDEN:
            text = pattern.sub(name, text)
        return text

    def ask(self, method, path, body=None, who='admin', **headers):
        reply = self.cloud.call(method, path, body, self.tokens[who], check=False, **headers)
        sent = '' if body is None else repr(body) if isinstance(body, bytes) else json.dumps(body)
        sent = re.sub(r'x{100,}', lambda match: f'x*{len(match[0])}', sent)
        if reply.body and reply.content_type == 'application/json':
            shown = json.dumps(reply.json, sort_keys=True)
        else:
            shown = reply.text
        answer = self.hidden(' '.join([str(reply.status_int), *(
            f'{name}={reply.headers[name]}' for name in HEADERS if name in reply.headers), shown]))
        self.answers.append((self.hidden(' '.join(filter(None, (who, method, path, sent)))), answer))
        key = method, self.hidden(path).partition('?')[0], answer
        if key not in self.checked:
            self.checked.add(key)
            openapi_answers.IDENTITY.check(method, path.partition('?')[0], body, reply.status_int, reply.headers,
                                           reply.text)
        return reply

    def make(self, name, path, body, who='admin', batch=False):
        """Create a resource, name it and return its id."""
        reply = self.ask('POST', path, body, who)
        assert reply.status_int == 201, reply.text
        (made,) = reply.json.values()
        self.name(name, made[0]['id'] if batch else made['id'] if 'id' in made else made['access'])
        return self.ids[name]

    def name(self, name, row_id):
        self.names[row_id], self.ids[name] = name, row_id

    def login(self, who, identity, scope):
        reply = self.ask('POST', '/v3/auth/tokens', {'auth': {'identity': identity, **scope}}, 'nobody')
        assert reply.status_int == 201, reply.text
        self.tokens[who] = reply.headers['X-Subject-Token']

    def password(self, name, password):
        return {'methods': ['password'], 'password': {'user': {
            'name': name, 'password': password, 'domain': {'id': 'default'}}}}

    @property
    def everybody(self):
        return [*self.tokens] if self.full else FEW_CALLERS[:2 if self.brief else None]

    # ---- parts of the walk

    def run(self):
        """Return [(request, answer)]."""
        self.callers()
        parts = (self.users, self.projects, self.roles, self.groups, self.limits, self.trusts, self.revocations)
        if not self.brief:
            self.one_table()
            parts = (self.users, self.projects, self.roles, self.groups, self.catalog, self.limits, self.credentials,
                     self.application_credentials, self.trusts, self.tokens_of, self.revocations, self.paths)
        for part in parts:
            part()
        self.reads('the end', None if self.full else ('admin',))
        return [(self.hidden(request), self.hidden(answer)) for request, answer in self.answers]   # with later names

    def one_table(self):
        self.simple()
        for path, noun, fields, required in (
                ('/v3/projects', 'project', PROJECT, ['name']), ('/v3/users', 'user', USER, ['name']),
                ('/v3/roles', 'role', ROLE, ['name']), ('/v3/groups', 'group', GROUP, ['name']),
                ('/v3/regions', 'region', REGION, []), ('/v3/services', 'service', SERVICE, ['type']),
                ('/v3/endpoints', 'endpoint', {
                    'service_id': self.ids['service-compute'], 'region_id': 'RegionOne', 'region': 'RegionOne',
                    'interface': 'public', 'url': 'http://x', 'enabled': True}, ['service_id', 'interface', 'url'])):
            self.fields(path, noun, fields, required)

    def callers(self):
        ids = self.ids
        self.login('admin', self.password('admin', self.cloud.passwords['admin']), {'scope': {'project': {
            'name': 'admin', 'domain': {'id': 'default'}}}})
        for name, target, role in (('auditor', '/v3/system', 'reader'), ('manager', '/v3/domains/default', 'manager'),
                                   ('friend', f'/v3/projects/{ids["project-demo"]}', 'reader')):
            self.make(f'user-{name}', '/v3/users', {'user': {'name': name, 'password': 'pw'}})
            self.ask('PUT', f'{target}/users/{ids["user-" + name]}/roles/{ids["role-" + role]}')
        project = {'scope': {'project': {'id': ids['project-demo']}}}
        self.login('system', self.password('admin', self.cloud.passwords['admin']), {'scope': {
            'system': {'all': True}}})
        self.login('domain', self.password('admin', self.cloud.passwords['admin']), {'scope': {'domain': {
            'name': 'Default'}}})
        self.login('demo', self.password('demo', self.cloud.passwords['demo']), project)
        self.login('unscoped', self.password('demo', self.cloud.passwords['demo']), {'scope': 'unscoped'})
        self.login('nova', self.password('nova', self.cloud.passwords['nova']), {'scope': {'project': {
            'id': ids['project-service']}}})
        self.login('auditor', self.password('auditor', 'pw'), {'scope': {'system': {'all': True}}})
        self.login('manager', self.password('manager', 'pw'), {'scope': {'domain': {'id': 'default'}}})
        self.login('friend', self.password('friend', 'pw'), project)
        for who, more in (('restricted', {}), ('limited', {'unrestricted': True, 'access_rules': [
                {'service': 'identity', 'method': 'GET', 'path': '/**'}]}), ('free', {'unrestricted': True})):
            made = self.ask('POST', f'/v3/users/{ids["user-demo"]}/application_credentials', {
                'application_credential': {'name': who, 'secret': 'geheim', **more}}, 'demo')
            made = made.json['application_credential']
            self.name(f'credential-{who}', made['id'])
            for number, rule in enumerate(made.get('access_rules', ())):
                self.name(f'rule-{number}', rule['id'])
            self.login(who, {'methods': ['application_credential'], 'application_credential': {
                'id': made['id'], 'secret': 'geheim'}}, {})
        self.make('trust-first', '/v3/OS-TRUST/trusts', {'trust': {
            'trustor_user_id': ids['user-demo'], 'trustee_user_id': ids['user-friend'], 'impersonation': True,
            'project_id': ids['project-demo'], 'roles': [{'name': 'reader'}]}}, 'demo')
        self.login('delegate', self.password('friend', 'pw'), {'scope': {'OS-TRUST:trust': {'id': ids['trust-first']}}})

    def reads(self, when, callers=None):
        """Read everything as everybody."""
        if not self.full and when not in ('the beginning', 'the end'):
            return
        ids = self.ids
        user, project, role = (ids[f'{noun}-{name}'] for noun, name in (
            ('user', 'demo'), ('project', 'demo'), ('role', 'member')))
        paths = [
            '', '/v3', '/v3/domains', '/v3/domains/default', '/v3/domains/x', '/v3/projects', f'/v3/projects/{project}',
            f'/v3/projects/{project}/tags', '/v3/users', f'/v3/users/{user}', f'/v3/users/{user}/projects',
            f'/v3/users/{user}/groups', f'/v3/users/{user}/application_credentials', f'/v3/users/{user}/access_rules',
            f'/v3/users/{user}/credentials/OS-EC2', '/v3/roles', f'/v3/roles/{role}', '/v3/groups', '/v3/regions',
            '/v3/regions/RegionOne', '/v3/services', f'/v3/services/{ids["service-compute"]}', '/v3/endpoints',
            f'/v3/endpoints/{ids["endpoint-compute-public"]}', '/v3/registered_limits', '/v3/limits',
            '/v3/limits/model', '/v3/credentials', '/v3/OS-TRUST/trusts', '/v3/OS-REVOKE/events', '/v3/role_inferences',
            f'/v3/roles/{role}/implies', '/v3/role_assignments', '/v3/auth/catalog', '/v3/auth/projects',
            '/v3/auth/domains', '/v3/auth/system', f'/v3/projects/{project}/users/{user}/roles',
            f'/v3/projects/{project}/users/{user}/roles/{role}', f'/v3/domains/default/users/{user}/roles',
            f'/v3/system/users/{user}/roles', f'/v3/OS-INHERIT/projects/{project}/users/{user}/roles/'
            'inherited_to_projects', *(f'/v3/{noun}/none' for noun in (
                'projects', 'users', 'roles', 'groups', 'regions', 'services', 'endpoints', 'limits', 'credentials',
                'registered_limits', 'OS-TRUST/trusts')),
            *(f'/v3/users/none/{noun}' for noun in ('projects', 'groups', 'application_credentials', 'access_rules',
                                                    'credentials/OS-EC2'))]
        for path, who in itertools.product(paths, callers or self.everybody):
            self.ask('GET', path, who=who)

    def simple(self):
        self.reads('the beginning')
        for query in ('name=Default', 'name=default', 'name=x', 'enabled=false', 'enabled', 'enabled=1'):
            self.ask('GET', '/v3/domains?' + query)
        for method, path in (('POST', '/v3/domains'), ('PATCH', '/v3/domains/default'),
                             ('DELETE', '/v3/domains/default')):
            for who in self.everybody:
                self.ask(method, path, {'domain': {'name': 'x', 'enabled': False}}, who)
        one = f'/v3/domains/{self.make("domain", "/v3/domains", {"domain": {"name": "other", "tags": ["a"]}})}'
        for method, body in (('PATCH', {'domain': {'description': 'd'}}), ('DELETE', None),
                             ('PATCH', {'domain': {'enabled': False}}), ('DELETE', None), ('DELETE', None)):
            for who in self.everybody:
                self.ask(method, one, body, who)
        self.endpoint_filters()

    def endpoint_filters(self):
        """Endpoint groups, and endpoints of projects."""
        root, project = '/v3/OS-EP-FILTER', self.ids['project-demo']
        group = self.make('endpoint-group', f'{root}/endpoint_groups', {'endpoint_group': {
            'name': 'g', 'filters': {'interface': 'internal'}}})
        one, given = f'{root}/endpoint_groups/{group}', self.ask('GET', '/v3/endpoints').json['endpoints'][0]['id']
        in_project = (f'{one}/projects/{project}', f'{root}/projects/{project}/endpoints/{given}')
        for method, path in (
                *(('PUT', path) for path in in_project), *(('GET', path) for path in in_project),
                *(('GET', path) for path in (one, f'{root}/endpoint_groups', f'{one}/projects', f'{one}/endpoints',
                                             f'{root}/projects/{project}/endpoints',
                                             f'{root}/projects/{project}/endpoint_groups',
                                             f'{root}/endpoints/{given}/projects')),
                *(('DELETE', path) for path in in_project), ('PATCH', one), ('DELETE', one)):
            for who in self.everybody:
                self.ask(method, path, {'endpoint_group': {'name': 'h'}} if method == 'PATCH' else None, who)

    def fields(self, path, noun, good, required):
        """Create and update with each field missing, wrong, and right."""
        for who in self.everybody:
            self.ask('POST', path, {noun: {**good, 'parent_id': 'none', 'service_id': 'none'}}, who)
        for document in DOCUMENTS:
            self.ask('POST', path, document)
        for value in (None, 5, [], 'x', [{}]):
            self.ask('POST', path, {noun: value})
        needed = {name: good[name] for name in required}
        for name in required:
            self.ask('POST', path, {noun: {key: value for key, value in good.items() if key != name}})
        for number, (name, value) in enumerate([*((key, bad) for key in good for bad in (*self.bad, good[key])),
                                               ('id', 'x'), ('links', {}), ('extra', {'a': [1]}), ('own', 'x' * 5000),
                                               ('is_domain', True), ('options', {'immutable': True}),
                                               ('options', {'x': 1}), ('domain_id', 'x'), ('created_at', 'x')]):
            unique = {'name': f'n{number}'} if 'name' in needed else {}
            self.made(path, noun, {**needed, **unique, name: value})
        self.made(path, noun, {**needed, 'unknown': 'x', 'other': None})
        made = self.make(f'{noun}-changed', path, {noun: {**good, 'own': 'kept', 'name': 'changed', **(
            {'id': 'changed'} if noun == 'region' else {})}})
        one = f'{path}/{made}'
        for name, value in [*((key, bad) for key in good for bad in (*self.bad, good[key])), ('id', 'x'),
                            ('own', None), ('more', {'a': 1}), ('links', 5), ('domain_id', 'x'), ('is_domain', True)]:
            self.ask('PATCH', one, {noun: {name: value}})
            if self.full:
                self.ask('GET', one)
        for who in self.everybody:
            self.ask('PATCH', one, {noun: {}}, who)
        for document in DOCUMENTS:
            self.ask('PATCH', one, document)
        self.ask('PATCH', f'{path}/none', {noun: {}})
        for name in FILTERS if self.full else FILTERS[:2]:
            for value in ('', '=', '=0', '=false', '=True', '=x', '=changed', '=default', '=RegionOne', '=public',
                          *(f'{operator}=A' for operator in OPERATORS))[::1 if self.full else 3]:
                self.ask('GET', f'{path}?{name}{value}')
        self.ask('GET', f'{path}?limit=1&marker=x&sort_key=name&name=%ff')
        self.ask('GET', f'{path}?a=b&c=%C3%A4&c=d')
        for who in self.everybody:
            if who not in ('admin', 'system', 'domain', 'manager'):
                self.ask('DELETE', one, who=who)
        self.ask('DELETE', one)
        self.ask('DELETE', one)

    def made(self, path, noun, values):
        """Try to create; delete what was created."""
        reply = self.ask('POST', path, {noun: values})
        if reply.status_int == 201:
            row_id = reply.json[noun]['id']
            known = row_id in self.names
            self.names.setdefault(row_id, 'NEW')
            self.answers[-1] = self.answers[-1][0], self.hidden(self.answers[-1][1])
            self.ask('DELETE', f'{path}/{row_id}')
            if not known:
                del self.names[row_id]

    def users(self):
        user = self.make('user-u', '/v3/users', {'user': {'name': 'u', 'password': 'pw'}})
        for filter_ in ('lt:2099-01-01T00:00:00Z', 'gt:2099-01-01', 'x', 'neq:x', ''):
            self.ask('GET', '/v3/users?password_expires_at=' + filter_)
        path = f'/v3/users/{user}/password'
        for body in ({}, {'user': {}}, {'user': {'password': 'x'}}, {'user': {'password': 5, 'original_password': 'x'}},
                     {'user': {'password': '', 'original_password': 'x'}},
                     {'user': {'password': 'n', 'original_password': 'x'}},
                     {'user': {'password': 'n', 'original_password': 'pw'}}):
            self.ask('POST', path, body, 'nobody')
        self.ask('POST', '/v3/users/none/password', {'user': {'password': 'n', 'original_password': 'x'}}, 'nobody')
        for who in ('manager', 'nova', 'auditor', 'demo'):
            self.ask('PATCH', f'/v3/users/{self.ids["user-admin"]}', {'user': {'description': 'd'}}, who)
            self.ask('DELETE', f'/v3/users/{self.ids["user-admin"]}', None, who)
        for options in ({'multi_factor_auth_rules': [['x']]}, {'multi_factor_auth_rules': None},
                        {'ignore_password_expiry': True}, {'x': None}):
            self.ask('PATCH', f'/v3/users/{user}', {'user': {'options': options}})

    def projects(self):
        top = self.make('project-top', '/v3/projects', {'project': {'name': 'top', 'tags': ['a', 'b']}})
        middle = self.make('project-middle', '/v3/projects', {'project': {'name': 'middle', 'parent_id': top}})
        low = self.make('project-low', '/v3/projects', {'project': {'name': 'low', 'parent_id': middle}})
        self.ask('PUT', f'/v3/projects/{low}/users/{self.ids["user-friend"]}/roles/{self.ids["role-reader"]}')
        for project in (top, middle, low, 'none'):
            for query in ('parents_as_list', 'parents_as_ids', 'subtree_as_list', 'subtree_as_ids&parents_as_list',
                          'parents_as_list&parents_as_ids', 'subtree_as_list&subtree_as_ids'):
                for who in ('admin', 'friend', 'auditor'):
                    self.ask('GET', f'/v3/projects/{project}?{query}', who=who)
        for query in ('tags=a', 'tags=a,b', 'tags-any=a,c', 'not-tags=a', 'not-tags-any=c,b', 'is_domain=true',
                      'is_domain=0', f'parent_id={top}', 'parent_id=default', 'name__icontains=O'):
            self.ask('GET', '/v3/projects?' + query)
        for body in ({'parent_id': top}, {'parent_id': middle}, {'parent_id': None}, {'enabled': False}):
            self.ask('PATCH', f'/v3/projects/{low}', {'project': body})
        self.ask('PATCH', f'/v3/projects/{top}', {'project': {'enabled': False}})
        self.ask('DELETE', f'/v3/projects/{top}')
        self.ask('POST', '/v3/projects', {'project': {'name': 'x', 'parent_id': 'none'}})
        tags = f'/v3/projects/{top}/tags'
        for body in (*self.bad, ['x'], [','], [str(number) for number in range(81)], ['y', 'z']):
            self.ask('PUT', tags, {'tags': body})
        for document in DOCUMENTS:
            self.ask('PUT', tags, document)
        for method, tag in itertools.product(('PUT', 'GET', 'HEAD', 'DELETE'), ('y', 'new', 'x' * 256, 'a,b', 'none')):
            for who in ('demo', 'admin'):
                self.ask(method, f'{tags}/{tag}', who=who)
        self.ask('DELETE', tags)
        self.ask('GET', '/v3/projects/none/tags')

    def roles(self):
        ids = self.ids
        for name, values in (('a', {}), ('b', {}), ('special', {'domain_id': 'default'})):
            self.make(f'role-{name}', '/v3/roles', {'role': {'name': name, **values}})
        for query in ('', '?domain_id=default', '?domain_id=', '?name=special', '?name=a'):
            self.ask('GET', '/v3/roles' + query)
        for who in ('manager', 'auditor', 'nova', 'demo'):
            self.ask('GET', f'/v3/roles/{ids["role-special"]}', who=who)
            self.ask('GET', '/v3/roles?domain_id=default', who=who)
        self.ask('PATCH', f'/v3/roles/{ids["role-special"]}', {'role': {'domain_id': None}})
        for method, body in (('PATCH', {'role': {'name': 'x'}}), ('DELETE', None)):
            self.ask(method, f'/v3/roles/{ids["role-reader"]}', body)
        pairs = [(ids['role-a'], ids['role-b']), (ids['role-a'], ids['role-admin']), (ids['role-a'], ids['role-a']),
                 (ids['role-a'], ids['role-special']), (ids['role-special'], ids['role-reader']), ('none', 'none'),
                 (ids['role-member'], ids['role-reader'])]
        for method, (prior, implied) in itertools.product(('GET', 'PUT', 'HEAD', 'GET'), pairs):
            for who in ('demo', 'admin'):
                self.ask(method, f'/v3/roles/{prior}/implies/{implied}', who=who)
        self.reads('implied roles', ('admin',))
        self.ask('GET', f'/v3/roles/{ids["role-a"]}/implies')
        self.ask('GET', '/v3/roles/none/implies')
        self.ask('DELETE', f'/v3/roles/{ids["role-a"]}/implies/{ids["role-b"]}')
        self.ask('DELETE', f'/v3/roles/{ids["role-member"]}/implies/{ids["role-reader"]}')

    def groups(self):
        ids = self.ids
        group = self.make('group-ops', '/v3/groups', {'group': {'name': 'ops'}})
        other = self.make('group-empty', '/v3/groups', {'group': {'name': 'empty', 'own': [1]}})
        user = ids['user-u']
        for method, member in itertools.product(('GET', 'PUT', 'HEAD'), (user, ids['user-demo'], 'none')):
            for who in ('demo', 'manager', 'admin'):
                self.ask(method, f'/v3/groups/{group}/users/{member}', who=who)
        for path in (f'/v3/groups/{group}/users', f'/v3/groups/{other}/users', '/v3/groups/none/users',
                     f'/v3/users/{user}/groups'):
            for query in ('', '?name=u', '?name=ops', '?name__contains=e', '?name=none'):
                self.ask('GET', path + query)
        role, project = ids['role-member'], ids['project-top']
        for actor, actor_id in (('user', user), ('group', group), ('group', 'none')):
            for target in (f'projects/{project}', 'domains/default', 'system', 'projects/none', 'domains/x'):
                path = f'{target}/{actor}s/{actor_id}/roles'
                one = [f'/v3/{path}/{each}' for each in (role, 'none', ids['role-special'])]
                if target != 'system':
                    one.append(f'/v3/OS-INHERIT/{path}/{role}/inherited_to_projects')
                    self.ask('GET', f'/v3/OS-INHERIT/{path}/inherited_to_projects')
                for each in one:
                    for method in ('HEAD', 'PUT', 'PUT', 'GET'):
                        self.ask(method, each)
                    for who in ('demo', 'manager', 'auditor'):
                        self.ask('GET', each, who=who)
                        self.ask('PUT', each, who=who)
                self.ask('GET', '/v3/' + path)
        for query in ('', f'user.id={user}', f'group.id={group}', f'role.id={role}', f'scope.project.id={project}',
                      'scope.domain.id=default', 'scope.system=all', 'scope.OS-INHERIT:inherited_to=projects',
                      f'user.id={user}&effective', f'scope.project.id={ids["project-low"]}&effective',
                      f'scope.project.id={project}&include_subtree', f'scope.project.id={project}&include_subtree'
                      '&effective', 'include_subtree', f'user.id={user}&group.id={group}',
                      f'effective&group.id={group}', 'scope.system=all&scope.domain.id=default', 'user.id=none'):
            for names in ('', '&include_names', '&include_names=0'):
                for who in ('admin', 'manager', 'auditor', 'demo')[:4 if self.full or not query else 1]:
                    self.ask('GET', f'/v3/role_assignments?{query}{names}', who=who)
        for actor, actor_id in (('user', user), ('group', group)):
            for target in ('domains/default', 'system'):
                for _ in range(2):
                    self.ask('DELETE', f'/v3/{target}/{actor}s/{actor_id}/roles/{role}')
        self.ask('DELETE', f'/v3/groups/{group}/users/{user}')
        self.ask('DELETE', f'/v3/groups/{group}/users/{user}')
        self.ask('DELETE', f'/v3/groups/{other}')

    def catalog(self):
        for number, body in enumerate(({}, {'id': 'r1'}, {'id': 'other'}, {'parent_region_id': 'RegionOne'},
                                       {'parent_region_id': 'none'}, {'description': None, 'own': 1})):
            self.ask('PUT', f'/v3/regions/r{number}', {'region': body})
        self.ask('PUT', '/v3/regions/' + 'x' * 256, {'region': {}})
        self.ask('PUT', '/v3/regions/r0', {'region': {}}, 'demo')
        self.ask('PATCH', '/v3/regions/r0', {'region': {'parent_region_id': 'r0'}})
        self.ask('PATCH', '/v3/regions/r0', {'region': {'parent_region_id': 'r1'}})
        self.ask('DELETE', '/v3/regions/r1')
        dns = self.make('service-dns', '/v3/services', {'service': {'type': 'dns'}})
        for name, body in (('project', {'url': 'http://dns/$(project_id)s', 'region': 'r0', 'name': 'own'}),
                           ('both', {'url': 'http://dns', 'region': 'r0', 'region_id': 'r1'}),
                           ('no', {'url': 'http://dns', 'region': None})):
            self.make(f'endpoint-{name}', '/v3/endpoints', {'endpoint': {
                'service_id': dns, 'interface': 'public', **body}})
        for body in ({'url': 'http://$(x)s'}, {'url': 'http://dns', 'region_id': 'none'},
                     {'url': 'http://dns', 'service_id': 'none'}):
            self.ask('POST', '/v3/endpoints', {'endpoint': {'service_id': dns, 'interface': 'public', **body}})
        for noun, row_id in (('region', 'RegionOne'), ('service', self.ids['service-compute']),
                             ('endpoint', self.ids['endpoint-compute-public'])):
            self.ask('PATCH', f'/v3/{noun}s/{row_id}', {noun: {'description': 'x'}})
            self.ask('DELETE', f'/v3/{noun}s/{row_id}')
        for query in (f'service_id={dns}', 'region_id=r0', f'service_id={dns}&interface=admin', 'url__contains=x',
                      'interface__startswith=p', 'enabled=1'):
            self.ask('GET', '/v3/endpoints?' + query)
        self.reads('a catalog', ('admin', 'demo', 'system', 'unscoped'))
        self.ask('DELETE', f'/v3/services/{dns}')

    def limits(self):
        service, project = self.ids['service-compute'], self.ids['project-demo']
        good = {'service_id': service, 'region_id': 'RegionOne', 'resource_name': 'cores', 'default_limit': 5,
                'description': 'd'}
        path = '/v3/registered_limits'
        for who in self.everybody:
            self.ask('POST', path, {'registered_limits': [{**good, 'service_id': 'none'}]}, who)
        for body in (*self.bad, [good] * 101, [{}], [good, {**good, 'resource_name': 5}], good):
            self.ask('POST', path, {'registered_limits': body})
        for name, value in [(name, value) for name in good for value in self.bad]:
            self.ask('POST', path, {'registered_limits': [{**good, 'service_id': 'none', name: value}]})
        first = self.make('registered-first', path, {'registered_limits': [good]}, batch=True)
        second = self.make('registered-second', path, {'registered_limits': [
            {**{name: good[name] for name in ('service_id', 'resource_name', 'default_limit')}, 'own': 'x',
             'id': 'x'}]}, batch=True)
        self.ask('POST', path, {'registered_limits': [good]})
        for query in ('region_id=RegionOne', 'region_id=', f'service_id={service}', 'resource_name=x',
                      'resource_name__startswith=c', 'default_limit=5'):
            self.ask('GET', f'{path}?{query}')
        limit = {**{name: good[name] for name in ('service_id', 'region_id', 'resource_name')}, 'resource_limit': 3}
        for body in ({}, {'project_id': project, 'domain_id': 'default'}, {'project_id': 'none'}, {'domain_id': 'none'},
                     {'project_id': project, 'resource_name': 'x'}, {'project_id': project, 'resource_limit': -2}):
            self.ask('POST', '/v3/limits', {'limits': [{**limit, **body}]})
        for name, value in ((name, value) for name in (*limit, 'description', 'project_id', 'domain_id')
                            for value in self.bad):
            self.ask('POST', '/v3/limits', {'limits': [{**limit, 'service_id': 'none', 'project_id': project,
                                                        name: value}]})
        mine = self.make('limit-project', '/v3/limits', {'limits': [{**limit, 'project_id': project}]}, batch=True)
        wide = self.make('limit-domain', '/v3/limits', {'limits': [{**limit, 'domain_id': 'default'}]}, batch=True)
        self.make('limit-null', '/v3/limits', {'limits': [{
            **limit, 'region_id': None, 'domain_id': None, 'description': None, 'project_id': project}]}, batch=True)
        self.ask('POST', '/v3/limits', {'limits': [{**limit, 'project_id': project}]})
        for query in (f'project_id={project}', 'domain_id=default', 'region_id=RegionOne', 'resource_name=cores',
                      'resource_name__contains=z', 'service_id=none'):
            for who in ('admin', 'demo', 'domain', 'manager'):
                self.ask('GET', f'/v3/limits?{query}', who=who)
        for row_id, who in itertools.product((mine, wide), self.everybody):
            self.ask('GET', f'/v3/limits/{row_id}', who=who)
            self.ask('PATCH', f'/v3/limits/{row_id}', {'limit': {'resource_limit': 4}}, who)
        for name, value in [(key, bad) for key in (*limit, 'description', 'project_id', 'domain_id')
                            for bad in (*self.bad, limit.get(key))]:
            self.ask('PATCH', f'/v3/limits/{mine}', {'limit': {name: value}})
        for name, value in [(key, bad) for key in good for bad in (*self.bad, good[key])]:
            self.ask('PATCH', f'{path}/{first}', {'registered_limit': {name: value}})
        self.ask('PATCH', f'{path}/{first}', {'registered_limit': {'resource_name': 'ram'}})
        for row_id in (first, second):
            self.ask('GET', f'{path}/{row_id}')
            self.ask('DELETE', f'{path}/{row_id}')
        self.reads('limits')
        self.ask('DELETE', f'/v3/limits/{wide}', who='demo')
        self.ask('DELETE', f'/v3/limits/{wide}')

    def credentials(self):
        ids = self.ids
        user, project = ids['user-demo'], ids['project-demo']
        good = {'blob': BLOB, 'type': 'totp', 'user_id': user, 'project_id': None}
        pair = json.dumps({'access': 'walk', 'secret': 'verysecret'})
        for who in self.everybody:
            self.ask('POST', '/v3/credentials', {'credential': {**good, 'blob': 'x'}}, who)
        for name, value in [(name, value) for name in good for value in self.bad]:
            self.ask('POST', '/v3/credentials', {'credential': {**good, 'blob': 'x', name: value}})
        for document in DOCUMENTS:
            self.ask('POST', '/v3/credentials', document)
        totp = self.make('credential-totp', '/v3/credentials', {'credential': {**good, 'own': 1}}, 'demo')
        ec2 = self.make('credential-ec2', '/v3/credentials', {'credential': {
            **good, 'type': 'ec2', 'blob': pair, 'project_id': project}}, 'demo')
        for body in ({'type': 'ec2', 'blob': pair, 'project_id': project}, {'type': 'ec2', 'blob': pair},
                     {'type': 'ec2', 'blob': '{}', 'project_id': project}, {'project_id': 'none'},
                     {'user_id': 'none'}):
            self.ask('POST', '/v3/credentials', {'credential': {**good, **body}})
        for query in ('', f'?user_id={user}', f'?user_id={user}&type=ec2', '?type=totp', '?user_id=none', '?type=x'):
            for who in self.everybody:
                self.ask('GET', '/v3/credentials' + query, who=who)
        for row_id, who in itertools.product((totp, ec2), self.everybody):
            self.ask('GET', f'/v3/credentials/{row_id}', who=who)
            self.ask('PATCH', f'/v3/credentials/{row_id}', {'credential': {}}, who)
        for row_id in (totp, ec2):
            for body in ({'user_id': 'other'}, {'type': 'x'}, {'type': 'ec2'}, {'blob': 'x'}, {'project_id': 'none'},
                         {'project_id': project}, {'project_id': None}, {'blob': BLOB}, {'blob': None}, {'own': 1}):
                self.ask('PATCH', f'/v3/credentials/{row_id}', {'credential': body})
        path = f'/v3/users/{user}/credentials/OS-EC2'
        for who in self.everybody:
            self.ask('POST', path, {'tenant_id': 'none'}, who)
        for body in ({}, {'tenant_id': None}, {'tenant_id': 'x' * 65}):
            self.ask('POST', path, body)
        made = self.make('access', path, {'tenant_id': project})
        for access, who in itertools.product((made, 'walk', 'none'), self.everybody):
            self.ask('GET', f'{path}/{access}', who=who)
        self.reads('credentials')
        for access in (made, made):
            self.ask('DELETE', f'{path}/{access}', who='demo')
        for who in ('friend', 'nova', 'demo', 'demo'):
            self.ask('DELETE', f'/v3/credentials/{totp}', who=who)
        for path, key in (('/v3/ec2tokens', 'credentials'), ('/v3/ec2tokens', 'ec2Credentials'),
                          ('/v3/s3tokens', 'credentials')):
            for body in ({}, {key: {}}, {key: {'access': 'walk', 'token': '!', 'signature': 's'}},
                         {key: {'access': 'walk', 'token': 'eA==', 'signature': 's'}},
                         {key: {'access': 'walk', 'signature': 's', 'host': 'h', 'verb': 'GET', 'path': '/',
                                'params': {'a': 'b'}}}):
                for who in ('demo', 'nova'):
                    self.ask('POST', path, body, who)

    def application_credentials(self):
        ids = self.ids
        path = f'/v3/users/{ids["user-demo"]}/application_credentials'
        rule = {'service': 'compute', 'method': 'GET', 'path': '/v2.1/servers'}
        good = {'name': 'a', 'secret': 's', 'description': 'd', 'unrestricted': False, 'access_rules': [rule],
                'expires_at': '2099-01-01T00:00:00.000000', 'project_id': ids['project-demo'],
                'roles': [{'name': 'member'}]}
        for who in self.everybody:
            if who != 'free':
                self.ask('POST', path, {'application_credential': {**good, 'roles': [{'name': 'admin'}]}}, who)
        for name, value in [(key, bad) for key in good for bad in (*self.bad, good[key])]:
            self.ask('POST', path, {'application_credential': {
                **good, 'project_id': 'none', **({'project_id': value} if name == 'project_id' else {}),
                name: value}}, 'demo')
        for document in DOCUMENTS:
            self.ask('POST', path, document, 'demo')
        for name, values in (('small', {'name': 'small'}), ('full', {**good, 'name': 'full'}),
                             ('empty', {'name': 'empty', 'access_rules': [], 'roles': [], 'expires_at': None}),
                             ('ids', {'name': 'ids', 'roles': [{'id': ids['role-reader']}], 'own': 1})):
            self.make(f'credential-{name}', path, {'application_credential': values}, 'demo')
            if name == 'full':
                (rule,) = self.cloud.service.list('access_rule', path=rule['path'])
                self.name('rule-full', rule['id'])
        for values in ({'name': 'small'}, {'name': 'x', 'roles': [{'name': 'admin'}]}, {'name': 'x', 'roles': [{}]},
                       {'name': 'x', 'access_rules': [{'id': 'none'}]}, {'name': 'x', 'access_rules': [{}]},
                       {'name': 'x', 'expires_at': '2000-01-01'}, {'name': 'x', 'expires_at': 'soon'}):
            self.ask('POST', path, {'application_credential': values}, 'demo')
        for query in ('', '?name=small', '?name=none', '?name='):
            self.ask('GET', path + query, who='demo')
        for name, who in itertools.product(('small', 'full', 'limited'), self.everybody):
            self.ask('GET', f'{path}/{ids["credential-" + name]}', who=who)
        self.ask('GET', f'/v3/users/{ids["user-friend"]}/application_credentials/{ids["credential-full"]}')
        self.ask('GET', f'{path}/none')
        rules = f'/v3/users/{ids["user-demo"]}/access_rules'
        for query in ('', '?service=compute', '?method=GET&path=/v2.1/servers', '?path=x', '?method='):
            self.ask('GET', rules + query, who='demo')
        for row_id, who in itertools.product((ids['rule-full'], 'none'), self.everybody):
            self.ask('GET', f'{rules}/{row_id}', who=who)
            self.ask('DELETE', f'{rules}/{row_id}', who=who)
        for who in ('restricted', 'friend', 'demo', 'demo'):
            self.ask('DELETE', f'{path}/{ids["credential-full"]}', who=who)
        self.ask('DELETE', f'{rules}/{ids["rule-full"]}', who='demo')

    def trusts(self):
        ids, path = self.ids, '/v3/OS-TRUST/trusts'
        good = {'trustor_user_id': ids['user-demo'], 'trustee_user_id': ids['user-friend'], 'impersonation': False,
                'project_id': ids['project-demo'], 'roles': [{'id': ids['role-member']}, {'name': 'reader'}],
                'expires_at': '2099-01-01T00:00:00Z', 'remaining_uses': 2, 'allow_redelegation': False,
                'redelegation_count': 0, 'redelegated_trust_id': None}
        for who in self.everybody:
            self.ask('POST', path, {'trust': {**good, 'trustee_user_id': 'none'}}, who)
        for name, value in [(name, value) for name in good for value in self.bad]:
            self.ask('POST', path, {'trust': {**good, 'trustee_user_id': 'none', name: value}}, 'demo')
        for document in DOCUMENTS:
            self.ask('POST', path, document, 'demo')
        trust = self.make('trust-second', path, {'trust': {**good, 'own': 1}}, 'demo')
        for body in ({'roles': [{'name': 'admin'}]}, {'project_id': 'none'}, {'trustor_user_id': ids['user-admin']},
                     {'expires_at': '2000-01-01'}, {'expires_at': 'soon'}):
            self.ask('POST', path, {'trust': {**good, **body}}, 'demo')
        for query in ('', f'?trustor_user_id={ids["user-demo"]}', f'?trustee_user_id={ids["user-friend"]}',
                      f'?trustor_user_id={ids["user-demo"]}&trustee_user_id={ids["user-demo"]}', '?trustor_user_id='):
            for who in self.everybody:
                self.ask('GET', path + query, who=who)
        parts = ('', '/roles', f'/roles/{ids["role-member"]}', '/roles/none')
        for rest, who in itertools.product(parts, self.everybody):
            self.ask('GET', f'{path}/{trust}{rest}', who=who)
        for who in ('friend', 'auditor', 'nova', 'demo', 'demo'):
            self.ask('DELETE', f'{path}/{trust}', who=who)

    def tokens_of(self):
        subjects = dict(self.tokens)
        for token, who in itertools.product(subjects.values(), ('admin', 'nova', 'demo', 'auditor')):
            for method in ('GET', 'HEAD'):
                self.ask(method, '/v3/auth/tokens', who=who, **{'X-Subject-Token': token or ''})
        self.ask('GET', '/v3/auth/tokens?nocatalog', who='nova', **{'X-Subject-Token': subjects['demo']})
        self.ask('GET', '/v3/auth/tokens?allow_expired=1', who='nova', **{'X-Subject-Token': subjects['demo']})
        self.ask('GET', '/v3/auth/tokens', who='nova', **{'X-Subject-Token': subjects['limited'],
                                                         'OpenStack-Identity-Access-Rules': '1.0'})
        self.ask('GET', '/v3/auth/tokens', who='nova')
        good = self.password('demo', self.cloud.passwords['demo'])
        for identity, more in (({}, {}), ({'methods': []}, {}), ({'methods': ['x']}, {}), (good, {'scope': 5}),
                               (good, {'scope': {'project': {'id': 'none'}}}), (good, {'scope': {'domain': {}}}),
                               (good, {'scope': {'system': {'all': True}}}), (good, {'scope': {'project': {}}}),
                               (self.password('demo', 'wrong'), {}), (self.password('none', 'x'), {}),
                               (self.password(5, 'x'), {}), (self.password('demo', 5), {}),
                               ({'methods': ['token'], 'token': {'id': subjects['demo']}}, {}),
                               ({'methods': ['token'], 'token': {'id': 'x'}}, {}),
                               ({'methods': ['password', 'totp'], **good}, {})):
            self.ask('POST', '/v3/auth/tokens', {'auth': {'identity': identity, **more}}, 'nobody')
        for query in ('?nocatalog', '?nocatalog=1'):
            self.ask('POST', '/v3/auth/tokens' + query, {'auth': {
                'identity': self.password('friend', 'pw'), 'scope': {'project': {'id': self.ids['project-demo']}}}},
                'nobody')
        self.make('user-factors', '/v3/users', {'user': {'name': 'factors', 'password': 'pw', 'options': {
            'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': [['password', 'totp']]}}})
        reply = self.ask('POST', '/v3/auth/tokens', {'auth': {'identity': self.password('factors', 'pw')}}, 'nobody')
        assert reply.status_int == 401 and 'receipt' in reply.json
        for document in DOCUMENTS:
            self.ask('POST', '/v3/auth/tokens', document, 'nobody')

    def revocations(self):
        subjects = dict(self.tokens)
        for who, subject in (('demo', 'nova'), ('demo', 'unscoped'), ('admin', 'friend'), ('admin', 'friend')):
            self.ask('DELETE', '/v3/auth/tokens', who=who, **{'X-Subject-Token': subjects[subject]})
        self.ask('PATCH', f'/v3/users/{self.ids["user-friend"]}', {'user': {'enabled': False}})
        for query in ('', '?since=2000-01-01', '?since=2099-01-01T00:00:00Z', '?since=x'):
            for who in ('admin', 'nova', 'demo'):
                self.ask('GET', '/v3/OS-REVOKE/events' + query, who=who)

    def paths(self):
        for path in ('/v4', '/v3/nonsense', '/v3/users/', '/v3/users//projects', '/v3/users/%00', '/v3/users/%ff',
                     '/v3/users/' + 'x' * 5000, '/v3/OS-FEDERATION/mappings', '/v3/OS-OAUTH1/consumers', '/v3/policies',
                     '/v3/domains/default/config', '/v3/OS-ENDPOINT-POLICY/x', '/v3/auth/OS-FEDERATION/x', '/v2.0',
                     '/v3/users?name=%ff', '/v3/users?name=%00', '/v3/credentials?user_id=%00',
                     '/v3/users?name=' + 'x' * 70000):
            for who in ('admin', 'nobody'):
                self.ask('GET', path, who=who)
        for path in ('', '/v3', '/v3/users', '/v3/users/x', '/v3/auth/tokens', '/v3/limits/model', '/v3/domains',
                     '/v3/role_assignments', '/v3/auth/catalog', '/v3/s3tokens'):
            for method in ('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'):
                self.ask(method, path, {} if method in ('POST', 'PUT', 'PATCH') else None, 'forged')
        for path in ('/v3/users', '/v3/projects', '/v3', '/v3/auth/catalog', '/v3/domains/default'):
            self.ask('HEAD', path)


def answers(directory, full=False, brief=False, **options):
    """Return [(request, answer)] of a walk through an IdentityCloud.

    :param full, brief: see Walk
    :param options: of IdentityCloud
    """
    numbers, seconds = itertools.count(1), itertools.count(step=3600)
    with unittest.mock.patch.object(uuid, 'uuid4', lambda: uuid.UUID(int=next(numbers) << 80, version=4)):
        cloud = identity_fixture.IdentityCloud(directory, elapsed=lambda: next(seconds), **options)
        try:
            return Walk(cloud, full, brief).run()
        finally:
            cloud.db.dispose()


def recorded(path=RECORDED):
    """Return [(request, answer)] of the recorded walk."""
    found = json.loads(gzip.decompress(path.read_bytes()))
    return [(request, found['answers'][number]) for request, number in found['requests']]


def write(path=RECORDED, full=False):
    with tempfile.TemporaryDirectory() as directory:
        made = answers(pathlib.Path(directory), full)
    numbers = {answer: number for number, answer in enumerate(dict.fromkeys(answer for _request, answer in made))}
    lines = [',\n'.join(json.dumps(row) for row in rows) for rows in (
        numbers, [(request, numbers[answer]) for request, answer in made])]
    text = '{"answers": [\n%s\n], "requests": [\n%s\n]}\n' % tuple(lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f'{len(made)} requests, {len(numbers)} different answers')


if __name__ == '__main__':
    write()
