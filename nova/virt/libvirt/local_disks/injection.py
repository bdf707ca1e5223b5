"""Files that users send, written into the file system of a new disk: guestfish, off unless the operator chooses it.

No file system of a stranger is opened on the host: libguestfs starts a small virtual machine that mounts it, and hands
files over to it (https://libguestfs.org/guestfs-security.1.html). A time limit ends it with all that it has started.
"""
from __future__ import annotations

import os
import posixpath
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence

from nova import exception
from nova.virt.libvirt import xml

OFF, FIND, WHOLE = -2, -1, 0             # [libvirt] inject_partition
INJECT_S = 600                           # an emulated machine that builds its own system at first
OPERATION = 'write files into the disk'


def prepare(partition: int) -> None:
    """
    :raises VirtError: files are to be written, and there is nothing that does it
    """
    if partition != OFF and not shutil.which('guestfish'):
        raise _error('guestfish is not installed (Debian: libguestfs-tools and a kernel, linux-image-amd64)')


def write(disk: xml.Disk, files: Sequence[tuple[str, bytes]], partition: int) -> None:
    """Write files into a disk that no guest uses, as their root's; one that is there is replaced.

    :param files: [(path, bytes)]
    :param partition: number of that with the root; FIND: whichever has a system; WHOLE: the disk is one file system
    :raises VirtError: the disk is elsewhere or encrypted, has no such partition, or no file system that is known
    """
    if disk.secret or disk.source:
        raise _error('the disk is encrypted, or in a pool of Ceph')
    with tempfile.TemporaryDirectory(prefix='nova-inject-') as place:
        _run(command(disk, _local(place, files), partition), place)


def command(disk: xml.Disk, files: Sequence[tuple[str, str]], partition: int) -> list[str]:
    """The words of guestfish.

    :param files: [(path in the guest, path here)]
    """
    words = ['guestfish', '--rw', f'--format={disk.format}', '-a', disk.file]
    words += ['-i'] if partition == FIND else ['-m', f'/dev/sda{partition or ""}']
    steps: list[list[str]] = []
    for path, here in files:
        target = posixpath.normpath('/' + path.lstrip('/'))
        steps += [['mkdir-p', posixpath.dirname(target)], ['upload', here, target]]
    words += steps[0]
    for step in steps[1:]:
        words += [':', *step]
    return words


def _local(place: str, files: Sequence[tuple[str, bytes]]) -> list[tuple[str, str]]:
    found = []
    for number, (path, data) in enumerate(files):
        found.append((path, os.path.join(place, str(number))))
        with open(found[-1][1], 'wb') as file:
            file.write(data)
    return found


def _run(words: list[str], place: str) -> None:
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               cwd=place, env={**os.environ, 'LIBGUESTFS_BACKEND': 'direct'}, start_new_session=True)
    try:
        errors = process.communicate(timeout=INJECT_S)[1]
    except subprocess.TimeoutExpired:
        raise _error(f'it took more than {INJECT_S} seconds') from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        lines = errors.decode(errors='replace').strip().splitlines()
        raise _error(lines[0][:200] if lines else f'guestfish ended with {process.returncode}')


def _error(reason: str) -> exception.VirtError:
    return exception.VirtError(operation=OPERATION, reason=reason)
