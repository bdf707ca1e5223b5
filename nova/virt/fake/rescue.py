"""Rescue of fake guests."""
from nova import states
from nova.virt import driver
from nova.virt.fake import machine


class Rescue(machine.Feature, driver.Rescue, driver.StableRescue):
    """A rescued guest has ``rescue``: what it runs from."""

    def rescue(self, context, instance, network_info, image, admin_password, block_devices):
        with self.machine.operation('rescue'), self.machine.lock:
            self.machine.put(instance, states.RUNNING, network_info, 'booted from the rescue image')
            self.machine.guest(instance)['rescue'] = {'image': image['id'], 'volumes': sorted(
                device['volume_id'] for device in block_devices if device.get('volume_id'))}
            self.machine.save()

    def unrescue(self, context, instance, network_info):
        with self.machine.operation('unrescue'), self.machine.lock:
            self.machine.guest(instance).pop('rescue', None)
            self.machine.put(instance, states.RUNNING, network_info, 'booted')
