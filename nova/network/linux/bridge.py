"""Create, configure and remove bridges. The hypervisor attaches the guests' devices."""
import ipaddress
import os
import pathlib

from nova import exception
from nova.network.host.state import Network
from nova.network.linux import addresses
from nova.network.linux import runner
from nova.objects import network_info


def mac_of(network_id: str) -> str:
    """Return the bridge's MAC. It depends only on the network id, because guests cache their gateway's MAC (ARP)."""
    digits = network_id.replace('-', '')[:10]
    return '02:' + ':'.join(digits[i:i + 2] for i in range(0, 10, 2))


def ensure(run: runner.Runner, network: Network) -> None:
    """Create or repair the bridge of a network."""
    name, known = network.bridge, run.link(network.bridge, '-details', command='address')
    wanted = [f'{subnet.gateway}/{ipaddress.ip_network(subnet.cidr).prefixlen}'
              for subnet in network.subnets if subnet.gateway]
    if known is None:
        run('ip', 'link', 'add', 'name', name, 'address', mac_of(network.id), 'type', 'bridge', 'stp_state', '0',
            'forward_delay', '0', 'nf_call_iptables', '1', 'nf_call_ip6tables', '1')
        known = {}
    elif known.get('linkinfo', {}).get('info_kind') != 'bridge':
        raise exception.NetworkPlumbingError(reason=f'{name} is a device of this host, but not a bridge')
    elif not _filtered(known):
        run('ip', 'link', 'set', 'dev', name, 'type', 'bridge', 'stp_state', '0', 'forward_delay', '0',
            'nf_call_iptables', '1', 'nf_call_ip6tables', '1')
    if known.get('mtu') != network.mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(network.mtu))
    present = [f'{each["local"]}/{each["prefixlen"]}' for each in known.get('addr_info', ())
               if each['family'] == 'inet']
    addresses.update(run, name, present, wanted)
    if 'UP' not in known.get('flags', []):
        run('ip', 'link', 'set', 'dev', name, 'up')


def _filtered(link: runner.Link) -> bool:
    data = link.get('linkinfo', {}).get('info_data', {})
    return data.get('nf_call_iptables') == 1 and data.get('stp_state') == 0 and data.get('forward_delay') == 0


def guests(run: runner.Runner, name: str) -> list[str]:
    """Return the names of the guests' devices on a bridge."""
    return [link['ifname'] for link in run.links('link', 'show', 'master', name)
            if link['ifname'].startswith(network_info.PREFIX)]


def ensure_vlan(run: runner.Runner, name: str, parent: str, vlan: int, mtu: int) -> runner.Link | None:
    """Create or replace a VLAN device, and set its MTU. Return the device before the call, None if it is new."""
    known = run.link(name, '-details')
    data = (known or {}).get('linkinfo', {}).get('info_data', {})
    if known is not None and (known.get('link'), data.get('id')) != (parent, vlan):
        run('ip', 'link', 'del', 'dev', name)
        known = None
    if known is None:
        run('ip', 'link', 'add', 'link', parent, 'name', name, 'mtu', str(mtu), 'type', 'vlan', 'id', str(vlan))
    elif known.get('mtu') != mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(mtu))
    return known


def remove(run: runner.Runner, name: str) -> None:
    run('ip', 'link', 'del', 'dev', name, check=False)


def managed(directory: pathlib.Path) -> list[str]:
    """Return the names of this cloud's bridges: each has a directory below ``directory`` for its DHCP server."""
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []
