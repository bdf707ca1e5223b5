"""What the races of requests have in common: a project for each, what it asks, and what it ends with."""
import collections
import concurrent.futures
import dataclasses
import itertools
import threading
import uuid

import sqlalchemy as sa

from nova import states
from nova.db.projects import quotas
from nova.db.tables import api as tables_api
from nova.tests import server_rows
from nova.tests.functional import servers as fixture

THREADS = 8
UNLIMITED = dict.fromkeys(('instances', 'cores', 'ram'), -1)


class Project:
    """A project of its own for one race."""

    numbers = itertools.count()

    def __init__(self, cloud):
        self.cloud, self.id, self.user = cloud, uuid.uuid4().hex, uuid.uuid4().hex
        self.limits(**UNLIMITED)

    def limits(self, user=None, **limits):
        self.cloud.api_db.run(quotas.set_limits, self.id, limits, user)

    def client(self, version=None, admin=False, user=None):
        make = self.cloud.admin if admin else self.cloud.client
        return make(project=self.id, user=user or self.user, version=version)

    def server(self, **values):
        """An active server on the host."""
        row = server_rows.row(next(self.numbers), project_id=self.id, user_id=self.user, host=fixture.HOST,
                              node=fixture.NODE, network_info=[], **values)
        ident, = self.cloud.add_servers(row)
        mapping = sa.insert(tables_api.instance_mappings).values(
            instance_uuid=ident, cell_uuid=self.cloud.cells.default.uuid, project_id=self.id, user_id=self.user,
            vcpus=1, memory_mb=512, created_at=server_rows.START,
            queued_for_delete=row['vm_state'] == states.SOFT_DELETED)
        with self.cloud.api_db.writer() as conn:
            conn.execute(mapping)
        return ident

    def boot(self, version='2.37', user=None, hints=None, **values):
        body = self.cloud.body(networks='none', **values)
        return self.client(version, user=user).post('/servers', {**body, **(hints or {})})

    def used(self, user=None):
        with self.cloud.api_db.reader() as conn:
            return quotas.usage(conn, self.id, user)

    def count(self, table, *conditions):
        database = self.cloud.api_db if table.metadata is tables_api.metadata else self.cloud.cell_db
        with database.reader() as conn:
            return conn.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar()


@dataclasses.dataclass
class Race:
    """What one race asks and ends with.

    ask      function(number) -> Answer, called by THREADS threads at once, or as many functions as there are threads
    codes    Counter of the answers' codes, or function(Counter) that asserts
    after    function() that asserts what is left
    """

    ask: object
    codes: object
    after: object = lambda: None


def at_once(ask):
    """The answers of all, which begin when the last one is ready."""
    functions = [lambda number=number: ask(number) for number in range(THREADS)] if callable(ask) else ask
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        return function()
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        return list(pool.map(run, functions))


def winners(code, refused, number=1, of=THREADS):
    return collections.Counter({code: number, refused: of - number})


RACES = {}


def race(function):
    RACES[function.__name__] = function
    return function


def equal(found, expected):
    assert found == expected
