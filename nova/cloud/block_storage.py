"""Assembly of the embedded block storage as a daemon: its service row and its HTTP API."""
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from wsgiref.types import WSGIApplication, WSGIEnvironment

from oslo_config.cfg import ConfigOpts

from nova import notify
from nova.api import proxy_headers
from nova.cloud import assembly
from nova.conductor import interface as conductor_interface
from nova.db.audit import log
from nova.db.engine import Database
from nova.identity import auth
from nova.policy import Policy
from nova.rpc.bus import Bus
from nova.runtime import service as services
from nova.runtime import wsgi
from nova.runtime.http import priorities
from nova.runtime.tls import Tls
from nova.volume.embedded import EmbeddedVolumes
from nova.volume.rest import app
from nova.volume.store import services as volume_services
from nova.web import paste_registry
from nova.web import pipeline

if TYPE_CHECKING:
    from nova.identity.embedded.service import IdentityService

PATH = '/volume'
TYPES = ('block-storage', 'volumev3', 'volume')          # in the catalog


def service(conf: ConfigOpts, bus: Bus, storage: EmbeddedVolumes) -> services.Service:
    """Return the service of the block storage. The service has no message queue, because its API is HTTP.

    Its start resumes interrupted work. Its stop waits for running copies for half of graceful_shutdown_timeout.
    """
    manager = types.SimpleNamespace(start=storage.recover,
                                    stop=lambda: storage.stop(conf.graceful_shutdown_timeout / 2))
    return services.Service(conf, volume_services.BINARY, conf.host, manager=manager,
                            topic=volume_services.TOPIC, conductor=bus.client(conductor_interface.INTERFACE))


def server(conf: ConfigOpts, api_db: Database, storage: EmbeddedVolumes, rules: Policy,
           certificate: Tls | None = None) -> wsgi.Server:
    """Return the HTTP server of the API, not started.

    The API is below /volume, and also at the root, where a separate Block Storage service has its API.
    """
    face = authenticated(conf, api_db, log.Face(app.Application(storage, rules), log.Auditor(api_db, notify.new(conf))),
                         rules, TYPES)
    mounts = wsgi.Mounts([wsgi.Mount(PATH, face), wsgi.Mount('', face)])
    return wsgi.Server(proxy_headers.of_proxies(conf, mounts), conf.volume.listen, conf.volume.port,
                       plan=priorities.Plan(conf.http.threads, 1), drain=conf.http.drain_time,
                       trusted=conf.http.trusted_proxies, tls=certificate and certificate.context)


def is_public(environ: WSGIEnvironment) -> bool:
    """Return whether a request is for a version document or the OpenAPI document, which need no token."""
    return environ.get('PATH_INFO', '').rstrip('/') in ('', '/v3', '/' + app.DOCUMENT)


def authenticated(conf: ConfigOpts, api_db: Database, face: WSGIApplication, rules: Policy, types: Sequence[str],
                  public: Callable[[WSGIEnvironment], bool] = is_public,
                  identity: 'IdentityService | None' = None) -> WSGIApplication:
    """Put an API behind the Identity service of [identity] backend.

    :param types: of the API in the catalog
    :param public: function(environ) -> whether a request needs no token
    :param identity: the embedded Identity service, if the caller has it
    """
    if conf.identity.backend == 'embedded':
        identity = identity or assembly.identity(conf, api_db, conf.http.public_url or '')
        return auth.EmbeddedAuth(face, identity, types, public=public, fault=auth.identity_fault,
                                 auth_uri=auth.identity_uri(conf), is_admin=rules.is_admin)
    registered = {'conf': paste_registry.register(conf), 'policy': paste_registry.register(rules)}
    checked = auth.authtoken_factory(registered, delay_auth_decision='true')
    uri = conf.keystone_authtoken.www_authenticate_uri if 'keystone_authtoken' in conf else None
    caller = auth.KeystoneContext(face, public=public, fault=auth.identity_fault, auth_uri=uri,
                                  is_admin=rules.is_admin)
    return pipeline.prepend(auth.strip_identity, checked(caller))
