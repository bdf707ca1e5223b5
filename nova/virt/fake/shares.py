"""Shares of guests that are not there: the guest's record says which it has."""
from nova.virt import driver


class Shares(driver.Shares):
    """Needs what FakeDriver has."""

    def attach_share(self, context, instance, share):
        with self._operation('attach_share', instance), self._lock:
            guest = self._guest(instance)
            guest['shares'] = {**guest.get('shares', {}), share['share_id']: share['tag']}
            self._save()

    def detach_share(self, context, instance, share):
        with self._operation('detach_share', instance), self._lock:
            if self._guests.get(instance.uuid, {}).get('shares', {}).pop(share['share_id'], None):
                self._save()

    def shares(self, uuid):
        """{share id: tag} of a guest."""
        with self._lock:
            return dict(self._guests[uuid].get('shares', {}))
