"""Guaranteed egress bandwidth of guests' ports: HTB classes of tc on the devices through which frames leave the host.

======================  ================================================================================
Class Bandwidth of
======================  ================================================================================
``7676:fffe``           all traffic of the device
``7676:NUMBER``         a port with a guarantee: at least its rate, at most the speed of the device
``7676:ffff``           all other frames: at least the rate that the guarantees leave
======================  ================================================================================

nftables sets the class of a frame at the guest's device (limits.py). A frame keeps its class with a VLAN tag or in
VXLAN, but loses its class if the host routes the packet. So ports in networks that the host routes have no class. The
qdisc of a device without guaranteed ports is not changed.
"""
from collections.abc import Mapping
import json
import logging
from typing import NamedTuple

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.network import guarantees
from nova.network.host import state as host_state
from nova.network.linux import runner
from nova.objects import guarantees as names

LOG = logging.getLogger(__name__)

HANDLE = '7676:'                          # handle by which a later process finds the qdisc
WHOLE, OTHERS = 'fffe', 'ffff'
MAX_PORTS = 0xfff0
OWN = ('tap', 'nr', 'nd')                 # prefixes of the names of this cloud's devices on an operator's bridge
BURST_MS = 2                              # burst of a class: the data that the rate of the class allows in this time


class Class(NamedTuple):
    """A class of a device: parent, rate and ceiling in kbit/s."""

    parent: str
    rate: int
    ceiling: int


Tree = dict[str, Class]                   # {number of a class: class}; the parent comes first


class Guarantees:
    """Guarantees of one host.

    :param run: a Runner of the host
    """

    def __init__(self, conf: ConfigOpts, run: runner.Runner) -> None:
        self._run = run
        self._stated = guarantees.stated(conf).get(names.CLASSES[names.BANDWIDTH, 'egress'][0], {})
        self._bridges = dict(conf.network.physical_networks)
        self._tunnel = str(conf.network.tunnel_address or conf.my_ip)
        self._loaded: dict[str, Tree] | None = None       # {device: classes, {} if unknown}; None: not read yet

    def apply(self, state: host_state.HostState) -> dict[str, str]:
        """Load the classes of the guaranteed ports on this host and return {device of a port: its class}."""
        ports, loaded = guaranteed(state), self._known()
        if not ports and not loaded:
            return {}
        numbers = {port.device: f'{number:x}' for number, (port, _place) in enumerate(ports[:MAX_PORTS], 1)}
        speeds: dict[str, int] = {}
        rates: dict[str, dict[str, int]] = {}       # a device may carry both a physical network and tunnels
        for name, speed in self._stated.items():
            place = self._place(name)
            here = {numbers[port.device]: port.guaranteed_kbps for port, at in ports[:MAX_PORTS] if at == place}
            for device in self._devices(place) if ports else ():
                speeds[device] = speeds.get(device, 0) + speed
                rates.setdefault(device, {}).update(here)
        wanted = {device: tree(max(speeds[device], self._speed(device)), here)
                  for device, here in rates.items() if here}
        served = {number for of_device in rates.values() for number in of_device}
        for device in {*loaded, *wanted}:
            try:
                self._load(device, wanted.get(device, {}))
            except exception.NetworkPlumbingError as error:     # continue with the other devices
                LOG.error('Device %s does not guarantee bandwidth: %s', device, error)
        return {device: HANDLE + number for device, number in numbers.items() if number in served}

    def forget(self) -> None:
        """Remove all classes."""
        for device in list(self._known()):
            self._load(device, {})

    def _known(self) -> dict[str, Tree]:
        """Return {device: loaded classes}; the first call finds the devices with classes of an earlier process."""
        if self._loaded is None:
            self._loaded = {str(each['dev']): {} for each in self._present() if 'dev' in each}
        return self._loaded

    def _present(self, *of_device: str) -> list[dict[str, object]]:
        """Return the qdiscs with HANDLE of all devices, or of one device (arguments ``'dev', NAME``)."""
        return [each for each in json.loads(self._run('tc', '-json', 'qdisc', 'show', *of_device, check=False) or '[]')
                if each.get('handle') == HANDLE and each.get('root')]

    def _place(self, name: str) -> str | None:
        """Return the bridge of a physical network, or '' for the tunnels, or None for an unknown network."""
        return '' if name == names.TUNNELLED else self._bridges.get(name)

    def _load(self, device: str, wanted: Tree) -> None:
        loaded = self._known()
        known = loaded.get(device, {})
        present = bool(self._present('dev', device))
        if not wanted:
            if present:
                self._run('tc', 'qdisc', 'del', 'dev', device, 'root')
            loaded.pop(device, None)
            return
        if present and known == wanted:
            return
        if present and not known:            # classes that an earlier process has loaded
            self._run('tc', 'qdisc', 'del', 'dev', device, 'root')
            present = False
        if not present:
            known = {}
            self._run('tc', 'qdisc', 'replace', 'dev', device, 'root', 'handle', HANDLE, 'htb', 'default', OTHERS)
        loaded[device] = {}                  # the classes stay unknown if a command fails
        for number, each in wanted.items():
            if known.get(number) != each:
                self._run('tc', 'class', 'replace', 'dev', device, 'parent', HANDLE + each.parent, 'classid',
                          HANDLE + number, 'htb', *parameters(each))
        for number in known.keys() - wanted.keys():
            self._run('tc', 'class', 'del', 'dev', device, 'classid', HANDLE + number)
        loaded[device] = wanted

    def _devices(self, bridge: str | None) -> list[str]:
        """Return the devices through which the frames of a physical network leave the host.

        :param bridge: see _place()
        """
        if bridge is None:
            return []
        if not bridge:
            links = self._run.links('address', 'show')
            name = next((link['ifname'] for link in links if any(
                each.get('local') == self._tunnel for each in link.get('addr_info', ()))), '')
            return self._devices(name) or [name] if name not in ('', 'lo') else []
        return [link['ifname'] for link in self._run.links('-details', 'link', 'show', 'master', bridge)
                if not link['ifname'].startswith(OWN)]

    def _speed(self, device: str) -> int:
        """Return the speed of a device in kbit/s, or 0 if it is unknown."""
        text = self._run('cat', f'/sys/class/net/{device}/speed', check=False).strip()
        return int(text) * 1000 if text.isascii() and text.isdigit() else 0


