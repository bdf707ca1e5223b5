"""Every operation of every face, asked by callers of every kind about what belongs to another project.

The rows are those of the faces themselves, so that a new operation is asked, too; an open part of a path of which
nobody has said here what it names fails a test. References in bodies are the rows of REFERENCES.
"""
import json
import re

import pytest

from nova.api import app as compute_app
from nova.api import versions
from nova.embedded.identity import handlers as identity_handlers
from nova.embedded.image import app as image_app
from nova.embedded.network import app as network_app
from nova.embedded.network import documents as network_documents
from nova.embedded.volume import handlers as volume_handlers
from nova.tests.contract import samples
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.functional import test_isolation as isolation

MISSING, VERSION, PATCH, one = isolation.MISSING, isolation.VERSION, isolation.PATCH, isolation.one
OTHERS = ('reader', 'member', 'manager', 'service', *callers.DELEGATED)

# What an open part of a path names, by the part before it: a thing of the other project, or None for what belongs to
# nobody, and for what is asked for below one of its things.
PARTS = {
    'compute': {
        'servers': 'server', 'os-volumes_boot': 'server', 'os-server-groups': 'server_group', 'groups': 'server_group',
        'v3.0': 'project', 'images': 'image', 'os-keypairs': 'key', 'os-instance-actions': 'request',
        'os-networks': 'private_network', 'os-tenant-networks': 'private_network', 'os-interface': 'server_port',
        'os-volume_attachments': 'volume', 'os-security-groups': 'group', 'os-security-group-rules': 'rule',
        'os-quota-sets': 'project', 'os-simple-tenant-usage': 'project', 'flavors': 'flavor', 'migrations': 'migration',
        'metadata': 'metadata_key', 'tags': 'tag', **dict.fromkeys((
            'os-aggregates', 'os-host-maintenance', 'os-assisted-volume-snapshots', 'os-baremetal-nodes', 'extensions',
            'os-extra_specs', 'os-floating-ips', 'os-hosts', 'os-hypervisors', 'os-instance-categories',
            'os-instance_usage_audit_log', 'os-quota-class-sets', 'os-console-auth-tokens', 'os-agents', 'os-cells',
            'os-certificates', 'os-cloudpipe', 'os-fixed-ips', 'os-floating-ip-dns', 'entries', 'os-floating-ips-bulk',
            'os-fping', 'os-security-group-default-rules', 'consoles', 'ips', 'shares', 'os-services', 'versions'))},
    'image': {'images': 'image', 'tags': 'tag', 'members': 'project', 'schemas': None},
    'network': {'networks': 'private_network', 'subnets': 'private_subnet', 'ports': 'port',
                'security-groups': 'group', 'security-group-rules': 'rule'},
    'volume': {'volumes': 'volume', 'metadata': 'metadata_key', 'snapshots': 'volume_snapshot',
               'attachments': 'attachment', 'types': None, 'os-quota-sets': 'project'},
}
BELOW = ('request', 'metadata_key', 'tag', 'server_port', 'migration')       # these belong to what stands before them
# names and numbers; what else there is has a uuid
NOT_UUIDS = {'key': 'missing-key', 'metadata_key': 'missing', 'tag': 'missing', 'migration': '999999',
             'request': 'req-' + MISSING, 'project': '0' * 32, 'flavor': 'missing'}
OCTETS = {'Content-Type': 'application/octet-stream'}
STREAMS = ('/os-events',)


# ---- the rows ----------------------------------------------------------------

def compute_rows():
    """(name, method, path, version, body, codes of 500 and more that it documents, whether it is open to all scopes)"""
    for row in compute_app.all_routes():
        version = row.until or versions.MAX_VERSION
        body = samples.sample(row.body.schema(version)) if row.body is not None else None
        if row.action is not None:
            body = body or {row.action: None}
        path = ('/compute/v2.1' if row.api else '/compute') + row.path
        unavailable = {code for code in row.errors if code >= 500}
        yield (f'{row.method} {row.path} {row.action or ""} 2.{version}', row.method, path, versions.text(version),
               body, unavailable, row.public or row.any_scope)


