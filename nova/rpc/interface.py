"""RPC interfaces of the services: each has a version, and a Method for each of its methods.

Clients are built from the interfaces, and ``methods_of`` checks that a manager implements them. Additions
raise the minor version, and other changes raise the major version; see rpc/versions.py for messages to older services.
"""
import collections.abc
import dataclasses
import functools
import inspect
import types
import typing
from typing import Any, TypeVar

from nova import exception

Value = TypeVar('Value')

CALL_TIMEOUT = 60       # seconds that a caller waits for a reply, unless the Method sets another timeout


def parsed(version: str) -> tuple[int, int]:
    """Parse a version: '1.10' -> (1, 10)."""
    major, _, minor = version.partition('.')
    return int(major), int(minor)


@dataclasses.dataclass(frozen=True)
class Newer:
    """An argument that was added to an existing method. In the manager the parameter has a default, for older senders.

    since     interface version that added the argument
    optional  for older receivers, True: omit the argument; False: raise Unsupported unless the argument is None
    """

    name: str
    since: str
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class Method:
    """One RPC method.

    arguments  names of the arguments after the context; passed by keyword
    doc        description with the result and the errors, printed in reference/rpc.rst
    call       True: the caller waits for the result; False: a cast, which may be lost or repeated
    since      interface version that added the method
    timeout    seconds that a caller waits
    at_once    maximum concurrent calls in one service; 0: no limit. Further calls wait and do not block other methods
    newer      a Newer for each argument that was added after the method
    optional   True: return None without sending if receivers lack the method; False: raise Unsupported
    fanout     True: a cast without a server name goes to all services of the topic
    versions   whether the result has the key 'versions': {topic: lowest VERSION of its services}, see rpc/versions.py
    """

    name: str
    arguments: tuple[str, ...] = ()
    call: bool = False
    since: str = '1.0'
    timeout: float = CALL_TIMEOUT
    at_once: int = 0
    newer: tuple[Newer, ...] = ()
    optional: bool = False
    fanout: bool = False
    versions: bool = False
    doc: str = ''

    def fitted(self, arguments: dict[str, Value],
               newest: tuple[int, int] | None) -> tuple[str, dict[str, Value]] | None:
        """Return (version, arguments) of a message that the receivers support; None: do not send this optional message.

        :param arguments: {name: value}
        :param newest: the version that the receivers support, a tuple; None: the version of this code
        :raises Unsupported: the receivers cannot process the message
        """
        if newest is not None and parsed(self.since) > newest:
            if self.optional:
                return None
            raise exception.Unsupported(f'{self.name} needs services of a newer version: some are not upgraded yet.')
        version = self.since
        for row in self.newer:
            if row.name not in arguments:
                continue
            if newest is not None and parsed(row.since) > newest:
                if not row.optional and arguments[row.name] is not None:
                    raise exception.Unsupported(f'{self.name} with {row.name} needs services of a newer version: '
                                                'some are not upgraded yet.')
                arguments = {name: value for name, value in arguments.items() if name != row.name}
            elif parsed(row.since) > parsed(version):
                version = row.since
        return version, arguments


class Interface:
    """The methods of one service.

    :param topic: the queue's name; a message for one server goes to ``topic.server``
    """

    def __init__(self, topic: str, version: str, *methods: Method) -> None:
        self.topic, self.version = topic, version
        self.methods = {method.name: method for method in methods}


class Methods(collections.abc.Mapping[str, Any]):
    """Implementation of an interface: {method name: callable(context, **arguments)} for exactly its methods.

    The methods are also attributes, so that a caller in the same process can use this object as a client.

    :param table: callables by name; each takes a context and the arguments of the method's row, by these names
    :raises TypeError: a method has no callable, a callable has no method, or its arguments are not those of the row
    """

    def __init__(self, interface: Interface, table: collections.abc.Mapping[str, typing.Callable[..., Any]]) -> None:
        _check(interface, table)
        for name, function in table.items():
            _check_arguments(interface, interface.methods[name], function)
        self._table = dict(table)

    def __getitem__(self, name: str) -> typing.Callable[..., Any]:
        return self._table[name]

    def __iter__(self) -> typing.Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __getattr__(self, name: str) -> typing.Callable[..., Any]:
        if name.startswith('_') or name not in self._table:
            raise AttributeError(name)
        return self._table[name]


def named(*functions: typing.Callable[..., Any]) -> dict[str, typing.Callable[..., Any]]:
    """Return {name: function} of functions that are named like the methods of an interface."""
    return {function.__name__: function for function in functions}


def methods_of(interface: Interface, manager: object) -> collections.abc.Mapping[str, typing.Callable[..., Any]]:
    """Return the callables that implement an interface.

    :param manager: a Methods object, an object with a Methods object as ``methods``, or one with a method for each row
    :raises TypeError: a method is missing
    """
    table: Any = getattr(manager, 'methods', manager)
    if not isinstance(table, collections.abc.Mapping):
        table = {name: getattr(manager, name, None) for name in interface.methods}
    _check(interface, table, type(manager).__name__)
    return table


def _check(interface: Interface, table: collections.abc.Mapping[str, Any], owner: str = 'The table') -> None:
    missing = [name for name in interface.methods if not callable(table.get(name))]
    if missing:
        raise TypeError(f'{owner} lacks {", ".join(missing)} of the {interface.topic} interface')
    unknown = sorted(table.keys() - interface.methods.keys())
    if unknown:
        raise TypeError(f'{owner} has {", ".join(unknown)}, which the {interface.topic} interface has not')


@functools.cache
def _parameters(function: typing.Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a function. They are cached, because all objects of a class share its functions."""
    return tuple(inspect.signature(function).parameters.values())


def _check_arguments(interface: Interface, row: Method, function: typing.Callable[..., Any]) -> None:
    if isinstance(function, types.MethodType):
        parameters = _parameters(function.__func__)[2:]
    else:
        parameters = tuple(inspect.signature(function).parameters.values())[1:]
    if [each.name for each in parameters] != list(row.arguments):
        raise TypeError(f'{interface.topic}.{row.name} takes {", ".join(row.arguments) or "nothing"}, its callable '
                        f'{", ".join(each.name for each in parameters) or "nothing"}')
    late = {each.name for each in row.newer}
    if any(each.name in late and each.default is inspect.Parameter.empty for each in parameters):
        raise TypeError(f'{interface.topic}.{row.name}: arguments that came later need a default')


OBJECT_BACKPORT = Method(
    'object_backport', ('primitive', 'versions'), call=True, since='1.1',
    doc='Return an object, as JSON text, in the form that its receiver knows. ``versions``: {object name: version}.')
BACKPORT = Interface('conductor', '1.1', OBJECT_BACKPORT)
