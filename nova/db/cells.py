"""Cells: where servers live. One cell is the default and makes itself known in the API database."""
import dataclasses
import os
import threading
import uuid as uuidlib

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables_api import cells

DEFAULT_CELL = 'cell1'


@dataclasses.dataclass(frozen=True)
class Cell:
    uuid: str
    name: str
    db: engine.Database


def state_path(conf):
    """The directory of everything that this deployment keeps."""
    if conf.state_path:
        return conf.state_path
    return '/var/lib/nova' if os.getuid() == 0 else os.path.expanduser('~/.local/share/nova')


def open_database(conf, group, default_file):
    """The Database of one option group; without a URL it is an SQLite file below the state path."""
    options = conf[group]
    url = options.connection or 'sqlite:///' + os.path.join(state_path(conf), default_file)
    return engine.Database(url, pool_size=options.max_pool_size, max_overflow=options.max_overflow)


class Cells:
    """The cells of a deployment.

    :param conf: [database] names the default cell's database
    :param api_db: Database of the API database
    :param db: Database of the default cell where it is open already
    """

    def __init__(self, conf, api_db, db=None):
        self._conf, self._api_db = conf, api_db
        self._db = db or open_database(conf, 'database', DEFAULT_CELL + '.sqlite')
        self._lock = threading.Lock()
        self._default = None

    @property
    def default(self):
        """The one cell; its row is made at first use."""
        with self._lock:
            if self._default is None:
                self._default = Cell(self._api_db.run(self._register), DEFAULT_CELL, self._db)
            return self._default

    def get(self, uuid):
        """A cell by its uuid, or None."""
        return self.default if self.default.uuid == uuid else None

    def all(self):
        return [self.default]

    def _register(self, conn):
        find = sa.select(cells.c.uuid).where(cells.c.name == DEFAULT_CELL)
        found = conn.execute(find).scalar()
        if found is None:
            engine.insert_ignore(conn, cells, {
                'uuid': str(uuidlib.uuid4()), 'name': DEFAULT_CELL, 'disabled': False,
                'database_url': '', 'transport_url': ''})      # '': what the configuration says
            found = conn.execute(find).scalar()
        return found
