"""Rights of compute hosts at a conductor: each host may access only its own servers, moves and volumes.

``RIGHTS`` has a row for each method of interface.py that hosts call; see rpc/admission.py. Hosts may not call methods
without a row. If the SQL statements of a method select rows by the host name, the check ``host_is_caller`` suffices.
"""
import collections.abc

from nova import actions
from nova import context
from nova import exception
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.moves import cold
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import ownership
from nova.objects import device_addresses
from nova.objects import disk_clients
from nova.objects import faults
from nova.objects import instance
from nova.rpc import admission
from nova.rpc.admission import Call
from nova.rpc.admission import columns
from nova.rpc.admission import connector_is_caller
from nova.rpc.admission import destination
from nova.rpc.admission import host_is_caller
from nova.rpc.admission import load_requester
from nova.rpc.admission import on_caller
from nova.rpc.admission import on_caller_or_deleted
from nova.rpc.admission import one_of
from nova.rpc.admission import owner_is_caller
from nova.rpc.admission import source

SWAP = 'swap_volume'
# (binary, topic)
_OF_HOSTS = {('nova-compute', 'compute'), ('nova-network', 'network'), ('nova-network-agent', 'network_agent')}

# columns of instances that hosts may write, by purpose
_STATE = {'vm_state', 'task_state', 'power_state', 'launched_at', 'network_info', 'system_metadata'}
_PROGRESS = {'status', *(f'{what}_{how}_bytes' for what in ('memory', 'disk')
                         for how in ('total', 'processed', 'remaining'))}
# columns of compute_nodes that a host reports about itself; other services write the claims
_NODE = {'node', 'vcpus', 'memory_mb', 'local_gb', 'hypervisor_type', 'hypervisor_version', 'host_ip', 'cpu_info',
         'disk_available_least', 'supported_instances', 'uptime', 'numa_topology', 'pci_devices', 'traits', 'metrics',
         'failed_builds', 'reserved_memory_mb', 'reserved_disk_gb', 'cpu_allocation_ratio', 'ram_allocation_ratio',
         'disk_allocation_ratio', 'capabilities'}


def _confirms(call: Call) -> None:
    """Check that the caller runs the server or is the source of its finished move.

    A host may begin a task on another host's server in one case: as the source of a resize, it confirms the resize. See
    compute/moves/resize.py.
    """
    if admission.is_expecting_caller(call):
        return
    if call.arguments.get('values'):
        admission.expects_caller(call)
    if call.server is None:
        raise exception.InstanceNotFound(instance_id=call.uuid)
    if call.server.task_state != states.RESIZE_CONFIRMING or not any(
            move['source_compute'] == call.host and move['status'] == 'confirming' for move in call.server.moves):
        call.raise_not_on_host()


def _failure_here(call: Call) -> None:
    """If the message reports a failure, check that the server is on the calling host.

    After a failure the conductor also writes columns that the message does not contain (Rebuilds.image_kept).
    """
    if call.arguments.get('fault') is not None:
        on_caller(call)


def _fault(call: Call) -> None:
    """Check the fault in the arguments or in the values: services read its keys, and the API shows it.

    Hosts of an earlier release do not limit the details, which are cut.
    """
    for values in (call.arguments, call.arguments.get('values') or {}):
        fault = values.get('fault')
        if isinstance(fault, dict) and isinstance(fault.get('details'), str):
            values['fault'] = fault = {**fault, 'details': fault['details'][:faults.DETAILS_CHARACTERS]}
        if fault is not None and not faults.is_report(fault):
            call.refuse('its fault is malformed')


def _texts(call: Call) -> None:
    """Check and cut the texts of a failure: the API shows them."""
    for name, most in (('error', faults.MESSAGE_CHARACTERS), ('traceback', faults.DETAILS_CHARACTERS)):
        text = call.arguments.get(name)
        if text is not None:
            if not isinstance(text, str):
                call.refuse(f'its {name} is not a text')
            call.arguments[name] = text[:most]


