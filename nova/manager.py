"""The base class of managers that are written outside of this tree: what a service of ``nova.service`` runs.

    COUNTER = Interface('counter', '1.0', Method('add', ('number',), call=True))

    class CounterManager(manager.Manager):
        interface = COUNTER

        def add(self, context, number):
            ...

        @manager.periodic_task(spacing=30)
        def report(self, context):
            ...

Other code calls it with ``bus.client(COUNTER).add(context, number=3)``.
"""
from __future__ import annotations

from collections.abc import Callable
import logging
from typing import Any
from typing import ClassVar

from nova import context as nova_context
from nova import exception
from nova.rpc import interface as rpc_interface

LOG = logging.getLogger(__name__)

DEFAULT_SPACING_S = 60.0
_MARK = '_periodic_spacing'


def periodic_task(function: Callable[..., Any] | None = None, *, spacing: float = DEFAULT_SPACING_S) -> Any:
    """A decorator: the service calls the method again and again, with an administrator's context.

    :param spacing: seconds between two runs, above zero
    :raises InvalidInput: it is not
    """
    if spacing <= 0:
        raise exception.InvalidInput(f'The spacing of a periodic task is {spacing} s: it must be above zero.')

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        setattr(method, _MARK, float(spacing))
        return method
    return mark if function is None else mark(function)


class Manager:
    """Its hooks are called in this order, and do nothing here: ``init_host``, ``pre_start_hook``, ``post_start_hook``,
    and when the service stops ``cleanup_host``.

    interface  the methods that others may call over RPC, and no others; None: it takes no messages

    :param host: name of the host that it works for
    :param service_name: what it is called in logs
    :param conf: the configuration of the process
    :param bus: rpc.bus.Bus of the process, for clients of other services; None: there is none
    """

    interface: ClassVar[rpc_interface.Interface | None] = None

    def __init__(self, host: str | None = None, service_name: str = 'undefined', conf: Any = None,
                 bus: Any = None) -> None:
        self.host, self.service_name, self.conf, self.bus = host, service_name, conf, bus

    def init_host(self) -> None:
        """Prepare the host, before anything else."""

    def pre_start_hook(self) -> None:
        """Prepare for work: the name is the service's own on this machine, and no message has come yet."""

    def post_start_hook(self) -> None:
        """Do what needs a service that takes messages and is in the list of services."""

    def cleanup_host(self) -> None:
        """Clean up: the service takes no messages any more."""

    def periodic_tasks(self, context: nova_context.RequestContext, raise_on_error: bool = False) -> None:
        """Run every marked method once. The service calls them each at its own spacing, unless a class has
        a ``periodic_tasks`` of its own: then it calls that, every DEFAULT_SPACING_S.

        :param raise_on_error: let the first error out; else each is logged and the next method runs
        """
        for name, method in marked(self).items():
            try:
                method(context)
            except Exception:
                if raise_on_error:
                    raise
                LOG.exception('Periodic task %s failed', name)


def marked(manager: object) -> dict[str, Callable[..., Any]]:
    """{name: method} of the methods that ``periodic_task`` marked."""
    names = [name for name in dir(type(manager)) if hasattr(getattr(type(manager), name), _MARK)]
    return {name: getattr(manager, name) for name in names}


def timed(manager: object) -> list[tuple[str, float, Callable[..., Any]]]:
    """[(name, seconds between two runs, function(context))] of what a service runs of a manager."""
    own: Callable[..., Any] | None = getattr(manager, 'periodic_tasks', None)
    if own is not None and getattr(type(manager), 'periodic_tasks', None) is not Manager.periodic_tasks:
        return [('periodic_tasks', DEFAULT_SPACING_S, own)]
    return [(name, getattr(method, _MARK), method) for name, method in marked(manager).items()]
