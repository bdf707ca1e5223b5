"""nova-manage state: a backup of a cloud that works, and the cloud that is made of it on a blank machine."""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import exception
from nova.cloud import nightly_backup
from nova.cloud import state_backup
from nova.cmd.manage import main as manage
from nova.db import engine
from nova.db import schema
from nova.db import state_backup as rows
from nova.db.tables import image as tables_image
from nova.db.tables.audit import records
from nova.runtime import backup_file
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.runtime import encrypted_passwords
from nova.runtime import metrics
from nova.runtime import passphrases
from nova.tests import schemas
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.integration import servers
from nova.tests.support.state_backup import check_counted
from nova.tests.support.state_backup import counted


SECRET = 'correct horse battery'
OLD = {'api': ('quota_classes', ['class_name', 'resource', 'hard_limit'], [['default', 'instances', 7]]),
       'cell': ('cell_moves', ['instance_uuid', 'move_id', 'other_cell', 'created_at'],
                [['x', 'y', 'z', '2026-01-02T03:04:05']])}


def configured(state, **more):
    return nova_conf.new(files=[], **{'state_path': str(state), 'compute_driver': 'fake', 'network__driver': 'fake',
                                      'host': 'host1', **more})


def backup(cloud, path, **more):
    return state_backup.create(cloud.conf, cloud.api_db, cloud.cells, str(path), **more)


def restore(state, path, **more):
    return state_backup.restore(configured(state), str(path), lambda: SECRET, **more)


@pytest.fixture(scope='module')
def origin(tmp_path_factory):
    """(a cloud, its client, the id of an image, the id of a server): tests add to it."""
    with clouds.running(tmp_path_factory.mktemp('origin') / 'state') as cloud:
        client = cloud.client()
        image = client.upload_image(b'\0' * 1048576 + os.urandom(1000))
        server = client.boot(image)['id']
        client.wait_for(server)
        yield cloud, client, image, server


@pytest.fixture(scope='module')
def made(origin, tmp_path_factory):
    """A backup of it with images."""
    path = tmp_path_factory.mktemp('made') / 'backup'
    backup(origin[0], path, with_images=True)
    return path


def status(client, server):
    return client.get(f'/servers/{server}').json()['server']


def images_of(cloud):
    with cloud.api_db.reader() as conn:
        return set(conn.execute(sa.select(tables_image.images.c.id)).scalars())


def rows_of(state, branch, name):
    """{table: sorted rows} of a database of a cloud that does not run."""
    with state_backup._opened(engine.Database(f'sqlite:///{state}/{name}.sqlite')) as db, db.reader() as conn:
        return {table: sorted(batch, key=repr) for table, _columns, batch in rows.batches(conn, branch)}


def test_every_row_key_and_image_comes_back(origin, tmp_path):
    cloud, _client, image, server = origin
    state = tmp_path / 'blank' / 'state'
    passwords = encrypted_passwords.Passwords(cloud.conf)
    row, = passwords.encrypted({'admin_password': 'of a build'}, server)
    path = tmp_path / 'backup'
    backup(cloud, path, with_images=True)
    done = restore(state, path)
    assert done.replaced == [] and done.images_without_data == []
    assert encrypted_passwords.Passwords(configured(state)).password(row, server) == 'of a build'
    for branch, name in (('api', 'api'), ('cell', 'cell1')):
        database = cloud.api_db if branch == 'api' else cloud.cell_db
        with database.reader() as conn:
            now = {table: sorted(batch, key=repr) for table, _columns, batch in rows.batches(conn, branch)}
        restored = rows_of(state, branch, name)
        # heartbeats change them, and the end of the request that began the server
        unchanged = set(now) - {'services', 'compute_nodes', 'network_hosts', 'audit_chain', 'audit_records'}
        assert {table: restored.get(table) for table in unchanged} == {table: now[table] for table in unchanged}
        assert server in json.dumps(restored['instance_mappings' if branch == 'api' else 'instances'])
    for place in ('keys/token.keys', 'driver', 'clouds.yaml', 'services/nova-compute.host1', 'password-keys'):
        assert (state / place).read_bytes() == (cloud.state_path / place).read_bytes()
    for path in state.rglob('*'):
        private = stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        assert private or path.name == 'lock', path
    with clouds.running(state) as again:
        client = again.client()
        data = client.get(f'/image/v2/images/{image}/file')
        assert data.status_code == 200 and len(data.content) == 1048576 + 1000
        lost = status(client, server)
        assert lost['status'] == 'ERROR' and lost['OS-EXT-STS:task_state'] is None
        assert f'Host host1 has no disks of server {server}' in lost['fault']['message']
        again_made = client.boot(image)['id']
        assert client.wait_for(again_made)['status'] == 'ACTIVE'
        assert client.delete(f'/servers/{server}').status_code == 204
        waiting.wait_for(lambda: client.get(f'/servers/{server}').status_code == 404, 60, 'the end of the server')


