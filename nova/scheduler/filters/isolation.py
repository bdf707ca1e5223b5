"""IsolatedHostsFilter: hosts reserved for some images."""
from __future__ import annotations

import typing

import numpy as np

from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler.placement_request import Request


ISOLATED, OTHER = 'isolated', 'other'       # kinds of images


class IsolatedHostsFilter(base.CachedFilter):
    """Images in ``isolated_images`` run only on hosts in ``isolated_hosts``.

    Other images may use these hosts too if ``restrict_isolated_hosts_to_isolated_images`` is false.
    """

    def key(self, request: Request) -> str:
        options = self.conf.filter_scheduler
        if not options.isolated_hosts and not options.isolated_images:
            return ''
        if request_fields.image_id(request) in options.isolated_images:
            return ISOLATED
        return OTHER if options.restrict_isolated_hosts_to_isolated_images else ''

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        isolated = hosts.on_hosts(self.conf.filter_scheduler.isolated_hosts)
        return isolated if self.key(request) == ISOLATED else np.logical_not(isolated)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return ('is|are not reserved for the image, which needs isolated hosts' if self.key(request) == ISOLATED
                else 'is|are reserved for other images')


FILTERS = (IsolatedHostsFilter,)
