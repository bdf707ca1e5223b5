"""All-in-one: all services, with the identity, image and network services, in one process.

    cloud = Cloud(conf)
    cloud.start()           # cloud.url serves /identity, /image, /network, /compute and an index
    cloud.stop(timeout)

The state is in one directory: databases, images, guests, token keys, clouds.yaml. Several clouds run in one process if
their directories (and, with real networks, their bridges) differ.
"""
import logging
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any, TextIO
from wsgiref.types import StartResponse, WSGIEnvironment

from oslo_config import cfg

from nova import notify
from nova import policies
from nova import policy
from nova.api import proxy_headers
from nova.cloud import apis
from nova.cloud import assembly
from nova.cloud import block_storage
from nova.cloud import consoles
from nova.cloud import conversion
from nova.cloud import drivers
from nova.cloud import first_start
from nova.cloud import http_server
from nova.cloud import nightly_backup
from nova.cloud import optional_parts
from nova.db import engine
from nova.db import schema as migration
from nova.db.audit import log
from nova.db.cells import cells as db_cells
from nova.identity import auth
from nova.identity.rest import app as identity_app
from nova.identity.embedded import bootstrap as identity_bootstrap
from nova.image.rest import app as image_app
from nova.network import interface as network_interface
from nova.network.rest import app as network_app
from nova.network.rest import servers as network_servers
from nova.rpc import bus as rpc_bus
from nova.rpc import inprocess
from nova.runtime import host_identity
from nova.runtime import privileges
from nova.runtime import service
from nova.runtime import state_directory
from nova.runtime import tls
from nova.runtime import wsgi
from nova.runtime.http import server
from nova.volume.rest import app as volume_app

LOG = logging.getLogger(__name__)

# Callers stop first: listeners call all services, nova-compute calls nova-conductor, nova-conductor calls the rest.
STOPS = ('', 'nova-compute', 'nova-conductor', 'nova-network', 'nova-scheduler')
STORE_THREADS = 16                  # maximum concurrent requests at the object store's port
# paths of the version documents, which need no token
PUBLIC = {'', '/versions', '/v2', '/v2.0', '/v2.1', '/v3'}


