"""Counters of the guests and the nodes of this host: one message with all of them in each period. See ADR 0032."""
import contextlib
import logging
import pathlib
import time

from nova import context
from nova import exception
from nova.compute.host import Host
from nova.objects import counters
from nova.objects.counters import Counters

LOG = logging.getLogger(__name__)

BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


class Reporter:
    """Samples the driver's counters.

    guests  {uuid: Counters} of the last sample
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ''
        self.guests: dict[str, Counters] = {}

    def report(self) -> None:
        """Take a sample and send it without waiting for an answer; a sample that is lost is a gap of one period."""
        host = self._host
        try:
            self.guests, nodes = host.driver.guest_counters(), host.driver.node_counters()
        except (OSError, ValueError, exception.VirtError) as error:
            LOG.warning('Cannot read the counters: %s', error)
            self.guests = {}
            return
        if self.guests or nodes:
            with contextlib.suppress(exception.Unavailable):
                host.conductor.client.report_counters(
                    context.admin_context(), host=host.name, boot=self._boot, at=time.monotonic(),
                    servers=counters.dumped(self.guests), nodes=counters.dumped(nodes))
