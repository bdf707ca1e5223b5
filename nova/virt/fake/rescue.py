"""Rescue of fake guests."""
from nova import states
from nova.virt import driver


class Rescue(driver.Rescue, driver.StableRescue):
    """Mixed into the fake driver. A rescued guest has ``rescue``: what it runs from."""

    def rescue(self, context, instance, network_info, image, admin_password, block_devices):
        with self._operation('rescue', instance), self._lock:
            self._put(instance, states.RUNNING, network_info, 'booted from the rescue image')
            self._guest(instance)['rescue'] = {'image': image['id'], 'volumes': sorted(
                device['volume_id'] for device in block_devices if device.get('volume_id'))}
            self._save()

    def unrescue(self, context, instance, network_info):
        with self._operation('unrescue', instance), self._lock:
            self._guest(instance).pop('rescue', None)
            self._put(instance, states.RUNNING, network_info, 'booted')
