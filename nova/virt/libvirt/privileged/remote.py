"""Privileged helper process of the libvirt driver: its operations and its client.

========================  =====================================================  ======================================
Operation                 Arguments                                              Needs
========================  =====================================================  ======================================
``qemu_img.prepare``      none                                                   as the other qemu_img operations
``qemu_img.info``         path, format                                           SETUID, SETGID, SETPCAP, KILL: qemu-img
``qemu_img.measure``      path, format; backing file                             runs as a separate user;
``qemu_img.create``       path, format, size; backing file and format; key       CHOWN, FOWNER, DAC_OVERRIDE: files
``qemu_img.resize``       path, format, size; backing file; key                  belong to that user during the run
``qemu_img.rebase``       path, format, backing file and format; key
``qemu_img.convert``      path, format, target, target format; backing file;
                          key
``guest.let_read``        path                                                   FOWNER: QEMU's user owns its files;
                                                                                 CHOWN: the service owns its snapshots
``guest.console``         uuid                                                   DAC_OVERRIDE: virtlogd writes as root
``vif.plug``              uuid; the values of a vifs.Port                        NET_ADMIN: taps; DAC_OVERRIDE: the
``vif.unplug``            uuid; the values of a vifs.Port                        socket of Open vSwitch is root's
``container.unpack``      uuid, paths of archives, bytes                         SETUID, SETGID, CHOWN: the mapped users
``container.remove``      uuid                                                   DAC_OVERRIDE: files of these users
``host.qemu_settings``    none                                                   DAC_OVERRIDE: qemu.conf is root's
========================  =====================================================  ======================================

A path must have a form that the driver creates, below the directory of the guests. It must lead to a regular file with
one hard link, without symbolic links in the path (sandbox.opened). Formats and sizes are validated. The helper reads
all other values from the configuration.
"""
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
from nova.json_types import Json
from nova.runtime import privileges
from nova.runtime import validators as v
from nova.virt.libvirt import vifs
from nova.virt.libvirt.privileged import steps

CALLERS = 16                             # maximum of concurrent operations; a copy of a disk takes minutes
CAPABILITIES = (privileges.CHOWN, privileges.DAC_OVERRIDE, privileges.FOWNER, privileges.KILL, privileges.SETGID,
                privileges.SETUID, privileges.SETPCAP)
NEUTRON, LXC = 'neutron', 'lxc'
ARCHIVES = 2                             # maximum archives of a container: the image and the config drive
FORMATS = ('raw', 'qcow2')
UUID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
CACHED = r'_base/[0-9A-Za-z][0-9A-Za-z_-]{0,63}\.(?:raw|qcow2|vmdk|vdi|vhdx|vhd)(?:\.part)?'
CONVERTED = r'_base/[0-9A-Za-z][0-9A-Za-z_-]{0,63}\.qcow2\.part'
SNAPSHOT = 'snapshot-'
DISK = UUID + r'/(?:disk(?:\.[a-z0-9]{1,20})?|snapshot-[0-9A-Za-z_]{1,20}/disk\.qcow2)'


class RemoteSteps:
    """The operations of LocalSteps, which a Helper process runs."""

    def __init__(self, helper: privileges.Helper, conf: cfg.ConfigOpts) -> None:
        self._helper = helper
        # Without a sandbox, this process runs qemu-img as an ordinary user: the helper would run it as root.
        self.qemu_img: qemu_img.Tool = RemoteQemuImg(helper) if conf.libvirt.sandbox_qemu_img else qemu_img.QemuImg(
            conf.libvirt.qemu_img_timeout, False)

    def console(self, uuid: str) -> bytes:
        return base64.b64decode(self._helper.call('guest.console', uuid=uuid))

    def let_read(self, path: str) -> None:
        self._helper.call('guest.let_read', path=path)

    def plug(self, uuid: str, port: dict[str, str | int]) -> None:
        self._helper.call('vif.plug', uuid=uuid, port=port)

    def unplug(self, uuid: str, port: dict[str, str | int]) -> None:
        self._helper.call('vif.unplug', uuid=uuid, port=port)

    def unpack(self, uuid: str, archives: Sequence[str], size: int) -> None:
        self._helper.call('container.unpack', uuid=uuid, archives=list(archives), size=size)

    def remove_root(self, uuid: str) -> None:
        self._helper.call('container.remove', uuid=uuid)

    def qemu_settings(self) -> dict[str, str]:
        return self._helper.call('host.qemu_settings')


HostSteps = steps.LocalSteps | RemoteSteps


