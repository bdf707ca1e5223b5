"""libvirt calls for the volumes of a domain; see nova/virt/libvirt/calls.py."""
import base64
from xml.etree import ElementTree as etree

import libvirt

from nova.virt.libvirt import calls
from nova.virt.libvirt.domain import volume_disks as disk

_COPY = libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB


def define_secret(connection: libvirt.virConnect, _uuid: str, auth: dict[str, str], secret: disk.StorageSecret) -> None:
    """Define or replace the libvirt secret for authentication to a storage server."""
    text = disk.secret(auth['type'], secret['usage'], auth.get('uuid'))
    value = base64.b64decode(secret['value']) if secret['base64'] else secret['value'].encode()
    connection.secretDefineXML(text).setValue(value)


def define_passphrase(connection: libvirt.virConnect, _uuid: str, secret: str, passphrase: str) -> None:
    """Define the passphrase of an encrypted disk in libvirt: unreadable for clients, and lost when libvirtd stops."""
    connection.secretDefineXML(disk.passphrase(secret)).setValue(passphrase.encode())


def forget_passphrase(connection: libvirt.virConnect, _uuid: str, secret: str) -> None:
    with calls.suppressed(libvirt.VIR_ERR_NO_SECRET):
        connection.secretLookupByUUIDString(secret).undefine()


def resize(domain: libvirt.virDomain, target: str, size: int) -> None:
    """Tell a running guest that a disk has ``size`` bytes."""
    if domain.isActive():
        domain.blockResize(target, size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def uses(domain: libvirt.virDomain, target: str, text: str) -> bool:
    """Return whether the disk at a target has the same source as the disk element ``text``.

    The XML of a guest that is off is its definition, which libvirt updates at the end of a copy.
    """
    found = etree.fromstring(domain.XMLDesc(0)).find(f"./devices/disk/target[@dev='{target}']/../source")
    return found is not None and _where(found) == _where(etree.fromstring(text).find('source'))


def _where(source: etree.Element | None) -> list[str | None]:
    return [] if source is None else [source.get(name) for name in ('file', 'dev', 'protocol', 'name')]


def begin_swap(domain: libvirt.virDomain, target: str, text: str) -> None:
    """Begin to copy a disk to another disk; the copy includes later writes."""
    if domain.blockJobInfo(target):
        domain.blockJobAbort(target)
    domain.blockCopy(target, text, {}, _COPY)


def swap_ready(domain: libvirt.virDomain, target: str) -> bool | None:
    """Return None during the copy, True when both disks are equal, and False without a copy job."""
    info = domain.blockJobInfo(target)
    if not info:
        return False
    return True if info['end'] and info['cur'] == info['end'] else None


def end_swap(domain: libvirt.virDomain, target: str) -> None:
    """Switch the guest to the copy."""
    domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)


def abort_swap(domain: libvirt.virDomain, target: str) -> None:
    if domain.blockJobInfo(target):
        domain.blockJobAbort(target)


# ---- backing chains ----

_ON_TOP = (libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA
           | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REUSE_EXT | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC)
_ALONE = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY


def put_on_top(domain: libvirt.virDomain, target: str, source: disk.DiskSource, size: int) -> bool:
    """Switch the guest to a new file, which is an overlay on the active file.

    :param size: bytes of the disk in the overlay
    :returns: False if the guest's disk has another size; then nothing is changed
    """
    if not has_size(domain, target, size):
        return False
    others = [each.get('dev', '') for each in etree.fromstring(domain.XMLDesc(0)).iterfind('./devices/disk/target')]
    domain.snapshotCreateXML(disk.snapshot(target, source, [each for each in others if each != target]), _ON_TOP)
    return True


def has_size(domain: libvirt.virDomain, target: str, size: int) -> bool:
    """Return whether a disk of a running guest has this number of bytes."""
    return bool(domain.blockInfo(target)[0] == size)


def files(domain: libvirt.virDomain, target: str) -> list[str]:
    """Return the file names of a running guest's disk, active file first."""
    return [name for name, _index in _layers(domain, target)]


def _layers(domain: libvirt.virDomain, target: str) -> list[tuple[str, str]]:
    """Return [(file name, libvirt's name of the layer, such as vda[1])] of a disk, active file first."""
    layer = etree.fromstring(domain.XMLDesc(0)).find(f"./devices/disk/target[@dev='{target}']/..")
    found = []
    while layer is not None and (source := layer.find('source')) is not None:
        place = source.get('file') or source.get('name') or ''
        found.append((place.rpartition('/')[2], f'{target}[{layer.get("index") or source.get("index")}]'))
        layer = layer.find('backingStore')
    return found


def begin_merge(domain: libvirt.virDomain, target: str, commit: bool, top: str, base: str | None,
                relative: bool) -> None:
    """Begin a merge: see chain.Merge for ``commit``, ``top`` and ``base``, which are file names here.

    :param relative: write relative backing file names, which libvirt supports only for local files
    """
    if domain.blockJobInfo(target):
        domain.blockJobAbort(target)
    layers = _layers(domain, target)
    places = dict(layers)
    if base is None:
        domain.blockRebase(target, None, 0, 0)
    elif not commit:
        domain.blockRebase(target, places[base], 0, libvirt.VIR_DOMAIN_BLOCK_REBASE_RELATIVE if relative else 0)
    elif top == layers[0][0]:
        domain.blockCommit(target, places[base], None, 0, libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE)
    else:
        domain.blockCommit(target, places[base], places[top], 0,
                           libvirt.VIR_DOMAIN_BLOCK_COMMIT_RELATIVE if relative else 0)


def merge_percent(domain: libvirt.virDomain, target: str) -> int | None:
    """Return the percentage of a merge: 100 when ``end_swap`` can switch the file, None after the end."""
    info = domain.blockJobInfo(target)
    if not info:
        return None
    if info['end'] and info['cur'] == info['end']:
        return 100
    return min(99, 100 * int(info['cur']) // int(info['end'])) if info['end'] else 0


def start_alone(connection: libvirt.virConnect, _uuid: str, text: str) -> None:
    """Start a domain paused. libvirt destroys it when this connection closes."""
    connection.createXML(text, _ALONE)
