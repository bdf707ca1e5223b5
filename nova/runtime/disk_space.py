"""Disk space: free bytes, a reserve that callers must leave free, and claims of writers.

A claim counts the bytes that a writer will still write; bytes that are written already count as used in the file
system. A claim is a file in a directory that all processes of this machine share (``<state path>/disk-space``).
The process locks the file during the claim, so that claims of dead processes are ignored.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import errno
import fcntl
import logging
import os
import time
from typing import TypedDict
import uuid

from oslo_config import cfg

from nova import exception
from nova.runtime import host_identity
from nova.runtime import versioned_records

LOG = logging.getLogger(__name__)

MIB = 2 ** 20
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)         # errors of a full file system
STEP = 64 * MIB                  # bytes that are added when a writer of unknown size extends its claim
LEDGER = 'disk-space'
LOCK = 'lock'
ClaimRecord = TypedDict('ClaimRecord', {'device': int, 'size': int, 'targets': Sequence[str]})
FIELDS = frozenset(ClaimRecord.__annotations__)
FORMAT = versioned_records.RecordFormat[ClaimRecord](name='claim of disk space', fields=FIELDS, required=FIELDS)
LOCK_S = 10                      # timeout of the lock for changes of claims
MAX_CLAIMS = 10_000


def free_bytes(path: str) -> int:
    """Return the bytes that an unprivileged process may still write to the file system of a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def used_bytes(path: str) -> int:
    """Return the bytes that a file occupies: fewer than its size if it is sparse."""
    found = os.stat(path)
    return min(found.st_size, found.st_blocks * 512)


def reserve_of(conf: cfg.ConfigOpts) -> Reserve:
    """Return a Reserve of the size [image] free_disk_reserve, with the claims of all processes of this machine."""
    return Reserve(conf.image.free_disk_reserve * MIB, os.path.join(host_identity.state_path(conf), LEDGER))


class Claim:
    """A claim of disk space for one writer; see ``Reserve.claim``."""

    def __init__(self, reserve: Reserve, directory: str, targets: tuple[str, ...], size: int, number: int | None,
                 path: str) -> None:
        self._reserve, self.directory, self.targets = reserve, directory, targets
        self.size, self._number, self._path = size, number, path

    def need(self, size: int) -> None:
        """Extend the claim to a total of ``size`` bytes, and by STEP more if there is space.

        :raises InsufficientStorage: there is no space
        """
        if size <= self.size:
            return
        try:
            self._reserve.grow(self, size + STEP)
        except exception.InsufficientStorage:
            self._reserve.grow(self, size)

    def write(self, size: int) -> None:
        self.size = size
        if self._number is not None:
            device = os.stat(self.directory).st_dev
            data = FORMAT.encode({'device': device, 'size': size, 'targets': self.targets})
            os.pwrite(self._number, data, 0)
            os.truncate(self._number, len(data))

    def owns(self, name: str) -> bool:
        """Return whether a file in the ledger belongs to this claim."""
        return os.path.basename(self._path) == name

    def end(self) -> None:
        """Release the claim; further calls do nothing."""
        if self._number is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._number)
            self._number = None


