"""Instance categories over HTTP: the resource, servers of them, who sees what, and the races."""
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova.api.servers import category as server_category
from nova.db.placement import categories
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.image.embedded.images import EmbeddedImages
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.tests.support import categories as shared_categories
from nova.tests.support.categories import KEY
from nova.tests.support.categories import URL
from nova.tests.support.categories import add
from nova.tests.support.categories import race_of_a_category

cloud = shared_categories.cloud


IN_STORAGE = f'?{KEY}=storage'

NOWHERE = '8f0d4c4e-6f5b-4d5e-9a44-3f6d3b1f0c11'


def names(cloud, query=''):
    return [row['name'] for row in cloud.admin().get(URL + query).json['instance_categories']]


def allow(cloud, rule):
    """From now on everybody passes the rule, as a policy file says."""
    (cloud.directory / 'policy.yaml').write_text(f"'{rule}': '@'\n")
    cloud.services.policy.forget()


def vpn(cloud, image_id):
    cloud.conf.set_override('vpn_image_id', image_id)


# ---- the resource ----------------------------------------------------------------

def test_predefined_categories_are_there_and_stay(cloud):
    assert names(cloud) == ['regular', 'vpn']
    admin = cloud.admin()
    for name in ('regular', 'vpn'):
        assert admin.delete(f'{URL}/{name}').status == 409
        assert admin.post(f'{URL}/{name}/action', {'purge': None}).status == 409
        assert admin.put(f'{URL}/{name}', {'instance_category': {'name': 'other'}}).status == 409
        assert admin.put(f'{URL}/{name}', {'instance_category': {'description': 'd'}}).status == 200
    assert admin.put(f'{URL}/vpn', {'instance_category': {'requirements': {'k': 'v'}}}).status == 200
    assert admin.put(f'{URL}/regular', {'instance_category': {'requirements': {'k': 'v'}}}).status == 409
    cloud.api_db.run(categories.ensure)          # again: nothing changes
    assert names(cloud) == ['regular', 'vpn']


def test_create_show_update_by_id_and_name(cloud):
    made = add(cloud, description='Volumes.', default_image=cloud.image_id, default_flavor='1',
               requirements={'nic': '>= 10000', 'local_ssd': 'true'})
    admin = cloud.admin()
    for ident in (made['id'], 'storage'):
        assert admin.get(f'{URL}/{ident}').json == {'instance_category': made}
    assert made['deleted'] is False and made['updated_at'] is None
    changed = admin.put(f'{URL}/storage', {'instance_category': {'name': 'block', 'requirements': {}}})
    assert changed.json['instance_category'] == {
        **made, 'name': 'block', 'requirements': {},
        'updated_at': changed.json['instance_category']['updated_at']}
    assert admin.get(f'{URL}/storage').status == 404
    assert names(cloud, '?name=block') == ['block'] and names(cloud, '?name=storage') == []
    assert names(cloud, '?limit=1') == ['regular']
    assert names(cloud, f"?marker={made['id']}") == []


def test_deleted_ones_are_kept_until_purged(cloud):
    first, admin = add(cloud), cloud.admin()
    add(cloud, code=409)
    assert admin.delete(f'{URL}/storage').status == 204
    assert admin.delete(f'{URL}/storage').status == 404
    assert names(cloud) == ['regular', 'vpn'] and names(cloud, '?deleted=true') == ['regular', 'vpn', 'storage']
    assert admin.get(f"{URL}/{first['id']}").status == 404
    shown = admin.get(f"{URL}/{first['id']}?deleted=1").json['instance_category']
    assert shown['deleted'] is True and shown['deleted_at']
    assert admin.put(f"{URL}/{first['id']}", {'instance_category': {'description': 'd'}}).status == 404
    second = add(cloud)                          # the name is free again
    assert admin.get(f'{URL}/storage?deleted=1').json['instance_category']['id'] == second['id']
    assert admin.post(f"{URL}/{first['id']}/action", {'purge': None}).status == 204
    assert names(cloud, '?deleted=true') == ['regular', 'vpn', 'storage']
    assert admin.post(f'{URL}/storage/action', {'purge': None}).status == 204
    assert admin.post(f'{URL}/storage/action', {'purge': None}).status == 404
    assert names(cloud, '?deleted=true') == ['regular', 'vpn']