def image_rows():
    for method, pattern, handler in image_app.ROUTES:
        path = pattern.pattern.replace('([^/]+)', '{}')
        body = {'POST': {'name': 'a', 'member': 'a'}, 'PUT': {'status': 'accepted'}, 'PATCH': [
            {'op': 'replace', 'path': '/name', 'value': 'stolen'}]}.get(method)
        yield f'{method} {path}', method, '/image' + path, None, body, set(), handler in image_app.OF_NOBODY


def network_rows():
    for path, resource in network_app.RESOURCES.items():
        fields = {'name': 'stolen', 'network_id': MISSING, 'security_group_id': MISSING, 'direction': 'ingress',
                  'cidr': '10.99.0.0/24'}
        for parts, methods in network_app.METHODS.items():
            for method, _code, _handler in methods:
                given = {name: value for name, value in fields.items() if name in resource.attributes and (
                    resource.attributes[name].post if method == 'POST' else resource.attributes[name].put)}
                body = {resource.singular: given} if method in ('POST', 'PUT') else None
                where = f'/v2.0/{path}' + '/{}' * (parts - 1)
                yield f'{method} {where}', method, '/network' + where, None, body, set(), False
    for path in ('extensions', 'availability_zones', *network_documents.EMPTY, 'quotas', 'quotas/{project}',
                 'quotas/{project}/default', 'quotas/{project}/details', 'quotas/tenant'):
        yield (f'GET /v2.0/{path}', 'GET', f'/network/v2.0/{path}', None, None, set(),
               path.partition('/')[0] in network_documents.OF_NOBODY)


def volume_rows():
    for row in volume_handlers.ROWS:
        path = '/v3/' + '/'.join(row.path).replace('*', '{}')
        body = row.body and {row.body[0]: samples.sample(row.body[1])}
        if row.action:
            body = body or {row.action: {}}
        yield f'{row.method} {path} {row.action or ""}', row.method, '/volume' + path, None, body, set(), False


FACES = {'compute': compute_rows, 'image': image_rows, 'network': network_rows, 'volume': volume_rows}


def kinds(face, path):
    """[(place, what it names)] of the open parts of a path, by PARTS."""
    segments = path.split('/')
    return [(place, PARTS[face][segments[place - 1]]) for place, segment in enumerate(segments)
            if segment.startswith('{') and segment != '{project}']


def path_of(face, path, named, others):
    """A path with its parts; ``others`` for what belongs to nobody."""
    segments = path.replace('{project}', named['project']).split('/')
    for place, kind in kinds(face, path):
        segments[place] = str(named[kind]) if kind else others
    return '/'.join(segments)


# ---- the deployment ----------------------------------------------------------

@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('callers'), ['host1', 'host2'], quota__instances=-1,
                               quota__cores=-1, quota__ram=-1, quota__server_groups=-1) as made:
        yield made


@pytest.fixture(scope='module')
def identity(cloud):
    return callers.Identity(cloud.admin(VERSION), VERSION)


@pytest.fixture(scope='module')
def owner(identity):
    return identity.in_project('canary-project', 'member')


@pytest.fixture(scope='module')
def others(identity):
    """{one of OTHERS: Caller} of another project."""
    return {role: identity.in_project('other', role) for role in ('reader', 'member', 'manager', 'service')} | (
        identity.delegated('other'))


@pytest.fixture(scope='module')
def nowhere(identity):
    return identity.without_project()


