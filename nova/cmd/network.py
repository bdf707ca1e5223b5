"""nova-network: addresses, bridges, DHCP and filters of one host, and the metadata service on its bridge."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova.rpc import bus as rpc_bus

    api_db, cells = compose.checked_databases(conf)
    bus = rpc_bus.Bus(conf)
    return [compose.needs(bus, api_db), compose.network(conf, bus, conf.host, api_db),
            *compose.metadata(conf, api_db, cells)]


def main():
    return common.run('nova-network', parts)
