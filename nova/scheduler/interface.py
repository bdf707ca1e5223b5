"""RPC methods of the scheduler."""
from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'scheduler', '1.0',
    # chooses and claims a host for each of instance_uuids, of equal requests -> list (as instance_uuids) of lists of
    # Selection: the first is claimed, the others are alternates; raises NoValidHost, nothing claimed
    Method('select_destinations', ('spec', 'instance_uuids'), call=True),

    # ---- servers that exist; where their build was wanted, forced or has failed (force_host, requested_host,
    # retry_hosts of the spec) does not count; its availability zone and its hints do, each -> list: the Selection
    # that is claimed, or empty when the server does not wait for it any more; raises NoValidHost, nothing claimed
    #
    # the destination of a move: claimed into the migrations row, which holds it (server_migrations.hold) and must be
    # in one of scheduler.moves.LOOKING and hold nothing. The flavor is the move's new_flavor.
    # ignore: names of hosts that are out of the question; target: name of the one host that is wanted, or None;
    # force: filters are skipped, room is checked
    Method('select_move', ('spec', 'migration_id', 'ignore', 'target', 'force'), call=True),
    # a host for an offloaded server: claimed into the server's own row, which gets host, node and zone while it is
    # SHELVED_OFFLOADED, in task UNSHELVING and without a host
    Method('select_unshelve', ('spec', 'instance_uuid', 'target'), call=True),
    # whether the filters let a server stay on its host with the image of this spec -> None; raises NoValidHost
    Method('check_host', ('spec', 'host', 'node'), call=True),

    # ---- how servers would be placed now; nothing is written
    #
    # seeds: the uuids of the servers to be, which break ties; instance_uuid: of a server that exists, or None: it would
    # be placed again, by what counts in a move, and its own host without its share; limit, offset: the hosts that each
    # list names.
    # -> {'seed': the first one; 'hosts': how many there are; 'asked': {resource: amount};
    #     'filters': [{'name', 'asked': whether it was, 'passed', 'removed': numbers of hosts, 'reason': or None,
    #                  'hosts': [{'host', 'node', 'reason'}] that it removed}] in their order;
    #     'remaining': how many passed all; 'weighers': {name: multiplier};
    #     'ranking': [{'host', 'node', 'availability_zone', 'weight', 'weights': {weigher: its part}}], best first;
    #     'choices': [{'host', 'node', 'availability_zone'}] for each server, [] when not all find one;
    #     'reason': why there is none, or None; 'nearest': [{'host', 'node', 'lacks': [{'filter', 'reason'}]}]}
    Method('explain', ('spec', 'seeds', 'instance_uuid', 'limit', 'offset'), call=True),
)
