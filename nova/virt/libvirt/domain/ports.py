"""Network devices."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add


def port(devices: etree.Element, interface: Any) -> etree.Element:
    """
    :param interface: xml.Interface
    """
    element = add(devices, 'interface', type='bridge')
    add(element, 'mac', address=interface.mac)
    add(element, 'source', bridge=interface.bridge)
    add(element, 'target', dev=interface.devname)
    add(element, 'model', type=interface.model)
    if interface.mtu:
        add(element, 'mtu', size=interface.mtu)
    return element
