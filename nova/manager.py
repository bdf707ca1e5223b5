"""Base class of managers of third-party services. ``nova.service`` runs managers. Example:

    COUNTER = Interface('counter', '1.0', Method('add', ('number',), call=True))
    class CounterManager(manager.Manager):
        interface = COUNTER
        def add(self, context, number):
            ...
        @manager.periodic_task(spacing=30)
        def report(self, context):
            ...

Clients call the manager with ``bus.client(COUNTER).add(context, number=3)``.
"""
from collections.abc import Callable
import logging
from typing import Any, ClassVar, TypeVar, overload

from oslo_config import cfg

from nova import context as nova_context
from nova import exception
from nova.rpc.bus import Bus
from nova.rpc import interface as rpc_interface

LOG = logging.getLogger(__name__)
Task = TypeVar('Task', bound=Callable[..., Any])

DEFAULT_SPACING_S = 60.0
_MARK = '_periodic_spacing'


@overload
def periodic_task(function: Task, *, spacing: float = ...) -> Task: ...
@overload
def periodic_task(function: None = None, *, spacing: float = ...) -> Callable[[Task], Task]: ...


def periodic_task(function: Task | None = None, *, spacing: float = DEFAULT_SPACING_S) -> Task | Callable[[Task], Task]:
    """Decorate a method that the service calls periodically, with an administrator's context.

    :param spacing: seconds between two runs, above zero
    :raises InvalidInput: ``spacing`` is not above zero
    """
    if spacing <= 0:
        raise exception.InvalidInput(f'The spacing of a periodic task is {spacing} s: it must be above zero.')

    def mark(method: Task) -> Task:
        setattr(method, _MARK, float(spacing))
        return method
    return mark if function is None else mark(function)


class Manager:
    """Manager of a service.

    At its start the service calls ``init_host``, ``pre_start_hook``, ``post_start_hook``; at its end ``cleanup_host``.

    :cvar interface: RPC methods, or None
    :param host: name of the service's host
    :param service_name: name of the service in logs
    :param conf: configuration of the process
    :param bus: message bus of the process, for RPC clients
    """

    interface: ClassVar[rpc_interface.Interface | None] = None

    def __init__(self, host: str | None = None, service_name: str = 'undefined',
                 conf: cfg.ConfigOpts | None = None, bus: Bus | None = None) -> None:
        self.host, self.service_name, self.conf, self.bus = host, service_name, conf, bus

    def init_host(self) -> None:
        """Prepare the host; called first."""

    def pre_start_hook(self) -> None:
        """Prepare for messages; called after the name of the service was registered for this machine."""

    def post_start_hook(self) -> None:
        """Run after the service is in the list of services and receives messages."""

    def cleanup_host(self) -> None:
        """Clean up after the service has stopped receiving messages."""

    def periodic_tasks(self, context: nova_context.RequestContext, raise_on_error: bool = False) -> None:
        """Run each periodic task once.

        Normally the service calls each task every ``spacing`` seconds. If a subclass overrides this method, the service
        calls the overriding method every DEFAULT_SPACING_S seconds instead.

        :param raise_on_error: whether to raise the first error; otherwise each error is logged
        """
        for name, method in marked(self).items():
            try:
                method(context)
            except Exception:
                if raise_on_error:
                    raise
                LOG.exception('Periodic task %s failed', name)


def marked(manager: object) -> dict[str, Callable[..., Any]]:
    """Return {name: method} of the methods decorated with ``periodic_task``."""
    names = [name for name in dir(type(manager)) if hasattr(getattr(type(manager), name), _MARK)]
    return {name: getattr(manager, name) for name in names}


def timed(manager: object) -> list[tuple[str, float, Callable[..., Any]]]:
    """Return [(name, seconds between two runs, function(context))] of the periodic tasks of a manager."""
    own: Callable[..., Any] | None = getattr(manager, 'periodic_tasks', None)
    if own is not None and getattr(type(manager), 'periodic_tasks', None) is not Manager.periodic_tasks:
        return [('periodic_tasks', DEFAULT_SPACING_S, own)]
    return [(name, getattr(method, _MARK), method) for name, method in marked(manager).items()]
