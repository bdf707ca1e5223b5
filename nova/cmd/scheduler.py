"""nova-scheduler: chooses hosts."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = compose.checked_databases(conf, bus)
    return [compose.needs(bus, api_db, cells), compose.scheduler(conf, bus, conf.host, api_db, cells)]


def main():
    return common.run('nova-scheduler', parts)
