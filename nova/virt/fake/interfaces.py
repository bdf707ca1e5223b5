"""Ports that guests of the fake driver get and lose."""
from nova import exception
from nova.virt import driver


class Interfaces(driver.Interfaces):
    """A guest's ports are ids in ``networks``, in the order in which they were plugged."""

    def attach_interface(self, context, instance, vif):
        with self._operation('attach_interface', instance), self._lock:
            guest = self._guest(instance)
            if vif['id'] not in guest['networks']:
                guest['networks'] = [*guest['networks'], vif['id']]
                self._save()

    def detach_interface(self, context, instance, vif):
        with self._operation('detach_interface', instance), self._lock:
            try:
                guest = self._guest(instance)
            except exception.GuestNotFound:
                return
            guest['networks'] = [ident for ident in guest['networks'] if ident != vif['id']]
            self._save()
