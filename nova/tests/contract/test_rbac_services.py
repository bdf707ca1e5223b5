"""Who may do what in the block storage, network, image, key manager and identity APIs.

Each operation of each rule is requested by callers of every kind, about the resources of one project. What they may do
follows from the documented default of the rule, and from the defaults that differ (test_service_policies).
"""
import re

import pytest

from nova import context
from nova import policy
from nova.cmd import policy as policy_command
from nova.tests.contract import facts
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import service_policies_contract as defaults
from nova.tests.support import service_policies_functional as probes

SERVICES = probes.SERVICES
HOME, AWAY = 'home', 'away'
IN_PROJECTS = {'reader': (HOME, 'reader'), 'member': (HOME, 'member'), 'manager': (HOME, 'manager'),
               'admin': (HOME, 'admin'), 'service': (HOME, 'service'), 'stranger': (AWAY, 'member'),
               'admin elsewhere': (AWAY, 'admin')}
NOWHERE = ('system reader', 'system admin', 'unscoped')
CALLERS = ('nobody', 'owner', *IN_PROJECTS, *NOWHERE)
# things that do not belong to the project
EVERYBODYS = ('project', 'user', 'token', 'role', 'domain_role', 'member_role', 'type', 'outside', 'outside_subnet',
              'registered_limit', 'default_security_group_rule', 'trust_body', 'named', 'secret_ref',
              'flavor', 'service_profile')
# the rule guards a part of the operation: limits of another project
PARTS = {('volume_extension:quotas:show', ('GET', '/limits')), *(
    # the rule of domains concerns only the projects that act as a domain
    (f'identity:{verb}_domain', (method, '/v3/projects/{project_id}'))
    for verb, method in (('get', 'GET'), ('update', 'PATCH'), ('delete', 'DELETE')))}
PUBLISHING = {'publicize_image': 'public', 'communitize_image': 'community'}
UNSCOPED = 'This needs a token that is scoped to a project'
# operations that open what they are about to others, that end it, and after which the owner may not delete it
ENDING = [re.compile(each) for each in ('publicize|communitize|update_.*:(shared|router:external)',
                                        'delete|remove|revoke|unmanage|DELETE', 'update_port:device')]