@pytest.mark.parametrize('body', [
    {'name': 'Upper'}, {'name': ''}, {'name': 'a b'}, {'name': 'a\n'}, {'name': NOWHERE}, {'name': 'a' * 256},
    {}, {'name': '-a'}, {'name': 'a', 'default_flavor': ''},
    {'name': 'a', 'default_image': NOWHERE}, {'name': 'a', 'default_image': 'no id'},
    {'name': 'a', 'default_flavor': 'none'}, {'name': 'a', 'requirements': {'k': 1}},
    {'name': 'a', 'requirements': {'k': ''}}, {'name': 'a', 'requirements': {f'k{n}': 'v' for n in range(65)}},
    {'name': 'a', 'other': 1}])
def test_invalid_categories_return_400(cloud, body):
    assert cloud.admin().post(URL, {'instance_category': body}).status == 400
    assert names(cloud) == ['regular', 'vpn']


def test_the_resource_is_for_administrators(cloud):
    user = cloud.client()
    for method, path, body in (('GET', URL, None), ('GET', f'{URL}/vpn', None), ('DELETE', f'{URL}/vpn', None),
                               ('POST', URL, {'instance_category': {'name': 'a'}}),
                               ('PUT', f'{URL}/vpn', {'instance_category': {'description': 'a'}}),
                               ('POST', f'{URL}/vpn/action', {'purge': None})):
        assert user.request(method, path, body).status == 403


# ---- new servers -------------------------------------------------------------------

def boot(cloud, client=None, code=202, **values):
    answer = (client or cloud.admin(project=base.PROJECT)).post('/servers', cloud.body(**values))
    assert answer.status == code, answer.body
    return answer.json.get('server', {}).get('id')


def test_server_is_created_in_a_category(cloud):
    add(cloud)
    server_id, admin = boot(cloud, **{KEY: 'storage'}), cloud.admin()
    assert cloud.row(server_id)['category'] == 'storage'
    assert admin.get(f'/servers/{server_id}').json['server'][KEY] == 'storage'
    (_, _, arguments), = cloud.conductor.sent
    assert arguments['spec'].category == 'storage'
    with cloud.api_db.reader() as conn:
        assert categories.is_used(conn, 'storage') and not categories.is_used(conn, 'vpn')
    regular = boot(cloud, **{KEY: 'regular'})
    assert KEY not in admin.get(f'/servers/{regular}').json['server']


def test_category_provides_default_image_and_flavor(cloud):
    admin = cloud.admin(project=base.PROJECT)
    other = cloud.add_image(name='other')
    add(cloud, default_image=other, default_flavor='1')
    add(cloud, 'bare')
    body = {'server': {'name': 'vm', KEY: 'storage'}}
    made = cloud.row(admin.post('/servers', body).json['server']['id'])
    assert (made['image_id'], made['flavor_id'], made['category']) == (other, '1', 'storage')
    body['server']['imageRef'] = cloud.image_id
    assert cloud.row(admin.post('/servers', body).json['server']['id'])['image_id'] == cloud.image_id
    body['server'][KEY] = 'bare'
    answer = admin.post('/servers', body)
    assert answer.status == 400 and 'flavor' in answer.fault[2]
    body['server'][KEY] = 'nothing'
    assert admin.post('/servers', body).status == 400


def test_without_a_category_a_flavor_is_required_as_ever(cloud):
    answer = cloud.client().post('/servers', {'server': {'name': 'vm', 'imageRef': cloud.image_id}})
    assert answer.fault == ('badRequest', 400, "Invalid input for field/attribute server. 'flavorRef' is a required "
                                               'property.')


def test_server_of_the_vpn_image_has_the_category_vpn(cloud):
    vpn(cloud, cloud.image_id)
    assert cloud.row(boot(cloud, cloud.client()))['category'] == 'vpn'
    assert cloud.row(boot(cloud, **{KEY: 'regular'}))['category'] == 'vpn'
    add(cloud)
    assert cloud.row(boot(cloud, **{KEY: 'storage'}))['category'] == 'storage'
    cloud.conf.set_override('instance_cat_vpn', 'storage')
    assert cloud.row(boot(cloud))['category'] == 'storage'
    vpn(cloud, None)
    assert cloud.row(boot(cloud))['category'] == 'regular'


