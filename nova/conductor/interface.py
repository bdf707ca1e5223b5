"""RPC methods of the conductor: building, and the writes of services that hold no database credentials."""
from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'conductor', '1.0',
    # places and builds servers whose rows and request specs exist; context of the user. spec: the RequestSpec that
    # they share, with the password; without it each one's own is read
    Method('build_instances', ('instance_uuids', 'spec')),
    # the compute that was chosen could not build it: tries the next host; fault = {code, message, details}
    Method('reschedule_instance', ('instance_uuid', 'host', 'node', 'fault')),
    # deletes a server that has no host (or whose host is gone)
    Method('delete_instance', ('instance_uuid',)),

    # ---- writes for computes ----
    # UPDATE with conditions: values {column: value}, expect {column: [allowed values]} or None -> Instance
    # raises InstanceChanged when expect does not hold, InstanceNotFound when the row is gone
    Method('update_instance', ('instance_uuid', 'values', 'expect'), call=True),
    # the compute begins a task: claims the open action row (owner, deadline), opens its event, and writes values
    # -> Instance
    Method('begin_task', ('instance_uuid', 'event', 'owner', 'deadline_s', 'values', 'expect'), call=True),
    # ends it in one transaction: instance values, the event's result, the action row, the fault if any -> None
    Method('end_task', ('instance_uuid', 'event', 'host', 'values', 'expect', 'fault', 'traceback'), call=True),
    # the server is gone from its host: row to history, claim freed, mapping and spec removed, action closed
    Method('instance_destroyed', ('instance_uuid', 'host'), call=True),
    # -> list of {'instance': Instance, 'arguments': of the open action or None} on a host
    Method('instances_on_host', ('host',), call=True),
    # of guests that a host has and does not know: those that were deleted, or live on another host -> list of uuids
    Method('stray_guests', ('host', 'uuids'), call=True),
    # -> RequestSpec
    Method('get_request_spec', ('instance_uuid',), call=True),
    # -> list of block device dicts
    Method('get_block_devices', ('instance_uuid',), call=True),
    # {uuid: power state} as the hypervisor has it: mends rows of servers that nothing else works on
    Method('report_power_states', ('host', 'states'), call=True),

    # ---- services ----
    # heartbeat; makes the row on first contact -> {'uuid', 'disabled', 'forced_down'}
    Method('report_service', ('host', 'binary', 'topic', 'version'), call=True),
    # inventory of a host's nodes: list of dicts of compute_nodes' columns; nodes not named are removed
    Method('report_nodes', ('host', 'nodes'), call=True),
)
