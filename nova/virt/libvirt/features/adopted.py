"""Read the domain XML of a guest that another program created, and find out whether this driver can adopt the guest.

nova-manage shows the result, and the driver creates the record of the guest from the result.
"""
from collections.abc import Callable
import dataclasses
from xml.etree import ElementTree as etree

from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import image_cache

FORMATS = ('raw', 'qcow2')
_UNITS = {'b': 1, 'bytes': 1, 'KB': 10 ** 3, 'k': 2 ** 10, 'KiB': 2 ** 10, 'MB': 10 ** 6, 'M': 2 ** 20, 'MiB': 2 ** 20,
          'GB': 10 ** 9, 'G': 2 ** 30, 'GiB': 2 ** 30}
MIB, GIB = 2 ** 20, 2 ** 30
# devices that the driver or the machine type adds to every guest
_COMMON = frozenset(('emulator', 'controller', 'interface', 'serial', 'console', 'input', 'graphics', 'video',
                     'memballoon', 'rng', 'audio', 'channel'))
# devices that prevent adoption, because they have persistent state or use a resource of the host
_REFUSED = {'hostdev': 'it has a device of the host', 'tpm': 'it has a TPM', 'filesystem': 'it has a file system of '
            'the host', 'shmem': 'it shares memory', 'nvram': 'it has non-volatile memory (nvram)',
            'lease': 'it has a lease', 'memory': 'it has memory modules'}


@dataclasses.dataclass
class Found:
    """Result of the analysis.

    memory_mb  MiB
    disks      [xml.Disk], boot disk first
    sizes      virtual size of each disk in bytes
    macs       MAC addresses of the network devices
    refusals   reasons why adoption is impossible, as sentences without a final period
    lost       properties that the guest loses at its next start, because the driver does not support them
    """

    uuid: str
    name: str
    vcpus: int = 0
    memory_mb: int = 0
    machine: str = ''
    vif_model: str = 'virtio'
    disks: list[xml.Disk] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    macs: list[str] = dataclasses.field(default_factory=list)
    refusals: list[str] = dataclasses.field(default_factory=list)
    lost: list[str] = dataclasses.field(default_factory=list)

    @property
    def root_gb(self) -> int:
        """Return the size of the first disk in GiB, rounded up, or 0 if the guest has no disk."""
        return -(-self.sizes[0] // GIB) if self.sizes else 0


def read(text: str, size_of: Callable[[str, str], int]) -> Found:
    """Analyse a guest.

    :param text: XML of the guest's definition
    :param size_of: function that returns the bytes of a disk for its path and format, normally ``size``
    """
    root = etree.fromstring(text)
    found = Found(root.findtext('uuid') or '', root.findtext('name') or '')
    found.vcpus, found.memory_mb = int(root.findtext('vcpu') or 1), _mib(root.find('memory'))
    found.machine = _attribute(root, 'os/type', 'machine')
    found.refusals += [sentence for sentence, holds in (
        ('it is no machine of the architecture x86_64', root.findtext('os/type') != 'hvm'
         or _attribute(root, 'os/type', 'arch') != 'x86_64'),
        (f'its machine {found.machine or "without a name"} is not known', not xml.MACHINE_TYPE.match(found.machine)),
        ('it boots with UEFI, and its UEFI variables would be lost', _attribute(root, 'os', 'firmware') == 'efi'
         or root.find('os/loader') is not None),
        ('its kernel is a file outside of its disks', root.find('os/kernel') is not None),
        ('its memory is encrypted', root.find('launchSecurity') is not None)) if holds]
    for element in root.findall('./devices/*'):
        _device(found, element, size_of)
    if not found.disks:
        found.refusals.append('it has no disk in a file')
    return found


def _attribute(element: etree.Element, path: str, name: str, default: str = '') -> str:
    """Return an attribute of the element at a path, or the default if element or attribute is missing or empty."""
    found = element.find(path)
    return (found.get(name) if found is not None else None) or default


def _device(found: Found, element: etree.Element, size_of: Callable[[str, str], int]) -> None:
    kind = element.tag
    if kind == 'disk':
        _disk(found, element, size_of)
    elif kind in _REFUSED:
        found.refusals.append(_REFUSED[kind])
    elif kind not in _COMMON:
        found.lost.append(kind)
    if kind == 'interface':
        found.macs.append(_attribute(element, 'mac', 'address'))
        model = _attribute(element, 'model', 'type')
        if model in xml.VIF_MODELS and len(found.macs) == 1:
            found.vif_model = model


def _disk(found: Found, element: etree.Element, size_of: Callable[[str, str], int]) -> None:
    name, device = _attribute(element, 'target', 'dev', '?'), element.get('device', 'disk')
    if device in ('cdrom', 'floppy'):
        found.lost.append(f'{device} {name}')
        return
    path, form = _attribute(element, 'source', 'file'), _attribute(element, 'driver', 'type', 'raw')
    bus = _attribute(element, 'target', 'bus')
    refusal = next((sentence for sentence, holds in (
        ('is no file of this host', device != 'disk' or not path),
        (f'is of the format {form}', form not in FORMATS),
        (f'is on the bus {bus}', bus not in xml.DISK_BUSES),
        ('is shared or read-only', element.find('shareable') is not None
         or element.find('readonly') is not None),
        ('is encrypted', element.find('.//encryption') is not None)) if holds), None)
    if refusal is not None:
        found.refusals.append(f'disk {name} {refusal}')
        return
    try:
        size = size_of(path, form)
    except (OSError, ValueError) as error:
        found.refusals.append(f'disk {name}, {path}: {error.strerror if isinstance(error, OSError) else error}')
        return
    place = 0 if _attribute(element, 'boot', 'order') == '1' else len(found.disks)
    found.disks.insert(place, xml.Disk(path, form, name, bus))
    found.sizes.insert(place, size)


def _mib(element: etree.Element | None) -> int:
    if element is None:
        return 0
    return -(-int(element.text or 0) * _UNITS.get(element.get('unit') or 'KiB', 2 ** 10) // MIB)


def size(path: str, form: str) -> int:
    """Return the virtual size of a disk in bytes. The header of a qcow2 file is trusted: the guest cannot write it.

    :raises OSError: the disk cannot be read
    :raises ValueError: a qcow2 file has another format, is encrypted, or some data is in another file
    """
    if form == 'qcow2' and (why := image_cache.header_refusal(path, form)):
        raise ValueError(why)
    return image_cache.virtual_size(path, form)


def misfit(found: Found, vcpus: int, memory_mb: int, root_gb: int) -> str | None:
    """Return how a flavor differs from the guest, as the end of a sentence, or None if the flavor suits the guest."""
    wanted = (('vCPUs', vcpus, found.vcpus), ('MiB of memory', memory_mb, found.memory_mb))
    for what, have, need in wanted:
        if have != need:
            return f'it has {need} {what}, and the flavor {have}'
    return None if root_gb >= found.root_gb else (
        f'its first disk has {found.root_gb} GiB, and the root disk of the flavor {root_gb}')
