"""Features of fake guests and hosts that only change the state of the Machine."""
from collections.abc import Callable
import copy
import typing

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.json_types import JsonObject
from nova.objects.block_device import BlockDevice
from nova.objects.block_device import DetachedShare
from nova.objects.block_device import Share
from nova.objects.image import Image
from nova.objects.network_info import DeletedPort
from nova.objects.network_info import Vif
from nova import states
from nova.context import RequestContext
from nova.objects.counters import Counters
from nova.objects.flavor import Flavor
from nova.objects.instance import Instance
from nova.runtime import progress
from nova.virt import driver
from nova.virt import monitors
from nova.virt import share_exports
from nova.virt.fake import machine

_WORDS = {'reboot': 'rebooted', 'shutdown': 'shut down', 'startup': 'started'}


class Usage(monitors.Usage):
    """Simulated counters, which increase with each read."""

    def __init__(self, made: machine.Machine, host: str, conf: ConfigOpts) -> None:
        super().__init__(host)
        self._machine, self._vcpus, self._memory_mb = made, conf.fake.vcpus, conf.fake.memory_mb

    def guests(self) -> dict[str, Counters]:
        return self._machine.counters()

    def nodes(self) -> dict[str, Counters]:
        return {self.host: self._machine.sample(machine.HOST, self._vcpus, self._memory_mb)}


