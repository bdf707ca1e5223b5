"""Copy one disk of a running guest with a backup job of libvirt (https://libvirt.org/formatbackup.html)."""
import logging
import time
from collections.abc import Callable

import libvirt

from nova import exception
from nova.runtime import progress
from nova.virt.libvirt import calls
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage

LOG = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.2                    # seconds between two polls of a copy
REPORT_S = 1                             # seconds between two progress reports
OPERATION = 'make a snapshot'


class DiskBackups:
    """Backup jobs that copy one disk each.

    :param timeout: timeout of a copy in seconds
    """

    def __init__(self, storage: Storage, hypervisor: Host, timeout: float) -> None:
        self._storage, self._hypervisor, self._timeout = storage, hypervisor, timeout

    def copy(self, uuid: str, text: str, begun: Callable[[], None] | None = None) -> bool:
        """Copy a disk of a running guest. Return whether the copy succeeded.

        :param text: XML of a backup job with an existing target file
        :param begun: called when the job has begun; the copy has the content of this point in time
        """
        if not self.begin(uuid, text, libvirt.VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL):
            return False
        if begun is not None:
            begun()
        return self.wait(uuid)

    def begin(self, uuid: str, text: str, flags: int = 0) -> bool:
        """Begin a backup job. Return False if libvirt refuses the job."""
        try:
            self._hypervisor.guest(OPERATION, uuid, calls.begin_backup, text, flags)
        except exception.VirtError as error:
            LOG.warning('Copying the disk of %s did not begin: %s', uuid, error)
            return False
        return True

    def wait(self, uuid: str, report: progress.Report = progress.ignore) -> bool:
        """Wait for the end of a copy. Return whether the copy succeeded.

        :raises InsufficientStorage: free space is low, so the copy was aborted
        """
        deadline, report_at = time.monotonic() + self._timeout, time.monotonic() + REPORT_S
        done: bool | None = None
        try:
            while time.monotonic() < deadline:
                done = self._hypervisor.guest(OPERATION, uuid, calls.backup_done)
                if done is not None:
                    break
                self._storage.check_room()
                if time.monotonic() > report_at:
                    percent = self._hypervisor.guest(OPERATION, uuid, calls.backup_percent)
                    if percent is not None:
                        report(percent)
                    report_at = time.monotonic() + REPORT_S
                time.sleep(POLL_INTERVAL_S)
        except exception.VirtError as error:
            LOG.warning('Copying the disk of %s failed: %s', uuid, error)
        except exception.NovaException:  # check_room found too little space, or ``report`` cancels the task
            self._abort(uuid)
            raise
        if done is None:
            self._abort(uuid)
        elif done:
            report(100)
        return bool(done)

    def _abort(self, uuid: str) -> None:
        try:
            self._hypervisor.guest(OPERATION, uuid, calls.abort_job)
        except exception.VirtError as error:             # the next ``begin`` aborts a job that still runs
            LOG.warning('Cannot abort the copy of the disk of %s: %s', uuid, error)
