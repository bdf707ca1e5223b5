"""Network devices."""
import dataclasses
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova import exception
from nova.hardware import guest_options
from nova.objects.network_info import HostFunction
from nova.virt.libvirt.domain import placement
from nova.virt.libvirt.domain.tree import add

MAX_QUEUES = 256                         # the kernel's limit for one tap (MAX_TAP_QUEUES)
Settings = Mapping[str, str]


@dataclasses.dataclass
class Interface:
    """Network device of a guest.

    bridge   bridge in which libvirt creates the tap; '' if the binding type (vifs.py) needs no bridge
    port     values of the plugged vifs.Port; None if nothing is plugged
    device   virtual function of the host that the guest gets; None for a tap or a socket
    """

    mac: str
    bridge: str
    devname: str
    model: str = 'virtio'
    mtu: int | None = None
    port: dict[str, str | int] | None = None
    device: HostFunction | None = None
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)


def port(devices: etree.Element, interface: Interface, settings: Settings, vcpus: int) -> etree.Element:
    """Add a network device.

    :param settings: settings of the guest, which apply to all its ports
    :param vcpus: number of vCPUs of the guest
    """
    count = queues(settings, vcpus)
    if interface.device:
        return _function(devices, interface, interface.device, settings, count)
    plugged = interface.port or {'kind': '', 'datapath': ''}
    bridge = plugged['device'] if plugged['kind'] == 'hybrid' else interface.bridge
    kind = 'vhostuser' if plugged['kind'] == 'vhostuser' else 'bridge' if bridge else 'ethernet'
    element = add(devices, 'interface', type=kind)
    add(element, 'mac', address=interface.mac)
    if kind == 'vhostuser':
        _refuse_what_no_socket_has(interface, settings)
        add(element, 'source', type='unix', path=plugged['socket'], mode='server' if plugged['server'] else 'client')
        add(element, 'model', type='virtio')
        _driver(element, 'virtio', count, '')
        return element
    if bridge:
        add(element, 'source', bridge=bridge)
    add(element, 'target', dev=interface.devname, **({'managed': 'no'} if plugged['kind'] == 'ovs' else {}))
    add(element, 'model', type=interface.model)
    if interface.mtu:
        add(element, 'mtu', size=interface.mtu)
    _driver(element, interface.model, count, str(plugged['datapath']))
    _bandwidth(element, settings)
    return element


def _function(devices: etree.Element, interface: Interface, device: HostFunction, settings: Settings,
              count: int) -> etree.Element:
    """Add a virtual function of the host as a passthrough device or through a macvtap.

    libvirt sets the port's MAC and VLAN and resets both later.

    :raises VirtError: the guest's flavor limits the traffic of a passthrough device
    """
    if device['macvtap']:
        element = add(devices, 'interface', type='direct')
        add(element, 'mac', address=interface.mac)
        add(element, 'source', dev=device['name'], mode='passthrough')
        add(element, 'model', type=interface.model)
        _driver(element, interface.model, count, '')
        _bandwidth(element, settings)
    elif _is_bounded(settings):
        raise exception.VirtError(operation='plug a port', reason=(
            'it is a passthrough device of the host (vnic_type direct), which does not support the limits '
            'quota:vif_* of the flavor'))
    else:
        element = add(devices, 'interface', type='hostdev', managed='yes')
        add(element, 'mac', address=interface.mac)
        address = placement.address(device['address'])
        address.set('type', 'pci')
        add(element, 'source').append(address)
    if device['vlan']:
        add(add(element, 'vlan'), 'tag', id=device['vlan'])
    return element


def queues(settings: Settings, vcpus: int) -> int:
    """Return the number of queues of each virtio port of a guest."""
    wanted = settings.get('vif_multiqueue_enabled') == guest_options.TRUE
    return min(vcpus, MAX_QUEUES) if wanted else 1


def _refuse_what_no_socket_has(interface: Interface, settings: Settings) -> None:
    """Refuse settings that vhost-user does not support: models other than virtio, and traffic limits, which need a tap.

    :raises VirtError: the guest's image or flavor requests one of them
    """
    bounded = _is_bounded(settings)
    if bounded or interface.model != 'virtio':
        raise exception.VirtError(operation='plug a port', reason=(
            'it is of the type vhostuser: '
            + ('the limits quota:vif_* of the flavor are not supported' if bounded
               else f'it requires the model virtio, but hw_vif_model of the image is {interface.model}')))


def _is_bounded(settings: Settings) -> bool:
    return any(int(value or 0) for name, value in settings.items() if name.startswith('quota_vif_'))


def _driver(element: etree.Element, model: str, count: int, datapath: str) -> None:
    attributes = {'queues': str(count)} if model == 'virtio' and count > 1 else {}
    if attributes or datapath == 'netdev':
        driver = add(element, 'driver', **attributes)
        if datapath == 'netdev':
            # the userspace datapath forwards frames unchanged, so offloaded checksums would stay missing
            add(driver, 'host', csum='off')


def _bandwidth(element: etree.Element, settings: Settings) -> None:
    """Add the flavor's limits that libvirt supports: rates in KiB a second, bursts in KiB."""
    root = None
    for way in ('inbound', 'outbound'):
        found = {what: settings.get(f'quota_vif_{way}_{what}') for what in ('average', 'peak', 'burst')}
        found = {what: value for what, value in found.items() if int(value or 0)}
        if found:
            root = add(element, 'bandwidth') if root is None else root
            add(root, way, **found)
