"""nova-cert: the certificate authority for users of the cloud. It runs on the host with the private keys."""
from typing import Any

from oslo_config import cfg

from nova.cmd import common


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova.cert import part
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [assembly.needs(bus, api_db, cells), part.service(conf, bus, conf.host)]


def main() -> int:
    return common.run('nova-cert', parts)
