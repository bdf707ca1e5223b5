"""What tests share with nova/tests/contract/test_rbac.py."""
import pytest

from nova import context
from nova import policy
from nova.api import app
from nova.api import versions
from nova.tests.contract import samples
from nova.tests.functional import callers
from nova.tests.functional import cloud as whole

UNKNOWN = samples.FORMATS['uuid']       # in a path: what nothing has
ROWS = [row for row in app.all_routes() if row.api]
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test'

# caller: (project, roles); None has no token
CALLERS = {
    'nobody': None,
    'reader': ('home', ('reader',)),
    'member': ('home', ('member', 'reader')),
    'manager': ('home', ('manager', 'member', 'reader')),
    'admin': ('home', ('admin', 'manager', 'member', 'reader')),
    'service': ('home', ('service',)),
    'stranger': ('away', ('manager', 'member', 'reader')),
    'admin elsewhere': ('away', ('admin', 'member', 'reader')),
    'credential': ('home', ('member', 'reader')),
    'service for a member': ('home', ('member', 'reader')),
}
# Their tokens have no project: all but what is everybody's is refused, whatever their roles are.
OUTSIDE = callers.WITHOUT_PROJECT

# Operations without a rule of their own: everybody's; what they ask beside that is about fields.
OPEN = ('/flavors', '/images', '/versions')
# Below these is what belongs to a project: to others it is not there. The value says so in the 404.
OWNED = {
    ('/servers', '{id}'): 'server', ('/servers', '{server_id}'): 'server', ('/os-volumes_boot', '{id}'): 'server',
    ('/os-server-groups', '{id}'): 'group', ('/images', '{id}'): 'image', ('/images', '{image_id}'): 'image'}
# What else stands in paths; a part that is not here is asked with a name that nothing has.
PARTS = {'/os-aggregates': '1', '/flavors': 'spare', '/os-keypairs': 'key', '/extensions': 'os-keypairs',
         '/os-quota-class-sets': 'default', '/os-hosts': 'host1'}