class RemoteQemuImg:
    """Client of QemuImg. This process creates the output files, so that they belong to its user."""

    def __init__(self, helper: privileges.Helper) -> None:
        self._helper = helper

    def prepare(self, directory: str) -> str:
        return self._helper.call('qemu_img.prepare')

    def info(self, path: str, disk_format: str) -> qemu_img.DiskInfo:
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
    """Return the Helper for RemoteSteps. Its process is not started yet.

    :param directory: directory of the guests
    :param uid: user of the service
    """
    return privileges.Helper(operations(conf, directory, uid), failure, CALLERS,
                             lambda: capabilities(conf), 'privileged part for guests')


def capabilities(conf: cfg.ConfigOpts) -> tuple[int, ...]:
    """Return CAPABILITIES and further capabilities that the configuration needs.

    SYS_ADMIN: only root may create the namespaces of the sandbox. NET_ADMIN: ports of a Networking service are plugged.
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


def operations(conf: cfg.ConfigOpts, directory: str, uid: int) -> dict[str, typing.Callable[..., typing.Any]]:
    """Return {name: function} of the privileged operations for RemoteSteps. Each function validates its arguments.

    :param uid: user that gets read access to disks
    """
    local = steps.LocalSteps(conf, directory)
    tool = local.qemu_img
    disk, file = _path(directory, DISK), _path(directory, DISK, CACHED)

    def let_read(path: str) -> None:
        with sandbox.opened(path, os.O_RDONLY) as descriptor:
            if os.path.basename(os.path.dirname(path)).startswith(SNAPSHOT):
                # the snapshot is complete: its new owner, the service's user, uploads it
                os.fchown(descriptor, uid, -1)
            files.let_read(descriptor, uid)

    made: dict[str, typing.Callable[..., typing.Any]] = {
        'guest.let_read': v.operation(let_read, path=disk),
        'guest.console': v.operation(lambda uuid: base64.b64encode(local.console(uuid)).decode(), uuid=_uuid),
        'host.qemu_settings': v.operation(local.qemu_settings)}
    if conf.network.backend == NEUTRON:
        made |= {'vif.plug': v.operation(local.plug, uuid=_uuid, port=_port),
                 'vif.unplug': v.operation(local.unplug, uuid=_uuid, port=_port)}
    if conf.libvirt.virt_type == LXC:
        made |= {'container.unpack': v.operation(local.unpack, uuid=_uuid, archives=v.items(file, ARCHIVES),
                                                 size=_size),
                 'container.remove': v.operation(local.remove_root, uuid=_uuid)}
    if conf.libvirt.sandbox_qemu_img:      # without a sandbox qemu-img would run as root
        made |= {
            'qemu_img.prepare': v.operation(lambda: tool.prepare(directory)),
            'qemu_img.info': v.operation(tool.info, path=file, disk_format=_source_format),
            'qemu_img.measure': v.operation(tool.measure, path=file, disk_format=_source_format,
                                            backing_file=v.maybe(file)),
            'qemu_img.create': v.operation(tool.create, path=disk, disk_format=_format, size=_size,
                                           backing_file=v.maybe(file), backing_format=v.maybe(_format), key=_key),
            'qemu_img.resize': v.operation(tool.resize, path=disk, disk_format=_format, size=_size,
                                           backing_file=v.maybe(file), key=_key),
            'qemu_img.rebase': v.operation(tool.rebase, path=disk, disk_format=_format, backing_file=file,
                                           backing_format=_format, key=_key),
            'qemu_img.convert': v.operation(tool.convert, path=file, disk_format=_source_format,
                                            target=_path(directory, DISK, CONVERTED), target_format=_format,
                                            backing_file=v.maybe(file), key=_key)}
    return made


def _path(directory: str, *names: str) -> v.Validator[str]:
    """Return a validator that accepts paths below the directory of the guests.

    :param names: patterns of the rest of the path
    """
    return v.text(f'{re.escape(directory)}/(?:{"|".join(names)})', 'the path of a disk')


def _text_or_int(given: Json) -> str | int:
    if not isinstance(given, (str, int)):
        raise ValueError(f'{given!r:.40} is neither a string nor an integer')
    return given


_uuid, _size = v.text(UUID, 'the UUID of an instance'), v.number(0, (1 << 62) - 1)
_format, _source_format = v.one_of(*FORMATS), v.one_of(*FORMATS, *qemu_img.FOREIGN)
_key = v.maybe(v.text('[0-9a-f]{64}', 'the key of a disk', shown=0))
_port: v.Validator[dict[str, str | int]] = v.record(
    dict, **{field.name: _text_or_int for field in dataclasses.fields(vifs.Port)})       # vifs.check checks the values