@pytest.fixture(scope='module')
def things(identity, owner):
    """Of everything that a project can have one: {name: id}."""
    admin, made = identity.admin, isolation.make_things(owner)
    project = owner.project_id
    network = one(admin, '/network/v2.0/networks', 'network', name='canary-network', project_id=project)['id']
    subnet = one(admin, '/network/v2.0/subnets', 'subnet', network_id=network, cidr='10.77.0.0/24', ip_version=4,
                 project_id=project)['id']
    one(admin, '/flavors', 'flavor', id='private', name='canary-flavor', ram=128, vcpus=1, disk=1,
        **{'os-flavor-access:is_public': False})
    given = admin.post('/flavors/private/action', {'addTenantAccess': {'tenant': project}})
    assert given.status_code == 200, given.text
    moved = owner.boot(made['image'], name='canary-moved', networks='none')['id']
    owner.wait_for(moved)
    assert admin.post(f'/servers/{moved}/action', {'migrate': None}).status_code == 202
    owner.wait_for(moved, 'VERIFY_RESIZE')
    move, = admin.get(f'/os-migrations?instance_uuid={moved}').json()['migrations']
    return {**made, 'private_network': network, 'private_subnet': subnet, 'flavor': 'private', 'moved': moved,
            'migration': move['id'], 'move': move['uuid'], 'metadata_key': 'key', 'tag': 'tag',
            'server_group': one(owner, '/os-server-groups', 'server_group', name='canary-servers',
                                policy='anti-affinity')['id'],
            'attachment': owner.get('/volume/v3/attachments').json()['attachments'][0]['id']}


@pytest.fixture(scope='module')
def missing(things):
    return {name: NOT_UUIDS.get(name, MISSING) for name in things}


def everything(owner, things):
    """What there is of the project, as its owner sees it."""
    found = isolation.everything(owner, things)
    for path in ('/servers/detail', '/os-server-groups', '/network/v2.0/networks', '/network/v2.0/subnets',
                 '/network/v2.0/ports', '/network/v2.0/security-groups', '/image/v2/images',
                 '/volume/v3/volumes/detail', '/volume/v3/snapshots', '/volume/v3/attachments',
                 '/flavors/private'):
        found[path] = owner.get(path).json()
    return found


def ask(caller, row, path):
    name, method, _path, version, body, *_rest = row
    headers = PATCH if method == 'PATCH' else {}
    more = {'timeout': 60, 'stream': any(path.endswith(each) for each in STREAMS)}
    if method == 'PUT' and path.endswith('/file'):
        return caller.request(method, path, data=b'stolen', headers=OCTETS, **more)
    answer = caller.request(method, path, body, version=version, headers=headers, **more)
    if more['stream']:
        if answer.status_code >= 400:
            _all = answer.content
        answer.close()
    return answer


def text_of(answer, row):
    return '' if row[2].endswith(STREAMS) and answer.status_code < 400 else answer.text


# ---- callers without a project -----------------------------------------------

@pytest.mark.parametrize('face', FACES)
def test_who_has_no_project_has_nothing_of_one(things, owner, nowhere, face):
    before = everything(owner, things)
    assert before['/servers/detail']['servers'] and 'canary' in str(before)
    wrong = {}
    for row in FACES[face]():
        path = path_of(face, row[2], things, MISSING)
        for who, caller in nowhere.items():
            answer = ask(caller, row, path)
            refused = answer.status_code == 403 or row[-1] and answer.status_code < 500
            if not refused or 'canary' in text_of(answer, row):
                wrong[row[0], who] = answer.status_code, text_of(answer, row)[:150]
    assert not wrong, json.dumps({str(key): value for key, value in wrong.items()}, indent=1)
    assert everything(owner, things) == before


def test_the_refusal_says_why(things, nowhere):
    for who, words in (('domain admin', 'a domain'), ('system admin', 'the system'), ('unscoped', 'nothing')):
        for path, read in (('/servers', lambda body: body['forbidden']['message']),
                           ('/network/v2.0/ports', lambda body: body['NeutronError']['message']),
                           ('/volume/v3/volumes', lambda body: body['forbidden']['message']),
                           ('/image/v2/images', lambda body: body['message'])):
            answer = nowhere[who].get(path)
            assert answer.status_code == 403 and read(answer.json()) == (
                f'This needs a token that is scoped to a project. Yours is scoped to {words}.'), (who, path)


def test_what_is_everybodys_stays_so(things, identity, nowhere):
    """Versions, extensions and public flavors; private ones, and what flavors say besides, are not everybody's."""
    for who, caller in nowhere.items():
        for path in ('/flavors', '/flavors/detail', '/flavors/detail?is_public=none', '/flavors?is_public=false'):
            answer = caller.get(path)
            assert answer.status_code == 200 and 'm1.tiny' in answer.text, (who, path, answer.text)
            assert 'canary' not in answer.text, (who, path)
        assert caller.get('/flavors/1').status_code == 200
        assert caller.get('/flavors/private').status_code == 404
        for path in ('/extensions', '/compute/v2.1/', '/compute/', '/image/v2/schemas/image',
                     '/network/v2.0/extensions', '/network/v2.0/', '/identity/v3'):
            assert caller.get(path).status_code == 200, (who, path)
    assert 'canary-flavor' in identity.admin.get('/flavors?is_public=none').text


