"""qemu-img in a sandbox with limits on memory, CPU time and elapsed time; the format is always explicit, never probed.

A file that a disk's header names, such as a backing file, is inaccessible unless the caller passes its path.

``key`` is the passphrase of an encrypted qcow2 file (QEMU's LUKS layer), or of a file of the format luks: raw data
behind a LUKS header. The passphrase is random, so a fast derivation of the LUKS key is safe.
"""
import json
import os
import re
import subprocess
from collections.abc import Sequence
from typing import NotRequired, Protocol, TypedDict

from nova import exception
from nova.disk_files import sandbox
from nova.json_types import JsonObject

GIB = 1024 ** 3
DRIVERS = {'vhd': 'vpc'}                 # {disk format: its name in QEMU, if different}
FOREIGN = ('vmdk', 'vdi', 'vhdx', 'vhd')             # input formats, converted once to qcow2 or raw; never written
MEMORY = 2 * GIB                         # address space, bytes
INFO_CPU_SECONDS = 10
INFO_TIMEOUT = 30
TABLES = 64 * 1024 ** 2                  # bytes for the metadata of a qcow2 file, in addition to 1/64 of its data
QCOW2_MAGIC = b'QFI\xfb'
# QEMU fails with this error if the measured CPU time of a key derivation is 0. A kernel with tick-based CPU accounting
# can report 0, so the command is repeated.
UNMEASURED, ATTEMPTS = b'accurate CPU usage', 10
LUKS = 'luks'                            # disk format
CIPHER = 'cipher-alg=aes-256,cipher-mode=xts,ivgen-alg=plain64,hash-alg=sha256'      # aes-xts-plain64, 256 bits
DERIVATION_MS = 10                       # duration of LUKS key derivation; a guessable passphrase would need more


class FormatSpecific(TypedDict, total=False):
    """The part of the output of qemu-img info that depends on the disk format."""

    data: JsonObject


# the keys that callers read in the output of qemu-img info
DiskInfo = TypedDict('DiskInfo', {
    'virtual-size': int, 'backing-filename': NotRequired[str], 'full-backing-filename': NotRequired[str],
    'encrypted': NotRequired[bool], 'format-specific': NotRequired[FormatSpecific]})


