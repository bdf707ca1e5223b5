"""Plugins of the compute API: packages of a deployment that add resources and actions, and change what servers get.

    [options.entry_points]
    nova.api.v3.extensions =
        example = example.api:Example
    nova.api.v3.extensions.server.create =
        example = example.api:Example

A class of the group ``nova.api.v3.extensions`` describes an extension (see ``V3APIExtensionBase``): its resources and
its actions on resources that there are become rows like our own, with policy, microversions and audit records. A class
of ``nova.api.v3.extensions.server.create``, ``.rebuild``, ``.update`` or ``.resize`` has ``server_create(server, req)``
and so on: it gets the checked body below ``server``, ``rebuild`` or ``resize`` before the operation begins, and may
change it, or refuse the request by an exception of ``nova.exception``.
"""
import collections.abc
import dataclasses
import functools
import logging
import re
import typing

from stevedore import extension

from nova import exception
from nova.api import versions
from nova.web.request import Request
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

NAMESPACE = 'nova.api.v3.extensions'
OWNER = 'rule:admin_or_owner'
_ALIAS = re.compile(r'[a-z]([a-z0-9~-]*[a-z0-9])?')
_CODES = (400, 401, 403, 404, 409)

# operation -> (method, path, action) of its rows, and the key of the body that a hook gets
SERVER_HOOKS = {
    'create': ('POST', '/servers', None, 'server'),
    'update': ('PUT', '/servers/{id}', None, 'server'),
    'rebuild': ('POST', '/servers/{id}/action', 'rebuild', 'rebuild'),
    'resize': ('POST', '/servers/{id}/action', 'resize', 'resize'),
}

# method of a controller -> (HTTP method, whether it is of one member, whether it takes a body)
_METHODS = {
    'index': ('GET', False, False), 'create': ('POST', False, True), 'show': ('GET', True, False),
    'update': ('PUT', True, True), 'delete': ('DELETE', True, False),
}
Handler = collections.abc.Callable[..., typing.Any]
_described: dict[tuple[str, str], list['_Version']] = {}     # (module, name) of a method: its versions


# ---- what plugins are written with -------------------------------------------------

@dataclasses.dataclass(frozen=True)
class _Version:
    """One version of a method of a controller."""

    function: Handler
    since: int
    until: int | None
    facts: dict[str, typing.Any]


def api_version(minimum: str, maximum: str | None = None) -> collections.abc.Callable[[Handler], Handler]:
    """A decorator: the microversions, as '2.N', at which a method of a controller serves.

    Methods of one name in a class are versions of one operation.
    """
    def decorate(function: Handler) -> Handler:
        key = (function.__module__, function.__qualname__)
        same = _described.setdefault(key, [])
        same.append(_Version(function, versions.parse(minimum), versions.parse(maximum) if maximum else None,
                             getattr(function, 'nova_facts', {})))
        function.nova_versions = same            # type: ignore[attr-defined]
        return function
    return decorate


def expects(**facts: typing.Any) -> collections.abc.Callable[[Handler], Handler]:
    """A decorator, below ``api_version``: body, query, status, errors, policy of a method, as Route has them."""
    def decorate(function: Handler) -> Handler:
        function.nova_facts = facts              # type: ignore[attr-defined]
        return function
    return decorate


def action(name: str) -> collections.abc.Callable[[Handler], Handler]:
    """A decorator: a method of a controller is an action of members of its collection."""
    def decorate(function: Handler) -> Handler:
        function.nova_action = name              # type: ignore[attr-defined]
        return function
    return decorate


class Controller:
    """Methods ``index(req)``, ``create(req, body)``, ``show(req, id)``, ``update(req, id, body)``, ``delete(req, id)``,
    and actions ``method(req, id, body)``, which give a JSON-able dict, None, or a web.request.Response."""


@dataclasses.dataclass(frozen=True)
class ResourceExtension:
    """A resource of its own.

    collection          the first segment of its paths, or what follows a member of ``parent``
    parent              {'collection_name', 'member_name'} of the resource above it
    collection_actions  {method of the controller: HTTP method}, at /collection/NAME
    member_actions      {method of the controller: HTTP method}, at /collection/{id}/NAME
    """

    collection: str
    controller: Controller
    parent: dict[str, str] | None = None
    collection_actions: dict[str, str] = dataclasses.field(default_factory=dict)
    member_actions: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ControllerExtension:
    """Actions of a controller on a collection that there is."""

    extension: 'V3APIExtensionBase'
    collection: str
    controller: Controller


class V3APIExtensionBase:
    """One extension: its docstring is what /extensions says of it.

    name, alias, version   as /extensions shows them; the alias is lower-case letters, digits, '-' and '~'
    policies   ((rule, check, what it guards), …); a row whose rule is not among them is guarded by
               ``os_compute_api:ALIAS``. Who does not pass ``os_compute_api:ALIAS:discoverable``, where there is such a
               rule, does not see the extension in /extensions.
    """

    name = ''
    alias = ''
    version = 1
    policies: tuple[tuple[str, str, str], ...] = ()

    def get_resources(self) -> collections.abc.Iterable[ResourceExtension]:
        return ()

    def get_controller_extensions(self) -> collections.abc.Iterable[ControllerExtension]:
        return ()


# ---- what becomes of them --------------------------------------------------------------

