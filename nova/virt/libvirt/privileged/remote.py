"""Privileged operations of the libvirt driver in a separate process: its operations and its client.

========================  =====================================================  ======================================
Operation                 Arguments                                              Needs
========================  =====================================================  ======================================
``qemu_img.prepare``      none                                                   requirements of the others
``qemu_img.info``         path, format                                           SETUID, SETGID, SETPCAP, KILL: the
``qemu_img.measure``      path, format; backing file
``qemu_img.create``       path, format, size; backing file and format; key       program runs as a separate user.
``qemu_img.resize``       path, format, size; backing file; key                  CHOWN, FOWNER, DAC_OVERRIDE: a file is
``qemu_img.rebase``       path, format, backing file and format; key
``qemu_img.convert``      path, format, target, target format; backing file;     that user's during the run
                          key
``guest.let_read``        path                                                   FOWNER: QEMU's user owns its files;
                                                                                 CHOWN: a snapshot is given to this user
``guest.console``         uuid                                                   DAC_OVERRIDE: virtlogd writes as root
``vif.plug``              uuid; the values of a vifs.Port                        NET_ADMIN: taps; DAC_OVERRIDE: the
``vif.unplug``            the same                                               socket of Open vSwitch is root's
``container.unpack``      uuid, paths of archives, bytes                         SETUID, SETGID, CHOWN: the mapped users
``container.remove``      uuid                                                   DAC_OVERRIDE: files of these users
``host.qemu_settings``    none                                                   DAC_OVERRIDE: qemu.conf is root's
========================  =====================================================  ======================================

A path must be one that the driver creates, below the directory of the guests. It is opened as a regular file with
one hard link, without symbolic links in the path (sandbox.opened). There are two formats, and sizes are numbers in a
range. The privileged part reads all other values from the configuration.
"""
from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import re
import tempfile
import typing
from collections.abc import Sequence

from oslo_config import cfg

from nova import exception
from nova.disk_files import files
from nova.disk_files import qemu_img
from nova.disk_files import sandbox
from nova.runtime import privileges
from nova.virt.libvirt import isolation
from nova.virt.libvirt import vifs
from nova.virt.libvirt.privileged import steps

CALLERS = 16                             # concurrent operations; many, because the copy of a disk takes minutes
CAPABILITIES = (privileges.CHOWN, privileges.DAC_OVERRIDE, privileges.FOWNER, privileges.KILL, privileges.SETGID,
                privileges.SETUID, privileges.SETPCAP)
NEUTRON, LXC = 'neutron', 'lxc'
ARCHIVES = 2                             # the image, and the content of a config drive
FORMATS = ('raw', 'qcow2')
SIZES = range(1 << 62)
_UUID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
UUID = re.compile(_UUID + r'\Z')
KEY = re.compile(r'[0-9a-f]{64}\Z')      # key of a disk
CACHED = re.compile(r'_base/[0-9A-Za-z][0-9A-Za-z_-]{0,63}\.(?:raw|qcow2|vmdk|vdi|vhdx|vhd)(?:\.part)?\Z')
CONVERTED = re.compile(r'_base/[0-9A-Za-z][0-9A-Za-z_-]{0,63}\.qcow2\.part\Z')
SNAPSHOT = re.compile('snapshot-')
DISK = re.compile(_UUID + r'/(?:disk(?:\.[a-z0-9]{1,20})?|snapshot-[0-9A-Za-z_]{1,20}/disk\.qcow2)\Z')


class RemoteSteps:
    """The steps of LocalSteps, run by a Helper with ``operations``."""

    def __init__(self, helper: privileges.Helper, conf: cfg.ConfigOpts) -> None:
        self._helper = helper
        # Without a sandbox the helper would read images as root; this process is an ordinary user.
        self.qemu_img: qemu_img.Tool = RemoteQemuImg(helper) if conf.libvirt.sandbox_qemu_img else qemu_img.QemuImg(
            conf.libvirt.qemu_img_timeout, False)

    def console(self, uuid: str) -> bytes:
        return base64.b64decode(self._helper.call('guest.console', uuid=uuid))

    def let_read(self, path: str) -> None:
        self._helper.call('guest.let_read', path=path)

    def plug(self, uuid: str, port: dict[str, typing.Any]) -> None:
        self._helper.call('vif.plug', uuid=uuid, port=port)

    def unplug(self, uuid: str, port: dict[str, typing.Any]) -> None:
        self._helper.call('vif.unplug', uuid=uuid, port=port)

    def unpack(self, uuid: str, archives: Sequence[str], size: int) -> None:
        self._helper.call('container.unpack', uuid=uuid, archives=list(archives), size=size)

    def remove_root(self, uuid: str) -> None:
        self._helper.call('container.remove', uuid=uuid)

    def qemu_settings(self) -> dict[str, str]:
        return self._helper.call('host.qemu_settings')


