"""Privileged operations: run programs on untrusted data as another user, and access root's files.

LocalSteps runs them in this process if the process is root or has no helper process. A process without privileges calls
them in the helper process through remote.RemoteSteps.
"""
import os
from collections.abc import Sequence

from oslo_config import cfg

from nova import utils
from nova.disk_files import qemu_img
from nova.disk_files import sandbox
from nova.virt.libvirt import isolation
from nova.virt.libvirt import vifs
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.container_root import users

CONSOLE_LOG = 'console.log'
TAIL = 100 * 1024                        # maximum bytes of console output


class LocalSteps:
    """Operations that run in this process.

    :param directory: directory of the guests
    :ivar qemu_img: a qemu_img.Tool
    """

    def __init__(self, conf: cfg.ConfigOpts, directory: str) -> None:
        self._directory = directory
        self._plugs = vifs.Plugs(conf.os_vif_ovs.ovsdb_connection)
        self._conf = conf
        self.qemu_img: qemu_img.Tool = qemu_img.QemuImg(conf.libvirt.qemu_img_timeout, conf.libvirt.sandbox_qemu_img)

    def console(self, uuid: str) -> bytes:
        """Return the end of a guest's console output."""
        return tail(os.path.join(self._directory, uuid, CONSOLE_LOG))

    def let_read(self, path: str) -> None:
        """Do nothing: root can read all disks. RemoteSteps.let_read lets its user read a disk that QEMU owns."""

    def plug(self, uuid: str, port: dict[str, str | int]) -> None:
        """Plug a port of a guest; ``port`` has the values of a vifs.Port."""
        self._plugs.plug(uuid, vifs.check(utils.from_known(vifs.Port, port)))

    def unplug(self, uuid: str, port: dict[str, str | int]) -> None:
        self._plugs.unplug(uuid, vifs.check(utils.from_known(vifs.Port, port)))

    def unpack(self, uuid: str, archives: Sequence[str], size: int) -> None:
        """Create the file system of a container: see unpack.unpack."""
        options = self._conf.libvirt
        unpack.unpack(os.path.join(self._directory, uuid), archives, size,
                      users.parse('uid_maps', options.uid_maps), users.parse('gid_maps', options.gid_maps))

    def remove_root(self, uuid: str) -> None:
        """Remove the file system of a container; no error if there is none."""
        unpack.remove(os.path.join(self._directory, uuid))

    def qemu_settings(self) -> dict[str, str]:
        """Return {name: value} of ``isolation.SETTINGS`` in qemu.conf, which also has passwords."""
        return {name: value for name, value in isolation.read_settings(isolation.QEMU_CONF).items()
                if name in isolation.SETTINGS}


def tail(path: str, size: int = TAIL) -> bytes:
    """Return the last ``size`` bytes of a log of virtlogd, including its last rotated file; b'' without a log."""
    data = b''
    for name in (path, path + '.0'):
        if len(data) < size:
            data = _tail(name, size - len(data)) + data
    return data


def _tail(path: str, size: int) -> bytes:
    try:
        with sandbox.opened(path, os.O_RDONLY) as descriptor, open(descriptor, 'rb', closefd=False) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            return file.read(size)
    except FileNotFoundError:
        return b''
