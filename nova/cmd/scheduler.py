"""nova-scheduler: selects hosts."""
from typing import Any

from oslo_config import cfg

from nova.cmd import common


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [assembly.needs(bus, api_db, cells), assembly.scheduler(conf, bus, conf.host, api_db, cells)]


def main() -> int:
    return common.run('nova-scheduler', parts)
