"""Heartbeats: RPC casts of services. Concurrent heartbeats are written in one statement."""
import collections.abc
import logging
import threading
import time
import typing

from oslo_config import cfg

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.services import heartbeats
from nova.db.services import services
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

MAX_DELAY_S = 0.5      # maximum seconds that a heartbeat waits, so that several heartbeats share a transaction
SILENT_INTERVALS = 3    # number of report intervals without a written heartbeat that count as an outage

Name = tuple[str, str]                   # (host, binary)


class Beat(typing.NamedTuple):
    """The heartbeat of a service."""

    host: str
    binary: str
    topic: str
    zone: str
    version: int
    identity: str

    @property
    def name(self) -> Name:
        return self.host, self.binary


class Heartbeats:
    """Writer of heartbeats.

    :param db: Database of the cell
    :param conf: the configuration
    :param after_silence: function without arguments, called when heartbeats can be written again after an outage
    """

    def __init__(self, db: engine.Database, conf: cfg.ConfigOpts,
                 after_silence: collections.abc.Callable[[], None] = lambda: None) -> None:
        self._db, self._after_silence = db, after_silence
        self._down_time, self._quiet_s = conf.service_down_time, SILENT_INTERVALS * conf.report_interval
        self._written_at = float('-inf')
        self._silent = threading.Event()         # set while a call of ``after_silence`` is pending
        self._lock = threading.Lock()
        self._waiting: dict[tuple[Name, str], Beat] = {}           # {(name, identity): last heartbeat}
        self._at_work = False
        self._known: dict[typing.Any, typing.Any] = {}             # {(host, binary): (id of the row, identity)}

    def add(self, host: str, binary: str, topic: str, version: int, zone: str, identity: str) -> None:
        """Queue a heartbeat for the next write."""
        with self._lock:
            beat = Beat(host, binary, topic, zone, version, identity)
            self._waiting[beat.name, identity] = beat
            self._at_work = self._at_work or concurrency.try_spawn('heartbeats', self._work)

    def flush(self) -> None:
        """Write the queued heartbeats in this thread, when the process stops."""
        with self._lock:
            beats, self._waiting = self._waiting, {}
        if beats:
            self._write(beats.values())

    def _work(self) -> None:
        while True:
            time.sleep(MAX_DELAY_S)
            with self._lock:
                beats, self._waiting = self._waiting, {}
                if not beats:
                    self._at_work = False
                    return
            self._write(beats.values())

    def _write(self, beats: collections.abc.Collection[Beat]) -> None:
        try:
            self.write(beats)
        except Exception as error:       # not repeated: the services soon send new heartbeats
            LOG.warning('%d heartbeats were not written: %s', len(beats), error,
                        exc_info=not isinstance(error, exception.NovaException))

    def write(self, beats: collections.abc.Collection[Beat]) -> int:
        """Write these heartbeats in one transaction; return how many were written.

        A heartbeat is ignored if another service has registered its host and binary.
        """
        self.resume()
        strange = {beat.name for beat in beats if self._of(beat) is None}
        if strange:
            self._look(strange)
        numbers = {number for beat in beats if (number := self._of(beat)) is not None}
        if self._db.run(heartbeats.seen, numbers) < len(numbers):
            self._look({beat.name for beat in beats})            # some rows were removed or replaced
        count = len(numbers)
        for beat in beats:
            if beat.name not in self._known and self._register(beat):
                count += 1
            elif self._of(beat) is None:
                LOG.warning('A second %s claims to be host %s; its heartbeats are ignored.', beat.binary, beat.host)
        self._written_at = time.monotonic()
        return count

    def _register(self, beat: Beat) -> bool:
        """Register a service whose row is missing; return False if another service has registered its name."""
        try:
            self._db.run(heartbeats.register, *beat, self._down_time)
        except exception.ServiceExists:
            return False
        self._db.run(services.report, beat.host, beat.binary, beat.topic, beat.zone, beat.version)
        return True

    def resume(self) -> None:
        """After an outage in which no heartbeats could be written, give the services more time to report.

        Call it before a heartbeat is written. The call does nothing if this conductor has written a heartbeat recently.
        """
        if time.monotonic() - self._written_at > self._quiet_s:
            count = self._db.run(services.resume, self._down_time, self._quiet_s)
            self._written_at = time.monotonic()
            if count:
                LOG.warning('No heartbeat was written for over %d s. %d services that were up before have %d s '
                            'to report.', self._quiet_s, count, self._down_time)
                self._silent.set()
        try:
            with utils.taken(self._silent) as silent:
                if silent:
                    self._after_silence()
        except Exception as error:                   # an error must not stop the heartbeats
            LOG.warning('Cannot resume work after the outage; the next heartbeat retries: %s', error)

    def _of(self, beat: Beat) -> int | None:
        """Return the id of this service's row, or None if there is no row or another service owns it."""
        number, identity = self._known.get(beat.name, (None, None))
        return number if identity == beat.identity else None

    def _look(self, names: collections.abc.Iterable[Name]) -> None:
        with self._db.reader() as conn:
            found = heartbeats.known(conn, {host for host, _ in names})
        for name in names:
            self._known.pop(name, None)
        self._known.update(found)