def test_a_category_is_for_who_may(cloud):
    add(cloud)
    boot(cloud, cloud.client(), 403, **{KEY: 'storage'})
    assert cloud.conductor.sent == []
    boot(cloud, cloud.client(), **{KEY: 'regular'})


def test_a_category_in_use_stays(cloud):
    add(cloud)
    boot(cloud, **{KEY: 'storage'})
    admin = cloud.admin()
    assert admin.delete(f'{URL}/storage').status == 409
    assert admin.post(f'{URL}/storage/action', {'purge': None}).status == 409
    assert admin.put(f'{URL}/storage', {'instance_category': {'name': 'other'}}).status == 409
    assert admin.put(f'{URL}/storage', {'instance_category': {'requirements': {'a': 'b'}}}).status == 200


@pytest.mark.threads
def test_a_category_deleted_while_a_server_is_made_in_it(cloud):
    race_of_a_category(cloud)


def test_the_category_is_checked_in_the_transaction(cloud):
    """What was there when the request was checked may be gone when it is stored."""
    add(cloud)
    used = categories.use

    def late(conn, name):
        categories.delete(conn, name)
        used(conn, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(categories, 'use', late)
        boot(cloud, code=400, **{KEY: 'storage'})
    with cloud.api_db.reader() as conn:
        assert not conn.execute(sa.select(tables_api.instance_mappings)).first()


# ---- who sees what -----------------------------------------------------------------

@pytest.fixture
def both(cloud):
    """(cloud, id of a regular server, id of an administrative one), of the same project, on a host."""
    add(cloud)
    where = {'host': servers.HOST, 'node': servers.NODE, 'vm_state': states.ACTIVE, 'task_state': None}
    regular = cloud.add_server(1, **where)
    server_id = cloud.add_server(2, category='storage', tags=',hidden,', **where)
    cell = cloud.cells.default.uuid
    with cloud.api_db.writer() as conn:
        for uuid_, category in ((regular, 'regular'), (server_id, 'storage')):
            conn.execute(sa.insert(tables_api.instance_mappings).values(
                instance_uuid=uuid_, cell_uuid=cell, project_id=base.PROJECT, user_id=base.USER,
                vcpus=1, memory_mb=1, created_at=server_rows.START, category=category))
    return cloud, regular, server_id


def listed(client, query=''):
    answer = client.get('/servers' + query)
    assert answer.status == 200, answer.body
    return {server['id'] for server in answer.json['servers']}


def test_users_list_regular_servers_only(both):
    cloud, regular, server_id = both
    user, admin = cloud.client(), cloud.admin(project=base.PROJECT)
    assert listed(user) == {regular} and listed(user, '/detail') == {regular}
    assert listed(user, '?uuid=' + server_id) == {regular}                       # no filter of a user's
    assert listed(user, '?tags=hidden') == {regular}                             # before 2.26
    assert {s['id'] for s in user.get('/servers?tags=hidden', version='2.26').json['servers']} == set()
    assert listed(user, IN_STORAGE) == {regular}                                 # ignored, as filters of administrators
    assert listed(admin) == {regular, server_id} and listed(admin, IN_STORAGE) == {server_id}
    assert listed(admin, f'?{KEY}=regular') == {regular} and listed(admin, f'?{KEY}=none') == set()
    assert listed(cloud.admin(project='p'), '?all_tenants=1' + IN_STORAGE.replace('?', '&')) == {server_id}
    assert admin.get('/servers' + IN_STORAGE, version='2.104').status == 200
    assert user.get(f'/servers?marker={server_id}').status == 400


def test_a_user_who_may_filter_by_all_finds_no_administrative_servers(both):
    cloud, _regular, server_id = both
    allow(cloud, 'os_compute_api:servers:allow_all_filters')
    assert listed(cloud.client(), IN_STORAGE) == set()
    assert listed(cloud.client(), '?uuid=' + server_id) == set()


OF_A_SERVER = [
    ('GET', '', None), ('PUT', '', {'server': {'name': 'n'}}), ('DELETE', '', None),
    ('GET', '/metadata', None), ('POST', '/metadata', {'metadata': {'a': 'b'}}), ('GET', '/tags', None),
    ('PUT', '/tags/a', None), ('GET', '/ips', None), ('GET', '/os-interface', None),
    ('POST', '/os-interface', {'interfaceAttachment': {}}), ('GET', '/os-volume_attachments', None),
    ('POST', '/os-volume_attachments', {'volumeAttachment': {'volumeId': NOWHERE}}),
    ('GET', '/os-instance-actions', None), ('GET', '/os-security-groups', None), ('GET', '/os-server-password', None),
    ('GET', '/os-console-screenshot', None),
    ('POST', '/remote-consoles', {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}),
    *(('POST', '/action', body) for body in (
        {'reboot': {'type': 'SOFT'}}, {'reboot': {'type': 'HARD'}}, {'os-stop': None}, {'os-start': None},
        {'pause': None}, {'suspend': None}, {'lock': None}, {'rescue': None}, {'shelve': None},
        {'createImage': {'name': 'n'}}, {'resize': {'flavorRef': '1'}}, {'rebuild': {'imageRef': NOWHERE}},
        {'os-getConsoleOutput': {}}, {'changePassword': {'adminPass': 'a'}}, {'confirmResize': None},
        {'addSecurityGroup': {'name': 'default'}})),
]


@pytest.mark.parametrize(('method', 'path', 'body'), OF_A_SERVER, ids=lambda value: str(value)[:40])
def test_for_a_user_it_is_not_there(both, method, path, body):
    """Exactly as a server that is not there at all."""
    cloud, _regular, server_id = both
    missing = str(uuid.uuid4())
    body_of = {server_id: body, missing: body}
    answers = {ident: cloud.client(version='2.60' if 'remote' in path or 'tags' in path else None).request(
        method, f'/servers/{ident}{path}', body_of[ident]) for ident in (server_id, missing)}
    assert answers[server_id].status == 404
    assert answers[server_id].body.replace(server_id.encode(), missing.encode()) == answers[missing].body
    assert cloud.compute.sent == [] and cloud.conductor.sent == []
    row = cloud.row(server_id)
    assert row['task_state'] is None and row['display_name'] == server_rows.row(2)['display_name']


def test_administrator_manages_servers_of_a_category(both):
    cloud, _regular, server_id = both
    admin = cloud.admin()
    assert admin.post(f'/servers/{server_id}/action', {'os-stop': None}).status == 202
    assert admin.delete(f'/servers/{server_id}').status == 204


MANAGER = {'roles': ('manager', 'member', 'reader')}


@pytest.mark.parametrize('kind', ['SOFT', 'HARD', 'delete'])
def test_user_who_manages_a_category_must_name_it(both, kind):
    """A user whom a rule lets manage it names the category; others are refused even so."""
    cloud, regular, server_id = both

    def ask(client, query='', ident=server_id):
        if kind == 'delete':
            return client.delete(f'/servers/{ident}{query}').status
        return client.post(f'/servers/{ident}/action{query}', {'reboot': {'type': kind}}).status
    done = 204 if kind == 'delete' else 202
    assert ask(cloud.client()) == 404 and ask(cloud.client(), IN_STORAGE) == 403
    manager = cloud.client(**MANAGER)
    assert ask(manager) == 404 and ask(manager, f'?{KEY}=vpn') == 404
    assert ask(cloud.client(project='p', **MANAGER), IN_STORAGE) == 404
    assert cloud.row(server_id)['task_state'] is None
    assert ask(manager, IN_STORAGE) == done
    assert cloud.row(server_id)['task_state'] is not None
    assert ask(cloud.client(), IN_STORAGE, regular) == done                # without effect on a regular server


def test_naming_the_category_opens_nothing_else(both):
    cloud, _regular, server_id = both
    manager = cloud.client(**MANAGER)
    for method, path, body in OF_A_SERVER:
        if method == 'DELETE' or body and 'reboot' in body:
            continue
        version = '2.60' if 'remote' in path or 'tags' in path else None
        assert manager.request(method, f'/servers/{server_id}{path}{IN_STORAGE}', body,
                               version=version).status in (400, 404), path


def test_bulk_actions_leave_them_alone(both):
    cloud, regular, server_id = both
    asked = {'os-bulk-action': {'action': {'os-stop': None}, 'ids': [regular, server_id]}}
    results = cloud.client().post('/servers/action', asked).json['os-bulk-action']['results']
    assert [result['code'] for result in results] == [202, 404]
    answer = cloud.client().post('/servers/action' + IN_STORAGE, {'os-bulk-action': {'action': {'os-stop': None}}})
    assert answer.status == 400
    answer = cloud.admin(project=base.PROJECT).post(
        '/servers/action' + IN_STORAGE, {'os-bulk-action': {'action': {'os-stop': None}}}).json['os-bulk-action']
    assert [(result['id'], result['code']) for result in answer['results']] == [(server_id, 202)]


def test_usage_reports_of_users_leave_them_out(both):
    cloud, regular, server_id = both
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances).values(launched_at=server_rows.START))
    period = f"?start={server_rows.START.isoformat()}"

    def reported(client, version):
        usage = client.get(f'/os-simple-tenant-usage/{base.PROJECT}{period}', version=version).json['tenant_usage']
        return {server['instance_id'] for server in usage['server_usages']}
    for version in ('2.1', '2.40'):
        assert reported(cloud.client(), version) == {regular}
        assert reported(cloud.admin(), version) == {regular, server_id}


