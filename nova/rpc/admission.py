"""Access control for messages that compute hosts send to services with database access.

Each service has a table of the methods that hosts may call: a row has the checks of one method. Hosts may not call
methods without a row:

    RIGHTS = {'update_instance': (admission.expects_caller, admission.columns('values', {'task_state'}))}
    bus.serve(INTERFACE, manager, host, admission.Admission('conductor', RIGHTS, facts))

A check is a function(call) that raises if the call is not allowed. It may compare the call with facts: stored data of
the server or move, which are read once, on first use. A check needs no facts if the SQL statement of the method selects
only rows of the calling host.

``Admission.admit`` ignores the user, project and roles that a host sends.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import functools
import logging
import threading
from typing import Any, NoReturn, Protocol, TypeAlias, TypedDict

from nova import context as nova_context
from nova import exception
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

MAX_LOGGED = 1000            # maximum refusals that are remembered, to log each as a warning only once


class OpenAction(TypedDict):
    """Unfinished instance action of a server: columns of its row."""

    action: str
    request_id: str
    project_id: str | None
    user_id: str | None
    owner: str | None
    arguments: dict[str, Any] | None


class MoveRow(TypedDict):
    """Unfinished move (migration, resize or evacuation) of a server: columns of its row."""

    source_compute: str | None
    dest_compute: str | None
    status: str


class Server(Protocol):
    """Stored facts about a server, which db.servers.ownership reads."""

    host: str | None
    task_state: str | None
    project_id: str
    system_metadata: dict[str, Any]
    moves: list[MoveRow]
    actions: list[OpenAction]


class Move(Protocol):
    """Stored facts about a move, which db.servers.ownership reads."""

    row: dict[str, Any]
    actions: list[OpenAction]


@dataclasses.dataclass
class Call:
    """A message of a host.

    host        name of the host that has sent the message
    arguments   {name: value}; a check may replace a sent value by the stored one
    request_id  id of the request, according to the host
    read        function(call, kind) -> facts: a Server for the kind 'server', a Move for the kind 'move'
    """

    host: str
    topic: str
    method: str
    arguments: dict[str, Any]
    request_id: str | None
    read: Read

    @functools.cached_property
    def server(self) -> Server | None:
        """Return the facts about the server that the call names, None if it does not exist."""
        found: Server | None = self.read(self, 'server')
        return found

    @functools.cached_property
    def move(self) -> Move | None:
        """Return the facts about the move that the call names, None if it does not exist."""
        found: Move | None = self.read(self, 'move')
        return found

    @property
    def uuid(self) -> str | None:
        """The uuid of the server that the call names."""
        instance = self.arguments.get('instance')
        found: str | None = self.arguments.get('instance_uuid') if instance is None else instance.uuid
        return found

    def requester(self) -> tuple[str | None, str | None]:
        """Return (project id, user id) of this request's open action; (None, None) if no check has read this action."""
        for found in (self.__dict__.get('server'), self.__dict__.get('move')):
            for action in found.actions if found else ():
                if action['request_id'] == self.request_id:
                    return action['project_id'], action['user_id']
        return None, None

    def refuse(self, reason: str) -> NoReturn:
        """Raise HostForbidden with this reason."""
        raise exception.HostForbidden(host=self.host, topic=self.topic, method=self.method, reason=reason)

    def raise_not_on_host(self) -> NoReturn:
        """Raise NotOnHost."""
        raise exception.NotOnHost(host=self.host, topic=self.topic, method=self.method, instance_id=self.uuid)


Read: TypeAlias = Callable[[Call, str], Any]
Check: TypeAlias = Callable[[Call], object]
Rights: TypeAlias = Mapping[str, Iterable[Check]]


