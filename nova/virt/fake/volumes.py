"""Volumes of guests that are not there: the guest's record says which it has, so that tests can look."""
from nova.virt import driver


class Volumes(driver.Volumes):
    """Needs what FakeDriver has."""

    def volume_connector(self):
        return {'host': self.host, 'ip': self.conf.my_ip, 'initiator': f'iqn.1994-05.test:{self.host}',
                'platform': 'x86_64', 'os_type': 'linux', 'multipath': False}

    def attach_volume(self, context, instance, device):
        with self._operation('attach_volume', instance), self._lock:
            guest = self._guest(instance)
            guest['volumes'] = {**guest.get('volumes', {}), device['volume_id']: device['device_name']}
            self._save()

    def detach_volume(self, context, instance, device):
        with self._operation('detach_volume', instance), self._lock:
            guest = self._guests.get(instance.uuid, {})
            if guest.get('volumes', {}).pop(device['volume_id'], None):
                self._save()

    def swap_volume(self, context, instance, old, new):
        with self._operation('swap_volume', instance), self._lock:
            guest = self._guest(instance)
            guest.setdefault('volumes', {}).pop(old['volume_id'], None)
            guest['volumes'][new['volume_id']] = new['device_name']
            self._save()

    def volumes(self, uuid):
        """{volume id: device name} of a guest."""
        with self._lock:
            return dict(self._guests[uuid].get('volumes', {}))

    def _keep_volumes(self, instance, devices):
        """The volumes that a guest is made with."""
        self._guests[instance.uuid]['volumes'] = {
            device['volume_id']: device['device_name'] for device in devices
            if device.get('destination_type') == 'volume'}
