"""nova-manage vm, live-migration, service, image, shell and logs beside a cloud that runs."""
import io
import json
import socket
import sys
import types

import pytest
from oslo_messaging.notify import _impl_test
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.cmd.manage import logs as manage_logs
from nova.cmd.manage import main as manage
from nova.cmd.manage import projects as manage_projects
from nova.cmd.manage import shell as manage_shell
from nova.db.ec2 import ids
from nova.db.key_manager import records
from nova.db.projects import quotas
from nova.db.tables import volume as tables_volume
from nova.keymanager import store
from nova.tests.support import waiting
from nova.tests.support import manage_commands
from nova.tests.support.isolation import add_user

cloud = manage_commands.cloud
nova_manage = manage_commands.nova_manage


def test_the_categories_and_their_actions_are_told(nova_manage):
    code, out, _err = nova_manage()
    assert code == 2 and 'archive_deleted_rows' in out and 'live-migration' in out
    code, out, _err = nova_manage('image')
    assert code == 2 and 'ramdisk_register' in out
    assert nova_manage('bash-completion')[1].split() == list(manage.COMMANDS)
    assert nova_manage('bash-completion', 'logs')[1] == 'errors syslog\n'


@pytest.fixture
def beside_nova_all(cloud, capsys):
    """As nova_manage, with nothing but the directory of the cloud: there is no broker to reach it through."""
    def run(*arguments):
        code = manage.main([*arguments, '--state-path', str(cloud.state_path)])
        out, err = capsys.readouterr()
        return code, out, err
    return run


def test_a_server_is_evacuated_where_the_risk_is_named(cloud, nova_manage):
    made = cloud.boss.boot(cloud.image, host='host1', networks='auto')
    cloud.boss.wait_for(made['id'])
    drivers = {part.host: part.manager.driver for part in cloud.services if part.binary == 'nova-compute'}
    service = next(row['id'] for row in cloud.boss.get('/os-services?binary=nova-compute').json()['services']
                   if row['host'] == 'host1')
    code, out, err = nova_manage('vm', 'evacuate', made['id'])
    assert code == 1 and out == '' and 'still in use' in err
    cloud.boss.put(f'/os-services/{service}', {'forced_down': True})
    drivers['host2'].failures['fence'] = exception.NotFenced(part='volume 1', more='', reason='no right', details='')
    try:
        for words, home in (((), 'host1'), (('host2', '--accept-risk', 'two-writers'), 'host2')):
            code, out, err = nova_manage('vm', 'evacuate', made['id'], *words)
            assert (code, err) == (0, '') and made['id'] in out
            server = cloud.boss.wait_for(made['id'], 'ACTIVE' if home == 'host1' else 'SHUTOFF')
            assert server['OS-EXT-SRV-ATTR:host'] == home
        with pytest.raises(SystemExit):
            nova_manage('vm', 'evacuate', made['id'], '--accept-risk', 'yes')
    finally:
        drivers['host2'].failures.clear()
        cloud.boss.put(f'/os-services/{service}', {'forced_down': False})


def test_servers_are_listed_and_moved(cloud, nova_manage, beside_nova_all):
    made = cloud.boss.boot(cloud.image, name='mover', host='host1', networks='auto')
    cloud.boss.wait_for(made['id'])
    code, out, _err = nova_manage('vm', 'list')
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and lines[0][:5] == ['Instance', 'UUID', 'Node', 'Type', 'State']
    assert [line[1] for line in lines if line[0] == 'mover'] == [made['id']]
    assert 'mover' in nova_manage('vm', 'list', 'host1')[1] and 'mover' not in nova_manage('vm', 'list', 'host2')[1]
    for name, host in ((utils.ec2_id(made['id']), 'host2'), (made['id'], 'host1')):
        code, out, err = nova_manage('live-migration', name, host)
        assert (code, err) == (0, '') and made['id'] in out
        assert cloud.boss.wait_for(made['id'])['OS-EXT-SRV-ATTR:host'] == host
    number = ids.numbers(cloud.api_db, 'i', [made['id']])[made['id']]
    for name, host in ((utils.ec2_id(made['id']), 'host2'), (f'i-{number:08x}', 'host1')):
        assert nova_manage('live-migration', name, host)[::2] == (0, '')
        assert cloud.boss.wait_for(made['id'])['OS-EXT-SRV-ATTR:host'] == host
    code, out, err = beside_nova_all('live-migration', utils.ec2_id(made['id']), 'host2')
    assert (code, err) == (0, '') and made['id'] in out
    assert cloud.boss.wait_for(made['id'])['OS-EXT-SRV-ATTR:host'] == 'host2'
    code, out, err = beside_nova_all('live-migration', made['id'], 'nowhere')
    assert code == 1 and out == '' and 'nowhere' in err
    assert nova_manage('live-migration', made['id'], 'host1')[0] == 0
    assert cloud.boss.wait_for(made['id'])['OS-EXT-SRV-ATTR:host'] == 'host1'
    code, out, err = nova_manage('live-migration', made['id'], 'nowhere')
    assert code == 1 and out == '' and 'nowhere' in err
    assert 'could not be found' in nova_manage('live-migration', 'i-' + '0' * 17, 'host2')[2]
    code, out, _err = nova_manage('service', 'describe_resource', 'host1')
    assert code == 0 and [line.split()[1] for line in out.splitlines()[1:3]] == ['(total)', '(used']
    place, _project, *sizes = out.splitlines()[3].split()
    assert place == 'host1' and len(sizes) == 3 and all(size.isdigit() for size in sizes)
    cloud.boss.delete(f'/servers/{made["id"]}')
    cloud.boss.wait_for(made['id'], 'DELETED')


