"""What a compute host tells of its nodes besides the driver's numbers: traits, metrics, failed builds."""
import contextlib
import logging
import threading

from nova import exception
from nova import utils
from nova.compute import provider_config
from nova.virt import monitors
from nova.virt import traits

LOG = logging.getLogger(__name__)


class Inventory:
    """The part of the compute's manager that knows these; mixed into it.

    Needs ``self.conf``, ``self.driver`` and ``self.report_nodes``.
    """

    def init_inventory(self):
        """:raises InvalidOption: an option or a file has no meaning"""
        self._given_traits = provider_config.load(self.conf.compute.provider_config_location)
        self._monitor = monitors.CpuMonitor() if monitors.check(self.conf.compute_monitors) else None
        self._failed_builds, self._builds_lock = 0, threading.Lock()

    def described(self, node):
        """Columns of a node (a virt.driver.NodeResources), ready for its row."""
        given = self._given_traits.get(node.node, frozenset()) | self._given_traits.get(
            provider_config.THIS, frozenset())
        return {'traits': sorted({*traits.of(self.driver.cpu_flags(node), self.driver.capabilities()), *given}),
                'metrics': self._metrics(), 'failed_builds': self._failed_builds}

    def _metrics(self):
        if self._monitor is None:
            return None
        try:
            return self._monitor.metrics(self.driver.host_cpu_stats(), utils.utcnow().isoformat(timespec='seconds'))
        except (OSError, ValueError, exception.VirtError) as error:
            LOG.warning('The processors could not be measured: %s', error)
            return None

    def count_build(self, failed):
        """A build has ended: schedulers see at once that this host fails, and that it does not any more.

        A host without failures costs no message.
        """
        with self._builds_lock:
            before = self._failed_builds
            self._failed_builds = before + 1 if failed else 0
        if failed or before:
            # the next report of the nodes says it, too
            with contextlib.suppress(exception.Unavailable, exception.VirtError):
                self.report_nodes()