@pytest.mark.parametrize('project', ['{project}', 'None', 'null', '', '%00', '*', 'all projects'])
def test_a_project_in_the_path_is_none_of_theirs(things, nowhere, project):
    for who, caller in nowhere.items():
        for path in ('/compute/v2.1/{}/servers', '/compute/v2.1/{}/servers/detail?all_tenants=1',
                     '/volume/v3/{}/volumes', '/network/v2.0/quotas/{}', '/compute/v3.0/{}/groups',
                     '/compute/v2.1/os-quota-sets/{}'):
            answer = caller.get(path.format(project.format(**things)))
            assert answer.status_code in (400, 403, 404) and 'canary' not in answer.text, (who, path, answer.text)


# ---- callers of another project ----------------------------------------------

def test_every_part_of_a_path_is_known():
    """Somebody has said here what it names."""
    for face, rows in FACES.items():
        for row in rows():
            assert kinds(face, row[2]) is not None, row[0]


@pytest.mark.parametrize('face', FACES)
def test_what_another_project_has_is_not_there(things, missing, owner, others, face):
    """Answered as what does not exist, word for word."""
    before, wrong, asked = everything(owner, things), {}, 0
    for row in FACES[face]():
        named = [kind for _place, kind in kinds(face, row[2]) if kind]
        for who, caller in others.items():
            absent = ask(caller, row, path_of(face, row[2], {**missing, **{
                name: things[name] for name in named if name in BELOW}}, MISSING))
            if absent.status_code >= 500 and absent.status_code not in row[5]:
                wrong[row[0], who] = absent.status_code, absent.text[:150]
            if not named:
                continue
            asked += 1
            theirs = ask(caller, row, path_of(face, row[2], things, MISSING))
            shown, hidden = (_without(answer, names) for answer, names in ((theirs, things), (absent, missing)))
            if shown != hidden or 'canary' in shown[1]:
                wrong[row[0], who] = shown, hidden
    assert asked > 5 * len(others)
    assert not wrong, json.dumps({str(key): value for key, value in wrong.items()}, indent=1)
    assert everything(owner, things) == before


def _without(answer, names):
    """(status, text) of an answer without the ids that were asked for, and without times."""
    text = answer.text
    for name in sorted((str(value) for name, value in names.items() if name not in BELOW), key=len, reverse=True):
        text = text.replace(name, '…')
    return answer.status_code, re.sub(r'\d{4}-\d\d-\d\dT[\d:.]+Z?|req-[0-9a-f-]{36}', '', text)


def test_no_administrator_gets_an_unexpected_error(identity, things, missing):
    """The compute API is asked as one by test_rbac."""
    wrong = {}
    for face in ('image', 'network', 'volume'):
        for row in FACES[face]():
            answer = ask(identity.admin, row, path_of(face, row[2], missing, MISSING))
            if answer.status_code >= 500:
                wrong[row[0]] = answer.text[:150]
    assert not wrong


# ---- identity ----------------------------------------------------------------

def test_identity_answers_everybody(things, missing, owner, others, nowhere):
    """No unexpected error for anybody; nothing of others for who administers nothing."""
    before = owner.get(f'/identity/v3/projects/{things["project"]}').json()
    wrong = {}
    for row in identity_handlers.ROWS:
        if row.rule == 'public':
            continue                     # logins and changes of passwords: their limits would refuse others
        body = samples.sample(row.body._validator.schema) if row.body else None
        for who, caller in {**others, **nowhere}.items():
            trusted = {'admin', 'service'} & set(who.split())
            named = missing if trusted else things
            path = row.path
            for part, name in (('{project_id}', 'project'), ('{user_id}', 'user')):
                path = path.replace(part, named[name])
            path = '/identity' + re.sub(r'\{[a-z_]+\}', MISSING, path.replace('{domain_id}', 'default'))
            if row.method == 'DELETE' and path.endswith('/auth/tokens'):
                continue
            answer = caller.request(row.method, path, body)
            if answer.status_code >= 500 or 'canary' in answer.text and not trusted:
                wrong[f'{row.method} {row.path}', who] = answer.status_code, answer.text[:150]
            elif not trusted and '{user_id}' in row.path and answer.status_code < 400:
                wrong[f'{row.method} {row.path}', who] = answer.status_code, answer.text[:150]
    assert not wrong
    assert owner.get(f'/identity/v3/projects/{things["project"]}').json() == before