def test_a_proxy_of_the_environment_gets_no_password(cloud, beside_nova_all, monkeypatch):
    """The admin's password went to the proxy in clear text."""
    made = cloud.boss.boot(cloud.image, host='host1', networks='none')['id']
    cloud.boss.wait_for(made)
    monkeypatch.delenv('no_proxy', raising=False)
    monkeypatch.delenv('NO_PROXY', raising=False)
    with socket.socket() as proxy:           # It refuses connections: nothing listens.
        proxy.bind(('127.0.0.1', 0))
        monkeypatch.setenv('http_proxy', f'http://127.0.0.1:{proxy.getsockname()[1]}')
        code, _out, err = beside_nova_all('live-migration', made, 'host2')
        monkeypatch.delenv('http_proxy')
    assert (code, err) == (0, '')
    assert cloud.boss.wait_for(made)['OS-EXT-SRV-ATTR:host'] == 'host2'
    cloud.boss.delete(f'/servers/{made}')
    cloud.boss.wait_for(made, 'DELETED')


def test_an_unusable_entry_of_clouds_yaml_is_one_sentence(cloud, beside_nova_all):
    """It was a traceback."""
    made = cloud.boss.boot(cloud.image, networks='none')['id']
    cloud.boss.wait_for(made)
    path = cloud.clouds_yaml
    kept = path.read_text()
    try:
        for text in ('', 'clouds: {}', 'clouds: {nova-admin: {region_name: x}}', 'clouds: {nova-admin: 1}', '[', '- 1',
                     'clouds: {nova-admin: {auth: {auth_url: 1}}}',
                     'clouds: {nova-admin: {auth: {auth_url: http://x/identity, canary: 1}}}'):
            path.write_text(text)
            code, out, err = beside_nova_all('live-migration', made, 'host2')
            assert (code, out, err.count('\n')) == (1, '', 1) and f'{path} has no usable entry nova-admin' in err
    finally:
        path.write_text(kept)
    cloud.boss.delete(f'/servers/{made}')
    cloud.boss.wait_for(made, 'DELETED')


def test_a_service_is_disabled_and_enabled(cloud, nova_manage):
    def status():
        return {row['host']: row['status'] for row in cloud.boss.get('/os-services').json()['services']
                if row['binary'] == 'nova-compute'}
    assert nova_manage('service', 'disable', 'host2', 'nova-compute') == (0, '', '')
    assert status() == {'host1': 'enabled', 'host2': 'disabled'}
    assert nova_manage('service', 'enable', 'host2', 'nova-compute') == (0, '', '')
    assert status() == {'host1': 'enabled', 'host2': 'enabled'}
    for command in (('enable', 'host3', 'nova-compute'), ('describe_resource', 'host3')):
        assert nova_manage('service', *command)[0] == 1


