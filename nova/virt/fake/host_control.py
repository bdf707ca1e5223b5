"""Host power of a fake host, and files of volume snapshots."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import states
from nova.hardware import disks
from nova.runtime import progress
from nova.virt import driver

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.fake.machine import Machine

_WORDS = {'reboot': 'rebooted', 'shutdown': 'shut down', 'startup': 'started'}


class HostControl:
    """Power and maintenance of the host. Its guests are powered off and on with the host."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def host_power_action(self, action: str) -> str:
        with self.machine.lock:
            if action in ('reboot', 'shutdown'):
                for guest in self.machine.guests.values():
                    if guest['power_state'] == states.RUNNING:
                        guest.update(power_state=states.SHUTDOWN, ran=True)
            if action in ('reboot', 'startup'):
                for guest in self.machine.guests.values():
                    if guest.pop('ran', False):
                        guest['power_state'] = states.RUNNING
            self.machine.save()
            found = self.machine.power_states()
        for uuid, power_state in found.items():
            self.machine.on_event(uuid, power_state)
        return _WORDS[action]

    def set_host_maintenance(self, enabled: bool) -> None:
        self.machine.maintenance = enabled


class VolumeSnapshots:
    """Record snapshots and copies in a guest's ``files``: {volume id: [files, the active one last]}, and ``copies``."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def create_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str,
                               create_info: dict[str, str]) -> driver.VolumeFile:
        with self.machine.operation('create_volume_snapshot'), self.machine.lock:
            files = self.machine.guest(instance).setdefault('files', {}).setdefault(volume_id, [])
            if create_info['new_file'] not in files:
                files.append(create_info['new_file'])
            self.machine.save()
            return {'name': files[-1], 'format': disks.QCOW2}

    def copy_volume(self, context: RequestContext, instance: Instance, volume_id: str, create_info: dict[str, str],
                    begun: Callable[[], None] | None = None) -> None:
        """Record an empty copy, because a simulated guest writes no data."""
        with self.machine.operation('create_volume_snapshot'), self.machine.lock:
            guest = self.machine.guest(instance)
            guest.setdefault('copies', []).append([volume_id, create_info['new_file'], bool(guest.get('rests'))])
            self.machine.save()
        if begun is not None:
            begun()

    def delete_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str, snapshot_id: str,
                               delete_info: dict[str, str | None], report: progress.Report = progress.ignore,
                               ) -> driver.VolumeFile:
        with self.machine.operation('delete_volume_snapshot'), self.machine.lock:
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
            self.machine.save()
            return {'name': files[-1], 'format': disks.QCOW2}


class ExtendVolume:
    """Record new sizes in a guest's ``sizes``: {volume id: GiB}."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def extend_volume(self, context: RequestContext, instance: Instance, device: dict[str, Any]) -> None:
        with self.machine.operation('extend_volume'), self.machine.lock:
            self.machine.guest(instance).setdefault('sizes', {})[device['volume_id']] = device['volume_size']
            self.machine.save()
