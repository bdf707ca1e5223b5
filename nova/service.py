"""Library for third-party services that use the runtime of this product.

    def main():
        service.serve(service.Service.create(binary='nova-counter'))
        return service.wait()

This program creates the manager class that [DEFAULT] counter_manager names. The service appears in the list of
services, and runs the RPC methods and periodic tasks of the manager. The service handles signals like a daemon. A
``Service`` can also be one of the parts that ``nova.cmd.common.run`` runs. See doc/source/contributor/services.rst.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
import functools
import os
import random
import sys
import tempfile
import threading
import time
from typing import Any, Protocol, TYPE_CHECKING

from oslo_config import cfg

from nova import conf as nova_conf
from nova import context as nova_context
from nova import exception
from nova import manager as nova_manager
from nova.cloud import apis
from nova.cloud import assembly
from nova.compute import interface as compute_interface
from nova.conductor import interface as conductor_interface
from nova.network import interface as network_interface
from nova.rpc import bus as rpc_bus
from nova.rpc import interface as rpc_interface
from nova.rpc import signatures
from nova.runtime import entry_points
from nova.runtime import log
from nova.runtime import service as runtime
from nova.runtime import tls
from nova.runtime import wsgi
from nova.scheduler import interface as scheduler_interface

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse
    from _typeshed.wsgi import WSGIApplication
    from _typeshed.wsgi import WSGIEnvironment

    from nova.runtime import health

MANAGERS = 'nova.managers'           # entry point group
# Topics that third-party services cannot use: two services on one queue would each receive half of the messages
TAKEN = frozenset(interface.topic for interface in (
    compute_interface.INTERFACE, conductor_interface.INTERFACE, network_interface.INTERFACE, network_interface.AGENT,
    scheduler_interface.INTERFACE))


class Service:
    """Service that runs a manager, as a ``runtime.service.Part`` of a process. ``create`` supplies defaults.

    :param manager: a manager object, a class, or the import path of either. A class is called with ``host``, ``conf``
        and ``bus``
    :param report_interval: None, or the same value as in [DEFAULT], because all services of a process share one
        interval
    :param periodic_enable: whether to run periodic tasks
    :param periodic_fuzzy_delay: maximum random delay of the first periodic task, seconds
    :param periodic_interval_max: maximum interval of a periodic task, seconds
    :param db_allowed: whether the service may open databases; required if messages are signed, because the signing key
        of the deployment is in the API database
    :param bus: message bus. None: create a bus for ``transport_url``; ``stop`` closes this bus
    :raises InvalidInput: an unsupported combination
    :raises InvalidOption: the path of the manager is invalid
    """

    def __init__(self, host: str, binary: str, topic: str, manager: object, report_interval: int | None = None,
                 periodic_enable: bool | None = None, periodic_fuzzy_delay: float | None = None,
                 periodic_interval_max: float | None = None, db_allowed: bool = True, *, conf: cfg.ConfigOpts,
                 bus: rpc_bus.Bus | None = None) -> None:
        if topic in TAKEN:
            raise exception.InvalidInput(f'The topic {topic} is reserved for a service of the product.')
        if report_interval not in (None, conf.report_interval):
            raise exception.InvalidInput('report_interval of a single service is not supported: set it in [DEFAULT].')
        self.conf, self.host, self.binary, self.topic = conf, host, binary, topic
        self._own_bus = bus is None
        self.bus = _signing_bus(conf, db_allowed) if bus is None else bus
        self.manager: Any = _manager(manager, f'{topic}_manager', host=host, conf=conf, bus=self.bus)
        interface: rpc_interface.Interface | None = getattr(self.manager, 'interface', None)
        if interface is not None and interface.topic != topic:
            raise exception.InvalidInput(f'The interface of the manager has the topic {interface.topic}, its service '
                                         f'{topic}.')
        self._first_at, self._most = 0.0, periodic_interval_max
        self._fuzzy = periodic_fuzzy_delay or 0
        self._hooks = _Hooks(self.manager, interface)
        self._runtime = runtime.Service(
            conf, binary, host, interface, self._hooks, self.bus, self.bus.client(conductor_interface.INTERFACE), topic,
            tasks=[] if periodic_enable is False else self._tasks())

    @classmethod
    def create(cls, host: str | None = None, binary: str | None = None, topic: str | None = None,
               manager: object = None, report_interval: int | None = None, periodic_enable: bool | None = None,
               periodic_fuzzy_delay: float | None = None, periodic_interval_max: float | None = None,
               db_allowed: bool = True, *, conf: cfg.ConfigOpts | None = None,
               bus: rpc_bus.Bus | None = None) -> Service:
        """Create a service; ``start`` starts it.

        :param host: name of the host; default: ``host`` of [DEFAULT]
        :param binary: name in the list of services; default: the name of the command
        :param topic: name of the service's queue; default: the binary without ``nova-``
        :param manager: as for the class; default: the import path in ``<topic>_manager`` of [DEFAULT]
        :param conf: configuration; default: read from the command line of this process
        :raises InvalidInput: no manager is configured, or the combination of parameters is not supported
        """
        conf = nova_conf.new(sys.argv[1:]) if conf is None else conf
        binary = binary or os.path.basename(sys.argv[0])
        topic = topic or binary.removeprefix('nova-')
        return cls(host or conf.host, binary, topic, manager or _chosen(conf, topic), report_interval, periodic_enable,
                   periodic_fuzzy_delay, periodic_interval_max, db_allowed, conf=conf, bus=bus)

    def basic_config_check(self) -> None:
        """Check that a temporary file can be created.

        :raises InvalidInput: there is no writable directory for temporary files
        """
        try:
            with tempfile.TemporaryFile():
                pass
        except OSError as error:
            raise exception.InvalidInput(f'Cannot create a temporary file: {error.strerror or error}.') from None

    def start(self) -> None:
        """Call the hooks, register the service, start receiving messages and start the periodic tasks."""
        self.basic_config_check()
        _hook(self.manager, 'init_host')
        self._first_at = time.monotonic() + random.uniform(0, self._fuzzy)
        self._runtime.start()
        if self._hooks.prepared:                 # False if ``stop`` was called during the wait for a conductor
            _hook(self.manager, 'post_start_hook')

    def stop(self, timeout: float | None = None) -> bool:
        """Stop receiving messages, finish the running calls and call ``cleanup_host``.

        :param timeout: seconds; None: graceful_shutdown_timeout of [DEFAULT]
        :returns: True if all this was done within the timeout
        """
        done = bool(self._runtime.stop(self.conf.graceful_shutdown_timeout if timeout is None else timeout))
        if self._own_bus:
            self.bus.close()
        return done

    def kill(self) -> None:
        """Always fail, because a service does not delete its row of the table ``services``.

        :raises Unsupported: the message has the command that deletes the row
        """
        raise exception.Unsupported(f'A service does not remove its own row. When {self.binary} on {self.host} has '
                                    'stopped, run: openstack compute service delete ID')

    def periodic_tasks(self, raise_on_error: bool = False) -> None:
        """Run the periodic tasks of the manager once."""
        self.manager.periodic_tasks(nova_context.admin_context(), raise_on_error=raise_on_error)

    # ---- methods of runtime.service.Part

    @property
    def refused(self) -> exception.ServiceExists | None:
        """Error that must stop the process, or None."""
        return self._runtime.refused

    def rest(self) -> None:
        """Start no further periodic tasks."""
        self._runtime.rest()

    def reload(self) -> None:
        """Apply the reloaded configuration."""
        self._runtime.reload()

    def alive(self) -> health.States:
        """Report failures that a restart would repair; see nova.runtime.health."""
        return self._runtime.alive()

    def ready(self) -> health.States:
        """Report whether the dependencies of the service are available; see nova.runtime.health."""
        return self._runtime.ready()

    def _tasks(self) -> list[tuple[str, float, Callable[[], None]]]:
        return [(name, min(spacing, self._most or spacing), functools.partial(self._run, function))
                for name, spacing, function in nova_manager.timed(self.manager)]

    def _run(self, function: Callable[..., Any]) -> None:
        if time.monotonic() >= self._first_at:
            function(nova_context.admin_context())


class _Hooks:
    """Adapter that calls the hooks of a manager from the runtime."""

    def __init__(self, manager: object, interface: rpc_interface.Interface | None) -> None:
        self._manager, self.prepared = manager, False
        self.methods = {name: getattr(manager, name, None) for name in (interface.methods if interface else ())}

    def start(self) -> None:
        _hook(self._manager, 'pre_start_hook')
        self.prepared = True

    def stop(self) -> None:
        _hook(self._manager, 'cleanup_host')


def _signing_bus(conf: cfg.ConfigOpts, db_allowed: bool) -> rpc_bus.Bus:
    made = rpc_bus.Bus(conf)
    if made.signatures.mode != signatures.OFF:
        if not db_allowed:
            raise exception.InvalidInput('Signing messages needs a key of the API database: db_allowed must be '
                                         'True.')
        assembly.sign_as_deployment(made, assembly.open_databases(conf)[0])
    return made


def _hook(manager: object, name: str) -> None:
    getattr(manager, name, lambda: None)()       # a manager with another base class may lack hooks


def _chosen(conf: cfg.ConfigOpts, topic: str) -> str:
    """Return the import path of the manager's class from the option ``<topic>_manager``."""
    name = f'{topic.replace("-", "_")}_manager'
    conf.register_opt(cfg.StrOpt(name, help='Path of the class of the manager.'))
    path = conf[name]
    if not path:
        raise exception.InvalidInput(f'{name} in [DEFAULT] is not set: it must be the path of the manager class.')
    return str(path)


