"""Guests that run at their destination already while a part of their memory is here (post-copy).

Such a guest could not run on here, and there it must not be removed, however long the connection is broken. What the
migration was requested with is kept in a file next to the guest's record, so that it is taken up again also when
nova-compute was restarted meanwhile: libvirt wants the same words again.
"""
from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

import libvirt

from nova.disk_files import files
from nova import exception
from nova import utils
from nova.runtime import concurrency
from nova.runtime import versioned_records
from nova.virt.libvirt.moves import outgoing

if TYPE_CHECKING:
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.local_disks.storage import Storage

LOG = logging.getLogger(__name__)

POLL = 0.2                               # seconds between two looks at a migration
RESUME_S = 5                             # between two attempts to take up one that has broken off
REPORT = Callable[[dict[str, Any]], None]


@dataclasses.dataclass(frozen=True)
class Call:
    """The arguments of migrateToURI3: they can be stored as JSON."""

    uri: str
    parameters: dict[str, Any]
    flags: int


FORMAT = versioned_records.RecordFormat(
    name='record of a migration with post-copy', fields=versioned_records.fields_of(Call),
    required=versioned_records.fields_of(Call))


class PostCopy:
    """
    :param host: name of this one, which may share the directory of guests with others
    """

    def __init__(self, hypervisor: Host, storage: Storage, host: str) -> None:
        self._hypervisor, self._storage, self._host = hypervisor, storage, host

    def _file(self, uuid: str) -> str:
        return self._storage.path(uuid, f'leaving.{self._host}.json')

    def keep(self, uuid: str, call: Call) -> None:
        """Note the arguments of a migration that may go ahead, before it begins."""
        if call.flags & libvirt.VIR_MIGRATE_POSTCOPY:
            FORMAT.write(self._file(uuid), utils.to_record(call))

    def kept(self, uuid: str) -> Call | None:
        """What ``keep`` noted, or None if it is unknown."""
        try:
            return FORMAT.read_as(self._file(uuid), lambda values: utils.from_known(Call, values))
        except exception.RecordUnreadable as error:
            LOG.error('Guest %s: %s', uuid, error.message)
            return None

    def forget(self, uuid: str) -> None:
        files.remove(self._file(uuid))

    def finish(self, uuid: str, call: Call | None, progress: REPORT) -> None:
        """Wait until a guest that went ahead has all of itself at its destination, however often the connection breaks.

        :param call: its arguments; None: they are not known, and libvirt is left to end it
        """
        tries = 0
        while self.is_ahead(uuid):
            if call is not None and _is_lost(uuid, call.uri):
                LOG.error('Guest %s had a part of its memory here when its destination lost the rest: it is to be '
                          'started again, by a hard reboot.', uuid)
                return
            if not tries:
                LOG.error('Guest %s runs at its destination already and has a part of its memory here, while the '
                          'connection broke or nova-compute was restarted. It is waited for; nothing of it may be '
                          'removed on either host.', uuid)
            tries += 1
            if call is None:
                self.report(uuid, progress)
                time.sleep(RESUME_S)
                continue
            self._take_up(uuid, call, progress)
        if tries:
            LOG.info('Guest %s is at its destination after %d attempts to take its migration up.', uuid, tries)

    def _take_up(self, uuid: str, call: Call, progress: REPORT) -> None:
        job = outgoing.Job()
        concurrency.spawn('migration', job.run, self._hypervisor, uuid, call.uri, call.parameters,
                          call.flags | libvirt.VIR_MIGRATE_POSTCOPY_RESUME)
        while not job.done.wait(POLL):
            self.report(uuid, progress)
        self.report(uuid, progress)
        if job.error is not None:
            time.sleep(RESUME_S)                         # also QEMU has to see that the connection is broken

    def is_ahead(self, uuid: str) -> bool:
        """Whether the guest runs at its destination already, and is not all there; waits until it is known."""
        while True:
            try:
                return self.looks_ahead(uuid)
            except exception.VirtError as error:         # it is not known, and may be so
                LOG.error('Whether guest %s runs at its destination already is not known: %s', uuid, error.message)
                time.sleep(RESUME_S)

    def looks_ahead(self, uuid: str) -> bool:
        """The same, by one look.

        :raises VirtError: it is not known
        """
        try:
            return bool(self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.went_ahead))
        except exception.GuestNotFound:
            return False

    def report(self, uuid: str, progress: REPORT) -> None:
        """Report how far a migration is that goes on whatever the answer is, unless the server is gone."""
        try:
            values = self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.progress)
            if values:
                progress(values)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            raise
        except exception.NovaException as error:
            LOG.debug('The migration of guest %s goes on without a report: %s', uuid, error)


def _is_lost(uuid: str, uri: str) -> bool:
    """Whether the destination of a guest that went ahead is there, and has no such guest."""
    try:
        return not concurrency.blocking(outgoing.is_at, uri, uuid, True)
    except libvirt.libvirtError:
        return False
