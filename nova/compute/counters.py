"""Report the counters of all guests and nodes of this host in one message per period. See ADR 0032."""
import contextlib
import functools
import logging
import pathlib
import time

from nova import context
from nova import exception
from nova.compute.host import Host
from nova.objects import counters
from nova.objects.counters import Counters
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


class Reporter:
    """Samples the driver's counters, and reports them.

    guests       Counters of each guest in the last sample, by uuid
    max_exposed  maximum number of servers in /metrics
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ''
        self.guests: dict[str, Counters] = {}
        self.max_exposed: int = host.conf.monitoring.server_series
        if self.max_exposed:
            for name, metric in metrics.SERVERS.items():
                metric.watch(self, functools.partial(_exposed, name=name))

    def report(self) -> None:
        """Take a sample and send it. If no conductor is available, the sample is dropped."""
        host = self._host
        try:
            self.guests, nodes = host.driver.usage.guests(), host.driver.usage.nodes()
        except (OSError, ValueError, exception.VirtError) as error:
            LOG.warning('Cannot read the counters: %s', error)
            self.guests = {}
            return
        if self.guests or nodes:
            with contextlib.suppress(exception.Unavailable):
                host.conductor.client.report_counters(
                    context.admin_context(), host=host.name, boot=self._boot, at=time.monotonic(),
                    servers=counters.dumped(self.guests), nodes=counters.dumped(nodes))


def _exposed(reporter: Reporter, name: str) -> dict[tuple[str], float]:
    """Return {labels: value} of a counter for /metrics."""
    factor = 1e-9 if name == 'cpu_ns' else 1
    found = {(uuid,): getattr(sample, name) for uuid, sample in sorted(reporter.guests.items())[:reporter.max_exposed]}
    return {labels: value * factor for labels, value in found.items() if value is not None}
