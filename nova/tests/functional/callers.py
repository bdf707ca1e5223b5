"""Callers of every kind, each with a token of the identity service of a running cloud.

In a project: the five roles, an application credential, and somebody for whom a service asks. Without one: a role on
the domain or on the system, and an unscoped token.
"""
import uuid

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import http_session

ROLES = ('reader', 'member', 'manager', 'admin', 'service')
WITHOUT_PROJECT = (*(f'{scope} {role}' for scope in ('domain', 'system') for role in ROLES), 'unscoped')
DELEGATED = ('credential', 'service for a member')
DOMAIN = {'id': 'default'}


class Caller(cloud_fixture.Client):
    """Like a Client, by any login.

    :param auth: the ``auth`` object of the login
    :param headers: sent with every request besides
    :param session: of a Client to the same cloud: hundreds of sockets are not the point
    :param identity: URL of the identity service, when it is not that of the cloud
    """

    def __init__(self, url, auth, version=None, headers=(), session=None, identity=None):
        self.url, self.version, self.identity = url, version, identity or url + '/identity'
        self.session = session or http_session.Session()
        self.headers = dict(headers)
        answer = self.session.post(self.identity + '/v3/auth/tokens', json={'auth': auth})
        assert answer.status_code == 201, answer.text
        token = answer.json()['token']
        self.token, self.user_id = answer.headers['X-Subject-Token'], token['user']['id']
        self.project_id = token.get('project', {}).get('id')

    def request(self, method, path, body=None, version=None, **more):
        if path.startswith('/identity/'):
            return self.session.request(method, self.identity + path.removeprefix('/identity'), json=body,
                                        headers={'X-Auth-Token': self.token})
        return super().request(method, path, body, version, **{
            **more, 'headers': {**self.headers, **more.get('headers', {})}})


def by_password(name, password, scope):
    return {'identity': {'methods': ['password'], 'password': {'user': {
        'name': name, 'password': password, 'domain': DOMAIN}}}, 'scope': scope}


class Identity:
    """Makes users and projects.

    :param admin: Client of an administrator
    """

    def __init__(self, admin, version=None):
        self.admin, self.version = admin, version
        self.roles = {role['name']: role['id'] for role in admin.get('/identity/v3/roles').json()['roles']}

    def _made(self, noun, **values):
        answer = self.admin.post(f'/identity/v3/{noun}s', {noun: values})
        assert answer.status_code == 201, answer.text
        return answer.json()[noun]['id']

    def project(self, name):
        found = self.admin.get(f'/identity/v3/projects?name={name}').json()['projects']
        return found[0]['id'] if found else self._made('project', name=name)

    def user(self, target, role):
        """(name, password, id) of a new user with a role on /projects/{id}, /domains/{id} or /system; None: with none.
        """
        name, password = 'user-' + uuid.uuid4().hex, 'pw-' + uuid.uuid4().hex
        user_id = self._made('user', name=name, password=password)
        if target is not None:
            self.grant(target, user_id, role)
        return name, password, user_id

    def grant(self, target, user_id, role):
        answer = self.admin.put(f'/identity/v3{target}/users/{user_id}/roles/{self.roles[role]}')
        assert answer.status_code == 204, answer.text

    def caller(self, auth, headers=()):
        return Caller(self.admin.url, auth, self.version, headers, self.admin.session,
                      getattr(self.admin, 'identity', None))

    def in_project(self, project, role):
        """A Caller with a role in a project, by its name, made when missing."""
        target = self.project(project)
        name, password, _user_id = self.user(f'/projects/{target}', role)
        return self.caller(by_password(name, password, {'project': {'id': target}}))

    def delegated(self, project):
        """{one of DELEGATED: Caller}: who acts in a project with what a member of it has handed over."""
        member = self.in_project(project, 'member')
        made = member.post(f'/identity/v3/users/{member.user_id}/application_credentials', {
            'application_credential': {'name': 'delegated'}})
        assert made.status_code == 201, made.text
        made = made.json()['application_credential']
        service = self.in_project('service', 'service')
        other = self.in_project(project, 'member')
        other.headers = {'X-Service-Token': service.token}
        return {'credential': self.caller({'identity': {
            'methods': ['application_credential'],
            'application_credential': {'id': made['id'], 'secret': made['secret']}}}), 'service for a member': other}

    def without_project(self):
        """{one of WITHOUT_PROJECT: Caller}"""
        found = {}
        for scope, target, asked in (('domain', '/domains/default', {'domain': DOMAIN}),
                                     ('system', '/system', {'system': {'all': True}})):
            for role in ROLES:
                name, password, _user_id = self.user(target, role)
                found[f'{scope} {role}'] = self.caller(by_password(name, password, asked))
        name, password, _user_id = self.user(f'/projects/{self.project("unscoped")}', 'admin')
        return found | {'unscoped': self.caller(by_password(name, password, {'unscoped': {}}))}
