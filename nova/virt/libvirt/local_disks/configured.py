"""Where the disks of new guests lie: what [libvirt] images_type names."""
from __future__ import annotations

import typing

from nova.runtime import entry_points

if typing.TYPE_CHECKING:
    from nova.virt.libvirt.local_disks.base import Place

GROUP = 'nova.libvirt.local_disks'       # of entry points: ours, and those of other packages


def place(conf: typing.Any, directory: str, qemu_img: typing.Any, host: str) -> Place:
    """The Place that the configuration names; see base.Place for what another package has to offer.

    :param directory: of all guests
    :param qemu_img: a qemu_img.Tool
    :raises InvalidOption: there is none of this name
    :raises VirtError: it cannot be used as it is configured
    """
    found = entry_points.named('[libvirt] images_type', conf.libvirt.images_type, GROUP)
    return typing.cast('Place', found.configured(conf, directory, qemu_img, host))