def _own_metadata(call: Call) -> None:
    """Restrict the system metadata that a host may write.

    A host may write the clients of its guest's disks and the addresses of its guest's devices.

    The host may set the image of a requested shelve, and may remove a shelve's or a rebuild's image. Other images are
    refused: a shelve's image is deleted with the server, and a rebuild's image is written to the root volume.

    The host may remove the password that a guest has posted, because the guest posts another one after its root disk
    was recreated.
    """
    wanted = (call.arguments.get('values') or {}).get('system_metadata')
    if wanted is None:
        return
    if not isinstance(wanted, dict):
        call.refuse('system_metadata is not a dictionary')
    present = on_caller(call).system_metadata or {}
    images = _images_of(call, 'shelve')
    for key, value in wanted.items():
        if value == present.get(key) or value is None and key in (
                instance.SHELVED_IMAGE, instance.SHELVED_AT, instance.REIMAGE, instance.POSTED_PASSWORD):
            continue
        if key == instance.SHELVED_AT and instance.shelving_time(value) or (
                key == instance.SHELVED_IMAGE and value in images):
            continue
        if key == disk_clients.KEY and (value is None or disk_clients.is_record(value)):
            continue
        if key == device_addresses.KEY and device_addresses.is_record(value):
            continue
        call.refuse(f'it sets {str(key)[:50]} of the system metadata')


def _images_of(call: Call, name: str) -> set[str]:
    """Return the ids of the images in the arguments of the server's open actions with this name."""
    arguments = [action['arguments'] or {} for action in on_caller(call).actions if action['action'] == name]
    return {each['image_id'] for each in arguments if each.get('image_id') is not None}


def _image_of_snapshot(call: Call) -> None:
    """Check that an open createImage action of the server creates the image."""
    if call.arguments.get('image_id') not in _images_of(call, 'createImage'):
        call.refuse(f'no open action of the server writes image {str(call.arguments.get("image_id"))[:40]}')


def _image_of_rebuild(call: Call) -> None:
    image_id = call.arguments.get('image_id')
    if not image_id or image_id != (on_caller(call).system_metadata or {}).get(instance.REIMAGE):
        call.refuse(f'the server is not rebuilt with image {str(image_id)[:40]}')


def _own_action(call: Call) -> None:
    """Check that the caller has claimed the open action of the request.

    A request without an open action is accepted: its action has ended, and the caller repeats a message.
    """
    if call.server is None:
        return                               # the server and its actions are gone
    for action in call.server.actions:
        if action['request_id'] == call.request_id and action['owner'] != f'compute:{call.host}':
            call.raise_not_on_host()


def _step_of(call: Call) -> None:
    """Check that the move waits for a step of the caller. Moves that have ended pass: the RPC method ignores them."""
    if call.move is None:
        raise exception.MigrationNotFound(migration_id=call.arguments.get('migration_id'))
    row = call.move.row
    if call.host not in (row['source_compute'], row['dest_compute']):
        raise exception.NotOnHost(host=call.host, topic=call.topic, method=call.method,
                                  instance_id=row['instance_uuid'])
    step = call.read(call, 'step')
    if step is not None and step[1] != call.host:
        call.refuse(f'the move waits for {step[0]} of another host')


def _swap_of_server(call: Call) -> None:
    """Check that volume and attachment belong to an open swap of the server."""
    names = ('bdm_uuid', 'new_volume_id', 'new_attachment_id')
    given = {name: call.arguments.get(name) for name in names}
    for action in on_caller(call).actions:
        if action['action'] == SWAP and {name: (action['arguments'] or {}).get(name) for name in names} == given:
            return
    call.refuse('no open request swaps these volumes')


def _swap_on_host(call: Call) -> None:
    """Check that the attachment belongs to an open swap of a server on the calling host."""
    if call.arguments.get('attachment_id') not in call.read(call, 'swaps'):
        call.refuse(f'attachment {str(call.arguments.get("attachment_id"))[:40]} does not belong to '
                    'a swap of its servers')


