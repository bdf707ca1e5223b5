"""Encrypted volumes of the embedded block storage, by the real qemu-img: what their files hold, who gets the key, and
what is refused. With a real guest: integration/test_libvirt_encrypted_volumes.py."""
import contextlib
import logging
import pathlib
import shutil
import subprocess
import threading

import pytest
import sqlalchemy as sa
import yaml

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.db.tables import cell as cell_tables
from nova.db.tables import volume as tables
from nova.db.volumes import volumes as db
from nova.tests import image_service as service
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import volume_backups as base
from nova.tests.support.encrypted_volumes import LUKS
from nova.tests.support.encrypted_volumes import MARK
from nova.tests.support.encrypted_volumes import io
from nova.tests.support.encrypted_volumes import is_written
from nova.volume import cinder
from nova.volume import embedded
from nova.volume.rest.app import Application
from nova.volume.store import luks


pytestmark = pytest.mark.skipif(shutil.which('qemu-io') is None, reason='needs qemu-img and qemu-io')
GIB = 2 ** 30
ask, ready = base.ask, base.ready


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), volume__gigabytes=100) as made:
        made.store = embedded.EmbeddedVolumes(made.conf, made.api_db, made.images)
        admin = made.admin()
        kind = ask(admin, 'POST', '/types', {'volume_type': {'name': 'sealed'}}, 200)['volume_type']
        ask(admin, 'POST', f'/types/{kind["id"]}/encryption', {'encryption': {'provider': 'luks'}}, 200)
        yield made


@pytest.fixture
def user(cloud):
    return cloud.client()


@pytest.fixture(scope='module')
def sealed(cloud):
    """The id of an encrypted volume that is there for all tests: to make a key of LUKS takes two seconds."""
    return volume(cloud.client(), volume_type='sealed')


def volume(client, **values):
    ident = ask(client, 'POST', '/volumes', {'volume': {'size': 1, **values}})['volume']['id']
    return ready(client, f'/volumes/{ident}', 'volume')['id']


def is_there(path, key):
    """Whether the passphrase opens a file."""
    return bool(io(path, key, 'read 0 4k'))


def keys(cloud):
    """Rows of the keys that there are."""
    with cloud.api_db.reader() as conn:
        return conn.execute(sa.select(tables.volume_encryption_keys)).mappings().all()


def passphrase(cloud, volume_id):
    return cloud.store.passphrase(context.admin_context(), volume_id)


def test_copies_of_an_encrypted_volume_are_encrypted_and_share_its_key(cloud, user, sealed):
    """Its snapshots, copies and backups are encrypted, too, and read the same; its key goes with the last of them."""
    before = len(keys(cloud))
    ident = volume(user, volume_type='sealed')
    files, key = cloud.store.files, passphrase(cloud, ident)
    shown = user.get(f'/volume/v3/volumes/{ident}', headers={'OpenStack-API-Version': 'volume 3.64'}).json()['volume']
    (row,) = [each for each in keys(cloud) if each['id'] == shown['encryption_key_id']]
    assert shown['encrypted'] is True and key not in str(dict(row)) and len(key) == 64
    assert ask(user, 'GET', f'/volumes/{ident}/encryption', code=200) == {
        'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256, 'control_location': 'front-end',
        'encryption_key_id': row['id'], 'nova:key_keeper': 'block-storage'}
    assert ask(user, 'GET', f'/volumes/{ident}/encryption/cipher', code=200) == {'cipher': 'aes-xts-plain64'}
    path = pathlib.Path(files.volume(ident))
    assert path.stat().st_size == GIB + luks.header_bytes(str(path)) and path.stat().st_blocks * 512 < 8 * 2 ** 20
    io(path, key, 'write -P 0x61 0 64k')
    with open(path, 'rb') as file:
        begin = file.read(4 * 2 ** 20)
    assert begin.startswith(LUKS) and b'a' * 64 not in begin
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident}})['snapshot']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    io(path, key, 'write -P 0x62 0 64k')
    clone = volume(user, size=2, snapshot_id=snapshot)
    twin = volume(user, source_volid=ident)
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': clone}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    assert passphrase(cloud, sealed) != key
    for made, size, written in ((clone, 2, True), (twin, 1, False)):
        assert ask(user, 'GET', f'/volumes/{made}', code=200)['volume']['volume_type'] == 'sealed'
        found = pathlib.Path(files.volume(made))
        assert passphrase(cloud, made) == key and is_written(found, key) is written
        assert found.stat().st_size == size * GIB + luks.header_bytes(str(found))
    ask(user, 'POST', f'/volumes/{twin}/action', {'os-extend': {'new_size': 3}})
    io(files.volume(twin), key, f'write -P 0x61 {3 * GIB - 65536} 64k')
    assert is_written(files.volume(twin), key, 3 * GIB - 65536)
    for each in (ident, clone, twin):
        if each == ident:
            ask(user, 'DELETE', f'/snapshots/{snapshot}')
        ask(user, 'DELETE', f'/volumes/{each}')
    restored = ask(user, 'POST', f'/backups/{backup}/restore', {'restore': {'name': 'again'}})['restore']['volume_id']
    assert ready(user, f'/volumes/{restored}', 'volume')['volume_type'] == 'sealed'
    ready(user, f'/backups/{backup}', 'backup')
    assert is_written(files.volume(restored), key)
    ask(user, 'DELETE', f'/volumes/{restored}')
    assert len(keys(cloud)) == before + 1            # the backup alone is left
    ask(user, 'DELETE', f'/backups/{backup}')
    assert len(keys(cloud)) == before


