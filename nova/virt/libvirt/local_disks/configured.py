"""Storage backend of new guests' disks, selected by [libvirt] images_type."""
from __future__ import annotations

import typing

from nova.runtime import entry_points

if typing.TYPE_CHECKING:
    from nova.disk_files.qemu_img import Tool
    from nova.virt.libvirt.local_disks.base import Place
    from oslo_config.cfg import ConfigOpts

GROUP = 'nova.libvirt.local_disks'       # entry points of this package and others


def place(conf: ConfigOpts, directory: str, qemu_img: Tool, host: str) -> Place:
    """Return the configured Place; see base.Place for the interface of other packages.

    :param directory: directory of all guests
    :raises InvalidOption: no installed backend has this name
    :raises VirtError: the configuration of the backend is unusable
    """
    found = entry_points.named('[libvirt] images_type', conf.libvirt.images_type, GROUP)
    return typing.cast('Place', found.configured(conf, directory, qemu_img, host))
