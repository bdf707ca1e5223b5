"""RPC methods of the network service and of its host agents.

``host`` in allocate selects the service that does the plugging if the host has no agent.
"""
from nova.rpc.interface import Interface, Method, Newer

MAX_LEASES = 500
REPORT_TIMEOUT_S = 3         # the next report follows soon, so a lost answer is not waited for

# external_instance_event for a host: addresses of the server changed, the host reads them again
NETWORK_CHANGED = {'name': 'network-changed', 'tag': None, 'status': 'completed'}

INTERFACE = Interface(
    'network', '1.4',
    # allocate addresses, ports and host plumbing for a server before it is built; idempotent per server.
    # requested_networks as in RequestSpec; security_groups: list of names -> list of VIFs (objects/network_info.py)
    Method('allocate_for_instance', ('instance', 'requested_networks', 'security_groups', 'host'), call=True),
    # release all of it; with a host, only what no other host has taken over. Idempotent
    Method('deallocate_for_instance', ('instance_uuid', 'host'), call=True),
    # add a port to an existing server; idempotent per request. request: {'port_id', 'network_id', 'fixed_ip', 'tag'};
    # with a network_id the port is created with that port_id -> its VIF
    Method('attach_port', ('instance', 'request', 'attached_by', 'host'), call=True),
    # -> the VIF of a server's port, None if there is none (or another request attached it, unless attached_by is None)
    Method('find_port', ('instance_uuid', 'port_id', 'attached_by'), call=True),
    # detach one port (attached by this request, unless None). Does nothing if the server has no such port
    Method('detach_port', ('instance_uuid', 'port_id', 'attached_by', 'host'), call=True),
    # add an address to the server's first port in a network, unless it has one that is not in ``known``; remove an
    # address from any of its ports. Idempotent
    Method('add_address', ('instance_uuid', 'network_id', 'known', 'host'), call=True),
    Method('remove_address', ('instance_uuid', 'address', 'host'), call=True),
    # set up plumbing of an existing server (after a host restart): bridge, DHCP, anti-spoofing -> list of VIFs
    Method('setup_for_instance', ('instance', 'host'), call=True),
    # set up plumbing at ``host``, the target of a running server's migration. setup_for_instance there completes the
    # move -> list of VIFs
    Method('prepare_for_instance', ('instance', 'host'), call=True),
    # revert prepare_for_instance. Idempotent
    Method('unprepare_for_instance', ('instance_uuid', 'host'), call=True),
    # -> list of current VIFs, without any setup
    Method('network_info', ('instance_uuid',), call=True),
    # the server left its host and is on no host; it keeps ports and addresses
    Method('leave_host', ('instance_uuid', 'host'), call=True),
    # ports, security groups or rules changed: each host updates its plumbing
    Method('refresh_security', ('port_ids',), fanout=True),
    # heartbeat of a host's agent: tunnel address, whether it may host routers, the agent's release (runtime/release.py)
    # -> the revision of the network state, any JSON. A new revision means that host_state may have changed
    Method('report_host', ('host', 'address', 'routers', 'version'), call=True, since='1.1', timeout=REPORT_TIMEOUT_S,
           newer=(Newer('version', '1.4', optional=True),)),
    # -> the network state of a host (host_state.HostState) as JSON
    # physical  {physical network: bridge of the host}
    # address   tunnel address of the host
    # known     {'parts', 'names', 'moves', 'domains': whether the agent supports distributed routers, DNS names with
    # DSCP marks, migration tracking, and network domains}. If the agent has a state: also {'revision': of the state,
    # 'members': [ids of the groups with known members]}
    # The answer is {'revision'} if nothing changed, with 'rules' and 'members' if only group rules changed, else with
    # 'state'
    Method('host_state', ('host', 'physical', 'address', 'known'), call=True, since='1.1',
           newer=(Newer('known', '1.2', optional=True),)),
    # DHCP leases that began, ended or were renewed on a host: [{'mac', 'address', 'until': Unix time}], at most
    # MAX_LEASES. Addresses of unknown ports are ignored
    Method('report_leases', ('host', 'leases'), call=True, since='1.3', optional=True, timeout=REPORT_TIMEOUT_S),
)

AGENT = Interface(
    'network_agent', '1.0',
    # apply the current state of the network service; returns when the host is in line
    Method('plumb', call=True),
    # a change happened: each host checks for it
    Method('changed', fanout=True),
)
