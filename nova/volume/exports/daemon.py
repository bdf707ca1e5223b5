"""qemu-storage-daemon for one compute host: it exports volumes to that host over NBD with TLS.

Only a client with that host's certificate is accepted. The daemon outlives the process that started it; the next
process finds the daemon by the files in its directory:

    host.json       host, port and certificate expiry of the daemon (Record)
    monitor         socket for QMP commands
    pid             process id; written when the start is complete
    log             output of the daemon
"""
import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import time
import typing

from cryptography import x509

from nova import exception
from nova.runtime import process_exit
from nova.runtime import versioned_records
from nova.disk_files import files
from nova.volume.exports import qmp

PROGRAM = 'qemu-storage-daemon'
MONITOR, RECORD, LOG, PID = 'monitor', 'host.json', 'log', 'pid'
# certificate_expires_at (Unix time) is missing before the first start
Record = typing.TypedDict('Record', {
    'host': str, 'port': int, 'certificate_expires_at': typing.NotRequired[float]})
FORMAT = versioned_records.RecordFormat[Record](
    name='record of an exporter', fields=frozenset(Record.__annotations__), required=Record.__required_keys__)
COPY = 'c'                   # first letter of the names of QEMU's block nodes to which copies are written
START_S, CLOSE_S, POLL_S = 20, 5, 0.02
CONNECTIONS = 1024           # maximum concurrent connections of a host, one for each attached volume


class PortTaken(exception.InvalidVolume):
    """The port of a daemon is in use by another program."""


