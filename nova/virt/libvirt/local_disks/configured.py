"""The pool that the configuration names."""
from __future__ import annotations

import typing

import libvirt

from nova import exception
from nova.virt.libvirt.local_disks import pool as pools
from nova.virt.libvirt.local_disks import rbd

OPERATION = 'use Ceph'
RBD = 'rbd'
CACHE = 'writeback'                      # librbd's own: QEMU passes each flush of the guest to it


def pool(conf: typing.Any, qemu_img: typing.Any, host: str) -> rbd.Rbd | None:
    """The place of new disks where it is a pool.

    :raises VirtError: there is a user, and no secret for it
    """
    options = conf.libvirt
    if options.images_type != RBD:
        return None
    if bool(options.rbd_user) != bool(options.rbd_secret_uuid):
        raise exception.VirtError(operation=OPERATION, reason='[libvirt] rbd_user and rbd_secret_uuid are needed '
                                                              'together')
    auth = {'username': options.rbd_user, 'uuid': options.rbd_secret_uuid.lower()} if options.rbd_user else None
    found = pools.Pool(options.images_rbd_pool, options.images_rbd_ceph_conf, options.rbd_user,
                       options.qemu_img_timeout)
    return rbd.Rbd(found, qemu_img, host, auth, options.disk_cachemodes.get('network', CACHE),
                   options.remove_unused_base_images_after)


def check_secret(conf: typing.Any, hypervisor: typing.Any) -> None:
    """
    :raises VirtError: libvirt does not know the secret of the disks
    """
    options = conf.libvirt
    if options.images_type == RBD and options.rbd_secret_uuid and not hypervisor.run(
            'find the secret of Ceph', _known, options.rbd_secret_uuid):
        raise exception.VirtError(operation=OPERATION, reason='libvirt has no secret with the id [libvirt] '
                                  'rbd_secret_uuid; virsh secret-define and secret-set-value give it one')


def _known(connection: typing.Any, uuid: str) -> bool:
    try:
        connection.secretLookupByUUIDString(uuid)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_SECRET:
            raise
        return False
    return True
