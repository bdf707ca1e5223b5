"""nova-manage db online_data_migrations and contract, nova-status upgrade check: what they print, their exit codes."""
import datetime
import json
import shutil

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import utils
from nova.cloud import assembly
from nova.cmd import status
from nova.cmd.manage import main as manage
from nova.db import online_migrations
from nova.db import schema as migration
from nova.db.cells import cells as db_cells
from nova.db.services import message_keys
from nova.db.services import services
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.rpc import bus
from nova.rpc import signatures as keys
from nova.rpc import versions


class Deployment:
    """Databases with schema, and how commands are run on them."""

    def __init__(self, path, capsys):
        self._path, self._capsys = path, capsys
        self.config = path / 'nova.conf'
        self.config.write_text('')
        self.conf = nova_conf.new(['--state-path', str(path)], files=[str(self.config)])
        self.api_db, self.db = assembly.open_databases(self.conf)
        self.cells = db_cells.Cells(self.conf, self.api_db, self.db)

    def run(self, main, *words):
        """(exit code, output, errors)"""
        code = main([*words, '--state-path', str(self._path), '--config-file', str(self.config)])
        out, err = self._capsys.readouterr()
        return code, out, err

    def report(self, host, version=versions.VERSION, topic='compute', ago_s=0):
        self.db.run(services.report, host, f'nova-{topic}', topic, 'z', version)
        with self.db.writer() as conn:
            conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == host).values(
                last_seen_at=utils.utcnow() - datetime.timedelta(seconds=ago_s)))

    def map_host(self, host):
        cell = self.cells.default.uuid
        with self.api_db.writer() as conn:
            conn.execute(sa.insert(tables_api.host_mappings).values(host=host, cell_uuid=cell))

    def mapped(self):
        with self.api_db.reader() as conn:
            return dict(map(tuple, conn.execute(sa.select(tables_api.host_mappings))))


@pytest.fixture
def older(monkeypatch):
    """The VERSION of a release before this one, which is supported."""
    this, older = versions.RELEASES[versions.VERSION], versions.VERSION - 1
    monkeypatch.setattr(versions, 'RELEASES', {
        older: versions.Release(dict.fromkeys(this.interfaces, '1.0'), dict.fromkeys(this.objects, '1.0')),
        versions.VERSION: this})
    monkeypatch.setattr(versions, 'OLDEST', older)
    return older


@pytest.fixture(scope='module')
def migrated(tmp_path_factory):
    """A directory with databases that have a schema, to be copied."""
    path = tmp_path_factory.mktemp('migrated')
    conf = nova_conf.new(['--state-path', str(path)], files=[])
    for branch, db in zip(('api', 'cell'), assembly.open_databases(conf)):
        migration.sync(db, branch)
        db.dispose()
    return path


@pytest.fixture
def deployment(tmp_path, migrated, capsys):
    shutil.copytree(migrated, tmp_path, dirs_exist_ok=True)
    made = Deployment(tmp_path, capsys)
    yield made
    made.api_db.dispose()
    made.db.dispose()


# ---- online data migrations

def test_hosts_of_before_are_mapped(deployment):
    for number in range(3):
        deployment.report(f'host{number}')
    deployment.report('control', topic='conductor')
    code, out, err = deployment.run(manage.main, 'db', 'online_data_migrations')
    assert (code, err) == (0, '')
    assert deployment.mapped() == dict.fromkeys(('host0', 'host1', 'host2'), deployment.cells.default.uuid)
    rows = [line.split() for line in out.splitlines()]
    assert ['Migration', 'Total', 'Needed', 'Completed'] in rows and ['map_hosts_to_cells', '3', '3'] in rows
    code, out, _err = deployment.run(manage.main, 'db', 'online_data_migrations')
    assert code == 0 and ['map_hosts_to_cells', '0', '0'] in [line.split() for line in out.splitlines()]


def test_a_bounded_run_says_that_there_may_be_more(deployment):
    for number in range(5):
        deployment.report(f'host{number}')
    codes = [deployment.run(manage.main, 'db', 'online_data_migrations', '--max-count', '2')[0] for _ in range(4)]
    assert codes == [1, 1, 1, 0] and len(deployment.mapped()) == 5


@pytest.mark.parametrize('count', ['0', 'x', '-1', '1.5', '', '²', '9' * 5000],
                         ids=['zero', 'letter', 'negative', 'fraction', 'nothing', 'superscript', 'endless'])
def test_a_wrong_count_is_refused(deployment, count):
    code, _out, err = deployment.run(manage.main, 'db', 'online_data_migrations', f'--max-count={count}')
    assert code == 127 and 'whole number' in err


