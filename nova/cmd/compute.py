"""nova-compute: the guests of one host. It needs no database."""
from nova.cmd import common


def parts(conf):
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    return [assembly.needs(bus), assembly.enrolled(conf, bus),
            assembly.compute(conf, bus, conf.host, assembly.remote_images(conf))]


def main():
    return common.run('nova-compute', parts)
