"""nova-scheduler: chooses hosts."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova.rpc import bus as rpc_bus

    api_db, cells = compose.checked_databases(conf)
    return [compose.scheduler(conf, rpc_bus.Bus(conf), conf.host, api_db, cells)]


def main():
    return common.run('nova-scheduler', parts)