class Admission:
    """Access checks for messages of compute hosts at one service.

    :param topic: topic of the service
    :param rights: {method: checks} that hosts may use
    :param read: function(call, kind) -> facts for the checks, see Call
    """

    def __init__(self, topic: str, rights: Rights, read: Read = lambda call, kind: None) -> None:
        self._topic, self._rights, self._read = topic, rights, read
        self._logged: set[tuple[str, str, object]] = set()
        self._lock = threading.Lock()

    def admit(self, context: nova_context.RequestContext, method: str,
              arguments: dict[str, Any]) -> nova_context.RequestContext:
        """Return the context in which a method runs.

        The context of a host's message has neither roles nor system scope. Project and user come from the request's
        unfinished action if a check has read this action; otherwise they are None.

        :raises HostForbidden: a host may not call this
        :raises NotOnHost, InstanceNotFound, MigrationNotFound: the server or move is not, or no longer, on the host
        """
        host = context.sender_host
        if host is None:
            return context
        call = Call(host, self._topic, method, arguments, context.request_id, self._read)
        try:
            if method not in self._rights:
                call.refuse('only services of the control plane may call this method')
            for check in self._rights[method]:
                check(call)
        except (exception.HostForbidden, exception.NotOnHost) as error:
            self._note(call, error)
            raise
        return nova_context.of_host(context, *call.requester())

    def _note(self, call: Call, error: exception.NovaException) -> None:
        metrics.RPC_REFUSED.labels(self._topic, call.method).inc()
        named = call.uuid or call.arguments.get('migration_id')
        key = call.host, call.method, named
        with self._lock:
            first = key not in self._logged
            if len(self._logged) >= MAX_LOGGED:
                self._logged.clear()
            self._logged.add(key)
        LOG.log(logging.WARNING if first else logging.DEBUG,
                'Refused the call %s.%s from host %s (server or move: %s): %s', self._topic, call.method,
                call.host, named or 'none', error.message)


# ---- checks that compare only arguments, and read no facts

def allow(call: Call) -> None:
    """Allow the call with all arguments."""


def host_is_caller(call: Call) -> None:
    """Check that ``host`` is the caller. This is sufficient if the method's SQL statements select by ``host``."""
    if call.arguments.get('host') != call.host:
        call.refuse(f'its argument names another host, {call.arguments.get("host")}')


def owner_is_caller(call: Call) -> None:
    """Check that ``owner`` is the compute service of the calling host."""
    if call.arguments.get('owner') != f'compute:{call.host}':
        call.refuse(f'its argument names another owner, {call.arguments.get("owner")}')


def connector_is_caller(call: Call) -> None:
    """Check that volumes are connected to the calling host."""
    connector = call.arguments.get('connector')
    if connector is not None and connector.get('host') != call.host:
        call.refuse(f'it connects a volume to host {connector.get("host")}')


def is_expecting_caller(call: Call) -> bool:
    """Return whether ``expect``, the condition of the update, requires the server to be on the calling host."""
    return (call.arguments.get('expect') or {}).get('host') in ([call.host], call.host)


def expects_caller(call: Call) -> None:
    """Check that ``expect``, the condition of the update, requires the server to be on the calling host."""
    if not is_expecting_caller(call):
        call.refuse('it does not require the server to be on the calling host')


def columns(argument: str, allowed: Iterable[str]) -> Check:
    """Return a check that the dictionary in this argument has only these keys."""
    allowed = frozenset(allowed)

    def check(call: Call) -> None:
        values = call.arguments.get(argument)
        if values is not None and not isinstance(values, dict):
            call.refuse(f'{argument} is not a dictionary')
        others = (values or {}).keys() - allowed
        if others:
            call.refuse(f'it writes {", ".join(sorted(map(str, others)))[:200]}')
    return check


def one_of(argument: str, allowed: Sequence[str]) -> Check:
    """Return a check that the argument has one of these values."""
    def check(call: Call) -> None:
        if call.arguments.get(argument) not in allowed:
            call.refuse(f'{argument} is {str(call.arguments.get(argument))[:50]}')
    return check


# ---- checks of servers and moves

def on_caller(call: Call) -> Server:
    """Check that the server is on the calling host, and return its facts.

    :raises InstanceNotFound:
    """
    if call.server is None:
        raise exception.InstanceNotFound(instance_id=call.uuid)
    if call.server.host != call.host:
        call.raise_not_on_host()
    return call.server


def on_caller_or_deleted(call: Call) -> None:
    """Check that the server is on the calling host, or deleted: a late cleanup of a deleted server is harmless."""
    if call.server is not None:
        on_caller(call)


def load_requester(call: Call) -> Server | None:
    """Read the server with its open actions, which determine the user of the call.

    The host is not checked here: the method's SQL statements select only rows of the calling host.
    """
    return call.server


def end_of_move(end: str) -> Check:
    """Return a check that the calling host is the 'source' or the 'dest' of the move; the method checks the status.

    :raises MigrationNotFound:
    """
    def check(call: Call) -> None:
        if call.move is None:
            raise exception.MigrationNotFound(migration_id=call.arguments.get('migration_id'))
        if call.move.row[f'{end}_compute'] != call.host:
            raise exception.NotOnHost(host=call.host, topic=call.topic, method=call.method,
                                      instance_id=call.move.row['instance_uuid'])
    return check


source, destination = end_of_move('source'), end_of_move('dest')

NO_RIGHTS: Rights = {}                          # for services that hosts may not call
