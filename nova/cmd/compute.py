"""nova-compute: the guests of one host. It needs no database."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova.rpc import bus as rpc_bus

    return [compose.compute(conf, rpc_bus.Bus(conf), conf.host, compose.remote_images(conf))]


def main():
    return common.run('nova-compute', parts)