def test_servers_with_their_disks_are_off_and_running_guests_are_followed(origin, made, tmp_path):
    """A start at once would make two guests of a server whose first machine lives."""
    cloud, client, image, server = origin
    running = client.boot(image)['id']
    client.wait_for(running)
    path = tmp_path / 'backup'
    backup(cloud, path)
    state = tmp_path / 'state'
    shutil.copytree(cloud.state_path / 'fake', state / 'fake')
    guests = state / 'fake' / 'host1.json'
    known = json.loads(guests.read_text())
    known[server]['power_state'] = 4                     # states.SHUTDOWN
    guests.write_text(json.dumps(known))
    done = restore(state, path)
    assert done.images_without_data == [image]
    with clouds.running(state) as again:
        client = again.client()
        assert status(client, server)['status'] == 'SHUTOFF' and 'fault' not in status(client, server)
        assert status(client, running)['status'] == 'ACTIVE'
        queued = client.get(f'/image/v2/images/{image}').json()
        assert (queued['status'], queued['size'], queued['checksum']) == ('queued', None, None)
        sent = client.request('PUT', f'/image/v2/images/{image}/file', data=b'\0' * 1048576,
                              headers={'Content-Type': 'application/octet-stream'})
        assert sent.status_code == 204
        assert client.post(f'/servers/{server}/action', {'os-start': None}).status_code == 202
        client.wait_for(server)
    assert not (state / 'restored').exists()


def test_a_backup_under_load_is_of_one_moment_and_restores(tmp_path):
    """Each server has its mapping in one database and its row in the other: none is there without the other one,
    but for those that the API had accepted and whose rows it was about to write."""
    names, stop = [], threading.Event()
    with clouds.running(tmp_path / 'first', quota__instances=-1, quota__cores=-1, quota__ram=-1) as cloud:
        image = cloud.client().upload_image()

        def work():
            client = cloud.client()
            while not stop.is_set():
                made = client.post('/image/v2/images', {'name': 'written'})
                if made.status_code == 201:
                    names.append(made.json()['id'])
                server = client.boot(image)['id']
                client.delete(f'/servers/{server}')
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            paths, acknowledged = [], []
            for number in range(3):
                waiting.wait_for(lambda number=number: len(names) > 5 * number, 240, 'writes')
                acknowledged.append(list(names))
                paths.append(tmp_path / f'backup{number}')
                assert backup(cloud, paths[-1]).row_count > 20
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert len(acknowledged[2]) > 10
    for number, path in enumerate(paths):
        state = tmp_path / f'state{number}'
        restore(state, path)
        with clouds.running(state) as again:
            client = again.client()
            assert set(acknowledged[number]) <= images_of(again)
            deadline = time.monotonic() + 240
            while True:
                found = client.get('/servers/detail').json()['servers']
                if not any(server['OS-EXT-STS:task_state'] for server in found):
                    break
                assert time.monotonic() < deadline, found
                time.sleep(0.2)
            assert {server['status'] for server in found} <= {'ERROR', 'SHUTOFF', 'ACTIVE'}
            assert all(server['status'] == 'ACTIVE' or server['fault']['message'] for server in found)


def test_both_databases_are_read_at_one_moment(tmp_path):
    databases = [engine.Database(f'sqlite:///{tmp_path}/{name}.sqlite') for name in 'ab']
    check_counted(counted(databases))


def test_a_transaction_that_does_not_end_is_told_and_blocks_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, 'BARRIER_S', 1)
    monkeypatch.setattr(rows, 'LOCK_S', 0.2)
    one, two = (engine.Database(f'sqlite:///{tmp_path}/{name}.sqlite') for name in 'ab')
    for db in (one, two):
        schemas.create(db, 'cell')
    with two.writer() as conn:
        conn.exec_driver_sql('CREATE TABLE other (n INTEGER)')
        with (pytest.raises(exception.Unavailable, match='Writing transactions did not end within 1 s'),
              rows.moment([one, two])):
            raise AssertionError
        one.run(lambda conn: conn.exec_driver_sql('CREATE TABLE other (n INTEGER)'))         # it is free again