# ---- references in bodies ----------------------------------------------------

def _server(**fields):
    return {'server': {'name': 'thief', 'imageRef': '{mine_image}', 'flavorRef': '42', 'networks': 'none', **fields}}


def _device(**fields):
    return _server(imageRef='', block_device_mapping_v2=[{
        'boot_index': 0, 'destination_type': 'volume', 'delete_on_termination': False, **fields}])


MINE = '/servers/{mine}'
ACTION = MINE + '/action'
RULE = {'direction': 'ingress', 'protocol': 'tcp'}
# (what it refers to, method, path, body, version): the reference is {ref}
REFERENCES = [
    *(('image', *row) for row in (
        ('POST', '/servers', _server(imageRef='{ref}'), None),
        ('POST', '/servers', _device(source_type='image', uuid='{ref}', volume_size=1), None),
        ('POST', ACTION, {'rebuild': {'imageRef': '{ref}'}}, None),
        ('POST', ACTION, {'rescue': {'rescue_image_ref': '{ref}'}}, None),
        ('POST', '/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': '{ref}'}}, None))),
    ('snapshot', 'POST', '/servers', _server(imageRef='{ref}'), None),
    *((kind, *row) for kind in ('free_volume', 'volume') for row in (
        ('POST', '/servers', _device(source_type='volume', uuid='{ref}'), None),
        ('POST', '/servers', _server(block_device_mapping=[{'volume_id': '{ref}', 'device_name': 'vdb'}]), None),
        ('POST', MINE + '/os-volume_attachments', {'volumeAttachment': {'volumeId': '{ref}'}}, None),
        ('PUT', MINE + '/os-volume_attachments/{mine_volume}', {'volumeAttachment': {'volumeId': '{ref}'}}, None),
        ('POST', '/volume/v3/volumes', {'volume': {'size': 1, 'source_volid': '{ref}'}}, None),
        ('POST', '/volume/v3/snapshots', {'snapshot': {'volume_id': '{ref}'}}, None),
        ('POST', '/volume/v3/attachments', {'attachment': {'volume_uuid': '{ref}', 'instance_uuid': '{mine}'}}, None))),
    ('volume_snapshot', 'POST', '/servers', _device(source_type='snapshot', uuid='{ref}'), None),
    ('volume_snapshot', 'POST', '/volume/v3/volumes', {'volume': {'size': 1, 'snapshot_id': '{ref}'}}, None),
    *((kind, *row) for kind in ('port', 'server_port') for row in (
        ('POST', '/servers', _server(networks=[{'port': '{ref}'}]), None),
        ('POST', MINE + '/os-interface', {'interfaceAttachment': {'port_id': '{ref}'}}, None))),
    ('private_network', 'POST', '/servers', _server(networks=[{'uuid': '{ref}'}]), None),
    ('private_network', 'POST', MINE + '/os-interface', {'interfaceAttachment': {'net_id': '{ref}'}}, None),
    ('private_network', 'POST', ACTION, {'addFixedIp': {'networkId': '{ref}'}}, '2.43'),
    ('private_network', 'POST', '/network/v2.0/ports', {'port': {'network_id': '{ref}'}}, None),
    ('private_network', 'POST', '/network/v2.0/subnets',
     {'subnet': {'network_id': '{ref}', 'cidr': '10.55.0.0/24', 'ip_version': 4}}, None),
    ('private_subnet', 'POST', '/network/v2.0/ports',
     {'port': {'network_id': '{network}', 'fixed_ips': [{'subnet_id': '{ref}'}]}}, None),
    *(('group', *row) for row in (
        ('POST', '/servers', _server(networks='auto', security_groups=[{'name': '{ref}'}]), None),
        ('POST', ACTION, {'addSecurityGroup': {'name': '{ref}'}}, None),
        ('POST', ACTION, {'removeSecurityGroup': {'name': '{ref}'}}, None),
        ('POST', '/network/v2.0/ports', {'port': {'network_id': '{network}', 'security_groups': ['{ref}']}}, None),
        ('PUT', '/network/v2.0/ports/{mine_port}', {'port': {'security_groups': ['{ref}']}}, None),
        ('POST', '/network/v2.0/security-group-rules', {'security_group_rule': {
            **RULE, 'security_group_id': '{ref}'}}, None),
        ('POST', '/network/v2.0/security-group-rules', {'security_group_rule': {
            **RULE, 'security_group_id': '{mine_group}', 'remote_group_id': '{ref}'}}, None),
        ('POST', '/os-security-group-rules', {'security_group_rule': {
            'parent_group_id': '{ref}', 'ip_protocol': 'tcp', 'from_port': 1, 'to_port': 2}}, '2.35'),
        ('POST', '/os-security-group-rules', {'security_group_rule': {
            'parent_group_id': '{mine_group}', 'group_id': '{ref}', 'ip_protocol': 'tcp', 'from_port': 1,
            'to_port': 2}}, '2.35'))),
    ('key', 'POST', '/servers', _server(key_name='{ref}'), None),
    ('key', 'POST', ACTION, {'rebuild': {'imageRef': '{mine_image}', 'key_name': '{ref}'}}, None),
    ('flavor', 'POST', '/servers', _server(flavorRef='{ref}'), None),
    ('flavor', 'POST', ACTION, {'resize': {'flavorRef': '{ref}'}}, None),
    ('server_group', 'POST', '/servers', {**_server(), 'os:scheduler_hints': {'group': '{ref}'}}, None),
    *(('server', 'POST', '/servers', {**_server(), 'os:scheduler_hints': {hint: value}}, None)
      for hint in ('same_host', 'different_host') for value in ('{ref}', ['{ref}'])),
    ('server', 'POST', '/servers/action', {'os-bulk-action': {'action': {'os-stop': None}, 'ids': ['{ref}']}}, None),
    ('server', 'POST', '/servers/action', {'os-bulk-action': {'action': {'delete': None}, 'ids': ['{ref}']}}, None),
    ('server', 'POST', '/network/v2.0/ports', {'port': {'network_id': '{network}', 'device_id': '{ref}'}}, None),
    ('server', 'PUT', '/network/v2.0/ports/{mine_port}', {'port': {'device_id': '{ref}'}}, None),
    ('server', 'POST', '/volume/v3/attachments', {'attachment': {
        'volume_uuid': '{mine_volume}', 'instance_uuid': '{ref}'}}, None),
    ('project', 'POST', '/network/v2.0/ports', {'port': {'network_id': '{network}', 'project_id': '{ref}'}}, None),
    ('project', 'POST', '/network/v2.0/security-groups', {'security_group': {
        'name': 'x', 'tenant_id': '{ref}'}}, None),
    ('project', 'POST', '/image/v2/images', {'name': 'x', 'owner': '{ref}'}, None),
    ('project', 'POST', '/v3.0/{mine_project}/groups', {'name': 'x', 'tenant_id': '{ref}', 'policies': []}, None),
]


