"""What tests share with nova/tests/functional/test_isolation.py."""
import base64
import uuid

import pytest

from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture

MISSING = '00000000-0000-4000-8000-000000000000'
VERSION = '2.96'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('isolation'), quota__instances=-1, quota__cores=-1,
                               quota__ram=-1) as made:
        yield made


@pytest.fixture(scope='module')
def admin(cloud):
    return cloud.admin(VERSION)


def add_user(admin, project, role):
    """A user with one role in a project (both by name, made when missing); a Client."""
    def made(noun, **values):
        answer = admin.post(f'/identity/v3/{noun}s', {noun: values})
        if answer.status_code == 409:
            return admin.get(f'/identity/v3/{noun}s?name={values["name"]}').json()[noun + 's'][0]['id']
        assert answer.status_code == 201, answer.text
        return answer.json()[noun]['id']

    project_id = made('project', name=project)
    name, password = f'{project}-{role}', 'pw-' + uuid.uuid4().hex
    user_id = made('user', name=name, password=password)
    role_id = admin.get(f'/identity/v3/roles?name={role}').json()['roles'][0]['id']
    granted = admin.put(f'/identity/v3/projects/{project_id}/users/{user_id}/roles/{role_id}')
    assert granted.status_code == 204, granted.text
    return cloud_fixture.Client(admin.url, name, password, project, VERSION)


@pytest.fixture(scope='module')
def users(admin):
    """{'own reader', …, 'other admin': Client}"""
    return {f'{side} {role}': add_user(admin, f'project-{side}', role)
            for side in ('own', 'other') for role in ('reader', 'member', 'manager', 'admin')}


def one(client, path, noun, **values):
    """Create a resource and return it; of volumes, snapshots and backups, wait for the data."""
    answer = client.post(path, {noun: values})
    assert answer.status_code in (200, 201, 202), answer.text
    made = answer.json()[noun]
    if path.startswith('/volume/') and noun in ('volume', 'snapshot', 'backup'):
        waiting.wait_for(lambda: client.get(f'{path}/{made["id"]}').json()[noun]['status'] == 'available', 60, noun)
    return made


@pytest.fixture(scope='module')
def things(users):
    return make_things(users['own member'])


def make_things(owner):
    """What a member of a project makes: {name: id}, as the paths below name them."""
    image = owner.upload_image(name='canary-image')
    server = owner.boot(image, name='canary-server', networks='auto', metadata={'key': 'value'}, tags=['tag'])
    owner.wait_for(server['id'])
    made = owner.request('POST', f'/servers/{server["id"]}/action', {'createImage': {'name': 'canary-snapshot'}})
    assert made.status_code == 202, made.text
    owner.wait_for(server['id'])
    network = owner.get('/network/v2.0/networks').json()['networks'][0]['id']
    group = one(owner, '/network/v2.0/security-groups', 'security_group', name='canary-group')
    actions = owner.get(f'/servers/{server["id"]}/os-instance-actions').json()['instanceActions']
    return {
        'server': server['id'], 'image': image, 'snapshot': made.json()['image_id'], 'network': network,
        'request': actions[0]['request_id'], 'group': group['id'],
        'rule': group['security_group_rules'][0]['id'],
        'port': one(owner, '/network/v2.0/ports', 'port', network_id=network, name='canary-port')['id'],
        'server_port': owner.get(f'/network/v2.0/ports?device_id={server["id"]}').json()['ports'][0]['id'],
        **volumes_of(owner, server['id']),
        'key': one(owner, '/os-keypairs', 'keypair', name='canary-key', type='ssh',
                   public_key=PUBLIC_KEY)['name'],
        'project': owner.project_id, 'user': owner.user_id, 'url': owner.url}


def volumes_of(owner, server):
    """A volume in use, a free one and a snapshot."""
    volume, free = (one(owner, '/volume/v3/volumes', 'volume', size=1, name='canary-volume')['id'] for _ in range(2))
    answer = owner.post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
    assert answer.status_code == 200, answer.text
    path = f'/servers/{server}/os-instance-actions'

    def ended():
        latest = owner.get(path).json()['instanceActions'][0]
        events = owner.get(f'{path}/{latest["request_id"]}').json()['instanceAction']['events']
        return latest['action'] == 'attach_volume' and events and all(event['finish_time'] for event in events)
    waiting.wait_for(ended, 20, 'the volume to be attached')
    return {'volume': volume, 'free_volume': free, 'volume_snapshot': one(
        owner, '/volume/v3/snapshots', 'snapshot', volume_id=free, name='canary-volume-snapshot')['id']}


PUBLIC_KEY = 'ssh-ed25519 ' + base64.b64encode(
    b'\0\0\0\x0bssh-ed25519\0\0\0\x20' + b'x' * 32).decode() + ' canary'

SERVER = '/servers/{server}'
PORT = '/network/v2.0/ports/{port}'
GROUP = '/network/v2.0/security-groups/{group}'
RULE = '/network/v2.0/security-group-rules/{rule}'
VOLUME, SNAPSHOT = '/volume/v3/volumes/{volume}', '/volume/v3/snapshots/{volume_snapshot}'
OF_PROJECT = '/volume/v3/{project}/volumes/{volume}'     # its own project's alone: an address names the token's
PATCH = {'Content-Type': 'application/openstack-images-v2.1-json-patch'}

# (method, path, body or None): reads, which a reader of the project may do
READS = [
    *(('GET', SERVER + part, None) for part in (
        '', '/ips', '/metadata', '/metadata/key', '/tags', '/tags/tag', '/os-instance-actions',
        '/os-instance-actions/{request}')),
    *(('GET', path, None) for image in ('{image}', '{snapshot}') for path in (
        f'/image/v2/images/{image}', f'/image/v2/images/{image}/file')),
    *(('GET', path, None) for path in (PORT, '/network/v2.0/ports/{server_port}', GROUP, RULE)),
    *(('GET', path, None) for path in (
        VOLUME, SNAPSHOT, OF_PROJECT, VOLUME + '/metadata')),
    *(('GET', SERVER + path, None) for path in ('/os-volume_attachments', '/os-volume_attachments/{volume}')),
    ('GET', '/identity/v3/projects/{project}', None),
    *(('GET', '/compute/v2.1' + path, None) for path in (
        '/images/{image}', '/images/{image}/metadata')),
]


def filled(value, things):
    if isinstance(value, str):
        return value.format(**things)
    if isinstance(value, dict):
        return {key: filled(each, things) for key, each in value.items()}
    return [filled(each, things) for each in value] if isinstance(value, list) else value


def send(client, row, things):
    method, path, body = row
    headers = PATCH if method == 'PATCH' else {}
    version = '2.35' if '/compute/v2.1/images' in path else None
    return client.request(method, filled(path, things), filled(body, things), headers=headers, version=version)


def everything(client, things):
    """The state of all of it, as its owner sees it."""
    rows = [row for row in READS if '/file' not in row[1]]
    found = {row[1]: send(client, row, things).json() for row in rows
             if '/tags/tag' not in row[1] and '/identity' not in row[1]}
    found['members'] = client.get(f'/image/v2/images/{things["image"]}/members').json()
    found['keys'] = client.get('/os-keypairs').json()
    return found
