"""Availability of a host for new servers: it leaves the scheduling while its hypervisor does not answer."""
import logging
import threading

from nova import context
from nova import exception
from nova.compute.host import Host
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)


class Availability:
    """Report to a conductor whether this host can take servers, and why not.

    The driver says when the hypervisor stops to answer and when it answers again. A report that fails is repeated by
    ``settle``.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()            # one report at a time, so that the last one is the newest
        self._reason = ''                        # why the host can take no server; '': it can
        self._reported: str | None = None        # as the conductor has it; None: unknown

    def start(self) -> None:
        """Follow the driver, which is connected, and end what an earlier process has reported."""
        self._host.driver.watch_hypervisor(self._changed)
        self.settle()

    def forget_report(self) -> None:
        """The row of the service is new: report again."""
        self._reported = None

    def _changed(self, reason: str) -> None:
        self._reason = reason
        concurrency.spawn(f'availability-{self._host.name}', self.settle)

    def settle(self) -> None:
        """Report what the conductor does not know yet, and each time why the host can take no server: an operator may
        have enabled it meanwhile. Periodic.
        """
        with self._lock:
            told = self._reported
            if self._reason:
                self._reported = None
            while self._reported != self._reason:
                reason = self._reason
                try:
                    self._host.conductor.report_availability(context.admin_context(), host=self._host.name,
                                                             reason=reason)
                except exception.NovaException as error:
                    LOG.warning('Whether this host can take servers is reported later: %s', error.message)
                    return
                if reason and reason != told:
                    LOG.error('This host takes no new servers: %s.', reason)
                elif told and not reason:
                    LOG.info('This host takes new servers again.')
                self._reported = reason
