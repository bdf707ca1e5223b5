"""Shares of fake guests: an entry in the guest's record."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.virt import share_exports

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.fake.machine import Machine


class Shares:
    """Record shares of guests in ``shares``: {share id: tag}."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def attach_share(self, context: RequestContext, instance: Instance, share: dict[str, Any]) -> None:
        access = share.get('access') or {}
        try:
            share_exports.check_access(share.get('protocol'), access.get('user'), access.get('key'))
        except ValueError as error:
            raise exception.VirtError(operation='attach_share', reason=str(error)) from None
        with self.machine.operation('attach_share'), self.machine.lock:
            guest = self.machine.guest(instance)
            guest['shares'] = {**guest.get('shares', {}), share['share_id']: share['tag']}
            self.machine.save()

    def detach_share(self, context: RequestContext, instance: Instance, share: dict[str, Any]) -> None:
        with self.machine.operation('detach_share'), self.machine.lock:
            if self.machine.guests.get(instance.uuid, {}).get('shares', {}).pop(share['share_id'], None):
                self.machine.save()
