"""Validation and mount commands of share exports.

A Shared File Systems service provides the values, which become program arguments. This module imports only the standard
library, because nova-virtiofsd imports it and libvirt starts nova-virtiofsd for each share.
"""
import re

from nova.json_types import Json

NFS, CEPHFS = 'NFS', 'CEPHFS'
PROTOCOLS = (NFS, CEPHFS)                # protocols that hosts support
TAG_BYTES = 36                           # maximum length of a share's tag (virtio 1.2, 5.11.4)
MAX_LOCATION_LENGTH = 1024                     # in characters
PREFIX = 'share-'                        # prefix of directories of shares in the directory of a guest
# mount options: the host must not execute a guest's files or use them as devices
OPTIONS = 'nosuid,nodev,noexec'
CEPH_FUSE = 'ceph-fuse'
_NAME = re.compile(r'\Ashare-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')
_HOST = r'(?:\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z][0-9A-Za-z._-]{0,252})'
_MONITOR = rf'{_HOST}(?::[0-9]{{1,5}})?'
_PATH = r'/[^\x00-\x1f\x7f]*\Z'
_LOCATIONS = {NFS: (re.compile(rf'\A({_HOST}):({_PATH})'), 'an address, a colon, and a path'),
              CEPHFS: (re.compile(rf'\A({_MONITOR}(?:,{_MONITOR}){{0,15}}):({_PATH})'),
                       'addresses of monitors separated by commas, a colon, and a path')}
_USER = re.compile(r'\A[0-9A-Za-z][0-9A-Za-z_-]{0,127}\Z', re.ASCII)
_KEY = re.compile(r'\A[0-9A-Za-z+/]{16,512}={0,2}\Z', re.ASCII)


def check(protocol: Json, location: Json) -> None:
    """Validate an export location.

    :raises ValueError: hosts cannot mount this location; the message is a sentence
    """
    _parts(protocol, location)


def check_access(protocol: Json, user: Json, key: Json) -> None:
    """Validate the credentials of a share.

    :raises ValueError: the credentials do not fit the protocol; the message is a sentence
    """
    if protocol == CEPHFS and not (isinstance(user, str) and _USER.match(user)
                                   and isinstance(key, str) and _KEY.match(key)):
        raise ValueError('The CephFS share has no Ceph user with a key.')


def is_name(name: str) -> bool:
    """Return whether this is the name of a share's directory."""
    return bool(_NAME.match(name))


def mount(location: str, directory: str) -> list[str]:
    """Return the command that mounts an NFS share.

    :raises ValueError: see check()
    """
    _parts(NFS, location)
    return ['mount', '-t', 'nfs', '-o', OPTIONS + ',retry=0', '--', location, directory]


def serve(location: str, user: Json, key_file: str, directory: str) -> list[str]:
    """Return the command that mounts a CephFS share and serves it in the foreground.

    The command ignores the host's Ceph configuration and logs to its output. The key is in a file, not in arguments.
    :raises ValueError: see check()
    """
    monitors, path = _parts(CEPHFS, location)
    if not isinstance(user, str) or not _USER.match(user):
        raise ValueError('The CephFS share has no Ceph user.')
    return [CEPH_FUSE, '-f', '--no-mon-config', '--conf', '/dev/null', '--log-file', '', '--admin-socket', '',
            '-m', monitors, '--id', user, '--keyfile', key_file, '-r', path, '-o', OPTIONS, directory]


def _parts(protocol: Json, location: Json) -> tuple[str, str]:
    if protocol not in PROTOCOLS:
        raise ValueError(f'Shares of the protocol {str(protocol)[:40]} cannot be mounted. Supported protocols: '
                         f'{", ".join(PROTOCOLS)}.')
    form, words = _LOCATIONS[protocol]
    found = form.match(location) if isinstance(location, str) and len(location) <= MAX_LOCATION_LENGTH else None
    if found is None:
        raise ValueError(f'The export location of the share is not valid for {protocol}, which requires {words}.')
    return found[1], found[2]
