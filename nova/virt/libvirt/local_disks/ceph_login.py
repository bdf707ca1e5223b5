"""QEMU's Ceph user: the libvirt secret that the configuration names."""
from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import libvirt
from oslo_config.cfg import ConfigOpts

from nova import exception

OPERATION = 'use Ceph'


class Hypervisor(Protocol):
    """The method of host.Host that storage backends call."""

    def run(self, operation: str, function: Callable[[libvirt.virConnect, str], bool], argument: str, /) -> bool: ...


def of(options: ConfigOpts.GroupAttr) -> dict[str, str] | None:
    """Return {'username', 'uuid'}, or None if Ceph requires no authentication.

    :raises VirtError: the user has no secret
    """
    if bool(options.rbd_user) != bool(options.rbd_secret_uuid):
        raise exception.VirtError(operation=OPERATION, reason='[libvirt] rbd_user and rbd_secret_uuid are needed '
                                                              'together')
    return {'username': options.rbd_user, 'uuid': options.rbd_secret_uuid.lower()} if options.rbd_user else None


def check(uuid: str, hypervisor: Hypervisor) -> None:
    """Check a secret.

    :raises VirtError: libvirt does not know the secret
    """
    if not hypervisor.run('find the secret of Ceph', _known, uuid):
        raise exception.VirtError(operation=OPERATION, reason='libvirt has no secret with the id [libvirt] '
                                  'rbd_secret_uuid; virsh secret-define and secret-set-value give it one')


def _known(connection: libvirt.virConnect, uuid: str) -> bool:
    try:
        connection.secretLookupByUUIDString(uuid)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_SECRET:
            raise
        return False
    return True