class RemoteQemuImg:
    """Client of QemuImg. Its output files are created here, so that they belong to this process's user."""

    def __init__(self, helper: privileges.Helper) -> None:
        self._helper = helper

    def prepare(self, directory: str) -> str:
        return self._helper.call('qemu_img.prepare')

    def info(self, path: str, disk_format: str) -> dict[str, typing.Any]:
        return self._helper.call('qemu_img.info', path=path, disk_format=disk_format)

    def measure(self, path: str, disk_format: str, backing_file: str | None = None) -> int:
        return self._helper.call('qemu_img.measure', path=path, disk_format=disk_format, backing_file=backing_file)

    def create(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               backing_format: str | None = None, key: str | None = None) -> None:
        _make(path)
        self._helper.call('qemu_img.create', path=path, disk_format=disk_format, size=size, backing_file=backing_file,
                          backing_format=backing_format, key=key)

    def resize(self, path: str, disk_format: str, size: int, backing_file: str | None = None,
               key: str | None = None) -> None:
        self._helper.call('qemu_img.resize', path=path, disk_format=disk_format, size=size, backing_file=backing_file,
                          key=key)

    def rebase(self, path: str, disk_format: str, backing_file: str, backing_format: str,
               key: str | None = None) -> None:
        self._helper.call('qemu_img.rebase', path=path, disk_format=disk_format, backing_file=backing_file,
                          backing_format=backing_format, key=key)

    def convert(self, path: str, disk_format: str, target: str, target_format: str,
                backing_file: str | None = None, key: str | None = None) -> None:
        _make(target)
        self._helper.call('qemu_img.convert', path=path, disk_format=disk_format, target=target,
                          target_format=target_format, backing_file=backing_file, key=key)


def _make(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640))


def helper(conf: cfg.ConfigOpts, directory: str, uid: int) -> privileges.Helper:
    """Return the Helper of a RemoteSteps, not forked yet.

    :param directory: directory of the guests
    :param uid: user of the service
    """
    return privileges.Helper(operations(conf, directory, uid), failure, CALLERS,
                             lambda: capabilities(conf), 'privileged part for guests')


def capabilities(conf: cfg.ConfigOpts) -> tuple[int, ...]:
    """Return CAPABILITIES and the configured additions.

    SYS_ADMIN if root must create the sandbox's namespaces because users may not; NET_ADMIN if ports of a Networking
    service are plugged.
    """
    plugging = (privileges.NET_ADMIN,) if conf.network.backend == NEUTRON else ()
    return (*CAPABILITIES, *plugging, *_of_sandbox(conf.libvirt.sandbox_qemu_img))


def _of_sandbox(sandboxed: bool) -> tuple[int, ...]:
    with contextlib.suppress(exception.VirtError), tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o711)
        if sandboxed and sandbox.Sandbox().choose(place) == 'root':
            return (privileges.SYS_ADMIN,)
    return ()


def failure(**facts: str) -> exception.VirtError:
    return exception.VirtError(**{'operation': 'do a privileged step', **facts})


class _Operations:
    """Steps that validate their arguments.

    :param uid: user that gets read access to disks
    """

    def __init__(self, conf: cfg.ConfigOpts, directory: str, uid: int) -> None:
        self._allowed, self._local, self._uid = _Allowed(directory), steps.LocalSteps(conf, directory), uid
        self._directory, self._tool = directory, self._local.qemu_img

    def prepare(self) -> str:
        return self._tool.prepare(self._directory)

    def info(self, path: str, disk_format: str) -> dict[str, typing.Any]:
        return self._tool.info(self._allowed.file(path), self._allowed.source(disk_format))

    def measure(self, path: str, disk_format: str, backing_file: str | None) -> int:
        ok = self._allowed
        return self._tool.measure(ok.file(path), ok.source(disk_format), ok.backing(backing_file))

    def create(self, path: str, disk_format: str, size: int, backing_file: str | None, backing_format: str | None,
               key: str | None = None) -> None:
        ok = self._allowed
        self._tool.create(ok.disk(path), ok.format(disk_format), ok.size(size), ok.backing(backing_file),
                          backing_format and ok.format(backing_format), ok.key(key))

    def resize(self, path: str, disk_format: str, size: int, backing_file: str | None, key: str | None = None) -> None:
        ok = self._allowed
        self._tool.resize(ok.disk(path), ok.format(disk_format), ok.size(size), ok.backing(backing_file), ok.key(key))

    def rebase(self, path: str, disk_format: str, backing_file: str, backing_format: str,
               key: str | None = None) -> None:
        ok = self._allowed
        self._tool.rebase(ok.disk(path), ok.format(disk_format), ok.file(backing_file), ok.format(backing_format),
                          ok.key(key))

    def convert(self, path: str, disk_format: str, target: str, target_format: str, backing_file: str | None,
                key: str | None = None) -> None:
        ok = self._allowed
        self._tool.convert(ok.file(path), ok.source(disk_format), ok.target(target), ok.format(target_format),
                           ok.backing(backing_file), ok.key(key))

    def console(self, uuid: str) -> str:
        return base64.b64encode(self._local.console(self._allowed.uuid(uuid))).decode()

    def let_read(self, path: str) -> None:
        with sandbox.opened(self._allowed.disk(path), os.O_RDONLY) as file:
            if SNAPSHOT.match(os.path.basename(os.path.dirname(path))):      # complete: the service's user uploads it
                os.fchown(file, self._uid, -1)
            files.let_read(file, self._uid)

    def settings(self) -> dict[str, str]:
        return {name: value for name, value in self._local.qemu_settings().items() if name in isolation.SETTINGS}

    def plug(self, uuid: str, port: dict[str, typing.Any]) -> None:
        self._local.plug(self._allowed.uuid(uuid), self._allowed.port(port))

    def unplug(self, uuid: str, port: dict[str, typing.Any]) -> None:
        self._local.unplug(self._allowed.uuid(uuid), self._allowed.port(port))

    def unpack(self, uuid: str, archives: list[str], size: int) -> None:
        if not isinstance(archives, list) or len(archives) > ARCHIVES:
            raise ValueError('there are too many archives')
        ok = self._allowed
        self._local.unpack(ok.uuid(uuid), [ok.file(path) for path in archives], ok.size(size))

    def remove_root(self, uuid: str) -> None:
        self._local.remove_root(self._allowed.uuid(uuid))


