"""RPC methods of the scheduler."""
import collections.abc
import typing

from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'scheduler', '1.0',
    Method('select_destinations', ('spec', 'instance_uuids'), call=True,
           doc='Select and claim a host for each of ``instance_uuids``, which have equal requests. Return a list, '
               'in their order: [Selection], or [] if the server no longer waits. Raises NoValidHost; nothing is '
               'claimed then.'),

    # ---- existing servers
    Method('select_move', ('spec', 'migration_id', 'ignore', 'target', 'force'), call=True,
           doc='Select the destination of a move and claim it in the migrations row (server_migrations.hold), which '
               'must be in a state of scheduler.moves.LOOKING and hold no claim. The flavor is new_flavor of the '
               'move. ``ignore``: excluded host names; ``target``: name of the only allowed host, or None; '
               '``force``: skip the filters and check only capacity. Return as select_unshelve.'),
    Method('select_unshelve', ('spec', 'instance_uuid', 'target'), call=True,
           doc="Select a host for an offloaded server and claim it: write host, node and zone into the server's row, "
               'if the server is still SHELVED_OFFLOADED, in task UNSHELVING and without a host. The host options '
               'of the first build (force_host, requested_host, retry_hosts) do not apply; availability zone and '
               'hints do. Return [Selection], or [] if the server no longer waits. Raises NoValidHost; nothing is '
               'claimed then.'),
    Method('check_host', ('spec', 'host', 'node'), call=True,
           doc='Check whether the filters accept the present host of a server for the image in this spec. Raises '
               'NoValidHost.'),

    # ---- explanations
    Method('explain', ('spec', 'seeds', 'instance_uuid', 'limit', 'offset'), call=True,
           doc='Explain how servers would be placed now; writes nothing. ``seeds``: the uuids of the new servers, '
               'which break ties; ``instance_uuid``: an existing server that would be moved, or None; ``limit``, '
               "``offset``: page of each list of hosts. Return {'seed': the first seed; 'hosts': number; 'requested': "
               "{resource: amount}; 'filters': [{'name', 'applies': whether the request uses it, 'passed', 'removed': "
               "numbers of hosts, 'reason' or None, 'hosts': [{'host', 'node', 'reason'}] removed}] in order; "
               "'remaining': number that passed all; 'weighers': {name: multiplier}; 'ranking': [{'host', 'node', "
               "'availability_zone', 'weight', 'weights': {weigher: part}}], best first; 'choices': [{'host', "
               "'node', 'availability_zone'}] of each server, [] if a server gets no host; 'reason': why, or None; "
               "'nearest': [{'host', 'node', 'failed_filters': [{'filter', 'reason'}]}]}."),
)


class Scheduler(typing.Protocol):
    """Manager of the scheduler. Its attributes are the RPC methods of INTERFACE and the methods of this class."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def periodic_tasks(self) -> list[tuple[str, int, collections.abc.Callable[[], None]]]: ...
