"""Transfer of the TPM state to another host with a guest that is off.

Only root and swtpm can read libvirt's TPM state. So libvirt sends it at the source, over the channel of the disks. At
the destination libvirt writes it over the state that it created for the new guest, which has the owner and permissions
that swtpm needs. https://libvirt.org/formatdomain.html#tpm-device
"""
from __future__ import annotations

import os
from xml.etree import ElementTree as etree

import libvirt

from nova import exception
from nova.virt.libvirt.moves import disk_transfer

PLACE = '/var/lib/libvirt/swtpm'         # contains a directory for each guest uuid
# version: (directory, file)
STATES = {'2.0': ('tpm2', 'tpm2-00.permall'), '1.2': ('tpm1.2', 'tpm-00.permall')}
LARGEST = 1 << 20                        # maximum bytes; a real state has a few thousand
COPY = 'tpm.state'                       # file next to the disks until libvirt has stored the state


def version(settings: dict[str, str]) -> str | None:
    """Return the TPM version that a guest's settings select, or None if they select no known TPM."""
    found = settings.get('tpm_version')
    return found if found in STATES else None


def fetch(uri: str, uuid: str, kind: str, target: str, timeout_s: float) -> str:
    """Fetch the state from the source's libvirt into the guest's directory ``target`` and return its path.

    :raises VirtError: as in disk_transfer.fetch
    """
    directory, name = STATES[kind]
    path = os.path.join(target, COPY)
    disk_transfer.fetch(uri, os.path.join(PLACE, uuid, directory), [name], target, timeout_s)
    os.replace(os.path.join(target, name), path)
    os.chmod(path, 0o600)
    return path


def read(path: str) -> bytes:
    """Read a fetched state.

    :raises VirtError: the state is too large
    """
    with open(path, 'rb') as file:
        state = file.read(LARGEST + 1)
    if len(state) > LARGEST:
        raise exception.VirtError(operation='take in the TPM', reason='what its host sends is no state of a TPM')
    return state


def put(connection: libvirt.virConnect, uuid: str, kind: str, state: bytes) -> None:
    """Replace libvirt's TPM state of a guest that is off with a transferred state; through Host.run."""
    directory, name = STATES[kind]
    with disk_transfer.pool(connection, os.path.join(PLACE, uuid, directory)) as pool:
        made = pool.storageVolLookupByName(name)
        rights = etree.fromstring(made.XMLDesc()).find('./target/permissions')
        root = etree.Element('volume')
        etree.SubElement(root, 'name').text = name
        etree.SubElement(root, 'capacity', unit='bytes').text = str(len(state))
        target = etree.SubElement(root, 'target')
        etree.SubElement(target, 'format', type='raw')
        if rights is not None:
            target.append(rights)
        made.delete()
        volume = pool.createXML(etree.tostring(root, encoding='unicode'))
        stream = connection.newStream(0)
        try:
            volume.upload(stream, 0, len(state))
            stream.sendAll(_Reader(state), None)
            stream.finish()
        except Exception:
            stream.abort()
            raise


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __call__(self, _stream: libvirt.virStream, size: int, _opaque: object) -> bytes:
        part, self._data = self._data[:size], self._data[size:]
        return part