def test_an_image_is_encrypted_as_it_comes_and_nobody_sees_the_key(cloud, user, tmp_path, caplog):
    """No file, no log line, no list of processes has what opens it, and its plain bytes are in no file of a volume."""
    caplog.set_level(logging.DEBUG)
    source, raw = tmp_path / 'image', tmp_path / 'raw'
    raw.write_bytes(b'a' * 65536 + MARK + bytes(2 ** 20))
    subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', raw, source], check=True)
    images = [user.upload_image(path.read_bytes(), disk_format=form)
              for path, form in ((raw, 'raw'), (source, 'qcow2'))]
    with processes() as said:
        ident = volume(user, volume_type='sealed', imageRef=images[0])
        # another image on it: the same key opens what comes
        key, path = passphrase(cloud, ident), pathlib.Path(cloud.store.files.volume(ident))
        assert is_written(path, key)
        io(path, key, 'write -P 0x62 0 64k')
        ask(user, 'POST', f'/volumes/{ident}/action', {'os-reimage': {'image_id': images[1]}})
        ready(user, f'/volumes/{ident}', 'volume')
    assert is_written(path, key) and path.stat().st_size == GIB + luks.header_bytes(str(path))
    with open(path, 'rb') as file:
        assert MARK not in file.read(16 * 2 ** 20)
    assert [each.name for each in path.parent.glob('*.part')] == []
    ours = {text for text in said if b'qemu-io' not in text}
    assert any(b'convert' in text for text in ours) and not any(key.encode() in text for text in ours)
    assert 'rule="volume:reimage"' in caplog.text and key not in caplog.text           # the log has the operation
    for each in cloud.state_path.rglob('*'):
        if each.is_file() and each.stat().st_size < 2 ** 26:
            assert key.encode() not in each.read_bytes(), each
    ask(user, 'DELETE', f'/volumes/{ident}')


def test_an_image_that_is_larger_than_it_says_takes_no_room(cloud, user, tmp_path):
    """Holes of an image are encrypted, too: a small file with a large disk in it would fill the host."""
    bomb = tmp_path / 'bomb'
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', bomb, '2G'], check=True)
    image, path = user.upload_image(bomb.read_bytes(), disk_format='qcow2'), pathlib.Path(cloud.store.files.directory)
    answer = user.post('/volume/v3/volumes', {'volume': {'size': 1, 'volume_type': 'sealed', 'imageRef': image}})
    if answer.status_code == 202:                    # an image service that does not know what is in it
        ready(user, f'/volumes/{answer.json()["volume"]["id"]}', 'volume', 'error')
    else:
        assert answer.status_code == 400 and 'larger' in answer.text
    with pytest.raises(exception.ImageUnacceptable, match='larger than the volume'):
        cloud.store.files.image(str(path / image), GIB, 'qcow2',
                                lambda _path, _group: contextlib.nullcontext(str(bomb)), 'k' * 64)
    assert [each.name for each in path.glob(f'{image}*')] == []


