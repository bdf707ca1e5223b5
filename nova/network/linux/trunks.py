"""Trunks of guests: a bridge and a veth pair between the guest's tap and the parent's network, with VLAN devices.

::

    tap of the guest -- tb… bridge -- ta…, tapt… veth -- bridge of the parent's network
                                            | VLAN
                                          tap… -- bridge of a subport's network

The hypervisor attaches the tap to the bridge ``tb…``, which passes frames with and without tags. The VLAN devices are
on the veth pair, because each start of the guest creates a new tap. Filters, limits and DHCP treat ``tapt…`` as the
device of the parent port, and the VLAN devices as the devices of the subports.
"""
from nova.network.host.state import Trunk
from nova.network.linux import bridge as bridges
from nova.network.linux import runner
from nova.objects import network_info


def guest_devices(trunk: Trunk) -> tuple[str, str]:
    """Return the devices on the bridge ``tb…``; the filters drop frames that these devices send to the host."""
    return network_info.devname(trunk.port), 'ta' + bridge(trunk)[2:]


def bridge(trunk: Trunk) -> str:
    return network_info.trunk_bridge(trunk.port)


def ensure(run: runner.Runner, trunk: Trunk) -> None:
    """Create or repair the plumbing of a trunk, and remove the VLAN devices of former subports."""
    outer, (_tap, near), far = bridge(trunk), guest_devices(trunk), network_info.trunk_devname(trunk.port)
    if run.link(outer) is None:
        run('ip', 'link', 'add', 'name', outer, 'mtu', str(trunk.mtu), 'type', 'bridge', 'stp_state', '0',
            'forward_delay', '0', 'mcast_snooping', '0', 'nf_call_iptables', '0', 'nf_call_ip6tables', '0')
    _adjust(run, outer, trunk.mtu)
    if run.link(near) is None or run.link(far) is None:
        for device in (near, far):
            run('ip', 'link', 'del', 'dev', device, check=False)
        run('ip', 'link', 'add', near, 'mtu', str(trunk.mtu), 'type', 'veth', 'peer', 'name', far, 'mtu',
            str(trunk.mtu))
    _adjust(run, near, trunk.mtu, outer)
    _adjust(run, far, trunk.mtu, trunk.bridge)
    devices = {network_info.devname(subport.port) for subport in trunk.subports}
    for name in _vlan_devices(run, far):
        if name not in devices:
            run('ip', 'link', 'del', 'dev', name)
    for subport in trunk.subports:
        name = network_info.devname(subport.port)
        bridges.ensure_vlan(run, name, far, subport.vlan, subport.mtu)
        _adjust(run, name, subport.mtu, subport.bridge)


def remove(run: runner.Runner, name: str) -> None:
    """Remove the plumbing of a trunk.

    :param name: name of the bridge ``tb…``
    """
    far = network_info.trunk_devname(f'{name[2:10]}-{name[10:]}')
    for device in (*_vlan_devices(run, far), far, name):
        run('ip', 'link', 'del', 'dev', device, check=False)


def _vlan_devices(run: runner.Runner, device: str) -> list[str]:
    """Return the VLAN devices on a device."""
    return [link['ifname'] for link in run.links('-details', 'link', 'show', 'type', 'vlan')
            if link.get('link') == device]


def _adjust(run: runner.Runner, name: str, mtu: int, master: str | None = None) -> None:
    """Set MTU and bridge of a device, prevent an IPv6 link-local address, and bring it up."""
    known = run.link(name, '-details') or {}
    if known.get('inet6_addr_gen_mode') != 'none':
        run('ip', 'link', 'set', 'dev', name, 'addrgenmode', 'none')
    if known.get('mtu') != mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(mtu))
    if 'UP' not in known.get('flags', []) or known.get('master') != master:
        run('ip', 'link', 'set', 'dev', name, *(['master', master] if master else []), 'up')
