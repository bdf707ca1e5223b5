"""Which cell a process is at home in, and what a Cell opens."""
import socket
import threading

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import conf as nova_conf
from nova import exception
from nova.db import engine
from nova.db.cells import cells
from nova.db.cells import rows
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.rpc import clients
from nova.rpc.interface import Interface
from nova.tests import schemas


class Deployment:
    """An API database, and Cells of processes with different [database]."""

    def __init__(self, directory):
        self.directory = directory
        self.conf = nova_conf.new(files=[])
        self.api_db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        schemas.create(self.api_db, 'api')
        self.opened, self.connected = [self.api_db], []

    def url(self, name):
        return f'sqlite:///{self.directory}/{name}.sqlite'

    def add(self, name, uuid=None, **values):
        with self.api_db.writer() as conn:
            conn.execute(sa.insert(tables_api.cells).values(**{
                'uuid': uuid or name.ljust(36, '0'), 'name': name, 'database_url': self.url(name),
                'transport_url': f'rabbit://{name}', 'disabled': False, **values}))

    def update(self, name, **values):
        with self.api_db.writer() as conn:
            conn.execute(sa.update(tables_api.cells).where(tables_api.cells.c.name == name).values(**values))

    def process(self, name):
        """The Cells of a process whose [database] is that of a cell."""
        self.opened.append(engine.Database(self.url(name)))
        return cells.Cells(self.conf, self.api_db, self.opened[-1], self._connect)

    def _connect(self, url):
        made = clients.Clients(lambda: _Bus(self.connected, url), {'compute': Interface('compute', '1.0')},
                               _Bus.close if url else None)
        return made


class _Bus:
    def __init__(self, connected, url):
        self.connected, self.url = connected, url
        connected.append(url)

    def client(self, interface):
        return self.url, interface.topic

    def close(self):
        self.connected.remove(self.url)


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    yield made
    for db in made.opened:
        db.dispose()


def test_one_cell_makes_itself_known(deployment):
    first, second = deployment.process('any'), deployment.process('any')
    assert first.default.uuid == second.default.uuid == first.top.uuid
    assert (first.default.name, first.default.database_url, first.default.transport_url) == ('cell1', '', '')
    assert [cell.name for cell in first.all()] == ['cell1'] and not first.default.disabled


def test_the_row_of_the_database_is_home(deployment):
    deployment.add('cell0', cells.CELL0_UUID, transport_url='rabbit://top')
    deployment.add('one')
    deployment.add('two')
    top, one = deployment.process('cell0'), deployment.process('one')
    assert top.default is top.top and top.default.uuid == cells.CELL0_UUID
    assert one.default.name == 'one' and one.top.name == 'cell0' and one.top is not one.default
    assert [cell.name for cell in one.all()] == ['one', 'cell0', 'two']
    assert top.default.rpc.compute == one.default.rpc.compute == ('', 'compute')       # on the process's own bus
    assert one.top.rpc.compute == ('rabbit://top', 'compute')
    assert one.top.rpc is one.top.rpc and deployment.connected.count('rabbit://top') == 1
    one.close()
    assert 'rabbit://top' not in deployment.connected


def test_the_own_cell_waits_for_no_other(deployment, monkeypatch):
    """The API database hangs where somebody looks for new cells."""
    made, go, asked = deployment.process('any'), threading.Event(), threading.Event()
    default, opened = made.default, deployment.api_db.reader

    def reader():
        asked.set()
        go.wait(10)
        return opened()
    monkeypatch.setattr(deployment.api_db, 'reader', reader)
    looking = threading.Thread(target=made.all)
    looking.start()
    asked.wait(20)
    found = []
    finder = threading.Thread(target=lambda: found.append(made.default))
    finder.start()
    finder.join(5)
    go.set()
    looking.join(20)
    assert found == [default]


def test_a_row_without_urls_is_home_where_no_other_is(deployment):
    deployment.add('old', database_url='', transport_url='')
    deployment.add('new')
    assert deployment.process('configured').default.name == 'old'
    assert deployment.process('new').default.name == 'new'


def test_another_password_makes_no_other_cell(deployment):
    """The [database] of a process has got a new one; the row is not changed yet."""
    url = 'mysql+pymysql://nova:%s@db.example/%s'
    deployment.add('one', database_url=url % ('old', 'nova_one'))
    deployment.add('two', database_url=url % ('old', 'nova_two'))
    for name in ('one', 'two'):
        db = engine.Database(url % ('new', f'nova_{name}'), wait=False)
        assert cells.Cells(deployment.conf, deployment.api_db, db).default.name == name
        deployment.opened.append(db)


def test_database_outside_of_all_cells_is_refused(deployment):
    deployment.add('cell1')
    with pytest.raises(exception.InvalidInput, match='of no cell'):
        deployment.process('other').all()


def test_changed_cell_rows_update_known_cells(deployment):
    deployment.add('cell0', cells.CELL0_UUID)
    deployment.add('one')
    known = deployment.process('cell0')
    one = known.all()[1]
    assert not one.disabled
    deployment.update('one', disabled=True)
    known.refresh()
    assert known.all()[1] is one and one.disabled
    assert one.rpc.compute and deployment.connected == ['rabbit://one']
    assert len(known.scatter(_name)[0]) == 2
    deployment.update('one', transport_url='rabbit://elsewhere')
    known.refresh()
    assert known.all()[1].rpc.compute == ('rabbit://elsewhere', 'compute')
    assert deployment.connected == ['rabbit://elsewhere']          # nothing stays open of what it was
    assert one._db is None and one._executor is None
    with deployment.api_db.writer() as conn:
        conn.execute(sa.delete(tables_api.cells).where(tables_api.cells.c.name == 'one'))
    known.refresh()
    assert [cell.name for cell in known.all()] == ['cell0'] and deployment.connected == []