@contextlib.contextmanager
def processes():
    """What anybody may see of QEMU's tools that run meanwhile: their command lines and environments."""
    said, ended = set(), threading.Event()

    def watch():
        while not ended.wait(0.002):
            for each in pathlib.Path('/proc').glob('[0-9]*'):
                with contextlib.suppress(OSError):
                    words = (each / 'cmdline').read_bytes()
                    if b'qemu-' in words and b'luks' in words:
                        said.add(words + (each / 'environ').read_bytes())
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield said
    finally:
        ended.set()
        watcher.join()


def test_unsupported_operations_on_encrypted_volumes_are_refused(cloud, user, sealed):
    before = len(keys(cloud))
    another, plain = volume(user, volume_type='sealed'), volume(user)
    for body, word in (({'size': 1, 'volume_type': 'sealed', 'multiattach': True}, 'not support multiattach'),
                       ({'source_volid': sealed, 'volume_type': '__DEFAULT__'}, 'Omit the volume type'),
                       ({'source_volid': plain, 'volume_type': 'sealed'}, 'Omit the volume type')):
        assert word in str(ask(user, 'POST', '/volumes', {'volume': body}, 400))
    assert 'key belongs' in str(ask(user, 'POST', '/volume-transfers', {'transfer': {'volume_id': sealed}}, 400))
    assert 'Encryption cannot be changed' in str(ask(user, 'POST', f'/volumes/{plain}/action', {
        'os-retype': {'new_type': 'sealed'}}, 400))
    kind = ask(user, 'GET', '/types/sealed', code=200)['volume_type']['id']
    for method, tail in (('DELETE', ''), ('DELETE', '/encryption/provider')):
        assert 'copies of encrypted volumes' in str(ask(cloud.admin(), method, f'/types/{kind}{tail}', code=400))
    backups = {}
    for each in (sealed, plain):
        backups[each] = ask(user, 'POST', '/backups', {'backup': {'volume_id': each}})['backup']['id']
        ready(user, f'/backups/{backups[each]}', 'backup')
    for source, target in ((sealed, plain), (plain, sealed), (sealed, another)):
        assert 'different encryption keys' in str(ask(user, 'POST', f'/backups/{backups[source]}/restore', {
            'restore': {'volume_id': target}}, 400))
    ask(user, 'POST', f'/backups/{backups[sealed]}/restore', {'restore': {'volume_id': sealed}})
    ready(user, f'/volumes/{sealed}', 'volume')
    for backup in backups.values():
        ready(user, f'/backups/{backup}', 'backup')
        ask(user, 'DELETE', f'/backups/{backup}')
    for each in (plain, another):
        ask(user, 'DELETE', f'/volumes/{each}')
    assert len(keys(cloud)) == before


def test_a_server_gets_the_key_and_nothing_copies_it_in_the_clear(cloud, user, sealed):
    def kept(volume_id):
        with cloud.cell_db.reader() as conn:
            return conn.execute(sa.select(cell_tables.volume_keys).where(
                cell_tables.volume_keys.c.volume_id == volume_id)).mappings().all()
    ident, image = sealed, user.upload_image()
    server = user.boot('', networks='none', version='2.67', block_device_mapping_v2=[{
        'boot_index': 0, 'uuid': image, 'source_type': 'image', 'destination_type': 'volume', 'volume_size': 1,
        'volume_type': 'sealed', 'delete_on_termination': True}])['id']
    user.wait_for(server)
    (root,) = [row for row in ask(user, 'GET', '/volumes/detail', code=200)['volumes'] if row['attachments']]
    assert root['encrypted'] and root['bootable'] == 'true' and kept(root['id'])
    attached = f'/servers/{server}/os-volume_attachments'
    assert user.post(attached, {'volumeAttachment': {'volumeId': ident}}).status_code == 200
    ready(user, f'/volumes/{ident}', 'volume', 'in-use')
    (row,) = kept(ident)
    assert passphrase(cloud, ident) not in str(dict(row))
    answer = user.request('POST', f'/volume/v3/volumes/{ident}/action', {'os-extend': {'new_size': 2}}, headers={
        'OpenStack-API-Version': 'volume 3.42'})
    assert answer.status_code == 400 and 'encrypted and attached' in answer.text
    # a file system that shares blocks makes the copy, or the guest's QEMU, into an encrypted file
    snapshot = ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': ident, 'force': True}})['snapshot']['id']
    ready(user, f'/snapshots/{snapshot}', 'snapshot')
    backup = ask(user, 'POST', '/backups', {'backup': {'volume_id': ident, 'force': True}})['backup']['id']
    ready(user, f'/backups/{backup}', 'backup')
    assert is_there(cloud.store.files.backup(backup), passphrase(cloud, ident))
    ask(user, 'DELETE', f'/backups/{backup}')
    for path in (pathlib.Path(cloud.store.files.directory) / 'snapshots').iterdir():
        with open(path, 'rb') as file:
            assert file.read(6) == LUKS
    assert user.delete(f'{attached}/{ident}').status_code == 202
    ready(user, f'/volumes/{ident}', 'volume')
    base.wait_for(lambda: not kept(ident), 10, 'the key to go from the cell')
    user.delete(f'/servers/{server}')
    user.wait_for(server, 'DELETED')
    base.wait_for(lambda: not kept(root['id']), 10, 'the key of the root volume to go')
    for row in ask(user, 'GET', f'/snapshots?volume_id={ident}', code=200)['snapshots']:
        ask(user, 'DELETE', f'/snapshots/{row["id"]}')