class Cloud:
    """One cloud in this process.

    :param conf: configuration; unless ``transport_url``, ``[database]`` and ``[api_database]`` name servers, messages
        stay in the process and databases are SQLite files
    :param hosts: names of the compute hosts; None: this host. Only the fake driver allows several
    :param network_helper: privileges.Helper that changes the host's network; None: this process does
    :param guest_helper: privileges.Helper for the privileged steps of the compute driver
    """

    def __init__(self, conf: cfg.ConfigOpts, hosts: Iterable[str] | None = None,
                 network_helper: privileges.Helper | None = None,
                 guest_helper: privileges.Helper | None = None) -> None:
        self.conf = conf
        self.state_path = pathlib.Path(os.path.abspath(host_identity.state_path(conf)))
        conf.set_override('state_path', str(self.state_path))
        if conf.compute_driver == 'fake' and not conf.fake.state_dir:
            conf.set_override('state_dir', str(self.state_path / 'fake'), group='fake')
        self.clouds_yaml = self.state_path / 'clouds.yaml'
        self.hosts = list(hosts or [conf.host])
        self._network_helper, self._guest_helper = network_helper, guest_helper
        self._started: list[service.Part] = []
        self._lock: TextIO | None = None
        self._late = _Late()
        self.url = ''                    # empty until the HTTP server listens

    # ---- lifecycle

    def start(self) -> None:
        """Create missing state, and serve.

        :raises InvalidInput: the directory is not usable or another process uses it, or the address is taken
        """
        try:
            self._take_directory()
            http = self._listen()
            self._started.append(http)       # the socket is bound, but serves no requests yet
            self._open()
            self._compose()
            self._started.append(assembly.needs(self.bus, self.api_db, self.cells))
            parts: list[Any] = [*self.services, self.consoles]
            for part in parts:
                self._started.append(part)
                part.start()
            self._take_over()
            self._late.set(self._application())
            http.start()
            self._started.remove(http)
            self._started.append(http)  # last: stop_order() reverses the list, so that HTTP stops before the services
            last: list[Any] = [*assembly.metadata(self.conf, self.api_db, self.cells), *self._store_port(),
                               nightly_backup.nightly(self.conf, self.api_db, self.cells)]
            for part in last:
                self._started.append(part)
                part.start()
        except BaseException:
            self.stop(0)
            raise
        LOG.info('The cloud serves at %s', self.url)

    def stop(self, timeout: float = 0) -> bool:
        """Refuse new requests and finish running ones; return True if all ended within ``timeout`` seconds."""
        for part in self._started:
            getattr(part, 'rest', lambda: None)()
        done = all([part.stop(timeout) is not False for part in self.stop_order()])
        self._started = []
        for name, end in (('cells', 'close'), ('bus', 'close'), ('api_db', 'dispose'), ('cell_db', 'dispose')):
            owned = getattr(self, name, None)
            if owned is not None:
                getattr(owned, end)()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        return done

    def stop_order(self) -> list[service.Part]:
        """Return the parts in the order in which they stop: a part stops before the parts that it calls."""
        def place(part: service.Part) -> int:
            binary = getattr(part, 'binary', '')
            return STOPS.index(binary) if binary in STOPS else 0
        return sorted(reversed(self._started), key=place)

    @property
    def parts(self) -> list[service.Part]:
        """Return the parts with health checks, see nova.runtime.health."""
        return self._started

    def reload(self) -> None:
        for part in self._started:
            getattr(part, 'reload', lambda: None)()

    # ---- steps

    def _take_directory(self) -> None:
        self._lock = state_directory.take(self.state_path)
        state_directory.check_complete(self.state_path)

    def _listen(self) -> server.Server:
        options = self.conf.http
        self.tls, self.authority = tls.of_cloud(self.conf, self.state_path)
        if self.tls is not None:
            self._started.append(self.tls)
            self.tls.start()
        http = http_server.server(self.conf, self._late, tls=self.tls.context if self.tls is not None else None)
        http.listen()
        host = {'0.0.0.0': self.conf.my_ip, '::': self.conf.my_ip}.get(options.listen, options.listen)
        host = f'[{host}]' if ':' in host else host
        scheme = 'https' if self.tls is not None else 'http'
        self.url = (options.public_url or f'{scheme}://{host}:{http.port}').rstrip('/')
        return http

    def _open(self) -> None:
        """Open the databases at the newest schema; create the first users, flavors and network."""
        conf = self.conf
        self.api_db, self.cell_db = assembly.open_databases(conf)
        conversion.convert(conf, self.api_db, self.cell_db, {conf.host, *self.hosts})
        self._migrate(self.api_db, 'api')
        self._migrate(self.cell_db, 'cell')
        self.cells = db_cells.Cells(conf, self.api_db, self.cell_db,
                                    lambda url: assembly.clients(conf, self.bus, url))
        self.identity = assembly.identity(conf, self.api_db, self.url)
        made = identity_bootstrap.bootstrap(self.identity, self._write_clouds_yaml)
        if not made:
            self._write_clouds_yaml()
        first_start.bootstrap(conf, self.api_db)
        drivers.record(conf)             # an earlier record would bind a directory without a cloud to this driver

    def _migrate(self, database: engine.Database, branch: str) -> None:
        migration.sync(database, branch)

    def _write_clouds_yaml(self, passwords: dict[str, str] | None = None) -> None:
        identity_bootstrap.write_clouds_yaml(str(self.clouds_yaml), self.url, passwords,
                                             None if self.authority is None else str(self.authority),
                                             str(tls.own_authority(self.state_path).trusted))

    def _compose(self) -> None:
        conf = self.conf
        consoles.announce(conf, self.url)
        self.bus = rpc_bus.Bus(conf, None if rpc_bus.configured(conf) else
                               f'{inprocess.SCHEME}:///{self.state_path}')
        assembly.follow_versions(conf, self.bus, self.cells)
        assembly.sign_as_deployment(self.bus, self.api_db)
        self.rules = policy.Policies(conf)
        self.store = assembly.image_store(conf, self.api_db, self.rules)
        self.store.recover()
        self.images = assembly.images(conf, self.api_db, self.store)
        self.volumes: Any = assembly.volumes(conf, self.api_db, self.images, self.cells)
        self.services = [
            assembly.conductor(conf, self.bus, conf.host, self.api_db, self.cells, self.images, self.volumes),
            assembly.scheduler(conf, self.bus, conf.host, self.api_db, self.cells),
            assembly.network(conf, self.bus, conf.host, self.api_db, self.cell_db, self._network_helper),
            *([optional_parts.certificates('[api] nova_network_resources').service(conf, self.bus, conf.host)]
              if conf.api.nova_network_resources else ()),
            *(assembly.compute(conf, self.bus, host, self.images, self._guest_helper) for host in self.hosts),
        ]
        self.consoles = consoles.held(conf, self.api_db, self.cells, self.hosts)

    def _take_over(self) -> None:
        """Resume the interrupted work of the previous process.

        The previous process has ended, because this process holds the lock of the state directory.
        """
        if self.conf.volume.backend == 'embedded':
            self.volumes.recover()
            self._started.append(self.volumes)
        if not rpc_bus.configured(self.conf):        # with a broker, other processes may run these tasks
            self.services[0].manager.take_over()
        # A restored backup leaves this file until compute services have compared their guests with the database.
        (self.state_path / state_directory.RESTORED).unlink(missing_ok=True)

    def _application(self) -> auth.App:
        rules = self.rules
        compute = apis.api(self.conf, self.bus, self.api_db, self.cells, self.images, rules, self.identity,
                           self.volumes, self.conf.key_manager.enabled)
        self.auditor = log.Auditor(self.api_db, notify.new(self.conf))
        mounts = wsgi.Mounts([
            wsgi.Mount('/identity', log.Face(identity_app.Application(
                self.identity, auth.identity_uri(self.conf), rules.of(policies.IDENTITY)),
                self.auditor), api=('identity', '/v3')),
            wsgi.Mount('/image', self._authenticated(image_app.Application(self.store), self.store.policy, ('image',)),
                       max_body=None, api=('image', '/v2')),
            *self._networks(),
            *self._volumes(),
            *self._keys(),
            *consoles.mounts(self.conf, self.consoles, self.url),
            wsgi.Mount('/healthcheck', compute, strip=False),
            wsgi.Mount('/compute', compute, max_body=None, api=('compute', '/v2.1')),  # the compute API checks the size
            wsgi.Mount('/v2.1', compute, strip=False, max_body=None),
            wsgi.Mount('/v2', compute, strip=False, max_body=None),
            wsgi.Mount('/v3.0', compute, strip=False, max_body=None),
            wsgi.Mount('/v1.0', compute, strip=False, max_body=None),  # API v1.0 of groups, see api/group_xml.py
        ])
        if self.conf.ec2.enabled:
            ec2 = optional_parts.ec2('[ec2] enabled')
            mounts.add(wsgi.Mount(ec2.PATH, ec2.local(
                self.conf, self.api_db, rules.of(), mounts, self.identity, self.url + ec2.PATH, self.bus),
                api=('ec2', '')))
        if self.conf.objectstore.enabled:
            store = optional_parts.object_store('[objectstore] enabled')
            self._object_store = store.local(self.conf, rules.of(), self.identity, self.auditor.finish)
            mounts.add(wsgi.Mount(store.PATH, self._object_store, max_body=None, api=('s3', '')))
        return proxy_headers.of_proxies(self.conf, apis.dashboard(self.conf, mounts, self.url))

    def _store_port(self) -> list[server.Server]:
        """Return the separate listener of the object store, for clients that do not support endpoints with a path."""
        if not self.conf.objectstore.enabled or not self.conf.objectstore.port:
            return []
        store = optional_parts.object_store('[objectstore] enabled')
        return [store.server(self.conf, self._object_store, STORE_THREADS, self.tls)]

    def _networks(self) -> list[wsgi.Mount]:
        """Return the API of the embedded network service, or [] if the networks are elsewhere."""
        if self.conf.network.backend != 'embedded':
            return []
        rules = self.rules.of(policies.NETWORK)
        network = network_app.Application(self.conf, self.api_db, self.bus.client(network_interface.INTERFACE),
                                          network_servers.Servers(self.cells), rules)
        return [wsgi.Mount('/network', self._authenticated(network, rules, ('network',), network_app.is_public),
                           api=('network', '/v2.0'))]

    def _volumes(self) -> list[wsgi.Mount]:
        """Return the API of the embedded block storage, or [] if the volumes are elsewhere."""
        if self.conf.volume.backend != 'embedded':
            return []
        rules = self.rules.of(policies.BLOCK_STORAGE)
        return [wsgi.Mount('/volume', self._authenticated(volume_app.Application(self.volumes, rules), rules,
                                                           block_storage.TYPES, block_storage.is_public),
                           api=('volume', '/v3'))]

    def _keys(self) -> list[wsgi.Mount]:
        """Return the API of the embedded key manager, or [] if it is disabled."""
        if not self.conf.key_manager.enabled:
            return []
        from nova.keymanager import store
        from nova.keymanager.rest import app
        rules = self.rules.of(policies.KEY_MANAGER)
        keys = app.Application(store.KeyStore(self.conf, self.api_db), rules)
        return [wsgi.Mount(app.PATH, self._authenticated(keys, rules, app.TYPES, app.is_public),
                           api=('key-manager', '/v1'))]

    def _authenticated(self, application: auth.App, rules: policy.Policy, types: Sequence[str],
                       public: Callable[[WSGIEnvironment], bool] | None = None) -> auth.App:
        """Put an API behind the Identity service of [identity] backend.

        :param types: service types of the API in the catalog
        :param public: function(environ) -> whether a request needs no token; default: those for version documents
        """
        return block_storage.authenticated(self.conf, self.api_db, log.Face(application, self.auditor), rules, types,
                                           public or _public, self.identity)


class _Late:
    """WSGI application that forwards to the real application, which is created after the HTTP server."""

    def __init__(self) -> None:
        self._application: auth.App | None = None

    def set(self, application: auth.App) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        assert self._application is not None             # set before the server starts
        return self._application(environ, start_response)


def _public(environ: WSGIEnvironment) -> bool:
    return environ.get('PATH_INFO', '').rstrip('/') in PUBLIC
