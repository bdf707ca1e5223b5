"""nova-conductor: builds servers, and writes to the database for those who have none."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = compose.checked_databases(conf, bus)
    images = compose.images(conf, api_db)
    return [compose.needs(bus, api_db, cells), compose.conductor(conf, bus, conf.host, api_db, cells, images)]


def main():
    return common.run('nova-conductor', parts)
