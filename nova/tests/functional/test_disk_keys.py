"""Servers with encrypted local disks on a whole cloud of fake hosts: who gets their keys, and what is refused."""
import os
import pathlib
import types
import uuid

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova.conductor import interface
from nova.conductor.servers import disk_keys
from nova.conductor.servers import volumes
from nova.db.servers import block_devices
from nova.db.tables import cell as tables
from nova.tests.support import waiting
from nova.tests.functional import cloud as fixture
from nova.tests.support import pci_cloud as test_pci_cloud
from nova.volume import embedded


@pytest.fixture(scope='module')
def clients(tmp_path_factory):
    with fixture.running(tmp_path_factory.mktemp('cloud'), ['host1', 'host2']) as made:
        found = test_pci_cloud.Clients(made)
        found.flavor('sealed', hw__ephemeral_encryption='true', hw__ephemeral_encryption_format='luks')
        found.flavor('sealed2', hw__ephemeral_encryption='true')
        found.flavor('plain')
        yield found


def row(clients, uuid):
    with clients.cloud.cell_db.reader() as conn:
        return conn.execute(sa.select(tables.disk_keys).where(
            tables.disk_keys.c.instance_uuid == uuid)).mappings().first()


def ask(clients, host, uuid):
    conductor = clients.cloud.bus.of_host(host).client(interface.INTERFACE)
    return conductor.get_disk_key(context.admin_context(), instance_uuid=uuid)


def host_of(clients, server):
    return clients.admin.get(f'/servers/{server["id"]}').json()['server']['OS-EXT-SRV-ATTR:host']


def test_a_key_is_for_the_host_of_its_server_and_gone_with_it(clients):
    server = clients.boot('sealed')
    host = host_of(clients, server)
    key = ask(clients, host, server['id'])
    assert len(bytes.fromhex(key)) == 32 and ask(clients, host, server['id']) == key
    second = clients.boot('sealed')
    assert ask(clients, host_of(clients, second), second['id']) != key
    with pytest.raises(exception.NotOnHost):
        ask(clients, {'host1': 'host2', 'host2': 'host1'}[host], server['id'])
    stored = row(clients, server['id'])
    assert key not in str(dict(stored))
    path = pathlib.Path(clients.cloud.conf.state_path) / 'disk-keys'
    assert path.stat().st_mode & 0o777 == 0o600
    for each in (server, second):
        assert clients.user.delete(f'/servers/{each["id"]}').status_code == 204
        clients.user.wait_for(each['id'], 'DELETED')
        assert row(clients, each['id']) is None


def test_only_servers_that_ask_for_encryption_get_a_key(clients):
    server = clients.boot('plain')
    with pytest.raises(exception.DiskKeyUnavailable, match='neither its flavor nor its image'):
        ask(clients, host_of(clients, server), server['id'])
    assert row(clients, server['id']) is None


def test_a_conductor_without_the_file_makes_no_other_one(clients):
    """Two conductors with two files would seal what the other cannot open."""
    server, later = clients.boot('sealed'), clients.boot('sealed')
    path = pathlib.Path(clients.cloud.conf.state_path) / 'disk-keys'
    ask(clients, host_of(clients, server), server['id'])
    os.rename(path, path.with_suffix('.away'))
    try:
        for each in (server, later):
            with pytest.raises(exception.DiskKeyUnavailable, match='this host does not have the file'):
                ask(clients, host_of(clients, each), each['id'])
        assert not path.exists()
    finally:
        os.rename(path.with_suffix('.away'), path)
    assert ask(clients, host_of(clients, server), server['id'])


REFUSED = {'createImage': ({'name': 'i'}, 'without encryption'), 'shelve': (None, 'without encryption'),
           'createBackup': ({'name': 'b', 'backup_type': 'daily', 'rotation': 1}, 'without encryption'),
           'suspend': (None, 'would not be encrypted'),
           'os-migrateLive': ({'host': None, 'block_migration': False, 'disk_over_commit': False}, 'while it is off')}


def test_actions_that_would_copy_encrypted_disks_unencrypted_return_409(clients):
    server = clients.boot('sealed')
    for name, (body, sentence) in REFUSED.items():
        answer = clients.admin.post(f'/servers/{server["id"]}/action', {name: body}, version='2.1')
        assert answer.status_code == 409, (name, answer.text)
        assert 'are encrypted' in answer.text and sentence in answer.text
    for flavor, status in (('plain', 400), ('sealed2', 202)):
        answer = clients.user.post(f'/servers/{server["id"]}/action', {'resize': {'flavorRef': flavor}})
        assert answer.status_code == status, answer.text
    clients.user.wait_for(server['id'], 'VERIFY_RESIZE')
    assert clients.act(server, 'ACTIVE', confirmResize=None)


def test_a_rebuild_does_not_change_whether_disks_are_encrypted(clients):
    server, sealing = clients.boot('plain'), clients.user.upload_image(hw_ephemeral_encryption='true')
    answer = clients.user.post(f'/servers/{server["id"]}/action', {'rebuild': {'imageRef': sealing}})
    assert answer.status_code == 400 and 'cannot encrypt or decrypt local disks' in answer.text
    own = clients.user.wait_for(clients.asked('plain', imageRef=sealing).json()['server']['id'])
    assert len(ask(clients, host_of(clients, own), own['id'])) == 64
    for image, code in ((clients.image, 400), (sealing, 202)):
        answer = clients.user.post(f'/servers/{own["id"]}/action', {'rebuild': {'imageRef': image}})
        assert answer.status_code == code, answer.text
    clients.user.wait_for(own['id'])