def test_failed_online_migration_does_not_stop_the_others(deployment, monkeypatch):
    def fail(api_db, cells, limit):
        raise ValueError('broken')
    broken = online_migrations.Migration('broken', fail, None)
    monkeypatch.setattr(online_migrations, 'ROWS', (broken, *online_migrations.ROWS))
    deployment.report('host1')
    code, _out, err = deployment.run(manage.main, 'db', 'online_data_migrations')
    assert code == 2 and 'broken failed: broken' in err        # the last batch got nowhere
    assert 'host1' in deployment.mapped()
    deployment.report('host2')
    assert deployment.run(manage.main, 'db', 'online_data_migrations', '--max-count', '1')[0] == 1


def test_conductors_run_online_migrations_in_the_background(deployment, monkeypatch):
    monkeypatch.setattr(online_migrations, 'BATCH', 2)
    for number in range(3):
        deployment.report(f'host{number}')
    background = online_migrations.Background(deployment.api_db, deployment.cells)
    lefts = []
    for _ in range(3):
        background.run()
        lefts.append(len(deployment.mapped()))
    assert lefts == [2, 3, 3]
    assert background.counts == {**dict.fromkeys(background.counts, 0), 'map_hosts_to_cells': 3}
    deployment.report('host4')
    background.run()                                   # it found nothing to do, and looks again in an hour
    assert len(deployment.mapped()) == 3


# ---- contract

def test_contracting_waits_for_services_of_older_releases(deployment):
    deployment.report('old1', versions.VERSION - 1)
    deployment.report('gone', versions.VERSION - 1, ago_s=1000)
    for command in ('db', 'api_db'):
        code, out, err = deployment.run(manage.main, command, 'contract')
        assert code == 1 and out == '' and 'nova-compute on old1 (cell1)' in err and 'gone' not in err
    deployment.report('old1', versions.VERSION)
    code, _out, err = deployment.run(manage.main, 'db', 'contract')
    assert code == 1 and 'map_hosts_to_cells' in err           # rows wait, too
    deployment.run(manage.main, 'db', 'online_data_migrations')
    assert deployment.run(manage.main, 'db', 'contract')[0] == 0
    assert deployment.run(manage.main, 'api_db', 'contract')[0] == 0
    migration.check(deployment.db, 'cell')
    migration.check(deployment.api_db, 'api')


# ---- nova-status

def check(deployment):
    """(exit code, {check: result}, output)"""
    code, out, err = deployment.run(status.main, 'upgrade', 'check')
    assert err == ''
    lines = [line[2:-2].strip() for line in out.splitlines() if line.startswith('| ')]
    assert lines[0] == 'Upgrade Check Results' and {len(line) for line in out.splitlines()} == {62}
    names = [line.removeprefix('Check: ') for line in lines if line.startswith('Check: ')]
    results = [line.removeprefix('Result: ') for line in lines if line.startswith('Result: ')]
    return code, dict(zip(names, results, strict=True)), out


def test_upgrade_check_passes_on_a_current_deployment(deployment):
    deployment.report('host1')
    deployment.map_host('host1')
    code, results, _out = check(deployment)
    assert code == 0 and set(results.values()) == {'Success'} and len(results) == len(status.CHECKS)


def test_options_may_stand_before_the_command(deployment):
    assert status.main(['--state-path', str(deployment.config.parent), 'upgrade', 'check']) == 0


def test_upgrade_check_returns_1_and_names_warnings(deployment, older):
    deployment.report('host1', older)
    deployment.config.write_text('[upgrade_levels]\ncompute = 1.0\n')
    code, results, out = check(deployment)
    assert code == 1
    assert {name for name, result in results.items() if result == 'Warning'} == {
        'Host Mappings', 'Service Versions', 'Online Data Migrations', 'Upgrade Levels'}
    assert 'nova-compute on host1' in ' '.join(out.replace('|', ' ').split())


def test_upgrade_check_returns_2_and_names_failures(deployment):
    with deployment.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.cells).values(
            uuid=db_cells.CELL0_UUID, name='cell0', transport_url='', disabled=False,
            database_url=deployment.db.url.render_as_string(hide_password=False)))
    policy = deployment.config.parent / 'policy.json'
    policy.write_text(json.dumps({}))
    deployment.config.write_text(f'[oslo_policy]\npolicy_file = {policy}\n')
    deployment.report('ancient', versions.OLDEST - 1)
    code, results, out = check(deployment)
    assert code == 2
    assert {name for name, result in results.items() if result == 'Failure'} == {
        'Cells v2', 'Policy File', 'Older Than N-1 Services'}
    assert 'nova-compute on ancient' in ' '.join(out.replace('|', ' ').split())


