"""Console sessions: token validation, connection to the hypervisor, limits, and audit."""
from __future__ import annotations

from collections.abc import Callable, Iterable
import collections
import contextlib
import dataclasses
import ipaddress
import logging
import pathlib
import ssl
import threading
import time
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova import utils
from nova.console import relay
from nova.console import rfb
from nova.console import spice
from nova.console import streams
from nova.db import errors
from nova.db.cells.cells import Cells
from nova.db.servers import console_tokens
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import fairness
from nova.runtime import metrics
from nova.runtime import queues
from nova.runtime.http import addresses

if TYPE_CHECKING:
    from websockets.server import ServerProtocol

    from nova.db.cells.cells import Cell
    from nova.db.tables.rows import ConsoleAuthTokensRow
    from nova.runtime.http.channel import Channel

LOG = logging.getLogger(__name__)
AUDIT = logging.getLogger('nova.console.audit')

MAX_PER_TOKEN = 16              # maximum sessions of a token; SPICE opens one for each channel
MAX_PER_CLIENT = 100            # maximum sessions of a client that is not a trusted proxy
CHECK_INTERVAL_S = 5            # interval of authorization checks; a revoked token's session ends within this time
TOKEN_EXTENSION_S = 120         # seconds by which each check extends a session; it survives shorter database outages
CONNECT_TIMEOUT_S = 10          # timeout of the connection to the hypervisor, including authentication
RETRY_S = 60
RELAY_TIMEOUT_S = 60            # a relay without activity for this time has failed
LEAST_PORT = 1024               # lowest port that a console may use
SOCKETS = 'serial%d.sock'       # file name of a guest's serial socket, as in nova.virt.libvirt.graphics



@dataclasses.dataclass
class Facts:
    """Data of one session for limits and audit."""

    row: ConsoleAuthTokensRow
    cell: Cell
    address: str
    client: str


