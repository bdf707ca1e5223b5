"""Cold moves on the hosts: resize and migrate, their confirmation and their way back.

Each step is one message of a conductor and ends with one of its calls, which decides what comes next
(conductor/migrate.py). A step that is asked for again, after a crash or a lost message, is done again or, when the
server has gone on meanwhile, ends at its beginning.
"""
from nova import context
from nova import exception
from nova import hooks
from nova import objects
from nova import states
from nova.compute import build
from nova.objects import faults
from nova.virt import driver as virt


class Resize:
    """The part of the compute's manager that moves servers; mixed into it."""

    def prep_resize(self, ctx, instance, migration):
        """On the destination: look whether it can take the server."""
        self.queue.submit(instance.uuid, self._prep, ctx, instance, migration)

    def _prep(self, ctx, instance, migration):
        try:
            if not isinstance(self.driver, virt.Resize):
                raise exception.Unsupported(f'Host {self.host} cannot take servers of other hosts.')
            self.driver.accept_guest(ctx, instance, migration.new_flavor)
        except Exception as error:
            self.conductor.move_refused(ctx, migration_id=migration.id, host=self.host,
                                        fault=faults.fault(error, details=faults.trace(error)))
            return
        self.conductor.move_accepted(ctx, migration_id=migration.id, host=self.host)

    def resize_instance(self, ctx, instance, migration):
        """On the source: stop the guest and put it aside."""
        self.queue.submit(instance.uuid, self._send, ctx, instance, migration)

    def _send(self, ctx, instance, migration):
        event = 'compute_resize_instance'
        with self._step(ctx, instance, migration, event, (states.RESIZE_PREP, states.RESIZE_MIGRATING),
                        begin={'task_state': states.RESIZE_MIGRATING}) as task:
            self._put_aside(ctx, task.instance, migration, task)

    @hooks.add_hook('resize_hook')
    def _put_aside(self, ctx, server, migration, task):
        task.undo(self._take_back, ctx, server, server.vm_state == states.ACTIVE)
        timeout = self.conf.shutdown_timeout if migration.arguments.get('clean_shutdown', True) else 0
        guest = self.driver.send_guest(ctx, server, migration.dest_compute, server.network_info, timeout)
        task.ends_with(lambda: self.conductor.move_sent(
            ctx, migration_id=migration.id, host=self.host, guest=guest))

    def finish_resize(self, ctx, instance, migration, spec):
        """On the destination: make the guest of what the source put aside."""
        self.queue.submit(instance.uuid, self._finish, ctx, instance, migration, spec, build=True)

    def _finish(self, ctx, instance, migration, spec):
        with self._step(ctx, instance, migration, 'compute_finish_resize',
                        (states.RESIZE_MIGRATED, states.RESIZE_FINISH),
                        begin={'task_state': states.RESIZE_FINISH}) as task:
            server = task.instance
            task.undo(self.disconnect_volumes, ctx, server)
            task.undo(self.driver.drop_migrated, ctx, server, server.network_info)
            networks = self._networks(ctx, server)
            devices = self.block_devices(ctx, server, spec)
            request = build.spawn_request(task.ctx, self.images, server, spec, networks, devices, self.dhcp_domain)
            self.driver.finish_migration(task.ctx, server, migration.arguments['guest'], request,
                                         power_on=server.vm_state == states.ACTIVE)
            self.complete_volumes(ctx, server, devices)
            power_state = self.driver.power_state(server)
            task.ends_with(lambda: self.conductor.move_finished(
                ctx, migration_id=migration.id, host=self.host, power_state=power_state, network_info=networks))

    def confirm_resize(self, ctx, instance, migration):
        """On the source: forget what was kept for a revert."""
        self.queue.submit(instance.uuid, self._confirm, ctx, instance, migration)

    def _confirm(self, ctx, instance, migration):
        with self._step(ctx, instance, migration, 'compute_confirm_resize', (states.RESIZE_CONFIRMING,),
                        lives_on=migration.dest_compute) as task:
            self.driver.confirm_migration(ctx, task.instance, task.instance.network_info)
            task.ends_with(lambda: self.conductor.move_confirmed(ctx, migration_id=migration.id, host=self.host))

    def revert_resize(self, ctx, instance, migration):
        """On the destination: remove the guest."""
        self.queue.submit(instance.uuid, self._revert, ctx, instance, migration)

    def _revert(self, ctx, instance, migration):
        with self._step(ctx, instance, migration, 'compute_revert_resize', (states.RESIZE_REVERTING,)) as task:
            self.driver.drop_migrated(ctx, task.instance, task.instance.network_info)
            self.disconnect_volumes(ctx, task.instance)
            task.ends_with(lambda: self.conductor.move_dropped(ctx, migration_id=migration.id, host=self.host))

    def finish_revert_resize(self, ctx, instance, migration):
        """On the source: bring the guest back as it was."""
        self.queue.submit(instance.uuid, self._finish_revert, ctx, instance, migration)

    def _finish_revert(self, ctx, instance, migration):
        with self._step(ctx, instance, migration, 'compute_finish_revert_resize',
                        (states.RESIZE_REVERTING,)) as task:
            server = task.instance
            networks = self._take_back(ctx, server, migration.arguments['old_vm_state'] == states.ACTIVE)
            power_state = self.driver.power_state(server)
            task.ends_with(lambda: self.conductor.move_reverted(
                ctx, migration_id=migration.id, host=self.host, power_state=power_state, network_info=networks))

    def drop_moved(self, ctx, instance):
        """The server is deleted, or lives elsewhere: nothing of it stays on this host."""
        self.queue.submit(instance.uuid, self.driver.destroy, ctx, instance, [])

    # ---- inside ----

    def _step(self, ctx, instance, migration, event, running, **more):
        """The frame of a step: its failure is a conductor's to decide about."""
        def failed(task, error):
            fault = faults.fault(error, details=faults.trace(error))
            self.conductor.move_failed(ctx, migration_id=migration.id, host=self.host, event=event, fault=fault)
        return self.task(ctx, instance, event, running=running, on_failure=failed, **more)

    def _take_back(self, ctx, server, power_on):
        """Bring back a guest that was put aside here; its VIFs, plumbed on this host again."""
        networks = self._networks(ctx, server)
        volumes = self.block_devices(ctx, server, objects.RequestSpec(block_devices=[]))
        self.driver.finish_revert_migration(ctx, server, networks, volumes, power_on)
        self.complete_volumes(ctx, server, volumes)
        return networks

    def recover_moves(self):
        """At the start: go on with the moves of this host, and look after guests that were put aside for none."""
        ctx = context.admin_context()
        kept = self.driver.kept_guests() if isinstance(self.driver, virt.Resize) else []
        for entry in self.conductor.continue_moves(ctx, host=self.host, kept=kept):
            server = entry['instance']
            if entry['returns']:
                self.queue.submit(server.uuid, self._take_back, ctx, server, server.vm_state == states.ACTIVE)
            else:
                self.queue.submit(server.uuid, self.driver.confirm_migration, ctx, server, [])
