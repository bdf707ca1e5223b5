"""Shared file systems of a guest: virtiofs."""
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add

QUEUE = 1024                             # maximum of queued requests of a guest, as in libvirt's documentation


def filesystems(devices: etree.Element, given: Iterable[Mapping[str, Any]]) -> None:
    """Add the shared file systems.

    :param given: dicts of features/shares.py
    """
    for share in given:
        element = add(devices, 'filesystem', type='mount', accessmode='passthrough')
        add(element, 'driver', type='virtiofs', queue=QUEUE)
        add(element, 'binary', path=share['program'])
        add(element, 'source', dir=share['directory'])
        add(element, 'target', dir=share['tag'])
