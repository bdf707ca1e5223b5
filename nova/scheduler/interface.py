"""RPC methods of the scheduler."""
from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'scheduler', '1.0',
    # chooses and claims a host for each of instance_uuids, all alike -> list (as instance_uuids) of lists of
    # Selection: the first is claimed, the others are alternates; raises NoValidHost, nothing claimed
    Method('select_destinations', ('spec', 'instance_uuids'), call=True),
)
