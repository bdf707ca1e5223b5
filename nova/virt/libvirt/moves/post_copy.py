"""Recovery of post-copy: the guest runs on its destination while a part of its memory is still on this host.

The guest cannot resume on this host, and the destination must not remove it, however long the connection is broken.
libvirt resumes a migration only with its initial arguments. This module stores them next to the guest's record, so that
nova-compute can resume the migration after a restart.
"""
import dataclasses
import logging
import time
from collections.abc import Callable

import libvirt

from nova.disk_files import files
from nova import exception
from nova import utils
from nova.json_types import JsonObject
from nova.runtime import concurrency
from nova.runtime import versioned_records
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage
from nova.virt.libvirt.moves import outgoing

LOG = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.2                    # seconds between two polls of a migration
RESUME_S = 5                             # seconds between two attempts to resume a migration
Report = Callable[[dict[str, int]], None]


@dataclasses.dataclass(frozen=True)
class Call:
    """Arguments of migrateToURI3, storable as JSON."""

    uri: str
    parameters: outgoing.Parameters
    flags: int


FORMAT = versioned_records.RecordFormat[JsonObject](
    name='record of a migration with post-copy', fields=versioned_records.fields_of(Call),
    required=versioned_records.fields_of(Call))


class PostCopy:
    """Recovery of migrations in post-copy.

    :param host: name of this host, which may share the directory of guests with others
    """

    def __init__(self, hypervisor: Host, storage: Storage, host: str) -> None:
        self._hypervisor, self._storage, self._host = hypervisor, storage, host

    def _file(self, uuid: str) -> str:
        return self._storage.path(uuid, f'post-copy.{self._host}.json')

    def keep(self, uuid: str, call: Call) -> None:
        """Store the arguments of a migration before the migration begins, if it may switch to post-copy."""
        if call.flags & libvirt.VIR_MIGRATE_POSTCOPY:
            FORMAT.write(self._file(uuid), utils.to_record(call))

    def kept(self, uuid: str) -> Call | None:
        """Return the arguments stored by ``keep``, or None if they are unknown."""
        try:
            return FORMAT.read_as(self._file(uuid), lambda values: utils.from_known(Call, values))
        except exception.RecordUnreadable as error:
            LOG.error('Guest %s: %s', uuid, error.message)
            return None

    def forget(self, uuid: str) -> None:
        files.remove(self._file(uuid))

    def finish(self, uuid: str, call: Call | None, progress: Report) -> None:
        """Wait for the end of post-copy of a guest; resume the migration after each connection error.

        :param call: arguments of the migration; None: unknown, so this only waits for libvirt
        """
        tries = 0
        while self.is_ahead(uuid):
            if call is not None and _is_lost(uuid, call.uri):
                LOG.error('The destination lost guest %s while a part of its memory was still here. The guest cannot '
                          'resume: start it again with a hard reboot.', uuid)
                return
            if not tries:
                LOG.error('Guest %s already runs at its destination, but a part of its memory is still here after a '
                          'broken connection or a restart of nova-compute. Waiting until the migration is complete. '
                          'Remove nothing of the guest on either host.', uuid)
            tries += 1
            if call is None:
                self.report(uuid, progress)
                time.sleep(RESUME_S)
                continue
            self._take_up(uuid, call, progress)
        if tries:
            LOG.info('Guest %s is at its destination after %d attempts to resume its migration.', uuid, tries)

    def _take_up(self, uuid: str, call: Call, progress: Report) -> None:
        job = outgoing.Job()
        concurrency.spawn('migration', job.run, self._hypervisor, uuid, call.uri, call.parameters,
                          call.flags | libvirt.VIR_MIGRATE_POSTCOPY_RESUME)
        while not job.done.wait(POLL_INTERVAL_S):
            self.report(uuid, progress)
        self.report(uuid, progress)
        if job.error is not None:
            time.sleep(RESUME_S)             # give QEMU time to notice the broken connection

    def is_ahead(self, uuid: str) -> bool:
        """Wait until the state is known and return whether the guest is in post-copy."""
        while True:
            try:
                return self.looks_ahead(uuid)
            except exception.VirtError as error:         # unknown: assume post-copy
                LOG.error('It is unknown whether guest %s already runs at its destination: %s', uuid, error.message)
                time.sleep(RESUME_S)

    def looks_ahead(self, uuid: str) -> bool:
        """Return whether the guest is in post-copy, without retries.

        :raises VirtError: the state is unknown
        """
        try:
            return bool(self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.went_ahead))
        except exception.GuestNotFound:
            return False

    def report(self, uuid: str, progress: Report) -> None:
        """Report the progress of a migration. Errors are only logged, unless the server is gone or changed."""
        try:
            values = self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.progress)
            if values:
                progress(values)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            raise
        except exception.NovaException as error:
            LOG.debug('The migration of guest %s continues without a progress report: %s', uuid, error)


def _is_lost(uuid: str, uri: str) -> bool:
    """Return whether the destination of a guest in post-copy is reachable and does not have the guest."""
    try:
        return not concurrency.blocking(outgoing.is_at, uri, uuid, True)
    except libvirt.libvirtError:
        return False
