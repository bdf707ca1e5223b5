"""Hooks: plugins of a deployment that run before and after functions of this project. Plugins are entry points of the
group ``nova.hooks``.

    @hooks.add_hook('resize_hook')
    def resize_instance(self, context, instance, a=1, b=2):
        ...

An entry point ``resize_hook = package.module:Class`` names a class that has ``pre(*args, **kwargs)``, ``post(rv, *args,
**kwargs)``, or both. ``args`` and ``kwargs`` are the arguments of the call, and ``rv`` is its return value. With
``pass_function``, both methods get the function as their first argument. Plugins are loaded at the first call in a
process.

An error of a hook is logged and ignored, except ``exception.FatalHookException``, which aborts the call. The wrapped
functions are an internal interface and may change. Notifications are a stable interface.
"""
from collections.abc import Callable, Mapping
import functools
import logging
import threading
from importlib.metadata import EntryPoint
from typing import ParamSpec, TypeVar

from nova import exception

LOG = logging.getLogger(__name__)
P = ParamSpec('P')
Result = TypeVar('Result')

NAMESPACE = 'nova.hooks'

_plugins: dict[str, tuple[object, ...]] = {}                # {name of a hook: its plugins}
_lock = threading.Lock()


def add_hook(name: str, pass_function: bool = False) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Return a decorator that runs the hooks with this name before and after the function.

    :param pass_function: pass the function to the hooks as the first argument
    """
    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def hooked(*args: P.args, **kwargs: P.kwargs) -> Result:
            plugins = _plugins.get(name)
            if plugins is None:
                plugins = _load(name)
            if not plugins:
                return function(*args, **kwargs)
            more: tuple[object, ...] = (function,) if pass_function else ()
            for plugin in plugins:
                _run(name, plugin, 'pre', (*more, *args), kwargs)
            result = function(*args, **kwargs)
            after: tuple[object, ...] = (function, result) if pass_function else (result,)
            for plugin in reversed(plugins):
                _run(name, plugin, 'post', (*after, *args), kwargs)
            return result
        return hooked
    return decorate


def _load(name: str) -> tuple[object, ...]:
    """Load the plugins of a hook. Errors are logged, and the plugin is skipped."""
    from stevedore import hook

    with _lock:
        if name not in _plugins:
            found = hook.HookManager(NAMESPACE, name, invoke_on_load=True, verify_requirements=False,
                                     on_load_failure_callback=functools.partial(_not_loaded, name))
            _plugins[name] = tuple(extension.obj for extension in found)
        return _plugins[name]


def _not_loaded(name: str, _manager: object, entry_point: EntryPoint, error: BaseException) -> None:
    LOG.error('Hook %s: cannot load plugin %s.', name, entry_point.value, exc_info=error)


def _run(name: str, plugin: object, when: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    function = getattr(plugin, when, None)
    if function is None:
        return
    try:
        function(*args, **kwargs)
    except exception.FatalHookException:
        LOG.error('Hook %s: %s of %s aborted the call.', name, when, type(plugin).__name__)
        raise
    except Exception:
        LOG.exception('Hook %s: %s of %s failed.', name, when, type(plugin).__name__)
