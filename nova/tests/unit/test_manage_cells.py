"""nova-manage cell_v2: what each command does, what it prints, and its exit codes."""
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova.cmd.manage import main as manage
from nova.db import engine
from nova.db import schema as migration
from nova.db.cells import cells
from nova.db.cells import urls as cell_urls
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import schemas
from nova.tests import server_rows
from nova.tests.functional import cloud_rows

RABBIT = 'rabbit://nova:canary-secret@broker:5672/'
NOWHERE = str(uuid.UUID(int=7))


class Deployment:
    """An API database, databases of cells, and a configuration whose [database] is the one of ``home``."""

    def __init__(self, directory, capsys, home='cell1', transport=RABBIT):
        self.directory, self.capsys, self.dbs = directory, capsys, {}
        self.conf = directory / 'nova.conf'
        self.configure(home, transport)
        self.api_db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        schemas.migrate(self.api_db, 'api')
        self(0, 'api_db', 'sync')
        self.db(home)

    def configure(self, home, transport=RABBIT):
        self.conf.write_text('[DEFAULT]\n' + (f'transport_url = {transport}\n' if transport else '') +
                             f'[api_database]\nconnection = sqlite:///{self.directory}/api.sqlite\n'
                             f'[database]\nconnection = {self.url(home)}\n')

    def url(self, name):
        return f'sqlite:///{self.directory}/{name}.sqlite'

    def db(self, name):
        """The database of a cell, with its tables."""
        if name not in self.dbs:
            self.dbs[name] = engine.Database(self.url(name))
            schemas.create(self.dbs[name], 'cell')
        return self.dbs[name]

    def __call__(self, code, group, command, *arguments):
        """Run a command that ends with this code; what it printed."""
        found = manage.main([group, command, *map(str, arguments), '--config-file', str(self.conf)])
        out, err = self.capsys.readouterr()
        assert found == code, (found, out, err)
        return out + err

    def cell(self, code, command, *arguments):
        return self(code, 'cell_v2', command, *arguments)

    def create(self, name, *more):
        """A cell of this name with a database; its uuid."""
        self.db(name)
        return self.cell(0, 'create_cell', '--name', name, '--database_connection', self.url(name), '--transport-url',
                         f'rabbit://nova:canary-secret@{name}:5672/', '--verbose', *more).strip()

    def rows(self, table=tables_api.cells):
        with self.api_db.reader() as conn:
            return [dict(row) for row in conn.execute(sa.select(table)).mappings()]

    def host(self, cell, *hosts):
        with self.db(cell).writer() as conn:
            for host in hosts:
                cloud_rows.service(conn, host)
                cloud_rows.node(conn, host)

    def servers(self, cell, count, **values):
        rows = [server_rows.row(number, **values) for number in range(count)]
        with self.db(cell).writer() as conn:
            server_rows.insert(conn, rows)
        return [row['uuid'] for row in rows]

    def mapped(self):
        return {row['instance_uuid']: row for row in self.rows(tables_api.instance_mappings)}

    def close(self):
        for db in (self.api_db, *self.dbs.values()):
            db.dispose()


@pytest.fixture
def deployment(tmp_path, capsys):
    made = Deployment(tmp_path, capsys)
    yield made
    made.close()


def _hosts(out):
    return [[word.strip() for word in line.split('|')[1:-1]] for line in out.splitlines()[3:-1]]


# ---- URLs --------------------------------------------------------------------

@pytest.mark.parametrize('template, filled', [
    ('mysql://a:b@c/d', 'mysql://a:b@c/d'),
    ('{scheme}://{username}:{password}@{hostname}:{port}/nova_cell2?{query}',
     'mysql+pymysql://nova:p%40ss@db:3306/nova_cell2?charset=utf8mb4'),
    ('{scheme}://other@{hostname}/{path}x#{fragment}', 'mysql+pymysql://other@db/nova_cell0x#')])
def test_database_url_template_is_filled_from_the_configuration(template, filled):
    assert cell_urls.fill(template, 'mysql+pymysql://nova:p%40ss@db:3306/nova_cell0?charset=utf8mb4') == filled


def test_transport_url_template_is_filled_for_several_brokers():
    configured = 'rabbit://u1:p1@[fd00::1]:5672,u2:p2@two/vhost'
    assert cell_urls.fill('{scheme}://{username1}:{password1}@{hostname1}:{port1},{username2}:{password2}@{hostname2}'
                          '/{path}2', configured) == 'rabbit://u1:p1@[fd00::1]:5672,u2:p2@two/vhost2'
    assert cell_urls.fill('{username}', configured) == 'u1'
    for template, known in (('{username3}', configured), ('{scheme}', None), ('{user}', configured)):
        with pytest.raises(exception.InvalidInput):
            cell_urls.fill(template, known)


@pytest.mark.parametrize('url, shown', [
    ('sqlite:////var/lib/nova/cell1.sqlite', 'sqlite:////var/lib/nova/cell1.sqlite'),
    ('mysql+pymysql://nova:se:cr/et@db/nova?charset=utf8', 'mysql+pymysql://nova:****@db/nova?charset=utf8'),
    ('rabbit://a:x@one:5672,b:y@two:5672/v', 'rabbit://a:****@one:5672,b:****@two:5672/v'),
    ('rabbit://guest@one/', 'rabbit://guest@one/'), ('', '')])
def test_passwords_in_urls_are_masked(url, shown):
    assert cell_urls.masked(url) == shown


# ---- cells -------------------------------------------------------------------

def test_cells_are_made_listed_and_masked(deployment):
    one = deployment.create('one')
    assert deployment.rows() == [{
        'uuid': one, 'name': 'one', 'database_url': deployment.url('one'), 'disabled': False,
        'transport_url': 'rabbit://nova:canary-secret@one:5672/'}]
    deployment.create('two', '--disabled')
    out = deployment.cell(0, 'list_cells')
    lines = out.splitlines()
    assert lines[0] == lines[2] == lines[-1] and set(lines[0]) == set('+-')
    assert [word.strip() for word in lines[1].split('|')[1:-1]] == [
        'Name', 'UUID', 'Transport URL', 'Database Connection', 'Disabled']
    assert [(row[0], row[2], row[4]) for row in _hosts(out)] == [
        ('one', 'rabbit://nova:****@one:5672/', 'False'), ('two', 'rabbit://nova:****@two:5672/', 'True')]
    assert 'canary' not in out and 'canary-secret' in deployment.cell(0, 'list_cells', '--verbose')


def test_looking_at_cells_makes_none(deployment):
    assert _hosts(deployment.cell(0, 'list_cells')) == [] and _hosts(deployment.cell(0, 'list_hosts')) == []
    assert deployment.rows() == []


def test_create_cell_uses_the_configured_urls(deployment):
    assert deployment.cell(0, 'create_cell') == ''
    row, = deployment.rows()
    assert (row['name'], row['database_url'], row['transport_url']) == ('cell1', deployment.url('cell1'), RABBIT)


def test_invalid_cell_is_refused_without_secrets_in_the_message(deployment, tmp_path, capsys):
    deployment.create('one')
    for given, code in (
            (('--database_connection', deployment.url('one')), 2),
            (('--transport-url', 'rabbit://nova:canary-secret@one:5672/'), 2),
            (('--transport-url', 'no url'), 1), (('--transport-url', 'rabbit:///'), 1),
            (('--database_connection', 'no url'), 1), (('--database_connection', 'oracle://a/b'), 1),
            (('--name', 'one'), 1), (('--database_connection', '{nosuch}://x'), 1)):
        out = deployment.cell(code, 'create_cell', *given)
        assert len(out.splitlines()) == 1 and 'canary' not in out
    assert len(deployment.rows()) == 1
    deployment.configure('cell1', transport=None)
    assert '--transport-url' in deployment.cell(1, 'create_cell')


def test_a_cell_by_templates_is_opened_by_its_daemons(deployment):
    """Rows hold no password; processes fill it in from their own configuration."""
    from nova import conf as nova_conf
    deployment.db('nova_cell2')
    template = '{scheme}:///{path}'.replace('{path}', f'{deployment.directory}/nova_cell2.sqlite')
    deployment.cell(0, 'create_cell', '--name', 'two', '--database_connection', template,
                    '--transport-url', '{scheme}://{username}:{password}@two/')
    deployment.cell(0, 'map_cell0', '--database_connection', deployment.url('cell1'))
    conf = nova_conf.new(files=[str(deployment.conf)])
    found = cells.Cells(conf, deployment.api_db)
    other, = [cell for cell in found.all() if cell.name == 'two']
    assert str(other.db.url) == deployment.url('nova_cell2')
    other.db.dispose()


