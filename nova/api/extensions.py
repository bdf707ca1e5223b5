"""Plugins of the compute API: they add resources and actions, and change requests for server operations.

    [options.entry_points]
    nova.api.v3.extensions =
        example = example.api:Example
    nova.api.v3.extensions.server.create =
        example = example.api:Example

A class in the group ``nova.api.v3.extensions`` describes an extension (see ``V3APIExtensionBase``). Its resources and
actions become routes (nova.web.routes.Route) with policy, microversions and audit records.

A class in ``nova.api.v3.extensions.server.create``, ``.rebuild``, ``.update`` or ``.resize`` has a method such as
``server_create(server, req)``. Before the operation begins, the method gets the validated value of ``server``,
``rebuild`` or ``resize`` in the body. It may change the value, or raise an exception of ``nova.exception`` as refusal.
"""
import collections.abc
import dataclasses
import functools
import importlib.metadata
import logging
import re
import types
import typing

from stevedore import extension

from nova import exception
from nova.api import versions
from nova.web import params
from nova.web.request import BaseRequest
from nova.web.request import Content
from nova.web.request import Response
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

NAMESPACE = 'nova.api.v3.extensions'
OWNER = 'rule:admin_or_owner'
_ALIAS = re.compile(r'[a-z]([a-z0-9~-]*[a-z0-9])?')
_CODES = (400, 401, 403, 404, 409)
_ANY = params.Object(closed=False)         # body of methods without a schema

# operation -> (HTTP method, path below each of SERVERS, action, key in the body); the hook gets the value of this key
SERVER_HOOKS = {
    'create': ('POST', '', None, 'server'),
    'update': ('PUT', '/{id}', None, 'server'),
    'rebuild': ('POST', '/{id}/action', 'rebuild', 'rebuild'),
    'resize': ('POST', '/{id}/action', 'resize', 'resize'),
}
SERVERS = ('/servers', '/os-volumes_boot')          # the second path is an alias

# method of a controller -> (HTTP method, whether it has a member ID, whether it has a body)
_METHODS = {
    'index': ('GET', False, False), 'create': ('POST', False, True), 'show': ('GET', True, False),
    'update': ('PUT', True, True), 'delete': ('DELETE', True, False),
}
Handler = collections.abc.Callable[..., typing.Any]
_described: dict[tuple[str, str], list['_Version']] = {}     # (module, name) of a method -> its versions


# ---- interface of plugins ----------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class _Version:
    """One version of a controller's method."""

    function: Handler
    since: int
    until: int | None
    facts: dict[str, typing.Any]


def api_version(minimum: str, maximum: str | None = None) -> collections.abc.Callable[[Handler], Handler]:
    """Decorate a controller's method with its first and last microversion, written as '2.N'.

    Methods with the same name in a class are versions of one operation.
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
    """Set Route fields (body, query, status, errors, policy) of a method; an ``api_version`` above reads them."""
    def decorate(function: Handler) -> Handler:
        function.nova_facts = facts              # type: ignore[attr-defined]
        return function
    return decorate


def action(name: str) -> collections.abc.Callable[[Handler], Handler]:
    """Decorate a controller's method that is an action on a member of its collection."""
    def decorate(function: Handler) -> Handler:
        function.nova_action = name              # type: ignore[attr-defined]
        return function
    return decorate


class Controller:
    """Base of controllers.

    Subclasses define ``index(req)``, ``create(req, body)``, ``show(req, id)``, ``update(req, id, body)``, ``delete(req,
    id)``, or actions ``method(req, id, body)``. The methods return a JSON-able dict, None, or a web.request.Response.
    """