def _name(cell):
    with cell.db.reader():
        return cell.name


def test_a_cell_that_refuses_connections_is_not_waited_for(deployment, monkeypatch, caplog):
    """Neither at the first look at it nor, for a while, at all."""
    deployment.add('cell0', cells.CELL0_UUID)
    with socket.socket() as bound:                          # nobody listens there
        bound.bind(('127.0.0.1', 0))
        deployment.add('away', database_url='mysql+pymysql://nova:secret@127.0.0.1:%d/nova' % bound.getsockname()[1])
        known, asked = deployment.process('cell0'), []
        for _ in range(20):
            found, down = known.scatter(lambda cell: (asked.append(cell.name), _name(cell)))
            assert [cell.name for cell, _ in found] == ['cell0'] and [cell.name for cell in down] == ['away']
        assert 'Cannot connect to the database' not in caplog.text       # which is said before a second of rest
        # a second time at once, in case it was a connection that had been kept open
        assert asked.count('away') == 2 and asked.count('cell0') == 20
        away = known.get('away'.ljust(36, '0'))
        monkeypatch.setattr(away, '_db', engine.Database(deployment.url('away')))
        deployment.opened.append(away.db)
        assert known.scatter(_name)[1] == [away]
        away.rest(0)
        assert known.scatter(_name)[1] == []
    known.close()


def test_cell_without_schema_does_not_delay_other_cells(deployment, caplog):
    """``map_cell0`` comes before ``db sync``: whoever asks all cells meanwhile goes on with the others."""
    deployment.add('cell0', cells.CELL0_UUID)
    deployment.add('bare')
    known = deployment.process('cell0')
    tables_cell.metadata.create_all(known.default.db.engine)

    def ask(cell):
        with cell.db.reader() as conn:
            return conn.execute(sa.select(tables_cell.services.c.host)).all()
    found, down = known.scatter(ask)
    assert [cell.name for cell, _ in found] == ['cell0'] and [cell.name for cell in down] == ['bare']
    said = caplog.messages[-1]
    assert 'no such table: services' in said and 'SELECT' not in said
    known.close()


@pytest.mark.parametrize('url', ['no url', 'foo://broker/nova', 'mysql+pymysql://nova:secret@host:port/nova'])
def test_a_cell_whose_url_is_none_is_away(deployment, caplog, url):
    deployment.add('cell0', cells.CELL0_UUID)
    deployment.add('wrong', database_url=url)
    known = deployment.process('cell0')
    found, down = known.scatter(_name)
    assert [cell.name for cell, _ in found] == ['cell0'] and [cell.name for cell in down] == ['wrong']
    assert 'is not a URL of a database' in caplog.messages[-1] and 'secret' not in caplog.text
    known.close()


def test_closed_connection_does_not_mark_a_cell_as_unavailable(deployment):
    deployment.add('cell0', cells.CELL0_UUID)
    deployment.add('one')
    known, failures = deployment.process('cell0'), {'cell0': 1, 'one': 1}

    def ask(cell):
        if failures.pop(cell.name, 0):
            raise db_exc.DBConnectionError
        return cell.name
    found, down = known.scatter(ask)
    assert [name for _, name in found] == ['cell0', 'one'] and down == []
    known.close()


def test_a_timeout_inside_of_what_is_asked_of_the_only_cell_is_its_own(deployment):
    """It ended in an AttributeError: there is nothing to cancel where the cell is asked in this thread."""
    def ask(cell):
        raise TimeoutError('the store does not answer')
    with pytest.raises(TimeoutError, match='the store does not answer'):
        deployment.process('any').scatter(ask)


def test_timeout_raised_by_the_function_does_not_mark_one_of_several_cells_as_down(deployment):
    deployment.add('cell0', cells.CELL0_UUID)
    deployment.add('one')
    known = deployment.process('cell0')

    def ask(cell):
        if cell.name == 'one':
            raise TimeoutError('the store does not answer')
    with pytest.raises(TimeoutError, match='the store does not answer'):
        known.scatter(ask)
    assert known.scatter(_name)[1] == []
    known.close()


def test_cell_that_does_not_answer_in_time_is_down(deployment, caplog):
    deployment.add('cell0', cells.CELL0_UUID)
    deployment.add('one')
    known, go = deployment.process('cell0'), threading.Event()
    found, down = known.ask(known.all(), lambda cell: cell.name == 'cell0' or go.wait(20), 1)
    go.set()
    assert [cell.name for cell, _ in found] == ['cell0'] and [cell.name for cell in down] == ['one']
    assert 'Cell one did not answer within 1 s.' in caplog.text
    known.close()


def test_a_host_that_is_forgotten_while_it_is_mapped_is_mapped(deployment, monkeypatch):
    """Its mapping was there when it was to be written, and gone when it was read: the host had none then."""
    read, gone = rows.cell_of_host, [True]

    def cell_of_host(conn, host):
        if gone and gone.pop():
            rows.forget_host(conn, host)
        return read(conn, host)
    monkeypatch.setattr(rows, 'cell_of_host', cell_of_host)
    assert deployment.api_db.run(rows.map_host, 'one', cells.CELL0_UUID) == cells.CELL0_UUID
    with deployment.api_db.reader() as conn:
        assert read(conn, 'one') == cells.CELL0_UUID


def test_unknown_rpc_client_raises_attribute_error(deployment):
    with pytest.raises(AttributeError, match='no client for nonsense'):
        deployment.process('any').default.rpc.nonsense()