def test_the_event_stream_of_users_leaves_them_out(both):
    from nova.api.projects import events
    cloud, regular, server_id = both
    start = server_rows.START
    assert {row['uuid'] for row in events._Feed(cloud.services, base.PROJECT, start, 'regular').new()} == {regular}
    assert {row['uuid'] for row in events._Feed(cloud.services, base.PROJECT, start).new()} == {regular, server_id}


def test_deleted_ones_are_hidden_too(both):
    cloud, _regular, _server_id = both
    gone = cloud.add_servers(server_rows.row(7, project_id=base.PROJECT, category='storage'), deleted=True)[0]
    since = f'?changes-since={server_rows.START.isoformat()}'
    assert gone not in listed(cloud.client(), since) and gone in listed(cloud.admin(project=base.PROJECT), since)
    assert cloud.client().get(f'/servers/{gone}/os-instance-actions', version='2.21').status == 404


def test_a_regular_server_is_answered_byte_by_byte_as_before(both):
    cloud, regular, _server_id = both
    answers = [cloud.client().get(path).body for path in (f'/servers/{regular}', '/servers/detail', '/servers')]
    assert all(b'categor' not in body for body in answers)


# ---- images and volumes ------------------------------------------------------------

def test_registered_images_are_for_administrators(cloud):
    shown, registered = cloud.image_id, cloud.add_image(name='controller')
    images, user = cloud.services.images, cloud.client()

    def seen(client):
        return {image['id'] for image in client.get('/images').json['images']}
    assert seen(user) == {shown, registered}
    add(cloud, default_image=registered)
    assert seen(user) == {shown} and seen(cloud.admin()) == {shown, registered}
    assert user.get(f'/images/{registered}').status == 404
    assert user.get(f'/images/{registered}/metadata').status == 404
    boot(cloud, user, 400, imageRef=registered)
    boot(cloud, imageRef=registered)
    assert images.show(cloud.owner, registered)['id'] == registered
    cloud.admin().put(f'{URL}/storage', {'instance_category': {'default_image': None}})
    assert seen(user) == {shown, registered}


