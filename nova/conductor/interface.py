"""RPC methods of the conductor: builds of servers, and database writes for services without database credentials."""
from nova.rpc.interface import OBJECT_BACKPORT, Interface, Method, Newer

BUILDS_AT_ONCE = 16      # maximum concurrent build requests of a conductor; other methods have separate threads

INTERFACE = Interface(
    'conductor', '1.5',
    Method('build_instances', ('instance_uuids', 'spec'), at_once=BUILDS_AT_ONCE,
           doc='Schedule and build servers whose rows and request specs exist, in the context of the user. '
               '``spec``: the RequestSpec of all these servers, including the password. If it is None, the conductor '
               'reads the stored spec of each server.'),
    Method('reschedule_instance', ('instance_uuid', 'host', 'node', 'fault'),
           doc='Try the next host after the chosen compute failed to build a server. ``fault``: {code, message, '
               'details}.'),
    Method('delete_instance', ('instance_uuid',),
           doc='Delete a server that has no host, or whose host no longer exists.'),
    Method('unshelve_instance', ('instance_uuid',),
           doc='Select a host for an offloaded server that is being unshelved and let it build the server.'),

    # ---- live migration: conductor/moves/live.py
    Method('continue_live_migration', ('instance_uuid',), doc='Continue a live migration from its recorded step.'),
    Method('check_and_live_migrate', ('instance_uuid',), call=True, timeout=180,
           doc='Start a live migration for an API request that waits for the result of the checks. Raises BadRequest '
               'if a check fails; the migration has ended then.'),
    Method('prepare_live_migration', ('migration_id',), call=True, timeout=240,
           doc='Prepare volumes and destination before the source sends the guest. Return the facts about the '
               'migration that the destination reports to the source.'),
    Method('report_live_migration', ('migration_id', 'host', 'values', 'deadline_s'), call=True,
           doc="Record the progress: columns of the migrations row. Return {'abort', 'complete'}, True for each "
               'that was requested. Raises InstanceChanged when the migration has ended.'),
    Method('live_migration_arrived', ('migration_id', 'host'), call=True,
           doc='Record that the guest runs at the destination.'),
    Method('live_migration_finished', ('migration_id', 'host', 'values', 'fault', 'traceback'), call=True,
           doc='Record that the server belongs to the destination.'),
    Method('live_migration_failed', ('migration_id', 'host', 'fault', 'traceback', 'aborted'), call=True,
           doc='Record that the guest stayed at the source.'),
    Method('resume_live_migration', ('instance_uuid', 'host', 'has_guest'), call=True,
           doc='Report after a restart whether this host has the guest. Return True if the guest has left for good.'),

    # ---- evacuation: conductor/moves/evacuation.py
    Method('continue_evacuation', ('instance_uuid',), doc='Continue an evacuation from its recorded step.'),
    Method('evacuation_finished', ('migration_id', 'host', 'values'), call=True,
           doc='Record that the new host runs the server.'),
    Method('evacuation_failed', ('migration_id', 'host', 'fault', 'traceback'), call=True,
           doc='Record that the new host could not take over the server.'),
    Method('list_evacuated', ('host',), call=True,
           doc='Return the servers that were evacuated from a host while it was down, see '
               'db/moves/live_migrations.py.'),
    Method('evacuated_guest_removed', ('migration_id', 'host'), call=True,
           doc='Record that a host has removed the guest of an evacuated server.'),
    Method('refresh_volume', ('instance_uuid', 'bdm_uuid'), call=True,
           doc='Read the size of a volume again and return its block device dict.'),
    Method('volume_snapshot_status', ('snapshot_id', 'status', 'progress'),
           doc='Send the status of a snapshot, whose files a compute creates or merges, to the volume service.'),
    Method('volume_file_changed', ('instance_uuid', 'volume_id', 'file'), call=True, since='1.2',
           doc="Record the new file of a volume: {'name', 'format'}. It is in the directory of the previous file."),

    # ---- cold moves: conductor/moves/cold.py; each step ends in one transaction, followed by the next step
    Method('continue_move', ('instance_uuid',), doc="Send the message of the next step of a server's cold move."),
    Method('continue_moves', ('host', 'resize_backups'), call=True,
           doc='Continue the moves of a host that has started. ``resize_backups``: uuids of servers with a resize '
               "backup on the host. Return the backups that no move needs: [{'instance': Instance, 'restore': True "
               'if the server is on this host, which must restore the guest from the backup}].'),
    Method('move_accepted', ('migration_id', 'host'), call=True,
           doc='Record that the destination has accepted a server.'),
    Method('move_refused', ('migration_id', 'host', 'fault'), call=True,
           doc='Record that the destination has refused a server; the next host is tried.'),
    Method('move_sent', ('migration_id', 'host', 'guest'), call=True,
           doc='Set the destination as the host of a server. The source has stopped the guest and kept its files.'),
    Method('move_finished', ('migration_id', 'host', 'power_state', 'network_info'), call=True,
           doc='Record that the server runs at the destination.'),
    Method('move_confirmed', ('migration_id', 'host'), call=True, doc='Record that the source has deleted its copy.'),
    Method('reverted_guest_removed', ('migration_id', 'host'), call=True,
           doc='Record that the destination has deleted the guest of a reverted move.'),
    Method('move_reverted', ('migration_id', 'host', 'power_state', 'network_info'), call=True,
           doc='Record that the source runs the server again.'),
    Method('move_failed', ('migration_id', 'host', 'event', 'fault'), call=True,
           doc='Record that a step failed and that its host has rolled it back.'),
    Method('check_rebuild', ('instance_uuid',), call=True,
           doc='Check whether the filters accept the present host for the image in the row of the server. Raises '
               'NoValidHost if not; the server gets its former image when the task ends.'),

    # ---- writes for computes
    Method('update_instance', ('instance_uuid', 'values', 'expect'), call=True,
           doc='UPDATE with conditions: ``values`` {column: value}, ``expect`` {column: [allowed values]} or None. '
               'Return the Instance. Raises InstanceChanged if a condition does not hold, InstanceNotFound if the '
               'row does not exist. In this method and in end_task, system_metadata is merged with the stored '
               'metadata: a key with None is removed, and other stored keys are unchanged.'),
    Method('begin_task', ('instance_uuid', 'event', 'owner', 'deadline_s', 'values', 'expect'), call=True,
           doc='Begin a task of the compute: claim the open action row (owner, deadline), open its event and write '
               'values. Return the Instance.'),
    Method('end_task', ('instance_uuid', 'event', 'host', 'values', 'expect', 'fault', 'traceback'), call=True,
           doc="End a task in one transaction: instance values, the event's result, the action row, the fault if "
               'any.'),
    Method('begin_background', ('instance_uuid', 'host', 'owner', 'deadline_s'), call=True,
           doc='Begin an action that sets no task state: claim the open action row of the request in the context. '
               'Return the Instance. Raises InstanceChanged if the row is closed, or if the server is being deleted '
               'or has left the host.'),
    Method('end_background', ('instance_uuid', 'event', 'host', 'values', 'error', 'traceback'), call=True,
           doc="End an action that sets no task state: instance values, the event's result, the action row."),
    Method('release_port_device', ('instance_uuid', 'host', 'port_id'), call=True, since='1.2', optional=True,
           doc='Release a device of the host after its port was removed and the guest has detached it.'),
    Method('background_on_host', ('host',), call=True,
           doc="Return the open background actions of the servers on a host: [{'instance': Instance, 'action', "
               "'arguments', 'request_id', 'project_id', 'user_id'}]."),
    Method('instance_offloaded', ('instance_uuid', 'event', 'host', 'task_state', 'fault'), call=True,
           doc='End a task after which the server is SHELVED_OFFLOADED: release the resources that the server has '
               'claimed, and clear its host. The server must still have ``task_state``. ``fault``: as in end_task.'),
    Method('instance_destroyed', ('instance_uuid', 'host'), call=True,
           doc='Complete the deletion of a server: move the row to the history, free the claim, remove mapping and '
               'spec, close the action.'),
    Method('instances_on_host', ('host',), call=True,
           doc="Return the servers on a host: [{'instance': Instance, 'arguments', 'request_id', 'project_id', "
               "'user_id' of the open action, or None}]."),
    Method('server_states', ('host', 'uuids'), call=True,
           doc="Return the states of servers that have a guest, files or other resources on a host: {uuid: {'state': "
               "deleted, elsewhere, needed or unknown (nova/states.py), 'generation' of the row or None}}."),
    Method('report_guests', ('host', 'guests', 'volumes', 'replugged'), call=True, since='1.3', optional=True,
           doc="Replace a host's report of differences between its guests and the rows, see nova/differences.py. "
               "``guests``: the differences, [{'instance_uuid', 'kind', 'generation', 'power_state', 'server': fields "
               "of the host's record of the server, 'volumes'}]. ``volumes``: the volumes of all guests, {uuid: "
               "{volume id: {'attachment_id', 'device_name'}}}, or None if the host has not read them. "
               "``replugged``: uuids of an earlier 'resolved' whose ports and volumes the host has plugged. Return "
               "{'resolved': uuids of servers whose ports and volumes the host must plug, because their rows now "
               "match the guests, 'open': whether differences are left}."),
    Method('get_disk_key', ('instance_uuid',), call=True, since='1.1',
           doc="Return the passphrase of a server's encrypted local disks; created at the first request. Raises "
               'DiskKeyUnavailable.'),
    Method('get_volume_key', ('instance_uuid', 'volume_id'), call=True, since='1.1',
           doc='Return the passphrase of an encrypted volume of a server. Raises DiskKeyUnavailable.'),
    Method('get_request_spec', ('instance_uuid',), call=True, doc='Return the RequestSpec of a server.'),
    Method('get_block_devices', ('instance_uuid',), call=True, doc='Return the block device dicts of a server.'),
    Method('image_cached', ('host', 'image_id', 'reason'),
           doc='Record that a host has cached an image, or the reason why it cannot cache it.'),

    # ---- volumes and shares
    Method('prepare_volumes', ('instance_uuid', 'connector'), call=True,
           doc='Create, reserve and connect the volumes of a server as far as possible. The caller repeats the call '
               'until all volumes have connection_info. ``connector``: connector of the host, None if its hypervisor '
               'cannot attach volumes. Return the block device dicts of the volumes.'),
    Method('complete_volumes', ('instance_uuid',), call=True,
           doc="Mark the volumes of a started guest as in use and show them in the server's row."),
    Method('disconnect_volumes', ('instance_uuid',), call=True,
           doc='Disconnect the volumes from the host; they stay reserved for the server. Raises the first refusal of '
               'the block storage after it has tried all volumes.'),
    Method('connect_volume', ('instance_uuid', 'bdm_uuid', 'connector'), call=True,
           doc='Connect one volume and return its block device dict. Raises InstanceChanged if the mapping does not '
               'exist.'),
    Method('get_volume_device', ('instance_uuid', 'bdm_uuid'), call=True,
           doc='Return the block device dict of one volume as recorded.'),
    Method('volume_attached', ('instance_uuid', 'bdm_uuid'), call=True, doc='Record that a volume is attached.'),
    Method('volume_detached', ('instance_uuid', 'bdm_uuid'), call=True,
           doc='Record that a volume is detached, and delete its mapping.'),
    Method('volume_detach_failed', ('instance_uuid', 'bdm_uuid'), call=True,
           doc='Record that a volume is still attached because its detachment failed.'),
    Method('connect_new_volume', ('attachment_id', 'connector', 'device_name'), call=True,
           doc='Connect the volume that replaces another one and return its connection_info.'),
    Method('volume_swapped', ('instance_uuid', 'bdm_uuid', 'new_volume_id', 'new_attachment_id', 'connection_info'),
           call=True,
           doc='Record that a volume was replaced. Return the id of the attached volume: the old id if the block '
               'storage has migrated the volume, otherwise the new one.'),
    Method('volume_swap_failed', ('instance_uuid', 'bdm_uuid', 'new_volume_id', 'new_attachment_id'), call=True,
           doc='Record that the replacement of a volume failed.'),
    Method('reimage_root', ('instance_uuid', 'image_id'), call=True,
           doc='Write another image to the root volume of a server. When the image is written, prepare_volumes '
               'connects the volume again.'),
    Method('allow_share', ('instance_uuid', 'share_id', 'host'), call=True,
           doc="Grant a host access to a share of a server. Return its mapping, a dict with 'access' "
               '(share/api.py).'),
    Method('share_attached', ('instance_uuid', 'share_id', 'status'), call=True,
           doc='Record the status of a share mapping.'),
    Method('share_detached', ('instance_uuid', 'share_id', 'host'), call=True,
           doc='Delete a share mapping and its access.'),
    Method('snapshot_volumes', ('instance_uuid', 'image_id', 'wait', 'list_incomplete'), call=True,
           newer=(Newer('wait', '1.1', optional=True), Newer('list_incomplete', '1.1', optional=True)),
           doc='Create snapshots of all volumes of a volume-backed server. The image has no data; its properties name '
               'the snapshots. ``wait`` False: the image becomes active immediately. ``wait`` True: the image becomes '
               'active when the snapshots are complete; the caller repeats the call until then. Return whether the '
               'image is active. ``list_incomplete`` True: return the ids of the incomplete snapshots instead.'),
    Method('report_power_states', ('host', 'states'), call=True,
           doc='Correct the power states of servers without a running task: {uuid: power state} of the hypervisor.'),

    Method('report_counters', ('host', 'boot', 'at', 'servers', 'nodes'), call=True, since='1.5', timeout=20,
           optional=True,
           doc='Add a sample of counters to the ring buffers of the servers and nodes of a host. ``boot``: id of the '
               'boot of the host; ``at``: its monotonic time in seconds; ``servers``, ``nodes``: {uuid or node: values '
               'of nova/objects/counters.py}. Servers of other hosts are ignored.'),

    # ---- services
    Method('enroll_host', ('host', 'public', 'token_id', 'number', 'proof'), call=True, since='1.1',
           doc='Register the key with which a host signs messages: its public half (base64), and a proof that it '
               'may join (rpc/join_tokens.py) or None. ``token_id``: join token of the proof; ``number``: nonce of the '
               'proof. Return an Answer of nova/rpc/enrolment.py.'),
    Method('report_service', ('host', 'binary', 'topic', 'version'), call=True, versions=True,
           doc="Heartbeat, which also inserts the row of a new service. Return {'uuid', 'disabled', 'forced_down', "
               "'versions'}."),
    Method('register_service', ('host', 'binary', 'topic', 'version', 'identity'), call=True, since='1.1',
           versions=True,
           doc='Bind a service name to an identity. Services call it before they send other messages, and '
               'periodically. It is not a heartbeat. Return a dict like report_service. Raises ServiceExists if '
               'another identity owns the name.'),
    Method('heartbeat', ('host', 'binary', 'topic', 'version', 'identity'), since='1.1',
           doc='Heartbeat without a response. The conductor writes concurrent heartbeats in one statement.'),
    OBJECT_BACKPORT,
    Method('notify', ('instance_uuid', 'event', 'phase', 'host'), since='1.1', optional=True,
           doc='Publish one phase of an event of nova/notify/events.py. Hosts call it for changes of a server that '
               'are not part of a task.'),
    Method('report_availability', ('host', 'reason'), call=True, since='1.4', optional=True,
           doc='Disable an enabled service with the reason why its host cannot take servers; with an empty reason, '
               'enable it again if this method disabled it.'),
    Method('audit_instance_usage', ('host',), call=True,
           doc='Record the number of servers that a host ran in the last period of [DEFAULT] '
               'instance_usage_audit_period. Return False if the number was recorded before, or is being recorded; '
               'True also after a failure, which is logged.'),
    Method('report_nodes', ('host', 'nodes'), call=True,
           doc="Replace the inventory of a host's nodes: dicts of compute_nodes' columns. Nodes that are not named "
               'are deleted.'),
)