KILLED = '''
import os, sys, threading
from nova.tests.functional import cloud as clouds
cloud = clouds.Cloud(sys.argv[1])
cloud.start()
def work():
    client = cloud.client()
    for number in range(10 ** 6):
        made = client.post('/image/v2/images', {'name': 'written'})
        if made.status_code == 201:
            os.write(1, (made.json()['id'] + '\\n').encode())
for _ in range(3):
    threading.Thread(target=work).start()
'''


def test_a_backup_of_what_a_killed_process_left_restores(tmp_path):
    """SIGKILL in the middle of writes: what was acknowledged is in the backup."""
    state = tmp_path / 'first'
    process = subprocess.Popen([sys.executable, '-c', KILLED, str(state)], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    acknowledged = [process.stdout.readline().strip() for _ in range(60)]
    process.send_signal(signal.SIGKILL)
    acknowledged += process.stdout.read().split('\n')[:-1]
    process.wait()
    assert all(acknowledged)
    path = tmp_path / 'backup'
    assert manage.main(['state', 'backup', str(path), '--state-path', str(state)]) == 0
    restore(tmp_path / 'second', path)
    with clouds.running(tmp_path / 'second') as again:
        assert set(acknowledged) <= images_of(again)


def test_a_backup_that_was_changed_or_cut_off_writes_nothing(made, tmp_path):
    data = made.read_bytes()
    state = tmp_path / 'state'
    for number, other in enumerate((data[:len(data) // 2], data[:-1], data[:40], b'', b'SQLite format 3\0' * 100,
                                    data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])):
        path = tmp_path / f'changed{number}'
        path.write_bytes(other)
        with pytest.raises(backup_file.Damaged):
            restore(state, path)
        assert not state.exists()


def test_members_that_no_backup_has_are_refused(origin, tmp_path):
    """Names that the format allows, and that would become something else below the state path."""
    state = tmp_path / 'state'
    for number, name in enumerate(('files/instances/x', 'files/keys', 'files/driver/x', 'images/token.keys', 'lock',
                                   'images/a/b', 'configuration/x', 'files/lock', 'databases/api/flavors',
                                   'databases/api/nothing/000000', 'databases/other/flavors/000000')):
        path = tmp_path / f'other{number}'
        with open(path, 'wb') as file:
            writer = backup_file.Writer(file)
            writer.add(name, b'x')
            writer.finish({'databases': [], 'configuration': {}})
        with pytest.raises(backup_file.Damaged):
            restore(state, path)
    with open(path, 'wb') as file:
        writer = backup_file.Writer(file)
        writer.add('files/keys/a', b'x')
        writer.add('files/keys/a/b', b'x')
        writer.finish({'databases': [], 'configuration': {}})
    with pytest.raises(backup_file.Damaged, match='a file and a directory with the same path'):
        restore(state, path)
    assert not state.exists()


@pytest.mark.parametrize('name', ['../../outside', '/tmp/outside', 'files/keys/../../../outside'])
def test_a_path_that_leads_out_of_the_state_directory_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(backup_file, 'is_name', lambda _name: True)
    path = tmp_path / 'backup'
    with open(path, 'wb') as file:
        writer = backup_file.Writer(file)
        writer.add(name, b'x')
        writer.finish({'databases': [], 'configuration': {}})
    monkeypatch.undo()
    with pytest.raises(backup_file.Damaged, match='an invalid member'):
        restore(tmp_path / 'a' / 'b' / 'state', path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ['backup']


def test_a_revision_that_this_release_does_not_know_is_refused(made, tmp_path, monkeypatch):
    known = schema.revisions
    monkeypatch.setattr(schema, 'revisions', lambda branch: known(branch)[:-1])
    with pytest.raises(backup_file.Damaged, match='does not know revision'):
        restore(tmp_path / 'state', made)


def test_rows_of_the_tree_before_the_first_release_are_converted(tmp_path):
    """A backup that the tree before has made can be restored."""
    for branch, (table, columns, batch) in OLD.items():
        revision = schema.PREDECESSORS[branch]
        with state_backup._opened(engine.Database(f'sqlite:///{tmp_path}/{branch}.sqlite')) as db:
            rows.prepare(db, branch, revision)
            rows.insert(db, branch, table, columns, batch)
            with pytest.raises(exception.DatabaseNotReady):
                schema.check(db, branch)                     # no service uses it before all of it is there
            rows.finish(db, branch, revision)
            schema.check(db, branch)
            with db.reader() as conn:
                assert [found[:len(columns)] for name, _columns, listed in rows.batches(conn, branch) if name == table
                        for found in listed] == [list(batch[0])]


def test_a_state_that_is_there_is_replaced_only_if_that_is_said(made, tmp_path):
    state = tmp_path / 'state'
    with clouds.running(state) as cloud:
        cloud.client().post('/os-keypairs', {'keypair': {'name': 'newer'}})
        with pytest.raises(exception.InvalidInput, match='is in use by process'):
            restore(state, made, replace=True)
    before = {path.name: path.read_bytes() for path in state.iterdir() if path.is_file()}
    with pytest.raises(exception.Conflict, match='The deployment already has data.*--replace-existing-state'):
        restore(state, made)
    assert {path.name: path.read_bytes() for path in state.iterdir() if path.is_file()} == before
    done = restore(state, made, replace=True)
    aside = {path.name.partition('.before-restore-')[0]: path for path in done.replaced}
    assert {'api.sqlite', 'cell1.sqlite', 'keys', 'clouds.yaml', 'services'} <= set(aside)
    assert aside['api.sqlite'].read_bytes() == before['api.sqlite']
    with clouds.running(state) as cloud:
        assert cloud.client().get('/os-keypairs').json()['keypairs'] == []


def test_restore_needs_room_for_missing_images_only(made, tmp_path, monkeypatch):
    state = tmp_path / 'state'
    state.mkdir()
    monkeypatch.setattr(disk_space, 'free_bytes', lambda path: state_backup.ROOM + 1000)
    with pytest.raises(exception.InsufficientStorage):
        restore(state, made)
    monkeypatch.undo()
    restore(state, made)
    monkeypatch.setattr(disk_space, 'free_bytes', lambda path: state_backup.ROOM + 1000)
    restore(state, made, replace=True)


def test_nova_all_refuses_a_state_whose_restore_was_cut_off(made, tmp_path, monkeypatch):
    state = tmp_path / 'state'

    def cut_off(*_arguments):
        raise KeyboardInterrupt
    monkeypatch.setattr(state_backup._Restore, '_rename', cut_off)
    with pytest.raises(KeyboardInterrupt):
        restore(state, made)
    monkeypatch.undo()
    with pytest.raises(exception.InvalidInput, match='was interrupted'):
        clouds.Cloud(state).start()
    with pytest.raises(exception.Conflict, match='The deployment already has data'):
        restore(state, made)
    restore(state, made, replace=True)
    with clouds.running(state) as again:
        assert again.client().get('/servers').status_code == 200


def test_backup_and_restore_commands_work_with_and_without_a_passphrase(origin, tmp_path, capsys, monkeypatch):
    cloud, client, image, server = origin
    config = tmp_path / 'nova.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\nhost = host1\ncompute_driver = fake\n')
    secret = tmp_path / 'passphrase'
    secret.write_text(SECRET + '\n')
    secret.chmod(0o600)
    plain, sealed = tmp_path / 'plain', tmp_path / 'sealed'

    def run(*arguments):
        code = manage.main(['state', *map(str, arguments)])
        return code, *capsys.readouterr()
    code, out, err = run('backup', plain, '--images', '--config-file', config)
    assert (code, err) == (0, '') and '1 images' in out and 'The backup is not encrypted' in out
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600
    code, out, err = run('backup', sealed, '--passphrase-file', secret, '--config-file', config)
    assert code == 0 and 'not encrypted' not in out and server.encode() not in sealed.read_bytes()
    with cloud.api_db.reader() as conn:
        assert 'nova-manage:state backup' in set(conn.execute(sa.select(records.c.action)).scalars())
    code, out, err = run('check', sealed, '--config-file', config)
    assert code == 1 and passphrases.VARIABLE in err
    monkeypatch.setenv(passphrases.VARIABLE, 'another passphrase')
    code, out, err = run('check', sealed, '--config-file', config)
    assert code == 1 and 'the passphrase is wrong' in err
    monkeypatch.setenv(passphrases.VARIABLE, SECRET)
    code, out, err = run('check', sealed, '--config-file', config)
    assert code == 0 and 'the cells cell1' in out
    for command in ('check', 'restore'):                     # anybody may have put it in the place of a sealed one
        code, out, err = run(command, plain, '--config-file', config)
        assert code == 1 and 'is not encrypted although a passphrase was given' in err
    code, out, err = run('backup', tmp_path / 'nowhere' / 'file', '--config-file', config)
    assert code == 1 and 'cannot be written: No such file' in err
    broken = tmp_path / 'broken.conf'
    broken.write_text(config.read_text() + f'[oslo_policy]\npolicy_dirs = {config}\n')
    code, out, err = run('backup', tmp_path / 'other', '--config-file', broken)
    assert code == 1 and f'{config} cannot be read: Not a directory' in err
    state = tmp_path / 'state'
    code, out, err = run('restore', sealed, '--state-path', state)
    assert code == 0 and f'0/nova.conf  {config}' in out and 'have no data' in out
    assert (state / 'restored-configuration' / '0' / 'nova.conf').read_text() == config.read_text()
    code, out, err = run('restore', sealed, '--state-path', state)
    assert code == 1 and '--replace-existing-state' in err
    code, out, err = run('restore', tmp_path, '--state-path', state)
    assert code == 1 and err.strip()
    code, out, err = run('restore', sealed, '--state-path', state, '--replace-existing-state')
    assert code == 0 and 'The previous data was moved to' in out


def test_files_with_odd_names_do_not_end_a_backup(origin, tmp_path, caplog):
    cloud, *_ = origin
    config, policies = tmp_path / 'nova (copy).conf', tmp_path / 'policy.d'
    policies.mkdir()
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\nhost = host1\ncompute_driver = fake\n'
                      f'[oslo_policy]\npolicy_dirs = {policies}\n')
    for name in ('.gitkeep', '.10.yaml.swp', '10.yaml~', 'a b.yaml', '-'):
        (policies / name).write_text('{}')
    stray = cloud.state_path / 'keys' / '.token.keys.swp'
    stray.write_text('x')
    path = tmp_path / 'backup'
    state_backup.create(nova_conf.new(files=[str(config)]), cloud.api_db, cloud.cells, str(path))
    stray.unlink()
    assert f'does not include {stray}' in caplog.text
    done = restore(tmp_path / 'state', path)
    origins = done.content.manifest['configuration']
    assert {member.split('/')[2]: origin for member, origin in origins.items()} == {
        'nova__copy_.conf': str(config), '_': str(policies / '-'), '10.yaml_': str(policies / '10.yaml~'),
        'a_b.yaml': str(policies / 'a b.yaml')}
    for member, origin in origins.items():
        name = member.removeprefix('configuration/')
        assert (done.configuration / name).read_bytes() == pathlib.Path(origin).read_bytes()