class Elsewhere(EmbeddedImages):
    """An image service that knows nothing of categories, as Glance: it shows everything to everybody."""

    def __init__(self, store, owner):
        super().__init__(store)
        self.owner = owner

    def show(self, ctx, image_id):
        return super().show(self.owner, image_id)

    def list(self, ctx, *args, **kwargs):
        return super().list(self.owner, *args, **kwargs)

    def delete(self, ctx, image_id):
        super().delete(self.owner, image_id)


def test_registered_images_of_glance_are_hidden_from_users(cloud):
    shown, registered = cloud.image_id, cloud.add_image(name='controller')
    cloud.services.images = Elsewhere(cloud.services.images.store, cloud.owner)
    cloud.conf.set_override('backend', 'glance', group='image')
    add(cloud, default_image=registered, default_flavor='1')
    user, admin = cloud.client(), cloud.admin()
    assert [image['id'] for image in user.get('/images').json['images']] == [shown]
    assert len(admin.get('/images/detail').json['images']) == 2
    for method, path in (('GET', ''), ('DELETE', ''), ('GET', '/metadata'), ('PUT', '/metadata'),
                         ('DELETE', '/metadata/hw_disk_bus')):
        body = {'metadata': {}} if method == 'PUT' else None
        assert user.request(method, f'/images/{registered}{path}', body).status == 404, (method, path)
    assert admin.get(f'/images/{registered}').status == 200
    boot(cloud, user, 400, imageRef=registered)
    allow(cloud, server_category.CREATE)
    assert user.post('/servers', {'server': {'name': 'vm', KEY: 'storage'}}).status == 202
    assert user.delete(f'/images/{shown}').status == 204


