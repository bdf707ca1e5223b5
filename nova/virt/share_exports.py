"""Where a share is mounted from, checked: what a Shared File Systems service says becomes arguments of ``mount``.

Only the standard library: nova-virtiofsd, which libvirt starts for each share, reads it.
"""
from __future__ import annotations

import re
import typing

NFS = 'NFS'
PROTOCOLS = (NFS,)                       # that hosts mount
TAG_BYTES = 36                           # of the name by which a guest finds a share (virtio 1.2, 5.11.4)
MOST_LOCATION = 1024                     # characters
PREFIX = 'share-'                        # of its names in the directory of a guest
# A guest's files are data for the host: it runs none of them, and none of them is a device.
OPTIONS = 'nosuid,nodev,noexec,retry=0'
_NAME = re.compile(r'\Ashare-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')
_LOCATION = re.compile(r'\A(\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z][0-9A-Za-z._-]{0,252}):/[^\x00-\x1f\x7f]*\Z')


def check(protocol: typing.Any, location: typing.Any) -> None:
    """:raises ValueError: with a sentence: no host mounts this"""
    if protocol not in PROTOCOLS:
        raise ValueError(f'Shares of the protocol {str(protocol)[:40]} cannot be mounted here; those of '
                         f'{", ".join(PROTOCOLS)} can.')
    if not isinstance(location, str) or len(location) > MOST_LOCATION or not _LOCATION.match(location):
        raise ValueError('The export location of the share is none of NFS: an address, a colon, and a path.')


def is_name(name: str) -> bool:
    """Whether a directory of this name is that of a share."""
    return bool(_NAME.match(name))


def mount(protocol: typing.Any, location: typing.Any, directory: str) -> list[str]:
    """The command that mounts a share.

    :raises ValueError: see check()
    """
    check(protocol, location)
    return ['mount', '-t', 'nfs', '-o', OPTIONS, '--', location, directory]
