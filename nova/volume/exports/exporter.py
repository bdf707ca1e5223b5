"""Exports of volumes for guests on other hosts: a daemon for each compute host, an export for each attachment.

The rows of the attachments say what is to be exported. A start, and a look every minute, open what is missing; a daemon
that has ended is started again within a second or two. An export ends by a request alone, or by an attachment that says
that it ends: a row that is missing, or names another host, may be one of a database that was restored from a backup.
"""
from __future__ import annotations

from collections.abc import Callable
import dataclasses
import hashlib
import logging
import os
import re
import shutil
import threading
import time
import typing

from nova.disk_files import files
from nova import exception
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.runtime import metrics
from nova.runtime import versioned_records
from nova.volume.exports import daemon as daemons

LOG = logging.getLogger(__name__)

HOST = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z')      # what can be the name in a certificate
LOOK_S, COMPARE_S, COPY_LOOK_S = 1, 60, 0.1
ENDS_S = 30 * 86400              # so long before its certificate ends a daemon should be replaced
PORTS = 1000                     # hosts at most


@dataclasses.dataclass(frozen=True)
class Wanted:
    """An attachment that is to be exported."""

    attachment_id: str
    host: str
    path: str
    readonly: bool


class Exporter:
    """
    :param directory: of the daemons; made when the first one is
    :param address: of this host, where they listen
    :param first_port: of the first one; the next ones follow
    :param credentials: gives the directory with ca-cert.pem, server-cert.pem and server-key.pem
    :param wanted: function of the id of an attachment, or None for all of them: [Wanted] as the rows say now
    :param ending: function: {(host, id of an attachment)} whose rows say that their export to that host ends
    """

    def __init__(self, directory: str, address: str, first_port: int, credentials: Callable[[], str],
                 wanted: Callable[[str | None], list[Wanted]],
                 ending: Callable[[], set[tuple[str, str]]] = set) -> None:
        self._directory, self._address, self._first = directory, address, first_port
        self._credentials, self._wanted, self._ending = credentials, wanted, ending
        self._unknown: dict[str, set[str]] = {}          # {host: exports that no row wants}
        self._daemons: dict[str, daemons.Daemon] = {}
        self._unreadable = versioned_records.UnreadableRecords()         # by directory of a daemon
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- one attachment

    @staticmethod
    def check(host: object) -> None:
        """
        :raises InvalidVolume: nothing can be exported to this host
        """
        if not isinstance(host, str) or not HOST.match(host):
            raise exception.InvalidVolume(reason=f'{str(host)[:80]!r} cannot be the name of a host in a certificate.')
        if shutil.which(daemons.PROGRAM) is None:
            raise exception.InvalidVolume(
                reason=f'host {host} does not reach the files of the volumes, and {daemons.PROGRAM}, which would '
                       'export them, is not installed where they are.')

    def open(self, attachment_id: str, host: str) -> dict[str, typing.Any]:
        """Let a host reach the volume of its attachment: {'host', 'port', 'export'}.

        :raises InvalidVolume: that is not possible, or is not wanted any more
        :raises InsufficientStorage: there is no room for the files of its daemon
        """
        with self._locked(host):
            found = [each for each in self._wanted(attachment_id) if each.host == host]
            if not found:
                raise exception.InvalidVolume(reason='the attachment is gone, or is of another host.')
            if not os.path.exists(found[0].path):
                raise exception.InvalidVolume(reason='the file of the volume is not on this host.')
            try:
                daemon = self._running(host)
            except OSError as error:
                if error.errno in disk_space.FULL:
                    raise exception.InsufficientStorage() from error
                raise exception.InvalidVolume(reason=f'its export cannot be made: {error.strerror}.') from error
            daemon.open(attachment_id, found[0].path, found[0].readonly)
            return {'host': self._address, 'port': (daemon.record() or {})['port'], 'export': attachment_id}

    def close(self, attachment_id: str, host: str) -> None:
        """Let a host reach it no longer; certain when this returns."""
        with self._locked(host):             # first: one that began to open it may not have made anything yet
            if not os.path.isdir(self._place(host)) or any(
                    each.host == host for each in self._wanted(attachment_id)):
                return
            daemon = self._daemon(host)
            if daemon.is_alive():
                self._shut(daemon, [daemons.ident(attachment_id)])
            self._end_unused(daemon)

    def copy(self, attachment_id: str, host: str, path: str) -> None:
        """Copy what an attachment's volume has at this moment into a qcow2 file of the same size.

        :raises InvalidVolume: it failed
        """
        with self._locked(host):
            daemon = self._daemon(host)
            daemon.begin_copy(attachment_id, path)
        try:
            while not daemon.is_copied(attachment_id):
                if self._stopping.wait(COPY_LOOK_S):
                    raise exception.InvalidVolume(reason='the service ends.')
        finally:
            with self._locked(host):
                daemon.end_copy(attachment_id)

    # ---- all of them

    def compare(self) -> None:
        """Make the exports those of the rows."""
        for host in sorted(self._hosts() | {each.host for each in self._wanted(None)}):
            try:
                self._compare(host)
            except exception.NovaException as error:
                LOG.error('The exports of host %s are not complete: %s', host, error)

    def _records(self) -> list[dict[str, typing.Any]]:
        names = os.listdir(self._directory) if os.path.isdir(self._directory) else ()
        found = []
        for name in names:
            path = os.path.join(self._directory, name)
            try:
                record = daemons.Daemon(path).record()
            except exception.InvalidVolume as error:
                self._unreadable.add(path, error)
                continue
            self._unreadable.discard(path)
            if record:
                found.append(record)
        return found

    def _hosts(self) -> set[str]:
        """Those that have a daemon."""
        return {record['host'] for record in self._records()}

    def _compare(self, host: str) -> None:
        self.check(host)
        with self._locked(host):
            wanted = {daemons.ident(each.attachment_id): each for each in self._wanted(None)
                      if each.host == host and os.path.exists(each.path)}
            daemon = self._running(host) if wanted else self._daemon(host)
            known = daemon.names() if daemon.is_alive() else set()
            ending = {daemons.ident(each) for name, each in self._ending() if name == host}
            left = known - set(wanted)
            if left & ending:
                LOG.warning('Host %s still had %s exports of attachments that have ended; they are closed.', host,
                            len(left & ending))
                self._shut(daemon, sorted(left & ending))
            if (unknown := left - ending) and unknown != self._unknown.get(host):
                metrics.EXPORTS_UNNAMED.inc(len(unknown - self._unknown.get(host, set())))
                LOG.error('Host %s has %s exports that no attachment names (%s). They stay open: the database may have '
                          'been restored from a backup. See `nova-manage state differences`.', host, len(unknown),
                          ', '.join(sorted(unknown)[:5]))
            self._unknown[host] = unknown
            for ident in sorted(set(wanted) - known):
                each = wanted[ident]
                self._running(host).open(each.attachment_id, each.path, each.readonly)
            self._end_unused(daemon)
            record = daemon.record()
        if record and record.get('ends_at', time.time() + ENDS_S) - time.time() < ENDS_S:
            LOG.warning('The certificate of the exporter of host %s ends soon: move the servers with volumes away from '
                        'it once, or kill the daemon at a quiet moment: it comes again with a new one.', host)

    def watch(self) -> None:
        """Keep the exports as the rows are, until ``stop``. Copies of a process that has ended go on for no one."""
        for host in self._hosts():
            with self._locked(host):
                self._daemon(host).end_copies()
        self.compare()
        self._thread = concurrency.spawn('volume-exports', self._watch)

    def stop(self, timeout: float) -> bool:
        """The exports go on: guests of other hosts use them."""
        self._stopping.set()
        return self._thread is None or concurrency.join(self._thread, timeout)

    def _watch(self) -> None:
        compared = time.monotonic()
        while not self._stopping.wait(LOOK_S):
            try:
                if time.monotonic() - compared > COMPARE_S:
                    compared = time.monotonic()
                    self.compare()
                else:
                    self._look()
            except Exception:
                LOG.exception('The exports could not be looked after')

    def _look(self) -> None:
        for host, daemon in list(self._daemons.items()):
            try:
                if daemon.record() is None or daemon.is_alive():
                    continue
            except exception.InvalidVolume as error:
                self._unreadable.add(daemon.directory, error)
                continue
            with self._locked(host, wait=False) as held:         # else it is being started, or ended
                dead = held and daemon.record() is not None and not daemon.is_alive()
            if dead:
                LOG.warning('The exporter of host %s has ended; it is started again.', host)
                self._compare(host)

    # ---- steps; the caller has the lock of the host

    def _shut(self, daemon: daemons.Daemon, nodes: list[str]) -> None:
        """Close exports. A daemon that does not do so is killed, and comes again without them: another server may get
        the volume next."""
        try:
            daemon.close(*nodes)
        except exception.InvalidVolume as error:
            LOG.warning('An exporter is killed: %s', error)
            daemon.kill()

    def _end_unused(self, daemon: daemons.Daemon) -> None:
        record = daemon.record()
        if record is None:
            return
        if daemon.is_alive():
            unused = not daemon.names()
        else:
            unused = not any(each.host == record['host'] for each in self._wanted(None))
        if unused:
            daemon.stop()
            self._daemons.pop(record['host'], None)

    def _running(self, host: str) -> daemons.Daemon:
        """The daemon of a host, started if need be with the port that it had."""
        daemon = self._daemon(host)
        if daemon.is_alive():
            return daemon
        if daemon.record() is not None:
            daemon.start(self._address, self._credentials())
            return daemon
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        with files.lock(os.path.join(self._directory, 'ports.lock')):
            taken = {record['port'] for record in self._records()}
            for port in range(self._first, min(self._first + PORTS, 65536)):
                if port in taken:
                    continue
                try:
                    daemon.make(host, port)
                    daemon.start(self._address, self._credentials())
                    return daemon
                except daemons.PortTaken:
                    shutil.rmtree(daemon.directory, ignore_errors=True)
                except (exception.InvalidVolume, OSError):
                    shutil.rmtree(daemon.directory, ignore_errors=True)
                    raise
        raise exception.InvalidVolume(reason='no port is free for exports.')

    def _daemon(self, host: str) -> daemons.Daemon:
        return self._daemons.setdefault(host, daemons.Daemon(self._place(host)))

    def _place(self, host: str) -> str:
        return os.path.join(self._directory, hashlib.sha256(host.encode()).hexdigest()[:24])

    def _locked(self, host: str, wait: bool = True) -> typing.ContextManager[bool]:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        return files.lock(f'{self._place(host)}.lock', wait)