def test_a_service_that_is_disabled_is_told_of(cloud, nova_manage, tmp_path):
    """Only the API told it."""
    listened = tmp_path / 'listened.conf'
    listened.write_text('[oslo_messaging_notifications]\ndriver = test\n'
                        '[notifications]\nnotification_format = versioned\n')
    _impl_test.reset()

    def told():
        return [(message['publisher_id'], message['payload']['nova_object.data']['disabled'])
                for _context, message, _priority, _retry in list(_impl_test.NOTIFICATIONS)
                if message['event_type'] == 'service.update']
    for command in ('disable', 'enable'):
        done = nova_manage('service', command, 'host2', 'nova-compute', '--config-file', listened)
        assert done == (0, '', '')
    waiting.wait_for(lambda: len(told()) == 2, 30, 'both to be told')
    assert told() == [('nova-compute:host2', True), ('nova-compute:host2', False)]


def shown(cloud, image_id):
    answer = cloud.boss.get(f'/image/v2/images/{image_id}')
    assert answer.status_code == 200
    return answer.json()


def test_images_are_registered(cloud, nova_manage, tmp_path):
    files = {}
    for name in ('disk', 'kernel', 'ramdisk'):
        files[name] = tmp_path / name
        files[name].write_bytes(name.encode() * 300)
    code, out, err = nova_manage('image', 'image_register', files['disk'], 'demo', '--name', 'mine', '--private')
    assert (code, err) == (0, '')
    image = shown(cloud, out.split()[-1].rstrip('.'))
    assert (image['name'], image['owner'], image['disk_format'], image['visibility'], image['status']) == (
        'mine', cloud.client().project_id, 'raw', 'private', 'active')
    code, out, _err = nova_manage('image', 'all_register', files['disk'], files['kernel'], files['ramdisk'],
                                   cloud.boss.project_id)
    kernel, ramdisk, image = (shown(cloud, line.split()[-1].rstrip('.')) for line in out.splitlines())
    assert (code, kernel['disk_format'], ramdisk['container_format'], image['disk_format']) == (0, 'aki', 'ari', 'ami')
    assert (image['kernel_id'], image['ramdisk_id']) == (kernel['id'], ramdisk['id'])
    assert nova_manage('image', 'kernel_register', files['kernel'], cloud.boss.project_id)[0] == 0
    assert nova_manage('image', 'ramdisk_register', files['ramdisk'], cloud.boss.project_id)[0] == 0


def test_an_image_of_a_project_that_is_not_there_is_not_registered(cloud, nova_manage, tmp_path):
    """OWNER was any text: the image was nobody's."""
    disk = tmp_path / 'disk'
    disk.write_bytes(b'\0' * 512)
    (tmp_path / 'info.json').write_text(json.dumps({'imageId': 'ami-1', 'imageOwnerId': 'nobody'}))
    (tmp_path / 'image').write_bytes(b'\0' * 512)
    before = cloud.boss.get('/image/v2/images').json()['images']
    for words in (('image_register', disk, 'nobody'), ('kernel_register', disk, 'nobody'),
                  ('ramdisk_register', disk, 'nobody'), ('all_register', disk, disk, disk, 'nobody'),
                  ('convert', tmp_path.parent)):
        code, out, err = nova_manage('image', *words)
        assert (code, out) == (1, '') and 'nobody' in err, (words, err)
    assert cloud.boss.get('/image/v2/images').json()['images'] == before


def test_a_file_that_is_no_image_leaves_none_behind(cloud, nova_manage, tmp_path):
    before = cloud.boss.get('/image/v2/images').json()['images']
    code, _out, err = nova_manage('image', 'image_register', tmp_path / 'none', cloud.boss.project_id)
    assert code == 1 and 'none' in err and len(err.splitlines()) == 1
    disk = tmp_path / 'disk'
    disk.write_bytes(b'\0' * 512)
    code, _out, err = nova_manage('image', 'image_register', disk, cloud.boss.project_id, '--disk-format', 'qcow2')
    assert code == 1 and len(err.splitlines()) == 1
    assert cloud.boss.get('/image/v2/images').json()['images'] == before


