"""Who may see and change what: everything of one project, asked for by others, over HTTP.

What another project may not have does not exist for it (404): it cannot even tell whether an id is taken.
"""
import json

import pytest
import requests

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import isolation
from nova.tests.support.isolation import GROUP
from nova.tests.support.isolation import MISSING
from nova.tests.support.isolation import OF_PROJECT
from nova.tests.support.isolation import PORT
from nova.tests.support.isolation import READS
from nova.tests.support.isolation import RULE
from nova.tests.support.isolation import SERVER
from nova.tests.support.isolation import SNAPSHOT
from nova.tests.support.isolation import VOLUME
from nova.tests.support.isolation import everything
from nova.tests.support.isolation import filled
from nova.tests.support.isolation import one
from nova.tests.support.isolation import send

admin = isolation.admin
cloud = isolation.cloud
things = isolation.things
users = isolation.users


ACTIONS = ({'os-stop': None}, {'os-start': None}, {'reboot': {'type': 'HARD'}}, {'pause': None}, {'unpause': None},
           {'suspend': None}, {'resume': None}, {'lock': None}, {'unlock': None}, {'forceDelete': None},
           {'os-getConsoleOutput': {}}, {'createImage': {'name': 'stolen'}}, {'rebuild': {'imageRef': '{image}'}})
IMAGE = '/image/v2/images/{image}'
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
    assert wrong == {name_of(row): 403 for row in READS if row[1].endswith('/file')}         # members download
    assert not {name_of(row): answer.status_code for row in WRITES
                if (answer := send(reader, row, things)).status_code != 403}
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


def test_requests_without_a_valid_token_return_401(things):
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


def test_resources_of_another_project_cannot_be_used(users, things):
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
    assert users['own member'].delete('/network/v2.0/ports/' + things['server_port']).status_code == 403


def test_image_membership_shares_one_image_only(users, things):
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
    ('GET', '/identity/v3/users', None), ('GET', '/identity/v3/projects', None),
    ('POST', '/identity/v3/users', {'user': {'name': 'x'}}), ('DELETE', '/identity/v3/users/{user}', None),
    ('PATCH', '/identity/v3/users/{user}', {'user': {'password': 'x'}}), ('GET', '/identity/v3/services', None),
    ('POST', '/identity/v3/projects', {'project': {'name': 'x'}}),
    ('DELETE', '/identity/v3/projects/{project}', None),
    ('PUT', '/identity/v3/projects/{project}/users/{user}/roles/x', None),
    ('GET', '/identity/v3/role_assignments', None),
]


@pytest.mark.parametrize('row', ADMIN_ONLY, ids=name_of)
def test_administrator_operations_are_refused_to_other_roles(users, things, row):
    for who in ('own reader', 'own member', 'other member', 'other manager'):
        answer = send(users[who], row, things)
        allowed = (403, 404) if who.startswith('other') else (403,)
        assert answer.status_code in allowed, (who, answer.status_code, answer.text[:300])


def test_administrator_has_the_same_rights_in_all_apis(admin, users, things):
    """is_admin is one decision: what it opens is open in compute, images and networks alike."""
    image = admin.upload_image(name='for-all', visibility='public')
    assert users['other member'].get(f'/image/v2/images/{image}').status_code == 200
    network = one(admin, '/network/v2.0/networks', 'network', name='admins')
    assert admin.delete(f'/network/v2.0/networks/{network["id"]}').status_code == 204
    assert admin.get('/os-services').status_code == 200


def test_quotas_of_other_projects_are_refused(users, things):
    other = users['other member']
    for path in ('/os-quota-sets/{project}', '/os-quota-sets/{project}/detail', '/network/v2.0/quotas/{project}'):
        answer = other.get(filled(path, things))
        assert answer.status_code in (403, 404), (path, answer.text)
    assert other.get(filled('/limits?tenant_id={project}', things)).status_code in (403, 404)


def test_tokens_of_other_users_are_hidden(users, things):
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


def test_tokens_without_a_project_see_nothing(admin, users, things):
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
