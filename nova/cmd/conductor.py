"""nova-conductor: builds servers, and writes to the database for those who have none."""
from nova.cmd import common


def parts(conf):
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    images = assembly.images(conf, api_db)
    return [assembly.needs(bus, api_db, cells), assembly.conductor(conf, bus, conf.host, api_db, cells, images)]


def main():
    return common.run('nova-conductor', parts)