def test_a_directory_of_the_bexar_format_is_converted(cloud, nova_manage, tmp_path):
    for name, info in (('ami-1', {'imageId': 'ami-1', 'type': 'machine', 'kernelId': 'aki-1', 'isPublic': True,
                                  'imageOwnerId': cloud.boss.project_id, 'architecture': 'x86_64'}),
                       ('aki-1', {'imageId': 'aki-1', 'type': 'kernel', 'imageOwnerId': cloud.boss.project_id})):
        (tmp_path / name).mkdir()
        (tmp_path / name / 'info.json').write_text(json.dumps(info))
        (tmp_path / name / 'image').write_bytes(name.encode() * 200)
    code, out, err = nova_manage('image', 'convert', tmp_path)
    assert (code, err) == (0, '')
    kernel, image = (shown(cloud, line.split()[-1].rstrip('.')) for line in out.splitlines())
    assert (kernel['disk_format'], kernel['visibility']) == ('aki', 'private')
    assert (image['kernel_id'], image['visibility'], image['architecture']) == (kernel['id'], 'public', 'x86_64')
    (tmp_path / 'aki-1' / 'info.json').write_text('[]')
    code, _out, err = nova_manage('image', 'convert', tmp_path)
    assert code == 1 and 'info.json' in err
    assert nova_manage('image', 'convert', tmp_path / 'ami-1')[0] == 1


def test_shells_have_the_databases(nova_manage, monkeypatch, tmp_path):
    typed = 'with db.reader() as conn: print("rows", conn.exec_driver_sql("SELECT 7").scalar())\n\n'
    monkeypatch.setattr(sys, 'stdin', io.StringIO(typed))
    code, out, err = nova_manage('shell', 'python')
    assert code == 0 and 'rows 7' in out and 'api_db' in err
    monkeypatch.setattr(manage_shell, '_installed', lambda name: name == 'python')
    monkeypatch.setattr(sys, 'stdin', io.StringIO(typed))
    code, out, err = nova_manage('shell', 'bpython')
    assert code == 0 and 'rows 7' in out and 'bpython is not installed; this is python.' in err
    started = []
    monkeypatch.setattr(manage_shell, '_installed', lambda name: name == 'ipython')
    monkeypatch.setitem(sys.modules, 'IPython', types.SimpleNamespace(embed=lambda **given: started.append(given)))
    assert nova_manage('shell', 'run')[0] == 0
    assert sorted(started[0]['user_ns']) == ['api_db', 'cells', 'conf', 'ctx', 'db', 'images']
    script = tmp_path / 'script.py'
    script.write_text('print(__name__, sorted(image["name"] for image in images.list(ctx))[:1], conf.host)\n')
    code, out, _err = nova_manage('shell', 'script', script)
    assert code == 0 and out.startswith("__main__ [") and out.endswith('host1\n')
    assert nova_manage('shell', 'script', tmp_path / 'none.py')[0] == 1


def test_logs_errors_reads_the_journal(nova_manage, tmp_path, monkeypatch):
    """Of daemons that write to their standard error, and of those with use_journal."""
    code, out, err = nova_manage('logs', 'errors')        # by this machine's own journalctl, if any
    assert (code, err) == (0, '') or 'journal' in err
    entries = [{'MESSAGE': f'2026-01-01 00:00:0{n}.000 12 {level} nova.x [-] said {n}', 'PRIORITY': priority,
                'SYSLOG_IDENTIFIER': 'nova-compute', '__REALTIME_TIMESTAMP': '1767225600000000'}
               for n, (level, priority) in enumerate([('INFO', '6'), ('ERROR', '6'), ('INFO', '3')])]
    entries.append({**entries[1], 'MESSAGE': [1, 2]})              # bytes that are no text
    tool = tmp_path / 'journalctl'
    tool.write_text('#!/bin/sh\necho "$@" > ' + str(tmp_path / 'asked') + "\ncat <<'END'\n"
                    + ''.join(json.dumps(entry) + '\n' for entry in entries) + 'END\n')
    tool.chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')
    code, out, _err = nova_manage('logs', 'errors')
    assert code == 0 and [line[-1] for line in out.splitlines()] == ['1', '2']
    assert out.startswith('2026-01-01 00:00:00 nova-compute: ')
    assert '--identifier nova-compute' in (tmp_path / 'asked').read_text()


