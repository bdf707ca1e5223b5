"""nova-virtiofsd: mount a share and exec virtiofsd. libvirt starts this program for each share of a guest.

The mount is in a private mount namespace, so it ends with the guest, and other processes do not see it. A program that
serves the mount also ends with the guest (share_servers.py). nova-compute only writes the mount parameters to a file
next to the directory that libvirt names, and needs no right to mount (ADR 0011). Only the standard library is imported,
because the guest's start waits for this program.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys
import typing

from nova import version
from nova.virt import share_exports as exports
from nova.virt import share_servers

CLONE_NEWNS = 0x00020000                 # linux/sched.h
MOUNT_S = 60                             # timeout of a mount in seconds
MAX_FILE_BYTES = 16384                       # maximum size of the file with the mount parameters
VERSION = 1                              # supported format version of that file (virt/libvirt/features/shares.py)
CAPABILITIES = ['--print-capabilities']  # libvirt 10.0 and later run this program with these arguments before the start
KEY = '.key'                             # suffix of the file with the key of a share's Ceph user
DESCRIPTIONS = '/usr/share/qemu/vhost-user/*.json'       # QEMU's descriptions of vhost-user programs


class WrongArguments(ValueError):
    """The command line names no directory of a share."""


def main(arguments: typing.Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ['--version']:
        print(f'nova-virtiofsd {version.VERSION}')
        return 0
    try:
        if given == CAPABILITIES:
            os.execv(program := server(), [program, *given])
        directory = source(given)
        protocol, location, user = described(directory)
        exports.check(protocol, location)
        program = server()
        _leave_mounts()
        if protocol == exports.CEPHFS:
            share_servers.start(exports.serve(location, user, directory + KEY, directory), directory, MOUNT_S)
        else:
            _run(exports.mount(location, directory), 'The share cannot be mounted')
        os.execv(program, [program, *given])
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        print(f'nova-virtiofsd: {error}', file=sys.stderr)
        return 2 if isinstance(error, WrongArguments) else 1
    return 1


def _run(command: typing.Sequence[str], failure: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=MOUNT_S, check=False)
    if done.returncode:
        raise ValueError(f'{failure}: ' + done.stdout[-500:].decode(errors='replace').strip())


def source(arguments: typing.Sequence[str]) -> str:
    """Return the directory that libvirt's arguments name.

    :raises WrongArguments: they name no directory of a share
    :raises ValueError: the directory is missing
    """
    pairs = [*zip(arguments, arguments[1:]), *(argument.partition('=')[::2] for argument in arguments)]
    options = ','.join(value for word, value in pairs if word == '-o')
    found = [option.partition('=')[2] for option in options.split(',') if option.startswith('source=')]
    found += [value for word, value in pairs if word == '--shared-dir' and value]
    if len(found) != 1 or not os.path.isabs(found[0]) or not exports.is_name(os.path.basename(found[0])):
        raise WrongArguments('The arguments name no directory of a share (-o source=DIRECTORY, --shared-dir '
                             'DIRECTORY).')
    if os.path.islink(found[0]) or not os.path.isdir(found[0]):
        raise ValueError('The directory of the share does not exist.')
    return found[0]


def described(directory: str) -> tuple[typing.Any, typing.Any, typing.Any]:
    """Return (protocol, export location, user or None) from the file next to a directory.

    :raises ValueError, OSError: the file is missing or invalid
    """
    descriptor = os.open(directory + '.json', os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, 'rb') as file:
        found = json.loads(file.read(MAX_FILE_BYTES))
    if not isinstance(found, dict):
        raise ValueError('The file of the share is malformed.')
    needed = found.get('readable_by', 1)
    if type(needed) is not int or needed > VERSION:
        raise ValueError(f'The file of the share needs version {str(needed)[:20]} of its format, and this program '
                         f'reads version {VERSION}.')
    return found.get('protocol'), found.get('export_location'), found.get('user')


def server(pattern: str | None = None) -> str:
    """Return the path of this host's virtiofsd.

    :raises ValueError: this host has no virtiofsd
    """
    for path in sorted(glob.glob(pattern or DESCRIPTIONS)):
        with open(path) as file:
            found = json.load(file)
        if found.get('type') == 'fs' and os.access(str(found.get('binary')), os.X_OK):
            return str(found['binary'])
    raise ValueError('There is no virtiofsd on this host; Debian has it in qemu-system-common, or in virtiofsd.')


def _leave_mounts() -> None:
    """Create a private mount namespace, so that only this process and its children see new mounts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), 'cannot create a mount namespace')
    _run(['mount', '--make-rslave', '/'], 'The mounts of this process cannot be separated from those of the host')


if __name__ == '__main__':
    sys.exit(main())
