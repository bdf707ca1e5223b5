"""RPC methods of the network service and of its host agents.

On hosts without an agent, the network service plugs the ports that allocate_for_instance creates.
"""
from nova.rpc.interface import Interface, Method, Newer

MAX_LEASES = 500
REPORT_TIMEOUT_S = 3       # seconds; a report without a response is not retried, because the next report follows soon

# argument of external_instance_event: the server's addresses changed, and its host must read them again
NETWORK_CHANGED = {'name': 'network-changed', 'tag': None, 'status': 'completed'}

INTERFACE = Interface(
    'network', '1.5',
    Method('allocate_for_instance', ('instance', 'requested_networks', 'security_groups', 'host'), call=True,
           doc='Allocate addresses and ports for a server that is about to be built, and plug them on its host; '
               'idempotent per server. ``requested_networks`` as in RequestSpec, ``security_groups``: names. '
               'Return the list of VIFs (objects/network_info.py).'),
    Method('deallocate_for_instance', ('instance_uuid', 'host'), call=True,
           doc='Release all ports and addresses of a server; with a host, only if no other host has taken it over. '
               'Idempotent.'),
    Method('attach_port', ('instance', 'request', 'attached_by', 'host'), call=True,
           doc="Attach a port to an existing server; idempotent per request. ``request``: {'port_id', "
               "'network_id', 'fixed_ip', 'tag'}; with a network_id the port is created with that port_id. Return "
               'its VIF.'),
    Method('find_port', ('instance_uuid', 'port_id', 'attached_by'), call=True,
           doc='Return the VIF of a port of a server, or None if the server does not have the port or another request '
               'attached it.'),
    Method('detach_port', ('instance_uuid', 'port_id', 'attached_by', 'host'), call=True,
           doc='Detach one port; with ``attached_by``, only if that request attached the port. Idempotent.'),
    Method('add_address', ('instance_uuid', 'network_id', 'known_addresses', 'host'), call=True,
           doc="Add an address to the server's first port in a network, unless the port already has an address "
               'that is not in ``known_addresses``. Idempotent.'),
    Method('remove_address', ('instance_uuid', 'address', 'host'), call=True,
           doc="Remove an address from the server's first port that has this address. Idempotent, unless further "
               'ports have it.'),
    Method('setup_for_instance', ('instance', 'host'), call=True,
           doc='Plug the ports of a server on its host (bridge, DHCP, anti-spoofing), for example after a restart. '
               'Return the list of VIFs.'),
    Method('prepare_for_instance', ('instance', 'host'), call=True,
           doc='Plug the ports at ``host`` for a server that still runs elsewhere; setup_for_instance there '
               'completes the move. Return the list of VIFs.'),
    Method('unprepare_for_instance', ('instance_uuid', 'host'), call=True,
           doc='Revert prepare_for_instance. Idempotent.'),
    Method('network_info', ('instance_uuid',), call=True,
           doc='Return the current list of VIFs without changing the host.'),
    Method('unbind_ports', ('instance_uuid', 'host'), call=True,
           doc='Unplug a server that has left its host and is on no host; its ports and addresses stay reserved.'),
    Method('refresh_ports', ('port_ids',), fanout=True,
           doc='Apply changed ports, security groups or rules on each host.'),
    Method('report_host', ('host', 'address', 'routers', 'version', 'guarantees'), call=True, since='1.1',
           timeout=REPORT_TIMEOUT_S,
           newer=(Newer('version', '1.4', optional=True), Newer('guarantees', '1.5', optional=True)),
           doc='Heartbeat of the agent of a host: tunnel address, whether the host may have routers, release of the '
               'agent (runtime/release.py), what the host can guarantee to ports (guarantees.Stated). Return the '
               'revision of the network state (any JSON); a changed revision means that host_state may have '
               'changed.'),
    Method('host_state', ('host', 'physical_networks', 'address', 'applied_state'), call=True, since='1.1',
           newer=(Newer('applied_state', '1.2', optional=True),),
           doc='Return the network state of a host (host_state.HostState) as JSON. '
               '``physical_networks``: {physical network: bridge of the host}, ``address``: its tunnel address. '
               "``applied_state``: {'revision', 'members': ids of the groups whose members the agent has} of the state "
               "that the agent has applied, or {}. The response has 'revision'. After a change of only group rules it "
               "has 'rules' and 'members', too. After another change it has 'state'."),
    Method('report_leases', ('host', 'leases'), call=True, since='1.3', optional=True, timeout=REPORT_TIMEOUT_S,
           doc="Report DHCP leases that began, were renewed or ended on a host: [{'mac', 'address', 'expires_at': Unix "
               'time}], at most MAX_LEASES. Addresses that belong to no port of the host are ignored.'),
)

AGENT = Interface(
    'network_agent', '1.0',
    Method('apply_host_state', call=True,
           doc='Apply the current state of the network service on the host; returns when it is applied.'),
    Method('host_state_changed', fanout=True, doc='Notify all hosts that their state may have changed.'),
)
