"""Records and power states of virtual machines and containers, and operations that change power states."""
import contextlib
import threading
import time
from collections.abc import Iterator

from nova import exception
from nova import states
from nova.virt.libvirt import calls
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage
from nova.virt.libvirt.xml import Guest

POLL_INTERVAL_S = 0.2                    # seconds between two polls of a guest
RELEASE_S = 60                           # timeout in seconds until the guest OS has released a device
RELEASE_RETRY_S = 5                      # interval of requests to release a device; a booting guest ignores requests
RELEASE_POLL_S = 0.05                    # poll interval; a guest normally releases a device within 0.1 seconds
SHUTDOWN_RETRY_S = 10                    # interval of shutdown requests; a booting guest ignores requests
IMAGE_CACHE_INTERVAL = 3600              # seconds between two cleanups of the image cache


class GuestPower:
    """Stop guests, read their records and states, and defer events of a guest during operations on this guest."""

    def __init__(self, storage: Storage, hypervisor: Host) -> None:
        self.storage, self.hypervisor = storage, hypervisor
        self._lock = threading.Lock()
        self._busy: dict[str, int] = {}          # {uuid: number of operations in progress}
        self._pending: set[str] = set()          # guests with a deferred event
        self._images_cleaned_at = 0.0

    @contextlib.contextmanager
    def operation(self, uuid: str) -> Iterator[None]:
        """Defer the events of a guest until the end of the block, so that no intermediate state is reported."""
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

    def hold_event(self, uuid: str) -> bool:
        """Return whether to ignore an event, because an operation in progress reports the event later."""
        with self._lock:
            if uuid in self._busy:
                self._pending.add(uuid)
                return True
        return False

    def record(self, uuid: str) -> Guest:
        """Read the record of a guest.

        :raises GuestNotFound: the guest has no record
        """
        guest = self.storage.load(uuid)
        if guest is None:
            raise exception.GuestNotFound(instance_id=uuid)
        return guest

    def power_state(self, uuid: str) -> int:
        """Return the power state of a guest. A guest with a record but without a definition in libvirt is off.

        :raises GuestNotFound: the guest has neither a definition nor a record
        """
        try:
            return self.hypervisor.power_state(uuid)
        except exception.GuestNotFound:
            if self.storage.load(uuid):
                return states.SHUTDOWN
            raise

    def is_active(self, uuid: str) -> bool:
        """Return whether the guest runs or is paused."""
        try:
            return self.hypervisor.power_state(uuid) in (states.RUNNING, states.POWER_PAUSED)
        except exception.GuestNotFound:
            return False

    def power_off(self, uuid: str, timeout: float = 0) -> None:
        """Request a shutdown from the guest. If the guest is not off after ``timeout`` seconds, power it off.

        :raises GuestNotFound: the guest has neither a definition nor a record
        """
        with self.operation(uuid):
            try:
                if not self.shut_down(uuid, timeout):
                    self.hypervisor.guest('stop the guest', uuid, calls.stop)
            except exception.GuestNotFound:
                self.record(uuid)        # without a record, raise GuestNotFound; with a record, the guest is off

    def shut_down(self, uuid: str, timeout: float) -> bool:
        """Request a shutdown from a running guest. Return whether the guest is off after at most ``timeout`` seconds.

        :raises GuestNotFound: libvirt has no definition of the guest
        """
        deadline = time.monotonic() + timeout
        ask_at = 0.0
        while self.hypervisor.power_state(uuid) == states.RUNNING and time.monotonic() < deadline:
            if time.monotonic() >= ask_at:
                self.hypervisor.guest('ask the guest to shut down', uuid, calls.ask_to_shut_down)
                ask_at = time.monotonic() + SHUTDOWN_RETRY_S
            time.sleep(POLL_INTERVAL_S)
        return self.hypervisor.power_state(uuid) == states.SHUTDOWN

    def unplug(self, operation: str, uuid: str, text: str, path: str) -> None:
        """Unplug a device from a running guest. When the guest has released the device, remove it from the definition.

        :param text, path: as in calls.plug
        :raises VirtError: the guest does not release the device
        """
        deadline, ask_at = time.monotonic() + RELEASE_S, 0.0
        while self.hypervisor.guest(operation, uuid, calls.holds_device, path):
            if time.monotonic() > deadline:
                raise exception.VirtError(operation=operation, reason='the guest does not release it')
            if time.monotonic() >= ask_at:
                self.hypervisor.guest(operation, uuid, calls.ask_to_unplug, text, path)
                ask_at = time.monotonic() + RELEASE_RETRY_S
            time.sleep(RELEASE_POLL_S)
        self.hypervisor.guest(operation, uuid, calls.undefine_device, text, path)

    def remove_unused_images(self) -> None:
        """Remove unused images from the image cache, unless this was done in the last IMAGE_CACHE_INTERVAL."""
        if time.monotonic() - self._images_cleaned_at > IMAGE_CACHE_INTERVAL or not self._images_cleaned_at:
            self._images_cleaned_at = time.monotonic()
            self.storage.remove_unused_images()