def _snapshot_on_host(call: Call) -> None:
    """Check that the snapshot belongs to a volume of a server on the calling host."""
    if not call.read(call, 'snapshot'):
        call.refuse(f'snapshot {str(call.arguments.get("snapshot_id"))[:40]} does not belong to '
                    'a volume of its servers')


def _service_of_host(call: Call) -> None:
    """Check that the service is nova-compute, nova-network or its agent, the only services that hosts report."""
    if (call.arguments.get('binary'), call.arguments.get('topic')) not in _OF_HOSTS:
        call.refuse(f'it reports {str(call.arguments.get("binary"))[:50]}')


def _own_nodes(call: Call) -> None:
    nodes = call.arguments.get('nodes')
    if not isinstance(nodes, list):
        call.refuse('nodes is not a list')
    for node in nodes:
        if not isinstance(node, dict) or node.keys() - _NODE:
            call.refuse('it writes columns of its nodes that only other services may write')


def _has_been_there(call: Call) -> None:
    """Check that the server is or was on the calling host, or that this host was the destination of a move."""
    if (call.server is None or call.server.host != call.host) and not call.read(call, 'was_there'):
        call.raise_not_on_host()


_SERVICE = (host_is_caller, _service_of_host)
_VOLUME = (on_caller,)

RIGHTS = {
    # ---- tasks: the UPDATE statement checks the server's host
    'update_instance': (admission.expects_caller, columns('values', {*_STATE, 'progress', 'fault'}), _fault,
                        _own_metadata),
    'begin_task': (owner_is_caller, columns('values', {'task_state'}), _confirms),
    'end_task': (host_is_caller, admission.expects_caller, columns('values', {*_STATE, 'deleted_at'}),
                 _fault, _texts, _own_metadata, _failure_here),
    'begin_background': (host_is_caller, owner_is_caller),
    'end_background': (host_is_caller, columns('values', {'network_info'}), _texts, _own_action),
    'release_port_device': (host_is_caller, on_caller),
    'reschedule_instance': (host_is_caller, _fault, load_requester),
    'instance_offloaded': (host_is_caller, one_of('task_state', (states.SHELVING_OFFLOADING, states.UNSHELVING)),
                   _fault),
    'instance_destroyed': (host_is_caller,),
    'check_rebuild': (on_caller,),
    'continue_evacuation': (on_caller,),
    'notify': (host_is_caller, _has_been_there),
    # ---- reads
    'get_request_spec': (on_caller,),
    'get_disk_key': (on_caller,),
    'get_volume_key': (on_caller,),
    'get_block_devices': (on_caller,),
    'instances_on_host': (host_is_caller,),
    'background_on_host': (host_is_caller,),
    'list_evacuated': (host_is_caller,),
    'server_states': (host_is_caller,),
    'report_guests': (host_is_caller,),
    'object_backport': (admission.allow,),
    # ---- moves
    'continue_moves': (host_is_caller,),
    'move_accepted': (host_is_caller, destination),
    'move_refused': (host_is_caller, destination, _fault),
    'move_sent': (host_is_caller, source),
    'move_finished': (host_is_caller, destination),
    'move_confirmed': (host_is_caller, source),
    'reverted_guest_removed': (host_is_caller, destination),
    'move_reverted': (host_is_caller, source),
    'move_failed': (host_is_caller, _step_of, _fault),
    'prepare_live_migration': (source,),
    'report_live_migration': (host_is_caller, columns('values', _PROGRESS)),
    'live_migration_arrived': (host_is_caller, source),
    'live_migration_failed': (host_is_caller, source, _fault, _texts),
    'live_migration_finished': (host_is_caller, destination, columns(
        'values', {'task_state', 'power_state', 'network_info'}), _fault, _texts),
    'resume_live_migration': (host_is_caller, load_requester),
    'evacuation_finished': (host_is_caller, destination, columns(
        'values', {'task_state', 'vm_state', 'power_state', 'network_info'})),
    'evacuation_failed': (host_is_caller, destination, _fault, _texts),
    'evacuated_guest_removed': (host_is_caller,),
    # ---- volumes, shares, images
    'prepare_volumes': (on_caller, connector_is_caller),
    'complete_volumes': (on_caller,),
    'disconnect_volumes': (on_caller_or_deleted,),
    'connect_volume': (on_caller, connector_is_caller),
    'get_volume_device': _VOLUME,
    'volume_attached': _VOLUME,
    'volume_detached': (on_caller_or_deleted,),
    'volume_detach_failed': _VOLUME,
    'refresh_volume': _VOLUME,
    'connect_new_volume': (connector_is_caller, _swap_on_host),
    'volume_swapped': (on_caller, _swap_of_server),
    'volume_swap_failed': (on_caller, _swap_of_server),
    'volume_snapshot_status': (one_of('status', ('creating', 'deleting', 'error', 'error_deleting')),
                               _snapshot_on_host),
    'volume_file_changed': (on_caller,),
    'reimage_root': (on_caller, _image_of_rebuild),
    'snapshot_volumes': (on_caller, _image_of_snapshot),
    'image_cached': (host_is_caller,),
    'allow_share': (host_is_caller, on_caller),
    'share_attached': (on_caller, one_of('status', ('attached', 'error'))),
    'share_detached': (host_is_caller, on_caller_or_deleted),
    # ---- the host itself
    'report_power_states': (host_is_caller,),
    'report_service': _SERVICE,
    'register_service': _SERVICE,
    'heartbeat': _SERVICE,
    'enroll_host': (host_is_caller,),
    'audit_instance_usage': (host_is_caller,),
    'report_availability': (host_is_caller,),
    'report_nodes': (host_is_caller, _own_nodes),
    'report_counters': (host_is_caller,),
}


