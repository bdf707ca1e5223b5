"""Connections that break at each statement of a write, before it or behind it: what is written is written once.

The databases are real ones; what is between them and us forwards all that is sent, and breaks off where it is told to.
"""
import contextlib
import dataclasses
import itertools
import os
import socket
import threading
import time

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova.db import engine
from nova.db import server_engines
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import core
from nova.tests import long_runs
from nova.tests.functional import servers as fixture
from nova.tests.integration import servers

TABLE = sa.Table('counted', sa.MetaData(), sa.Column('id', sa.Integer, primary_key=True), sa.Column('n', sa.Integer))
NUMBER = sa.select(TABLE.c.n)
ONE = sa.update(TABLE).where(TABLE.c.id == 1).values(n=TABLE.c.n + 1)
ASKED = 4                # how often who gets no answer asks: two processes of the tree do it for minutes


class Wire:
    """What is between a database and its clients."""

    def __init__(self, port):
        self._port, self._lock, self._left, self._answered = port, threading.Lock(), None, True
        self._listening = socket.create_server(('127.0.0.1', 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.close()

    @contextlib.contextmanager
    def breaking(self, place):
        """Break the connection at so many things that are said to the database from now on, if there are so many."""
        with self._lock:
            self._left, self._answered = place.number, place.answered
        try:
            yield
        finally:
            with self._lock:
                place.reached, self._left = self._left is None, None

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listening.accept()
                theirs = socket.create_connection(('127.0.0.1', self._port))
                lost = threading.Event()
                for source, target in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._forward, args=(source, target, source is ours, lost),
                                     daemon=True).start()

    def _forward(self, source, target, asks, lost):
        with contextlib.suppress(OSError):
            while (data := source.recv(1 << 20)) and not lost.is_set():
                if asks and self._is_the_one():
                    lost.set()
                    if not self._answered:
                        break
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _is_the_one(self):
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            if self._left:
                return False
            self._left = None
            return True


@pytest.fixture(scope='module', params=long_runs.rest(['mariadb', 'postgresql', 'mysqlclient'], 2))
def wired(request):
    """(Wire, function(name) -> URL behind it of a new database)"""
    with servers.CLIENTS[request.param]() as url_of, contextlib.ExitStack() as stack:
        made = Wire(sa.make_url(url_of('first')).port)
        stack.callback(made.close)

        def behind(name):
            return sa.make_url(url_of(name)).set(host='127.0.0.1', port=made.port).render_as_string(hide_password=False)
        yield made, behind


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(engine, 'RECONNECT_PAUSES_S', (0.02, 0.02, 0.02))
    monkeypatch.setattr(engine, 'TRUSTED_S', 3600)         # what is said is counted: nobody asks in between who lives


@dataclasses.dataclass
class Place:
    """Where a connection breaks.

    answered   the database hears what is said there, and its answer is lost; else it does not hear of it
    """

    number: int
    answered: bool
    reached: bool = True


def places():
    """Each Place, until one is not reached."""
    for number in itertools.count(1):
        for answered in (False, True):
            place = Place(number, answered)
            yield place
            if not place.reached:
                assert number > 3
                return


def test_a_transaction_is_made_once_or_nobody_knows(wired):
    wire, url_of = wired
    database = engine.Database(url_of('counted'))
    TABLE.metadata.create_all(database.engine)
    database.run(lambda conn: conn.execute(sa.insert(TABLE), {'id': 1, 'n': 0}))

    def write(conn):
        conn.execute(ONE)
        return conn.execute(NUMBER).scalar()
    made, unknown = 0, []
    for place in places():
        database.run(lambda conn: conn.execute(sa.select(1)))        # on a connection that is there
        try:
            with wire.breaking(place):
                assert database.run(write) == made + 1
            made += 1
        except engine.CommitUnanswered:
            unknown.append(place.answered)
            made += place.answered
    assert database.run(write) == made + 1
    assert sorted(unknown) == [False, True]
    database.dispose()


def test_a_host_that_has_vanished_is_not_waited_for(wired):
    """Not even for the first connection, which is made when the process starts."""
    database = engine.Database(wired[1]('vanished'))
    with database.reader() as conn, database.reader() as other:
        for each in (conn, other):
            driver = each.connection.dbapi_connection
            number = os.dup(driver.fileno() if hasattr(driver, 'fileno') else driver._sock.fileno())
            with socket.socket(fileno=number) as sock:
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert {name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in (
                    'TCP_KEEPIDLE', 'TCP_KEEPINTVL', 'TCP_KEEPCNT', 'TCP_USER_TIMEOUT')} == {
                    'TCP_KEEPIDLE': 10, 'TCP_KEEPINTVL': 5, 'TCP_KEEPCNT': 2, 'TCP_USER_TIMEOUT': 20000}
    assert database.engine.url.query['connect_timeout'] == '5'
    database.dispose()


def test_transaction_of_a_stopped_process_is_aborted_after_a_timeout(wired, monkeypatch):
    """A process is stopped, or its host vanishes: the database hears nothing of it, and its rows are locked."""
    monkeypatch.setattr(server_engines, 'IDLE_S', 3)
    database = engine.Database(wired[1]('idle'))
    TABLE.metadata.create_all(database.engine)
    database.run(lambda conn: conn.execute(sa.insert(TABLE), {'id': 1, 'n': 0}))
    attempts = []

    def write(conn):
        attempts.append(conn)
        conn.execute(ONE)
        if len(attempts) == 1:
            begun = time.monotonic()
            database.run(lambda other: other.execute(ONE))
            assert time.monotonic() - begun < 25
        return conn.execute(NUMBER).scalar()
    assert database.run(write) == 2 and len(attempts) == 2
    database.dispose()


def until_answered(function):
    """As who asks by message does: again, where the database was away."""
    for _ in range(ASKED):
        with contextlib.suppress(db_exc.DBConnectionError):
            return function()
    raise AssertionError('nothing but lost connections')


@pytest.mark.parametrize('count', [1, 2], ids=['alone', 'batch'])
def test_a_host_is_claimed_once(wired, tmp_path, count):
    wire, url_of = wired
    cloud = core.Cloud(tmp_path, hosts=('host1', 'host2'), url=url_of(f'claims{count}'), fake__memory_mb=1 << 20,
                       fake__vcpus=1000, fake__local_gb=10000)
    running = sa.select(sa.func.sum(tables_cell.compute_nodes.c.running_vms))
    for number, place in enumerate(places(), 1):
        uuids = cloud.insert(count)
        spec = cloud.conductor.methods.get_request_spec(None, uuids[0])
        with wire.breaking(place):
            found = until_answered(lambda: cloud.scheduler.methods.select_destinations(cloud.ctx, spec, uuids))
        assert [chosen[0].host for chosen in found] == [cloud.row(uuid)['host'] for uuid in uuids]
        with cloud.db.reader() as conn:
            assert conn.execute(running).scalar() == number * count
        assert cloud.conductor.claim_check.audit() == []
    cloud.close()


def test_a_server_is_created_and_counted_once(wired, tmp_path):
    """Whoever is told that it was not, is told so by 503; a row without a mapping would be nobody's."""
    wire, url_of = wired
    cloud = fixture.Servers(tmp_path, url_of=url_of, quota__instances=-1, quota__cores=-1, quota__ram=-1)
    known = set()
    for place in places():
        cloud.api_db.ping()
        cloud.cell_db.ping()
        with wire.breaking(place):
            answer = cloud.client(version='2.37').post('/servers', cloud.body(networks='none'))
        with cloud.api_db.reader() as conn:
            mapped = set(conn.execute(sa.select(tables_api.instance_mappings.c.instance_uuid)).scalars())
        with cloud.cell_db.reader() as conn:
            stored = set(conn.execute(sa.select(tables_cell.instances.c.uuid)).scalars())
        assert answer.status in (202, 503) and stored <= mapped
        if answer.status == 202:
            assert mapped - known == stored - known == {answer.json['server']['id']}
        assert len(mapped - known) <= 1
        known = mapped
    cloud.close()