class World(probes.World):
    """A cloud with callers of every kind."""

    def __init__(self, cloud):
        super().__init__(cloud, {})
        identity = callers.Identity(self.admin)
        self.callers = {'owner': self.member, **{name: identity.in_project(*who) for name, who in IN_PROJECTS.items()}}
        self.callers |= {name: caller for name, caller in identity.without_project().items() if name in NOWHERE}
        self.things['named'] = {f'{name}_id': self.things[name] for name in ('volume', 'snapshot', 'backup', 'type')}
        for client in (self.member, self.callers['stranger']):
            answer = self.admin.put(f'/network/v2.0/quotas/{client.project_id}', {'quota': dict.fromkeys(
                ('network', 'subnet', 'port', 'router', 'floatingip', 'security_group', 'security_group_rule',
                 'subnetpool', 'rbac_policy', 'trunk'), -1)})
            assert answer.status_code == 200, answer.text
        self.owned = [value for name, value in self.things.items() if name not in EVERYBODYS]
        self.rows = {service: {(row.method, _shape(row.path), row.action): row
                               for row in policy_command._routes(service)} for service in SERVICES}
        self.rules = {name: _documented(service) for name, service in SERVICES.items()}
        self.tokens = {name: self._token(caller) for name, caller in self.callers.items()}
        self.contexts = {(service, name): self._context(service, name) for service in SERVICES for name in self.callers}

    def _token(self, caller):
        answer = self.admin.session.get(self.cloud.url + '/identity/v3/auth/tokens', headers={
            'X-Auth-Token': self.admin.token, 'X-Subject-Token': caller.token})
        assert answer.status_code == 200, answer.text
        return answer.json()['token']

    def _context(self, service, name):
        """The caller as the rules of an API see it."""
        token = self.tokens[name]
        made = context.RequestContext(
            user_id=token['user']['id'], project_id=token.get('project', {}).get('id'), user_domain_id='default',
            project_domain_id='default' if 'project' in token else None, roles=[role['name'] for role in token.get(
                'roles', ())], domain_id=token.get('domain', {}).get('id'),
            system_scope='all' if 'system' in token else None, overwrite=False)
        if service != 'identity':
            made.is_admin = self.rules[service].is_admin(made)
        return made

    def asked(self, service, probe, name):
        """Request an operation; (whether the caller is refused, the answer)."""
        caller = self.callers.get(name)
        headers = {} if caller is None else {'X-Auth-Token': caller.token}
        answer = self.admin.session.request(probe.method, self.cloud.url + probes.ROOTS[service] + probe.path,
                                            json=probe.body, headers={**headers, **probe.headers})
        code, text = answer.status_code, answer.text
        if name == 'stranger' and self.names_project(probe):
            refused = code >= 400 or _is_empty(answer)
        elif code in (401, 403):
            refused = code == 401 or probe.method == 'HEAD' or bool(
                probes.REFUSAL[service].search(text)) or UNSCOPED in text
        elif code == 404:
            refused = 'TagNotFound' not in text and (probe.hidden or any(thing in text for thing in self._named(probe)))
        else:
            refused = probe.field is not None and f'"{probe.field}"' not in text
        return refused, answer

    def names_project(self, probe):
        """Whether a request is about the project or its resources."""
        return bool(self._named(probe)) or self.things['project'] in probe.path

    def _named(self, probe):
        """The resources of the project that a request names."""
        where = f'{probe.path} {probe.body}'
        return [thing for thing in self.owned if thing in where]

    def row(self, service, probe):
        path = probe.path.partition('?')[0]
        action = next(iter(probe.body), None) if isinstance(probe.body, dict) and path.endswith('/action') else None
        method = 'GET' if probe.method == 'HEAD' else probe.method
        found = [row for (each, shape, of), row in self.rows[service].items()
                 if each == method and of == action and re.fullmatch(shape, path)]
        return min(found, key=lambda row: row.path.count('{'))

    def is_allowed(self, service, rule, probe, name):
        """Whether the documented defaults allow a caller an operation."""
        row = self.row(service, probe)
        if name == 'nobody':
            return row.public
        caller = self.contexts[service, name]
        if service != 'identity':
            if not caller.project_id and not row.any_scope:
                return False
            if name == 'stranger' and self._named(probe):
                return False
        main = row.policy or (next(iter(row.checks), None) if service != 'identity' else None)
        return all(self._passes(service, each, caller, probe) for each in {rule.name, main} - {None})

    def _passes(self, service, rule, caller, probe):
        rules, scopes = self.rules[service], SERVICES[service].scopes
        if service == 'identity':
            scope = 'system' if caller.system_scope else 'domain' if caller.domain_id else 'project'
            return scope in scopes[rule] and rules.allows(caller, rule, self._of_identity(rule, probe, caller))
        home = self.things['project']
        project = home if self.names_project(probe) else caller.project_id if probe.path != '/quotas' else None
        owner = self.member.user_id if project == home else caller.user_id
        target = {'project_id': project, 'user_id': owner}
        if service == 'image':
            target |= {'owner': project, 'visibility': 'shared' if self._named(probe) else None, 'member_id': (
                'friend' if '/members/' in probe.path else None)}
        if service == 'key manager':
            target |= {f'target.{kind}.project_id': project for kind in ('secret', 'container', 'order')}
            target |= {f'target.{kind}.{name}': value for kind in ('secret', 'container') for name, value in (
                ('creator_id', owner), ('read_project_access', 'True'))}
        if service == 'network':
            target |= dict.fromkeys(('tenant_id', 'network:project_id', 'ext_parent:project_id',
                                     'security_group:project_id'), project)
            target |= {'shared': 'False', 'router:external': 'False', 'device_owner': '', 'target_tenant': 'x',
                       'target_project': 'x'}
        return rules.allows(caller, rule, target)

    def _of_identity(self, rule, probe, caller):
        things = self.things
        project = things['project'] if things['project'] in probe.path else None
        user = things['user'] if things['user'] in probe.path or things['credential'] in probe.path or (
            rule.endswith('_credential') and probe.body) else None
        if probe.path == '/v3/credentials' and not probe.body:
            user = caller.user_id                    # a list has the caller's own
        trust = things['trust_body'] if things['trust'] in probe.path or probe.body and 'trust' in rule else {}
        query = re.search(r'trust(or|ee)_user_id=(\w+)', probe.path)
        named = dict.fromkeys(('trustor', 'trustee'), query[2]) if query else {}
        return {**dict.fromkeys(('target.domain_id', 'target.domain.id', 'target.user.domain_id',
                                 'target.group.domain_id', 'target.project.domain_id'), 'default'),
                'target.role.domain_id': 'None', 'target.project.id': project,
                'target.limit.project_id': project if things['limit'] not in probe.path else things['project'],
                **dict.fromkeys(('user_id', 'target.user.id', 'target.credential.user_id'), user),
                **{f'target.trust.{who}_user_id': named.get(who, trust.get(f'{who}_user_id'))
                   for who in ('trustor', 'trustee')}}