def test_only_services_are_given_what_opens_a_volume(cloud, user, sealed):
    key, action, body = passphrase(cloud, sealed), f'/volumes/{sealed}/action', {'nova:passphrase': {}}
    own = cloud.client('nova-service')
    for other in (user, cloud.admin()):
        assert key not in str(ask(other, 'POST', action, body, 403))
    assert key not in str(ask(own, 'POST', action, body, 404))          # of a project that the service does not see
    vouched = user.request('POST', '/volume/v3' + action, body, headers={'X-Service-Token': own.token})
    assert vouched.json() == {'passphrase': key}
    # who was given a key, and who asked in vain, is in the audit log
    recorded = [row for row in cloud.admin().get('/os-audit?all_projects=true&limit=50').json()['audit_records']
                if row['action'] == 'volume:give_passphrase' and row['target_id'] == sealed]
    assert {row['code'] for row in recorded} == {200, 403, 404} and key not in str(recorded)
    forged = user.request('POST', '/volume/v3' + action, body, headers={
        'X-Service-Token': user.token, 'X-Service-Roles': 'service', 'X-Roles': 'service'})
    assert forged.status_code == 403 and key not in forged.text
    application = Application(cloud.store)
    for project, roles, code in ((user.project_id, ('reader',), 403), (user.project_id, ('member', 'reader'), 403),
                                 (user.project_id, ('manager',), 403), ('another', ('admin',), 403),
                                 ('another', ('service',), 404), (user.project_id, ('service',), 200)):
        client = service.Client(application, project, roles)
        client.ctx.is_admin = 'admin' in roles
        answer = client('POST', '/v3' + action, body)
        assert (answer.status, key in answer.body.decode()) == (code, code == 200), roles
    # what others see of it is nothing
    assert service.Client(application, 'another')('GET', f'/v3/volumes/{sealed}/encryption').status == 404
    # a plain one has none
    plain = volume(user)
    assert ask(user, 'GET', f'/volumes/{plain}/encryption', code=200) == {'encryption_key_id': None}
    vouched = user.request('POST', f'/volume/v3/volumes/{plain}/action', body, headers={'X-Service-Token': own.token})
    assert vouched.status_code == 400
    ask(user, 'DELETE', f'/volumes/{plain}')


