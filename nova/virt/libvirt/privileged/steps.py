"""What the driver does that an ordinary user may not do: programs on strangers' bytes as another user, files of root.

A process that is root, or that has to do without, does it by itself: LocalSteps. The module remote has the steps of a
process that has given up its rights.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from nova.disk_files import qemu_img
from nova.virt.libvirt import console
from nova.virt.libvirt import isolation
from nova.virt.libvirt import vifs
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.container_root import users

CONSOLE_LOG = 'console.log'


class LocalSteps:
    """
    :param conf: the configuration
    :param directory: of the guests
    :ivar qemu_img: a qemu_img.Tool
    """

    def __init__(self, conf: cfg.ConfigOpts, directory: str) -> None:
        self._directory = directory
        self._plugs = vifs.Plugs(conf.os_vif_ovs.ovsdb_connection)
        self._conf = conf
        self.qemu_img: qemu_img.Tool = qemu_img.QemuImg(conf.libvirt.qemu_img_timeout, conf.libvirt.sandbox_images)

    def console(self, uuid: str) -> bytes:
        """The end of what a guest printed."""
        return console.tail(os.path.join(self._directory, uuid, CONSOLE_LOG))

    def let_read(self, path: str) -> None:
        """Let this process read a disk that QEMU has written; root does so anyway."""

    def plug(self, uuid: str, port: dict[str, Any]) -> None:
        """Plug a port of a guest: the values of a vifs.Port."""
        self._plugs.plug(uuid, vifs.check(vifs.Port(**port)))

    def unplug(self, uuid: str, port: dict[str, Any]) -> None:
        self._plugs.unplug(uuid, vifs.check(vifs.Port(**port)))

    def unpack(self, uuid: str, archives: Sequence[str], size: int) -> None:
        """Make the file system of a container: see unpack.unpack."""
        options = self._conf.libvirt
        unpack.unpack(os.path.join(self._directory, uuid), archives, size,
                      users.parse('uid_maps', options.uid_maps), users.parse('gid_maps', options.gid_maps))

    def remove_root(self, uuid: str) -> None:
        """Remove the file system of a container; no error when there is none."""
        unpack.remove(os.path.join(self._directory, uuid))

    def qemu_settings(self) -> dict[str, str]:
        """{name: value} of isolation.SETTINGS, as far as qemu.conf has them."""
        return isolation.read_settings(isolation.QEMU_CONF)
