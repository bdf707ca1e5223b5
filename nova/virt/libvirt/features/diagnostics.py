"""Diagnostics of a running guest, and the interrupt (NMI) for a crash dump."""
from typing import Any

import libvirt

from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt.features.agent import Agent
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.platform import Platform

_STATS = (libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_INTERFACE
          | libvirt.VIR_DOMAIN_STATS_BLOCK)
# {name in the compute API: name in libvirt}
_BLOCK = {'read_bytes': 'rd.bytes', 'read_requests': 'rd.reqs', 'write_bytes': 'wr.bytes',
          'write_requests': 'wr.reqs', 'errors_count': 'errors'}
_NET = {f'{way}_{name}': f'{way}.{theirs}' for way in ('rx', 'tx') for name, theirs in (
    ('octets', 'bytes'), ('packets', 'pkts'), ('errors', 'errs'), ('drop', 'drop'))}


class Diagnostics:
    """Features Diagnostics and CrashDump."""

    def __init__(self, guests: Guests, platform: Platform, agent: Agent) -> None:
        self._storage, self._hypervisor = guests.storage, guests.hypervisor
        self._platform, self._agent = platform, agent

    def trigger_crash_dump(self, instance: Instance) -> None:
        self._hypervisor.guest('interrupt the guest', instance.uuid, lambda domain: domain.injectNMI())

    def diagnostics(self, instance: Instance) -> driver.GuestDiagnostics:
        stats = self._hypervisor.run('read the diagnostics', _stats, instance.uuid)
        guest = self._storage.load(instance.uuid)
        macs = {vif['devname']: vif['address'] for vif in instance.network_info}
        return {
            'hypervisor': self._platform.virt_type, 'hypervisor_os': 'linux', 'uptime': None,
            'cpu_details': [{'id': number, 'time': stats.get(f'vcpu.{number}.time'), 'utilisation': None}
                            for number in range(stats['vcpu.current'])],
            'disk_details': [_named(stats, f'block.{number}', _BLOCK) for number in range(stats['block.count'])],
            'nic_details': [{'mac_address': macs.get(stats.get(f'net.{number}.name')),
                             **_named(stats, f'net.{number}', _NET), 'rx_rate': None, 'tx_rate': None}
                            for number in range(stats.get('net.count', 0))],
            'memory_details': {'maximum': stats['balloon.maximum'] // 1024, 'used': calls.used_kib(stats) // 1024},
            'guest_interfaces': self._agent.network_facts(guest) if guest else []}


def _stats(connection: libvirt.virConnect, uuid: str) -> dict[str, Any]:
    (_domain, stats), = connection.domainListGetStats([connection.lookupByUUIDString(uuid)], _STATS)
    return stats


def _named(stats: dict[str, Any], prefix: str, names: dict[str, str]) -> dict[str, int | None]:
    return {name: stats.get(f'{prefix}.{theirs}') for name, theirs in names.items()}
