"""The Volumes interface over both homes, and what is sent to a Block Storage service and read from it."""
import json

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.cloud import assembly
from nova.db import engine
from nova.db.tables import volume as tables_volume
from nova.image.embedded.images import EmbeddedImages
from nova.image.embedded import service as image_store
from nova.tests import image_service as service
from nova.tests.support.volumes import UNFINISHED
from nova.tests.support.waiting import wait_for
from nova.volume import cinder
from nova.volume import embedded
from nova.volume.rest.app import Application

SERVER, OTHER = '11111111-2222-3333-4444-555555555555', '66666666-2222-3333-4444-555555555555'
CONNECTOR = {'host': 'h1', 'ip': '192.0.2.1', 'initiator': 'iqn.x'}
ABSENT = '99999999-2222-3333-4444-555555555555'


def home_of(directory, db):
    return embedded.EmbeddedVolumes(nova_conf.new(files=[], state_path=str(directory)), db, None)


def user(project, **values):
    return context.RequestContext(user_id='u', project_id=project, roles=['member', 'reader'], overwrite=False,
                                  auth_token='x:' + project, **values)


def system():
    return user(service.ADMIN, is_admin=True)


def ended(show):
    """Wait for the data of the volume or snapshot that ``show()`` returns; return its id."""
    return wait_for(lambda: (found := show())['status'] not in UNFINISHED and found['id'], 60, 'the data')


def volume_of(home, ctx, *args, **values):
    """The id of a new volume that has its data."""
    made = home.create(ctx, *args, **values)
    return ended(lambda: home.get(ctx, made['id']))


def snapshot_of(home, ctx, volume_id, name):
    made = home.create_snapshot(ctx, volume_id, name)
    return ended(lambda: home.get_snapshot(ctx, made['id']))


@pytest.fixture(params=['embedded', 'cinder'])
def home(request, tmp_path):
    """The Volumes of one home."""
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    tables_volume.volumes.metadata.create_all(db.engine)
    images = EmbeddedImages(image_store.Store(db, str(tmp_path / 'images')))
    conf = nova_conf.new(files=[], host='h1', state_path=str(tmp_path), volume__gigabytes=20)
    store = embedded.EmbeddedVolumes(conf, db, images)
    store.images = images
    if request.param == 'embedded':
        store.made_images = images
        yield store
        return
    with service.listening(Application(store)) as address:
        conf = nova_conf.new(files=[], volume__backend='cinder', cinder__endpoint_override=address,
                             cinder__auth_type='none')
        volumes = assembly.volumes(conf, db, images)
        assert isinstance(volumes, cinder.CinderVolumes)
        volumes.made_images = images
        yield volumes


def test_volumes_are_created_and_shown(home):
    alice = user(service.ALICE)
    made = volume_of(home, alice, 2, name='data', description='d')
    volume = home.get(alice, made)
    assert (volume['name'], volume['size'], volume['status'], volume['bootable'], volume['multiattach']) == (
        'data', 2, 'available', False, False)
    assert volume['project_id'] == service.ALICE and volume['attachments'] == []
    home.check_type(alice, '__DEFAULT__')
    with pytest.raises(exception.VolumeTypeNotFound):
        home.check_type(alice, 'fast')
    home.delete(alice, made)
    with pytest.raises(exception.VolumeNotFound):
        home.get(alice, made)


def test_volume_is_created_from_an_image(home, tmp_path):
    alice = user(service.ALICE)
    image = home.made_images.create(alice, {'name': 'i', 'min_disk': 2, 'properties': {'os_distro': 'x'}})
    path = tmp_path / 'disk'
    path.write_bytes(b'\0' * 4096)
    home.made_images.upload(alice, image['id'], str(path), 'raw')
    volume = volume_of(home, alice, 2, image_id=image['id'])
    assert home.get(alice, volume)['bootable'] is True
    assert home.get(alice, volume)['image_metadata']['os_distro'] == 'x'
    blank = volume_of(home, alice, 2)
    home.attach(system(), blank, SERVER)
    home.reimage(system(), blank, image['id'])               # a rebuild's way: the server keeps its hold
    assert home.get(alice, blank)['bootable'] is True
    with pytest.raises(exception.BadRequest):
        home.create(alice, 1, image_id=image['id'])
    with pytest.raises(exception.NotFound):
        home.create(alice, 2, image_id=ABSENT)


def test_attachment_is_reserved_completed_and_deleted(home):
    alice, service_user = user(service.ALICE), system()
    volume_id = volume_of(home, alice, 1)
    attachment = home.attach(service_user, volume_id, SERVER)
    assert home.get(alice, volume_id)['status'] == 'reserved'
    with pytest.raises(exception.InvalidVolume, match='^Invalid volume: (?!Invalid volume).*reserved'):
        home.attach(service_user, volume_id, OTHER)
    with pytest.raises(exception.InvalidVolume):
        home.begin_detaching(service_user, volume_id)
    info = home.connect(service_user, attachment, CONNECTOR, '/dev/vdb')
    assert info['driver_volume_type'] == 'local' and info['data']['volume_id'] == volume_id
    assert home.get(alice, volume_id)['status'] == 'attaching'
    home.complete(service_user, attachment)
    volume = home.get(alice, volume_id)
    assert volume['status'] == 'in-use'
    held, = volume['attachments']
    assert (held['id'], held['instance_uuid'], held['device'], held['host']) == (attachment, SERVER, '/dev/vdb', 'h1')
    assert home.attachments_of(service_user, SERVER) == [attachment]
    # a server that moves has two for a while
    fresh = home.attach(service_user, volume_id, SERVER)
    home.detach(service_user, attachment)
    home.connect(service_user, fresh, CONNECTOR, '/dev/vdb')
    home.complete(service_user, fresh)
    with pytest.raises(exception.InvalidVolume):
        home.delete(alice, volume_id)
    home.begin_detaching(service_user, volume_id)
    with pytest.raises(exception.InvalidVolume, match='detaching'):
        home.begin_detaching(service_user, volume_id)
    home.roll_detaching(service_user, volume_id)
    assert home.get(alice, volume_id)['status'] == 'in-use'
    home.detach(service_user, fresh)
    home.detach(service_user, fresh)
    assert home.get(alice, volume_id)['status'] == 'available' and home.attachments_of(service_user, SERVER) == []


def test_snapshots_are_created_and_deleted(home):
    alice = user(service.ALICE)
    volume_id = volume_of(home, alice, 2)
    snapshot = snapshot_of(home, alice, volume_id, 'one')
    assert home.get_snapshot(alice, snapshot)['size'] == 2
    with pytest.raises(exception.InvalidVolume, match='snapshots'):
        home.delete(alice, volume_id)
    assert home.get(alice, volume_of(home, alice, None, snapshot_id=snapshot))['size'] == 2
    with pytest.raises(exception.BadRequest):
        home.create(alice, 1, snapshot_id=snapshot)
    home.delete_snapshot(alice, snapshot)
    home.delete_snapshot(alice, snapshot)
    with pytest.raises(exception.VolumeSnapshotNotFound):
        home.get_snapshot(alice, snapshot)
    with pytest.raises(exception.Forbidden):
        home.create(alice, 19)


def test_volume_and_snapshot_lists_are_paged_by_project(home):
    alice, bob = user(service.ALICE), user(service.BOB)
    volumes = [volume_of(home, alice, 1, name=name) for name in 'abc']
    snapshots = [snapshot_of(home, alice, volumes[0], name) for name in 'xyz']
    home.create(bob, 1)
    for listed, made, names in ((home.list, volumes, 'abc'), (home.list_snapshots, snapshots, 'xyz')):
        assert [(row['id'], row['name'], row['project_id']) for row in listed(alice, 10)] == [
            (ident, name, service.ALICE) for ident, name in zip(made[::-1], names[::-1])]
        assert [row['id'] for row in listed(alice, 1, offset=1)] == [made[1]] and listed(alice, 5, offset=3) == []
    assert len(home.list(bob, 10)) == 1 and home.list_snapshots(bob, 10) == []


def test_volumes_of_other_users_and_invalid_ids_are_not_found(home):
    volume_id = volume_of(home, user(service.ALICE), 1)
    bob = user(service.BOB)
    for ident in (volume_id, ABSENT, '../../v3/volumes', '', None, 'a/b?c', 'x' * 300):
        for call in (home.get, home.delete, home.begin_detaching, lambda ctx, ident: home.attach(ctx, ident, SERVER)):
            with pytest.raises((exception.VolumeNotFound, exception.Forbidden)):
                call(bob, ident)
        with pytest.raises(exception.VolumeSnapshotNotFound):
            home.get_snapshot(bob, ident)
    assert home.get(user(service.ALICE), volume_id)['status'] == 'available'


