"""What the drivers of guests and of containers share: events, states, and waiting for a guest's end."""
from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nova import exception
from nova import states
from nova.virt import driver
from nova.virt.libvirt import guest as guests
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.moves import remnants

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance

LOG = logging.getLogger(__name__)

POLL = 0.2                               # seconds between two looks at something that a guest does
SHUTDOWN_RETRY_S = 10                    # after which a guest gets the request to shut down again
IMAGE_CACHE_INTERVAL = 3600              # seconds between two looks for unused images


class LibvirtBase(driver.ComputeDriver):
    """Inherited by a driver, which makes ``storage`` and ``hypervisor`` and calls ``set_up_operations`` at first."""

    storage: storage.Storage
    hypervisor: hosts.Host

    def set_up_operations(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[str, int] = {}          # {uuid: operations that are going on}
        self._pending: set[str] = set()
        self._images_looked_at = 0.0
        self.found_weaknesses: list[str] = []

    @property
    def weaknesses(self) -> list[str]:
        return self.found_weaknesses

    def stop(self) -> None:
        self.hypervisor.close()

    def cache_image(self, context: RequestContext, image_id: str) -> None:
        self.storage.cache.fetch(context, self.images.show(context, image_id))

    @contextlib.contextmanager
    def operation(self, uuid: str) -> Iterator[None]:
        """Hold back the events of a guest that this driver changes, so that no intermediate state is reported."""
        with self._lock:
            self._busy[uuid] = self._busy.get(uuid, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._busy[uuid] -= 1
                over = not self._busy[uuid]
                changed = over and uuid in self._pending
                if over:
                    del self._busy[uuid]
                    self._pending.discard(uuid)
            if changed:
                self.hypervisor.report_state(uuid)

    def answers(self, reason: str) -> None:
        """Report that libvirt does not answer, or with '' that it answers again."""
        self.on_hypervisor(reason)

    def state_changed(self, uuid: str) -> None:
        """Report the state of a guest after an event of libvirt."""
        with self._lock:
            if uuid in self._busy:
                self._pending.add(uuid)
                return
        if not self.storage.exists(uuid):
            return
        with contextlib.suppress(exception.GuestNotFound):
            state = self.hypervisor.power_state(uuid)
            if state == states.POWER_PAUSED:
                self._explain(uuid)
            self.on_event(uuid, state)

    def _explain(self, uuid: str) -> None:
        """Log why a guest stands still, where no request has paused it."""
        with contextlib.suppress(exception.VirtError):           # libvirt's containers have no such disks
            for target, wrong in self.hypervisor.disk_errors(uuid).items():
                LOG.error('Guest %s stands still at a write to its disk %s: %s. Nothing is lost; unpause the server '
                          'when that is mended.', uuid, target, wrong)

    def guests(self) -> dict[str, int]:
        return self.hypervisor.guests()

    def guest_state(self, uuid: str) -> int | None:
        return self.hypervisor.guest_state(uuid)

    def remnants(self) -> dict[str, bool]:
        return remnants.find(self.storage, self.host, self.hypervisor.guests())

    def power_state(self, instance: Instance) -> int:
        try:
            return self.hypervisor.power_state(instance.uuid)
        except exception.GuestNotFound:
            if self.storage.load(instance.uuid):     # its disks are here: it is off and can be defined again
                return states.SHUTDOWN
            raise

    def why_unstartable(self, instance: Instance) -> str | None:
        guest = self.storage.load(instance.uuid)
        if guest is None:
            return super().why_unstartable(instance)
        needed = [path for disk in guest.disks if not disk.source for path in (disk.file, disk.backing_file) if path]
        lost = [path for path in needed if not os.path.exists(path)]
        return f'Host {self.host} lacks the file {os.path.basename(lost[0])} of its disks.' if lost else None

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            try:
                if not self.shut_down(uuid, timeout):
                    self.hypervisor.guest('stop the guest', uuid, guests.stop)
            except exception.GuestNotFound:
                self.guest_record(uuid)          # it is off already, where there is one

    def guest_record(self, uuid: str) -> xml.Guest:
        """The guest as it is recorded.

        :raises GuestNotFound: nothing is
        """
        guest = self.storage.load(uuid)
        if guest is None:
            raise exception.GuestNotFound(instance_id=uuid)
        return guest

    def shut_down(self, uuid: str, timeout: float) -> bool:
        """Ask a running guest to shut down; True when it is off within ``timeout`` seconds.

        :raises GuestNotFound: libvirt has no such guest
        """
        deadline = time.monotonic() + timeout
        ask_at = 0.0
        while self.hypervisor.power_state(uuid) == states.RUNNING and time.monotonic() < deadline:
            if time.monotonic() >= ask_at:           # a guest that is still booting does not hear it
                self.hypervisor.guest('ask the guest to shut down', uuid, guests.ask_to_shut_down)
                ask_at = time.monotonic() + SHUTDOWN_RETRY_S
            time.sleep(POLL)
        return self.hypervisor.power_state(uuid) == states.SHUTDOWN

    def remove_unused_images(self) -> None:
        if time.monotonic() - self._images_looked_at > IMAGE_CACHE_INTERVAL or not self._images_looked_at:
            self._images_looked_at = time.monotonic()
            self.storage.remove_unused_images()