def _manager(given: object, option: str, **collaborators: object) -> object:
    found = entry_points.named(option, given, MANAGERS) if isinstance(given, str) else given
    return found(**collaborators) if callable(found) else found


class Loader(Protocol):
    """Source of WSGI applications."""

    def load_app(self, name: str) -> WSGIApplication: ...


class WSGIService:
    """HTTP server for a WSGI application of a paste file, as a ``runtime.service.Part`` of a process.

    ``host`` and ``port`` come from the options ``<name>_listen`` (default 127.0.0.1) and ``<name>_listen_port``
    (default 0, any free port) in [DEFAULT].

    :param loader: source of applications; default: the file that ``paste_config`` of [http] names
    :param use_ssl: whether to serve HTTPS with the certificate of [http]
    :param max_url_len: maximum length of path and query; longer requests get a 414. Default: the limit of the server
    :raises InvalidInput: the application or the certificate does not exist
    """

    def __init__(self, name: str, loader: Loader | None = None, use_ssl: bool = False, max_url_len: int | None = None,
                 *, conf: cfg.ConfigOpts | None = None) -> None:
        self.conf = nova_conf.new(sys.argv[1:]) if conf is None else conf
        self.name, self.binary = name, f'nova-{name}'
        self.conf.register_opts([cfg.HostAddressOpt(f'{name}_listen', default='127.0.0.1'),
                                 cfg.PortOpt(f'{name}_listen_port', default=0)])
        application = _loaded(self.conf, name) if loader is None else loader.load_app(name)
        self._certificate = tls.given(self.conf) if use_ssl else None
        if use_ssl and self._certificate is None:
            raise exception.InvalidInput('use_ssl needs cert_file and key_file in [http].')
        self._server = wsgi.Server(
            application if max_url_len is None else _bounded(application, max_url_len),
            self.conf[f'{name}_listen'], self.conf[f'{name}_listen_port'],
            trusted=self.conf.http.trusted_proxies, body=self.conf.api.max_request_body_size,
            tls=self._certificate and self._certificate.context)
        self._ended = threading.Event()

    @property
    def host(self) -> str:
        """Listening address."""
        return str(self._server.host)

    @property
    def port(self) -> int:
        """Listening port; valid after ``start``."""
        return int(self._server.port)

    def start(self) -> None:
        """Bind the address and serve requests.

        :raises InvalidInput: the address cannot be bound
        """
        if self._certificate is not None:
            self._certificate.start()
        self._server.listen()
        self._server.start()

    def stop(self, timeout: float = 0) -> bool:
        """Stop accepting requests. Return True if the running requests finished within the timeout (seconds)."""
        done = self._server.stop(timeout)
        if self._certificate is not None:
            self._certificate.stop()
        self._ended.set()
        return done

    def wait(self) -> None:
        """Block until another thread calls ``stop``."""
        self._ended.wait()

    def reset(self) -> None:
        """Do nothing: in oslo.service this method resets the number of threads; here the number is fixed."""

    def reload(self) -> None:
        """Reload the certificate after a reload of the configuration."""
        if self._certificate is not None:
            self._certificate.reload()

    def alive(self) -> health.States:
        """Report failures that a restart would repair; see nova.runtime.health."""
        return self._server.alive()


