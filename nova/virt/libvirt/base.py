"""Methods that are equal in the drivers of virtual machines and containers."""
import contextlib
import logging
import os

from nova import exception
from nova import states
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt.guest_power import GuestPower
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage
from nova.virt.libvirt.moves import shared_storage

LOG = logging.getLogger(__name__)


class LibvirtBase(driver.ComputeDriver):
    """Base class of both libvirt drivers. Constructors of subclasses set ``storage``, ``hypervisor``, ``_guests``."""

    storage: Storage
    hypervisor: Host
    _guests: GuestPower
    _weaknesses: list[str] = []

    @property
    def weaknesses(self) -> list[str]:
        return self._weaknesses

    def stop(self) -> None:
        self.hypervisor.close()

    def report_change(self, uuid: str) -> None:
        """Call ``on_event`` with the present state of a guest, after an event from libvirt."""
        if self._guests.hold_event(uuid) or not self.storage.exists(uuid):
            return
        with contextlib.suppress(exception.GuestNotFound):
            state = self.hypervisor.power_state(uuid)
            if state == states.POWER_PAUSED:
                self._log_disk_errors(uuid)
            self.on_event(uuid, state)

    def _log_disk_errors(self, uuid: str) -> None:
        """Log the disk errors of a paused guest: QEMU pauses a guest after a failed write."""
        with contextlib.suppress(exception.VirtError):           # containers do not support this call
            for target, wrong in self.hypervisor.disk_errors(uuid).items():
                LOG.error('Guest %s is paused after a failed write to its disk %s: %s. No data is lost; fix the cause, '
                          'then unpause the server.', uuid, target, wrong)

    def guests(self) -> dict[str, int]:
        return self.hypervisor.guests()

    def guest_state(self, uuid: str) -> int | None:
        return self.hypervisor.guest_state(uuid)

    def leftovers(self) -> dict[str, bool]:
        return shared_storage.leftovers(self.storage, self.host, self.hypervisor.guests())

    def power_state(self, instance: Instance) -> int:
        return self._guests.power_state(instance.uuid)

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        self._guests.power_off(instance.uuid, timeout)

    def why_unstartable(self, instance: Instance) -> str | None:
        guest = self.storage.load(instance.uuid)
        if guest is None:
            return super().why_unstartable(instance)
        needed = [path for disk in guest.disks if not disk.source for path in (disk.file, disk.backing_file) if path]
        lost = [path for path in needed if not os.path.exists(path)]
        return f'Host {self.host} lacks the file {os.path.basename(lost[0])} of its disks.' if lost else None
