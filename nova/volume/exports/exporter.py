"""Exports of volumes to guests on other hosts: a daemon for each compute host, an export for each attachment.

Attachments in the database define the exports. Missing exports are opened at the start and every minute, and exited
daemons are restarted within two seconds. An export is closed only by ``close``, or if its attachment is closing. An
export without an attachment on its host stays open, because the database may have been restored from a backup.
"""
from collections.abc import Callable, Collection, Iterator
import contextlib
import dataclasses
import hashlib
import logging
import os
import re
import shutil
import threading
import time
import typing

from nova import exception
from nova.json_types import Json
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.runtime import metrics
from nova.runtime import versioned_records
from nova.disk_files import files
from nova.volume.exports import daemon as daemons

LOG = logging.getLogger(__name__)

HOST = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z')      # host names that are valid in a certificate
POLL_S, RECONCILE_S, COPY_POLL_S = 1, 60, 0.1
EXPIRY_WARNING_S = 30 * 86400    # seconds before the expiry of a certificate at which warnings begin
PORTS = 1000                     # maximum number of daemons


Export = dict[str, str | int]            # {'host', 'port', 'export'}


@dataclasses.dataclass(frozen=True)
class DesiredExport:
    """Export that must exist, because an attachment requires it."""

    attachment_id: str
    host: str
    path: str
    readonly: bool


