"""Shared file systems of a guest: virtiofs."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add

QUEUE = 1024                             # maximum of queued requests of a guest, as in libvirt's documentation


def filesystems(devices: etree.Element, guest: Any) -> None:
    """Add the shared file systems.

    :param guest: xml.Guest; each of its ``shares`` is a dict of features/shares.py
    """
    for share in guest.shares:
        element = add(devices, 'filesystem', type='mount', accessmode='passthrough')
        add(element, 'driver', type='virtiofs', queue=QUEUE)
        add(element, 'binary', path=share['program'])
        add(element, 'source', dir=share['directory'])
        add(element, 'target', dir=share['tag'])
