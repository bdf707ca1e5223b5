"""Published events: name, phases, payload, condition, and name in the older form.

The notifier, the reference in the documentation, and the test of the notification samples read this table.
"""
import dataclasses

START, END, ERROR = 'start', 'end', 'error'
PAIR: tuple[str | None, ...] = (START, END)
WITH_ERROR: tuple[str | None, ...] = (START, END, ERROR)
ONCE = (None,)                    # an event without phases

COMPUTE, CONDUCTOR, API, SCHEDULER = 'nova-compute', 'nova-conductor', 'nova-api', 'nova-scheduler'


@dataclasses.dataclass(frozen=True)
class Event:
    """One kind of event.

    name      name without the phase
    when      sentence for the documentation: when the event is published
    payload   name of its row in payloads.PAYLOADS
    phases    phases of the event; for the phase None, the event type is the name without a phase
    by        the service that publishes it: the first part of the publisher's id
    legacy    name in the older form, or None
    once      whether the older form has a single event, at the end, for all phases
    """

    name: str
    when: str
    payload: str
    phases: tuple[str | None, ...] = PAIR
    by: str = COMPUTE
    legacy: str | None = None
    once: bool = False

    def types(self) -> list[str]:
        """Return the event types of all phases."""
        return [typed(self.name, phase) for phase in self.phases]

    def old_type(self, phase: str | None) -> str | None:
        """Return the event type of a phase in the older form, or None if that form does not publish the phase."""
        if self.legacy is None:
            return None
        if not self.once:
            return typed(self.legacy, phase)
        return self.legacy if phase == (END if END in self.phases else self.phases[-1]) else None

    def old_types(self) -> list[str]:
        return [name for name in map(self.old_type, self.phases) if name]


def typed(name: str, phase: str | None) -> str:
    """Return the event type of a phase."""
    return name if phase is None else f'{name}.{phase}'


def _instance(name: str, when: str, payload: str = 'InstanceActionPayload', legacy: bool | str | None = True,
              phases: tuple[str | None, ...] = PAIR, by: str = COMPUTE, once: bool = False) -> Event:
    """Return an event of a server.

    :param legacy: name in the older form, without ``compute.instance.``; True: the same name; None: not published there
    """
    old = f'compute.instance.{name if legacy is True else legacy}' if legacy else None
    return Event('instance.' + name, when, payload, phases, by, old, once)


_VOLUME, _SHARE = 'InstanceActionVolumePayload', 'InstanceActionSharePayload'

ROWS = (
    # ---- servers: operations
    _instance('create', 'A host builds a server. error: the build failed; another host may be tried.',
              'InstanceCreatePayload', phases=WITH_ERROR),
    _instance('delete', 'A server is deleted.'),
    _instance('shutdown', 'The guest of a server in deletion is removed from its host.'),
    _instance('soft_delete', 'A server is powered off and kept for a time in which it can be restored.'),
    _instance('restore', 'A soft-deleted server is restored.'),
    _instance('power_on', 'A server is started.'),
    _instance('power_off', 'A server is stopped.'),
    _instance('reboot', 'A server is rebooted, soft or hard.', phases=WITH_ERROR),
    _instance('pause', 'A server is paused.'),
    _instance('unpause', 'A paused server continues.'),
    _instance('suspend', 'A server is suspended.'),
    _instance('resume', 'A suspended server is resumed.'),
    _instance('rescue', 'A server is started from a rescue image.', 'InstanceActionRescuePayload'),
    _instance('unrescue', 'A rescued server is started from its own disk again.'),
    _instance('rebuild', 'A server is rebuilt on its host, or on another host by an evacuation.',
              'InstanceActionRebuildPayload', phases=WITH_ERROR),
    _instance('rebuild_scheduled', 'The scheduler chose a host for an evacuation.', 'InstanceActionRebuildPayload',
              phases=ONCE, by=CONDUCTOR, legacy='rebuild.scheduled'),
    _instance('evacuate', 'An evacuation was requested.', phases=ONCE, by=API),
    _instance('snapshot', 'A snapshot or a backup of a server is created.', 'InstanceActionSnapshotPayload'),
    _instance('shelve', 'A server is shelved: its disk is stored as an image.'),
    _instance('shelve_offload', 'A shelved server is removed from its host.'),
    _instance('unshelve', 'A shelved server is started again.'),
    _instance('lock', 'A server was locked.', phases=ONCE, by=API, legacy=None),
    _instance('unlock', 'A server was unlocked.', phases=ONCE, by=API, legacy=None),
    _instance('trigger_crash_dump', 'A crash dump is triggered in the guest.'),
    # ---- moves
    _instance('resize_prep', 'A destination checks whether it has room for a resize or migration.',
              'InstanceActionResizePrepPayload', legacy='resize.prep'),
    _instance('resize', 'The source shuts down the guest. error: the move failed, or a destination refused it.',
              phases=WITH_ERROR),
    _instance('resize_finish', 'The destination creates the guest.', legacy='finish_resize'),
    _instance('resize_confirm', 'The source removes the guest of a resized or migrated server.',
              legacy='resize.confirm'),
    _instance('resize_revert', 'A resized or migrated server returns to its source.', legacy='resize.revert'),
    _instance('live_migration_pre', 'The destination prepares a live migration.', legacy='live_migration.pre'),
    _instance('live_migration_post', 'The guest runs at the destination, which now owns the server.',
              legacy='live_migration._post'),
    _instance('live_migration_post_dest', 'The destination finishes a live migration.',
              legacy='live_migration.post.dest'),
    _instance('live_migration_rollback', 'A live migration is rolled back at the source.',
              legacy='live_migration._rollback'),
    _instance('live_migration_rollback_dest', 'The destination undoes its preparation of a live migration.',
              legacy='live_migration.rollback.dest'),
    _instance('live_migration_abort', 'The source aborts a live migration on request.',
              legacy='live.migration.abort'),
    _instance('live_migration_force_complete', 'The source forces a live migration to complete on request.',
              legacy='live.migration.force.complete'),
    # ---- attachments and other background actions
    _instance('interface_attach', 'A port is attached to a server.', phases=WITH_ERROR, legacy=None),
    _instance('interface_detach', 'A port is detached from a server.', legacy=None),
    _instance('volume_attach', 'A volume is attached to a server.', _VOLUME, phases=WITH_ERROR, legacy='volume.attach',
              once=True),
    _instance('volume_detach', 'A volume is detached from a server.', _VOLUME, legacy='volume.detach', once=True),
    _instance('volume_swap', 'A volume replaces another one.', 'InstanceActionVolumeSwapPayload',
              phases=WITH_ERROR, legacy=None),
    _instance('share_attach', 'A share is attached to a server.', _SHARE, phases=WITH_ERROR, legacy=None),
    _instance('share_detach', 'A share is detached from a server.', _SHARE, phases=WITH_ERROR, legacy=None),
    # ---- state and usage
    _instance('update', 'A server was requested, renamed or tagged, or its state changed and '
                        '``notify_on_state_change`` covers the change.', 'InstanceUpdatePayload', phases=ONCE),
    _instance('exists', 'An audit period ended: one event for each server that existed in it. Needs '
                        '``instance_usage_audit``.', 'InstanceExistsPayload', phases=ONCE),
    # ---- failures
    Event('compute.exception', 'A task of a host failed.', 'ExceptionPayload', (ERROR,)),
    Event('compute_task.build_instances', 'The build of a server failed.', 'ComputeTaskPayload', (ERROR,), CONDUCTOR,
          legacy='compute_task.build_instances', once=True),
    Event('compute_task.migrate_server', 'A resize or migration found no destination.',
          'ComputeTaskPayload', (ERROR,), CONDUCTOR, legacy='compute_task.migrate_server', once=True),
    Event('compute_task.rebuild_server', 'An evacuation found no destination.',
          'ComputeTaskPayload', (ERROR,), CONDUCTOR, legacy='compute_task.rebuild_server', once=True),
    # ---- everything else
    Event('scheduler.select_destinations', 'The scheduler chooses and claims hosts for new servers.',
          'RequestSpecPayload', by=SCHEDULER, legacy='scheduler.select_destinations'),
    Event('service.create', 'A service reported for the first time.', 'ServiceStatusPayload', ONCE),
    Event('service.update', 'A service was enabled, disabled or forced down.', 'ServiceStatusPayload', ONCE),
    Event('service.delete', 'A service was removed.', 'ServiceStatusPayload', ONCE),
    Event('metrics.update', 'A host reported measurements (``compute_monitors``).', 'MetricsPayload', ONCE,
          legacy='compute.metrics.update'),
    Event('flavor.create', 'A flavor was created.', 'FlavorPayload', ONCE, API),
    Event('flavor.update', 'A flavor, its extra specs or its access list was changed.', 'FlavorPayload', ONCE, API),
    Event('flavor.delete', 'A flavor was deleted.', 'FlavorPayload', ONCE, API),
    Event('keypair.create', 'A key pair was generated.', 'KeypairPayload', by=API, legacy='keypair.create'),
    Event('keypair.import', 'A public key was imported.', 'KeypairPayload', by=API, legacy='keypair.import'),
    Event('keypair.delete', 'A key pair was deleted.', 'KeypairPayload', by=API, legacy='keypair.delete'),
    Event('aggregate.create', 'An aggregate was created.', 'AggregatePayload', by=API, legacy='aggregate.create'),
    Event('aggregate.delete', 'An aggregate was deleted.', 'AggregatePayload', by=API, legacy='aggregate.delete'),
    Event('aggregate.add_host', 'A host was added to an aggregate.', 'AggregatePayload', by=API,
          legacy='aggregate.addhost'),
    Event('aggregate.remove_host', 'A host was removed from an aggregate.', 'AggregatePayload', by=API,
          legacy='aggregate.removehost'),
    Event('aggregate.update_metadata', "An aggregate's metadata was changed.", 'AggregatePayload', by=API,
          legacy='aggregate.updatemetadata'),
    Event('aggregate.update_prop', "An aggregate's name or availability zone was changed.", 'AggregatePayload', by=API,
          legacy='aggregate.updateprop'),
    Event('server_group.create', 'A server group was created.', 'ServerGroupPayload', ONCE, API,
          legacy='servergroup.create'),
    Event('server_group.delete', 'A server group was deleted.', 'ServerGroupPayload', ONCE, API,
          legacy='servergroup.delete'),
)

EVENTS = {row.name: row for row in ROWS}

# {documented event that this service never publishes: reason}
NEVER = {
    'server_group.add_member': 'A server joins its group when it is created, which instance.create reports.',
    'aggregate.cache_images': 'Clients can read the progress of pre-caching from the aggregate at any time.',
    'volume.usage': 'Hosts do not measure the I/O of volumes.',
    'libvirt.connect': 'Operations that fail because libvirt cannot be reached are published as compute.exception.',
}