class Exporter:
    """Exports of one volume host.

    :param directory: directory of the daemons' directories; created with the first daemon
    :param address: address of this host on which the daemons listen
    :param first_port: port of the first daemon; other daemons use the ports after it
    :param credentials: function that returns the directory with ca-cert.pem, server-cert.pem and server-key.pem
    :param wanted: function(attachment id; None: all) that returns the [DesiredExport] of the database
    :param ending: function that returns {(host, attachment id)} of exports to close
    """

    def __init__(self, directory: str, address: str, first_port: int, credentials: Callable[[], str],
                 wanted: Callable[[str | None], list[DesiredExport]],
                 ending: Callable[[], set[tuple[str, str]]] = set) -> None:
        self._directory, self._address, self._first = directory, address, first_port
        self._credentials, self._wanted, self._ending = credentials, wanted, ending
        self._unknown: dict[str, set[str]] = {}          # {host: exports without an attachment}
        self._daemons: dict[str, daemons.Daemon] = {}
        self._unreadable = versioned_records.UnreadableRecords()         # keyed by the daemon's directory
        self._copying, self._copies_ended = set[str](), threading.Condition()      # attachments that are being copied
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- one attachment

    @staticmethod
    def check(host: Json) -> None:
        """Check that volumes can be exported to a host; raises InvalidVolume."""
        if not isinstance(host, str) or not HOST.match(host):
            raise exception.InvalidVolume(reason=f'{str(host)[:80]!r} is not a valid host name in a certificate.')
        if shutil.which(daemons.PROGRAM) is None:
            raise exception.InvalidVolume(reason=f'host {host} has no access to the volume files, and '
                                                 f'{daemons.PROGRAM} is not installed on the volume host.')

    def open(self, attachment_id: str, host: str) -> Export:
        """Export the volume of an attachment to its host.

        :raises InvalidVolume: the export is not possible, or the attachment no longer requires an export
        :raises InsufficientStorage: no space for the daemon's files
        """
        with self._locked(host):
            found = [each for each in self._wanted(attachment_id) if each.host == host]
            if not found:
                raise exception.InvalidVolume(reason='the attachment is gone or belongs to another host.')
            if not os.path.exists(found[0].path):
                raise exception.InvalidVolume(reason='the file of the volume is not on this host.')
            try:
                daemon = self._running_daemon(host)
            except OSError as error:
                if error.errno in disk_space.FULL:
                    raise exception.InsufficientStorage() from error
                raise exception.InvalidVolume(reason=f'cannot export it: {error.strerror}.') from error
            daemon.open(attachment_id, found[0].path, found[0].readonly)
            record = daemon.record()
            assert record is not None
            return {'host': self._address, 'port': record['port'], 'export': attachment_id}

    def close(self, attachment_id: str, host: str) -> None:
        """Close an export, and wait until it is closed."""
        with self._locked(host):             # lock first: a concurrent ``open`` would invalidate the checks
            if not os.path.isdir(self._directory_of(host)) or any(
                    each.host == host for each in self._wanted(attachment_id)):
                return
            daemon = self._daemon(host)
            if daemon.is_alive():
                self._close_exports(daemon, [daemons.ident(attachment_id)])
            self._stop_if_unused(daemon)

    def copy(self, attachment_id: str, host: str, path: str) -> None:
        """Make a point-in-time copy of an attachment's volume in a qcow2 file of the same size.

        A second copy of the attachment waits until the first has ended, because a copy has the attachment's name.

        :raises InvalidVolume: the copy failed
        """
        with self._only_copy(attachment_id):
            with self._locked(host):
                daemon = self._daemon(host)
                daemon.begin_copy(attachment_id, path)
            try:
                while not daemon.is_copied(attachment_id):
                    if self._stopping.wait(COPY_POLL_S):
                        raise exception.InvalidVolume(reason='the service is stopping.')
            finally:
                with self._locked(host):
                    daemon.end_copy(attachment_id)

    @contextlib.contextmanager
    def _only_copy(self, attachment_id: str) -> Iterator[None]:
        with self._copies_ended:
            self._copies_ended.wait_for(lambda: attachment_id not in self._copying)
            self._copying.add(attachment_id)
        try:
            yield
        finally:
            with self._copies_ended:
                self._copying.discard(attachment_id)
                self._copies_ended.notify_all()

    # ---- all attachments

    def reconcile(self) -> None:
        """Open missing exports, and close exports of closing attachments."""
        wanted: dict[str, set[str]] = {host: set() for host in self._hosts()}
        for each in self._wanted(None):
            wanted.setdefault(each.host, set()).add(daemons.ident(each.attachment_id))
        for host, names in sorted(wanted.items()):
            self._try_reconcile(host, names)

    def _try_reconcile(self, host: str, wanted: Collection[str] = ()) -> None:
        """Reconcile the exports of one host; errors are only logged, so that they do not affect other hosts.

        :param wanted: ids of the host's exports in the database; if the daemon has these, nothing more is read
        """
        try:
            self._reconcile(host, wanted)
        except (exception.NovaException, OSError) as error:
            LOG.error('Cannot complete the exports of host %s: %s', host, error)

    def _records(self) -> list[daemons.Record]:
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
        """Return the hosts with a daemon."""
        return {record['host'] for record in self._records()}

    def _reconcile(self, host: str, wanted: Collection[str]) -> None:
        self.check(host)
        with self._locked(host):
            daemon = self._daemon(host)
            if wanted and _names(daemon) == wanted:
                self._unknown.pop(host, None)
            else:
                self._open_and_close(host)
            record = daemon.record()
        warn_at = time.time() + EXPIRY_WARNING_S
        if record and record.get('certificate_expires_at', warn_at) < warn_at:
            LOG.warning('The certificate of the exporter of host %s expires soon. The exporter gets a new certificate '
                        'when it restarts: live-migrate all servers with volumes from the host, or terminate its '
                        'qemu-storage-daemon in a maintenance window.', host)

    def _open_and_close(self, host: str) -> None:
        """Open and close the exports of a host according to the database; the caller holds the host's lock."""
        wanted = {daemons.ident(each.attachment_id): each for each in self._wanted(None)
                  if each.host == host and os.path.exists(each.path)}
        daemon = self._running_daemon(host) if wanted else self._daemon(host)
        known = _names(daemon)
        ending = {daemons.ident(each) for name, each in self._ending() if name == host}
        if closing := (known - set(wanted)) & ending:
            LOG.warning('Host %s still had %s exports of closing attachments; closing them.', host, len(closing))
            self._close_exports(daemon, sorted(closing))
            known = _names(daemon)   # empty if _close_exports has killed the daemon
        if (unknown := known - set(wanted) - ending) and unknown != self._unknown.get(host):
            metrics.EXPORTS_ORPHANED.inc(len(unknown - self._unknown.get(host, set())))
            LOG.error('Host %s has %s exports without an attachment (%s). They stay open, because the database may '
                      'have been restored from a backup. See `nova-manage state differences`.', host, len(unknown),
                      ', '.join(sorted(unknown)[:5]))
        self._unknown[host] = unknown
        for ident in sorted(set(wanted) - known):
            each = wanted[ident]
            self._running_daemon(host).open(each.attachment_id, each.path, each.readonly)
        self._stop_if_unused(daemon)

    def watch(self, *periodic: Callable[[], None]) -> None:
        """End volume copies that an earlier process began, and reconcile the exports periodically until ``stop``.

        :param periodic: functions to call after each time
        """
        for host in self._hosts():
            with self._locked(host):
                self._daemon(host).end_copies()
        self.reconcile()
        self._thread = concurrency.spawn('volume-exports', self._watch, periodic)

    def stop(self, timeout: float) -> bool:
        """Stop the thread. Daemons continue, because guests of other hosts use the exports."""
        self._stopping.set()
        return self._thread is None or concurrency.join(self._thread, timeout)

    def _watch(self, periodic: tuple[Callable[[], None], ...]) -> None:
        reconciled = time.monotonic()
        while not self._stopping.wait(POLL_S):
            try:
                if time.monotonic() - reconciled > RECONCILE_S:
                    reconciled = time.monotonic()
                    self.reconcile()
                    for task in periodic:
                        task()
                else:
                    self._restart_exited()
            except Exception:
                LOG.exception('Cannot check the exports')

    def _restart_exited(self) -> None:
        for host, daemon in list(self._daemons.items()):
            try:
                if daemon.record() is None or daemon.is_alive():
                    continue
            except exception.InvalidVolume as error:
                self._unreadable.add(daemon.directory, error)
                continue
            with self._locked(host, wait=False) as held:         # False: another thread holds the host's lock
                dead = held and daemon.record() is not None and not daemon.is_alive()
            if dead:
                LOG.warning('The exporter of host %s exited and is restarted.', host)
                self._try_reconcile(host)

    # ---- helpers; the caller holds the host's lock

    def _close_exports(self, daemon: daemons.Daemon, nodes: list[str]) -> None:
        """Close exports. If the daemon fails to close them, kill the daemon; it is restarted without these exports.

        The exports must be closed, because another server may use the volume next.
        """
        try:
            daemon.close(*nodes)
        except exception.InvalidVolume as error:
            LOG.warning('Killing an exporter: %s', error)
            daemon.kill()

    def _stop_if_unused(self, daemon: daemons.Daemon) -> None:
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

    def _running_daemon(self, host: str) -> daemons.Daemon:
        """Return the daemon of a host. Start a missing daemon, with its former port if it had one."""
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
                    daemon.create(host, port)
                    daemon.start(self._address, self._credentials())
                    return daemon
                except daemons.PortTaken:
                    shutil.rmtree(daemon.directory, ignore_errors=True)
                except (exception.InvalidVolume, OSError):
                    shutil.rmtree(daemon.directory, ignore_errors=True)
                    raise
        raise exception.InvalidVolume(reason='no free port for exports.')

    def _daemon(self, host: str) -> daemons.Daemon:
        return self._daemons.setdefault(host, daemons.Daemon(self._directory_of(host)))

    def _directory_of(self, host: str) -> str:
        return os.path.join(self._directory, hashlib.sha256(host.encode()).hexdigest()[:24])

    def _locked(self, host: str, wait: bool = True) -> typing.ContextManager[bool]:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        return files.lock(f'{self._directory_of(host)}.lock', wait)


def _names(daemon: daemons.Daemon) -> set[str]:
    """Return the ids of a daemon's exports; none if the daemon does not run."""
    return daemon.names() if daemon.is_alive() else set()