class Daemon:
    """One daemon.

    :param directory: directory of this daemon only
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def record(self) -> Record | None:
        """Return the record in host.json, or None if the daemon has no directory.

        :raises InvalidVolume: the record cannot be read
        """
        if not os.path.isdir(self.directory):
            return None
        try:
            return FORMAT.read(os.path.join(self.directory, RECORD))
        except exception.RecordUnreadable as error:
            raise exception.InvalidVolume(reason=error.message) from None

    def create(self, host: str, port: int) -> None:
        """Write host.json for a new daemon."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        FORMAT.write(os.path.join(self.directory, RECORD), {'host': host, 'port': port})

    def is_alive(self) -> bool:
        """Return whether the daemon runs."""
        if self._process is not None:
            self._process.poll()                     # reaps a zombie
        return self._pid() is not None

    def start(self, address: str, credentials: str) -> None:
        """Start the daemon.

        :param credentials: directory with ca-cert.pem, server-cert.pem and server-key.pem
        :raises InvalidVolume: the daemon does not start; PortTaken is a subclass
        """
        record = self.record()
        assert record is not None
        record['certificate_expires_at'] = _expiry(credentials)
        FORMAT.write(os.path.join(self.directory, RECORD), record)
        files.remove(os.path.join(self.directory, PID))
        with _listening(address, record['port']) as listener, open(os.path.join(self.directory, LOG), 'wb') as log:
            process = subprocess.Popen(
                [shutil.which(PROGRAM) or PROGRAM,
                 '--object', f'tls-creds-x509,id=tls,endpoint=server,verify-peer=on,dir={_escaped(credentials)}',
                 '--object', f'authz-simple,id=host,identity=CN={_escaped(record["host"])}',
                 '--nbd-server', f'addr.type=fd,addr.str={listener.fileno()},tls-creds=tls,tls-authz=host,'
                                 f'max-connections={CONNECTIONS}',
                 '--chardev', f'socket,id=monitor,path={MONITOR},server=on,wait=off', '--monitor', 'chardev=monitor',
                 '--pidfile', PID],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                pass_fds=[listener.fileno()],
                umask=0o077, env={'LC_ALL': 'C', 'PATH': os.defpath})
        self._process = process
        deadline = time.monotonic() + START_S
        while not self.is_alive():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise exception.InvalidVolume(reason=f'cannot start the exporter of host {record["host"]}: '
                                                     f'{self._last_log_line()}')
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the daemon and remove its directory."""
        with contextlib.suppress(OSError, qmp.Failed), self._monitor() as monitor:
            monitor.run('quit')
        deadline = time.monotonic() + CLOSE_S
        while self.is_alive():
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(POLL_S)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self) -> None:
        """Kill the daemon and wait until its port is free: all its exports end."""
        pid = self._pid()
        if pid is not None:
            process_exit.end(pid, signal.SIGKILL, CLOSE_S)
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    # ---- exports: {name of an export: (path, readonly)}

    def names(self) -> set[str]:
        """Return the ids (see ``ident``) of the daemon's exports."""
        with self._connected() as monitor:
            return _exports(monitor)

    def open(self, name: str, path: str, readonly: bool) -> None:
        """Export a file to the host; idempotent.

        :raises InvalidVolume: the daemon refuses the export or does not answer
        """
        node = ident(name)
        with self._connected() as monitor:
            if node in _exports(monitor):
                return
            if node not in _nodes(monitor):
                # No file locks, because in a live migration the daemons of both hosts have the file open. Instead,
                # attachments control the access.
                monitor.run('blockdev-add', driver='raw', node_name=node, read_only=readonly, discard='unmap', file={
                    'driver': 'file', 'filename': path, 'locking': 'off', 'discard': 'unmap',
                    'read-only': readonly})
            monitor.run('block-export-add', type='nbd', id=node, node_name=node, name=name, writable=not readonly)

    def close(self, *nodes: str) -> None:
        """Remove exports, also those in use, and end the copies of them.

        :param nodes: as returned by ``names``
        :raises InvalidVolume: the daemon does not answer
        """
        with self._connected() as monitor:
            _end_copies(monitor, {_copy_of_node(node) for node in nodes})
            for node in nodes:
                if node in _exports(monitor):
                    monitor.run('block-export-del', id=node, mode='hard')
            deadline = time.monotonic() + CLOSE_S
            for node in nodes:
                while node in _nodes(monitor):
                    with contextlib.suppress(qmp.Failed):            # the export is still closing
                        monitor.run('blockdev-del', node_name=node)
                        break
                    if time.monotonic() > deadline:
                        raise exception.InvalidVolume(reason='an export does not close.')
                    time.sleep(POLL_S)

    # ---- copy of an export

    def begin_copy(self, name: str, path: str) -> None:
        """Start a point-in-time copy of an export to a qcow2 file; writers continue.

        :raises InvalidVolume: the daemon refuses the copy or does not answer
        """
        with self._connected() as monitor:
            copy = _copy_of(name)
            # the copy has holes in place of zeros that a guest wrote
            monitor.run('blockdev-add', driver='qcow2', node_name=copy, discard='unmap', detect_zeroes='unmap',
                        file={'driver': 'file', 'filename': path, 'discard': 'unmap'})
            try:
                monitor.run('blockdev-backup', job_id=copy, device=ident(name), target=copy, sync='full',
                            auto_dismiss=False)
            except qmp.Failed:
                monitor.run('blockdev-del', node_name=copy)
                raise

    def is_copied(self, name: str) -> bool:
        """Return whether the copy is complete.

        :raises InvalidVolume: the copy failed, or the daemon does not answer
        """
        with self._connected() as monitor:
            for job in monitor.run('query-jobs'):
                if job['id'] == _copy_of(name):
                    if job.get('error'):
                        raise exception.InvalidVolume(reason=f'the copy failed: {job["error"]}')
                    return bool(job['status'] == 'concluded')
        raise exception.InvalidVolume(reason='the copy was interrupted.')

    def end_copy(self, name: str) -> None:
        """Release the copy, complete or not."""
        self.end_copies({_copy_of(name)})

    def end_copies(self, nodes: set[str] | None = None) -> None:
        """Release the given copies, or all copies if None; does nothing if the daemon is not running."""
        if not self.is_alive():
            return
        with contextlib.suppress(exception.InvalidVolume), self._connected() as monitor:
            _end_copies(monitor, nodes)

    @contextlib.contextmanager
    def _connected(self) -> typing.Iterator[qmp.Monitor]:
        try:
            with self._monitor() as monitor:
                yield monitor
        except (OSError, ValueError) as error:
            raise exception.InvalidVolume(reason='the exporter does not answer.') from error
        except qmp.Failed as error:
            raise exception.InvalidVolume(reason=f'the exporter refused the command: {error}') from error

    def _monitor(self) -> qmp.Monitor:
        return qmp.Monitor(self.directory, MONITOR)

    def _pid(self) -> int | None:
        """Return the daemon's pid, or None. A reused pid is detected by the working directory of the process."""
        try:
            with open(os.path.join(self.directory, PID)) as file:
                pid = int(file.read())
            place = os.readlink(f'/proc/{pid}/cwd')          # fails for an exited process
        except (OSError, ValueError):
            return None
        return pid if place == os.path.realpath(self.directory) else None

    def _last_log_line(self) -> str:
        with contextlib.suppress(OSError), open(os.path.join(self.directory, LOG), errors='replace') as log:
            lines = log.read(65536).strip().splitlines()
            if lines:
                return lines[-1][-200:]
        return 'its log is empty'