class Reserve:
    """Free space that writers must leave for databases and guests.

    :param size: bytes; 0: no reserve, and claims are ignored
    :param ledger: directory of the claims; None: claims are not recorded, so only ``check`` may be used
    """

    def __init__(self, size: int = 0, ledger: str | None = None) -> None:
        self.size, self._ledger = size, ledger
        self._warned = False

    def check(self, path: str, adding: int = 0) -> None:
        """:raises InsufficientStorage: less than the reserve would be free after the claims of writers and ``adding``
            more bytes
        """
        if self.size:
            self._check(path, adding)

    def room(self, path: str) -> int:
        """Return the bytes of a file system that are free, not claimed, and not part of the reserve."""
        if not self.size:
            return free_bytes(path)
        return max(0, free_bytes(path) - self._claimed(os.stat(path).st_dev, None) - self.size)

    @contextlib.contextmanager
    def claimed(self, directory: str, size: int, *targets: str) -> Iterator[Claim]:
        """Claim space for the duration of the block: see ``claim``."""
        claim = self.claim(directory, size, *targets)
        try:
            yield claim
        finally:
            claim.end()

    def claim(self, directory: str, size: int, *targets: str) -> Claim:
        """Claim space for a writer, before it writes.

        :param directory: any directory of the file system
        :param size: bytes that the files may have
        :param targets: paths of the files, whether they exist yet or not
        :raises InsufficientStorage: there is no space
        """
        made = Claim(self, directory, tuple(map(os.path.abspath, targets)), 0, None, '')
        if not self.size:
            made.size = size
            return made
        with self._locked():
            self._check(directory, max(0, size - _written(made.targets)), locked=True)
            if self._ledger is not None:
                path = os.path.join(self._ledger, uuid.uuid4().hex)
                try:
                    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                    fcntl.flock(number, fcntl.LOCK_EX)
                    made = Claim(self, directory, made.targets, 0, number, path)
                    made.write(size)
                except OSError as error:
                    made.end()
                    self._cannot(error)
                    made = Claim(self, directory, made.targets, size, None, '')
        return made

    def grow(self, claim: Claim, size: int) -> None:
        """Set the size of a claim.

        :param size: bytes in all
        :raises InsufficientStorage: there is no space for them
        """
        if not self.size:
            claim.size = size
            return
        with self._locked():
            self._check(claim.directory, max(0, size - _written(claim.targets)), claim, locked=True)
            claim.write(size)

    def _check(self, path: str, adding: int, own: Claim | None = None, *, locked: bool = False) -> None:
        if free_bytes(path) - self._claimed(os.stat(path).st_dev, own, locked=locked) - adding < self.size:
            raise exception.InsufficientStorage()

    def _claimed(self, device: int, own: Claim | None, *, locked: bool = False) -> int:
        """Return the bytes on a file system that writers have claimed but not written, without the claim ``own``.

        :param locked: True: the caller holds the lock for changes, so a claim file without a lock belongs to an ended
            process and is removed. False: such a file may be a new claim
        """
        if self._ledger is None or not os.path.isdir(self._ledger):
            return 0
        names = [name for name in os.listdir(self._ledger) if name != LOCK]
        return sum(self._rest(os.path.join(self._ledger, name), device, locked) for name in names[:MAX_CLAIMS]
                   if own is None or not own.owns(name))

    @staticmethod
    def _rest(path: str, device: int, removes: bool) -> int:
        try:
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:                  # the claim has ended
            return 0
        with open(number, 'rb') as file:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:      # the process of the claim is alive
                try:
                    found = FORMAT.decode(file.read(versioned_records.MAX_BYTES + 1), path)
                    return FORMAT.made(found, lambda found: max(0, found['size'] - _written(found['targets']))
                                       if found['device'] == device else 0, path)
                except exception.RecordUnreadable:       # the record is incomplete or of a newer release
                    return 0
            if removes:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        return 0

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock for changes of claims, a file lock that also excludes other processes and native threads."""
        with contextlib.ExitStack() as stack:
            if self._ledger is not None:
                try:
                    stack.callback(os.close, self._open_lock())
                except OSError as error:
                    self._cannot(error)
            yield

    def _open_lock(self) -> int:
        assert self._ledger is not None
        if not os.path.isdir(self._ledger):
            os.makedirs(self._ledger, exist_ok=True)
            if os.geteuid() == 0:        # services that do not run as root must also write here
                owner = os.stat(os.path.dirname(self._ledger))
                os.chown(self._ledger, owner.st_uid, owner.st_gid, follow_symlinks=False)
        path, deadline = os.path.join(self._ledger, LOCK), time.monotonic() + LOCK_S
        number = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return number
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(number)
                    raise TimeoutError(f'another process holds {path}') from None
                time.sleep(0.002)
            except OSError:
                os.close(number)
                raise

    def _cannot(self, error: OSError) -> None:
        """Raise InsufficientStorage if the file system is full; for other errors, log that space is not reserved."""
        if error.errno in FULL:
            raise exception.InsufficientStorage() from error
        if not self._warned:
            LOG.warning('Disk space of concurrent writers is not reserved: %s: %s', self._ledger, error)
        self._warned = True


def _written(paths: Iterable[str]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += os.stat(path).st_blocks * 512
    return total