def test_a_schema_that_is_to_be_converted_ends_the_check(deployment):
    with deployment.db.writer() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = 'cell_0011'")
    code, results, out = check(deployment)
    assert code == 2 and results == {'Database Schema': 'Failure'} and 'nova-manage db convert' in ' '.join(out.split())


def test_upgrade_check_returns_255_on_errors_without_secrets(deployment, capsys):
    deployment.config.write_text('[api_database]\nconnection = mysql+pymysql://root:canary@127.0.0.1:1/nova\n')
    code, out, err = deployment.run(status.main, 'upgrade', 'check')
    assert code == 255 and out == '' and 'Traceback' not in err and 'canary' not in err
    deployment.config.write_text('no equals sign\n')
    assert deployment.run(status.main, 'upgrade', 'check')[0] == 255


def test_a_pin_that_is_not_known_is_a_failure(deployment):
    deployment.config.write_text('[upgrade_levels]\nnetwork = 8.1\n')
    code, results, _out = check(deployment)
    assert code == 2 and results['Upgrade Levels'] == 'Failure'


def test_rights_of_a_fence_in_ceph_are_asked_for_where_the_configuration_uses_it(deployment):
    deployment.config.write_text('[libvirt]\nrbd_user = nova\nimages_rbd_ceph_conf = /nonexistent/ceph.conf\n')
    code, results, out = check(deployment)
    assert code == 1 and results['Ceph Fencing'] == 'Warning' and 'cannot block clients' in ' '.join(
        out.replace('|', ' ').split())


# ---- pins of a process that has databases

def test_pins_come_from_the_living_rows_of_all_cells(deployment, older, tmp_path):
    """The lowest of the cells that answer; what is down counts with what it said before."""
    second = db_cells.engine.Database(f'sqlite:///{tmp_path}/second.sqlite')
    tables_cell.metadata.create_all(second.engine)
    with deployment.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.cells).values(
            uuid='2' * 36, name='second', transport_url='nova-inprocess:///second', disabled=False,
            database_url=second.url.render_as_string(hide_password=False)))
    deployment.report('new', versions.VERSION, 'conductor')
    second.run(services.report, 'old', 'nova-conductor', 'conductor', 'z', older)
    transport = bus.Bus(deployment.conf, f'nova-inprocess:///{tmp_path}')
    transport.pins = versions.Pins(deployment.conf)
    assembly.follow_versions(deployment.conf, transport, deployment.cells)
    pin = versions.pin_of('conductor', older)
    assert pin != versions.NEWEST and transport.pins.of('conductor') == pin
    assert transport.pins.lowest() == {'conductor': older}
    second.run(services.report, 'old', 'nova-conductor', 'conductor', 'z', versions.VERSION)
    transport.pins.refresh()
    assert transport.pins.of('conductor') == versions.NEWEST
    deployment.report('gone', older, 'conductor', ago_s=1000)       # nobody waits for it
    transport.pins.refresh()
    assert transport.pins.of('conductor') == versions.NEWEST
    second.dispose()
    deployment.cells.close()


def signatures(deployment, text='[messages]\n'):
    """(result, details) of the check of message signatures with a broker."""
    deployment.config.write_text('[DEFAULT]\ntransport_url = rabbit://u:p@127.0.0.1:1/\n' + text)
    _code, results, out = check(deployment)
    found, = [part for part in out.split('Check: ') if part.startswith('Message Signatures')]
    return results['Message Signatures'], ' '.join(found.replace('|', ' ').split())


def test_upgrade_check_reports_missing_message_signatures(deployment):
    assert signatures(deployment)[0] == 'Success'                # before the first start
    deployment.api_db.run(message_keys.signing_key, keys.Key)
    assert signatures(deployment)[0] == 'Success'                # a new deployment requires them
    for name in ('old', 'new'):
        key = keys.Key()
        deployment.api_db.run(message_keys.add, name, key.id, key.public, message_keys.PENDING)
    deployment.api_db.run(message_keys.set_state, key.id, message_keys.APPROVED)
    result, text = signatures(deployment)
    assert result == 'Warning' and 'are refused' in text and 'the keys of old (' in text
    result, text = signatures(deployment, '[messages]\nsignatures = accept\n')
    assert result == 'Warning' and 'signatures is accept. Compare and approve the keys of old (' in text
    with deployment.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.message_keys).values(signatures_required=False))
    result, text = signatures(deployment)
    assert result == 'Warning' and 'this deployment was created by an older release. Compare and approve' in text
    assert 'then do the same on conductors' in text
    assert signatures(deployment, '[messages]\nsignatures = require\n')[0] == 'Warning'
    deployment.api_db.run(message_keys.revoke, 'old')
    assert signatures(deployment, '[messages]\nsignatures = require\n')[0] == 'Success'
