"""Diagnostics of a running guest, its consoles, and the interrupt that makes its kernel dump its memory."""
from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any, TYPE_CHECKING

import libvirt
from oslo_config import cfg

from nova import exception
from nova.virt import driver
from nova.virt.libvirt import graphics

if TYPE_CHECKING:
    from nova.objects.instance import Instance
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.storage import Storage

_STATS = (libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_INTERFACE
          | libvirt.VIR_DOMAIN_STATS_BLOCK)
SCREENSHOT_S, _PIECE = 15, 1 << 18       # seconds, bytes
# name of the compute API -> libvirt's
_BLOCK = {'read_bytes': 'rd.bytes', 'read_requests': 'rd.reqs', 'write_bytes': 'wr.bytes',
          'write_requests': 'wr.reqs', 'errors_count': 'errors'}
_NET = {f'{way}_{name}': f'{way}.{theirs}' for way in ('rx', 'tx') for name, theirs in (
    ('octets', 'bytes'), ('packets', 'pkts'), ('errors', 'errs'), ('drop', 'drop'))}


class GuestOperations(driver.CrashDump, driver.Diagnostics, driver.Consoles, driver.Screenshots):
    """Mixed into the libvirt driver."""

    # What LibvirtDriver has.
    conf: cfg.ConfigOpts
    hypervisor: Host
    storage: Storage
    virt_type: str

    # What Agent has.
    network_facts: Callable[[Any], list[dict[str, Any]]]

    def trigger_crash_dump(self, instance: Instance) -> None:
        self.hypervisor.guest('interrupt the guest', instance.uuid, lambda domain: domain.injectNMI())

    def console(self, instance: Instance, kind: str) -> Any:
        text = self.hypervisor.guest('find the console', instance.uuid, _running)
        guest = self.storage.load(instance.uuid)
        if text is None or guest is None:
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return graphics.place(text, kind, guest.consoles, self.conf.my_ip)

    def screenshot(self, instance: Instance) -> bytes:
        text = self.hypervisor.guest('find the screen', instance.uuid, _running)
        if text is None:
            raise exception.GuestNotFound(instance_id=instance.uuid)
        if not graphics.has_screen(text):
            raise exception.Unsupported('The server has no screen: its image asks for none, or its host gives none.')
        return self.hypervisor.run('take a screenshot', _screenshot, instance.uuid)

    def diagnostics(self, instance: Instance) -> dict[str, Any]:
        stats = self.hypervisor.run('read the diagnostics', _stats, instance.uuid)
        guest = self.storage.load(instance.uuid)
        macs = {vif['devname']: vif['address'] for vif in instance.network_info}
        return {
            'hypervisor': self.virt_type, 'hypervisor_os': 'linux', 'uptime': None,
            'cpu_details': [{'id': number, 'time': stats.get(f'vcpu.{number}.time'), 'utilisation': None}
                            for number in range(stats['vcpu.current'])],
            'disk_details': [_named(stats, f'block.{number}', _BLOCK) for number in range(stats['block.count'])],
            'nic_details': [{'mac_address': macs.get(stats.get(f'net.{number}.name')),
                             **_named(stats, f'net.{number}', _NET), 'rx_rate': None, 'tx_rate': None}
                            for number in range(stats.get('net.count', 0))],
            'memory_details': {'maximum': stats['balloon.maximum'] // 1024, 'used': used_kib(stats) // 1024},
            'guest_interfaces': self.network_facts(guest) if guest else []}


def used_kib(stats: dict[str, int]) -> int:
    """KiB that a guest uses: by what its system says of that, else by what QEMU takes of the host."""
    available, unused = stats.get('balloon.available'), stats.get('balloon.unused')
    if available and unused is not None:
        return max(0, available - unused)
    return stats.get('balloon.rss', stats['balloon.current'])


def _running(domain: libvirt.virDomain) -> str | None:
    """Its XML while it runs, else None."""
    return domain.XMLDesc(0) if domain.isActive() else None


def _screenshot(connection: libvirt.virConnect, uuid: str) -> bytes:
    """
    :raises VirtError: it is larger than it may be, or does not come in SCREENSHOT_S
    """
    until, taken = time.monotonic() + SCREENSHOT_S, bytearray()
    stream = connection.newStream()
    connection.lookupByUUIDString(uuid).screenshot(stream, 0)
    while piece := stream.recv(_PIECE):
        taken += piece
        late = time.monotonic() > until
        if late or len(taken) > driver.SCREENSHOT_BYTES:
            stream.abort()
            raise exception.VirtError(operation='take a screenshot', reason='it did not come in time'
                                      if late else 'it is too large')
    stream.finish()
    return bytes(taken)


def _stats(connection: libvirt.virConnect, uuid: str) -> dict[str, Any]:
    (_domain, stats), = connection.domainListGetStats([connection.lookupByUUIDString(uuid)], _STATS)
    return stats


def _named(stats: dict[str, Any], prefix: str, names: dict[str, str]) -> dict[str, Any]:
    return {name: stats.get(f'{prefix}.{theirs}') for name, theirs in names.items()}