def test_a_fleet_gets_it_from_nova_volume_with_its_own_account(cloud, user, sealed, tmp_path, caplog):
    """Its conductors speak to it as to Cinder: the owner's token shows the volume, their own gets the key."""
    caplog.set_level(logging.DEBUG)
    admin, entry = cloud.admin(), yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-service']['auth']
    own = cloud.client('nova-service')
    roles = {row['name']: row['id'] for row in admin.get('/identity/v3/roles').json()['roles']}
    assigned = f'/identity/v3/projects/{own.project_id}/users/{own.user_id}/roles/{roles["admin"]}'
    assert admin.put(assigned).status_code == 204
    file = tmp_path / 'nova.conf'
    file.write_text(f'[cinder]\nauth_type = password\nauth_url = {cloud.url}/identity/v3\n'
                    f'username = {entry["username"]}\npassword = {entry["password"]}\n'
                    f'project_name = {entry["project_name"]}\n'
                    'user_domain_id = default\nproject_domain_id = default\n'
                    f'endpoint_override = {cloud.url}/volume/v3\n')
    try:
        fleet = cinder.CinderVolumes(nova_conf.new(files=[str(file)]))
        owner = context.RequestContext(user_id=user.user_id, project_id=user.project_id, auth_token=user.token,
                                       overwrite=False)
        stranger = context.RequestContext(user_id=admin.user_id, project_id='another', auth_token='none',
                                          overwrite=False)
        assert fleet.get(owner, sealed)['encrypted'] is True
        assert fleet.passphrase(owner, sealed) == passphrase(cloud, sealed)
        assert fleet.passphrase(context.admin_context(), sealed) == passphrase(cloud, sealed)
        with pytest.raises(exception.NovaException):
            fleet.passphrase(stranger, sealed)
    finally:
        admin.delete(assigned)
    assert sealed in caplog.text and passphrase(cloud, sealed) not in caplog.text


def test_a_lost_file_of_keys_is_said_and_makes_no_new_one(cloud, user, sealed):
    file, aside = cloud.state_path / 'disk-keys', cloud.state_path / 'disk-keys.aside'
    file.rename(aside)
    try:
        refused = ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'volume_type': 'sealed'}}, 400)
        assert 'does not have the file of [conductor] disk_keys_file' in str(refused) and not file.exists()
        assert str(cloud.state_path) not in str(refused)          # it is a user who reads it
        with pytest.raises(exception.InvalidVolume, match='cannot be decrypted'):
            passphrase(cloud, sealed)
    finally:
        aside.rename(file)
    assert passphrase(cloud, sealed)


def test_a_file_without_a_header_is_not_copied(cloud, user, sealed):
    """What is said to be encrypted and is not ends in error: no copy of it is made."""
    ident = volume(user, source_volid=sealed)
    path = pathlib.Path(cloud.store.files.volume(ident))
    path.write_bytes(bytes(4096))
    copy = ask(user, 'POST', '/volumes', {'volume': {'source_volid': ident}})['volume']['id']
    ready(user, f'/volumes/{copy}', 'volume', 'error')
    assert not pathlib.Path(cloud.store.files.volume(copy)).exists()
    refused = ask(user, 'POST', f'/volumes/{ident}/action', {'os-extend': {'new_size': 2}}, 400)
    assert 'no LUKS header' in str(refused)
    for each in (copy, ident):
        ask(user, 'DELETE', f'/volumes/{each}')


def test_a_guest_that_writes_a_header_onto_a_plain_volume_changes_nothing(cloud, user, sealed):
    """Rows say what is encrypted, and no file does: a volume would grow by what its guest has written."""
    plain, files = volume(user), cloud.store.files
    with open(files.volume(sealed), 'rb') as source, open(files.volume(plain), 'r+b') as target:
        target.write(source.read(4096))
    copy = volume(user, source_volid=plain)
    ask(user, 'POST', f'/volumes/{plain}/action', {'os-extend': {'new_size': 2}})
    for ident, size in ((plain, 2), (copy, 1)):
        assert pathlib.Path(files.volume(ident)).stat().st_size == size * GIB
        assert ask(user, 'GET', f'/volumes/{ident}', code=200)['volume']['encrypted'] is False
        ask(user, 'DELETE', f'/volumes/{ident}')


def test_a_restart_finishes_what_was_cut_off(cloud, user, sealed):
    half, short = volume(user, source_volid=sealed), volume(user, source_volid=sealed)
    key, path = passphrase(cloud, sealed), pathlib.Path(cloud.store.files.volume(half))
    path.unlink()
    with cloud.api_db.writer() as conn:
        db.update(conn, tables.volumes, half, {'status': 'creating'})
        db.update(conn, tables.volumes, short, {'size': 2})
    cloud.store.jobs.recover()
    ready(user, f'/volumes/{half}', 'volume')
    header = luks.header_bytes(str(path))
    assert path.stat().st_size == GIB + header
    assert pathlib.Path(cloud.store.files.volume(short)).stat().st_size == 2 * GIB + header
    io(path, key, 'read 0 64k')
    for ident in (half, short):
        ask(user, 'DELETE', f'/volumes/{ident}')
