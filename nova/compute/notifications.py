"""Notifications about operations on a server outside of a task.

A conductor sends them: a host has no account on the notification broker and cannot read all values.
"""
import collections.abc
import contextlib
import logging

from nova import context
from nova import exception
from nova import notify
from nova import objects
from nova.compute.host import Host
from nova.notify.events import END
from nova.notify.events import START

LOG = logging.getLogger(__name__)


class Notifier:
    """Sends notifications through a conductor; does nothing if none are configured."""

    def __init__(self, host: Host) -> None:
        self._host, self._on = host, notify.wanted(host.conf)

    @contextlib.contextmanager
    def event(self, ctx: context.RequestContext, instance: objects.Instance, event: str,
              ) -> collections.abc.Iterator[None]:
        """Notify the start of an event of notify.events. Notify its end if the block succeeds."""
        self._notify(ctx, instance, event, START)
        yield
        self._notify(ctx, instance, event, END)

    def _notify(self, ctx: context.RequestContext, instance: objects.Instance, event: str, phase: str) -> None:
        if not self._on:
            return
        try:
            # the client without retries, because a notification must not delay the operation
            self._host.conductor.client.notify(ctx, instance_uuid=instance.uuid, event=event, phase=phase,
                                               host=self._host.name)
        except exception.NovaException as error:
            LOG.warning('Cannot send notification %s.%s of server %s: %s', event, phase, instance.uuid, error)