def test_a_key_that_cannot_be_destroyed_is_named(clients, caplog):
    """The operator has removed the account of the Key Manager service."""
    server = clients.boot('sealed')
    ask(clients, host_of(clients, server), server['id'])
    with clients.cloud.cell_db.writer() as conn:
        conn.execute(tables.disk_keys.update().where(tables.disk_keys.c.instance_uuid == server['id']).values(
            encryption_key_id=disk_keys.BARBICAN, encrypted_key='the-secret'))
    clients.user.delete(f'/servers/{server["id"]}')
    waiting.wait_for(lambda: row(clients, server['id']) is None, 20, 'the end of the server')
    assert f'The key of server {server["id"]} stays in the Key Manager service as secret the-secret' in caplog.text


# ---- encrypted volumes: the embedded block storage, with what Cinder says and gives of its own

class Encrypting(embedded.EmbeddedVolumes):
    asked = 0

    def connect(self, ctx, attachment_id, connector, device):
        info = super().connect(ctx, attachment_id, connector, device)
        return {**info, 'data': {**info['data'], 'encrypted': True}}

    def passphrase(self, ctx, volume_id):
        self.asked += 1
        if not ctx.auth_token:
            raise exception.InvalidVolume(reason='no token')
        return 'opens ' + volume_id


@pytest.fixture
def attached(clients):
    """(conductor's work on volumes, its block storage, server, host, mapping of a volume that was attached)."""
    cloud, server = clients.cloud, clients.boot('plain')
    storage = Encrypting(cloud.conf, cloud.api_db, cloud.images)
    services = types.SimpleNamespace(cell_db=cloud.cell_db, volumes=storage, conf=cloud.conf)
    work = volumes.Volumes(services, None, disk_keys.DiskKeys(services))
    volume = clients.user.post('/volume/v3/volumes', {'volume': {'size': 1}}).json()['volume']['id']
    system, mapping = context.admin_context(), str(uuid.uuid4())
    waiting.wait_for(lambda: storage.get(system, volume)['status'] == 'available', 30, 'the volume')
    with cloud.cell_db.writer() as conn:
        block_devices.insert(conn, server['id'], [{
            'uuid': mapping, 'source_type': 'volume', 'destination_type': 'volume', 'volume_id': volume,
            'device_name': '/dev/vdb', 'attachment_id': storage.attach(system, volume, server['id'])}])
    return work, storage, server['id'], host_of(clients, server), mapping


def volume_keys(clients, server):
    with clients.cloud.cell_db.reader() as conn:
        return conn.execute(sa.select(tables.volume_keys).where(
            tables.volume_keys.c.instance_uuid == server)).mappings().all()


def test_the_key_of_a_volume_is_got_once_by_its_owner_and_kept_while_the_server_has_it(clients, attached):
    work, storage, server, host, mapping = attached
    which, connector = {'instance_uuid': server, 'bdm_uuid': mapping}, {'host': host}
    with pytest.raises(exception.InvalidVolume, match='no token'):
        work.connect_volume(context.admin_context(), **which, connector=connector)
    assert volume_keys(clients, server) == []
    owner = context.RequestContext(user_id='u', project_id='p', auth_token='t', overwrite=False)
    work.connect_volume(owner, **which, connector=connector)
    (row,) = volume_keys(clients, server)
    assert 'opens' not in str(dict(row)) and storage.asked == 2
    work.connect_volume(context.admin_context(), **which, connector=connector)           # a restart has no token
    assert storage.asked == 2
    asked = {'instance_uuid': server, 'volume_id': row['volume_id']}
    conductors = {each: clients.cloud.bus.of_host(each).client(interface.INTERFACE) for each in ('host1', 'host2')}
    assert conductors[host].get_volume_key(context.admin_context(), **asked) == 'opens ' + row['volume_id']
    other = next(each for each in conductors if each != host)
    with pytest.raises(exception.NotOnHost):
        conductors[other].get_volume_key(context.admin_context(), **asked)
    with pytest.raises(exception.DiskKeyUnavailable, match='the database has no key of volume'):
        conductors[host].get_volume_key(context.admin_context(), **{**asked, 'volume_id': server})
    work.volume_detached(context.admin_context(), **which)
    assert volume_keys(clients, server) == []


def test_no_key_stays_of_an_attach_that_is_given_up_meanwhile(clients, attached):
    work, storage, server, host, mapping = attached
    find = storage.passphrase

    def given_up(ctx, volume_id):
        work.volume_detached(context.admin_context(), instance_uuid=server, bdm_uuid=mapping)
        return find(ctx, volume_id)
    storage.passphrase = given_up
    owner = context.RequestContext(user_id='u', project_id='p', auth_token='t', overwrite=False)
    with pytest.raises(exception.InstanceChanged):
        work.connect_volume(owner, instance_uuid=server, bdm_uuid=mapping, connector={'host': host})
    assert volume_keys(clients, server) == []
