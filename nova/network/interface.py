"""RPC methods of the network service, and of its agents on hosts.

``host`` in allocate decides which host's service does the plugging, where that host has no agent.
"""
from nova.rpc.interface import Interface, Method, Newer

MAX_LEASES = 500
REPORT_TIMEOUT_S = 3         # the next one comes soon: an answer that is lost with a connection is not waited for

# for a host: an event of external_instance_event: addresses of the server have changed, its host reads them again
NETWORK_CHANGED = {'name': 'network-changed', 'tag': None, 'status': 'completed'}

INTERFACE = Interface(
    'network', '1.4',
    # addresses, ports and host plumbing for a server about to be built; idempotent per server.
    # requested_networks as in RequestSpec; security_groups: list of names -> list of VIFs (objects/network_info.py)
    Method('allocate_for_instance', ('instance', 'requested_networks', 'security_groups', 'host'), call=True),
    # gives back all of it, with a host what no other host has got meanwhile; does nothing when nothing is there
    Method('deallocate_for_instance', ('instance_uuid', 'host'), call=True),
    # one more port of a server that exists; the same one when the same request calls again. request: {'port_id',
    # 'network_id', 'fixed_ip', 'tag'}; with a network_id the port is made under that port_id -> its VIF
    Method('attach_port', ('instance', 'request', 'attached_by', 'host'), call=True),
    # -> the VIF of a server's port, None when it is not (or was not attached by this request, unless that is None)
    Method('find_port', ('instance_uuid', 'port_id', 'attached_by'), call=True),
    # gives back one port (of this request, unless None); does nothing when it is not the server's
    Method('detach_port', ('instance_uuid', 'port_id', 'attached_by', 'host'), call=True),
    # one more address for the server's first port in a network than those known (nothing when it has another one
    # already), and one less of any of its ports (nothing when it has it not)
    Method('add_address', ('instance_uuid', 'network_id', 'known', 'host'), call=True),
    Method('remove_address', ('instance_uuid', 'address', 'host'), call=True),
    # plumbing of a server that exists (after a host restart): bridge, dhcp, anti-spoofing -> list of VIFs
    Method('setup_for_instance', ('instance', 'host'), call=True),
    # plumbing at ``host`` of a server that runs elsewhere and is about to come; setup_for_instance there makes the
    # move final -> list of VIFs
    Method('prepare_for_instance', ('instance', 'host'), call=True),
    # takes that back; does nothing when there is nothing
    Method('unprepare_for_instance', ('instance_uuid', 'host'), call=True),
    # -> list of VIFs as they are now; nothing is set up
    Method('network_info', ('instance_uuid',), call=True),
    # the server has left its host and is on none; ports and addresses stay its own
    Method('leave_host', ('instance_uuid', 'host'), call=True),
    # ports, security groups or rules changed: each host brings its plumbing in line
    Method('refresh_security', ('port_ids',), fanout=True),
    # a host says that its agent is there: address between hosts, whether it may have routers, the agent's release
    # (runtime/release.py) -> the revision of what hosts are plumbed by, any JSON; when it is another one than before,
    # host_state may be as well
    Method('report_host', ('host', 'address', 'routers', 'version'), call=True, since='1.1', timeout=REPORT_TIMEOUT_S,
           newer=(Newer('version', '1.4', optional=True),)),
    # -> what the plumbing of a host is made from (host_state.HostState) as JSON has it. physical: {physical network:
    # bridge of the host}, address: of the host between hosts. known: {'parts', 'names', 'moves', 'domains': whether it
    # takes parts of routers, names of addresses with marks of packets, guests that move, and domains of networks} and,
    # where it has something, {'revision': of that, 'members': [ids of the groups whose members it has]} -> what it has
    # not: {'revision'} alone, with 'rules' and 'members' where only rules of groups are other ones, else with 'state'
    Method('host_state', ('host', 'physical', 'address', 'known'), call=True, since='1.1',
           newer=(Newer('known', '1.2', optional=True),)),
    # leases of DHCP that began, ended or were renewed on a host: [{'mac', 'address', 'until': Unix time}], at most
    # MAX_LEASES; of what is no address of a port there nothing is kept
    Method('report_leases', ('host', 'leases'), call=True, since='1.3', optional=True, timeout=REPORT_TIMEOUT_S),
)

AGENT = Interface(
    'network_agent', '1.0',
    # the plumbing of the host is as the network service has it now, when this answers
    Method('plumb', call=True),
    # something changed somewhere: each host looks
    Method('changed', fanout=True),
)
