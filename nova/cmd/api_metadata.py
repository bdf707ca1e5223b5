"""nova-api-metadata: the metadata service for proxies such as neutron-metadata-agent.

The proxies identify the guest in signed headers.

Hosts with network agents also relay requests of their guests to this service, and do not sign with shared_secret. A
nova-network with database access serves the guests of its bridges without this daemon.
"""
import logging
from typing import Any

from oslo_config import cfg

from nova import exception
from nova.cmd import common

LOG = logging.getLogger(__name__)


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova.api.metadata import app
    from nova.cloud import assembly
    from nova.runtime import tls
    from nova.runtime import wsgi
    from nova.runtime.http import priorities

    if conf.network.backend == 'neutron' and not conf.metadata.shared_secret:  # relays do not use shared_secret
        raise exception.InvalidInput(reason='[metadata] shared_secret is not set: requests from proxies are refused.')
    certificate, address = tls.of_files(conf.metadata, 'metadata'), conf.network.metadata_host or conf.my_ip
    if certificate is None and not tls.is_loopback(address):
        LOG.warning('Proxies use plain HTTP to reach %s: "nova-manage tls issue" creates a certificate for '
                    '[metadata] cert_file.', address)
    api_db, cells = assembly.checked_databases(conf)
    return [assembly.needs(None, api_db, cells), *([certificate] if certificate else ()),
            wsgi.Server(app.Application(conf, api_db, cells), address, conf.metadata.port,
                        plan=priorities.Plan(conf.http.threads, 1), trusted=conf.http.trusted_proxies,
                        tls=certificate and certificate.context)]


def main() -> int:
    return common.run('nova-api-metadata', parts)
