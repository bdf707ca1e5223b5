"""IsolatedHostsFilter: hosts that are kept for some images."""
import numpy as np

from nova.scheduler.filters import asked
from nova.scheduler.filters import base


class IsolatedHostsFilter(base.Remembered):
    """Images of ``isolated_images`` go to hosts of ``isolated_hosts`` only; other images go there, too, unless
    ``restrict_isolated_hosts_to_isolated_images`` says no."""

    def key(self, request):
        options = self.conf.filter_scheduler
        if not options.isolated_hosts and not options.isolated_images:
            return None
        isolated = asked.image_id(request) in options.isolated_images
        return isolated if isolated or options.restrict_isolated_hosts_to_isolated_images else None

    def judge(self, hosts, request):
        isolated = hosts.on(self.conf.filter_scheduler.isolated_hosts)
        return isolated if self.key(request) else np.logical_not(isolated)

    def reason(self, hosts, request, removed):
        return 'is|are not kept for the image, which has hosts of its own' if self.key(request) else (
            'is|are kept for other images')


FILTERS = (IsolatedHostsFilter,)