@pytest.mark.parametrize(('before', 'after'), [
    ('keys', 'keys'), ('CA/private', 'CA/private'), ('outside', 'outside'), ('', 'outside'), ('outside', ''),
    ('keys', ''), ('', '')])
def test_keys_of_authorities_are_restored_wherever_they_are(origin, tmp_path, before, after):
    cloud, *_ = origin

    def at(state, keys):
        path = str(tmp_path / 'outside' if keys == 'outside' else state / keys)
        return {'crypto__keys_path': path if keys else None, 'crypto__ca_path': str(state / 'CA')}
    source, state = tmp_path / 'source', tmp_path / 'state'
    for name in ('keys', 'CA', 'driver'):
        if (cloud.state_path / name).exists():
            clone = shutil.copytree if (cloud.state_path / name).is_dir() else shutil.copy
            (source / name).parent.mkdir(exist_ok=True)
            clone(cloud.state_path / name, source / name)
    conf = configured(source, **at(source, before))
    place = state_backup.parts(conf)['CA-keys']
    place.mkdir(parents=True, exist_ok=True)
    (place / 'project.key').write_text('secret')
    (source / 'CA').mkdir(exist_ok=True)
    (source / 'CA' / 'cacert.pem').write_text('certificate')
    path = tmp_path / 'backup'
    state_backup.create(conf, cloud.api_db, cloud.cells, str(path))
    restored = configured(state, **at(state, after))
    for replace in (after == before == 'outside', True):
        state_backup.restore(restored, str(path), lambda: SECRET, replace=replace)
        assert (state_backup.parts(restored)['CA-keys'] / 'project.key').read_text() == 'secret'
        assert (state / 'CA' / 'cacert.pem').read_text() == 'certificate'
        assert (state / 'keys' / 'token.keys').read_bytes() == (cloud.state_path / 'keys/token.keys').read_bytes()
        assert list(state.rglob('*.restoring')) == [] and not (state / 'restore-incomplete').exists()


