"""Create the file system of a container: an isolated process unpacks untrusted archives into a directory.

The host never mounts an untrusted file system. In its user namespace, the process is the root user of the container,
and the host's users do not exist. The process has no network. The new directory is the process's root directory, so the
process can create only files of the container's users there. The process omits device files. Ids outside of the id map
and too many files are errors.
"""
import bz2
import contextlib
import ctypes
import json
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import typing
import zlib

from nova import exception
from nova.disk_files import sandbox
from nova.virt.libvirt.container_root import users

ROOT = 'root'                            # name of the container's root directory in the guest's directory
MAX_FILES = 1_000_000
MEMORY = 1 << 30  # limit of the address space in bytes, because a tar header may claim any length
UNPACK_S = 600
NAMESPACES = 0x10000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000     # CLONE_NEW…: user, mount, net, ipc, uts
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
READY = b'.'
LOADED = (bz2, lzma, zlib)              # imported before chroot, because tarfile imports these modules on demand
LEFT_OUT = ('dev', 'proc', 'sys')        # directories that libvirt provides in a container


def unpack(directory: str, archives: typing.Sequence[str], size: int, uids: tuple[users.Range, ...],
           gids: tuple[users.Range, ...]) -> None:
    """Create a container's file system from plain or compressed tar archives. Later archives replace existing files.

    :param directory: directory of the guest
    :param size: maximum size of all files together in bytes
    :raises VirtError: the archives are not valid tar files, are too large, or lack /sbin/init
    """
    with contextlib.ExitStack() as stack:
        given = [stack.enter_context(sandbox.opened(path, os.O_RDONLY)) for path in archives]
        above = _folder(directory)
        stack.callback(os.close, above)
        os.mkdir(ROOT, 0o755, dir_fd=above)
        target = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        stack.callback(os.close, target)
        os.fchown(target, typing.cast(int, users.of(uids, 0)), typing.cast(int, users.of(gids, 0)))
        os.fchmod(target, 0o755)
        _run({'target': target, 'archives': given, 'size': size}, (target, *given), uids, gids)


def remove(directory: str) -> None:
    """Remove a container's file system; no error if there is none.

    :param directory: directory of the guest
    """
    with contextlib.suppress(FileNotFoundError):
        above = _folder(directory)
        try:
            shutil.rmtree(ROOT, dir_fd=above)
        finally:
            os.close(above)


def _folder(path: str) -> int:
    """Open a directory without following symbolic links in the path. Return its descriptor."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    found = os.open('/', flags)
    for name in path.strip('/').split('/'):
        try:
            below = os.open(name, flags, dir_fd=found)
        finally:
            os.close(found)
        found = below
    return found


def _run(task: dict[str, typing.Any], descriptors: typing.Sequence[int], uids: tuple[users.Range, ...],
         gids: tuple[users.Range, ...]) -> None:
    process = subprocess.Popen([sys.executable, '-P', '-m', __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, pass_fds=descriptors, cwd='/', bufsize=0,
                               env={'PATH': os.defpath, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))})
    try:
        with process:
            first = process.stdout.read(1)               # type: ignore[union-attr]
            if first == READY:
                for name, ranges in (('uid_map', uids), ('gid_map', gids)):
                    with open(f'/proc/{process.pid}/{name}', 'w') as file:
                        file.write(users.table(ranges))
            try:
                output, errors = process.communicate(json.dumps(task).encode(), timeout=UNPACK_S + 30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise _error('it takes too long') from None
    finally:
        process.kill()
    if process.returncode:
        text = (first + output).removeprefix(READY).decode(errors='replace')[-300:].strip()
        raise _error(text or f'the process has ended: {errors.decode(errors="replace")[-200:].strip()}')


def _error(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='unpack the file system', reason=reason)


# ---- in the isolated process ---------------------------------------------------------

class Refused(ValueError):
    """An archive is valid, but must not be unpacked. The message is the reason."""


def main() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NAMESPACES):
        print(f'this host does not allow user namespaces: {os.strerror(ctypes.get_errno())}')
        return 1
    os.write(1, READY)
    task = json.loads(sys.stdin.buffer.read())           # the parent writes the id maps, then sends the task
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)            # after setresuid, which clears this setting
    os.fchdir(task['target'])
    os.chroot('.')
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for limit, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, task['size']),
                         (resource.RLIMIT_CPU, UNPACK_S), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.alarm(UNPACK_S)
    try:
        left = [task['size'], MAX_FILES]
        for descriptor in task['archives']:
            extract(descriptor, '/', left)
    except Refused as error:
        print(error)
        return 1
    except (tarfile.TarError, EOFError, ValueError) as error:
        print(f'it is not a valid tar archive ({type(error).__name__}: {error})')
        return 1
    except MemoryError:
        print('it needs too much memory')
        return 1
    except OSError as error:
        print(f'{error.filename or "a file"}: {error.strerror or error}')
        return 1
    if not os.path.lexists('/sbin/init'):
        print('it has no /sbin/init')
        return 1
    return 0


def extract(descriptor: int, target: str, left: list[int]) -> None:
    """Unpack one archive below a directory.

    :param left: [bytes, files] that may still be unpacked; the function decreases both
    :raises Refused: there is no space for the files, or a path or a size is invalid
    :raises ValueError, TarError, OSError: it is not a valid archive, or a file cannot be written
    """
    with open(descriptor, 'rb', closefd=False) as file, tarfile.open(fileobj=file, mode='r|*', errorlevel=2) as archive:
        for member in archive:
            parts = [part for part in member.name.split('/') if part not in ('', '.')]
            if '..' in parts:
                raise Refused('a path in it leads out of the directory')
            if member.size < 0:
                raise Refused('a size is below zero')
            left[0] -= member.size
            left[1] -= 1
            if left[0] < 0:
                raise Refused('its content is larger than the root disk of the flavor')
            if left[1] < 0:
                raise Refused(f'it has more than {MAX_FILES} files')
            if not parts or member.isdev() or parts[0] in LEFT_OUT and len(parts) > 1:
                continue
            member.name = '/'.join(parts)
            if member.islnk():
                member.linkname = '/'.join(part for part in member.linkname.split('/') if part not in ('', '.', '..'))
            archive.extract(member, target, numeric_owner=True, **PLAIN)


# The default filters of tarfile refuse absolute symbolic links, which OS images contain. Such links are safe, because
# the root directory of this process is the container's.
PLAIN: dict[str, typing.Any] = {'filter': 'fully_trusted'} if hasattr(tarfile, 'fully_trusted_filter') else {}

if __name__ == '__main__':
    sys.exit(main())
