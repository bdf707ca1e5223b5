"""Admission control for messages of compute hosts at the services that hold the databases.

A table of the service lists the methods that hosts may call, each with the checks of the host and of the arguments. A
method without a row is for services of the control plane only. ``Admission.admit`` ignores what a host says about the
user:

    RIGHTS = {'update_instance': (admission.expects_caller, admission.columns('values', {'task_state'}))}
    bus.serve(INTERFACE, manager, host, admission.Admission('conductor', RIGHTS, facts))

A check is a function(call) that raises if the call is not allowed. The first check that needs facts reads them. A
condition in a statement of the method therefore costs nothing here.
"""
from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from typing import Any, NoReturn

from nova import context as nova_context
from nova import exception
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

MAX_LOGGED = 1000            # refusals that are already logged as warnings


@dataclasses.dataclass
class Call:
    """A message of a host.

    host        name of the host that has sent it
    arguments   {name: value}; a check may replace a sent value by the stored one
    request_id  id of the request, according to the host
    read        function(call, kind) -> stored facts, see ``server`` and ``move``
    """

    host: str
    topic: str
    method: str
    arguments: dict[str, Any]
    request_id: str | None
    read: Any = None

    @functools.cached_property
    def server(self) -> Any:
        """Return the facts about the server that the call names (db.places.Server), None if it does not exist."""
        return self.read(self, 'server')

    @functools.cached_property
    def move(self) -> Any:
        """Return the facts about the move that the call names (db.places.Move), None if it does not exist."""
        return self.read(self, 'move')

    @property
    def uuid(self) -> Any:
        """The uuid of the server that the call names."""
        instance = self.arguments.get('instance')
        return self.arguments.get('instance_uuid') if instance is None else instance.uuid

    def requester(self) -> tuple[Any, Any]:
        """Return (project id, user id) of the open action of this request, (None, None) if no check has read it."""
        for found in (self.__dict__.get('server'), self.__dict__.get('move')):
            for action in found.actions if found else ():
                if action['request_id'] == self.request_id:
                    return action['project_id'], action['user_id']
        return None, None

    def refuse(self, reason: str) -> NoReturn:
        """:raises HostForbidden:"""
        raise exception.HostForbidden(host=self.host, topic=self.topic, method=self.method, reason=reason)

    def raise_not_on_host(self) -> NoReturn:
        """:raises NotOnHost:"""
        raise exception.NotOnHost(host=self.host, topic=self.topic, method=self.method, instance_id=self.uuid)


class Admission:
    """:param topic: topic of the service
    :param rights: {method: checks} that hosts may use
    :param read: function(call, kind) -> facts for the checks, see Call
    """

    def __init__(self, topic: str, rights: Any, read: Any = None) -> None:
        self._topic, self._rights, self._read = topic, rights, read
        self._logged: set[Any] = set()
        self._lock = threading.Lock()

    def admit(self, context: Any, method: str, arguments: Any) -> Any:
        """Return the context in which a method runs.

        The context of a host's message has neither roles nor system scope. Project and user are those of the request's
        open action if a check has read it, else None.

        :raises HostForbidden: a host may not call this
        :raises NotOnHost, InstanceNotFound, MigrationNotFound: the server or move is not, or no longer, on the host
        """
        host = getattr(context, 'sender_host', None)
        if host is None:
            return context
        call = Call(host, self._topic, method, arguments, context.request_id, self._read)
        try:
            if method not in self._rights:
                call.refuse('only services of the control plane may call it')
            for check in self._rights[method]:
                check(call)
        except (exception.HostForbidden, exception.NotOnHost) as error:
            self._note(call, error)
            raise
        return nova_context.of_host(context, *call.requester())

    def _note(self, call: Any, error: Any) -> None:
        metrics.RPC_REFUSED.labels(self._topic, call.method).inc()
        named = call.uuid or call.arguments.get('migration_id')
        key = call.host, call.method, named
        with self._lock:
            first = key not in self._logged
            if len(self._logged) >= MAX_LOGGED:
                self._logged.clear()
            self._logged.add(key)
        LOG.log(logging.WARNING if first else logging.DEBUG, 'Refused: %s.%s of host %s about %s. %s', self._topic,
                call.method, call.host, named or 'no server', error.message)


# ---- checks of arguments: they read nothing

def allow(call: Any) -> None:
    """Allow the call with all arguments."""


def host_is_caller(call: Any) -> None:
    """Check that ``host`` is the caller. It suffices if the method's statements have this condition."""
    if call.arguments.get('host') != call.host:
        call.refuse(f'it speaks for host {call.arguments.get("host")}')


def owner_is_caller(call: Any) -> None:
    """Check that an action is claimed in the caller's own name."""
    if call.arguments.get('owner') != f'compute:{call.host}':
        call.refuse(f'it speaks for {call.arguments.get("owner")}')


def connector_is_caller(call: Any) -> None:
    """Check that volumes are connected to the caller."""
    connector = call.arguments.get('connector')
    if connector is not None and connector.get('host') != call.host:
        call.refuse(f'it connects a volume to host {connector.get("host")}')


def is_expecting_caller(call: Any) -> bool:
    """Return whether the write requires the server to be on the caller."""
    return (call.arguments.get('expect') or {}).get('host') in ([call.host], call.host)


def expects_caller(call: Any) -> None:
    """Check that the statement itself requires the server to be on the caller."""
    if not is_expecting_caller(call):
        call.refuse('it does not require that the server is on the caller')


def columns(argument: Any, allowed: Any) -> Any:
    """Return a check that the dictionary in this argument has only these keys."""
    allowed = frozenset(allowed)

    def check(call: Any) -> None:
        values = call.arguments.get(argument)
        if values is not None and not isinstance(values, dict):
            call.refuse(f'{argument} is not a dictionary')
        others = (values or {}).keys() - allowed
        if others:
            call.refuse(f'it writes {", ".join(sorted(map(str, others)))[:200]}')
    return check


def one_of(argument: Any, allowed: Any) -> Any:
    """Return a check that the argument has one of these values."""
    def check(call: Any) -> None:
        if call.arguments.get(argument) not in allowed:
            call.refuse(f'{argument} is {str(call.arguments.get(argument))[:50]}')
    return check


# ---- checks of servers and moves

def on_caller(call: Any) -> None:
    """Check that the server is on the caller.

    :raises InstanceNotFound:
    """
    if call.server is None:
        raise exception.InstanceNotFound(instance_id=call.uuid)
    if call.server.host != call.host:
        call.raise_not_on_host()


def on_caller_or_deleted(call: Any) -> None:
    """Check as ``on_caller``, but allow a deleted server: for late cleanup, which changes nothing then."""
    if call.server is not None:
        on_caller(call)


def load_requester(call: Any) -> Any:
    """Read the server, so that the call runs as its requester; the method's own conditions check the host."""
    return call.server


def end_of_move(end: Any) -> Any:
    """Return a check that the caller is this end of the move, ``source`` or ``dest``; the method checks the status.

    :raises MigrationNotFound:
    """
    def check(call: Any) -> None:
        if call.move is None:
            raise exception.MigrationNotFound(migration_id=call.arguments.get('migration_id'))
        if call.move.row[f'{end}_compute'] != call.host:
            raise exception.NotOnHost(host=call.host, topic=call.topic, method=call.method,
                                      instance_id=call.move.row['instance_uuid'])
    return check


source, destination = end_of_move('source'), end_of_move('dest')

NO_RIGHTS: dict[Any, Any] = {}                  # for a service that gets messages of other services only