def admission_of(services: CellServices) -> admission.Admission:
    """Return the access checks for messages that hosts send to a conductor."""
    return admission.Admission('conductor', RIGHTS, Facts(services))


class Facts:
    """Database rows for the checks; each kind is read at most once for each call."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db, self._volumes = services.cell_db, services.volumes
        self._kinds: dict[str, collections.abc.Callable[[Call], object]] = {
            'server': self._server, 'move': self._move, 'was_there': self._was_there, 'step': self._step,
            'swaps': self._swaps, 'snapshot': self._snapshot}

    def __call__(self, call: Call, kind: str) -> object:
        return self._kinds[kind](call)

    def _server(self, call: Call) -> ownership.Server | None:
        with self._cell_db.reader() as conn:
            return None if call.uuid is None else ownership.server(conn, call.uuid)

    def _move(self, call: Call) -> ownership.Move | None:
        with self._cell_db.reader() as conn:
            return ownership.move(conn, call.arguments.get('migration_id'), call.request_id)

    def _was_there(self, call: Call) -> bool:
        with self._cell_db.reader() as conn:
            return call.uuid is not None and ownership.was_there(conn, call.uuid, call.host)

    def _step(self, call: Call) -> tuple[str, str] | None:
        """Return (compute method, host) of the step for which the move's server waits, or None."""
        if call.move is None:
            return None
        row = call.move.row
        with self._cell_db.reader() as conn:
            server = instances.get_many(conn, [row['instance_uuid']]).get(row['instance_uuid'])
        if server is None or server['task_state'] not in actions.STEP_OF_TASK:
            return None
        return cold.next_step(server['task_state'], row)

    def _swaps(self, call: Call) -> set[str]:
        with self._cell_db.reader() as conn:
            swaps = [action['arguments'] or {} for action in instance_actions.background_on_host(conn, call.host)
                     if action['action'] == SWAP]
        return {arguments['new_attachment_id'] for arguments in swaps
                if arguments.get('new_attachment_id') is not None}

    def _snapshot(self, call: Call) -> bool:
        """Return whether the snapshot belongs to a server of the calling host.

        :raises VolumeSnapshotNotFound:
        """
        snapshot = self._volumes.get_snapshot(context.admin_context(), str(call.arguments.get('snapshot_id')))
        with self._cell_db.reader() as conn:
            uuids = [row['instance_uuid'] for row in block_devices.by_volume(conn, snapshot['volume_id'])]
            return any(row['host'] == call.host for row in instances.get_many(conn, uuids).values())
