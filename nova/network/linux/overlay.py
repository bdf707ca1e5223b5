"""Networks between hosts: a bridge without an address, and a device that carries its frames: VXLAN or a VLAN.

The table of a VXLAN device says behind which host each MAC is. It is written from what the network service knows:
nothing is learned from frames and there is no multicast. What is for all goes to each host with a port of
the network, once. The device of a VLAN puts its tag on frames of an operator's bridge; switches learn where MACs are.
"""
from __future__ import annotations

from collections.abc import Callable
import json
import os
from typing import Any

from nova import exception
from nova.network.host.state import Overlay
from nova.network.linux import bridge
from nova.network.linux import frames
from nova.network.linux import runner

PORT = 4789                       # of UDP (RFC 7348)
EVERYBODY = '00:00:00:00:00:00'   # the entries for frames to all


def ensure(run: runner.Runner, overlay: Overlay, tunnel: str,
           switched: Callable[[str], dict[str, str]] = lambda device: {}) -> None:
    """Make the bridge and the device of an overlay as they should be.

    :param tunnel: this host's address between hosts
    :param switched: {MAC: address of the host where it runs} of guests that move, behind a device
    """
    _bridge(run, overlay)
    name = frames.tunnel_name(overlay)
    known = _show(run, name)
    if overlay.vlan is not None:
        _vlan(run, overlay, name, known)
        return
    data = (known or {}).get('linkinfo', {}).get('info_data', {})
    if known and (data.get('id'), data.get('local')) != (overlay.number, tunnel):
        run('ip', 'link', 'del', 'dev', name)
        known = None
    if known is None:
        run('ip', 'link', 'add', name, 'mtu', str(overlay.mtu), 'type', 'vxlan', 'id', str(overlay.number), 'local',
            tunnel, 'dstport', str(PORT), 'nolearning', 'noudpcsum')
        run('ip', 'link', 'set', 'dev', name, 'addrgenmode', 'none')
        run('ip', 'link', 'set', 'dev', name, 'master', overlay.bridge)
        run('bridge', 'link', 'set', 'dev', name, 'learning', 'off')
        run('ip', 'link', 'set', 'dev', name, 'up')
    elif known.get('mtu') != overlay.mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(overlay.mtu))
    _entries(run, name, overlay, switched)


def _vlan(run: runner.Runner, overlay: Overlay, name: str, known: Any) -> None:
    """
    :raises NetworkPlumbingError: this host is not on the physical network
    """
    if overlay.trunk is None:
        raise exception.NetworkPlumbingError(reason='[network] physical_networks of this host has no bridge for it')
    data = (known or {}).get('linkinfo', {}).get('info_data', {})
    if known and (data.get('id'), known.get('link')) != (overlay.vlan, overlay.trunk):
        run('ip', 'link', 'del', 'dev', name)
        known = None
    if known is None:
        run('ip', 'link', 'add', 'link', overlay.trunk, 'name', name, 'mtu', str(overlay.mtu), 'type', 'vlan', 'id',
            str(overlay.vlan))
        run('ip', 'link', 'set', 'dev', name, 'addrgenmode', 'none')
        run('ip', 'link', 'set', 'dev', name, 'master', overlay.bridge)
        run('ip', 'link', 'set', 'dev', name, 'up')
    elif known.get('mtu') != overlay.mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(overlay.mtu))


def _bridge(run: runner.Runner, overlay: Overlay) -> None:
    known = _show(run, overlay.bridge)
    if known is None:
        run('ip', 'link', 'add', 'name', overlay.bridge, 'mtu', str(overlay.mtu), 'address', bridge.mac_of(overlay.id),
            'type', 'bridge', 'stp_state', '0', 'forward_delay', '0', 'mcast_snooping', '0',
            'nf_call_iptables', '1', 'nf_call_ip6tables', '1')
        run('ip', 'link', 'set', 'dev', overlay.bridge, 'addrgenmode', 'none')
        known = {'mtu': overlay.mtu}
    if known.get('mtu') != overlay.mtu:
        run('ip', 'link', 'set', 'dev', overlay.bridge, 'mtu', str(overlay.mtu))
    if 'UP' not in known.get('flags', []):
        run('ip', 'link', 'set', 'dev', overlay.bridge, 'up')


def _entries(run: runner.Runner, name: str, overlay: Overlay, switched: Callable[[str], dict[str, str]]) -> None:
    text = run('bridge', '-json', 'fdb', 'show', 'dev', name)
    # behind the look at the table: what is switched between the two is in neither, and stays
    remotes, expected = dict(overlay.remotes), dict(overlay.moving)
    moved = {mac: host for mac, host in switched(name).items() if expected.get(mac) == host}
    # A guest that leaves is behind its own device until it runs elsewhere. Where to send its frames then is known
    # before: they need it as soon as that device is gone.
    leaving = {mac: host for mac, host in expected.items() if mac not in remotes}
    wanted = {*(remotes | moved | leaving).items(), *(
        (EVERYBODY, host) for _mac, host in [*overlay.remotes, *overlay.moving])}
    entries = [entry for entry in json.loads(text or '[]') if entry.get('dst')]
    known = {(entry['mac'], entry['dst']) for entry in entries}
    # a MAC is behind one host: what it moved from goes first
    for mac, host in sorted(known - wanted):
        run('bridge', 'fdb', 'del', mac, 'dev', name, 'dst', host, 'self')
    lines = [f'fdb {"append" if mac == EVERYBODY else "replace"} {mac} dev {name} dst {host} self permanent'
             for mac, host in sorted(wanted - known)]
    # the bridge must not send to another port what is behind the tunnel, nor the reverse
    masters = {entry['mac'] for entry in json.loads(text or '[]') if entry.get('master') and not entry.get('dst')}
    elsewhere = remotes.keys() | moved.keys()
    lines += [f'fdb replace {mac} dev {name} master static' for mac in sorted(elsewhere - masters)]
    lines += [f'fdb del {mac} dev {name} master' for mac in sorted({mac for mac, _host in known} & masters - elsewhere)]
    if lines:
        run('bridge', '-force', '-batch', '-', stdin='\n'.join(lines) + '\n')


def _show(run: runner.Runner, name: str) -> Any:
    text = run('ip', '-json', '-details', 'link', 'show', 'dev', name, check=False)
    return json.loads(text)[0] if text.strip() else None


def remove(run: runner.Runner, name: str) -> None:
    """Remove a bridge and its device."""
    for kind in ('vx', 'vl'):
        run('ip', 'link', 'del', 'dev', kind + name[2:], check=False)
    bridge.remove(run, name)


def ours(directory: Any) -> list[str]:
    """Names of the bridges that this cloud made for overlays: each has a directory of its own."""
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []
