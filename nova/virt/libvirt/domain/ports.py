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
    plugged = interface.port or {'kind': '', 'datapath': ''}
    bridge = plugged['device'] if plugged['kind'] == 'hybrid' else interface.bridge
    kind = 'vhostuser' if plugged['kind'] == 'vhostuser' else 'bridge' if bridge else 'ethernet'
    element = add(devices, 'interface', type=kind)
    add(element, 'mac', address=interface.mac)
    if kind == 'vhostuser':
        add(element, 'source', type='unix', path=plugged['socket'], mode='server' if plugged['server'] else 'client')
        add(element, 'model', type='virtio')
        return element
    if bridge:
        add(element, 'source', bridge=bridge)
    add(element, 'target', dev=interface.devname, **({'managed': 'no'} if plugged['kind'] == 'ovs' else {}))
    add(element, 'model', type=interface.model)
    if interface.mtu:
        add(element, 'mtu', size=interface.mtu)
    _driver(element, interface.model, guest, plugged['datapath'])
    _bandwidth(element, guest.settings)
    return element


def _driver(element: etree.Element, model: str, guest: Any, datapath: str) -> None:
    attributes = {}
    if model == 'virtio':
        attributes = virtio.attributes(guest)
        if guest.settings.get('vif_multiqueue_enabled') == guest_options.TRUE and guest.vcpus > 1:
            attributes['queues'] = str(min(guest.vcpus, MOST_QUEUES))
    if attributes or datapath == 'netdev':
        driver = add(element, 'driver', **attributes)
        if datapath == 'netdev':
            # the userspace datapath passes frames on as they are: what the guest leaves to a device is never made
            add(driver, 'host', csum='off')


def _bandwidth(element: etree.Element, settings: dict[str, str]) -> None:
    """KiB a second, and KiB of a burst: what the flavor says and libvirt takes."""
    root = None
    for way in ('inbound', 'outbound'):
        found = {what: settings.get(f'quota_vif_{way}_{what}') for what in ('average', 'peak', 'burst')}
        found = {what: value for what, value in found.items() if int(value or 0)}
        if found:
            root = add(element, 'bandwidth') if root is None else root
            add(root, way, **found)