class Sessions:
    """All sessions of a process.

    :param projects: function(ids) -> subset of deleted or disabled projects
    :param void: function(rows) -> token_hash of rows whose user token is invalid
    :param local: names of the compute hosts on this machine: only their consoles may use loopback
    :param sockets: directory of the guests of this machine
    """

    def __init__(self, conf: ConfigOpts, relay_: relay.Relay, cells: Cells, projects: Callable[[set[str]], set[str]],
                 void: Callable[[list[ConsoleAuthTokensRow]], set[str]], local: Iterable[str],
                 sockets: pathlib.Path) -> None:
        self._conf, self._relay, self._cells = conf, relay_, cells
        self._projects, self._void = projects, void
        self._local, self._sockets = frozenset(local), sockets
        self._tls, self._trusted = streams.context(conf), addresses.Trusted.of_option(conf.http.trusted_proxies)
        self._lock = threading.Lock()
        self._open: dict[relay.Session, Facts] = {}
        self._tokens: collections.Counter[str] = collections.Counter()
        self._clients: collections.Counter[str] = collections.Counter()
        self._shares = fairness.ConcurrencyLimit(queues.CONSOLES, conf.console.max_sessions)
        self._stopping = threading.Event()
        metrics.CONSOLE_SESSIONS.watch(self, lambda sessions: {(): len(sessions)})

    # ---- methods that nova.runtime.service.Part requires

    def start(self) -> None:
        self._relay.start()
        concurrency.spawn('console-tokens', self._keep)

    def stop(self, timeout: float = 0) -> None:
        self._stopping.set()
        self._relay.stop(timeout)

    def alive(self) -> health.States:
        """See nova.runtime.health."""
        turned_s = time.monotonic() - self._relay.turned
        return {'consoles': (turned_s < RELAY_TIMEOUT_S, {'seconds_since_turn': round(turned_s, 1)})}

    def __len__(self) -> int:
        return len(self._open)

    # ---- new sessions

    def open(self, kind: str, token: str, address: str, protocol: ServerProtocol) -> Opened:
        """Connect to the console of a token; ``Opened.take`` starts the session.

        :param kind: kind of proxy, 'vnc', 'spice' or 'serial'
        :param address: address of the client
        :param protocol: WebSocket protocol, after the opening handshake
        :raises ConsoleTokenNotFound: the token is invalid for this proxy
        :raises TooManyRequests: too many sessions
        :raises ConsoleUnreachable: the hypervisor is unreachable or refuses the connection
        :raises ServiceUnavailable: a database is unavailable
        """
        try:
            return self._opened(kind, token, address, protocol)
        except errors.UNAVAILABLE as error:
            LOG.error('A console cannot be opened, because a database is unavailable: %s', error)
            raise exception.ServiceUnavailable(service='database') from None

    def _opened(self, kind: str, token: str, address: str, protocol: ServerProtocol) -> Opened:
        client = addresses.client(address)
        cell, row = self._found(kind, token)
        facts = Facts(row, cell, address, client)
        self._enter(facts)
        with contextlib.ExitStack() as undo:
            undo.callback(self._leave, facts)
            stream, greeting = self._way(kind, facts, console_tokens.password(row, token))
            undo.callback(stream.close)
            cell.db.run(console_tokens.take, token, TOKEN_EXTENSION_S,     # after the connection: it may fail
                        self._conf.consoleauth.single_use and kind != 'spice')
            undo.pop_all()
        end = row['expires_at'] if self._conf.consoleauth.enforce_session_timeout else row['user_token_expires_at']
        until = None if end is None else time.monotonic() + (end - utils.utcnow()).total_seconds()
        session = relay.Session(protocol, stream, greeting, self._conf.console.idle_timeout, self._ended, until)
        return Opened(self, session, facts)

    def _found(self, kind: str, token: str) -> tuple[Cell, ConsoleAuthTokensRow]:
        """Return (cell, row) of a token."""
        failure: Exception = exception.ConsoleTokenNotFound()
        for cell in self._cells.all() if token and len(token) <= console_tokens.MAX_TOKEN_LENGTH else ():
            try:
                with cell.db.reader() as conn:
                    row = console_tokens.get(conn, token)
            except exception.ConsoleTokenNotFound:
                continue
            except errors.UNAVAILABLE as error:      # the token may be in this cell
                failure = error
                continue
            if console_tokens.KINDS.get(row['console_type']) == kind:
                if self._void([row]) or row['project_id'] and self._projects({row['project_id']}):
                    raise exception.ConsoleTokenNotFound()
                return cell, row
        raise failure

    def _enter(self, facts: Facts) -> None:
        key = facts.row['token_hash']
        with self._lock:
            if (self._tokens[key] >= MAX_PER_TOKEN
                    or self._clients[facts.client] >= MAX_PER_CLIENT and facts.address not in self._trusted
                    or not self._shares.acquire(facts.row['project_id'] or '')):
                raise exception.TooManyRequests(retry_after=RETRY_S)
            self._tokens[key] += 1
            self._clients[facts.client] += 1

    def _leave(self, facts: Facts) -> None:
        with self._lock:
            for counter, key in ((self._tokens, facts.row['token_hash']), (self._clients, facts.client)):
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]
        self._shares.release(facts.row['project_id'] or '')

    # ---- connection to the hypervisor

    def _way(self, kind: str, facts: Facts, password: str | None) -> tuple[streams.Stream, relay.Greeting | None]:
        row, stream = facts.row, None
        try:
            if row['internal_access_path']:
                return streams.connect_socket(self._socket(row)), None
            host, secure = self._host(row), self._tls is not None
            port = row['tls_port'] if kind != 'vnc' and row['tls_port'] else row['port']
            if port < LEAST_PORT:
                raise streams.Broken(f'{port} is not a valid console port.')
            stream = streams.connect(host, port, CONNECT_TIMEOUT_S)
            if kind == 'vnc':
                rfb.open(stream, password, self._tls, host)
                return stream, rfb.greet()
            if secure and not row['tls_port']:
                raise streams.Broken(f'The {kind} console has no TLS, but [console] hypervisor_ca_file requires it.')
            if row['tls_port']:
                stream.secure(self._needed_tls(kind), host)
            return stream, spice.link(password) if kind == 'spice' and password else None
        except streams.Broken as error:
            if stream is not None:
                stream.close()
            LOG.warning('Cannot connect to the %s console of server %s on %s: %s', kind, row['instance_uuid'],
                        row['instance_host'], error)
            raise exception.ConsoleUnreachable() from None
        except BaseException:
            if stream is not None:
                stream.close()
            raise

    def _needed_tls(self, kind: str) -> ssl.SSLContext:
        if self._tls is None:
            raise streams.Broken(f'The {kind} console requires TLS: set hypervisor_ca_file in [console].')
        return self._tls

    def _host(self, row: ConsoleAuthTokensRow) -> str:
        """Return the address of a console. Refuse loopback and link-local addresses of a console on another host."""
        host = str(row['host'])
        try:
            address = ipaddress.ip_address(host)
            internal = address.is_loopback or address.is_unspecified or address.is_link_local
        except ValueError:
            internal = host == 'localhost' or host.endswith('.localhost')
        if internal and row['instance_host'] not in self._local:
            raise streams.Broken(f'{host} is only reachable on its host: set server_listen there.')
        return host

    def _socket(self, row: ConsoleAuthTokensRow) -> pathlib.Path:
        """Return the path of the socket of a guest's serial port; any path but the expected one is refused."""
        path = self._sockets / row['instance_uuid'] / (SOCKETS % 0)
        if row['instance_host'] not in self._local or row['internal_access_path'] != str(path):
            raise streams.Broken('The serial console is a socket of another host: set server_listen in '
                                 '[serial_console] there.')
        return path

    # ---- active sessions

    def begin(self, session: relay.Session, facts: Facts, channel: Channel, data: bytes) -> None:
        with self._lock:
            self._open[session] = facts
        self._relay.take(session, channel, data)

    def abandon(self, session: relay.Session, facts: Facts) -> None:
        session.stream.close()
        self._leave(facts)

    def _ended(self, session: relay.Session, reason: str) -> None:
        with self._lock:
            facts = self._open.pop(session)
        self._leave(facts)
        row = facts.row
        AUDIT.info('Console session: user=%s project=%s server=%s type=%s host=%s from=%s seconds=%.1f received=%d '
                   'sent=%d end=%s', row['user_id'], row['project_id'], row['instance_uuid'], row['console_type'],
                   row['instance_host'], facts.address, time.monotonic() - session.begun, session.received,
                   session.sent, reason)

    def _keep(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_S):
            with self._lock:
                sessions = list(self._open.items())
            by_cell: dict[Cell, list[tuple[relay.Session, ConsoleAuthTokensRow]]] = collections.defaultdict(list)
            for session, facts in sessions:
                by_cell[facts.cell].append((session, facts.row))
            for cell, some in by_cell.items():
                try:
                    self._keep_of(cell, some)
                except Exception:                # the database is unavailable: sessions continue and are checked again
                    LOG.warning('Cannot check the authorization of %s console sessions; they continue.', len(some),
                                exc_info=True)

    def _keep_of(self, cell: Cell, sessions: list[tuple[relay.Session, ConsoleAuthTokensRow]]) -> None:
        gone = self._projects({row['project_id'] for _session, row in sessions if row['project_id'] is not None})
        void = self._void([row for _session, row in sessions])
        may = cell.db.run(console_tokens.keep, [row['token_hash'] for _session, row in sessions], TOKEN_EXTENSION_S)
        for session, row in sessions:
            if row['token_hash'] not in may:
                self._relay.end(session, 'the server was stopped, moved or deleted', relay.GOING_AWAY)
            elif row['project_id'] in gone:
                self._relay.end(session, 'the project was deleted or disabled')
            elif row['token_hash'] in void:
                self._relay.end(session, 'the user has logged out or lost access')


class Opened:
    """Session that waits until the HTTP server hands over the client's connection (see exchange.Successor)."""

    def __init__(self, sessions: Sessions, session: relay.Session, facts: Facts) -> None:
        self._sessions, self._session, self._facts = sessions, session, facts

    def take(self, channel: Channel, data: bytes) -> None:
        self._sessions.begin(self._session, self._facts, channel, data)

    def abandon(self) -> None:
        self._sessions.abandon(self._session, self._facts)
