"""RPC methods of a compute host; each goes to ``compute.<host>``. ``instance`` is an objects.Instance."""
from nova.rpc.interface import Interface, Method, Newer

INTERFACE = Interface(
    'compute', '1.2',
    Method('build_instance', ('instance', 'spec')),
    Method('terminate_instance', ('instance',)),
    Method('start_instance', ('instance',)),
    Method('stop_instance', ('instance', 'clean_shutdown')),
    Method('reboot_instance', ('instance', 'reboot_type')),          # 'SOFT' or 'HARD'
    Method('pause_instance', ('instance',)),
    Method('unpause_instance', ('instance',)),
    Method('suspend_instance', ('instance',)),
    Method('resume_instance', ('instance',)),
    Method('rebuild_instance', ('instance', 'spec', 'preserve_ephemeral')),
    Method('snapshot_instance', ('instance', 'image_id')),
    # -> the VIF that was plugged; what it can raise stands in compute/ports/interfaces.py
    # It waits behind the tasks of its server: few threads of the service may do so.
    Method('attach_interface', ('instance', 'port_id', 'network_id', 'fixed_ip', 'tag'), call=True, timeout=180,
           at_once=16),
    Method('detach_interface', ('instance', 'port_id')),
    # one more address for the server's port in a network, and one less
    Method('add_fixed_ip', ('instance', 'network_id')),
    Method('remove_fixed_ip', ('instance', 'address')),
    # an interrupted background action, see compute/background_actions.py; the context is that of its request
    Method('take_up', ('instance', 'action', 'arguments')),
    Method('attach_volume', ('instance', 'bdm_uuid')),
    Method('detach_volume', ('instance', 'bdm_uuid')),
    Method('attach_share', ('instance', 'share_id')),
    Method('detach_share', ('instance', 'share_id')),
    Method('swap_volume', ('instance', 'bdm_uuid', 'new_volume_id', 'new_attachment_id')),
    Method('backup_instance', ('instance', 'image_id', 'backup_type', 'rotation')),
    Method('rescue_instance', ('instance', 'image_id', 'admin_password', 'clean_shutdown')),
    Method('unrescue_instance', ('instance',)),
    Method('shelve_instance', ('instance', 'image_id', 'clean_shutdown')),
    Method('shelve_offload_instance', ('instance',)),
    Method('unshelve_instance', ('instance', 'spec')),
    Method('set_admin_password', ('instance', 'admin_password')),
    Method('trigger_crash_dump', ('instance',)),
    Method('inject_network_info', ('instance',)),
    Method('soft_delete_instance', ('instance',)),
    Method('restore_instance', ('instance',)),
    # -> dict, see compute/guest_operations.py
    Method('get_diagnostics', ('instance',), call=True),
    # where a console of the kind ('vnc', 'spice', 'serial', 'mks') is -> dict, see virt.driver.Consoles
    Method('get_console', ('instance', 'kind'), call=True),
    # what the screen shows: JPEG in base64, at most screenshots.MOST_BYTES of it -> str
    Method('get_console_screenshot', ('instance',), call=True, timeout=30, since='1.2'),
    # ---- cold moves: compute/moves/resize.py; migration is an objects.Migration ----
    Method('prep_resize', ('instance', 'migration')),                # on the destination
    Method('resize_instance', ('instance', 'migration')),            # on the source
    Method('finish_resize', ('instance', 'migration', 'spec')),      # on the destination
    Method('confirm_resize', ('instance', 'migration')),             # on the source
    Method('revert_resize', ('instance', 'migration')),              # on the destination
    Method('finish_revert_resize', ('instance', 'migration')),       # on the source
    Method('grow_instance', ('instance', 'migration'), since='1.1'),     # where it is, while it runs
    Method('drop_moved', ('instance',)),       # nothing of the server stays on this host
    # ---- live migration: compute/moves/live_migration.py ----
    # on the destination -> {'facts', 'connector'}, on the source -> facts; raises MigrationPreCheckError
    Method('check_live_migration_destination', ('instance', 'block_migration', 'disk_over_commit'), call=True),
    Method('check_live_migration_source', ('instance', 'facts'), call=True),
    # on the destination: ready to receive -> facts
    Method('pre_live_migration', ('instance', 'block_devices', 'facts'), call=True, timeout=180),
    Method('live_migrate_instance', ('instance', 'migration')),      # on the source
    Method('finish_live_migration', ('instance', 'migration')),      # on the destination, where the guest is
    Method('rollback_live_migration', ('instance', 'facts')),        # on the destination, where it has not come
    # on the source, while it leaves; on any host after a restart
    Method('abort_live_migration', ('instance',)),
    Method('force_complete_live_migration', ('instance',)),
    Method('resume_live_migration', ('instance',)),
    # -> whether the hypervisor has a guest of this server, and it is not on its way any more
    Method('has_guest', ('instance_uuid',), call=True),
    # takes in a server of a host that is down; and what that host does about it when it is back
    Method('evacuate_instance', ('instance', 'spec', 'migration')),
    Method('remove_evacuated_guests', ()),
    # events of other services: [{'name', 'tag', 'status'}], see compute/external_events.py
    Method('external_instance_event', ('instance', 'events')),
    # files of volume snapshots; the volume service gets a report
    Method('create_volume_snapshot', ('instance', 'volume_id', 'create_info')),
    Method('delete_volume_snapshot', ('instance', 'volume_id', 'snapshot_id', 'delete_info')),
    # the machine: 'reboot', 'shutdown' or 'startup' -> what is being done, as a word
    Method('host_power_action', ('action',), call=True),
    Method('set_host_maintenance', ('enabled',), call=True),         # called by APIs of the release before
    # the last `length` lines, all (bounded) when None -> str
    Method('get_console_output', ('instance', 'length'), call=True),
    # fetches images, so that a later build finds them here; grant: see nova.image.grants
    Method('cache_images', ('image_ids', 'grant'), newer=(Newer('grant', '1.1', optional=True),)),
    # the service answers on its own queue -> 'pong'
    Method('ping', (), call=True, timeout=10),
)