# Bodies that must be more than their schemas say.
BODIES = {
    ('POST', '/os-keypairs', None): {'keypair': {'name': 'other', 'public_key': KEY}},
    ('POST', '/servers/{id}/action', 'os-resetState'): {'os-resetState': {'state': 'active'}},
    ('POST', '/servers/{id}/action', 'os-migrateLive'): {'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
    ('PUT', '/images/{image_id}/metadata/{id}', None): {'meta': {UNKNOWN: 'v'}},
    ('PUT', '/servers/{server_id}/metadata/{id}', None): {'meta': {UNKNOWN: 'v'}},
    ('PUT', '/os-server-groups/{id}/metadata/{key}', None): {'meta': {UNKNOWN: 'v'}},
    ('PUT', '/os-server-groups/{id}', None): {'server_group': {'name': 'n'}},
    ('PUT', '/servers/{server_id}/os-volume_attachments/{id}', None): {'volumeAttachment': {'volumeId': UNKNOWN}},
}
# The thing is gone, or another one, after these: each caller asks with one of its own.
ENDS = {('DELETE', '/servers/{id}'), ('DELETE', '/os-volumes_boot/{id}'), ('DELETE', '/os-server-groups/{id}'),
        ('DELETE', '/images/{id}')}
STREAMS = {'/os-events'}
REFUSED_FOR_ALL = {'os-getRDPConsole'}       # with 400, whatever the server


class Deployment:
    """A cloud with callers of every kind, and one of everything that belongs to the project 'home'."""

    def __init__(self, cloud):
        self.cloud, self.root = cloud, cloud.admin()
        self.rules = policy.Policy(cloud.conf)
        self.projects = {name: self._identity('projects', 'project', name=name) for name in ('home', 'away')}
        roles = {role['name']: role['id'] for role in self.root.get('/identity/v3/roles').json()['roles']}
        identity = callers.Identity(self.root)
        self.clients = {name: self._client(name, *who, roles) for name, who in CALLERS.items()
                        if who and name not in callers.DELEGATED}
        self.clients |= identity.delegated('home') | identity.without_project()
        limits = dict.fromkeys(('instances', 'cores', 'ram', 'server_groups'), -1)
        answer = self.root.put('/compute/v2.1/os-quota-sets/' + self.projects['home'], {'quota_set': limits})
        assert answer.status_code == 200, answer.text
        self.image_id = self.root.upload_image(visibility='public')
        self.things = {kind: self.make(kind) for kind in ('server', 'group', 'image')}
        self.root.post('/compute/v2.1/os-aggregates', {'aggregate': {'name': 'a'}})
        self.root.post('/compute/v2.1/flavors', {'flavor': {'name': 'spare', 'id': 'spare', 'ram': 1, 'vcpus': 1,
                                                            'disk': 1}})

    def _identity(self, path, key, **fields):
        answer = self.root.post(f'/identity/v3/{path}', {key: {'domain_id': 'default', **fields}})
        assert answer.status_code == 201, answer.text
        return answer.json()[key]['id']

    def _client(self, name, project, names, roles):
        user = self._identity('users', 'user', name=f'the {name}', password='a long password')
        for role in names:
            answer = self.root.put(f'/identity/v3/projects/{self.projects[project]}/users/{user}/roles/{roles[role]}')
            assert answer.status_code == 204, answer.text
        client = whole.Client(self.cloud.url, f'the {name}', 'a long password', project)
        client.post('/compute/v2.1/os-keypairs', {'keypair': {'name': 'key', 'public_key': KEY}})
        return client

    def make(self, kind):
        """A new thing of the project 'home'; its id."""
        owner = self.clients['member']
        if kind == 'server':
            server = owner.boot(self.image_id)
            return owner.wait_for(server['id'])['id']
        if kind == 'image':
            return owner.upload_image(b'\0' * 1024, name='mine')
        answer = owner.post('/compute/v2.1/os-server-groups', {'server_group': {
            'name': 'g', 'policies': ['affinity']}})
        assert answer.status_code == 200, answer.text
        return answer.json()['server_group']['id']

    def context(self, name):
        client, (_project, roles) = self.clients[name], CALLERS[name]
        caller = context.RequestContext(user_id=client.user_id, project_id=client.project_id, roles=list(roles),
                                        overwrite=False)
        caller.is_admin = self.rules.is_admin(caller)
        return caller


@pytest.fixture(scope='module')
def deployment(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('rbac'), ['host1', 'host2']) as cloud:
        yield Deployment(cloud)


def owned(row):
    """Kind of the thing of a project that an operation is about, None for the others."""
    parts = row.path.strip('/').split('/')
    return OWNED.get(('/' + parts[0], parts[1])) if len(parts) > 1 else None


def expected(deployment, row, name):
    """'401', '403', 'hidden', 'gone', or 'allowed'."""
    if row.public:
        return 'allowed'
    if name == 'nobody':
        return '401'
    if name in OUTSIDE:
        return 'allowed' if row.any_scope else '403'
    caller = deployment.context(name)
    own = {'project_id': caller.project_id, 'user_id': caller.user_id}
    if row.policy is not None and not deployment.rules.allows(caller, row.policy, own):
        return '403'
    if 410 in row.errors:
        return 'gone'
    if row.action in REFUSED_FOR_ALL:
        return 'allowed'
    if owned(row) == 'image' and 'reader' not in caller.roles and (row.method, row.path) not in ENDS:
        return 'hidden'                 # by get_image of the image API
    if row.path.startswith('/images') and row.method != 'GET' and 'member' not in caller.roles:
        return '403'                    # a face of the image service: it goes by roles
    kind = owned(row)
    if kind and name == 'stranger':
        return 'hidden'
    if row.policy is None and not row.path.startswith(OPEN):
        target = {'project_id': deployment.projects['home'], 'user_id': caller.user_id} if kind else own
        return 'allowed' if deployment.rules.allows(caller, row.checks[0], target) else '403'
    return 'allowed'


def ask(deployment, row, name, thing):
    """The answer of one operation, asked by a caller about a thing."""
    version = versions.text(row.until or versions.MAX_VERSION)
    segments = row.path.strip('/').split('/')
    kind = owned(row)
    path = []
    for number, segment in enumerate(segments):
        if segment.startswith('{'):
            first = number == 1
            segment = thing if first and kind else PARTS.get('/' + segments[0], UNKNOWN) if first else UNKNOWN
            if first and segments[0] in ('os-quota-sets', 'os-simple-tenant-usage') and row.method == 'GET':
                segment = name != 'nobody' and deployment.clients[name].project_id or UNKNOWN
        path.append(segment)
    body = BODIES.get((row.method, row.path, row.action))
    if body is None and row.body is not None:
        body = samples.sample(row.body.schema(row.until or versions.MAX_VERSION))
    if row.action is not None:
        body = body or {row.action: None}
    client = deployment.clients.get(name, deployment.root)
    token = client.token if name != 'nobody' else ''
    with client.session.request(
            row.method, f'{deployment.cloud.url}/compute/v2.1/' + '/'.join(path), json=body, stream=True, timeout=240,
            headers={**getattr(client, 'headers', {}), 'X-Auth-Token': token,
                     'OpenStack-API-Version': f'compute {version}'}) as answer:
        if row.path not in STREAMS or answer.status_code >= 400:
            _all = answer.content       # before the connection is given back
        return answer


def _name(row):
    return f'{row.method} {row.path} {row.action or ""}'.strip() + f' from 2.{row.since}'
