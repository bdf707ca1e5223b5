"""nova-manage: what it prints, and its exit codes."""
import contextlib
import subprocess
import sys
import threading
from http import server

import pytest
import sqlalchemy as sa
import yaml

from nova import conf as nova_conf
from nova import exception
from nova.cmd import samples
from nova.cmd.manage import api_calls
from nova.db import engine
from nova.db import schema as migration
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import server_rows
from nova.tests.support.manage import run


@pytest.mark.parametrize('command', ['manage.main', 'policy', 'status'])
def test_the_modules_of_a_command_load_without_a_warning(command):
    """Libraries that could use eventlet warn of it as they load: a command loads them after its filter of warnings."""
    done = subprocess.run([sys.executable, '-c', f'import nova.cmd.{command}'], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')


def test_db_sync_creates_the_schema_and_version_prints_it(capsys, tmp_path):
    state = ('--state-path', tmp_path)
    for command, branch in (('db', 'cell'), ('api_db', 'api')):
        assert run(capsys, command, 'version', *state) == (0, 'none\n', '')
        assert run(capsys, command, 'sync', *state) == (0, '', '')
        assert run(capsys, command, 'version', *state) == (0, migration.head(branch) + '\n', '')
        assert run(capsys, *state, command, 'version') == (0, migration.head(branch) + '\n', '')
        assert run(capsys, '--state-path=db', *state, command, 'version')[1] == migration.head(branch) + '\n'


def test_lists_need_a_schema_and_say_how_to_get_it(capsys, tmp_path):
    code, out, err = run(capsys, 'service', 'list', '--state-path', tmp_path)
    assert (code, out) == (1, '') and 'run: nova-manage api_db sync' in err
    assert len(err.splitlines()) == 1


def test_list_commands_print_their_columns(capsys, tmp_path):
    state = ('--state-path', tmp_path)
    run(capsys, 'db', 'sync', *state)
    run(capsys, 'api_db', 'sync', *state)
    code, out, _err = run(capsys, 'service', 'list', *state)
    assert (code, out.split()[:2]) == (0, ['Binary', 'Host'])


def test_the_first_network_of_a_cloud_of_daemons_is_made_once(capsys, tmp_path):
    state = ('--state-path', tmp_path)
    assert run(capsys, 'network', 'create', '--default', *state)[0] == 1
    for command in ('db', 'api_db'):
        run(capsys, command, 'sync', *state)
    code, made, _err = run(capsys, 'network', 'create', '--default', *state)
    assert code == 0 and made.endswith(' is the default network. It was created.\n')
    assert run(capsys, 'network', 'create', '--default', *state)[:2] == (
        0, made.replace('It was created.', 'It existed before.'))


def test_network_teardown_without_host_networks_does_nothing(capsys, tmp_path):
    config = tmp_path / 'nova.conf'
    config.write_text('[network]\ndriver = fake\n')
    assert run(capsys, 'network', 'teardown', '--config-file', config) == (0, '', '')


def test_a_database_that_is_away_is_a_sentence_without_the_password(capsys, tmp_path):
    config = tmp_path / 'nova.conf'
    config.write_text('[database]\nconnection = mysql+pymysql://root:canary-secret@127.0.0.1:1/nova\n')
    code, out, err = run(capsys, 'db', 'version', '--config-file', config)
    assert code == 1 and out == '' and 'cannot be used' in err
    assert 'canary' not in err and 'Traceback' not in err


def test_a_broken_file_is_a_sentence(capsys, tmp_path):
    config = tmp_path / 'nova.conf'
    config.write_text('[DEFAULT]\nno equals sign\n')
    code, _out, err = run(capsys, 'db', 'version', '--config-file', config, '--state-path', tmp_path)
    assert code == 2 and 'nova.conf' in err and 'Traceback' not in err


def test_the_samples_name_every_option_and_rule(capsys):
    from nova import conf as nova_conf
    from nova import policy
    code, out, _err = run(capsys, 'config', 'sample')
    assert code == 0
    for group, options in nova_conf.list_opts():
        assert f'[{group}]' in out
        for option in options:
            assert f'#{option.dest} =' in out, option.name
    code, out, _err = run(capsys, 'policy', 'sample')
    assert code == 0
    uncommented = '\n'.join(line[1:] for line in out.splitlines() if line.startswith('#"'))
    assert set(yaml.safe_load(uncommented)) == {rule.name for rule in policy.list_rules()}
    assert samples.NAMESPACES[0] == 'nova'


def test_older_servers_of_the_vpn_image_get_their_category(capsys, tmp_path):
    state = ('--state-path', tmp_path)
    code, _out, err = run(capsys, 'instance_category', 'assign_vpn', *state)
    assert code == 1 and 'vpn_image_id' in err
    config = tmp_path / 'nova.conf'
    config.write_text(f'[DEFAULT]\nvpn_image_id = {server_rows.IMAGE_ID}\n')
    state = (*state, '--config-file', config)
    run(capsys, 'db', 'sync', *state)
    run(capsys, 'api_db', 'sync', *state)
    rows = [server_rows.row(1), server_rows.row(2), server_rows.row(3, image_id=None)]
    api_db, db = (engine.Database(f'sqlite:///{tmp_path}/{name}.sqlite') for name in ('api', 'cell1'))
    with db.writer() as conn:
        server_rows.insert(conn, rows)
    with api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.instance_mappings), [
            {'instance_uuid': row['uuid'], 'cell_uuid': 'c', 'project_id': 'p', 'user_id': 'u', 'vcpus': 1,
             'memory_mb': 1, 'created_at': server_rows.START} for row in rows])
    regular = tmp_path / 'regular.conf'
    regular.write_text(f'[DEFAULT]\nvpn_image_id = {server_rows.IMAGE_ID}\ninstance_cat_vpn = regular\n')
    code, _out, err = run(capsys, 'instance_category', 'assign_vpn', '--state-path', tmp_path, '--config-file', regular)
    assert code == 1 and 'already have the category regular' in err              # it repeated them without end
    for number in (2, 0):                              # again: nothing is left
        assert run(capsys, 'instance_category', 'assign_vpn', *state) == (0, f'cell1: {number} servers\n', '')
    wanted = dict(zip([row['uuid'] for row in rows], ['vpn', 'vpn', 'regular']))
    for found, table, key in ((db, tables_cell.instances, 'uuid'),
                              (api_db, tables_api.instance_mappings, 'instance_uuid')):
        with found.reader() as conn:
            assert dict(conn.execute(sa.select(table.c[key], table.c.category)).all()) == wanted
        found.dispose()