def test_logs_errors_reads_log_files(nova_manage, tmp_path, monkeypatch):
    monkeypatch.setenv('PATH', str(tmp_path))
    code, _out, err = nova_manage('logs', 'errors')
    assert code == 1 and 'log_dir' in err and 'standard error' in err
    state = ('--log-dir', tmp_path)
    assert nova_manage('logs', 'errors', *state) == (0, 'No errors in logfiles!\n', '')
    (tmp_path / 'nova-api.log').write_text('2026-01-01 00:00:00.000 12 INFO nova.api [-] an ERROR of words\n'
                                           '2026-01-01 00:00:01.000 12 ERROR nova.api [-] first\n'
                                           '2026-01-01 00:00:02.000 12 CRITICAL nova.api [-] second\n')
    code, out, _err = nova_manage('logs', 'errors', *state)
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ['second', 'first']
    assert out.startswith(str(tmp_path / 'nova-api.log') + ':\n  Line 3: ')
    log = tmp_path / 'syslog'
    log.write_text(''.join(f'Jan 1 host nova-api: {number}\n' for number in range(20)) + 'Jan 1 host cron: x\n')
    monkeypatch.setattr(manage_logs, 'SYSLOGS', (str(log),))
    code, out, _err = nova_manage('logs', 'syslog', 3)
    assert [line.split()[-1] for line in out.splitlines()] == ['entries:-', '17', '18', '19']
    assert len(nova_manage('logs', 'syslog')[1].splitlines()) == 11
    for number in ('0', '-3'):
        code, out, _err = nova_manage('logs', 'syslog', '--', number)
        assert (code, out) == (1, '')


# ---- the keys of tokens

def test_keys_are_rotated_beside_a_cloud_that_runs(cloud, nova_manage):
    """Tokens that there are stay valid, the new key seals, and the old one goes when its time is over. The secrets of
    one-time codes stay."""
    old = cloud.client()
    device = old.post('/identity/v3/credentials', {'credential': {
        'type': 'totp', 'user_id': old.user_id, 'blob': 'GEZDGNBVGY3TQOJQGEZDGNBVGY'}}).json()['credential']
    code, out, _err = nova_manage('identity', 'stage_key')
    assert code == 0 and 'promote_key' in out
    assert cloud.client().get('/servers').status_code == old.get('/servers').status_code == 200
    code, out, _err = nova_manage('identity', 'promote_key')
    assert code == 0 and 'retire_keys' in out
    new = cloud.client()
    code, _out, err = nova_manage('identity', 'retire_keys')
    assert code == 1 and 'valid for up to' in err
    assert new.get('/servers').status_code == old.get('/servers').status_code == 200
    code, out, _err = nova_manage('identity', 'rotate_keys')
    assert code == 0 and 'retire_keys' in out and old.get('/servers').status_code == 200
    code, _out, err = nova_manage('identity', 'promote_key')
    assert code == 1 and 'No key is staged' in err
    newest = cloud.client()
    cloud.identity.forget()
    assert nova_manage('identity', 'retire_keys', '--force')[:2] == (0, '2 older keys were removed.\n')
    assert [client.get('/servers').status_code for client in (old, new, newest)] == [401, 401, 200]
    assert newest.get(f'/identity/v3/credentials/{device["id"]}').json()['credential'] == device
    cloud.boss = cloud.admin('2.104')


# ---- projects

@pytest.mark.parametrize('way', ['nova_manage', 'beside_nova_all'])
def test_project_commands_create_and_delete_a_project(cloud, way, request):
    """Through the broker, and beside a nova-all without one."""
    run, name = request.getfixturevalue(way), f'life-{way}'
    code, made, err = run('project', 'create', name, 'demo', '--description', 'for a while')
    assert (code, err) == (0, '')
    project = made.strip()
    assert cloud.identity.get('project', project)['description'] == 'for a while'
    demo = cloud.identity.find('user', name='demo')['id']
    assert [role['name'] for role in cloud.identity.held_roles(demo, 'project', project)] == ['manager']
    assert [line.split() for line in run('project', 'list')[1].splitlines() if name in line] == [
        [project, name, 'True', '0', 'for', 'a', 'while']]
    code, out, err = run('project', 'quota', name, '--key', 'instances', '--value', '3')
    assert (code, err) == (0, '')
    assert ['instances', '3', '0'] in [line.split() for line in out.splitlines()]
    owner = add_user(cloud.boss, name, 'member')
    server = owner.boot(cloud.boss.upload_image(visibility='public'), networks='auto')
    owner.wait_for(server['id'])
    assert [line.split()[3] for line in run('project', 'list')[1].splitlines() if name in line] == ['1']
    group = owner.post('/os-server-groups', {'server_group': {'name': 'g', 'policies': ['affinity']}}, version='2.1')
    assert group.status_code == 200, group.text
    keys = store.KeyStore(cloud.conf, cloud.api_db)
    secret = keys.create_secret(context.RequestContext(user_id='u', project_id=project, overwrite=False),
                                {'secret_type': 'opaque'}, None)
    code, _out, err = run('project', 'delete', name)
    assert code == 1 and '1 servers, 1 server groups, 1 secrets' in err and 'project scrub' in err
    code, out, err = run('project', 'scrub', name)
    assert (code, out, err) == (0, '1 servers and 1 server groups were deleted.\n'
                                'The project still has 1 secrets.\n', '')
    code, _out, err = run('project', 'delete', name)
    assert code == 1 and 'still has 1 secrets' in err
    cloud.api_db.run(records.delete_secrets, [secret])
    assert cloud.boss.get(f'/servers/{server["id"]}').status_code == 404
    with cloud.api_db.reader() as conn:
        assert not quotas.own_limits(conn, project, ('instances',))
    assert run('project', 'delete', project) == (0, '', '')
    assert cloud.identity.find('project', id=project) is None


def test_project_with_a_volume_backup_stays(cloud, nova_manage):
    """Only an administrator who knows its id would find the backup of a project that is gone."""
    project = nova_manage('project', 'create', 'with-backup')[1].strip()
    now = utils.utcnow()
    with cloud.api_db.writer() as conn:
        conn.execute(sa.insert(tables_volume.volume_backups).values(
            id='backup', volume_id='volume', project_id=project, size=1, status='available', metadata={},
            image_metadata={}, created_at=now, updated_at=now))
    code, _out, err = nova_manage('project', 'delete', 'with-backup')
    assert code == 1 and 'still has 1 volume backups.' in err
    assert nova_manage('project', 'scrub', 'with-backup')[1].endswith('The project still has 1 volume backups.\n')
    with cloud.api_db.writer() as conn:
        conn.execute(sa.delete(tables_volume.volume_backups).where(tables_volume.volume_backups.c.id == 'backup'))
    assert nova_manage('project', 'delete', 'with-backup')[0] == 0


def test_project_with_a_network_stays(cloud, nova_manage):
    assert nova_manage('project', 'create', 'with-network')[0] == 0
    owner = add_user(cloud.boss, 'with-network', 'member')
    made = owner.post('/network/v2.0/networks', {'network': {'name': 'n'}})
    assert made.status_code == 201, made.text
    code, _out, err = nova_manage('project', 'delete', 'with-network')
    assert code == 1 and 'still has 1 networks.' in err
    assert nova_manage('project', 'scrub', 'with-network')[1].endswith('The project still has 1 networks.\n')
    assert owner.delete(f'/network/v2.0/networks/{made.json()["network"]["id"]}').status_code == 204
    assert nova_manage('project', 'delete', 'with-network')[0] == 0


def test_scrub_that_leaves_servers_has_its_own_exit_code(cloud, nova_manage, monkeypatch):
    assert nova_manage('project', 'create', 'slow')[0] == 0
    monkeypatch.setattr(manage_projects, 'DELETION_TIMEOUT_S', 0)
    monkeypatch.setattr(manage_projects, '_servers', lambda ask, project: ['slow-server'])
    code, out, _err = nova_manage('project', 'scrub', 'slow')
    assert code == 3 and 'Not deleted yet: slow-server' in out
    assert nova_manage('project', 'delete', 'slow')[0] == 0


def test_invalid_projects_are_refused(cloud, nova_manage, tmp_path, capsys):
    assert nova_manage('project', 'create', 'demo')[::2] == (1, 'nova-manage: ' + str(
        exception.IdentityExists(noun='project', name='demo')) + '\n')
    for words in (('create', ' '), ('create', 'x' * 65), ('create', 'ordinary', 'no-such-user'), ('delete', 'no-such'),
                  ('quota', 'no-such'), ('scrub', 'no-such'), ('quota', 'demo', '--key', 'instances'),
                  ('quota', 'demo', '--key', 'no_such', '--value', '1'),
                  ('quota', 'demo', '--key', 'cores', '--value', '-2')):
        code, out, err = nova_manage('project', *words)
        assert code == 1 and not out and err.startswith('nova-manage: ') and len(err.splitlines()) == 1, (words, err)
    assert cloud.identity.find('project', name='ordinary') is None
    keystone = tmp_path / 'keystone.conf'
    keystone.write_text('[identity]\nbackend = keystone\n')
    code = manage.main(['project', 'list', '--config-file', str(keystone)])
    err = capsys.readouterr().err
    assert code == 1 and 'openstack project' in err