@pytest.fixture(scope='module')
def thieves(identity):
    """{name: Caller} of a third project, in which little counts against its quotas so far."""
    return {role: identity.in_project('third', role) for role in ('member', 'manager')} | identity.delegated('third')


@pytest.fixture(scope='module')
def mine(thieves, things):
    """What a member of the third project has, to refer from."""
    member = thieves['member']
    image = member.upload_image(name='mine')
    server = member.boot(image, name='mine', networks='auto')['id']
    member.wait_for(server)
    network = things['network']
    return {'mine': server, 'mine_image': image, 'network': network, 'mine_project': member.project_id,
            'mine_volume': one(member, '/volume/v3/volumes', 'volume', size=1, name='mine')['id'],
            'mine_port': one(member, '/network/v2.0/ports', 'port', network_id=network)['id'],
            'mine_group': one(member, '/network/v2.0/security-groups', 'security_group', name='mine')['id']}


def _refer(caller, row, mine, ref):
    """(status, text, what became of a server that was made) of one request."""
    _kind, method, path, body, version = row
    path = isolation.filled(path, mine)
    path = '/compute' + path if path.startswith('/v3.0') else path
    answer = caller.request(method, path, isolation.filled(body, {**mine, 'ref': ref}), version=version)
    text, ended = answer.text.replace(ref, '…'), None
    if path.endswith(('/servers', '/images', '/volumes', '/snapshots', '/ports')) and answer.status_code < 300:
        text = ''
    if path == '/servers' and answer.status_code == 202:
        server = answer.json()['server']['id']
        shown = isolation.waiting.wait_for(lambda: next((found for found in [caller.get(f'/servers/{server}').json()[
            'server']] if found['status'] in ('ACTIVE', 'ERROR')), None), 60, 'the server to be built')
        ended = shown['status'], shown.get('fault', {}).get('message')
        caller.delete(f'/servers/{server}')
    return answer.status_code, text, ended


