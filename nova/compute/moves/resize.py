"""Cold moves on the hosts: resize and migrate, with confirmation and revert.

Each step is one message of a conductor. The step ends with a call to a conductor, which decides the next step
(conductor/moves/cold.py). After a crash or a lost message the conductor repeats the request. A repeated request has
no effect if the step is already complete.
"""
import contextlib
import logging

from nova import actions
from nova import context
from nova import exception
from nova import hooks
from nova import objects
from nova.objects.network_info import Vif
from nova import states
from nova.compute import build
from nova.compute import orphans
from nova.compute import records
from nova.compute import tasks
from nova.compute import volumes
from nova.compute.host import Host
from nova.objects import faults
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)


class Resize:
    """Runs the steps of cold moves."""

    def __init__(self, host: Host, volumes: volumes.Volumes, orphans: orphans.Orphans) -> None:
        self._host, self._volumes, self._orphans = host, volumes, orphans

    def prep_resize(self, ctx: context.RequestContext, instance: objects.Instance,
                    migration: objects.Migration) -> None:
        """On the destination: check whether the host can take the server."""
        self._host.submit(instance, self._prep, ctx, instance, migration)

    def _prep(self, ctx: context.RequestContext, instance: objects.Instance,
              migration: objects.Migration) -> None:
        host = self._host
        try:
            resize = host.driver.get_feature(virt.Resize)
            if resize is None:
                raise exception.Unsupported(f'Host {host.name} cannot take servers of other hosts.')
            resize.accept_guest(ctx, instance, migration.new_flavor)
        except Exception as error:
            host.moves.move_refused(ctx, migration_id=migration.id, host=host.name,
                                    fault=faults.fault(error, details=faults.trace(error)))
            return
        host.moves.move_accepted(ctx, migration_id=migration.id, host=host.name)

    def resize_instance(self, ctx: context.RequestContext, instance: objects.Instance,
                        migration: objects.Migration) -> None:
        """On the source: stop the guest, send it to the destination and keep its files for a revert ("put aside")."""
        self._host.submit(instance, self._send, ctx, instance, migration)

    def _send(self, ctx: context.RequestContext, instance: objects.Instance,
              migration: objects.Migration) -> None:
        with self._step(ctx, instance, migration, actions.SEND) as task:
            self._put_aside(ctx, task.instance, migration, task)

    @hooks.add_hook('resize_hook')
    def _put_aside(self, ctx: context.RequestContext, server: objects.Instance,
                   migration: objects.Migration, task: tasks.Task) -> None:
        host = self._host
        task.undo(self._take_back, ctx, server, server.vm_state == states.ACTIVE)
        timeout = host.conf.shutdown_timeout if migration.arguments.get('clean_shutdown', True) else 0
        guest = host.driver_with(virt.Resize).send_guest(
            ctx, server, migration.dest_compute, server.network_info, timeout)
        task.keeps_for_return = True

        def sent() -> None:
            host.moves.move_sent(ctx, migration_id=migration.id, host=host.name, guest=guest)
            host.records.note_left(server.uuid, server.generation + 1)     # move_sent increases the generation
        task.ends_with(sent)

    def finish_resize(self, ctx: context.RequestContext, instance: objects.Instance,
                      migration: objects.Migration, spec: objects.RequestSpec) -> None:
        """On the destination: create the guest from the files of the source."""
        self._host.submit(instance, self._finish, ctx, instance, migration, spec, build=True)

    def _finish(self, ctx: context.RequestContext, instance: objects.Instance,
                migration: objects.Migration, spec: objects.RequestSpec) -> None:
        host = self._host
        with self._step(ctx, instance, migration, actions.FINISH) as task:
            server, resize = task.instance, host.driver_with(virt.Resize)
            task.undo(self._volumes.disconnect, ctx, server)
            task.undo_guest(resize.drop_migrated, ctx, server, server.network_info)
            networks = host.set_up_networks(ctx, server)
            devices = self._volumes.connect(ctx, server, spec)
            request = build.spawn_request(host, task, server, spec, networks, devices)
            resize.finish_migration(task.ctx, server, migration.arguments['guest'], request,
                                    power_on=server.vm_state == states.ACTIVE)
            self._volumes.complete(ctx, server, devices)
            power_state = host.driver.power_state(server)
            task.ends_with(lambda: host.moves.move_finished(
                ctx, migration_id=migration.id, host=host.name, power_state=power_state, network_info=networks))

    def confirm_resize(self, ctx: context.RequestContext, instance: objects.Instance,
                       migration: objects.Migration) -> None:
        """On the source: remove the files kept for a revert."""
        self._host.submit(instance, self._confirm, ctx, instance, migration)

    def _confirm(self, ctx: context.RequestContext, instance: objects.Instance,
                 migration: objects.Migration) -> None:
        host = self._host
        with self._step(ctx, instance, migration, actions.CONFIRM, lives_on=migration.dest_compute) as task:
            host.driver_with(virt.Resize).confirm_migration(ctx, task.instance, task.instance.network_info)
            task.ends_with(lambda: host.moves.move_confirmed(ctx, migration_id=migration.id, host=host.name))

    def revert_resize(self, ctx: context.RequestContext, instance: objects.Instance,
                      migration: objects.Migration) -> None:
        """On the destination: remove the guest."""
        self._host.submit(instance, self._revert, ctx, instance, migration)

    def _revert(self, ctx: context.RequestContext, instance: objects.Instance,
                migration: objects.Migration) -> None:
        host = self._host
        with self._step(ctx, instance, migration, actions.REVERT) as task:
            host.driver_with(virt.Resize).drop_migrated(ctx, task.instance, task.instance.network_info)
            self._volumes.disconnect(ctx, task.instance)
            task.leaves = True
            task.ends_with(lambda: host.moves.reverted_guest_removed(ctx, migration_id=migration.id, host=host.name))

    def finish_revert_resize(self, ctx: context.RequestContext, instance: objects.Instance,
                             migration: objects.Migration) -> None:
        """On the source: restore the guest as it was."""
        self._host.submit(instance, self._finish_revert, ctx, instance, migration)

    def _finish_revert(self, ctx: context.RequestContext, instance: objects.Instance,
                       migration: objects.Migration) -> None:
        host = self._host
        with self._step(ctx, instance, migration, actions.TAKE_BACK) as task:
            server = task.instance
            networks = self._take_back(ctx, server, migration.arguments['old_vm_state'] == states.ACTIVE)
            power_state = host.driver.power_state(server)
            task.ends_with(lambda: host.moves.move_reverted(
                ctx, migration_id=migration.id, host=host.name, power_state=power_state, network_info=networks))

    def grow_instance(self, ctx: context.RequestContext, instance: objects.Instance,
                      migration: objects.Migration) -> None:
        """Resize the guest while it runs."""
        self._host.submit(instance, self._grow, ctx, instance, migration)

    def _grow(self, ctx: context.RequestContext, instance: objects.Instance,
              migration: objects.Migration) -> None:
        host = self._host
        with self._step(ctx, instance, migration, actions.GROW) as task:
            growth = host.driver.get_feature(virt.Growth)
            if growth is None:
                raise exception.Unsupported(f'Host {host.name} cannot add CPUs and memory to running guests.')
            growth.grow(task.instance, migration.new_flavor)
            power_state = host.driver.power_state(task.instance)
            task.ends_with(lambda: host.moves.move_finished(
                ctx, migration_id=migration.id, host=host.name, power_state=power_state,
                network_info=task.instance.network_info))

    def discard_migrated_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Remove the files of a server that is deleted or on another host."""
        self._host.submit(instance, self._drop, ctx, instance)

    def _drop(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        if host.records.get(instance.uuid) and not self._orphans.may_remove(ctx, instance.uuid, records.GUEST):
            LOG.warning('The guest of server %s is newer than its database row: it is not removed.', instance.uuid)
            return
        host.driver.destroy(ctx, instance, [])
        host.records.forget(instance.uuid)

    # ---- helpers of the steps ----

    def _step(self, ctx: context.RequestContext, instance: objects.Instance, migration: objects.Migration,
              step: actions.Step, lives_on: str | None = None) -> contextlib.AbstractContextManager[tasks.Task]:
        """Return the context manager of a step; it reports a failure to a conductor."""
        host = self._host

        def give_up(task: tasks.Task, error: Exception) -> None:
            fault = faults.fault(error, details=faults.trace(error))
            host.moves.move_failed(ctx, migration_id=migration.id, host=host.name, event=step.frame.task_event,
                                   fault=fault)
        return tasks.task(host, ctx, instance, step.frame, give_up=give_up, lives_on=lives_on)

    def _take_back(self, ctx: context.RequestContext, server: objects.Instance, power_on: bool,
                   ) -> list[Vif]:
        """Restore a guest that was put aside here; return its VIFs, plugged on this host again."""
        host = self._host
        networks = host.set_up_networks(ctx, server)
        volumes = self._volumes.connect(ctx, server, objects.RequestSpec(block_devices=[]))
        host.driver_with(virt.Resize).finish_revert_migration(ctx, server, networks, volumes, power_on)
        self._volumes.complete(ctx, server, volumes)
        return networks

    def recover(self) -> None:
        """At start-up: continue the moves of this host; restore guests that are put aside although no move is open."""
        host = self._host
        ctx = context.admin_context()
        resize = host.driver.get_feature(virt.Resize)
        backups = resize.resize_backups() if resize else []
        for entry in host.moves.continue_moves(ctx, host=host.name, resize_backups=backups):
            server = entry['instance']
            if why := records.refusal(host.records.get(server.uuid), server, None, ''):
                LOG.error('The resize backup of server %s is kept: %s.', server.uuid, why)
                host.records.dispute(server.uuid)
            elif entry['restore']:
                host.submit(server, self._take_back, ctx, server, server.vm_state == states.ACTIVE)
