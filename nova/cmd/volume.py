"""nova-volume: the embedded block storage of a deployment of several hosts, on the host with the volume files."""
import logging
from typing import Any

from oslo_config import cfg

from nova import exception
from nova.cmd import common

LOG = logging.getLogger(__name__)


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova import policies
    from nova import policy
    from nova.cloud import assembly
    from nova.cloud import block_storage
    from nova.rpc import bus as rpc_bus
    from nova.runtime import tls
    from nova.volume import embedded

    if conf.volume.backend != 'embedded':
        raise exception.InvalidInput(reason='nova-volume is the embedded block storage: its [volume] backend must be '
                                            'embedded. The other daemons need backend = cinder.')
    certificate = tls.of_files(conf.http, 'http')
    if certificate is None and not tls.is_loopback(conf.volume.listen):
        LOG.warning('The block storage listens on %s without TLS: set cert_file and key_file in '
                    '[http], unless a proxy in front uses TLS.', conf.volume.listen)
    bus = rpc_bus.Bus(conf)
    api_db, cells = assembly.checked_databases(conf, bus)
    storage = embedded.EmbeddedVolumes(conf, api_db, assembly.images(conf, api_db), cells)
    return [bus.pins, assembly.needs(bus, api_db, cells), *([certificate] if certificate else ()),
            block_storage.service(conf, bus, storage),
            block_storage.server(conf, api_db, storage, policy.Policy(conf, policies.BLOCK_STORAGE), certificate)]


def main() -> int:
    return common.run('nova-volume', parts)
