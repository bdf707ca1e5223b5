"""Networking API of the embedded network service in nova-api, for a fleet without Neutron."""
from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.policy import Policy
    from nova.rpc.bus import Bus

PATH = '/network'


def with_api(conf: ConfigOpts, bus: Bus, api_db: Database, cells: Cells, rules: Policy,
             compute: WSGIApplication) -> WSGIApplication:
    """Return the compute API, with the Networking API below /network if the networks are embedded.

    :param cells: Cells with the servers that are notified of changed addresses
    :param compute: the compute API
    """
    if conf.network.backend != 'embedded':
        return compute
    face = log.Face(app.Application(conf, api_db, bus.client(interface.INTERFACE), servers.Servers(cells)),
                    log.Auditor(api_db, notify.new(conf)))
    network = pipeline.prepend(proxy_headers.ProxyHeaders(proxy_headers.trusted(conf)).read,
                              block_storage.authenticated(conf, api_db, face, rules, _public))
    return wsgi.Mounts([wsgi.Mount(PATH, network), wsgi.Mount('', compute, strip=False, max_body=None)], lambda url: {})


def _public(environ: WSGIEnvironment) -> bool:
    """Return whether a request is for a version document, which needs no token."""
    return environ.get('PATH_INFO', '').rstrip('/') in ('', '/v2.0')