def _loaded(conf: cfg.ConfigOpts, name: str) -> WSGIApplication:
    from paste import deploy

    from nova.web import paste_registry
    try:
        application: WSGIApplication = deploy.loadapp('config:' + apis.paste_file(conf), name=name,
                                                      global_conf={'conf': paste_registry.register(conf)})
    except LookupError as error:
        raise exception.InvalidInput(f'{conf.http.paste_config} has no standalone application {name}: {error}'
                                     ) from None
    return application


def _bounded(application: WSGIApplication, most: int) -> WSGIApplication:
    def bounded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')
        if len(path) + len(environ.get('QUERY_STRING', '')) <= most:
            return application(environ, start_response)
        body = f'The URL is longer than {most} characters.\n'.encode()
        start_response('414 URI Too Long', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
        return [body]
    return bounded


class Launcher:
    """Runs services in this process until a signal stops them."""

    def __init__(self) -> None:
        self._services: list[Service | WSGIService] = []

    def launch_service(self, server: Service | WSGIService, workers: int | None = 1) -> None:
        """Add a service; ``wait`` starts it.

        :raises InvalidInput: ``workers`` is above 1
        """
        if workers not in (None, 1):
            raise exception.InvalidInput(f'{workers} workers are not supported: a daemon is one process. Start '
                                         'several, on different hosts or with different names.')
        self._services.append(server)

    def wait(self) -> int:
        """Start the services, and return the exit code after a signal has stopped them.

        :raises InvalidInput: there are no services
        """
        if not self._services:
            raise exception.InvalidInput('No service was launched.')
        first = self._services[0]
        log.setup(first.conf, first.binary)
        parts: list[runtime.Part] = []
        for server in self._services:
            if isinstance(server, Service):
                parts.append(assembly.needs(server.bus))
            parts.append(server)
        return int(runtime.Process(first.conf, first.binary, parts).run())


def process_launcher() -> Launcher:
    """Return a new Launcher."""
    return Launcher()


_launcher: Launcher | None = None


def serve(server: Service | WSGIService, workers: int | None = None) -> None:
    """Set the service that ``wait`` runs.

    :raises RuntimeError: ``serve`` was called before
    """
    global _launcher
    if _launcher is not None:
        raise RuntimeError('serve() accepts one service: use process_launcher() for several.')
    launcher = process_launcher()
    launcher.launch_service(server, workers=workers)
    _launcher = launcher


def wait() -> int:
    """Run the service of ``serve`` until a signal stops it, and return the exit code.

    :raises InvalidInput: ``serve`` was not called
    """
    return (_launcher or process_launcher()).wait()