def test_cells_are_changed(deployment):
    one, two = deployment.create('one'), deployment.create('two')
    change = ('update_cell', '--cell_uuid', one)
    deployment.cell(0, *change, '--name', 'uno', '--disable')
    row = {row['uuid']: row for row in deployment.rows()}[one]
    assert (row['name'], row['disabled'], row['database_url']) == ('uno', True, deployment.url('one'))
    deployment.cell(0, *change, '--enable', '--transport-url', 'rabbit://elsewhere/')
    row = {row['uuid']: row for row in deployment.rows()}[one]
    assert (row['disabled'], row['transport_url']) == (False, 'rabbit://elsewhere/')
    deployment.cell(1, 'update_cell', '--cell_uuid', NOWHERE, '--name', 'x')
    for given in (('--name', 'two'), ('--transport-url', 'no url'), ('--database_connection', 'no url')):
        deployment.cell(2, *change, *given)
    deployment.cell(3, *change, '--database_connection', deployment.url('two'))
    deployment.cell(3, *change, '--transport-url', 'rabbit://nova:canary-secret@two:5672/')
    deployment.cell(4, *change, '--enable', '--disable')
    deployment.cell(0, 'map_cell0')
    for given in ('--enable', '--disable'):
        deployment.cell(5, 'update_cell', '--cell_uuid', cells.CELL0_UUID, given)
    assert two in {row['uuid'] for row in deployment.rows()}


def test_a_change_that_names_nothing_takes_what_is_configured(deployment):
    one = deployment.create('one')
    deployment.cell(0, 'update_cell', '--cell_uuid', one)
    row, = deployment.rows()
    assert (row['database_url'], row['transport_url']) == (deployment.url('cell1'), RABBIT)


@pytest.mark.parametrize('home, database', [('nova', 'nova_cell0'), ('nova_cell0', 'nova_cell0'), ('cell0', 'cell0')])
def test_map_cell0_registers_cell0(tmp_path, capsys, home, database):
    deployment = Deployment(tmp_path, capsys, home)
    assert deployment.cell(0, 'map_cell0') == ''
    assert deployment.rows() == [{'uuid': cells.CELL0_UUID, 'name': 'cell0', 'database_url': deployment.url(database),
                                  'transport_url': RABBIT, 'disabled': False}]
    assert 'already' in deployment.cell(0, 'map_cell0') and len(deployment.rows()) == 1
    deployment.close()


def test_schemas_of_cell0_follow_those_of_the_configured_cell(deployment):
    deployment.cell(0, 'map_cell0')
    path = deployment.directory / 'cell1_cell0.sqlite'
    deployment.dbs['cell1'].dispose()
    (deployment.directory / 'cell1.sqlite').unlink()
    deployment(0, 'db', 'sync', '--local_cell')
    assert not path.exists()
    deployment(0, 'db', 'sync')
    cell0 = engine.Database(f'sqlite:///{path}')
    assert migration.version(cell0) == migration.head('cell')
    cell0.dispose()


def test_cell0_has_a_database_of_its_own(deployment):
    deployment.create('one')
    assert 'one' in deployment.cell(1, 'map_cell0', '--database_connection', deployment.url('one'))
    assert len(deployment.rows()) == 1


def test_only_empty_cells_are_deleted(deployment):
    one = deployment.create('one')
    deployment.cell(1, 'delete_cell', '--cell_uuid', NOWHERE)
    deployment.host('one', 'host1')
    deployment.cell(0, 'discover_hosts')
    deployment.cell(2, 'delete_cell', '--cell_uuid', one)
    uuids = deployment.servers('one', 2)
    deployment.cell(0, 'map_instances', '--cell_uuid', one)
    deployment.cell(2, 'delete_cell', '--cell_uuid', one)
    deployment.cell(3, 'delete_cell', '--cell_uuid', one, '--force')
    deployment.cell(0, 'create_cell', '--name', 'other')
    with deployment.api_db.writer() as conn:
        conn.execute(sa.delete(tables_api.host_mappings))
    deployment.cell(3, 'delete_cell', '--cell_uuid', one)
    with deployment.db('one').writer() as conn:
        conn.execute(sa.delete(tables_cell.instances))
    deployment.cell(4, 'delete_cell', '--cell_uuid', one)
    assert deployment.mapped().keys() == set(uuids)
    deployment.cell(0, 'delete_cell', '--cell_uuid', one, '--force')
    assert [row['name'] for row in deployment.rows()] == ['other'] and deployment.mapped() == {}
    deployment.cell(0, 'delete_cell', '--cell_uuid', deployment.rows()[0]['uuid'])
    assert deployment.rows() == []


