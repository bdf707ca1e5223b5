"""Assembly of the embedded block storage as a daemon: its service row and its HTTP API."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import notify
from nova.cloud import assembly
from nova.conductor import interface as conductor_interface
from nova.db.audit import log
from nova.identity import auth
from nova.runtime import service as services
from nova.runtime import wsgi
from nova.runtime.http import priorities
from nova.volume.rest import app
from nova.volume.store import services as volume_services
from nova.web import paste_registry
from nova.web import pipeline

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from nova.db.engine import Database
    from nova.policy import Policy
    from nova.rpc.bus import Bus
    from nova.runtime.tls import Tls
    from nova.volume.embedded import EmbeddedVolumes

PATH = '/volume'


class Manager:
    """Start and stop of the storage: interrupted copies and exports are recovered at the start.

    :param timeout: seconds to wait for running copies at the stop
    """

    def __init__(self, storage: EmbeddedVolumes, timeout: float) -> None:
        self._storage, self._timeout = storage, timeout

    def start(self) -> None:
        self._storage.recover()

    def stop(self) -> None:
        self._storage.stop(self._timeout)


def service(conf: ConfigOpts, bus: Bus, storage: EmbeddedVolumes) -> services.Service:
    """Return the service. It is called over HTTP and has no queue."""
    manager = Manager(storage, conf.graceful_shutdown_timeout / 2)
    return services.Service(conf, volume_services.BINARY, conf.host, manager=manager,
                            topic=volume_services.TOPIC, conductor=bus.client(conductor_interface.INTERFACE))


def server(conf: ConfigOpts, api_db: Database, storage: EmbeddedVolumes, rules: Policy,
           certificate: Tls | None = None) -> wsgi.Server:
    """Return the HTTP server of the API, not started.

    The API is below /volume, and also at the root, where a separate Block Storage service has it.
    """
    face = authenticated(conf, api_db, log.Face(app.Application(storage), log.Auditor(api_db, notify.new(conf))),
                         rules)
    return wsgi.Server(wsgi.Mounts([wsgi.Mount(PATH, face), wsgi.Mount('', face)], lambda url: {}), conf.volume.listen,
                       conf.volume.port, plan=priorities.Plan(conf.http.threads, 1), drain=conf.http.drain_time,
                       trusted=conf.http.trusted_proxies, tls=certificate and certificate.context)


def _public(environ: WSGIEnvironment) -> bool:
    """Return whether a request is for a version document, which needs no token."""
    return environ.get('PATH_INFO', '').rstrip('/') in ('', '/v3')


def authenticated(conf: ConfigOpts, api_db: Database, face: WSGIApplication, rules: Policy,
                  public: Callable[[WSGIEnvironment], bool] = _public) -> WSGIApplication:
    """Put an API behind the Identity service of [identity] backend.

    :param public: function(environ) -> whether a request needs no token
    """
    if conf.identity.backend == 'embedded':
        identity = assembly.identity(conf, api_db, conf.http.public_url or '')
        return auth.EmbeddedAuth(face, identity, public=public, fault=auth.identity_fault,
                                 auth_uri=auth.identity_uri(conf), is_admin=rules.is_admin)
    registered = {'conf': paste_registry.register(conf), 'policy': paste_registry.register(rules)}
    checked = auth.authtoken_factory(registered, delay_auth_decision='true')
    uri = conf.keystone_authtoken.www_authenticate_uri if 'keystone_authtoken' in conf else None
    caller = auth.KeystoneContext(face, public=public, fault=auth.identity_fault, auth_uri=uri,
                                  is_admin=rules.is_admin)
    return pipeline.prepend(auth.strip_identity, checked(caller))
