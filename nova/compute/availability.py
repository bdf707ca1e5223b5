"""Availability of a host for new servers: the host is not scheduled while its hypervisor does not answer."""
import logging
import threading

from nova import context
from nova import exception
from nova.compute.host import Host
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)


class Availability:
    """Reports to a conductor whether this host can take servers, with the reason.

    The driver reports when the hypervisor stops answering and when it answers again. ``settle`` repeats a failed
    report.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()            # one report at a time, so that the newest state is sent last
        self._reason = ''                        # why the host cannot take servers, or '' if it can
        self._reported: str | None = None        # reason in the last successful report; None: report again

    def start(self) -> None:
        """Watch the state of the hypervisor, and replace the report of the previous process."""
        self._host.driver.watch_hypervisor(self._changed)
        self.settle()

    def forget_report(self) -> None:
        """Forget the last report, because the service has a new database row."""
        self._reported = None

    def _changed(self, reason: str) -> None:
        self._reason = reason
        concurrency.spawn(f'availability-{self._host.name}', self.settle)

    def settle(self) -> None:
        """Report the state if it has changed (periodic task).

        A reason is reported in each period, because an operator may have enabled the service meanwhile.
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
                    LOG.warning('Cannot report yet whether this host can take servers: %s', error.message)
                    return
                if reason and reason != told:
                    LOG.error('This host takes no new servers: %s.', reason)
                elif told and not reason:
                    LOG.info('This host takes new servers again.')
                self._reported = reason
