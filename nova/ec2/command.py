"""nova-api-ec2: the EC2 API over HTTP, for deployments of several hosts."""
from typing import Any

from oslo_config import cfg

from nova.cmd import common


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova import policy
    from nova.api import proxy_headers
    from nova.cloud import assembly
    from nova.ec2 import part
    from nova.rpc import bus as rpc_bus
    from nova.runtime import tls
    from nova.runtime import wsgi
    from nova.runtime.http import priorities

    certificate = tls.of_files(conf.http, 'ec2')
    bus = rpc_bus.Bus(conf) if conf.api.nova_network_resources else None         # used only for nova-cert
    api_db, cells = assembly.checked_databases(conf, bus)
    scheme = 'https' if certificate else 'http'
    url = f'{scheme}://{conf.my_ip}:{conf.ec2.port}'
    application = part.remote(conf, api_db, policy.Policy(conf), url, bus)
    mounts = wsgi.Mounts([wsgi.Mount('/services/Cloud', application), wsgi.Mount('', application)])
    return [*([bus.pins] if bus else ()), assembly.needs(bus, api_db, cells), *([certificate] if certificate else ()),
            wsgi.Server(proxy_headers.of_proxies(conf, mounts), conf.ec2.listen, conf.ec2.port,
                        plan=priorities.Plan(conf.http.threads, 1), drain=conf.http.drain_time,
                        trusted=conf.http.trusted_proxies, tls=certificate and certificate.context)]


def main() -> int:
    return common.run('nova-api-ec2', parts)
