"""What a host has of servers that are not on it: guests, their files, and what was put aside for a way back.

A host that was down, or cut off, hears of nothing that happens meanwhile: servers are deleted while they come, or go on
to another host. So it looks at its start, when it is back, and from time to time, and asks a conductor about each.
"""
import collections.abc
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute.host import Host
from nova.runtime import metrics
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

GUEST, FILES, SHARED, KEPT, COMING = 'guest', 'files', 'shared_files', 'kept', 'coming'
_TEXTS = {GUEST: 'The guest', FILES: 'What a step that did not come to its end has left', KEPT: 'What was put aside',
          SHARED: 'What a step of this host, or of one that shares its directory, has left',
          COMING: 'What was made ready for a live migration on shared disks'}
Found = dict[str, str]                   # {uuid: what of it is here}


class Strays:
    """Removes what belongs to no server of this host; in doubt it stays, and is to be looked at."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._left: Found = {}
        metrics.STRAYS_LEFT.watch(self, lambda strays: strays.left())

    def left(self) -> dict[tuple[str], int]:
        """{(what,): number} of what was left alone when this looked last."""
        return {(what,): list(self._left.values()).count(what) for what in _TEXTS}

    def find(self, guests: collections.abc.Iterable[str]) -> Found:
        """What is here, to be looked for before the servers are read: so none is taken for a stray that comes.

        :param guests: of the driver, as they were before
        """
        driver = self._host.driver
        found = dict.fromkeys(driver.awaited_guests() if isinstance(driver, virt.LiveMigration) else (), COMING)
        found.update(dict.fromkeys(driver.kept_guests() if isinstance(driver, virt.Resize) else (), KEPT))
        for uuid, own in driver.remnants().items():
            if own or uuid not in found:
                found[uuid] = FILES if own else SHARED
        return {**found, **dict.fromkeys(guests, GUEST)}

    def settle(self, ctx: context.RequestContext, found: Found, servers: collections.abc.Container[str]) -> None:
        """Remove what is of servers that are known to be deleted, or to live elsewhere; leave any other alone.

        :param servers: uuids of this host's
        """
        others = {uuid: what for uuid, what in sorted(found.items()) if uuid not in servers}
        fates = self._became_of(ctx, list(others)) if others else {}
        unknown = {uuid: what for uuid, what in others.items() if fates.get(uuid) == states.UNKNOWN}
        for uuid, what in unknown.items():
            if self._left.get(uuid) != what:             # once, and again after a restart
                LOG.warning('%s of %s is of no server that is known; it is left alone and should be looked at.',
                            _TEXTS[what], uuid)
        self._left = unknown
        for uuid, what in others.items():
            if _removable(what, fates.get(uuid)):
                self._host.queue.submit(uuid, self._remove, ctx, uuid, what)

    def _became_of(self, ctx: context.RequestContext, uuids: list[str]) -> dict[str, str]:
        """{uuid: a fate of nova.states}; what is not named is not to be touched."""
        conductor, host = self._host.conductor, self._host.name
        try:
            return conductor.became_of(ctx, host=host, uuids=uuids)
        except exception.Unsupported:                    # conductors of the release before do not say in which way
            return dict.fromkeys(conductor.stray_guests(ctx, host=host, uuids=uuids), states.ELSEWHERE)

    def _remove(self, ctx: context.RequestContext, uuid: str, what: str) -> None:
        """In the server's queue: ask again right before it goes. A move may have begun, which passes no queue."""
        driver, guest = self._host.driver, objects.Instance(uuid=uuid, network_info=[])
        fate = self._became_of(ctx, [uuid]).get(uuid)
        if not _removable(what, fate):
            return
        LOG.info('%s of %s is removed: the server is %s.', _TEXTS[what], uuid, fate)
        try:
            if what == KEPT and isinstance(driver, virt.Resize):
                driver.confirm_migration(ctx, guest, [])
            elif what == COMING and isinstance(driver, virt.LiveMigration):
                driver.give_up_guest(uuid)
                self._host.network.unprepare_for_instance(ctx, instance_uuid=uuid, host=self._host.name)
            else:
                driver.destroy(ctx, guest, [])
        except (exception.NovaException, OSError, ValueError) as error:
            LOG.error('%s of %s could not be removed, and should be looked at: %s', _TEXTS[what], uuid, error)
            self._left = {**self._left, uuid: what}
            return
        metrics.STRAYS_REMOVED.labels(what).inc()


def _removable(what: str, fate: str | None) -> bool:
    """Whether no server needs it; where it may be another host's, that of a server that lives there is."""
    return fate == states.DELETED_FOR_GOOD if what == SHARED else fate in states.GONE
