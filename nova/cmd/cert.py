"""nova-cert: the certificate authority for users of the cloud. It runs on the host with the private keys."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [assembly.needs(bus, api_db, cells), assembly.cert(conf, bus, conf.host)]


def main() -> int:
    return common.run('nova-cert', parts)