class Tool(Protocol):
    """Interface of QemuImg, and of the client that calls QemuImg in another process."""

    def prepare(self, directory: str) -> str: ...

    def info(self, path: str, disk_format: str) -> DiskInfo: ...

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
    """qemu-img in this process's sandbox.

    :param timeout: seconds for one copy or conversion
    :param sandboxed: False applies only the limits
    """

    def __init__(self, timeout: float, sandboxed: bool = True) -> None:
        self._timeout, self._sandbox = timeout, sandbox.Sandbox(sandboxed)

    def prepare(self, directory: str) -> str:
        """Determine the isolation of qemu-img and return a line for the log.

        :param directory: directory of the disks
        :raises VirtError: no isolation is possible, and the configuration requires isolation
        """
        way = self._sandbox.choose(directory)
        return f'{way}, as {self._sandbox.user.pw_name}' if self._sandbox.user else way

    @property
    def group(self) -> int | None:
        """Return the id of the group that must read input files; None if qemu-img runs as the user of this process."""
        return self._sandbox.user.pw_gid if self._sandbox.user else None

    def reaches(self, path: str) -> bool:
        """Return whether the user of qemu-img may pass through the parent directories of a file."""
        return self._sandbox.reaches(os.path.abspath(path))

    def info(self, path: str, disk_format: str) -> DiskInfo:
        """Run ``qemu-img info``. The caller must have checked the header of the file.

        :raises VirtError: the format differs, or reading exceeds the limits
        """
        output = self._run('read the disk', ['info', '--output=json', '-U', '-f', _driver(disk_format), path],
                           cpu=INFO_CPU_SECONDS, timeout=INFO_TIMEOUT, reads=[path])
        return json.loads(output)

    def measure(self, path: str, disk_format: str, backing_file: str | None = None) -> int:
        """Return the maximum size in bytes of an uncompressed qcow2 copy of a disk.

        Holes, and clusters that the disk's tables mark as zeros, are not counted.

        :param backing_file: as for ``resize``
        :raises VirtError: the format differs, or reading exceeds the limits
        """
        arguments = ['measure', '--output=json', '-U', '-f', _driver(disk_format), '-O', 'qcow2', path]
        output = self._run('measure the disk', arguments, cpu=INFO_CPU_SECONDS, timeout=INFO_TIMEOUT,
                           reads=[path, backing_file] if backing_file else [path])
        return int(json.loads(output)['required'])

    def create(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               backing_format: str | None = None, key: str | None = None) -> None:
        """Create a disk of ``size`` bytes, optionally on a backing file, which is not opened."""
        backing = ['-u', '-b', backing_file, '-F', backing_format] if backing_file else []
        self._run('create a disk', ['create', '-q', *_made(disk_format, key), '-f', disk_format, *backing, path,
                                    str(size)], writes=[path], largest=size, key=key)

    def resize(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               key: str | None = None) -> None:
        """Resize an unused disk to ``size`` bytes.

        :param backing_file: its backing file according to this service's record
        """
        self._run('resize a disk', ['resize', '-q', *_opened(path, disk_format, key), str(size)],
                  reads=[backing_file] if backing_file else [], writes=[path], largest=size, key=key)

    def rebase(self, path: str, disk_format: str, backing_file: str, backing_format: str,
               key: str | None = None) -> None:
        """Change the backing file that a disk names; the new one has the same content and is not opened."""
        self._run('change the backing file of a disk', ['rebase', '-q', '-u', '-b', backing_file, '-F', backing_format,
                                                *_opened(path, disk_format, key)], reads=[backing_file], writes=[path],
                  largest=_size(path, disk_format), key=key)

    def convert(self, path: str, disk_format: str, target: str, target_format: str,
                backing_file: str | None = None, key: str | None = None) -> None:
        """Copy a disk that is not being written, including its backing files, into a new file.

        :param backing_file: as for ``resize``
        :param key: passphrase of the new file; the source is not encrypted
        """
        self._run('copy a disk', ['convert', '-q', *_made(target_format, key), '-f', _driver(disk_format), '-O',
                                  target_format, path, target],
                  reads=[path, backing_file] if backing_file else [path], writes=[target],
                  largest=int(self.info(path, disk_format)['virtual-size']) if disk_format in FOREIGN
                  else _size(path, disk_format), key=key)

    def _run(self, operation: str, arguments: Sequence[object], cpu: int | None = None, timeout: float | None = None,
             reads: Sequence[str] = (), writes: Sequence[str] = (), largest: int = 0, key: str | None = None) -> bytes:
        for _attempt in range(ATTEMPTS):
            done = self._done(operation, arguments, cpu, timeout or self._timeout, reads, writes, largest, key)
            if not done.status:
                return done.output
            if key is None or UNMEASURED not in done.errors:
                break
        raise exception.VirtError(operation=operation, reason=reason(done.errors, done.status))

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
    """Return the encryption options of a new file."""
    if key is None:
        return []
    if disk_format == LUKS:
        return [*_KEY, '-o', f'key-secret=key,iter-time={DERIVATION_MS},{CIPHER}']
    return [*_KEY, '-o', f'encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time={DERIVATION_MS}']


def _opened(path: str, disk_format: str, key: str | None) -> list[str]:
    """Return the arguments that name an existing file."""
    if key is None:
        return ['-f', disk_format, path]
    return [*_KEY, '--image-opts', f'driver={disk_format},encrypt.key-secret=key,file.driver=file,'
                                   f'file.filename={path.replace(",", ",,")}']


def _size(path: str, disk_format: str) -> int:
    """Return the size of a disk in bytes: the virtual size of qcow2, otherwise the size of the file.

    :raises VirtError: the file cannot be read
    """
    try:
        with sandbox.opened(os.path.abspath(path), os.O_RDONLY) as descriptor, open(
                descriptor, 'rb', closefd=False) as file:
            header = file.read(32)
            if disk_format == 'qcow2' and header.startswith(QCOW2_MAGIC):
                return int.from_bytes(header[24:32])
            return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise exception.VirtError(operation='read the size of a disk', reason=error.strerror) from error


def reason(errors: bytes, status: int) -> str:
    """Return one line of qemu-img's error output without directories of this host."""
    lines = errors.decode(errors='replace').strip().splitlines()
    text = lines[-1][:200] if lines else f'qemu-img ended with {status}'
    return re.sub(r'/[^\s\'",:]*/', '', text)