def test_a_nightly_backup_is_made_and_the_oldest_goes(origin, tmp_path, monkeypatch):
    cloud, *_ = origin
    monkeypatch.setattr(nightly_backup, 'HOUR', (time.localtime().tm_hour + 12) % 24)    # none becomes due meanwhile
    conf = configured(cloud.state_path, state_backup__directory=str(tmp_path / 'nightly'), state_backup__keep=3)
    nightly = nightly_backup.Nightly(conf, cloud.api_db, cloud.cells)
    assert nightly.age() == {(): float('inf')}
    directory = tmp_path / 'nightly'
    nightly.run()
    assert nightly.age()[()] < 60 and len(list(directory.iterdir())) == 1
    nightly.run()                                        # none is due
    first, = directory.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700 and stat.S_IMODE(first.stat().st_mode) == 0o600
    (directory / 'mine').write_text('stays')
    cut_off = durable_files.replacing(directory / 'state-20200101T000000.backup')
    cut_off.__enter__()                                  # and never left: a crash
    assert len(list(directory.glob('.state-*'))) == 1
    for day in range(1, 5):
        (directory / f'state-2020010{day}T000000.backup').write_text('old')
    os.utime(first, (time.time() - 90000, time.time() - 90000))
    later = nightly_backup.Nightly(conf, cloud.api_db, cloud.cells)
    for day in range(1, 5):
        os.utime(directory / f'state-2020010{day}T000000.backup', (0, 0))
    later = nightly_backup.Nightly(conf, cloud.api_db, cloud.cells)
    assert 80000 < later.age()[()] < 100000
    time.sleep(1.1)                                      # the name has seconds
    later.run()
    kept = sorted(path.name for path in directory.iterdir())
    assert len(kept) == 4 and kept[0] == 'mine' and kept[1] == 'state-20200104T000000.backup'
    assert first.name in kept
    text = metrics.exposed()[0].decode()
    assert 'nova_state_backup_age_seconds' in text
    restore(tmp_path / 'state', directory / kept[-1])
    off = nightly_backup.Nightly(configured(cloud.state_path, state_backup__keep=0), cloud.api_db, cloud.cells)
    off.run()
    assert off.age() == {} and not (pathlib.Path(cloud.state_path) / 'backups').exists()