@dataclasses.dataclass(frozen=True)
class ResourceExtension:
    """A new resource.

    collection          first segment of its paths, or the segment after a member of ``parent``
    parent              {'collection_name', 'member_name'} of the parent resource
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
    """A controller with additional actions for an existing collection."""

    extension: 'V3APIExtensionBase'
    collection: str
    controller: Controller


class V3APIExtensionBase:
    """Base of extensions. GET /extensions shows the docstring of the class as the description of the extension.

    name, alias, version   shown by /extensions; the alias has lowercase letters, digits, '-' and '~'
    policies   ((rule, check, description), …); ``os_compute_api:ALIAS`` guards methods that have no rule here.
               If ``os_compute_api:ALIAS:discoverable`` is listed, /extensions hides the extension from callers who do
               not pass this rule.
    """

    name = ''
    alias = ''
    version = 1
    policies: tuple[tuple[str, str, str], ...] = ()

    def get_resources(self) -> collections.abc.Iterable[ResourceExtension]:
        return ()

    def get_controller_extensions(self) -> collections.abc.Iterable[ControllerExtension]:
        return ()


# ---- conversion into routes ------------------------------------------------------------

class Plugins:
    """The plugins of a deployment.

    rows         routes of all plugins
    extensions   {alias: V3APIExtensionBase}
    rules        {name of a policy rule: its check}

    :param extensions: objects of the group NAMESPACE
    :param hooks: {operation: objects of its group}
    """

    def __init__(self, extensions: collections.abc.Iterable[V3APIExtensionBase],
                 hooks: dict[str, list[typing.Any]]) -> None:
        self.rows: list[Route] = []
        self.extensions: dict[str, V3APIExtensionBase] = {}
        self.rules: dict[str, str] = {}
        self._hooks = {(method, servers + path, action_name): (f'server_{name}', key, hooks[name])
                       for name, (method, path, action_name, key) in SERVER_HOOKS.items() if hooks.get(name)
                       for servers in SERVERS}
        for each in extensions:
            self._add(each)

    def _add(self, plugin: V3APIExtensionBase) -> None:
        if not _ALIAS.fullmatch(plugin.alias) or plugin.alias in self.extensions:
            LOG.error('Skipping API extension %s: its alias is invalid or already in use.', plugin.alias or plugin)
            return
        self.extensions[plugin.alias] = plugin
        self.rules[f'os_compute_api:{plugin.alias}'] = OWNER
        self.rules.update((rule, check) for rule, check, _meaning in plugin.policies)
        self.rows += _rows(plugin, self.rules)

    def run(self, req: BaseRequest) -> None:
        """Call the hooks of a server operation with the validated body."""
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


def _versions(plugin: V3APIExtensionBase, rules: dict[str, str], method: types.MethodType, verb: str, path: str,
              body: bool, action_name: str | None = None) -> collections.abc.Iterator[Route]:
    """Build the routes of a bound method, one for each of its versions."""
    kept = getattr(method, 'nova_versions', None) or [
        _Version(method.__func__, versions.MIN_VERSION, None, getattr(method, 'nova_facts', {}))]
    rule = f'os_compute_api:{plugin.alias}:{method.__name__}'
    for each in kept:
        facts = {'policy': rule if rule in rules else f'os_compute_api:{plugin.alias}', 'errors': _CODES, **each.facts}
        if body:
            facts.setdefault('body', _ANY)
        yield Route(verb, path, functools.partial(_call, functools.partial(each.function, method.__self__), body),
                    since=each.since, until=each.until, action=action_name, **facts)


def _call(function: Handler, body: bool, req: BaseRequest, **parts: str) -> Response | Content:
    return function(req, *parts.values(), req.body) if body else function(req, *parts.values())


@functools.cache
def load() -> Plugins:
    """Load the installed plugins; failures are logged and skipped."""
    return Plugins(_objects(NAMESPACE), {name: _objects(f'{NAMESPACE}.server.{name}') for name in SERVER_HOOKS})


def _objects(namespace: str) -> list[typing.Any]:
    def failed(_manager: object, entry_point: importlib.metadata.EntryPoint, error: BaseException) -> None:
        LOG.error('Cannot load API plugin %s of group %s; it is skipped.', entry_point.value, namespace, exc_info=error)
    manager: typing.Any = extension.ExtensionManager(namespace, invoke_on_load=True, on_load_failure_callback=failed)
    return [found.obj for found in sorted(manager, key=lambda found: found.name)]


def without_conflicts(rows: collections.abc.Iterable[Route], plugins: Plugins) -> list[Route]:
    """Return the built-in routes, and the routes of plugins that do not conflict with a built-in route."""
    found = list(rows)
    if not plugins.rows:
        return found
    ours = set(map(_operation, found))
    for row in plugins.rows:
        if _operation(row) in ours:
            LOG.error('Ignoring %s %s of an API extension: the operation exists already.', row.method, row.path)
        else:
            found.append(row)
    return found


def _operation(row: Route) -> tuple[str, str, str | None]:
    """Return (method, path without the names of its parameters, action)."""
    return row.method, re.sub(r'\{\w+\}', '{}', row.path), row.action


def find(alias: str) -> V3APIExtensionBase:
    """Return the plugin with an alias.

    :raises ExtensionNotFound: no plugin has the alias
    """
    plugin = load().extensions.get(alias)
    if plugin is None:
        raise exception.ExtensionNotFound(alias=alias)
    return plugin
