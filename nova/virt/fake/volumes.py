"""Volumes of fake guests: an entry in the record of the guest."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING


if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt import driver
    from nova.virt.fake.machine import Machine


class Volumes:
    """Record volumes of guests in ``volumes``: {volume id: device name}.

    :param address: address of the host, for the volume connector
    """

    def __init__(self, machine: Machine, host: str, address: str) -> None:
        self.machine, self._host, self._address = machine, host, address

    def volume_connector(self) -> dict[str, Any]:
        return {'host': self._host, 'ip': self._address, 'initiator': f'iqn.1994-05.test:{self._host}',
                'platform': 'x86_64', 'os_type': 'linux', 'multipath': False}

    def attach_volume(self, context: RequestContext, instance: Instance, device: dict[str, Any]) -> None:
        with self.machine.operation('attach_volume'), self.machine.lock:
            guest = self.machine.guest(instance)
            guest['volumes'] = {**guest.get('volumes', {}), device['volume_id']: device['device_name']}
            self.machine.save()

    def detach_volume(self, context: RequestContext, instance: Instance, device: dict[str, Any]) -> None:
        with self.machine.operation('detach_volume'), self.machine.lock:
            guest = self.machine.guests.get(instance.uuid, {})
            if guest.get('volumes', {}).pop(device['volume_id'], None):
                self.machine.save()

    def swap_volume(self, context: RequestContext, instance: Instance, old: dict[str, Any],
                    new: dict[str, Any]) -> None:
        with self.machine.operation('swap_volume'), self.machine.lock:
            guest = self.machine.guest(instance)
            guest.setdefault('volumes', {}).pop(old['volume_id'], None)
            guest['volumes'][new['volume_id']] = new['device_name']
            self.machine.save()

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        with self.machine.operation('rename_volume'), self.machine.lock:
            volumes = self.machine.guest(instance).get('volumes', {})
            if volume_id in volumes:
                volumes[stays] = volumes.pop(volume_id)
                self.machine.save()

    def attached_volumes(self) -> dict[str, dict[str, driver.AttachedVolume]]:
        return {uuid: {volume: {'attachment_id': None, 'device_name': name}
                       for volume, name in guest['volumes'].items()}
                for uuid, guest in self.machine.guests.items() if guest.get('volumes')}