@contextlib.contextmanager
def proxy_in_front(code, body):
    """URL of a server that issues tokens and gives each other request the same answer."""
    class Handler(server.BaseHTTPRequestHandler):
        def log_message(self, *_arguments):
            pass

        def do_POST(self):
            self.rfile.read(int(self.headers['Content-Length']))
            is_token = self.path == '/identity/v3/auth/tokens'
            text = b'{"token": {}}' if is_token else body
            self.send_response(201 if is_token else code)
            self.send_header('X-Subject-Token', 'token')
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)
    with server.HTTPServer(('127.0.0.1', 0), Handler) as front:
        thread = threading.Thread(target=front.serve_forever)
        thread.start()
        try:
            yield f'http://127.0.0.1:{front.server_port}'
        finally:
            front.shutdown()
            thread.join()


@pytest.mark.parametrize('code, body, kind, sentence', [
    (502, b'<html>Bad Gateway</html>', exception.NovaException, '{root} answers 502 Bad Gateway'),
    (503, b'', exception.NovaException, '{root} answers 503 Service Unavailable'),
    (504, b'{"error": "slow"}', exception.NovaException, '{root} answers 504 Gateway Timeout'),
    (404, b'<html>Not Found</html>', exception.NovaException, '{root} answers 404 Not Found'),
    (200, b'<html>Log in</html>', exception.NovaException, '{root} answers 200 OK'),
    (404, b'{"itemNotFound": {"message": "No such server."}}', exception.NotFound, 'No such server.')])
def test_answer_of_a_proxy_before_nova_all_is_one_sentence(tmp_path, code, body, kind, sentence):
    with proxy_in_front(code, body) as root:
        (tmp_path / 'clouds.yaml').write_text(yaml.safe_dump({'clouds': {'nova-admin': {'auth': {
            'auth_url': f'{root}/identity', 'username': 'admin', 'password': 'secret', 'project_name': 'admin',
            'user_domain_name': 'Default', 'project_domain_name': 'Default'}}}}))
        with pytest.raises(exception.NovaException) as refused:
            api_calls.ask_all_in_one(nova_conf.new([], state_path=str(tmp_path)), '/servers', {}, 'latest')
    assert type(refused.value) is kind and str(refused.value).startswith(sentence.format(root=root))
