"""nova-cert: a certificate authority for the users of the cloud, on the host that has its keys."""
from nova.cmd import common


def parts(conf):
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [assembly.needs(bus, api_db, cells), assembly.cert(conf, bus, conf.host)]


def main():
    return common.run('nova-cert', parts)
