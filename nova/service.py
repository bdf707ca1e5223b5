"""Services that are written outside of this tree, on the runtime of ours.

    def main():
        service.serve(service.Service.create(binary='nova-counter'))
        return service.wait()

takes the class of its manager from ``counter_manager`` in [DEFAULT], is in the list of services, serves its RPC methods
and its periodic tasks, and ends as the other daemons do. A command of ``nova.cmd.common.run`` may have it among its
parts instead. See doc/source/contributor/services.rst.
"""
from __future__ import annotations

from collections.abc import Callable
import functools
import os
import random
import sys
import tempfile
import threading
import time
from typing import Any

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

MANAGERS = 'nova.managers'           # group of entry points
# Two kinds of services that take one queue's messages would each get half of them.
TAKEN = frozenset(interface.topic for interface in (
    compute_interface.INTERFACE, conductor_interface.INTERFACE, network_interface.INTERFACE, network_interface.AGENT,
    scheduler_interface.INTERFACE))


class Service:
    """A part of ``runtime.service.Process`` around a manager. ``create`` makes one and knows the defaults.

    :param manager: object, class or path of one; a class is called with ``host``, ``conf`` and ``bus``
    :param report_interval: None, or what [DEFAULT] has: all services of a process report at one interval
    :param periodic_enable: False: no periodic tasks
    :param periodic_fuzzy_delay: seconds at most that pass, by chance, before the first periodic task
    :param periodic_interval_max: seconds at most between two runs of a periodic task
    :param db_allowed: False: it opens no database. Where messages are signed it cannot do without: a service of others
        makes its signatures with the deployment's key, which is in the API database
    :param bus: rpc.bus.Bus; None: it makes one of ``transport_url``, and closes it
    :raises InvalidInput: what cannot be carried out
    :raises InvalidOption: the path of the manager leads nowhere
    """

    def __init__(self, host: str, binary: str, topic: str, manager: Any, report_interval: int | None = None,
                 periodic_enable: bool | None = None, periodic_fuzzy_delay: float | None = None,
                 periodic_interval_max: float | None = None, db_allowed: bool = True, *, conf: cfg.ConfigOpts,
                 bus: Any = None) -> None:
        if topic in TAKEN:
            raise exception.InvalidInput(f'The topic {topic} is that of a service of this product.')
        if report_interval not in (None, conf.report_interval):
            raise exception.InvalidInput('A service has no report_interval of its own: set the one in [DEFAULT].')
        self.conf, self.host, self.binary, self.topic = conf, host, binary, topic
        self._own_bus = bus is None
        self.bus = _signing_bus(conf, db_allowed) if bus is None else bus
        self.manager = _manager(manager, f'{topic}_manager', host=host, conf=conf, bus=self.bus)
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
    def create(cls, host: str | None = None, binary: str | None = None, topic: str | None = None, manager: Any = None,
               report_interval: int | None = None, periodic_enable: bool | None = None,
               periodic_fuzzy_delay: float | None = None, periodic_interval_max: float | None = None,
               db_allowed: bool = True, *, conf: cfg.ConfigOpts | None = None, bus: Any = None) -> Service:
        """A service, not started.

        :param host: None: ``host`` of [DEFAULT]
        :param binary: name in the list of services; None: that of the command
        :param topic: name of its queue; None: the binary without ``nova-``
        :param manager: as of the class; None: the path in ``<topic>_manager`` of [DEFAULT]
        :param conf: None: made of the command line of this process
        :raises InvalidInput: no manager is named, or what the class raises
        """
        conf = nova_conf.new(sys.argv[1:]) if conf is None else conf
        binary = binary or os.path.basename(sys.argv[0])
        topic = topic or binary.removeprefix('nova-')
        return cls(host or conf.host, binary, topic, manager or _chosen(conf, topic), report_interval, periodic_enable,
                   periodic_fuzzy_delay, periodic_interval_max, db_allowed, conf=conf, bus=bus)

    def basic_config_check(self) -> None:
        """Look whether a file can be written at all.

        :raises InvalidInput: there is no directory for temporary files
        """
        try:
            with tempfile.TemporaryFile():
                pass
        except OSError as error:
            raise exception.InvalidInput(f'No temporary file can be made: {error.strerror or error}.') from None

    def start(self) -> None:
        """Call the hooks, enter the list of services, take messages, run the periodic tasks."""
        self.basic_config_check()
        _hook(self.manager, 'init_host')
        self._first_at = time.monotonic() + random.uniform(0, self._fuzzy)
        self._runtime.start()
        if self._hooks.prepared:                 # not where it was to stop while it waited for a conductor
            _hook(self.manager, 'post_start_hook')

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new message, end what runs, call ``cleanup_host``; True when it ended within so many seconds.

        :param timeout: None: graceful_shutdown_timeout of [DEFAULT]
        """
        done = bool(self._runtime.stop(self.conf.graceful_shutdown_timeout if timeout is None else timeout))
        if self._own_bus:
            self.bus.close()
        return done

    def kill(self) -> None:
        """Not possible: hosts do not remove rows.

        :raises Unsupported: always, with the command that does it
        """
        raise exception.Unsupported(f'A service does not remove its own row. When {self.binary} on {self.host} has '
                                    'stopped: openstack compute service delete ID')

    def periodic_tasks(self, raise_on_error: bool = False) -> None:
        """Run the periodic tasks of the manager once."""
        self.manager.periodic_tasks(nova_context.admin_context(), raise_on_error=raise_on_error)

    # ---- what a process asks of its parts

    @property
    def refused(self) -> Any:
        """Why it must not go on; None: it may."""
        return self._runtime.refused

    def rest(self) -> None:
        """Begin no new run of a periodic task."""
        self._runtime.rest()

    def reload(self) -> None:
        """The configuration was read again."""
        self._runtime.reload()

    def alive(self) -> Any:
        """See nova.runtime.health."""
        return self._runtime.alive()

    def ready(self) -> Any:
        """See nova.runtime.health."""
        return self._runtime.ready()

    def _tasks(self) -> list[tuple[str, float, Callable[[], None]]]:
        return [(name, min(spacing, self._most or spacing), functools.partial(self._run, function))
                for name, spacing, function in nova_manager.timed(self.manager)]

    def _run(self, function: Callable[..., Any]) -> None:
        if time.monotonic() >= self._first_at:
            function(nova_context.admin_context())


class _Hooks:
    """A manager as the runtime calls it."""

    def __init__(self, manager: Any, interface: rpc_interface.Interface | None) -> None:
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
            raise exception.InvalidInput('Messages are signed here, with a key of the API database: db_allowed must be '
                                         'True.')
        assembly.sign_as_deployment(made, assembly.open_databases(conf)[0])
    return made


def _hook(manager: Any, name: str) -> None:
    getattr(manager, name, lambda: None)()       # one that is no Manager may lack it


def _chosen(conf: cfg.ConfigOpts, topic: str) -> str:
    """The path in ``<topic>_manager``."""
    name = f'{topic.replace("-", "_")}_manager'
    conf.register_opt(cfg.StrOpt(name, help='Path of the class of the manager.'))
    path = conf[name]
    if not path:
        raise exception.InvalidInput(f'{name} in [DEFAULT] is not set: the path of the class of the manager.')
    return str(path)


def _manager(given: Any, option: str, **collaborators: Any) -> Any:
    found = entry_points.named(option, given, MANAGERS) if isinstance(given, str) else given
    return found(**collaborators) if callable(found) else found


class WSGIService:
    """A part of a process that serves an application of a paste file over HTTP.

    ``host`` and ``port`` are those of ``<name>_listen`` (127.0.0.1) and ``<name>_listen_port`` (0: a free one, known
    after ``start``) in [DEFAULT].

    :param loader: has ``load_app(name)``; None: applications of ``paste_config`` of [http]
    :param use_ssl: with the certificate of [http]
    :param max_url_len: characters of path and query; a longer request is a 414. None: the server's own bound
    :raises InvalidInput: there is no such application, or no certificate
    """

    def __init__(self, name: str, loader: Any = None, use_ssl: bool = False, max_url_len: int | None = None, *,
                 conf: cfg.ConfigOpts | None = None) -> None:
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
        """The address that it listens on."""
        return str(self._server.host)

    @property
    def port(self) -> int:
        """The true port, after ``start``."""
        return int(self._server.port)

    def start(self) -> None:
        """Take the address, and serve.

        :raises InvalidInput: the address cannot be had
        """
        if self._certificate is not None:
            self._certificate.start()
        self._server.listen()
        self._server.start()

    def stop(self, timeout: int = 0) -> Any:
        """Take no new request; True when what ran has ended within so many seconds."""
        done = self._server.stop(timeout)
        if self._certificate is not None:
            self._certificate.stop()
        self._ended.set()
        return done

    def wait(self) -> None:
        """Return when another thread has stopped it."""
        self._ended.wait()

    def reset(self) -> None:
        """Nothing: the number of threads does not change while it serves."""

    def reload(self) -> None:
        """The configuration was read again: so is the certificate."""
        if self._certificate is not None:
            self._certificate.reload()

    def alive(self) -> Any:
        """See nova.runtime.health."""
        return self._server.alive()


def _loaded(conf: cfg.ConfigOpts, name: str) -> Any:
    from paste import deploy

    from nova.web import paste as offers
    try:
        return deploy.loadapp('config:' + apis.paste_file(conf), name=name,
                              global_conf={'conf': offers.offer(conf)})
    except LookupError as error:
        raise exception.InvalidInput(f'{conf.http.paste_config} has no application {name} that stands alone: {error}'
                                     ) from None


def _bounded(application: Any, most: int) -> Callable[..., Any]:
    def bounded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
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
        self._services: list[Any] = []

    def launch_service(self, server: Any, workers: int | None = 1) -> None:
        """Add a service; it starts in ``wait``.

        :raises InvalidInput: it shall have several processes
        """
        if workers not in (None, 1):
            raise exception.InvalidInput(f'{workers} workers: a daemon is one process here. Start it as often as it is '
                                         'wanted, on hosts or under names of their own.')
        self._services.append(server)

    def wait(self) -> int:
        """Start the services, and return the exit code when a signal has stopped them.

        :raises InvalidInput: there is none
        """
        if not self._services:
            raise exception.InvalidInput('No service was launched.')
        first = self._services[0]
        log.setup(first.conf, first.binary)
        parts: list[Any] = []
        for server in self._services:
            if isinstance(server, Service):
                parts.append(assembly.needs(server.bus))
            parts.append(server)
        return int(runtime.Process(first.conf, first.binary, parts).run())


def process_launcher() -> Launcher:
    """A new Launcher."""
    return Launcher()


_launcher: Launcher | None = None


def serve(server: Any, workers: int | None = None) -> None:
    """Launch the service of this process.

    :raises RuntimeError: there is one already
    """
    global _launcher
    if _launcher is not None:
        raise RuntimeError('serve() is for one service: launch several with process_launcher().')
    launcher = process_launcher()
    launcher.launch_service(server, workers=workers)
    _launcher = launcher


def wait() -> int:
    """Run what ``serve`` was given, until a signal stops it; returns the exit code.

    :raises InvalidInput: it was given nothing
    """
    return (_launcher or process_launcher()).wait()
