"""Create, configure and remove bridges. The hypervisor attaches the guests' devices."""
from __future__ import annotations

import ipaddress
import json
import os
from typing import Any

from nova import exception
from nova.objects import network_info


def mac_of(network_id: str) -> str:
    """Return a stable, locally administered MAC: guests cache the gateway's MAC (ARP)."""
    digits = network_id.replace('-', '')[:10]
    return '02:' + ':'.join(digits[i:i + 2] for i in range(0, 10, 2))


def show(run: Any, name: str) -> Any:
    """Return {'link': …, 'addresses': [cidr]} of a device, or None if it does not exist."""
    text = run('ip', '-json', '-details', 'address', 'show', 'dev', name, check=False)
    found = json.loads(text) if text.strip() else []
    if not found:
        return None
    return {'link': found[0], 'addresses': [f'{a["local"]}/{a["prefixlen"]}' for a in found[0]['addr_info']
                                            if a['family'] == 'inet']}


def ensure(run: Any, network: Any) -> None:
    """Create or repair the bridge of a network."""
    name, known = network.bridge, show(run, network.bridge)
    wanted = [f'{subnet.gateway}/{ipaddress.ip_network(subnet.cidr).prefixlen}'
              for subnet in network.subnets if subnet.gateway]
    if known is None:
        run('ip', 'link', 'add', 'name', name, 'address', mac_of(network.id), 'type', 'bridge', 'stp_state', '0',
            'forward_delay', '0', 'nf_call_iptables', '1', 'nf_call_ip6tables', '1')
        known = {'link': {}, 'addresses': []}
    elif known['link'].get('linkinfo', {}).get('info_kind') != 'bridge':
        raise exception.NetworkPlumbingError(reason=f'{name} is a device of this host, but not a bridge')
    elif not _filtered(known['link']):
        run('ip', 'link', 'set', 'dev', name, 'type', 'bridge', 'stp_state', '0', 'forward_delay', '0',
            'nf_call_iptables', '1', 'nf_call_ip6tables', '1')
    if known['link'].get('mtu') != network.mtu:
        run('ip', 'link', 'set', 'dev', name, 'mtu', str(network.mtu))
    for address in wanted:
        if address not in known['addresses']:
            run('ip', 'address', 'replace', address, 'dev', name)
    for address in known['addresses']:
        if address not in wanted:
            run('ip', 'address', 'del', address, 'dev', name)
    if 'UP' not in known['link'].get('flags', []):
        run('ip', 'link', 'set', 'dev', name, 'up')


def _filtered(link: Any) -> Any:
    data = link.get('linkinfo', {}).get('info_data', {})
    return data.get('nf_call_iptables') == 1 and data.get('stp_state') == 0 and data.get('forward_delay') == 0


def guests(run: Any, name: str) -> Any:
    """Return the names of the guests' devices on a bridge."""
    text = run('ip', '-json', 'link', 'show', 'master', name, check=False)
    names = [link['ifname'] for link in json.loads(text)] if text.strip() else []
    return [device for device in names if device.startswith(network_info.PREFIX)]


def remove(run: Any, name: str) -> None:
    run('ip', 'link', 'del', 'dev', name, check=False)


def managed(directory: Any) -> Any:
    """Return the names of this cloud's bridges: each has a directory for its DHCP server."""
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []
