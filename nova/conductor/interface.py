"""RPC methods of the conductor: building, and the writes of services that hold no database credentials."""
from nova.rpc.interface import OBJECT_BACKPORT, Interface, Method, Newer

BUILDS_AT_ONCE = 16      # requests that one conductor places; further ones wait, and what computes ask for does not

INTERFACE = Interface(
    'conductor', '1.4',
    # places and builds servers whose rows and request specs exist; context of the user. spec: the RequestSpec that
    # they share, with the password; without it each one's own is read
    Method('build_instances', ('instance_uuids', 'spec'), at_once=BUILDS_AT_ONCE),
    # the compute that was chosen could not build it: tries the next host; fault = {code, message, details}
    Method('reschedule_instance', ('instance_uuid', 'host', 'node', 'fault')),
    # deletes a server that has no host (or whose host is gone)
    Method('delete_instance', ('instance_uuid',)),

    # finds a host for an offloaded server whose unshelving has begun, and lets its host go on with it
    Method('unshelve_instance', ('instance_uuid',)),

    # ---- live migration: conductor/moves/live.py ----
    # goes on with it, wherever it is
    Method('continue_live_migration', ('instance_uuid',)),
    # the same for a request that waits for the checks; raises BadRequest, and it is over
    Method('live_migrate_checked', ('instance_uuid',), call=True, timeout=180),
    # the source is about to send the guest: volumes, and the destination itself, are made ready -> facts
    Method('prepare_live_migration', ('migration_id',), call=True, timeout=240),
    # columns of the migrations row, now and then -> {'abort', 'complete'}: True when it was requested; raises
    # InstanceChanged when it is over
    Method('report_live_migration', ('migration_id', 'host', 'values', 'deadline_s'), call=True),
    # the ends: the guest is at the destination; it belongs there for good; it has stayed at the source
    Method('live_migration_arrived', ('migration_id', 'host'), call=True),
    Method('live_migration_finished', ('migration_id', 'host', 'values', 'fault', 'traceback'), call=True),
    Method('live_migration_failed', ('migration_id', 'host', 'fault', 'traceback', 'aborted'), call=True),
    # a host that was restarted says whether it has the guest -> True: it has left for good
    Method('resume_live_migration', ('instance_uuid', 'host', 'here'), call=True),

    # ---- evacuation: conductor/moves/evacuation.py ----
    Method('continue_evacuation', ('instance_uuid',)),
    Method('evacuation_finished', ('migration_id', 'host', 'values'), call=True),
    Method('evacuation_failed', ('migration_id', 'host', 'fault', 'traceback'), call=True),
    # of servers that were taken from a host while it was down -> see db/moves/live_migrations.py
    Method('evacuated_from', ('host',), call=True),
    Method('evacuated_guest_removed', ('migration_id', 'host'), call=True),

    # the size that a volume of a server has now -> its block device dict
    Method('refresh_volume', ('instance_uuid', 'bdm_uuid'), call=True),
    # a snapshot whose files a compute makes or merges: its status at the volume service
    Method('volume_snapshot_status', ('snapshot_id', 'status', 'progress')),
    # the file next to that of its connection which a volume of a server is from now on: {'name', 'format'}
    Method('volume_file_changed', ('instance_uuid', 'volume_id', 'file'), call=True, since='1.2'),

    # ---- moves: conductor/moves/cold.py ----
    # sends what the server of a cold move waits for
    Method('continue_move', ('instance_uuid',)),
    # a host has started: goes on with its moves; of the guests that it has put aside (`kept`: uuids) those that no
    # move needs -> list of {'instance': Instance, 'returns': True: the server lives here, take the guest back}
    Method('continue_moves', ('host', 'kept'), call=True),
    # the ends of the steps (compute/moves/resize.py), each one transaction and the next step
    Method('move_accepted', ('migration_id', 'host'), call=True),
    Method('move_refused', ('migration_id', 'host', 'fault'), call=True),
    Method('move_sent', ('migration_id', 'host', 'guest'), call=True),
    Method('move_finished', ('migration_id', 'host', 'power_state', 'network_info'), call=True),
    Method('move_confirmed', ('migration_id', 'host'), call=True),
    Method('move_dropped', ('migration_id', 'host'), call=True),
    Method('move_reverted', ('migration_id', 'host', 'power_state', 'network_info'), call=True),
    # a step failed and its host has undone what it did
    Method('move_failed', ('migration_id', 'host', 'event', 'fault'), call=True),

    # whether the filters let a server be rebuilt with the image that its row has now; NoValidHost when not: the server
    # gets the one before when the task ends
    Method('check_rebuild', ('instance_uuid',), call=True),

    # ---- writes for computes ----
    # UPDATE with conditions: values {column: value}, expect {column: [allowed values]} or None -> Instance
    # raises InstanceChanged when expect does not hold, InstanceNotFound when the row is gone. Of system_metadata, here
    # and in end_task, only the keys named are changed; None removes one
    Method('update_instance', ('instance_uuid', 'values', 'expect'), call=True),
    # the compute begins a task: claims the open action row (owner, deadline), opens its event, and writes values
    # -> Instance
    Method('begin_task', ('instance_uuid', 'event', 'owner', 'deadline_s', 'values', 'expect'), call=True),
    # ends it in one transaction: instance values, the event's result, the action row, the fault if any -> None
    Method('end_task', ('instance_uuid', 'event', 'host', 'values', 'expect', 'fault', 'traceback'), call=True),
    # the compute begins, in the name of the request in the context, something that sets no task state: claims its
    # open action row -> Instance; raises InstanceChanged when it is closed, or the server is being deleted or gone
    # from the host
    Method('begin_beside', ('instance_uuid', 'host', 'owner', 'deadline_s'), call=True),
    # ends it: instance values, the event's result, the action row -> None
    Method('end_beside', ('instance_uuid', 'event', 'host', 'values', 'error', 'traceback'), call=True),
    # a port that was a device of the host is gone, and the guest has let go of it: the device is free
    Method('port_gone', ('instance_uuid', 'host', 'port_id'), call=True, since='1.2', optional=True),
    # what of it is open on a host's servers -> list of {'instance': Instance, 'action', 'arguments', 'request_id',
    # 'project_id', 'user_id'}
    Method('beside_on_host', ('host',), call=True),
    # ends a task (its task_state) with which the server becomes SHELVED_OFFLOADED: its claim is freed, it has no host
    # any more; fault as in end_task -> None
    Method('leave_host', ('instance_uuid', 'event', 'host', 'task_state', 'fault'), call=True),
    # the server is gone from its host: row to history, claim freed, mapping and spec removed, action closed
    Method('instance_destroyed', ('instance_uuid', 'host'), call=True),
    # -> list of {'instance': Instance, 'arguments', 'request_id', 'project_id', 'user_id': of the open action, or None}
    # on a host
    Method('instances_on_host', ('host',), call=True),
    # of guests that a host has and does not know: those that were deleted, or live on another host -> list of uuids
    Method('stray_guests', ('host', 'uuids'), call=True),
    # the same of whatever a host has of servers -> {uuid: a fate of nova.states}
    Method('became_of', ('host', 'uuids'), call=True, since='1.1'),
    # the same, and how old the row is -> {uuid: {'fate', 'generation'}}
    Method('server_rows', ('host', 'uuids'), call=True, since='1.3'),
    # differences between a host's guests and the rows, instead of those that it reported before; nova/differences.py
    # guests: [{'instance_uuid', 'kind', 'generation', 'power_state', 'server': fields of its record, 'volumes'}];
    # volumes: {uuid: {volume id: {'attachment_id', 'device_name'}}} of all guests, None: not looked at; done: uuids of
    # those that were settled and are plugged again
    # -> {'settled': uuids of servers whose rows follow the host's guests now}
    Method('report_guests', ('host', 'guests', 'volumes', 'done'), call=True, since='1.3', optional=True),
    # the passphrase of a server's encrypted local disks, made at the first request; raises DiskKeyUnavailable
    Method('get_disk_key', ('instance_uuid',), call=True, since='1.1'),
    # the same of an encrypted volume that it has
    Method('get_volume_key', ('instance_uuid', 'volume_id'), call=True, since='1.1'),
    # -> RequestSpec
    Method('get_request_spec', ('instance_uuid',), call=True),
    # -> list of block device dicts
    Method('get_block_devices', ('instance_uuid',), call=True),
    # an image that the host was to cache is there; with a reason: it never will be
    Method('image_cached', ('host', 'image_id', 'reason')),
    # makes, reserves and connects the volumes of a server as far as it is possible now; done again until all have
    # connection_info. connector: of the host, None: it can attach none -> list of block device dicts, volumes only
    Method('prepare_volumes', ('instance_uuid', 'connector'), call=True),
    # the guest uses its volumes: they are in use, the server's row shows them
    Method('complete_volumes', ('instance_uuid',), call=True),
    # its host lets go of them; they stay reserved for the server
    Method('disconnect_volumes', ('instance_uuid',), call=True),
    # one volume: its block device dict, connected (raises InstanceChanged when the mapping is gone) or as it is
    Method('connect_volume', ('instance_uuid', 'bdm_uuid', 'connector'), call=True),
    Method('get_volume_device', ('instance_uuid', 'bdm_uuid'), call=True),
    # it is attached; it is not any more (the mapping goes); it was not detached after all
    Method('volume_attached', ('instance_uuid', 'bdm_uuid'), call=True),
    Method('volume_detached', ('instance_uuid', 'bdm_uuid'), call=True),
    Method('volume_stays', ('instance_uuid', 'bdm_uuid'), call=True),
    # one volume in another's place -> connection_info; it is done -> id that the volume has now; it is not
    Method('connect_new_volume', ('attachment_id', 'connector', 'device_name'), call=True),
    Method('volume_swapped', ('instance_uuid', 'bdm_uuid', 'new_volume_id', 'new_attachment_id', 'connection_info'),
           call=True),
    Method('volume_not_swapped', ('instance_uuid', 'bdm_uuid', 'new_volume_id', 'new_attachment_id'), call=True),
    # other contents for the root volume of a server: it is connected again by prepare_volumes, when it has them
    Method('reimage_root', ('instance_uuid', 'image_id'), call=True),
    # a host may mount a share of a server -> its mapping (a dict) with 'access' (share/api.py); the mapping has this
    # status; it goes, and the access
    Method('allow_share', ('instance_uuid', 'share_id', 'host'), call=True),
    Method('share_attached', ('instance_uuid', 'share_id', 'status'), call=True),
    Method('share_detached', ('instance_uuid', 'share_id', 'host'), call=True),
    # snapshots of all volumes of a server that boots from one; the image, without data, names them -> True: they are
    # complete, and it is active. wait: False, it is active at once; True: only at a later call, after they are complete
    # left: the answer is the ids of the snapshots that are not complete yet, none: it is active
    Method('snapshot_volumes', ('instance_uuid', 'image_id', 'wait', 'left'), call=True,
           newer=(Newer('wait', '1.1', optional=True), Newer('left', '1.1', optional=True))),
    # {uuid: power state} as the hypervisor has it: mends rows of servers that nothing else works on
    Method('report_power_states', ('host', 'states'), call=True),

    # ---- services ----
    # a host's key for signatures: public half (base64), and proof that it may join (rpc/join_tokens.py) or None
    # -> {'state': pending, approved or renewing, 'deployment': public half of the control plane's key, 'proof',
    # 'deployments': [{'public', 'vouched_by', 'voucher', 'good'}], all it has and had, oldest first}
    Method('enroll_host', ('host', 'public', 'token_id', 'number', 'proof'), call=True, since='1.1', unpinned=True),
    # heartbeat; makes the row on first contact -> {'uuid', 'disabled', 'forced_down', 'versions'}
    Method('report_service', ('host', 'binary', 'topic', 'version'), call=True, versions=True),
    # the name belongs to who keeps this identity: before anything else, and from time to time -> as report_service.
    # It is no heartbeat. Raises ServiceExists: it is another one's
    Method('register_service', ('host', 'binary', 'topic', 'version', 'identity'), call=True, since='1.1',
           unpinned=True, versions=True),
    # a heartbeat that needs no answer; those of a moment are one write batch
    Method('service_alive', ('host', 'binary', 'topic', 'version', 'identity'), since='1.1'),
    OBJECT_BACKPORT,
    # what a host does to a server without a task: an event of nova/notify/events.py, in its phase
    Method('notify', ('instance_uuid', 'event', 'phase', 'host'), since='1.1', optional=True),
    # whether a host can take servers: with a reason its enabled service is disabled, with '' it is enabled again where
    # this has disabled it
    Method('report_availability', ('host', 'reason'), call=True, since='1.4', optional=True),
    # records how many servers a host ran in the last period of [DEFAULT] instance_usage_audit_period -> False when
    # it is recorded already
    Method('audit_instance_usage', ('host',), call=True),
    # inventory of a host's nodes: list of dicts of compute_nodes' columns; nodes not named are removed
    Method('report_nodes', ('host', 'nodes'), call=True),
)