@pytest.mark.parametrize('row', REFERENCES, ids=lambda row: f'{row[0]} in {row[1]} {row[2]} {next(iter(row[3]))}')
def test_a_reference_to_anothers_is_one_to_nothing(things, missing, mine, thieves, row):
    wrong = {}
    for who in ('member', 'manager', *callers.DELEGATED):
        theirs = _refer(thieves[who], row, mine, things[row[0]])
        nothing = _refer(thieves[who], row, mine, missing[row[0]])
        if theirs != nothing or 'canary' in theirs[1] or theirs[0] >= 500:
            wrong[who] = theirs, nothing
    assert not wrong


def test_the_references_have_done_nothing(things, owner, mine, thieves):
    """It stands behind them: what they named is as it was, and who named it has nothing of it."""
    theirs = [things[name] for name in ('server', 'image', 'volume', 'free_volume', 'group', 'port')]
    for path in ('/servers/detail', '/network/v2.0/ports', '/volume/v3/volumes/detail', '/image/v2/images',
                 '/network/v2.0/security-groups', '/volume/v3/attachments'):
        text = thieves['member'].get(path).text
        assert 'canary' not in text and not [each for each in theirs if each in text], path
    assert owner.get(f'/servers/{things["server"]}').json()['server']['status'] == 'ACTIVE'
    assert owner.get(f'/volume/v3/volumes/{things["free_volume"]}').json()['volume']['status'] == 'available'
    assert owner.get(f'/network/v2.0/ports/{things["port"]}').json()['port']['device_id'] == ''


@pytest.mark.parametrize('path,name', [
    ('/os-simple-tenant-usage/{mine_project}?marker=', 'server'), ('/os-migrations?marker=', 'move'),
    ('/servers?marker=', 'moved'), ('/servers/detail?marker=', 'server'), ('/image/v2/images?marker=', 'image'),
    ('/volume/v3/volumes?marker=', 'volume'), ('/volume/v3/snapshots?marker=', 'volume_snapshot'),
    ('/network/v2.0/networks?limit=1&marker=', 'private_network'), ('/network/v2.0/ports?limit=1&marker=', 'port'),
    ('/network/v2.0/subnets?limit=1&marker=', 'private_subnet'), ('/flavors?marker=', 'flavor'),
    ('/network/v2.0/security-group-rules?limit=1&marker=', 'rule'), ('/os-keypairs?marker=', 'key')])
def test_a_marker_of_anothers_is_none(things, missing, mine, thieves, path, name):
    path = path.format(**mine)
    for who in ('manager', *callers.DELEGATED):
        theirs, nothing = (thieves[who].get(path + ref) for ref in (things[name], missing[name]))
        assert theirs.status_code == nothing.status_code, (who, theirs.text, nothing.text)
        assert theirs.text.replace(things[name], '') == nothing.text.replace(missing[name], ''), who