@pytest.mark.parametrize('more', [(), ('--force',)])
def test_an_empty_cell_whose_database_is_gone_is_deleted(deployment, more):
    """create_cell takes a mistyped host name, and delete_cell could not connect to it."""
    cell = deployment.cell(0, 'create_cell', '--name', 'typo', '--database_connection', 'mysql+pymysql://u:p@127.0.0.1:1/x',
                           '--verbose').strip()
    deployment.cell(0, 'delete_cell', '--cell_uuid', cell, *more)
    assert deployment.rows() == []


@pytest.mark.parametrize('command, more', [
    ('update_cell', ('--name', 'x')), ('delete_cell', ()), ('discover_hosts', ('--verbose',)), ('list_hosts', ()),
    ('delete_host', ('--host', 'host1')), ('map_instances', ())])
def test_every_command_says_the_same_of_a_cell_that_is_not_there(deployment, command, more):
    """On standard output, where tools of deployments look for it, and nothing else."""
    assert manage.main(['cell_v2', command, '--cell_uuid', NOWHERE, *more, '--config-file', str(deployment.conf)]) == 1
    assert tuple(deployment.capsys.readouterr()) == (f'Cell with uuid {NOWHERE} was not found.\n', '')


def test_simple_cell_setup_maps_cells_and_hosts(deployment):
    assert 'No hosts' in deployment.cell(1, 'simple_cell_setup')
    assert {row['name'] for row in deployment.rows()} == {'cell0', 'cell1'}
    deployment.host('cell1', 'host1', 'host2')
    assert deployment.cell(0, 'simple_cell_setup') == ''
    assert 'already mapped' in deployment.cell(0, 'simple_cell_setup')
    assert len(deployment.rows()) == 2
    assert [row[::2] for row in _hosts(deployment.cell(0, 'list_hosts'))] == [['cell1', 'host1'], ['cell1', 'host2']]


def test_simple_cell_setup_needs_a_transport_url(tmp_path, capsys):
    deployment = Deployment(tmp_path, capsys, transport=None)
    for command in ('simple_cell_setup', 'map_cell_and_hosts'):
        assert '--transport-url' in deployment.cell(1, command)
        deployment.cell(1, command, '--transport-url', 'no url')
        assert deployment.rows() == []               # a half of it would be a cell without a schema
    deployment.host('cell1', 'host1')
    assert deployment.cell(0, 'simple_cell_setup', '--transport-url', RABBIT) == ''
    deployment.close()


def test_map_cell_and_hosts_maps_the_hosts(deployment):
    deployment.host('cell1', 'host1')
    shown = deployment.cell(0, 'map_cell_and_hosts', '--name', 'east', '--verbose')
    row, = deployment.rows()
    assert shown.split()[-1] == row['uuid'] and row['name'] == 'east'
    assert [row['host'] for row in deployment.rows(tables_api.host_mappings)] == ['host1']
    assert 'already mapped' in deployment.cell(0, 'map_cell_and_hosts', '--transport-url', RABBIT)
    assert len(deployment.rows()) == 1


# ---- hosts -------------------------------------------------------------------

def test_hosts_are_discovered(deployment):
    deployment.cell(0, 'map_cell0')
    one, two = deployment.create('one'), deployment.create('two')
    deployment.host('one', 'host1')
    deployment.host('two', 'host2')
    out = deployment.cell(0, 'discover_hosts', '--verbose', '--cell_uuid', one)
    assert out.splitlines() == [
        f"Getting computes from cell 'one': {one}", f'Found 1 computes in cell: {one}', *(
            f"{text} host mapping for compute host 'host1': {_node(deployment, 'one')}"
            for text in ('Checking', 'Creating'))]
    assert _hosts(deployment.cell(0, 'list_hosts')) == [['one', one, 'host1']]
    out = deployment.cell(0, 'discover_hosts', '--verbose', '--strict')
    assert out.splitlines()[:2] == ['Found 3 cell mappings.', 'Skipping cell0 since it does not contain hosts.']
    deployment.cell(1, 'discover_hosts', '--strict')
    assert deployment.cell(0, 'discover_hosts') == ''
    assert _hosts(deployment.cell(0, 'list_hosts', '--cell_uuid', two)) == [['two', two, 'host2']]
    for command in ('list_hosts', 'discover_hosts'):
        deployment.cell(1, command, '--cell_uuid', NOWHERE)


