"""nova-scheduler: chooses hosts."""
from nova.cmd import common


def parts(conf):
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [assembly.needs(bus, api_db, cells), assembly.scheduler(conf, bus, conf.host, api_db, cells)]


def main():
    return common.run('nova-scheduler', parts)