class Pause(machine.Feature):
    """Pause and Suspend: set the power state of the guest."""

    def pause(self, instance: Instance) -> None:
        with self.machine.operation('pause'):
            self._check_on(instance, 'pause')
            self.machine.set_state(instance, states.POWER_PAUSED, 'paused')

    def unpause(self, instance: Instance) -> None:
        with self.machine.operation('unpause'):
            if self.machine.guest(instance)['power_state'] == states.POWER_PAUSED:
                self.machine.set_state(instance, states.RUNNING, 'unpaused')

    def suspend(self, instance: Instance) -> None:
        with self.machine.operation('suspend'):
            self._check_on(instance, 'suspend')
            self.machine.set_state(instance, states.POWER_SUSPENDED, 'suspended')

    def resume(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        with self.machine.operation('resume'):
            self.machine.set_state(instance, states.RUNNING, 'resumed')

    def _check_on(self, instance: Instance, operation: str) -> None:
        if self.machine.guest(instance)['power_state'] in (states.SHUTDOWN, states.CRASHED):
            raise exception.VirtError(operation=operation, reason='the guest is off')


class Rescue(machine.Feature):
    """Record the image and the volumes of a rescue in a guest's ``rescue``."""

    def rescue(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo,
               image: Image, admin_password: str, block_devices: list[BlockDevice],
               config_drive: dict[str, bytes] | None = None) -> None:
        with self.machine.change('rescue'):
            self.machine.put(instance, states.RUNNING, network_info, 'booted from the rescue image')
            self.machine.guest(instance)['rescue'] = {'image': image['id'], 'volumes': sorted(
                volume_id for device in block_devices if (volume_id := device.get('volume_id')))}

    def unrescue(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        with self.machine.change('unrescue'):
            self.machine.guest(instance).pop('rescue', None)
            self.machine.put(instance, states.RUNNING, network_info, 'booted')


class Interfaces(machine.Feature):
    """Record ports of guests in ``networks``."""

    def attach_interface(self, context: RequestContext, instance: Instance, vif: Vif) -> None:
        with self.machine.change('attach_interface'):
            guest = self.machine.guest(instance)
            guest['pci_devices'] = machine.assigned_devices(instance, self.machine.guests)
            if vif['id'] not in guest['networks']:
                guest['networks'] = [*guest['networks'], vif['id']]

    def detach_interface(self, context: RequestContext, instance: Instance, vif: Vif | DeletedPort) -> None:
        with self.machine.change('detach_interface'):
            guest = self.machine.guests.get(instance.uuid)
            if guest is not None:
                guest['networks'] = [ident for ident in guest['networks'] if ident != vif['id']]
                guest['pci_devices'] = [each for each in guest.get('pci_devices') or () if each != vif.get('pci_slot')]


class Shares(machine.Feature):
    """Record shares of guests in ``shares``."""

    def attach_share(self, context: RequestContext, instance: Instance, share: Share) -> None:
        access = share.get('access') or {}
        try:
            share_exports.check_access(share.get('protocol'), access.get('user'), access.get('key'))
        except ValueError as error:
            raise exception.VirtError(operation='attach_share', reason=str(error)) from None
        with self.machine.change('attach_share'):
            guest = self.machine.guest(instance)
            guest['shares'] = {**guest.get('shares', {}), share['share_id']: share['tag']}

    def detach_share(self, context: RequestContext, instance: Instance, share: DetachedShare) -> None:
        with self.machine.change('detach_share'):
            self.machine.guests.get(instance.uuid, {}).get('shares', {}).pop(share['share_id'], None)


class Growth(machine.Feature):
    """Change the size of running guests."""

    def grow(self, instance: Instance, flavor: Flavor) -> None:
        with self.machine.change('grow'):
            self.machine.guest(instance).update({'vcpus': flavor['vcpus'], 'memory_mb': flavor['memory_mb']})


class Adoption(machine.Feature):
    """Adopt guests of ``Machine.foreign_guests``."""

    def adopt(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        with self.machine.operation('adopt'), self.machine.lock:
            if instance.uuid in self.machine.guests:
                return
            if instance.uuid not in self.machine.foreign_guests:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            self.machine.put(instance, self.machine.foreign_guests[instance.uuid], request.network_info)

    def let_go(self, instance: Instance) -> None:
        with self.machine.change('let_go'):
            self.machine.guests.pop(instance.uuid, None)


class HostControl(machine.Feature):
    """Power and maintenance of the host. The power state of the guests follows the power state of the host."""

    def host_power_action(self, action: str) -> str:
        with self.machine.lock:
            before = self.machine.power_states()
            if action in ('reboot', 'shutdown'):
                for guest in self.machine.guests.values():
                    if guest['power_state'] == states.RUNNING:
                        guest.update({'power_state': states.SHUTDOWN, 'ran': True})
            if action in ('reboot', 'startup'):
                for guest in self.machine.guests.values():
                    if guest.pop('ran', False):
                        guest['power_state'] = states.RUNNING
            self.machine.save()
            found = self.machine.power_states()
        for uuid, power_state in found.items():
            if power_state != before[uuid]:
                self.machine.on_event(uuid, power_state)
        return _WORDS[action]

    def set_host_maintenance(self, enabled: bool) -> None:
        self.machine.maintenance = enabled


class Images:
    """Features Snapshot, which uploads a small disk, and ImageCache, which adds ids to ``Machine.cached_images``."""

    def __init__(self, machine: machine.Machine, images: driver.ImageSource) -> None:
        self.machine, self._images = machine, images

    def snapshot(self, context: RequestContext, instance: Instance, image_id: str, step: Callable[[str], None],
                 report: progress.Report = progress.ignore) -> None:
        with self.machine.operation('snapshot', report):
            self.machine.guest(instance)
            step(states.IMAGE_PENDING_UPLOAD)
            with self.machine.disk() as path:
                step(states.IMAGE_UPLOADING)
                self._images.upload(context, image_id, path, 'raw')

    def cache_image(self, context: RequestContext, image_id: str) -> None:
        with self.machine.operation('cache_image'):
            self._images.show(context, image_id)
            if image_id not in self.machine.cached_images:
                self.machine.cached_images.append(image_id)


class Resize(machine.Feature):
    """Cold migration of guests. ``Machine.kept`` has the state for a revert."""

    def accept_guest(self, context: RequestContext, instance: Instance, flavor: Flavor) -> None:
        with self.machine.operation('accept_guest'):
            pass

    def send_guest(self, context: RequestContext, instance: Instance, dest_host: str | None,
                   network_info: list[Vif], timeout: int) -> JsonObject:
        with self.machine.operation('send_guest'), self.machine.lock:
            guest = self.machine.guests.get(instance.uuid)
            if guest is not None:
                self.machine.keep(instance.uuid, {**guest, 'power_state': states.SHUTDOWN})
                del self.machine.guests[instance.uuid]
                self.machine.save()
            if instance.uuid not in self.machine.kept:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            return typing.cast(JsonObject, copy.deepcopy(self.machine.kept[instance.uuid]))

    def finish_migration(self, context: RequestContext, instance: Instance, guest: JsonObject,
                         request: driver.SpawnRequest, power_on: bool) -> None:
        with self.machine.lock:
            self.machine.set_incoming(instance.uuid, True)
        with self.machine.operation('finish_migration'), self.machine.lock:
            self.machine.guests[instance.uuid] = typing.cast(machine.Guest, copy.deepcopy(guest))
            self.machine.put(instance, states.RUNNING if power_on else states.SHUTDOWN, request.network_info, 'moved')
            self.machine.keep_volumes(instance, request.block_devices)
            self.machine.set_incoming(instance.uuid, False)

    def drop_migrated(self, context: RequestContext, instance: Instance, network_info: list[Vif]) -> None:
        with self.machine.change('drop_migrated'):
            self.machine.guests.pop(instance.uuid, None)
            self.machine.set_incoming(instance.uuid, False)

    def finish_revert_migration(self, context: RequestContext, instance: Instance, network_info: list[Vif],
                                block_devices: list[BlockDevice], power_on: bool) -> None:
        with self.machine.operation('finish_revert_migration'), self.machine.lock:
            if instance.uuid in self.machine.kept:
                self.machine.guests[instance.uuid] = copy.deepcopy(self.machine.kept[instance.uuid])
            self.machine.guest(instance)
            self.machine.put(instance, states.RUNNING if power_on else states.SHUTDOWN, network_info, 'moved back')
            self.machine.keep_volumes(instance, block_devices)
            self.machine.forget_kept(instance.uuid)

    def confirm_migration(self, context: RequestContext, instance: Instance,
                          network_info: list[Vif]) -> None:
        with self.machine.operation('confirm_migration'), self.machine.lock:
            self.machine.forget_kept(instance.uuid)

    def resize_backups(self) -> list[str]:
        with self.machine.lock:
            return sorted(self.machine.kept)