def test_users_do_not_touch_attachments(tmp_path):
    """What belongs to a server in use is for services and administrators: a user who could delete the attachment of
    a running server's volume could give the volume to another one."""
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    tables_volume.volumes.metadata.create_all(db.engine)
    store = home_of(tmp_path, db)
    alice = service.Client(Application(store))
    volume = volume_of(store, user(service.ALICE), 1)
    attachment = store.attach(system(), volume, SERVER)
    for method, path, body in (
            ('DELETE', f'/v3/attachments/{attachment}', None),
            ('PUT', f'/v3/attachments/{attachment}', {'attachment': {'connector': CONNECTOR}}),
            ('POST', '/v3/attachments', {'attachment': {'volume_uuid': volume, 'instance_uuid': OTHER}}),
            ('POST', f'/v3/attachments/{attachment}/action', {'os-complete': None}),
            ('POST', f'/v3/volumes/{volume}/action', {'os-reimage': {
                'image_id': ABSENT, 'reimage_reserved': True}}),
            ('POST', f'/v3/volumes/{volume}/action', {'os-begin_detaching': {}}),
            ('POST', f'/v3/volumes/{volume}/action', {'os-reset_status': {'status': 'available'}})):
        assert alice(method, path, body).status == 403
    assert alice('GET', f'/v3/attachments/{attachment}').json['attachment']['instance'] == SERVER
    assert service.Client(Application(store), service.BOB)('GET', f'/v3/attachments/{attachment}').status == 404
    assert service.Client(Application(store), roles=('reader',))('POST', '/v3/volumes', {
        'volume': {'size': 1}}).status == 403


