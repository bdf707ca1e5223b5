"""nova-api: the compute API over HTTP."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cloud.assembly import Application
    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.rpc.bus import Bus
    from nova.runtime import service
    from nova.runtime.http import workers


def parts(conf: cfg.ConfigOpts, worker: workers.WorkerSockets | None = None) -> list[service.Part]:
    from nova.cloud import assembly
    from nova.cloud import http_server
    from nova.rpc import bus as rpc_bus
    from nova.runtime import tls

    certificate = tls.of_daemon(conf)
    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    return [bus.pins, assembly.needs(bus, api_db, cells), *([certificate] if certificate else ()),
            http_server.server(conf, application(conf, (bus, api_db, cells)), drain=conf.http.drain_time,
                               tls=certificate.context if certificate else None,
                               listener=worker.http if worker else None)]


def application(conf: cfg.ConfigOpts, opened: tuple[Bus, Database, Cells] | None = None) -> Application:
    """Return the WSGI application of this process with its databases and broker.

    :param opened: broker and databases of the process; None: create them
    :raises DatabaseNotReady, InvalidInput: the deployment is not ready, or not configured
    """
    from nova import policy
    from nova.cloud import apis
    from nova.cloud import assembly
    from nova.cloud import network_api
    from nova.rpc import bus as rpc_bus

    if opened is None:
        bus = rpc_bus.Bus(conf)
        opened = bus, *assembly.checked_databases(conf, bus)
    bus, api_db, cells = opened
    images = assembly.images(conf, api_db)
    scheme = 'https' if conf.http.cert_file and conf.http.tls != 'off' else 'http'
    url = conf.http.public_url or f'{scheme}://{conf.my_ip}:{conf.http.port}'
    identity = assembly.identity(conf, api_db, url) if conf.identity.backend == 'embedded' else None
    rules = policy.Policies(conf)
    compute = apis.api(conf, bus, api_db, cells, images, rules, identity)
    return apis.dashboard(conf, network_api.with_api(conf, bus, api_db, cells, compute, rules))


def main() -> int:
    return common.run('nova-api', parts, workers=True)