def operations(conf: cfg.ConfigOpts, directory: str, uid: int) -> dict[str, typing.Callable[..., typing.Any]]:
    """Return {name: function} of the privileged operations for RemoteSteps."""
    does = _Operations(conf, directory, uid)
    made: dict[str, typing.Callable[..., typing.Any]] = {
        'guest.let_read': does.let_read, 'guest.console': does.console, 'host.qemu_settings': does.settings}
    if conf.network.backend == NEUTRON:
        made |= {'vif.plug': does.plug, 'vif.unplug': does.unplug}
    if conf.libvirt.virt_type == LXC:
        made |= {'container.unpack': does.unpack, 'container.remove': does.remove_root}
    if conf.libvirt.sandbox_qemu_img:      # without a sandbox qemu-img would run as root
        made |= {'qemu_img.prepare': does.prepare, 'qemu_img.info': does.info, 'qemu_img.measure': does.measure,
                 'qemu_img.create': does.create, 'qemu_img.resize': does.resize, 'qemu_img.convert': does.convert,
                 'qemu_img.rebase': does.rebase}
    return made


_PORT = {field.name for field in dataclasses.fields(vifs.Port)}


class _Allowed:
    """Validation of arguments; each method raises ValueError for invalid ones."""

    def __init__(self, directory: str) -> None:
        self._prefix = directory + '/'

    def file(self, path: str) -> str:
        """Return a disk or a cached image."""
        return self._plain(path, DISK, CACHED)

    def disk(self, path: str) -> str:
        return self._plain(path, DISK)

    def target(self, path: str) -> str:
        """Return a new disk, or a cached image converted from another format."""
        return self._plain(path, DISK, CONVERTED)

    def backing(self, path: str | None) -> str | None:
        return None if path is None else self._plain(path, CACHED, DISK)

    def _plain(self, path: str, *patterns: re.Pattern[str]) -> str:
        rest = _text(path).removeprefix(self._prefix)
        if rest == path or not any(pattern.match(rest) for pattern in patterns):
            raise ValueError(f'{path[-80:]!r} is no path of a disk')
        return path

    def format(self, name: str) -> str:
        if name not in FORMATS:
            raise ValueError(f'{name!r:.40} is not a format of disks')
        return name

    def source(self, name: str) -> str:
        """Return the format of an input file."""
        return name if name in qemu_img.FOREIGN else self.format(name)

    def size(self, number: int) -> int:
        if type(number) is not int or number not in SIZES:
            raise ValueError(f'{number!r:.40} is not a size')
        return number

    def key(self, text: str | None) -> str | None:
        if text is not None and not KEY.match(_text(text)):
            raise ValueError('the key is none of a disk')
        return text

    def port(self, values: dict[str, typing.Any]) -> dict[str, typing.Any]:
        if not isinstance(values, dict) or set(values) != _PORT or not all(
                isinstance(value, (str, int)) for value in values.values()):
            raise ValueError('the port is not described as one is')
        return values

    def uuid(self, text: str) -> str:
        if not UUID.match(_text(text)):
            raise ValueError('the id of the instance is not a UUID')
        return text


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError('there is something else where a text should be')
    return given