def _expiry(credentials: str) -> float:
    """Return the expiry of the certificate as Unix time.

    :raises InvalidVolume: there is no certificate
    """
    try:
        with open(os.path.join(credentials, 'server-cert.pem'), 'rb') as file:
            return x509.load_pem_x509_certificate(file.read()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        raise exception.InvalidVolume(reason='the exporter has no readable certificate.') from None


def _listening(address: str, port: int) -> socket.socket:
    """Return a listening socket; raises PortTaken, InvalidVolume (this host cannot listen there)."""
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    try:
        made = socket.create_server((address, port), family=family)
    except OSError as error:
        kind = PortTaken if error.errno == errno.EADDRINUSE else exception.InvalidVolume
        raise kind(reason=f'cannot listen at {address} port {port}: {error.strerror}.') from None
    # Connections inherit this option. QEMU 8.1 and later set it; without this option a read over TLS takes 40 ms.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def ident(name: str) -> str:
    """Return the id of an export and its block node in QEMU, which allows 31 characters, the first a letter."""
    return 'v' + name.replace('-', '')[:30]


def _copy_of(name: str) -> str:
    return _copy_of_node(ident(name))


def _copy_of_node(node: str) -> str:
    return COPY + node[1:]


def _copies(monitor: qmp.Monitor) -> set[str]:
    """Return the nodes of copies. A job has the id of its node, and may be there without it."""
    return {node for node in _nodes(monitor) if node.startswith(COPY)} | {
        job['id'] for job in monitor.run('query-jobs')}


def _end_copies(monitor: qmp.Monitor, nodes: set[str] | None) -> None:
    found = _copies(monitor)
    for node in found if nodes is None else found & nodes:
        deadline = time.monotonic() + CLOSE_S
        while node in _copies(monitor) and time.monotonic() < deadline:
            for command in ('job-dismiss', 'job-cancel'):
                with contextlib.suppress(qmp.Failed):
                    monitor.run(command, id=node)
            with contextlib.suppress(qmp.Failed):
                monitor.run('blockdev-del', node_name=node)
            time.sleep(POLL_S)


def _exports(monitor: qmp.Monitor) -> set[str]:
    return {each['id'] for each in monitor.run('query-block-exports') if not each.get('shutting-down')}


def _nodes(monitor: qmp.Monitor) -> set[str]:
    return {each['node-name'] for each in monitor.run('query-named-block-nodes', flat=True)}


def _escaped(text: str) -> str:
    return text.replace(',', ',,')
