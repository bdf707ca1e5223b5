"""RPC methods of the network service; ``host`` in allocate decides which host's service does the plugging."""
from nova.rpc.interface import Interface, Method

INTERFACE = Interface(
    'network', '1.0',
    # addresses, ports and host plumbing for a server about to be built; idempotent per server.
    # requested_networks as in RequestSpec; security_groups: list of names -> list of VIFs (network/model.py)
    Method('allocate_for_instance', ('instance', 'requested_networks', 'security_groups', 'host'), call=True),
    # gives back all of it; does nothing when nothing is there
    Method('deallocate_for_instance', ('instance_uuid', 'host'), call=True),
    # plumbing of a server that exists (after a host restart): bridge, dhcp, anti-spoofing -> list of VIFs
    Method('setup_for_instance', ('instance', 'host'), call=True),
    # security groups or rules changed: refresh the filters of these ports' host
    Method('refresh_security', ('port_ids',)),
)