def test_a_user_who_may_create_such_servers_gets_the_categorys_image(cloud):
    registered = cloud.add_image(name='controller')
    add(cloud, default_image=registered, default_flavor='1')
    allow(cloud, server_category.CREATE)
    answer = cloud.client().post('/servers', {'server': {'name': 'vm', KEY: 'storage'}})
    assert answer.status == 202, answer.body
    assert cloud.row(answer.json['server']['id'])['image_id'] == registered


def test_purging_and_deleting_let_the_image_go(cloud):
    add(cloud, default_image=cloud.image_id)
    cloud.admin().delete(f'{URL}/storage')
    assert cloud.client().get(f'/images/{cloud.image_id}').status == 200


def test_category_requirements_select_hosts(cloud):
    add(cloud, requirements={'ssd': 'true'})
    assert categories.requirements(cloud.api_db, 'storage') == {'ssd': 'true'}
    assert categories.requirements(cloud.api_db, 'gone') == {} == categories.requirements(None, 'regular')
    with cloud.api_db.reader() as conn, pytest.raises(exception.CategoryNotFound):
        categories.get(conn, 'gone')


@pytest.mark.threads
def test_a_shared_volume_of_an_administrative_server_is_not_to_be_had(both):
    cloud, regular, server_id = both
    of_user = cloud.add_volume(regular, multiattach=True)
    of_admin = cloud.add_volume(server_id, multiattach=True)
    other = cloud.add_server(3, host=servers.HOST, node=servers.NODE)
    url = f'/servers/{other}/os-volume_attachments'
    codes = [client.post(url, {'volumeAttachment': {'volumeId': volume}}, version='2.60').status
             for client, volume in ((cloud.client(), of_user), (cloud.client(), of_admin), (cloud.admin(), of_admin))]
    assert codes == [200, 404, 200]
    device = {'source_type': 'volume', 'destination_type': 'volume', 'uuid': of_admin, 'boot_index': -1}
    body = cloud.body(block_device_mapping_v2=[device], networks='none')
    assert cloud.client().post('/servers', body, version='2.60').status == 400


def test_members_of_a_group_that_a_user_sees(cloud):
    add(cloud)
    admin, user = cloud.admin(project=base.PROJECT), cloud.client()
    group = user.post('/os-server-groups', {'server_group': {'name': 'g', 'policies': ['affinity']}}).json[
        'server_group']['id']
    ids = [admin.post('/servers', {**cloud.body(**values), 'os:scheduler_hints': {'group': group}}).json['server']['id']
           for values in ({}, {KEY: 'storage'})]
    for path in (f'/os-server-groups/{group}', '/os-server-groups'):
        shown = [client.get(path).json for client in (user, admin)]
        found = [body['server_group'] if 'server_group' in body else body['server_groups'][0] for body in shown]
        assert found[0]['members'] == ids[:1] and sorted(found[1]['members']) == sorted(ids)