class Plugins:
    """The plugins of a deployment.

    rows         Route rows of all of them
    extensions   {alias: V3APIExtensionBase}
    rules        {rule: check}

    :param extensions: objects of the group NAMESPACE
    :param hooks: {operation: objects of its group}
    """

    def __init__(self, extensions: collections.abc.Iterable[V3APIExtensionBase],
                 hooks: dict[str, list[typing.Any]]) -> None:
        self.rows: list[Route] = []
        self.extensions: dict[str, V3APIExtensionBase] = {}
        self.rules: dict[str, str] = {}
        self._hooks = {SERVER_HOOKS[name][:3]: (f'server_{name}', SERVER_HOOKS[name][3], found)
                       for name, found in hooks.items() if found}
        for each in extensions:
            self._add(each)

    def _add(self, plugin: V3APIExtensionBase) -> None:
        if not _ALIAS.fullmatch(plugin.alias) or plugin.alias in self.extensions:
            LOG.error('The API extension %s is left out: its alias is invalid, or taken.', plugin.alias or plugin)
            return
        self.extensions[plugin.alias] = plugin
        self.rules[f'os_compute_api:{plugin.alias}'] = OWNER
        self.rules.update((rule, check) for rule, check, _meaning in plugin.policies)
        self.rows += _rows(plugin, self.rules)

    def run(self, req: Request) -> None:
        """Call the hooks of a server operation with the body that was checked."""
        row = req.route
        found = self._hooks.get((row.method, row.path, row.action)) if self._hooks and row is not None else None
        if found is not None:
            method, key, hooks = found
            for hook in hooks:
                getattr(hook, method)(req.body[key], req)


def _rows(plugin: V3APIExtensionBase, rules: dict[str, str]) -> list[Route]:
    rows: list[Route] = []
    for resource in plugin.get_resources():
        above = ''
        if resource.parent:
            above = f'/{resource.parent["collection_name"]}/{{{resource.parent["member_name"]}_id}}'
        collection = f'{above}/{resource.collection}'
        table = [(name, method, collection + ('/{id}' if member else ''), body)
                 for name, (method, member, body) in _METHODS.items()]
        table += [(name, method, f'{collection}/{name}', method in ('POST', 'PUT'))
                  for name, method in resource.collection_actions.items()]
        table += [(name, method, f'{collection}/{{id}}/{name}', method in ('POST', 'PUT'))
                  for name, method in resource.member_actions.items()]
        for name, method, path, body in table:
            function = getattr(resource.controller, name, None)
            if function is not None:
                rows += _versions(plugin, rules, function, method, path, body)
        rows += _actions(plugin, rules, resource.controller, collection)
    for each in plugin.get_controller_extensions():
        rows += _actions(plugin, rules, each.controller, f'/{each.collection}')
    return rows


def _actions(plugin: V3APIExtensionBase, rules: dict[str, str], controller: Controller, collection: str) -> list[Route]:
    rows: list[Route] = []
    for name in dir(controller):
        function = getattr(controller, name)
        if hasattr(function, 'nova_action'):
            rows += _versions(plugin, rules, function, 'POST', f'{collection}/{{id}}/action', True,
                              function.nova_action)
    return rows


def _versions(plugin: V3APIExtensionBase, rules: dict[str, str], method: typing.Any, verb: str, path: str, body: bool,
              action_name: str | None = None) -> collections.abc.Iterator[Route]:
    """The rows of a bound method: one for each of its versions."""
    kept = getattr(method, 'nova_versions', None) or [
        _Version(method.__func__, versions.MIN_VERSION, None, getattr(method, 'nova_facts', {}))]
    rule = f'os_compute_api:{plugin.alias}:{method.__name__}'
    for each in kept:
        facts = {'policy': rule if rule in rules else f'os_compute_api:{plugin.alias}', 'errors': _CODES, **each.facts}
        if body:
            facts.setdefault('body', ANY)
        yield Route(verb, path, functools.partial(_call, functools.partial(each.function, method.__self__), body),
                    since=each.since, until=each.until, action=action_name, **facts)


def _call(function: Handler, body: bool, req: Request, **parts: str) -> typing.Any:
    return function(req, *parts.values(), req.body) if body else function(req, *parts.values())


class _Any:
    """A body of which nothing is checked but that it is an object."""

    params = ()

    @staticmethod
    def schema(_version: int, _relaxed: bool = False) -> dict[str, typing.Any]:
        return {'type': 'object'}

    @staticmethod
    def validate(value: dict[str, typing.Any], _version: int, _relaxed: bool = False) -> dict[str, typing.Any]:
        return value


ANY = _Any()


@functools.cache
def load() -> Plugins:
    """The plugins that are installed; what cannot be loaded is logged and left out."""
    return Plugins(_objects(NAMESPACE), {name: _objects(f'{NAMESPACE}.server.{name}') for name in SERVER_HOOKS})


def _objects(namespace: str) -> list[typing.Any]:
    def failed(_manager: typing.Any, entry_point: typing.Any, error: BaseException) -> None:
        LOG.error('%s of %s cannot be loaded.', entry_point.value, namespace, exc_info=error)
    manager: typing.Any = extension.ExtensionManager(namespace, invoke_on_load=True, on_load_failure_callback=failed)
    return [found.obj for found in sorted(manager, key=lambda found: found.name)]


def without_conflicts(rows: list[Route], plugins: Plugins) -> list[Route]:
    """Our rows, and those of the plugins that are not ours already."""
    ours = {(row.method, re.sub(r'\{\w+\}', '{}', row.path), row.action) for row in rows}
    found = list(rows)
    for row in plugins.rows:
        if (row.method, re.sub(r'\{\w+\}', '{}', row.path), row.action) in ours:
            LOG.error('An API extension is refused %s %s: there is such an operation.', row.method, row.path)
        else:
            found.append(row)
    return found


def find(alias: str) -> V3APIExtensionBase:
    """
    :raises ExtensionNotFound: no plugin has the alias
    """
    plugin = load().extensions.get(alias)
    if plugin is None:
        raise exception.ExtensionNotFound(alias=alias)
    return plugin