def test_backup_made_while_the_clock_was_ahead_stops_no_later_one(origin, tmp_path):
    cloud, *_ = origin
    ahead = tmp_path / 'state-20990101T000000.backup'
    ahead.write_text('old')
    os.utime(ahead, (4070908800, 4070908800))
    conf = configured(cloud.state_path, state_backup__directory=str(tmp_path), state_backup__keep=1)
    nightly = nightly_backup.Nightly(conf, cloud.api_db, cloud.cells)
    assert nightly.age() == {(): float('inf')}
    nightly.run()
    assert nightly.age()[()] < 60
    kept, = tmp_path.iterdir()
    assert kept != ahead
    nightly._newest = time.time() + 86400                # the clock was set back while the process works
    assert nightly.age() == {(): float('inf')}
    time.sleep(1.1)                                      # the name has seconds
    nightly.run()
    assert nightly.age()[()] < 60 and [path == kept for path in tmp_path.iterdir()] == [False]


def test_one_is_due_after_three_in_the_morning():
    now = time.mktime((2026, 5, 6, 12, 0, 0, 0, 0, -1))
    three = time.mktime((2026, 5, 6, 3, 0, 0, 0, 0, -1))
    assert nightly_backup.is_due(None, now)
    assert nightly_backup.is_due(three - 1, now) and not nightly_backup.is_due(three + 1, now)
    assert nightly_backup.is_due(now + 86400, now) and not nightly_backup.is_due(now + 1, now)
    assert not nightly_backup.is_due(three - 3600, three - 1800) and nightly_backup.is_due(three - 90000, three - 1800)


def test_nova_all_makes_the_first_one_soon_after_its_start(tmp_path, monkeypatch):
    monkeypatch.setattr(nightly_backup, 'CHECK_INTERVAL_S', 0.3)
    with clouds.running(tmp_path / 'state', http__port=servers.free_port()):
        waiting.wait_for(lambda: [*(tmp_path / 'state').glob('backups/state-*.backup')], 30, 'the first backup', 0.1)