def _node(deployment, cell):
    with deployment.db(cell).reader() as conn:
        return conn.execute(sa.select(tables_cell.compute_nodes.c.uuid)).scalar()


def test_computes_without_nodes_are_found_by_their_service(deployment):
    deployment.create('one')
    with deployment.db('one').writer() as conn:
        cloud_rows.service(conn, 'bare1')
        cloud_rows.service(conn, 'conductor1', 'nova-conductor')
    deployment.cell(1, 'discover_hosts', '--strict')
    out = deployment.cell(0, 'discover_hosts', '--strict', '--by-service', '--verbose')
    assert "for service 'bare1'" in out and 'conductor1' not in out


def test_host_in_two_cells_is_refused(deployment):
    for name in ('one', 'two'):
        deployment.create(name)
        deployment.host(name, 'host1')
    assert 'unique' in deployment.cell(2, 'discover_hosts')
    assert [row[0] for row in _hosts(deployment.cell(0, 'list_hosts'))] == ['one']


def test_hosts_are_deleted(deployment):
    one, two = deployment.create('one'), deployment.create('two')
    deployment.host('one', 'host1')
    deployment.cell(0, 'discover_hosts')
    deployment.cell(1, 'delete_host', '--cell_uuid', NOWHERE, '--host', 'host1')
    deployment.cell(2, 'delete_host', '--cell_uuid', one, '--host', 'host2')
    deployment.cell(3, 'delete_host', '--cell_uuid', two, '--host', 'host1')
    deployment.servers('one', 1)
    deployment.cell(4, 'delete_host', '--cell_uuid', one, '--host', 'host1')
    with deployment.db('one').writer() as conn:
        conn.execute(sa.delete(tables_cell.instances))
    deployment.cell(0, 'delete_host', '--cell_uuid', one, '--host', 'host1')
    assert _hosts(deployment.cell(0, 'list_hosts')) == []


# ---- servers -----------------------------------------------------------------

def test_servers_are_mapped_from_the_oldest_on(deployment):
    one = deployment.create('one')
    uuids = deployment.servers('one', 120, vcpus=3, memory_mb=7, category='vpn')
    for done in (70, 119):
        deployment.cell(1, 'map_instances', '--cell_uuid', one, '--max-count', 70 if done == 70 else 49)
        assert deployment.mapped().keys() == set(uuids[:done])
    deployment.cell(0, 'map_instances', '--cell_uuid', one, '--max-count', 1)
    row = deployment.mapped()[uuids[119]]
    assert (row['cell_uuid'], row['vcpus'], row['memory_mb'], row['category'], row['queued_for_delete']) == (
        one, 3, 7, 'vpn', False)
    lost, = deployment.servers('one', 1, vm_state='soft-delete')
    deployment.cell(0, 'map_instances', '--cell_uuid', one)
    assert deployment.mapped()[lost]['queued_for_delete'] is True and len(deployment.mapped()) == 121


def test_map_instances_refuses_bad_arguments_and_hides_secrets(deployment):
    one = deployment.create('one')
    for count in ('0', '-1', 'x'):
        deployment.cell(127, 'map_instances', '--cell_uuid', one, f'--max-count={count}')
    deployment.cell(1, 'map_instances', '--cell_uuid', NOWHERE)
    deployment.cell(2, 'map_instances', '--cell_uuid', one, '--reset')       # there is no saved position
    with deployment.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.cells).values(database_url='mysql+pymysql://u:canary@127.0.0.1:1/x'))
    assert 'canary' not in deployment.cell(255, 'map_instances', '--cell_uuid', one)


def test_a_server_is_looked_up(deployment):
    one = deployment.create('one')
    live, gone, lost = deployment.servers('one', 3)
    verify = ('verify_instance', '--uuid')
    deployment.cell(1, *verify, live)
    deployment.cell(0, 'map_instances', '--cell_uuid', one)
    assert deployment.cell(0, *verify, live) == f'Instance {live} is in cell: one ({one})\n'
    assert deployment.cell(0, *verify, live, '--quiet') == ''
    with deployment.db('one').writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid.in_((gone, lost))))
        server_rows.insert(conn, [server_rows.row(1, uuid=gone)], deleted=True)
    assert 'deleted' in deployment.cell(3, *verify, gone)
    assert deployment.cell(4, *verify, lost) and deployment.cell(4, *verify, lost, '--quiet') == ''
    with deployment.api_db.writer() as conn:
        conn.execute(sa.delete(tables_api.cells))
    deployment.cell(2, *verify, live)
