"""The face of the embedded network service in nova-api: where a fleet without Neutron has its Networking API."""
from __future__ import annotations

from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import notify
from nova.api import proxy_headers
from nova.cloud import block_storage
from nova.db.audit import log
from nova.network import interface
from nova.network.rest import app
from nova.network.rest import servers
from nova.runtime import wsgi
from nova.web import pipeline

PATH = '/network'


def with_api(conf: ConfigOpts, bus: Any, api_db: Any, cells: Any, rules: Any, compute: Any) -> Any:
    """The compute API, and the Networking API below /network where the networks are the cloud's own.

    :param cells: Cells, whose servers show their addresses
    :param rules: policy.Policy
    :param compute: the WSGI application of the compute API
    """
    if conf.network.backend != 'embedded':
        return compute
    face = log.Face(app.Application(conf, api_db, bus.client(interface.INTERFACE), servers.Servers(cells)),
                    log.Auditor(api_db, notify.new(conf)))
    network = pipeline.prepend(proxy_headers.ProxyHeaders(proxy_headers.trusted(conf)).read,
                              block_storage.authenticated(conf, api_db, face, rules, _public))
    return wsgi.Mounts([wsgi.Mount(PATH, network), wsgi.Mount('', compute, strip=False, max_body=None)], lambda url: {})


def _public(environ: dict[str, Any]) -> bool:
    """Version documents need no token."""
    return environ.get('PATH_INFO', '').rstrip('/') in ('', '/v2.0')
