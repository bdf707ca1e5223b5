"""What tests share with nova/tests/unit/test_network_rules.py."""
from nova.network.host import state as host_state

MAC = 'fa:16:3e:00:00:01'


def subnet(**values):
    return host_state.Subnet(
        **{'cidr': '10.0.0.0/24', 'gateway': '10.0.0.1', 'dhcp': True, 'dns': [], 'routes': [], **values}
    )


def network(name='br-a', subnets=None, default=True):
    return host_state.Network('11111111-2222-3333-4444-555555555555', name, 1450, default,
                              [subnet()] if subnets is None else subnets)


def port(device='tap1', addresses=('10.0.0.5',), groups=('g-1',), mac=MAC):
    return host_state.Port(device, device, mac, 'br-a', list(addresses), list(groups))


def row(direction='ingress', **values):
    return {'direction': direction, 'ethertype': 'IPv4', 'protocol': None, 'port_range_min': None,
            'port_range_max': None, 'remote_ip_prefix': None, 'remote_group_id': None, **values}


def state(**values):
    return host_state.HostState(
        **{
            'networks': [network()],
            'ports': [port()],
            'rules': {'g-1': [row('egress')]},
            'members': {},
            **values,
        }
    )