def guaranteed(state: host_state.HostState) -> list[tuple[host_state.Port, str]]:
    """Return (port, bridge of its physical network or '' for the tunnels) of the ports with a guarantee."""
    places = {each.bridge: '' if each.vlan is None else each.physical_bridge for each in state.overlays}
    return [(port, place) for port in sorted(state.ports, key=lambda port: port.id)
            if port.guaranteed_kbps and not port.incoming
            and (place := places.get(port.bridge, state.physical_bridges.get(port.bridge))) is not None]


def tree(speed: int, ports: Mapping[str, int]) -> Tree:
    """Return the classes of a device.

    :param speed: of the device, in kbit/s
    :param ports: {number of a class: guarantee of its port in kbit/s}
    """
    rest = max(speed - sum(ports.values()), speed // 100, 1)
    return {WHOLE: Class('', speed, speed), OTHERS: Class(WHOLE, rest, speed),
            **{number: Class(WHOLE, rate, max(speed, rate)) for number, rate in sorted(ports.items())}}


def parameters(each: Class) -> list[str]:
    """Return the tc arguments of a class. The quantum makes HTB divide unused bandwidth in proportion to the rates."""
    def burst(rate: int) -> str:
        return str(max(rate * BURST_MS // 8, 3000))
    return ['rate', f'{each.rate}kbit', 'ceil', f'{each.ceiling}kbit', 'burst', burst(each.rate), 'cburst',
            burst(each.ceiling), 'quantum', str(min(max(each.rate // 100, 1514), 60000))]
