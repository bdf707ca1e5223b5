"""Transfer of the TPM state of a guest that is off, when the guest moves to another host.

Only root and swtpm can read libvirt's TPM state. So the destination fetches the state through the source's libvirt,
like disks (disk_transfer.py). libvirt at the destination has created a new state with the owner and permissions that
swtpm needs. The fetched state replaces the new state and gets this owner and these permissions.
https://libvirt.org/formatdomain.html#tpm-device
"""
import io
import os
from xml.etree import ElementTree as etree

import libvirt

from nova import exception
from nova.virt.libvirt.moves import disk_transfer

SWTPM_DIRECTORY = '/var/lib/libvirt/swtpm'         # contains a directory for each guest uuid
# version: (directory, file)
STATES = {'2.0': ('tpm2', 'tpm2-00.permall'), '1.2': ('tpm1.2', 'tpm-00.permall')}
MAX_BYTES = 1 << 20                        # maximum bytes; a real state has a few thousand
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
    disk_transfer.fetch(uri, os.path.join(SWTPM_DIRECTORY, uuid, directory), [name], target, timeout_s)
    os.replace(os.path.join(target, name), path)
    os.chmod(path, 0o600)
    return path


def read(path: str) -> bytes:
    """Read a fetched state.

    :raises VirtError: the state is too large
    """
    with open(path, 'rb') as file:
        state = file.read(MAX_BYTES + 1)
    if len(state) > MAX_BYTES:
        raise exception.VirtError(operation='take in the TPM', reason='the data from its host is not a TPM state')
    return state


def put(connection: libvirt.virConnect, uuid: str, kind: str, state: bytes) -> None:
    """Replace libvirt's TPM state of a guest that is off with a transferred state. Call this function with Host.run."""
    directory, name = STATES[kind]
    with disk_transfer.pool(connection, os.path.join(SWTPM_DIRECTORY, uuid, directory)) as pool:
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
            stream.sendAll(lambda _stream, size, data: data.read(size), io.BytesIO(state))
            stream.finish()
        except Exception:
            stream.abort()
            raise
