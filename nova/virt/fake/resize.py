"""Fake guests that move to another host, or to another size."""
import copy
import json
import os

from nova import exception
from nova import states
from nova.virt import driver


class Resize(driver.Resize):
    """What a host keeps for a revert stands in a file of its own beside the guests'."""

    def accept_guest(self, context, instance, flavor):
        with self._operation('accept_guest', instance):
            pass

    def send_guest(self, context, instance, dest_host, network_info, timeout):
        with self._operation('send_guest', instance), self._lock:
            kept = self._kept
            if instance.uuid in self._guests:
                guest = self._guests[instance.uuid]
                kept[instance.uuid] = {**guest, 'power_state': states.SHUTDOWN}
                self._save_kept()
                del self._guests[instance.uuid]
                self._save()
            if instance.uuid not in kept:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            return copy.deepcopy(kept[instance.uuid])

    def finish_migration(self, context, instance, guest, request, power_on):
        with self._operation('finish_migration', instance), self._lock:
            self._guests[instance.uuid] = copy.deepcopy(guest)
            self._put(instance, states.RUNNING if power_on else states.SHUTDOWN, request.network_info, 'moved')
            self._keep_volumes(instance, request.block_devices)

    def drop_migrated(self, context, instance, network_info):
        with self._operation('drop_migrated', instance), self._lock:
            self._guests.pop(instance.uuid, None)
            self._save()

    def finish_revert_migration(self, context, instance, network_info, block_devices, power_on):
        with self._operation('finish_revert_migration', instance), self._lock:
            if instance.uuid in self._kept:
                self._guests[instance.uuid] = copy.deepcopy(self._kept[instance.uuid])
            self._guest(instance)
            self._put(instance, states.RUNNING if power_on else states.SHUTDOWN, network_info, 'moved back')
            self._keep_volumes(instance, block_devices)
            self._forget_kept(instance.uuid)

    def confirm_migration(self, context, instance, network_info):
        with self._operation('confirm_migration', instance), self._lock:
            self._forget_kept(instance.uuid)

    def kept_guests(self):
        with self._lock:
            return sorted(self._kept)

    # ---- inside ----

    _memory = None

    @property
    def _kept(self):
        """{uuid: guest as it was} of guests that have moved away."""
        if self._memory is None:
            path = self._kept_file()
            self._memory = json.loads(path.read_text()) if path is not None and path.exists() else {}
        return self._memory

    def _kept_file(self):
        return None if self._file is None else self._file.with_suffix('.kept')

    def _forget_kept(self, uuid):
        if self._kept.pop(uuid, None) is not None:
            self._save_kept()

    def _save_kept(self):
        path = self._kept_file()
        if path is not None:
            fresh = path.with_suffix('.kept-new')
            fresh.write_text(json.dumps(self._kept))
            os.replace(fresh, path)
