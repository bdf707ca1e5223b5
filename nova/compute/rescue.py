"""Rescue: a server runs temporarily from another image, to be repaired."""
import contextlib

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova.objects.network_info import Vif
from nova import states
from nova import utils
from nova.compute import device_addresses
from nova.compute import tasks
from nova.compute.host import Host
from nova.virt import driver as virt
from nova.virt import metadata


class _WayBack:
    """Restores a server after a failed rescue: reconnects its disks to the guest, and starts it if it was running.

    runs   whether the guest was running before the rescue. A repeated rescue finds the guest of an active server off
    begun  whether the guest may already have the rescue disk
    """

    def __init__(self, host: Host, ctx: context.RequestContext, task: tasks.Task,
                 networks: list[Vif]) -> None:
        self._host, self._ctx, self._task, self._networks = host, ctx, task, networks
        self.runs = self.begun = False

    def take(self) -> None:
        server, driver = self._task.instance, self._host.driver
        if self.begun:
            self._host.driver_with(virt.Rescue).unrescue(self._ctx, server, self._networks)
            if not self.runs:
                driver.power_off(server)
        elif self.runs:
            driver.power_on(self._ctx, server, self._networks)
        self._task.on_failure = None


class Rescue:
    """Rescues and unrescues servers."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def rescue_instance(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str,
                        admin_password: str | None, clean_shutdown: bool) -> None:
        self._host.submit(instance, self._rescue, ctx, instance, image_id, admin_password, clean_shutdown,
                          build=True)

    def _rescue(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str,
                admin_password: str | None, clean_shutdown: bool) -> None:
        """Rescue a server. After a crash the task starts again with a new rescue disk."""
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['rescue'].frame) as task:
            server = task.instance
            image = host.images.show(task.ctx, image_id)
            devices = host.volumes.get_block_devices(ctx, instance_uuid=server.uuid)
            networks = host.set_up_networks(ctx, server)
            way_back = _WayBack(host, ctx, task, networks)
            task.undo(way_back.take)
            with contextlib.suppress(exception.GuestNotFound):       # a server in ERROR may have no guest
                way_back.runs = host.driver.power_state(server) == states.RUNNING or server.vm_state == states.ACTIVE
                host.driver.power_off(server, host.conf.shutdown_timeout if clean_shutdown else 0)
            drive = None
            if server.config_drive:              # the rescue system reads its password from the config drive
                drive = metadata.files(server, networks, [], admin_password, host.conf.metadata.dhcp_domain, devices)
            way_back.begun = True
            host.driver_with(virt.Rescue).rescue(task.ctx, server, networks, image, admin_password or '', devices,
                                                 drive)
            task.keep()
            task.ends(power_state=host.driver.power_state(server), launched_at=utils.utcnow())

    def unrescue_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._host.submit(instance, self._unrescue, ctx, instance)

    def _unrescue(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['unrescue'].frame) as task:
            host.driver_with(virt.Rescue).unrescue(ctx, task.instance, host.set_up_networks(ctx, task.instance))
            device_addresses.record(host, ctx, task.instance)
            task.ends(power_state=host.driver.power_state(task.instance))
