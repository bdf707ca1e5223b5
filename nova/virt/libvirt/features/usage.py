"""Counters of guests: one call of libvirt reads the counters of all guests."""
from collections.abc import Callable

import libvirt

from nova.objects.counters import Counters
from nova.virt import monitors
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage


class GuestUsage(monitors.Usage):
    """Counters of the running guests that have files in the storage of this driver.

    :param read: function of a connection that returns {uuid: Counters} of the running guests
    """

    def __init__(self, host: str, storage: Storage, hypervisor: Host,
                 read: Callable[[libvirt.virConnect], dict[str, Counters]]) -> None:
        super().__init__(host)
        self._storage, self._hypervisor, self._read = storage, hypervisor, read

    def guests(self) -> dict[str, Counters]:
        found = self._hypervisor.run('read the counters', self._read)
        return {uuid: sample for uuid, sample in found.items() if self._storage.exists(uuid)}
