"""Services of the embedded block storage, with the names that clients of the Block Storage API expect."""
from collections.abc import Iterator
import datetime
from typing import TypedDict

from oslo_config.cfg import ConfigOpts

from nova import utils
from nova.db.cells import cells as db_cells
from nova.db.services import services as db

BINARY, TOPIC = 'nova-volume', 'volume'
BACKEND, BACKEND_HOST = 'embedded', 'nova@embedded'      # parts of nova@embedded#default, a volume's host
# Programs that clients expect in the list. One process, nova-volume, does the work of all of them.
BACKEND_BINARY = 'cinder-volume'
BINARIES = (BACKEND_BINARY, 'cinder-scheduler', 'cinder-backup')


class Service(TypedDict):
    """A service as the API returns it."""

    binary: str
    host: str
    availability_zone: str
    disabled: bool
    disabled_reason: str | None
    last_seen_at: datetime.datetime | None
    up: bool


class Services:
    """Service list.

    :param conf: uses host, internal_service_availability_zone and service_down_time
    :param cells: Cells, to read the rows of services; None: list only this process
    """

    def __init__(self, conf: ConfigOpts, cells: db_cells.Cells | None) -> None:
        self._conf, self._cells = conf, cells

    def every(self) -> list[Service]:
        """Return the services. This process is always listed as up, even if it has no row (in nova-all)."""
        return [service for process in self._processes() for service in self._services(process)]

    def _services(self, process: Service) -> Iterator[Service]:
        """Yield the services of a process. The host of ``cinder-volume`` includes the backend (host@backend)."""
        host = process['host']
        backend = BACKEND_HOST if host == self._conf.host else f'{host}@{BACKEND}'
        for binary in BINARIES:
            yield {**process, 'binary': binary, 'host': backend if binary == BACKEND_BINARY else host}

    def _processes(self) -> list[Service]:
        now, own = utils.utcnow(), self._conf.host
        answers = self._cells.read(lambda conn: db.list(conn, binary=BINARY))[0] if self._cells is not None else []
        found: list[Service] = [
            {'binary': BINARY, 'host': row['host'], 'availability_zone': row['availability_zone'],
             'disabled': row['disabled'], 'disabled_reason': row['disabled_reason'],
             'last_seen_at': row['last_seen_at'],
             'up': row['host'] == own or db.is_up(row, self._conf.service_down_time, now)}
            for _cell, rows in answers for row in rows]
        if not any(row['host'] == own for row in found):
            zone = self._conf.internal_service_availability_zone
            found.append({'binary': BINARY, 'host': own, 'availability_zone': zone, 'disabled': False,
                          'disabled_reason': None, 'last_seen_at': now, 'up': True})
        return found
