"""Networking API of the embedded network service in nova-api, for a deployment of several hosts without Neutron."""
from wsgiref.types import WSGIApplication

from oslo_config.cfg import ConfigOpts

from nova import notify
from nova import policies
from nova.api import proxy_headers
from nova.cloud import block_storage
from nova.db.audit import log
from nova.db.cells.cells import Cells
from nova.db.engine import Database
from nova.network import interface
from nova.network.rest import app
from nova.network.rest import servers
from nova.policy import Policies
from nova.rpc.bus import Bus
from nova.runtime import wsgi

PATH = '/network'


def with_api(conf: ConfigOpts, bus: Bus, api_db: Database, cells: Cells,
             compute: WSGIApplication, policy: Policies) -> WSGIApplication:
    """Return the compute API, with the Networking API below /network if the networks are embedded.

    :param cells: Cells with the servers that are notified of changed addresses
    :param compute: the compute API
    """
    if conf.network.backend != 'embedded':
        return compute
    rules = policy.of(policies.NETWORK)
    face = log.Face(app.Application(conf, api_db, bus.client(interface.INTERFACE), servers.Servers(cells), rules),
                    log.Auditor(api_db, notify.new(conf)))
    network = proxy_headers.of_proxies(
        conf, block_storage.authenticated(conf, api_db, face, rules, ('network',), app.is_public))
    return wsgi.Mounts([wsgi.Mount(PATH, network), wsgi.Mount('', compute, strip=False, max_body=None)])
