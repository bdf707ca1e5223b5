"""Room on file systems: what is free, a reserve that callers' bytes must leave, and what writers have claimed.

A claim counts what a writer may still write. It is a file in a directory that all processes of this machine share
(``<state path>/disk-space``), locked by its process for as long as the claim lasts: what a process leaves that dies
counts no more. The bytes that are in the claim's files already are in the file system's own figure, and count once.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
import contextlib
import errno
import fcntl
import logging
import os
import time
import uuid

from oslo_config import cfg

from nova import exception
from nova.runtime import host_identity
from nova.runtime import versioned_records

LOG = logging.getLogger(__name__)

MIB = 2 ** 20
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)         # what a full file system answers
STEP = 64 * MIB                  # claimed ahead for a writer whose bytes come as slowly as its caller likes
LEDGER = 'disk-space'
LOCK = 'lock'
FORMAT = versioned_records.RecordFormat(
    name='claim of disk space', fields=frozenset({'device', 'size', 'targets'}),
    required=frozenset({'device', 'size', 'targets'}))
LOCK_S = 10                      # of waiting for a process that reads or writes claims
MOST_CLAIMS = 10_000


def free_bytes(path: str) -> int:
    """Bytes that an ordinary process may still write to the file system of a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def used_bytes(path: str) -> int:
    """Bytes that the content of a file takes: fewer than its size where it has holes."""
    found = os.stat(path)
    return min(found.st_size, found.st_blocks * 512)


def reserve_of(conf: cfg.ConfigOpts) -> Reserve:
    """The Reserve that [image] free_disk_reserve describes, with the claims of all processes of this machine."""
    return Reserve(conf.image.free_disk_reserve * MIB, os.path.join(host_identity.state_path(conf), LEDGER))


class Claim:
    """Room for what one writer may write; see ``Reserve.claim``."""

    def __init__(self, reserve: Reserve, directory: str, targets: tuple[str, ...], size: int, number: int | None,
                 path: str) -> None:
        self._reserve, self.directory, self.targets = reserve, directory, targets
        self.size, self._number, self._path = size, number, path

    def need(self, size: int) -> None:
        """Make room for ``size`` bytes in all, and for a step beyond where there is room.

        :raises InsufficientStorage: there is none
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
        """Whether a file of the ledger is this claim's."""
        return os.path.basename(self._path) == name

    def end(self) -> None:
        """Give back what was not written; nothing the second time."""
        if self._number is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._number)
            self._number = None


class Reserve:
    """Free space that writers leave, so that databases and guests go on.

    :param size: bytes; 0 keeps nothing back, and counts no claims
    :param ledger: directory of the claims; None: they are not shared, and only ``check`` is of use
    """

    def __init__(self, size: int = 0, ledger: str | None = None) -> None:
        self.size, self._ledger = size, ledger
        self._warned = False

    def check(self, path: str, adding: int = 0) -> None:
        """:raises InsufficientStorage: ``adding`` bytes more, with what writers have claimed, would leave less than the
        reserve
        """
        if self.size:
            self._check(path, adding)

    def room(self, path: str) -> int:
        """Bytes of a file system that are free, not claimed, and not part of the reserve."""
        if not self.size:
            return free_bytes(path)
        return max(0, free_bytes(path) - self._claimed(os.stat(path).st_dev, None) - self.size)

    @contextlib.contextmanager
    def claimed(self, directory: str, size: int, *targets: str) -> Iterator[Claim]:
        """A claim for the time of the block: see ``claim``."""
        claim = self.claim(directory, size, *targets)
        try:
            yield claim
        finally:
            claim.end()

    def claim(self, directory: str, size: int, *targets: str) -> Claim:
        """Claim room for a writer, before it writes.

        :param directory: on the file system
        :param size: bytes that the files may have
        :param targets: paths of the files, whether they are there yet or not
        :raises InsufficientStorage: there is none
        """
        made = Claim(self, directory, tuple(map(os.path.abspath, targets)), 0, None, '')
        if not self.size:
            made.size = size
            return made
        with self._locked():
            self._check(directory, max(0, size - _written(made.targets)))
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
        """
        :param size: bytes in all
        :raises InsufficientStorage: there is no room for them
        """
        if not self.size:
            claim.size = size
            return
        with self._locked():
            self._check(claim.directory, max(0, size - _written(claim.targets)), claim)
            claim.write(size)

    def _check(self, path: str, adding: int, own: Claim | None = None) -> None:
        if free_bytes(path) - self._claimed(os.stat(path).st_dev, own) - adding < self.size:
            raise exception.InsufficientStorage()

    def _claimed(self, device: int, own: Claim | None) -> int:
        """Bytes that writers on a file system have claimed and not written, without those of ``own``."""
        if self._ledger is None or not os.path.isdir(self._ledger):
            return 0
        names = [name for name in os.listdir(self._ledger) if name != LOCK]
        return sum(self._rest(os.path.join(self._ledger, name), device) for name in names[:MOST_CLAIMS]
                   if own is None or not own.owns(name))

    @staticmethod
    def _rest(path: str, device: int) -> int:
        try:
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:                  # it has ended
            return 0
        with open(number, 'rb') as file:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:      # its process lives
                try:
                    found = FORMAT.decode(file.read(versioned_records.MAX_BYTES + 1), path)
                    return FORMAT.made(found, lambda found: max(0, found['size'] - _written(found['targets']))
                                       if found['device'] == device else 0, path)
                except exception.RecordUnreadable:       # the process is writing it, or its release is a newer one
                    return 0
            with contextlib.suppress(OSError):
                os.unlink(path)
        return 0

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer makes a claim at a time. No lock of Python: some write on threads beside the event loop."""
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
            if os.geteuid() == 0:        # services of this machine that are not root write here, too
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
        """Without the directory, what is free still bounds each writer by itself."""
        if error.errno in FULL:
            raise exception.InsufficientStorage() from error
        if not self._warned:
            LOG.warning('Room on disk is not reserved for writers at the same time: %s: %s', self._ledger, error)
        self._warned = True


def _written(paths: Iterable[str]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += os.stat(path).st_blocks * 512
    return total
