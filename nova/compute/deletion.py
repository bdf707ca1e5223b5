"""Deletion of servers: immediately, or as a soft delete with a period for a restore."""
import contextlib

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.compute import device_addresses
from nova.compute import tasks
from nova.compute.host import Host
from nova.compute.moves import live_migration
from nova.virt import driver as virt


class Deletion:
    """Deletes and restores servers."""

    def __init__(self, host: Host, live_migration: live_migration.LiveMigration) -> None:
        self._host, self._live_migration = host, live_migration

    def terminate_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._live_migration.stop(instance)
        self._host.submit(instance, self._terminate, ctx, instance)

    def _terminate(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['delete'].frame) as task:
            host.driver.destroy(ctx, task.instance, task.instance.network_info)
            host.network.deallocate_for_instance(ctx, instance_uuid=instance.uuid, host=None)
            task.leaves = True
            task.ends_with(lambda: host.conductor.instance_destroyed(
                ctx, instance_uuid=instance.uuid, host=host.name))

    # ---- soft delete

    def soft_delete_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Switch the server off and keep it."""
        self._host.submit(instance, self._soft_delete, ctx, instance)

    def _soft_delete(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['softDelete'].frame) as task:
            power_state = states.NOSTATE
            with contextlib.suppress(exception.GuestNotFound):       # there is no guest to switch off
                if task.instance.vm_state == states.RESCUED:
                    networks = host.set_up_networks(ctx, task.instance)
                    host.driver_with(virt.Rescue).unrescue(ctx, task.instance, networks)
                host.driver.power_off(task.instance)
                power_state = host.driver.power_state(task.instance)
            task.ends(power_state=power_state, deleted_at=utils.utcnow())

    def restore_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._host.submit(instance, self._restore, ctx, instance)

    def _restore(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['restore'].frame) as task:
            host.driver.power_on(ctx, task.instance, host.set_up_networks(ctx, task.instance))
            device_addresses.record(host, ctx, task.instance)
            task.ends(power_state=host.driver.power_state(task.instance), deleted_at=None)
