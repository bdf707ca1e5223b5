"""Power operations: start, stop, reboot, pause, suspend and their opposites."""
from nova import states


class Power:
    """The part of the compute's manager with the power operations; mixed into it."""

    def start_instance(self, ctx, instance):
        def body(server):
            self.driver.power_on(ctx, server, self._networks(ctx, server))
        self._power(ctx, instance, 'start', 'os-start', body)

    def stop_instance(self, ctx, instance, clean_shutdown):
        timeout = self.conf.shutdown_timeout if clean_shutdown else 0
        self._power(ctx, instance, 'stop', 'os-stop', lambda server: self.driver.power_off(server, timeout))

    def reboot_instance(self, ctx, instance, reboot_type):
        hard = reboot_type == 'HARD'

        def body(server):
            networks = self._networks(ctx, server) if hard else server.network_info
            self.driver.reboot(ctx, server, networks, hard)
        started = states.REBOOT_STARTED_HARD if hard else states.REBOOT_STARTED
        pending = states.REBOOT_PENDING_HARD if hard else states.REBOOT_PENDING
        self._power(ctx, instance, 'reboot', 'reboot-hard' if hard else 'reboot', body,
                    later=(pending, started), begin={'task_state': started}, failed={'vm_state': states.ERROR})

    def pause_instance(self, ctx, instance):
        self._power(ctx, instance, 'pause', 'pause', self.driver.pause)

    def unpause_instance(self, ctx, instance):
        self._power(ctx, instance, 'unpause', 'unpause', self.driver.unpause)

    def suspend_instance(self, ctx, instance):
        self._power(ctx, instance, 'suspend', 'suspend', self.driver.suspend)

    def resume_instance(self, ctx, instance):
        def body(server):
            self.driver.resume(ctx, server, self._networks(ctx, server))
        self._power(ctx, instance, 'resume', 'resume', body)

    def _networks(self, ctx, server):
        """The server's VIFs, with this host's plumbing in place."""
        return self.network.setup_for_instance(ctx, instance=server, host=self.host)

    def _power(self, ctx, instance, name, action_name, body, *, later=(), begin=None, failed=None):
        action = states.ACTIONS[action_name]
        self.queue.submit(instance.uuid, self._do_power, ctx, instance, f'compute_{name}_instance', action, body,
                          later, begin, failed)

    def _do_power(self, ctx, instance, event, action, body, later, begin, failed):
        with self.task(ctx, instance, event, running=(action.running, *later), begin=begin,
                       failed=failed) as task:
            body(task.instance)
            task.ends(vm_state=action.after, power_state=self.driver.power_state(task.instance))
