"""What a host may ask of the services that hold the databases.

A message that a compute host has sent is looked at before its method runs: a table of the service says for each method
what must be true of the host and of what it names. A method that no row names is for other services alone. What a host
says of who asks counts for nothing: see ``Admission.admit``.

    RIGHTS = {'update_instance': (admission.expects_own, admission.columns('values', {'task_state'}))}
    bus.serve(INTERFACE, manager, host, admission.Admission('conductor', RIGHTS, facts))

A check is a function(call) that raises when the call is not allowed. Facts are read when the first check asks for them:
what a condition in a statement of the method finds out anyway costs nothing here.
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

REMEMBERED = 1000            # refusals of which it is known that they stand in the log


@dataclasses.dataclass
class Call:
    """A message of a host.

    host        name of the host that has sent it
    arguments   {name: value}; a check may put what is known in the place of what was sent
    request_id  of the request that it says it serves
    read        function(call, kind) -> what is known, see ``server`` and ``move``
    """

    host: str
    topic: str
    method: str
    arguments: dict[str, Any]
    request_id: str | None
    read: Any = None

    @functools.cached_property
    def server(self) -> Any:
        """What is known of the server that the call names (db.places.Server), None when there is none."""
        return self.read(self, 'server')

    @functools.cached_property
    def move(self) -> Any:
        """What is known of the move that the call names (db.places.Move), None when there is none."""
        return self.read(self, 'move')

    @property
    def uuid(self) -> Any:
        """Of the server that the call names."""
        instance = self.arguments.get('instance')
        return self.arguments.get('instance_uuid') if instance is None else instance.uuid

    def requester(self) -> tuple[Any, Any]:
        """(project id, user id) of the open action that the request has begun, as far as they were read."""
        for found in (self.__dict__.get('server'), self.__dict__.get('move')):
            for action in found.actions if found else ():
                if action['request_id'] == self.request_id:
                    return action['project_id'], action['user_id']
        return None, None

    def refuse(self, reason: str) -> NoReturn:
        """:raises HostForbidden:"""
        raise exception.HostForbidden(host=self.host, topic=self.topic, method=self.method, reason=reason)

    def not_here(self) -> NoReturn:
        """:raises NotOnHost:"""
        raise exception.NotOnHost(host=self.host, topic=self.topic, method=self.method, instance_id=self.uuid)


class Admission:
    """
    :param topic: of the service
    :param rights: {method: checks} that hosts may use
    :param read: function(call, kind) -> facts for the checks, see Call
    """

    def __init__(self, topic: str, rights: Any, read: Any = None) -> None:
        self._topic, self._rights, self._read = topic, rights, read
        self._logged: set[Any] = set()
        self._lock = threading.Lock()

    def admit(self, context: Any, method: str, arguments: Any) -> Any:
        """The context in which a method runs.

        That of a host's message has neither roles nor the system's rights. Project and user are those of the open
        action of the request, where a check has read it, else None.

        :raises HostForbidden: a host may not ask for this
        :raises NotOnHost, InstanceNotFound, MigrationNotFound: what it names is not, or no longer, its own
        """
        host = getattr(context, 'sender_host', None)
        if host is None:
            return context
        call = Call(host, self._topic, method, arguments, context.request_id, self._read)
        try:
            if method not in self._rights:
                call.refuse('it is for services of the control plane alone')
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
            if len(self._logged) >= REMEMBERED:
                self._logged.clear()
            self._logged.add(key)
        LOG.log(logging.WARNING if first else logging.DEBUG, 'Refused: %s.%s of host %s about %s. %s', self._topic,
                call.method, call.host, named or 'no server', error.message)


# ---- checks of arguments: they read nothing

def anything(call: Any) -> None:
    """Harmless, whatever it names."""


def own_host(call: Any) -> None:
    """``host`` is the caller; where it stands in the conditions of the method's statements that is all there is to do.
    """
    if call.arguments.get('host') != call.host:
        call.refuse(f'it speaks for host {call.arguments.get("host")}')


def own_owner(call: Any) -> None:
    """An action is claimed in the caller's own name."""
    if call.arguments.get('owner') != f'compute:{call.host}':
        call.refuse(f'it speaks for {call.arguments.get("owner")}')


def own_connector(call: Any) -> None:
    """Volumes are connected to the caller."""
    connector = call.arguments.get('connector')
    if connector is not None and connector.get('host') != call.host:
        call.refuse(f'it connects a volume to host {connector.get("host")}')


def is_expecting_own(call: Any) -> bool:
    """Whether the write is done only while the server is on the caller."""
    return (call.arguments.get('expect') or {}).get('host') in ([call.host], call.host)


def expects_own(call: Any) -> None:
    """The statement itself finds out whether the server is on the caller."""
    if not is_expecting_own(call):
        call.refuse('it does not write of its own servers alone')


def columns(argument: Any, allowed: Any) -> Any:
    """A check: the dictionary in this argument has these keys alone."""
    allowed = frozenset(allowed)

    def check(call: Any) -> None:
        values = call.arguments.get(argument)
        if values is not None and not isinstance(values, dict):
            call.refuse(f'{argument} is no dictionary')
        others = (values or {}).keys() - allowed
        if others:
            call.refuse(f'it writes {", ".join(sorted(map(str, others)))[:200]}')
    return check


def one_of(argument: Any, allowed: Any) -> Any:
    """A check: the argument has one of these values."""
    def check(call: Any) -> None:
        if call.arguments.get(argument) not in allowed:
            call.refuse(f'{argument} is {str(call.arguments.get(argument))[:50]}')
    return check


# ---- checks of servers and moves

def here(call: Any) -> None:
    """The server is on the caller.

    :raises InstanceNotFound:
    """
    if call.server is None:
        raise exception.InstanceNotFound(instance_id=call.uuid)
    if call.server.host != call.host:
        call.not_here()


def here_or_gone(call: Any) -> None:
    """The same for what changes nothing when the server is gone: what a host undoes late."""
    if call.server is not None:
        here(call)


def who_asked(call: Any) -> Any:
    """Nothing to refuse: the method's own conditions do. It goes on in the name of the caller."""
    return call.server


def end_of_move(end: Any) -> Any:
    """A check: the caller is this end of the move, ``source`` or ``dest``; its status the method looks at.

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

NO_RIGHTS: dict[Any, Any] = {}                  # the rights of hosts at a service that only others send messages to
