"""Nightly backup of an all-in-one: one file a day in a directory; the newest are kept."""
import datetime
import logging
import math
import os
import pathlib
import re
import time

from oslo_config import cfg

from nova.cloud import state_backup
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.runtime import host_identity
from nova.runtime import metrics
from nova.runtime import passphrases
from nova.runtime import service

LOG = logging.getLogger(__name__)

DIRECTORY = 'backups'                    # below the state path
CHECK_INTERVAL_S = 600                   # seconds between two checks whether a backup is due
HOUR = 3                                 # local time; a backup is due after this hour
AHEAD_S = 60                             # a backup that is newer than now by more was made while the clock was wrong
_NAME = re.compile(r'state-\d{8}T\d{6}\.backup')


class Nightly:
    """Creates the nightly backups of one deployment.

    :param conf: uses [state_backup]
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> None:
        self._conf, self._api_db, self._cells = conf, api_db, cells
        self._directory = pathlib.Path(
            conf.state_backup.directory or os.path.join(host_identity.state_path(conf), DIRECTORY))
        now = time.time()
        self._newest = max((made for made in (path.stat().st_mtime for path in self._kept())
                            if not _is_from_future(made, now)), default=None)
        metrics.STATE_BACKUP_AGE.watch(self, Nightly.age)

    def age(self) -> dict[tuple[()], float]:
        """Return a metric without labels, {(): seconds since the newest backup or inf}; {} if backups are disabled."""
        if not self._conf.state_backup.keep:
            return {}
        now = time.time()
        if self._newest is None or _is_from_future(self._newest, now):
            return {(): math.inf}
        return {(): max(0.0, now - self._newest)}

    def run(self) -> None:
        """Create a backup if one is due, and remove the oldest ones beyond the limit."""
        keep = self._conf.state_backup.keep
        if not keep or not is_due(self._newest, time.time()):
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._directory.glob(f'.state-*.backup.*{durable_files.PART}'):     # partial files of a crashed run
            path.unlink(missing_ok=True)
        sizes = [path.stat().st_size for path in self._kept()]
        disk_space.reserve_of(self._conf).check(str(self._directory), sizes[-1] if sizes else 0)
        name = f'state-{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}.backup'
        named = self._conf.state_backup.passphrase_file
        made = state_backup.create(self._conf, self._api_db, self._cells, str(self._directory / name),
                                   passphrases.read_file(named) if named else None)
        self._newest = time.time()
        LOG.info('The nightly backup %s has %s rows and %s bytes.', self._directory / name, made.row_count, made.size)
        # those from the future go first, else they would take the place of this one
        for path in sorted(self._kept(), key=lambda path: (path.name <= name, path.name))[:-keep]:
            path.unlink(missing_ok=True)

    def _kept(self) -> list[pathlib.Path]:
        """Return the existing backups, oldest first."""
        return sorted(path for path in self._directory.glob('state-*.backup') if _NAME.fullmatch(path.name))


def is_due(newest: float | None, now: float) -> bool:
    """Return whether the newest backup is older than the most recent HOUR:00 in local time, or from the future.

    :param newest: time of the newest backup, seconds since the epoch; None: there is none
    """
    local = datetime.datetime.fromtimestamp(now)
    due = local.replace(hour=HOUR, minute=0, second=0, microsecond=0)
    if due > local:
        due -= datetime.timedelta(days=1)
    return newest is None or newest < due.timestamp() or _is_from_future(newest, now)


def _is_from_future(made: float, now: float) -> bool:
    """Return whether a backup was made while the clock was ahead."""
    return made > now + AHEAD_S


def nightly(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> service.Service:
    """Return the part of nova-all that creates the backups."""
    return service.Service(conf, 'nova-state-backup', conf.host, topic='state-backup',
                           tasks=[('nightly_backup', CHECK_INTERVAL_S, Nightly(conf, api_db, cells).run)])
