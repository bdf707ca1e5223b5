"""qemu-img in a sandbox, with bounds: memory, processor time, and a clock; the format is always given, never probed.

What a file refers to is not open to it unless the caller names it: a header that names another file leads nowhere.

``key`` is the passphrase of a qcow2 file that is encrypted (QEMU's LUKS layer), or of a file of the format luks, which
is raw behind a header. It is random, so its derivation need not be slow.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from typing import Any, Protocol

from nova import exception
from nova.disk_files import sandbox

GIB = 1024 ** 3
DRIVERS = {'vhd': 'vpc'}                 # disk formats that QEMU has under another name
FOREIGN = ('vmdk', 'vdi', 'vhdx', 'vhd')             # read once, to make a qcow2 or raw file of them; never written
MEMORY = 2 * GIB                         # address space, bytes
INFO_CPU_SECONDS = 10
INFO_TIMEOUT = 30
TABLES = 64 * 1024 ** 2                  # bytes of an empty qcow2 file at most; 1/64 of the data comes on top
QCOW2_MAGIC = b'QFI\xfb'
# LUKS measures the processor before it makes a key; where the kernel counts by ticks it may measure nothing
UNMEASURED, ATTEMPTS = b'accurate CPU usage', 10
LUKS = 'luks'                            # format
CIPHER = 'cipher-alg=aes-256,cipher-mode=xts,ivgen-alg=plain64,hash-alg=sha256'      # aes-xts-plain64, 256 bits
DERIVATION_MS = 10                       # LUKS; a passphrase that could be guessed would need more


class Tool(Protocol):
    """What disks are made by: QemuImg, or what asks one of another process."""

    def prepare(self, directory: str) -> str: ...

    def info(self, path: str, disk_format: str) -> dict[str, Any]: ...

    def measure(self, path: str, disk_format: str, backing_file: str | None = None) -> int: ...

    def create(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               backing_format: str | None = None, key: str | None = None) -> None: ...

    def resize(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               key: str | None = None) -> None: ...

    def rebase(self, path: str, disk_format: str, backing_file: str, backing_format: str,
               key: str | None = None) -> None: ...

    def convert(self, path: str, disk_format: str, target: str, target_format: str,
                backing_file: str | None = None, key: str | None = None) -> None: ...


class QemuImg:
    """
    :param timeout: seconds for one copy or conversion
    :param sandboxed: False runs it with the bounds alone
    """

    def __init__(self, timeout: float, sandboxed: bool = True) -> None:
        self._timeout, self._sandbox = timeout, sandbox.Sandbox(sandboxed)

    def prepare(self, directory: str) -> str:
        """Find out how qemu-img is kept apart; a line for the log.

        :param directory: where the disks lie
        :raises VirtError: it is not, and the configuration does not allow that
        """
        way = self._sandbox.choose(directory)
        return f'{way}, as {self._sandbox.user.pw_name}' if self._sandbox.user else way

    @property
    def group(self) -> int | None:
        """Number of the group that has to be able to read what is converted; None: it is our own user who does."""
        return self._sandbox.user.pw_gid if self._sandbox.user else None

    def reaches(self, path: str) -> bool:
        """Whether a file that ``group`` may read can be reached, too."""
        return self._sandbox.reaches(os.path.abspath(path))

    def info(self, path: str, disk_format: str) -> dict[str, Any]:
        """What ``qemu-img info`` says, as a dict. Only for files whose header was checked before.

        :raises VirtError: it is not of that format, or reading it takes more than it may
        """
        output = self._run('read the disk', ['info', '--output=json', '-U', '-f', _driver(disk_format), path],
                           cpu=INFO_CPU_SECONDS, timeout=INFO_TIMEOUT, reads=[path])
        return json.loads(output)

    def measure(self, path: str, disk_format: str, backing_file: str | None = None) -> int:
        """How many bytes a copy of a disk takes at most: its data without compression, as a qcow2 file. Holes of it,
        and zeros that its tables name, are none.

        :param backing_file: as for ``resize``
        :raises VirtError: it is not of that format, or reading it takes more than it may
        """
        arguments = ['measure', '--output=json', '-U', '-f', _driver(disk_format), '-O', 'qcow2', path]
        output = self._run('measure the disk', arguments, cpu=INFO_CPU_SECONDS, timeout=INFO_TIMEOUT,
                           reads=[path, backing_file] if backing_file else [path])
        return int(json.loads(output)['required'])

    def create(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               backing_format: str | None = None, key: str | None = None) -> None:
        """Make a disk of ``size`` bytes, on a backing file if one is given, which is not opened."""
        backing = ['-u', '-b', backing_file, '-F', backing_format] if backing_file else []
        self._run('create a disk', ['create', '-q', *_made(disk_format, key), '-f', disk_format, *backing, path,
                                    str(size)], writes=[path], largest=size, key=key)

    def resize(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               key: str | None = None) -> None:
        """Make a disk that no guest uses ``size`` bytes large.

        :param backing_file: what it was made on, from our record
        """
        self._run('resize a disk', ['resize', '-q', *_opened(path, disk_format, key), str(size)],
                  reads=[backing_file] if backing_file else [], writes=[path], largest=size, key=key)

    def rebase(self, path: str, disk_format: str, backing_file: str, backing_format: str,
               key: str | None = None) -> None:
        """Change the name of the file below a disk; it has the same content as the one before, which is not opened."""
        self._run('put an image below a disk', ['rebase', '-q', '-u', '-b', backing_file, '-F', backing_format,
                                                *_opened(path, disk_format, key)], reads=[backing_file], writes=[path],
                  largest=_size(path, disk_format), key=key)

    def convert(self, path: str, disk_format: str, target: str, target_format: str,
                backing_file: str | None = None, key: str | None = None) -> None:
        """Copy a disk that no guest writes to, with all that is below it, into a new file.

        :param backing_file: as for ``resize``
        :param key: of the new file; the old one has none
        """
        self._run('copy a disk', ['convert', '-q', *_made(target_format, key), '-f', _driver(disk_format), '-O',
                                  target_format, path, target],
                  reads=[path, backing_file] if backing_file else [path], writes=[target],
                  largest=int(self.info(path, disk_format)['virtual-size']) if disk_format in FOREIGN
                  else _size(path, disk_format), key=key)

    def _run(self, operation: str, arguments: Sequence[object], cpu: int | None = None, timeout: float | None = None,
             reads: Sequence[str] = (), writes: Sequence[str] = (), largest: int = 0,
             key: str | None = None) -> bytes:
        for _attempt in range(ATTEMPTS):
            done = self._done(operation, arguments, cpu, timeout or self._timeout, reads, writes, largest, key)
            if not done.status:
                return done.output
            if key is None or UNMEASURED not in done.errors:
                break
        raise exception.VirtError(operation=operation, reason=_reason(done))

    def _done(self, operation: str, arguments: Sequence[object], cpu: int | None, timeout: float,
              reads: Sequence[str], writes: Sequence[str], largest: int, key: str | None) -> sandbox.Done:
        limits = sandbox.Limits(memory=MEMORY, cpu_s=cpu or max(1, int(timeout)), time_s=timeout,
                                file_bytes=largest + largest // 64 + TABLES if writes else 0)
        try:
            return self._sandbox.run(['qemu-img', *map(str, arguments)], limits,
                                     [os.path.abspath(path) for path in reads],
                                     [os.path.abspath(path) for path in writes],
                                     key.encode() if key else None)
        except subprocess.TimeoutExpired:
            raise exception.VirtError(operation=operation, reason=f'it took more than {timeout} seconds') from None
        except OSError as error:
            raise exception.VirtError(operation=operation, reason=error.strerror) from error


_KEY = ('--object', f'secret,id=key,file={sandbox.SECRET}')


def _driver(disk_format: str) -> str:
    return DRIVERS.get(disk_format, disk_format)


def _made(disk_format: str, key: str | None) -> list[str]:
    """Options of a new file."""
    if key is None:
        return []
    if disk_format == LUKS:
        return [*_KEY, '-o', f'key-secret=key,iter-time={DERIVATION_MS},{CIPHER}']
    return [*_KEY, '-o', f'encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time={DERIVATION_MS}']


def _opened(path: str, disk_format: str, key: str | None) -> list[str]:
    """The words that name a file that is there."""
    if key is None:
        return ['-f', disk_format, path]
    return [*_KEY, '--image-opts', f'driver={disk_format},encrypt.key-secret=key,file.driver=file,'
                                   f'file.filename={path.replace(",", ",,")}']


def _size(path: str, disk_format: str) -> int:
    """Bytes of the disk in a file."""
    with sandbox.opened(os.path.abspath(path), os.O_RDONLY) as descriptor, open(
            descriptor, 'rb', closefd=False) as file:
        header = file.read(32)
        if disk_format == 'qcow2' and header.startswith(QCOW2_MAGIC):
            return int.from_bytes(header[24:32])
        return file.seek(0, os.SEEK_END)


def _reason(done: sandbox.Done) -> str:
    """One line of what it said, without the directories of this host."""
    lines = done.errors.decode(errors='replace').strip().splitlines()
    text = lines[-1][:200] if lines else f'qemu-img ended with {done.status}'
    return re.sub(r'/[^\s\'",:]*/', '', text)
