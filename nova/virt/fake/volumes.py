"""Features for volumes of fake guests. They record volumes, snapshots and sizes in the documents of guests."""
from collections.abc import Callable

from nova import exception
from nova.context import RequestContext
from nova.hardware import disks
from nova.json_types import JsonObject
from nova.objects.block_device import AttachedVolume
from nova.objects.block_device import VolumeDevice
from nova.objects.instance import Instance
from nova.runtime import progress
from nova.virt import driver
from nova.virt.fake.machine import Feature, Machine


class Volumes:
    """Record volumes of guests in ``volumes``.

    :param address: IP address of the host in the connector properties
    """

    def __init__(self, machine: Machine, host: str, address: str) -> None:
        self.machine, self._host, self._address = machine, host, address

    def volume_connector(self) -> JsonObject:
        return {'host': self._host, 'ip': self._address, 'initiator': f'iqn.1994-05.test:{self._host}',
                'platform': 'x86_64', 'os_type': 'linux', 'multipath': False}

    def attach_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        with self.machine.change('attach_volume'):
            guest = self.machine.guest(instance)
            guest['volumes'] = {**guest.get('volumes', {}), device['volume_id']: device['device_name']}

    def detach_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        with self.machine.operation('detach_volume'), self.machine.lock:
            guest = self.machine.guests.get(instance.uuid, {})
            if guest.get('volumes', {}).pop(device['volume_id'], None):
                self.machine.save()

    def swap_volume(self, context: RequestContext, instance: Instance, old: VolumeDevice, new: VolumeDevice) -> None:
        with self.machine.change('swap_volume'):
            guest = self.machine.guest(instance)
            guest.setdefault('volumes', {}).pop(old['volume_id'], None)
            guest['volumes'][new['volume_id']] = new['device_name']

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        with self.machine.operation('rename_volume'), self.machine.lock:
            volumes = self.machine.guest(instance).get('volumes', {})
            if volume_id in volumes:
                volumes[stays] = volumes.pop(volume_id)
                self.machine.save()

    def attached_volumes(self) -> dict[str, dict[str, AttachedVolume]]:
        return {uuid: {volume: {'attachment_id': None, 'device_name': name}
                       for volume, name in guest['volumes'].items()}
                for uuid, guest in self.machine.guests.items() if guest.get('volumes')}


class VolumeSnapshots(Feature):
    """Record snapshots and copies in a guest's ``files`` and ``copies``."""

    def create_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str,
                               create_info: dict[str, str]) -> driver.VolumeFile:
        with self.machine.change('create_volume_snapshot'):
            files = self.machine.guest(instance).setdefault('files', {}).setdefault(volume_id, [])
            if create_info['new_file'] not in files:
                files.append(create_info['new_file'])
            return {'name': files[-1], 'format': disks.QCOW2}

    def copy_volume(self, context: RequestContext, instance: Instance, volume_id: str, create_info: dict[str, str],
                    begun: Callable[[], None] | None = None) -> None:
        """Record the copy, but write no data, because volumes of simulated guests have no data."""
        with self.machine.change('copy_volume'):
            guest = self.machine.guest(instance)
            guest.setdefault('copies', []).append([volume_id, create_info['new_file'], bool(guest.get('rests'))])
        if begun is not None:
            begun()

    def delete_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str, snapshot_id: str,
                               delete_info: dict[str, str | None], report: progress.Report = progress.ignore,
                               ) -> driver.VolumeFile:
        with self.machine.change('delete_volume_snapshot'):
            files = self.machine.guest(instance).setdefault('files', {}).setdefault(volume_id, [])
            merged, target = delete_info.get('file_to_merge'), delete_info.get('merge_target_file')
            for name in (merged, target):
                if name is not None and name not in files:
                    raise exception.VirtError(operation='merge the files of the volume', reason=f'no file {name}')
            begin = files.index(merged) + 1 if merged else 0
            if target is None:
                del files[begin:-1]
            elif merged:
                del files[files.index(target) + 1:begin]
            report(50)
            return {'name': files[-1], 'format': disks.QCOW2}


class ExtendVolume(Feature):
    """Record new sizes in a guest's ``sizes``."""

    def extend_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        with self.machine.change('extend_volume'):
            self.machine.guest(instance).setdefault('sizes', {})[device['volume_id']] = device['volume_size']