def test_a_refused_connector_leaves_no_attachment(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    tables_volume.volumes.metadata.create_all(db.engine)
    store = home_of(tmp_path, db)
    volume = volume_of(store, user(service.ALICE), 1)
    admin = service.Client(Application(store), service.ALICE, roles=('admin',))
    refused = admin('POST', '/v3/attachments', {'attachment': {
        'volume_uuid': volume, 'instance_uuid': SERVER, 'connector': {**CONNECTOR, 'host': 'a b'}}})
    assert refused.status == 400 and 'not a valid host name' in refused.json['badRequest']['message']
    assert admin('GET', f'/v3/volumes/{volume}').json['volume']['status'] == 'available'
    assert admin('GET', '/v3/attachments').json == {'attachments': []}


@pytest.mark.parametrize('version, fields', [
    (None, ()), ('3.0', ()), ('3.13', ('group_id',)), ('3.47', ('group_id', 'provider_id')),
    ('3.60', ('group_id', 'provider_id', 'service_uuid', 'shared_targets')),
    ('latest', ('group_id', 'provider_id', 'service_uuid', 'shared_targets', 'volume_type_id', 'consumes_quota'))])
def test_fields_follow_the_microversion(tmp_path, version, fields):
    """A client that validates an answer met fields of versions that it had not asked for."""
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    tables_volume.volumes.metadata.create_all(db.engine)
    store = home_of(tmp_path, db)
    alice = service.Client(Application(store))
    headers = {'OpenStack-API-Version': f'compute 2.90, volume {version}'} if version else {}
    made = alice('POST', '/v3/volumes', {'volume': {'size': 1}}, headers=headers)
    assert made.headers['openstack-api-version'] == f'volume {version or "3.0"}'.replace('latest', '3.68')
    shown = alice('GET', f'/v3/volumes/{made.json["volume"]["id"]}', headers=headers).json['volume']
    new = {'group_id', 'provider_id', 'service_uuid', 'shared_targets', 'volume_type_id', 'consumes_quota',
           'cluster_name', 'encryption_key_id'}
    assert new & shown.keys() == set(fields)
    assert shown.keys() - made.json['volume'].keys() == {'os-vol-tenant-attr:tenant_id'}
    ended(lambda: store.get(system(), shown['id']))
    snapshot = alice('POST', '/v3/snapshots', {'snapshot': {'volume_id': shown['id']}},
                     headers=headers).json['snapshot']
    assert ('user_id' in snapshot) == (len(fields) > 1) and ('group_snapshot_id' in snapshot) == (len(fields) > 1)


@pytest.mark.parametrize('version, code', [
    ('3.69', 406), ('2.0', 400), ('x', 400), ('3.01', 400), ('3.' + '9' * 9, 400)])
def test_unsupported_volume_microversion_is_refused(tmp_path, version, code):
    alice = service.Client(Application(home_of(tmp_path, None)))
    answer = alice('GET', '/v3/volumes', headers={'OpenStack-API-Version': f'volume {version}'})
    assert (answer.status, answer.headers['openstack-api-version']) == (code, 'volume 3.0')


def test_multiattach_type_and_cascading_delete_work(tmp_path):
    """A volume that several servers may have is asked for by a type; its snapshots may go with it."""
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    tables_volume.volumes.metadata.create_all(db.engine)
    store = home_of(tmp_path, db)
    alice = service.Client(Application(store))
    types = {each['name']: each for each in alice('GET', '/v3/types').json['volume_types']}
    assert types.keys() == {'__DEFAULT__', 'multiattach'}
    ident = types['multiattach']['id']
    assert alice('GET', f'/v3/types/{ident}/extra_specs').json['extra_specs'] == {'multiattach': '<is> True'}
    made = alice('POST', '/v3/volumes', {'volume': {'size': 1, 'volume_type': ident}}).json['volume']
    assert (made['volume_type'], made['multiattach']) == ('multiattach', True)
    assert not alice('POST', '/v3/volumes', {'volume': {'size': 1}}).json['volume']['multiattach']
    ended(lambda: store.get(system(), made['id']))
    snapshot = alice('POST', '/v3/snapshots', {'snapshot': {'volume_id': made['id']}}).json['snapshot']
    ended(lambda: store.get_snapshot(system(), snapshot['id']))
    assert alice('DELETE', f'/v3/volumes/{made["id"]}').status == 400
    assert alice('DELETE', f'/v3/volumes/{made["id"]}?cascade=True').status == 202
    assert alice('GET', f'/v3/snapshots/{snapshot["id"]}').status == 404


def test_lists_of_the_face(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    tables_volume.volumes.metadata.create_all(db.engine)
    alice = service.Client(Application(home_of(tmp_path, db)))
    ids = [alice('POST', '/v3/volumes', {'volume': {'size': size, 'name': name}}).json['volume']['id']
           for size, name in ((3, 'b'), (1, 'a'), (2, None), (2, 'b'))]

    def listed(query):
        return [ids.index(each['id']) for each in alice('GET', '/v3/volumes' + query).json['volumes']]
    assert listed('') == [3, 2, 1, 0] and listed('?limit=0') == []
    assert listed('?sort=size:asc,created_at:asc') == [1, 2, 3, 0] and listed('?name=b&sort=size:asc') == [3, 0]
    for sort in ('name:asc,created_at:asc', 'bootable:asc', 'size:desc', 'created_at:desc', 'name:desc'):
        found, query = [], f'?limit=1&sort={sort}'
        while query:
            answer = alice('GET', '/v3/volumes' + query).json
            found += [ids.index(each['id']) for each in answer['volumes']]
            query = '?' + answer['volumes_links'][0]['href'].partition('?')[2] if 'volumes_links' in answer else None
        assert found == listed('?sort=' + sort)
    for query in ('?marker=' + ABSENT, '?limit=x', '?sort=secret', '?sort=size:up', '?offset=-1'):
        assert alice('GET', '/v3/volumes' + query).status == 400
    assert service.Client(Application(home_of(tmp_path, db)), service.BOB)(
        'GET', '/v3/volumes?all_tenants=1').json['volumes'] == []


# ---- the requests of the documented API --------------------------------------

class Recorded:
    """A service that says what it is told to, and keeps what it was asked."""

    def __init__(self):
        self.asked, self.answers, self.queries = [], {}, []

    def __call__(self, environ, start_response):
        size = int(environ.get('CONTENT_LENGTH') or 0)
        body = environ['wsgi.input'].read(size)
        path = environ['PATH_INFO']
        self.queries.append(environ['QUERY_STRING'])
        self.asked.append((environ['REQUEST_METHOD'], path, json.loads(body) if body else None, {
            name: environ.get('HTTP_' + name) for name in ('OPENSTACK_API_VERSION', 'X_AUTH_TOKEN')}))
        code, document = self.answers.get((environ['REQUEST_METHOD'], path), (404, {'itemNotFound': {
            'code': 404, 'message': 'it is not there'}}))
        start_response(f'{code} X', [('Content-Type', 'application/json')])
        return [json.dumps(document).encode() if document is not None else b'']


@pytest.fixture
def recorded():
    made = Recorded()
    with service.listening(made) as address:
        conf = nova_conf.new(files=[], cinder__endpoint_override=address + '/v3/their-project',
                             cinder__auth_type='none', barbican__endpoint_override=address + '/v1')
        made.volumes = cinder.CinderVolumes(conf)
        yield made


def test_volume_lists_of_cinder_are_requested_and_translated(recorded):
    """Documents as the Block Storage API has them in its reference."""
    recorded.answers = {
        ('GET', '/v3/p1/volumes/detail'): (200, {'volumes': [{
            'id': 'v1', 'name': 'vol-002', 'description': None, 'status': 'in-use', 'size': 2, 'bootable': 'false',
            'multiattach': False, 'encrypted': False, 'metadata': {}, 'volume_type': '__DEFAULT__', 'snapshot_id': None,
            'availability_zone': 'nova', 'os-vol-tenant-attr:tenant_id': 'p1', 'migration_status': None,
            'created_at': '2017-04-11T09:10:34.000000', 'attachments': [{
                'attachment_id': 'a1', 'server_id': SERVER, 'device': '/dev/vdb', 'host_name': 'h1'}]}]}),
        ('GET', '/v3/p1/snapshots/detail'): (200, {'snapshots': [{
            'id': 's1', 'name': 'snap-001', 'volume_id': 'v1', 'status': 'available', 'size': 2, 'description': None,
            'created_at': '2017-04-11T09:10:34.000000', 'os-extended-snapshot-attributes:project_id': 'p1'}]})}
    row, = recorded.volumes.list(user('p1'), 5, offset=7)
    assert (row['id'], row['name'], row['status'], row['bootable'], row['project_id'], row['attachments']) == (
        'v1', 'vol-002', 'in-use', False, 'p1', [
            {'id': 'a1', 'instance_uuid': SERVER, 'device': '/dev/vdb', 'host': 'h1'}])
    row, = recorded.volumes.list_snapshots(user('p1'), 5)
    assert (row['id'], row['volume_id'], row['size'], row['project_id']) == ('s1', 'v1', 2, 'p1')
    assert recorded.queries == ['limit=5&offset=7', 'limit=5&offset=0']
    recorded.answers['GET', '/v3/p1/volumes/detail'] = (400, {'badRequest': {'code': 400, 'message': 'a reason'}})
    with pytest.raises(exception.InvalidVolume, match='a reason'):
        recorded.volumes.list(user('p1'), 5)


def test_attachment_calls_follow_the_cinder_api(recorded):
    ctx, root = user('p1'), '/v3/p1'
    recorded.answers = {
        ('POST', root + '/attachments'): (200, {'attachment': {'id': 'a1', 'status': 'reserved'}}),
        # the documents of the API show the connection's data beside its kind
        ('PUT', root + '/attachments/a1'): (200, {'attachment': {'id': 'a1', 'status': 'attaching', 'connection_info': {
            'driver_volume_type': 'iscsi', 'target_iqn': 'iqn.y', 'target_lun': 1, 'access_mode': 'rw'}}}),
        ('POST', root + '/attachments/a1/action'): (204, None), ('DELETE', root + '/attachments/a1'): (200, {
            'attachments': []})}
    assert recorded.volumes.attach(ctx, 'v1', SERVER) == 'a1'
    info = recorded.volumes.connect(ctx, 'a1', CONNECTOR, '/dev/vdb')
    assert info == {'driver_volume_type': 'iscsi', 'data': {
        'target_iqn': 'iqn.y', 'target_lun': 1, 'access_mode': 'rw'}, 'host': 'h1'}
    recorded.volumes.complete(ctx, 'a1')
    recorded.volumes.detach(ctx, 'a1')
    assert [(method, path, body) for method, path, body, _ in recorded.asked] == [
        ('POST', root + '/attachments', {'attachment': {
            'volume_uuid': 'v1', 'instance_uuid': SERVER, 'connector': None}}),
        ('PUT', root + '/attachments/a1', {'attachment': {'connector': {**CONNECTOR, 'mountpoint': '/dev/vdb'}}}),
        ('POST', root + '/attachments/a1/action', {'os-complete': None}),
        ('DELETE', root + '/attachments/a1', None)]
    assert {(headers['OPENSTACK_API_VERSION'], headers['X_AUTH_TOKEN']) for *_, headers in recorded.asked} == {
        ('volume 3.44', 'x:p1')}


@pytest.mark.parametrize('held', ['a0', None])
def test_failed_attachment_of_a_migration_removes_only_what_it_has_created(recorded, monkeypatch, held):
    """``held`` is None for a device whose attachment this service does not know."""
    path, rows = '/v3/p1/attachments', [{'id': 'a0', 'volume_id': 'v1'}, {'id': 'b0', 'volume_id': 'v2'}]
    recorded.answers['GET', path] = (200, {'attachments': rows})

    def fail(*_args):
        rows.append({'id': 'a1', 'volume_id': 'v1'})
        raise exception.Unavailable()
    monkeypatch.setattr(recorded.volumes, '_attach', fail)
    with pytest.raises(exception.Unavailable):
        recorded.volumes.attach_elsewhere(user('p1'), 'v1', SERVER, held, CONNECTOR, '/dev/vdb')
    assert [path for method, path, *_ in recorded.asked if method == 'DELETE'] == [path + '/a1']


@pytest.mark.parametrize('code, error', [
    (400, exception.InvalidVolume), (401, exception.Unavailable), (403, exception.Forbidden),
    (404, exception.VolumeNotFound), (409, exception.InvalidVolume), (413, exception.Forbidden),
    (500, exception.Unavailable), (503, exception.Unavailable)])
def test_errors_of_cinder_are_mapped(recorded, code, error):
    recorded.answers['GET', '/v3/p1/volumes/v1'] = (code, {'fault': {'code': code, 'message': 'a reason'}})
    with pytest.raises(error) as caught:
        recorded.volumes.get(user('p1'), 'v1')
    assert ('a reason' in caught.value.message) == (code in (400, 409))


def test_unreachable_cinder_raises_unavailable():
    conf = nova_conf.new(files=[], cinder__endpoint_override='http://127.0.0.1:9', cinder__auth_type='none')
    with pytest.raises(exception.Unavailable):
        cinder.CinderVolumes(conf).get(user('p1'), 'v1')


def test_swap_requested_by_cinder_completes_its_migration(recorded):
    recorded.answers = {
        ('GET', '/v3/p1/volumes/v1'): (200, {'volume': {
            'id': 'v1', 'status': 'in-use', 'size': 1, 'migration_status': 'migrating'}}),
        ('POST', '/v3/p1/volumes/v1/action'): (200, {'save_volume_id': 'v1'})}
    assert recorded.volumes.complete_migration(user('p1'), 'v1', 'v2', False) == 'v1'
    assert recorded.asked[-1][2] == {'os-migrate_volume_completion': {'new_volume': 'v2', 'error': False}}
    recorded.answers['GET', '/v3/p1/volumes/v1'][1]['volume']['migration_status'] = None
    assert recorded.volumes.complete_migration(user('p1'), 'v1', 'v2', False) == 'v2'


def test_key_of_an_encrypted_volume_is_read_for_its_user(recorded):
    """integration/test_barbican.py has a real Key Manager service."""
    alice, encryption, secret = user('p1'), ('GET', '/v3/p1/volumes/v1/encryption'), '/v1/secrets/' + ABSENT
    found = {'encryption_key_id': ABSENT, 'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256,
             'control_location': 'front-end'}
    recorded.answers = {encryption: (200, found), ('GET', secret): (200, {'secret_type': 'symmetric'}),
                        ('GET', secret + '/payload'): (200, 'ab')}
    assert recorded.volumes.passphrase(alice, 'v1') == b'"ab"'.hex()
    assert [(path, headers['X_AUTH_TOKEN']) for _method, path, _body, headers in recorded.asked] == [
        (encryption[1], 'x:p1'), (secret, 'x:p1'), (secret + '/payload', 'x:p1')]
    for change, why in (({'provider': 'plain'}, 'hosts support only LUKS'), ({'control_location': 'back-end'}, 'LUKS'),
                        ({'encryption_key_id': '../orders'}, 'invalid id'),
                        ({'encryption_key_id': SERVER}, 'refuses access to its key')):
        recorded.answers[encryption] = (200, {**found, **change})
        with pytest.raises(exception.InvalidVolume, match=why):
            recorded.volumes.passphrase(alice, 'v1')
