"""What is done to the volumes of one domain; see nova/virt/libvirt/guest.py."""
from __future__ import annotations

import base64
from typing import Any
from xml.etree import ElementTree as etree

import libvirt

from nova.virt.libvirt.volumes import disk

_COPY = libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB


def define_secret(connection: libvirt.virConnect, _uuid: str, auth: dict[str, Any], secret: dict[str, Any]) -> None:
    """Give libvirt the secret of a storage; the same one again replaces it."""
    text = disk.secret(auth['type'], secret['usage'], auth.get('uuid'))
    value = base64.b64decode(secret['value']) if secret['base64'] else secret['value'].encode()
    connection.secretDefineXML(text).setValue(value)


def define_passphrase(connection: libvirt.virConnect, _uuid: str, secret: str, passphrase: str) -> None:
    """Give libvirt the passphrase of an encrypted disk: it cannot be read back, and it is gone with libvirtd."""
    connection.secretDefineXML(disk.passphrase(secret)).setValue(passphrase.encode())


def forget_passphrase(connection: libvirt.virConnect, _uuid: str, secret: str) -> None:
    try:
        connection.secretLookupByUUIDString(secret).undefine()
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_SECRET:
            raise


def resize(domain: libvirt.virDomain, target: str, size: int) -> None:
    """Let a running guest see a disk of ``size`` bytes."""
    if domain.isActive():
        domain.blockResize(target, size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)


def begin_copy(domain: libvirt.virDomain, text: str) -> None:
    """Begin to copy a disk into a file that is there."""
    if domain.jobStats().get('type', libvirt.VIR_DOMAIN_JOB_NONE) != libvirt.VIR_DOMAIN_JOB_NONE:
        domain.abortJob()
    domain.backupBegin(text, None, libvirt.VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL)


def uses(domain: libvirt.virDomain, target: str, text: str) -> bool:
    """Whether the disk at a target is the one that an element describes, in the guest or, when it is off, its
    definition: libvirt writes there, too, what a copy has ended with."""
    found = etree.fromstring(domain.XMLDesc(0)).find(f"./devices/disk/target[@dev='{target}']/../source")
    return found is not None and _where(found) == _where(etree.fromstring(text).find('source'))


def _where(source: etree.Element | None) -> list[str | None]:
    return [] if source is None else [source.get(name) for name in ('file', 'dev', 'protocol', 'name')]


def begin_swap(domain: libvirt.virDomain, target: str, text: str) -> None:
    """Begin to copy a disk to another one, all that is written meanwhile, too."""
    if domain.blockJobInfo(target):
        domain.blockJobAbort(target)
    domain.blockCopy(target, text, {}, _COPY)


def swap_ready(domain: libvirt.virDomain, target: str) -> bool | None:
    """None while the copy goes on, then whether both disks are the same now."""
    info = domain.blockJobInfo(target)
    if not info:
        return False
    return True if info['end'] and info['cur'] == info['end'] else None


def end_swap(domain: libvirt.virDomain, target: str) -> None:
    """Let the guest use the copy."""
    domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)


def abort_swap(domain: libvirt.virDomain, target: str) -> None:
    if domain.blockJobInfo(target):
        domain.blockJobAbort(target)
