"""What all virtio devices of a guest have."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.hardware import guest_options


def attributes(guest: Any) -> dict[str, str]:
    """Of the element ``driver``; empty where the guest asks for nothing.

    :param guest: xml.Guest
    """
    found = {}
    if guest.settings.get('virtio_packed_ring') == guest_options.TRUE:
        found['packed'] = 'on'
    if guest.settings.get('mem_encryption') == guest_options.TRUE:
        found['iommu'] = 'on'                # the host sees only what the guest shows it
    return found


def extend(driver: etree.Element, guest: Any) -> None:
    """Add them to an element ``driver``."""
    for name, value in attributes(guest).items():
        driver.set(name, value)
