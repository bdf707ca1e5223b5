"""nova-compute: the guests of one host. It needs no database."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    return [compose.needs(bus), compose.enrolled(conf, bus),
            compose.compute(conf, bus, conf.host, compose.remote_images(conf))]


def main():
    return common.run('nova-compute', parts)
