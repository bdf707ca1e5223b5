"""Overlay networks: a bridge without an address, and a VXLAN or VLAN device that carries its frames.

The FDB of a VXLAN device maps each MAC to a host. The entries come from the network service; the device neither learns
from frames nor uses multicast. A broadcast is sent once to each host with a port of the network. A VLAN device tags the
frames on an operator's bridge; physical switches learn the MACs.
"""
from collections.abc import Callable
import json

from nova import exception
from nova.network.host.state import Overlay
from nova.network.linux import bridge
from nova.network.linux import frames
from nova.network.linux import runner

PORT = 4789                       # UDP port of VXLAN (RFC 7348)
EVERYBODY = '00:00:00:00:00:00'   # MAC of FDB entries for broadcasts


def ensure(run: runner.Runner, overlay: Overlay, tunnel: str,
           switched: Callable[[str], dict[str, str]] = lambda device: {}) -> None:
    """Create or repair the bridge and the device of an overlay.

    :param tunnel: this host's tunnel address
    :param switched: function: device -> {MAC: address of the current host} of migrating guests
    :raises NetworkPlumbingError: this host is not on the physical network of a VLAN, or a command failed
    """
    _bridge(run, overlay)
    name = frames.tunnel_name(overlay)
    if overlay.vlan is not None:
        if overlay.physical_bridge is None:
            raise exception.NetworkPlumbingError(reason='[network] physical_networks of this host has no bridge for '
                                                        'the physical network of this VLAN')
        known = bridge.ensure_vlan(run, name, overlay.physical_bridge, overlay.vlan, overlay.mtu)
        _activate(run, overlay, name, known)
        return
    known = run.link(name, '-details')
    data = (known or {}).get('linkinfo', {}).get('info_data', {})
    if known and (data.get('id'), data.get('local')) != (overlay.number, tunnel):
        run('ip', 'link', 'del', 'dev', name)
        known = None
    if known is None:
        run('ip', 'link', 'add', name, 'mtu', str(overlay.mtu), 'type', 'vxlan', 'id', str(overlay.number), 'local',
            tunnel, 'dstport', str(PORT), 'nolearning', 'noudpcsum')
    elif known.get('mtu') != overlay.mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(overlay.mtu))
    _activate(run, overlay, name, known)
    _entries(run, name, overlay, switched)


def _activate(run: runner.Runner, overlay: Overlay, name: str, known: runner.Link | None) -> None:
    """Add a device to the bridge and activate it. The last step is ``up``: without it, an earlier call did not end."""
    if known and known.get('master') == overlay.bridge and 'UP' in known.get('flags', ()):
        return
    run('ip', 'link', 'set', 'dev', name, 'addrgenmode', 'none')
    run('ip', 'link', 'set', 'dev', name, 'master', overlay.bridge)
    if overlay.vlan is None:
        run('bridge', 'link', 'set', 'dev', name, 'learning', 'off')
    run('ip', 'link', 'set', 'dev', name, 'up')


def _bridge(run: runner.Runner, overlay: Overlay) -> None:
    known = run.link(overlay.bridge, '-details')
    if known is None:
        run('ip', 'link', 'add', 'name', overlay.bridge, 'mtu', str(overlay.mtu), 'address', bridge.mac_of(overlay.id),
            'type', 'bridge', 'stp_state', '0', 'forward_delay', '0', 'mcast_snooping', '0',
            'nf_call_iptables', '1', 'nf_call_ip6tables', '1')
        known = {'mtu': overlay.mtu}
    if known.get('mtu') != overlay.mtu:
        run('ip', 'link', 'set', 'dev', overlay.bridge, 'mtu', str(overlay.mtu))
    if 'UP' not in known.get('flags', []):
        run('ip', 'link', 'set', 'dev', overlay.bridge, 'addrgenmode', 'none')
        run('ip', 'link', 'set', 'dev', overlay.bridge, 'up')


def _entries(run: runner.Runner, name: str, overlay: Overlay, switched: Callable[[str], dict[str, str]]) -> None:
    text = run('bridge', '-json', 'fdb', 'show', 'dev', name)
    # The FDB is read before ``switched`` is called: otherwise an entry switched in between would be deleted.
    remotes, expected = dict(overlay.remotes), dict(overlay.migrating)
    moved = {mac: host for mac, host in switched(name).items() if expected.get(mac) == host}
    # A guest that migrates away is local until it runs on the target host. Its FDB entry is written in advance, so that
    # the entry exists when the local device disappears.
    leaving = {mac: host for mac, host in expected.items() if mac not in remotes}
    wanted = {*(remotes | moved | leaving).items(), *(
        (EVERYBODY, host) for _mac, host in [*overlay.remotes, *overlay.migrating])}
    entries = [entry for entry in json.loads(text or '[]') if entry.get('dst')]
    known = {(entry['mac'], entry['dst']) for entry in entries}
    # a MAC may have only one entry, so remove the old entry first
    for mac, host in sorted(known - wanted):
        run('bridge', 'fdb', 'del', mac, 'dev', name, 'dst', host, 'self')
    lines = [f'fdb {"append" if mac == EVERYBODY else "replace"} {mac} dev {name} dst {host} self permanent'
             for mac, host in sorted(wanted - known)]
    # the bridge's FDB maps exactly the MACs of guests on other hosts to this device
    masters = {entry['mac'] for entry in json.loads(text or '[]') if entry.get('master') and not entry.get('dst')}
    elsewhere = remotes.keys() | moved.keys()
    lines += [f'fdb replace {mac} dev {name} master static' for mac in sorted(elsewhere - masters)]
    lines += [f'fdb del {mac} dev {name} master' for mac in sorted({mac for mac, _host in known} & masters - elsewhere)]
    if lines:
        run('bridge', '-force', '-batch', '-', stdin='\n'.join(lines) + '\n')


def remove(run: runner.Runner, name: str) -> None:
    """Remove a bridge and its device."""
    for kind in ('vx', 'vl'):
        run('ip', 'link', 'del', 'dev', kind + name[2:], check=False)
    bridge.remove(run, name)
