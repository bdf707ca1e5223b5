"""Ports of guests on this host, by binding type: the plug action before a guest starts, and the guest's device.

=================  ========================================================  ==========================================
Type               Before the guest starts                                   The guest's device
=================  ========================================================  ==========================================
``bridge``         nothing: the bridge exists                                libvirt makes a tap in the bridge
``tap``            nothing: an agent finds the tap                           libvirt makes a tap
``ovs``            os-vif: a tap that is a port of the integration bridge    that tap
``ovs``, hybrid    os-vif: a separate bridge, joined to the integration      libvirt makes a tap in that bridge
                   bridge by a veth pair
``vhostuser``      os-vif: a port of the integration bridge                  the socket of the binding
``hw_veb``         nothing: libvirt sets the port's MAC and VLAN in the      the device, or a macvtap of it
                   switch of the network card
=================  ========================================================  ==========================================

os-vif's plugin runs in the privileged process of the compute service (nova.virt.libvirt.privileged.remote), so it
starts no other privileged process. The plugin gets a separate configuration instead of the global configuration.
"""
import dataclasses
import pathlib
import re
import threading
import types

from nova import exception
from nova.objects.network_info import HostFunction
from nova.objects.network_info import Vif

DATAPATH, HYBRID, SOCKET, SOCKET_MODE = 'datapath_type', 'ovs_hybrid_plug', 'vhostuser_socket', 'vhostuser_mode'
NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]{0,14}\Z', re.ASCII)             # name of a device or bridge
PATH = re.compile(r'/[A-Za-z0-9_./-]{1,100}\Z', re.ASCII)
UUID = re.compile(r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')
SLOT = re.compile(r'[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z')
MAC = re.compile(r'[0-9a-f]{2}(?::[0-9a-f]{2}){5}\Z')
MTU = range(68, 65536)
DATAPATHS = ('', 'system', 'netdev')
KINDS = ('ovs', 'hybrid', 'vhostuser')
VIRTUAL = 'hw_veb'                # binding type of ports that use a virtual function of the host


@dataclasses.dataclass
class Port:
    """Port plugged by os-vif.

    kind             one of KINDS
    bridge           the integration bridge
    device           the tap; for ``hybrid`` the port's own bridge
    socket, server   for ``vhostuser``: the path, and whether QEMU listens on it
    multiqueue       for ``ovs``: the tap has several queues
    """

    kind: str
    id: str
    mac: str
    bridge: str
    device: str
    mtu: int = 1500
    datapath: str = ''
    socket: str = ''
    server: bool = False
    multiqueue: bool = False


def port(vif: Vif, multiqueue: bool = False) -> Port | None:
    """Return the Port to plug for a VIF or None if there is nothing to plug.

    :param multiqueue: the guest's device has several queues, and its tap needs them too
    :raises VirtError: this host cannot plug a VIF of this type
    """
    kind, details = vif['type'], vif.get('details') or {}
    if kind in ('bridge', 'tap', VIRTUAL):
        return None
    if kind not in ('ovs', 'vhostuser'):
        raise exception.VirtError(operation='plug a port', reason=f'its type {kind} is not supported')
    made = Port(kind, vif['id'], vif['address'], vif['network']['bridge'], vif['devname'],
                vif['network'].get('mtu') or 1500, str(details.get(DATAPATH) or ''))
    if kind == 'ovs' and details.get(HYBRID):
        made.kind, made.device = 'hybrid', ('qbr' + vif['id'])[:14]
    if kind == 'vhostuser':
        made.socket, made.server = str(details.get(SOCKET) or ''), details.get(SOCKET_MODE) == 'server'
    made.multiqueue = multiqueue and made.kind == 'ovs'
    return check(made)


def device(vif: Vif) -> HostFunction | None:
    """Return the virtual function of a VIF, without the interface name; None for VIFs of other types.

    :raises VirtError: the binding names no function or an invalid VLAN
    """
    if vif['type'] != VIRTUAL:
        return None
    vlan = str((vif.get('details') or {}).get('vlan') or 0)
    if not SLOT.match(vif.get('pci_slot') or '') or not vlan.isascii() or not vlan.isdigit() \
            or not 0 <= int(vlan) < 4095:
        raise exception.VirtError(operation='plug a port', reason='its binding names no device of the host, or no VLAN')
    return {'address': vif['pci_slot'] or '', 'vlan': int(vlan), 'macvtap': vif.get('vnic_type') == 'macvtap'}


def check(given: Port) -> Port:
    """Return the Port if its values are safe arguments for host programs.

    :raises VirtError: a value is not safe
    """
    if not (given.kind in KINDS and UUID.match(given.id) and MAC.match(given.mac) and NAME.match(given.bridge)
            and NAME.match(given.device) and type(given.mtu) is int and given.mtu in MTU and given.datapath in DATAPATHS
            and type(given.multiqueue) is bool
            and (given.kind != 'vhostuser' or PATH.match(given.socket) and '..' not in given.socket)):
        raise exception.VirtError(operation='plug a port', reason='its binding has an invalid value for a port '
                                                                  'of this type')
    return given


class Plugs:
    """Plug and unplug Ports with os-vif's plugin for Open vSwitch. Requires NET_ADMIN and access to Open vSwitch's
    socket.

    :param connection: Open vSwitch's database, as unix:/run/openvswitch/db.sock
    """

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._plugin: object = None

    def plug(self, uuid: str, given: Port) -> None:
        """Plug the port of a guest; a repeated call repairs the port.

        :raises VirtError: Open vSwitch refuses or does not respond
        """
        self._do('plug', uuid, given)

    def unplug(self, uuid: str, given: Port) -> None:
        """Unplug the port of a guest; no error if it is not plugged."""
        self._do('unplug', uuid, given)

    def _do(self, step: str, uuid: str, given: Port) -> None:
        with self._lock:                     # calls share one connection to Open vSwitch's database, for milliseconds
            plugin, objects = self._prepared()
            info = objects.instance_info.InstanceInfo(uuid=uuid, name=uuid)
            try:
                getattr(plugin, step)(_vif(objects, given), info)
            except Exception as error:       # exceptions of netlink, the database client and the plugin
                raise exception.VirtError(operation=f'{step} port {given.id}',
                                          reason=f'{type(error).__name__}: {error}'[:500]) from error

    def _prepared(self) -> tuple[object, types.ModuleType]:
        try:
            from os_vif import objects
            from vif_plug_ovs import ovs
            from vif_plug_ovs import privsep
        except ImportError:
            raise exception.VirtError(operation='plug a port', reason='os-vif is not installed; it comes with '
                                                                      'solonova[libvirt]') from None
        if self._plugin is None:
            from oslo_config import cfg
            conf = cfg.ConfigOpts()
            conf.register_opts(ovs.OvsPlugin.CONFIG_OPTS, group='os_vif_ovs')
            conf([], default_config_files=[])
            conf.set_override('ovsdb_connection', self._connection, group='os_vif_ovs')
            conf.set_override('ovs_vsctl_timeout', 10, group='os_vif_ovs')
            privsep.vif_plug.set_client_mode(False)
            objects.register_all()
            self._plugin = ovs.OvsPlugin(conf.os_vif_ovs)
        return self._plugin, objects


def _vif(objects: types.ModuleType, given: Port) -> object:
    """Return os-vif's object of a Port."""
    tap = given.kind == 'ovs'
    profile = objects.vif.VIFPortProfileOpenVSwitch(
        interface_id=given.id, datapath_type=given.datapath or 'system', create_port=tap, create_tap=tap,
        multiqueue=given.multiqueue)
    common = {'id': given.id, 'address': given.mac, 'plugin': 'ovs', 'port_profile': profile,
              'network': objects.network.Network(id=given.id, bridge=given.bridge, mtu=given.mtu)}
    if given.kind == 'vhostuser':
        return objects.vif.VIFVHostUser(vif_name=given.device, path=given.socket,
                                        mode='server' if given.server else 'client', **common)
    if given.kind == 'hybrid':
        return objects.vif.VIFBridge(vif_name=('tap' + given.id)[:14], bridge_name=given.device, **common)
    return objects.vif.VIFOpenVSwitch(vif_name=given.device, bridge_name=given.bridge, **common)


DEVICES = pathlib.Path('/sys/bus/pci/devices')


def interface_of(address: str, devices: pathlib.Path = DEVICES) -> str:
    """Return the current network interface name of a device; it may change at each boot.

    :raises VirtError: the device has no interface, for example while a guest driver is bound to it
    """
    names = sorted(path.name for path in (devices / address / 'net').glob('*'))
    if not names:
        raise exception.VirtError(operation='plug a port', reason=(
            f'device {address} has no network interface on the host: its driver is not loaded, or a guest has it'))
    return names[0]
