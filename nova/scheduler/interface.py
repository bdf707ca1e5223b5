"""RPC methods of the scheduler."""
from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'scheduler', '1.0',
    # Choose and claim a host for each of instance_uuids with equal requests -> list (as instance_uuids) of lists of
    # Selection: the first is claimed, the others are alternates; raises NoValidHost, nothing is claimed
    Method('select_destinations', ('spec', 'instance_uuids'), call=True),

    # ---- existing servers; force_host, requested_host and retry_hosts of the spec are ignored, its availability zone
    # and hints apply -> list: the claimed Selection, or empty if the server no longer waits; raises NoValidHost,
    # nothing is claimed
    #
    # Choose the destination of a move. The claim goes into the migrations row, which holds it (server_migrations.hold),
    # must be in one of scheduler.moves.LOOKING and must hold nothing. The flavor is the move's new_flavor.
    # ignore: names of excluded hosts; target: name of the requested host, or None; force: skip filters, check only
    # capacity
    Method('select_move', ('spec', 'migration_id', 'ignore', 'target', 'force'), call=True),
    # Choose a host for an offloaded server. The claim goes into the server's own row, which gets host, node and zone
    # while it is SHELVED_OFFLOADED, in task UNSHELVING and without a host.
    Method('select_unshelve', ('spec', 'instance_uuid', 'target'), call=True),
    # Check whether the filters let a server stay on its host with the image of this spec -> None; raises NoValidHost
    Method('check_host', ('spec', 'host', 'node'), call=True),

    # ---- dry run: how servers would be placed now; writes nothing
    # seeds: the uuids of the new servers, which break ties; instance_uuid: an existing server, or None. An existing
    # server is placed as in a move, and its host counts without its share. limit, offset: page of the hosts in each
    # list.
    # -> {'seed': the first seed; 'hosts': their number; 'asked': {resource: amount};
    #     'filters': [{'name', 'asked': whether it applied, 'passed', 'removed': numbers of hosts, 'reason',
    #                  'hosts': [{'host', 'node', 'reason'}] that it removed}] in their order;
    #     'remaining': number of hosts that passed all; 'weighers': {name: multiplier};
    #     'ranking': [{'host', 'node', 'availability_zone', 'weight', 'weights': {weigher: its part}}], best first;
    #     'choices': [{'host', 'node', 'availability_zone'}] for each server, [] if not all find one;
    #     'reason': why there is none, or None; 'nearest': [{'host', 'node', 'lacks': [{'filter', 'reason'}]}]}
    Method('explain', ('spec', 'seeds', 'instance_uuid', 'limit', 'offset'), call=True),
)
