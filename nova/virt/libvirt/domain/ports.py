"""Network devices."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.hardware import guest_options
from nova.virt.libvirt.domain import virtio
from nova.virt.libvirt.domain.tree import add

MOST_QUEUES = 256                        # that the kernel gives to one tap (MAX_TAP_QUEUES)


def port(devices: etree.Element, interface: Any, guest: Any) -> etree.Element:
    """
    :param interface: xml.Interface
    :param guest: xml.Guest, for what its settings say of all its ports
    """
    element = add(devices, 'interface', type='bridge')
    add(element, 'mac', address=interface.mac)
    add(element, 'source', bridge=interface.bridge)
    add(element, 'target', dev=interface.devname)
    add(element, 'model', type=interface.model)
    if interface.mtu:
        add(element, 'mtu', size=interface.mtu)
    if interface.model == 'virtio':
        driver = virtio.attributes(guest)
        if guest.settings.get('vif_multiqueue_enabled') == guest_options.TRUE and guest.vcpus > 1:
            driver['queues'] = str(min(guest.vcpus, MOST_QUEUES))
        if driver:
            add(element, 'driver', **driver)
    _bandwidth(element, guest.settings)
    return element


def _bandwidth(element: etree.Element, settings: dict[str, str]) -> None:
    """KiB a second, and KiB of a burst: what the flavor says and libvirt takes."""
    root = None
    for way in ('inbound', 'outbound'):
        found = {what: settings.get(f'quota_vif_{way}_{what}') for what in ('average', 'peak', 'burst')}
        found = {what: value for what, value in found.items() if int(value or 0)}
        if found:
            root = add(element, 'bandwidth') if root is None else root
            add(root, way, **found)