def probe_of(service, rule, operation, things):
    """The Probe of a rule for one of its operations."""
    if operation == ('POST', '/v2/images') and rule.name in PUBLISHING:
        return probes.Probe(*operation, {'name': 'i', 'visibility': PUBLISHING[rule.name]})
    probe = probes.PROBES[service](rule._replace(operations=(operation,)), things)
    return probe._replace(headers=probes.NEWEST) if service == 'block storage' else probe


def _shape(path):
    return re.sub(r'\\?\{\w+\\?\}', '[^/]+', re.escape(path))


def _documented(service):
    """policy.Policy with the documented defaults, and those of this deployment that differ."""
    name = service.name
    documented = {rule: check for rule, (check, _scopes) in facts.service_policies(defaults.DOCUMENTED[name]).items()}
    changed = {rule: service.defaults[rule] for rule in {*defaults.DIFFERENT[name], *defaults.OWN[name]}}
    made = policy.Policy(None, service)
    made.add({**documented, **changed})
    return made


def operations(service):
    """(rule, operation) of an API; those that read come first, those that end something last."""
    found = [(rule, operation) for rule in SERVICES[service].rules if rule.name not in probes.ELSEWHERE
             for operation in rule.operations if (rule.name, operation) not in PARTS]
    return sorted(found, key=lambda each: (ending(*each), each[1][0] not in ('GET', 'HEAD'),
                                           -each[1][1].count('/') if ending(*each) else 0))


def _is_empty(answer):
    """Whether an answer is an empty list: the Networking API omits what a rule refuses."""
    return answer.status_code == 200 and [] in answer.json().values()


def ending(rule, operation):
    """Rank of the operations that change what later ones are about; 0 for others."""
    text = f'{rule.name} {operation}'
    return next((rank for rank, each in enumerate(ENDING, 1) if each.search(text)), 0)


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('rbac'), ['host1']) as cloud:
        yield World(cloud)


@pytest.mark.timeout(900)
@pytest.mark.parametrize('service', SERVICES)
def test_each_caller_is_allowed_what_the_documented_defaults_say(world, service):
    wrong, found = [], set()
    for rule, operation in operations(service):
        probe, ends = probe_of(service, rule, operation, world.things), ending(rule, operation)
        expected = {name: world.is_allowed(service, rule, probe, name) for name in CALLERS}
        for name in sorted(CALLERS, key=expected.get):
            refused, answer = world.asked(service, probe, name)
            if expected[name] and ends and answer.status_code == 404:
                refused = False                          # another operation has ended it
            elif not expected[name] and service == 'network' and _is_empty(answer):
                refused = True
            found.add((name, not refused))
            if refused == expected[name] or answer.status_code >= 500:
                wrong.append(f'{rule.name} {operation} {name}: {answer.status_code} {answer.text[:150]}')
            if ends and answer.status_code < 400:
                break
    assert not wrong, '\n'.join([f'{len(wrong)}', *wrong])
    assert {('nobody', False), ('owner', True), ('reader', True), ('reader', False), ('admin', True)} <= found


@pytest.mark.parametrize('service', SERVICES)
def test_an_operation_without_a_rule_needs_a_token(world, service):
    wrong = []
    for row in world.rows[service].values():
        if row.public or row.policy or row.checks:
            continue
        body = {} if row.method in ('POST', 'PUT', 'PATCH') else None
        probe = probes.Probe(row.method, re.sub(r'\{\w+\}', probes.MISSING, row.path), body, headers=probes.NEWEST)
        expected = {'nobody': 401, 'reader': None, 'system reader': None if row.any_scope else 403}
        for name, code in expected.items():
            answer = world.asked(service, probe, name)[1]
            if answer.status_code in (401, 403) and answer.status_code != code or code and answer.status_code != code:
                wrong.append(f'{row.method} {row.path} {name}: {answer.status_code} {answer.text[:150]}')
    assert not wrong, '\n'.join(wrong)
