"""Who may see and change what: everything of one project, asked for by others, over HTTP.

What another project may not have does not exist for it (404): it cannot even tell whether an id is taken.
"""
import base64
import json
import uuid

import pytest
import requests

from nova.tests import waiting
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
    answer = client.post(path, {noun: values})
    assert answer.status_code in (200, 201, 202), answer.text
    return answer.json()[noun]


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
ACTIONS = ({'os-stop': None}, {'os-start': None}, {'reboot': {'type': 'HARD'}}, {'pause': None}, {'unpause': None},
           {'suspend': None}, {'resume': None}, {'lock': None}, {'unlock': None}, {'forceDelete': None},
           {'os-getConsoleOutput': {}}, {'createImage': {'name': 'stolen'}}, {'rebuild': {'imageRef': '{image}'}})
PORT = '/network/v2.0/ports/{port}'
GROUP = '/network/v2.0/security-groups/{group}'
RULE = '/network/v2.0/security-group-rules/{rule}'
IMAGE = '/image/v2/images/{image}'
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
# and writes, which need more than the role reader
WRITES = [
    *(('POST', SERVER + '/action', body) for body in ACTIONS),
    ('PUT', SERVER, {'server': {'name': 'stolen'}}),
    ('POST', SERVER + '/metadata', {'metadata': {'a': 'b'}}), ('PUT', SERVER + '/metadata', {'metadata': {}}),
    ('PUT', SERVER + '/metadata/key', {'meta': {'key': 'x'}}), ('DELETE', SERVER + '/metadata/key', None),
    ('PUT', SERVER + '/tags', {'tags': []}), ('PUT', SERVER + '/tags/new', None),
    ('DELETE', SERVER + '/tags/tag', None), ('DELETE', SERVER + '/tags', None), ('DELETE', SERVER, None),
    ('PATCH', IMAGE, [{'op': 'replace', 'path': '/name', 'value': 'stolen'}]),
    ('PUT', IMAGE + '/tags/new', None), ('POST', IMAGE + '/members', {'member': '{project}'}),
    ('DELETE', IMAGE, None), ('DELETE', '/image/v2/images/{snapshot}', None),
    ('PUT', PORT, {'port': {'name': 'stolen'}}), ('DELETE', PORT, None),
    ('DELETE', '/network/v2.0/ports/{server_port}', None),
    ('PUT', GROUP, {'security_group': {'name': 'stolen'}}), ('DELETE', GROUP, None), ('DELETE', RULE, None),
    ('PUT', VOLUME, {'volume': {'name': 'stolen'}}), ('DELETE', '/volume/v3/volumes/{free_volume}', None),
    ('POST', VOLUME + '/metadata', {'metadata': {'a': 'b'}}), ('DELETE', SNAPSHOT, None),
    ('PUT', SNAPSHOT, {'snapshot': {'name': 'stolen'}}),
    ('POST', VOLUME + '/action', {'os-extend': {'new_size': 2}}),
    ('POST', '/volume/v3/snapshots', {'snapshot': {'volume_id': '{free_volume}'}}),
    ('POST', SERVER + '/os-volume_attachments', {'volumeAttachment': {'volumeId': '{free_volume}'}}),
    ('PUT', SERVER + '/os-volume_attachments/{volume}', {'volumeAttachment': {'volumeId': '{free_volume}'}}),
    ('DELETE', SERVER + '/os-volume_attachments/{volume}', None),
    ('POST', '/network/v2.0/security-group-rules', {'security_group_rule': {
        'security_group_id': '{group}', 'direction': 'ingress', 'protocol': 'icmp'}}),
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


def name_of(row):
    method, path, body = row
    return f'{method} {path} {next(iter(body), "") if isinstance(body, dict) else ""}'


def test_another_project_finds_nothing(users, things):
    before = everything(users['own member'], things)
    assert all('canary' in str(before[path]) for path in (SERVER, IMAGE, PORT, GROUP, 'keys'))
    for who in ('other reader', 'other member', 'other manager'):
        wrong = {}
        for row in READS + WRITES:
            answer = send(users[who], row, things)
            missing = send(users[who], row, {**things, **{
                name: MISSING for name in ('server', 'image', 'snapshot', 'port', 'server_port', 'group', 'rule')}})
            allowed = (404, 403) if row in WRITES and who == 'other reader' or 'identity' in row[1] else (404,)
            if answer.status_code not in allowed or 'canary' in answer.text:
                wrong[name_of(row)] = answer.status_code, answer.text[:200]
            elif missing.status_code != answer.status_code and 'identity' not in row[1]:
                wrong[name_of(row) + ' reveals that it exists'] = missing.status_code, answer.status_code
        assert not wrong, (who, wrong)
    assert everything(users['own member'], things) == before


def test_a_reader_reads(users, things):
    before = everything(users['own member'], things)
    reader = users['own reader']
    wrong = {name_of(row): answer.status_code for row in READS
             if (answer := send(reader, row, things)).status_code not in (200, 204)}
    wrong |= {name_of(row): answer.status_code for row in WRITES
              if (answer := send(reader, row, things)).status_code != 403}
    assert not wrong
    for row in (('POST', '/servers', {'server': {'name': 'x', 'imageRef': '{image}', 'flavorRef': '42',
                                                 'networks': 'none'}}),
                ('POST', '/network/v2.0/ports', {'port': {'network_id': '{network}'}}),
                ('POST', '/network/v2.0/security-groups', {'security_group': {'name': 'x'}}),
                ('POST', '/image/v2/images', {'name': 'x'})):
        assert send(reader, row, things).status_code == 403, row
    assert everything(users['own member'], things) == before


def test_administrators_and_members_read(users, things):
    for who in ('own member', 'own manager', 'own admin', 'other admin'):
        wrong = {name_of(row): answer.status_code for row in READS
                 if (answer := send(users[who], row, things)).status_code not in (200, 204)}
        assert wrong == ({f'GET {OF_PROJECT} ': 400} if who == 'other admin' else {}), who


def test_nobody(things):
    for method, path, body in READS + WRITES:
        path = filled(path, things)
        path = path if path.startswith(
            ('/identity', '/image', '/network', '/volume', '/compute')) else '/compute/v2.1' + path
        for headers in ({}, {'X-Auth-Token': 'x' * 40}, {'X-User-Id': things['user'], 'X-Roles': 'admin',
                                                          'X-Project-Id': things['project'],
                                                          'X-Identity-Status': 'Confirmed'}):
            answer = requests.request(method, things['url'] + path, json=filled(body, things), headers=headers)
            assert answer.status_code == 401 and 'canary' not in answer.text, (method, path, answer.text)


LISTS = [
    *(f'/servers{detail}?{query}' for detail in ('', '/detail') for query in (
        '', 'name=canary', 'name=.*', 'uuid={server}', 'project_id={project}', 'tenant_id={project}',
        'user_id={user}', 'image={image}', 'key_name=canary-key', 'tags=tag', 'ip=.*', 'limit=1000',
        'status=ACTIVE', 'flavor=42', 'host=host1', 'changes-since=2001-01-01T00:00:00Z', 'sort_key=user_id')),
    *('/image/v2/images' + query for query in (
        '', '?name=canary-image', '?owner={project}', '?visibility=private', '?visibility=shared',
        '?visibility=all',
        '?member_status=all', '?id=in:{image},{snapshot}', '?instance_uuid={server}', '?os_hidden=true')),
    *(f'/network/v2.0/{kind}?{query}' for kind in ('ports', 'security-groups',
                                                   'security-group-rules') for query in (
        '', 'project_id={project}', 'tenant_id={project}', 'id={port}&id={group}&id={rule}')),
    *(f'/volume/v3/{kind}?{query}' for kind in ('volumes', 'volumes/detail', 'snapshots', 'attachments') for query in (
        '', 'name=canary-volume', 'project_id={project}', 'all_tenants=1', 'volume_id={volume}', 'status=in-use')),
    '/network/v2.0/ports?device_id={server}', '/network/v2.0/ports?name=canary-port',
    '/network/v2.0/security-groups?name=canary-group', '/os-keypairs',
    '/network/v2.0/security-group-rules?security_group_id={group}',
]


@pytest.mark.parametrize('who', ['other reader', 'other member', 'other manager'])
def test_lists_show_nothing_of_others(users, things, who):
    secret = [things[name] for name in ('server', 'image', 'snapshot', 'port', 'server_port', 'group', 'rule')]
    for path in LISTS:
        answer = users[who].get(filled(path, things))
        assert answer.status_code in (200, 400, 403), (path, answer.text)
        document = answer.text if answer.status_code == 200 else ''
        for link in ('first', 'next'):                        # repeat what was asked
            if answer.status_code == 200 and link in answer.json():
                document = document.replace(answer.json()[link], '')
        assert not [word for word in (*secret, 'canary') if word in document], path


@pytest.mark.parametrize('query', ['all_tenants=1', 'all_tenants=1&project_id={project}',
                                   'all_tenants=true&name=canary'])
def test_all_tenants_is_for_administrators(users, things, query):
    for path in ('/servers?', '/servers/detail?'):
        path = path + filled(query, things)
        for who in ('other reader', 'other member', 'other manager'):
            assert users[who].get(path).status_code == 403, path
        assert things['server'] in users['other admin'].get(path).text


def test_deleted_servers_are_for_administrators(users, things):
    owner = users['own member']
    gone = owner.boot(things['image'], name='canary-gone', networks='none')['id']
    owner.wait_for(gone)
    assert owner.delete(f'/servers/{gone}').status_code == 204
    owner.wait_for(gone, 'DELETED')
    for who in ('other reader', 'other member'):
        for query in ('deleted=True', 'deleted=1&name=canary', 'changes-since=2001-01-01T00:00:00Z',
                      f'uuid={gone}&deleted=true', 'status=DELETED'):
            answer = users[who].get('/servers/detail?' + query)
            assert answer.status_code in (200, 403) and gone not in answer.text, (who, query, answer.text)
        assert users[who].get(f'/servers/{gone}/os-instance-actions').status_code == 404
    assert users['own member'].get(f'/servers/{gone}/os-instance-actions').status_code == 200


def test_markers_do_not_tell(users, things):
    """A marker of another project is as unknown as one that is not there."""
    other = users['other member']
    for path, ident in (('/servers?marker=', 'server'), ('/servers/detail?marker=', 'server'),
                        ('/image/v2/images?marker=', 'image'), ('/network/v2.0/ports?limit=1&marker=', 'port'),
                        ('/network/v2.0/security-groups?limit=1&marker=', 'group'),
                        ('/os-keypairs?marker=', 'key')):
        theirs, nothing = other.get(path + things[ident]), other.get(path + MISSING)
        assert theirs.status_code == nothing.status_code in (400, 404), (path, theirs.text, nothing.text)
        assert theirs.text.replace(things[ident], '') == nothing.text.replace(MISSING, '')


def test_what_others_have_cannot_be_used(users, things):
    """Ports, groups, keys, images and addresses of another project, in a server or a port of one's own."""
    other = users['other member']
    mine = other.upload_image(name='mine')

    def refused(**fields):
        answers = [other.post('/servers', {'server': {'name': 'thief', 'imageRef': mine, 'flavorRef': '42',
                                                      'networks': 'auto', **given}})
                   for given in (fields, filled(nothing(fields), things))]
        assert [answer.status_code for answer in answers] == [400, 400], [answer.text for answer in answers]
        return answers

    def nothing(fields):
        text = json.dumps(fields)
        for name in ('image', 'snapshot', 'port', 'server_port', 'group'):
            text = text.replace(things[name], MISSING)
        return json.loads(text)

    refused(imageRef=things['image'])
    refused(imageRef=things['snapshot'])
    refused(networks=[{'port': things['port']}])
    refused(networks=[{'port': things['server_port']}])
    refused(security_groups=[{'name': things['group']}])
    refused(security_groups=[{'name': 'canary-group'}])
    refused(key_name='canary-key')
    port = one(other, '/network/v2.0/ports', 'port', network_id=things['network'])
    for body in ({'security_groups': [things['group']]},
                 {'device_id': things['server'], 'project_id': things['project']}):
        assert other.put(f'/network/v2.0/ports/{port["id"]}', {'port': body}).status_code in (400, 403, 404), body
    for body in ({'security_groups': [things['group']]}, {'project_id': things['project']},
                 {'tenant_id': things['project']}, {'mac_address': 'fa:16:3e:00:00:01'}):
        answer = other.post('/network/v2.0/ports', {'port': {'network_id': things['network'], **body}})
        assert answer.status_code in (400, 403, 404), (body, answer.text)
    rule = {'security_group_id': None, 'direction': 'ingress', 'remote_group_id': things['group']}
    rule['security_group_id'] = one(other, '/network/v2.0/security-groups', 'security_group', name='own')['id']
    assert other.post('/network/v2.0/security-group-rules', {'security_group_rule': rule}).status_code in (400, 404)
    for body in ({'owner': things['project']}, {'visibility': 'public'}, {'id': things['image']},
                 {'kernel_id': things['image']}):
        answer = other.post('/image/v2/images',
                            {'name': 'x', 'disk_format': 'raw', 'container_format': 'bare', **body})
        assert answer.status_code in ((400,) if 'kernel_id' in body else (403, 409)), (body, answer.text)


def test_a_port_that_claims_anothers_server_gives_nothing(users, things):
    """Which server a port belongs to is no user's to say, not even that it belongs to none any more: filters
    against spoofing and the metadata service go by it."""
    port = one(users['other member'], '/network/v2.0/ports', 'port', network_id=things['network'], device_id='')
    for who, method, path, body in (
            ('other member', 'POST', '', {'network_id': things['network'], 'device_id': things['server']}),
            ('other member', 'PUT', '/' + port['id'], {'device_id': things['server']}),
            ('own member', 'PUT', '/' + things['server_port'], {'device_id': ''}),
            ('own member', 'PUT', '/' + things['server_port'], {'device_owner': ''}),
            ('own member', 'PUT', '/' + things['server_port'], {'binding:host_id': None}),
            ('own member', 'PUT', '/' + things['server_port'], {'device_id': MISSING})):
        answer = users[who].request(method, '/network/v2.0/ports' + path, {'port': body})
        assert answer.status_code == 403, (who, method, body, answer.text)
    shown = users['own member'].get('/network/v2.0/ports/' + things['server_port']).json()['port']
    assert shown['device_id'] == things['server'] and shown['device_owner'].startswith('compute:')
    assert users['own member'].delete('/network/v2.0/ports/' + things['server_port']).status_code == 409


def test_members_of_an_image(users, things):
    """Sharing shows one image to one project, and ends."""
    owner, other = users['own member'], users['other member']
    image = owner.upload_image(name='canary-shared', visibility='shared')
    path = f'/image/v2/images/{image}'
    assert other.get(path).status_code == 404
    assert owner.post(path + '/members', {'member': other.project_id}).status_code == 200
    assert other.get(path).status_code == 200 and other.get(path + '/file').status_code == 200
    for method, part, body in (('DELETE', '', None), ('POST', '/members', {'member': 'x'}),
                               ('DELETE', f'/members/{other.project_id}', None), ('PUT', '/tags/x', None)):
        assert other.request(method, path + part, body).status_code == 403, part
    assert users['other reader'].put(f'{path}/members/{other.project_id}',
                                     {'status': 'accepted'}).status_code == 403
    assert owner.put(f'{path}/members/{other.project_id}', {'status': 'accepted'}).status_code == 403
    assert other.put(f'{path}/members/{other.project_id}', {'status': 'accepted'}).status_code == 200
    assert image in other.get('/image/v2/images?visibility=shared').text
    assert owner.delete(f'{path}/members/{other.project_id}').status_code == 204
    assert other.get(path).status_code == 404 and image not in other.get('/image/v2/images').text


def test_keys_belong_to_users(users, things):
    """Also two users of one project have their own."""
    for who in ('other member', 'own reader', 'own manager'):
        assert users[who].get('/os-keypairs/canary-key').status_code == 404
        assert users[who].delete('/os-keypairs/canary-key').status_code == 404
        for method, path in (('GET', '/os-keypairs?user_id={user}'),
                             ('GET', '/os-keypairs/canary-key?user_id={user}'),
                             ('DELETE', '/os-keypairs/canary-key?user_id={user}')):
            answer = users[who].request(method, filled(path, things))
            assert answer.status_code in (403, 404) and 'ssh-ed25519' not in answer.text, (who, path, answer.text)
    assert users['other admin'].get(f'/os-keypairs/canary-key?user_id={things["user"]}').status_code == 200
    assert users['own member'].get('/os-keypairs/canary-key').status_code == 200


def test_a_project_in_the_path_must_be_the_callers(users, things):
    for prefix in ('/compute/v2.1/', '/compute/v2/', '/v2.1/', '/v2/'):
        answer = users['other member'].get(f'{prefix}{things["project"]}/servers/{things["server"]}')
        assert answer.status_code == 400 and 'canary' not in answer.text
        assert users['own member'].get(f'{prefix}{things["project"]}/servers/{things["server"]}').status_code == 200


ADMIN_ONLY = [
    ('GET', '/os-services', None), ('PUT', '/os-services/' + MISSING, {'status': 'disabled'}),
    ('GET', '/os-hypervisors', None), ('GET', '/os-hypervisors/detail', None),
    ('GET', '/os-availability-zone/detail', None),
    ('POST', '/flavors', {'flavor': {'name': 'x', 'ram': 1, 'vcpus': 1, 'disk': 1}}),
    ('DELETE', '/flavors/42', None), ('POST', '/flavors/42/os-extra_specs', {'extra_specs': {'a': 'b'}}),
    ('POST', '/flavors/42/action', {'addTenantAccess': {'tenant': '{project}'}}),
    ('PUT', '/os-quota-sets/{project}', {'quota_set': {'instances': 1000}}),
    ('DELETE', '/os-quota-sets/{project}', None),
    ('POST', SERVER + '/action', {'os-resetState': {'state': 'error'}}),
    ('POST', '/network/v2.0/networks', {'network': {'name': 'x', 'router:external': True}}),
    ('DELETE', '/network/v2.0/networks/{network}', None),
    ('PUT', '/network/v2.0/networks/{network}', {'network': {'name': 'x'}}),
    ('POST', '/network/v2.0/subnets', {'subnet': {'network_id': '{network}', 'cidr': '10.99.0.0/24',
                                                  'ip_version': 4}}),
    ('POST', IMAGE + '/actions/deactivate', None),
    ('GET', '/identity/v3/users', None), ('GET', '/identity/v3/projects', None),
    ('POST', '/identity/v3/users', {'user': {'name': 'x'}}), ('DELETE', '/identity/v3/users/{user}', None),
    ('PATCH', '/identity/v3/users/{user}', {'user': {'password': 'x'}}), ('GET', '/identity/v3/services', None),
    ('POST', '/identity/v3/projects', {'project': {'name': 'x'}}),
    ('DELETE', '/identity/v3/projects/{project}', None),
    ('PUT', '/identity/v3/projects/{project}/users/{user}/roles/x', None),
    ('GET', '/identity/v3/role_assignments', None),
]


@pytest.mark.parametrize('row', ADMIN_ONLY, ids=name_of)
def test_what_only_administrators_may(users, things, row):
    for who in ('own reader', 'own member', 'other member', 'other manager'):
        answer = send(users[who], row, things)
        allowed = (403, 404) if who.startswith('other') else (403,)
        assert answer.status_code in allowed, (who, answer.status_code, answer.text[:300])


def test_administrators_in_every_face(admin, users, things):
    """is_admin is one decision: what it opens is open in compute, images and networks alike."""
    image = admin.upload_image(name='for-all', visibility='public')
    assert users['other member'].get(f'/image/v2/images/{image}').status_code == 200
    network = one(admin, '/network/v2.0/networks', 'network', name='admins')
    assert admin.delete(f'/network/v2.0/networks/{network["id"]}').status_code == 204
    assert admin.get('/os-services').status_code == 200


def test_quotas_of_others(users, things):
    other = users['other member']
    for path in ('/os-quota-sets/{project}', '/os-quota-sets/{project}/detail', '/network/v2.0/quotas/{project}'):
        answer = other.get(filled(path, things))
        assert answer.status_code in (403, 404), (path, answer.text)
    assert other.get(filled('/limits?tenant_id={project}', things)).status_code in (403, 404)


def test_tokens_of_others(users, things):
    """A token's facts and its end are its own user's; a token that was revoked opens nothing."""
    other, owner = users['other member'], users['own member']
    for method in ('GET', 'DELETE', 'HEAD'):
        answer = other.request(method, '/identity/v3/auth/tokens', headers={'X-Subject-Token': owner.token})
        assert answer.status_code == 403, method
    assert owner.get('/servers').status_code == 200
    own = owner
    short = own.session.post(own.url + '/identity/v3/auth/tokens', json={'auth': {
        'identity': {'methods': ['token'], 'token': {'id': own.token}},
        'scope': {'project': {'id': own.project_id}}}})
    token = short.headers['X-Subject-Token']
    faces = ('/compute/v2.1/servers', '/image/v2/images', '/network/v2.0/ports', '/identity/v3/auth/projects')
    before = [requests.get(own.url + path, headers={'X-Auth-Token': token}).status_code for path in faces]
    assert before == [200] * 4
    gone = requests.delete(own.url + '/identity/v3/auth/tokens',
                           headers={'X-Auth-Token': token, 'X-Subject-Token': token})
    assert gone.status_code == 204
    for path in faces:
        for bad in (token, token[:-4] + 'AAAA', token + 'A', 'gAAAAA' + 'x' * 200, 'é'.encode().decode('latin-1')):
            assert requests.get(own.url + path, headers={'X-Auth-Token': bad}).status_code == 401, path


def scoped(owner, scope):
    """A Client whose token has another scope."""
    answer = requests.post(owner.url + '/identity/v3/auth/tokens', json={'auth': {
        'identity': {'methods': ['token'], 'token': {'id': owner.token}}, 'scope': scope}})
    assert answer.status_code == 201, answer.text
    client = object.__new__(cloud_fixture.Client)
    client.__dict__.update({**owner.__dict__, 'token': answer.headers['X-Subject-Token'],
                            'session': requests.Session()})
    return client


def test_tokens_without_a_project(admin, users, things):
    """Who has logged in to nothing has nothing: also what belongs to no project is not theirs."""
    before = everything(users['own member'], things)
    nothing = scoped(users['other member'], {'unscoped': {}})
    for row in READS + WRITES:
        answer = send(nothing, row, things)
        assert answer.status_code in (401, 403, 404) and 'canary' not in answer.text, (name_of(row), answer.text)
    for path in LISTS:
        answer = nothing.get(filled(path, things))
        assert answer.status_code in (200, 400, 401,
                                      403) and 'canary' not in answer.text.replace('=canary', ''), path
    for row in (('POST', '/servers', {'server': {'name': 'x', 'imageRef': '{image}', 'flavorRef': '42',
                                                 'networks': 'none'}}),
                ('POST', '/network/v2.0/ports', {'port': {'network_id': '{network}'}}),
                ('POST', '/network/v2.0/security-groups', {'security_group': {'name': 'x'}}),
                ('POST', '/image/v2/images', {'name': 'x'})):
        assert send(nothing, row, things).status_code == 403, row
    assert everything(users['own member'], things) == before
