"""nova-manage image prepare: import a distribution's cloud image with suitable properties."""
from __future__ import annotations

import hashlib
import ipaddress
import os
import tempfile
from typing import Any, TYPE_CHECKING
import urllib.parse

from nova import exception
from nova.cmd.command_line import flag
from nova.cmd.manage import images as manage_images

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.disk_files import qemu_img
    from nova.image import boot_facts
    from nova.image import fetch

GIB = 1 << 30
FORMATS = ('qcow2', 'raw')
MIN_RAM = 512                            # MiB: enough to boot current distributions
MAX_PROPERTIES = 64


def prepare(conf: cfg.ConfigOpts, source: str, owner: str | None, checksum: str | None, name: str | None,
            private: bool, disk_format: str, min_ram: int, property: list[str] | None, allow_network: list[str] | None,
            ca_file: str | None) -> None:
    """Create an image from a distribution's cloud image: a file, or an https URL with a checksum; qcow2 or raw.

    The cloud image is checked, copied by qemu-img in the sandbox, and uploaded with suitable image properties.
    """
    if not 0 <= min_ram <= 1 << 20:
        raise exception.InvalidInput(f'--min-ram {min_ram}: it must be from 0 to {1 << 20} MiB.')
    given = _properties(property or [])
    project = manage_images.project(conf, owner)
    images = manage_images.store(conf)
    os.umask(0o027)                      # group-readable for the sandbox, closed for other users
    place = os.environ.get('TMPDIR') or '/var/tmp'           # /tmp may be in memory, and images are large
    with tempfile.TemporaryDirectory(prefix='nova-prepare-', dir=place) as directory:
        os.chmod(directory, 0o711)           # the sandbox must traverse the directory
        path = _local(conf, source, checksum, directory, allow_network or [], ca_file)
        raw, target = os.path.join(directory, 'disk.raw'), os.path.join(directory, 'disk.' + disk_format)
        virtual_size, facts = _checked(conf, source, path, raw)
        if disk_format != 'raw':
            _tool(conf).convert(raw, 'raw', target, disk_format)
            os.unlink(raw)
        properties = {**_suiting(facts), **given}
        manage_images.register(images, target, project, disk_format, None, name or _name(source), properties, private,
                               min_disk=-(-virtual_size // GIB), min_ram=min_ram)
    print(f'It boots with {" and ".join(_firmware(facts))}; its guests need {-(-virtual_size // GIB)} GiB of disk and '
          f'{min_ram} MiB of memory.')
    print('Properties: ' + ', '.join(f'{key}={value}' for key, value in sorted(properties.items())))


def _properties(pairs: list[str]) -> dict[str, str]:
    found = dict(pair.partition('=')[::2] for pair in pairs)
    if len(pairs) > MAX_PROPERTIES or not all(found) or not all('=' in pair for pair in pairs):
        raise exception.InvalidInput(f'--property must be NAME=VALUE, at most {MAX_PROPERTIES} times.')
    return found


def _local(conf: cfg.ConfigOpts, source: str, checksum: str | None, directory: str, networks: list[str],
           ca_file: str | None) -> str:
    """Copy the source, verify its checksum, and return the path of the copy, which the sandbox may read."""
    from nova.image import fetch
    from nova.image.embedded import files
    wanted = fetch.checksum(checksum) if checksum else None
    path = os.path.join(directory, 'fetched')
    if '://' not in source:
        if networks or ca_file:
            raise exception.InvalidInput('--allow-network and --ca-file apply to URLs only, but the source is a '
                                         'file.')
        if os.path.exists(source) and not os.path.isfile(source):
            raise exception.InvalidInput(f'{source} is not a file.')
        with open(source, 'rb') as file, open(path, 'wb') as copy:
            files.copy(file, copy)
        if wanted is not None:
            _compare(source, path, wanted)
        return path
    if wanted is None:
        raise exception.InvalidInput('A URL needs --checksum sha256:… or sha512:…, as published with the image.')
    try:
        allowed = [ipaddress.ip_network(text) for text in networks]
    except ValueError as error:
        raise exception.InvalidInput(f'--allow-network: {error}.') from None
    with open(path, 'wb') as file:
        fetch.Fetcher(conf.image.max_size * GIB, allowed, ca_file).fetch(source, file, wanted)
    return path


def _compare(source: str, path: str, wanted: fetch.Checksum) -> None:
    from nova.image import fetch
    with open(path, 'rb') as file:
        found = hashlib.file_digest(file, wanted.algorithm).hexdigest()
    fetch.check(source, found, wanted)


def _checked(conf: cfg.ConfigOpts, source: str, path: str, raw: str) -> tuple[int, boot_facts.Facts]:
    """Copy the disk to ``raw``; return (its size in bytes, its Facts).

    :raises InvalidInput: the source is not a bootable disk, or has another format
    :raises ImageUnacceptable: the source refers to other files, or is larger than [image] max_virtual_size
    """
    from nova.image import boot_facts
    from nova.image import inspector
    report = inspector.inspect_file(path)
    found = 'raw' if report.format in ('gpt', 'mbr') else report.format
    if found not in FORMATS or report.format == 'raw':
        kind = 'has no partition table' if report.format == 'raw' else f'has the format {report.format}'
        raise exception.InvalidInput(f'{source} {kind}. A cloud image is a qcow2 or raw disk with partitions. Unpack '
                                     'compressed files first; nova-manage image image_register accepts other images.')
    inspector.verify(report, found, conf.image.max_virtual_size << 30, source)
    size = report.virtual_size or 0
    _tool(conf).convert(path, found, raw, 'raw')
    with open(raw, 'rb') as file:
        facts = boot_facts.read(file)
    if not (facts.bios or facts.uefi):
        raise exception.InvalidInput(f'{source} cannot boot with BIOS or UEFI: it has neither a BIOS boot loader nor '
                                     'an EFI system partition.')
    return size, facts


def _tool(conf: cfg.ConfigOpts) -> qemu_img.QemuImg:
    from nova.disk_files import qemu_img
    return qemu_img.QemuImg(conf.libvirt.qemu_img_timeout, conf.libvirt.sandbox_qemu_img)


def _suiting(facts: boot_facts.Facts) -> dict[str, str]:
    """Return the image properties that suit a disk; every cloud image has virtio drivers."""
    return {'hw_disk_bus': 'virtio', 'hw_vif_model': 'virtio', 'os_type': 'linux',
            'hw_firmware_type': 'bios' if facts.bios else 'uefi',
            **({'hw_qemu_guest_agent': 'yes'} if facts.agent else {}),
            **({'architecture': facts.architecture} if facts.architecture else {})}


def _firmware(facts: boot_facts.Facts) -> list[str]:
    return [name for name, able in (('BIOS', facts.bios), ('UEFI', facts.uefi)) if able]


def _name(source: str) -> str:
    path = urllib.parse.urlsplit(source).path if '://' in source else source
    return os.path.splitext(os.path.basename(path))[0] or 'image'


COMMANDS = {'prepare': prepare}
OPTIONS: dict[Any, Any] = {prepare: {
    'source': {'metavar': 'SOURCE', 'help': 'path or https URL of the image'},
    'owner': {'metavar': 'OWNER', 'nargs': '?', 'help': 'project that owns the image (default: the image is public '
                                                        'and belongs to the administrator)'},
    '--checksum': {'metavar': 'ALGORITHM:HEX', 'help': 'expected checksum, sha256:HEX or sha512:HEX; required with '
                                                       'a URL'},
    '--name': {'help': 'name of the image (default: the name of the file without its suffix)'},
    '--private': flag('make the image visible to the project of the owner only (default: public)'),
    '--disk-format': {'choices': FORMATS, 'default': 'qcow2', 'help': 'format of the stored image (default: qcow2); '
                                                                      'use raw for computes with Ceph'},
    '--min-ram': {'metavar': 'MIB', 'type': int, 'default': MIN_RAM,
                  'help': f'minimum memory in MiB (default: {MIN_RAM})'},
    '--property': {'metavar': 'NAME=VALUE', 'action': 'append', 'help': 'image property; overrides a detected one'},
    '--allow-network': {'metavar': 'NETWORK', 'action': 'append',
                        'help': 'private network, such as 10.0.0.0/8, to which a URL may lead'},
    '--ca-file': {'metavar': 'FILE', 'help': 'CA certificates (PEM) for a URL (default: those of the system)'},
}}
