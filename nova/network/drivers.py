"""Which driver sets up the host."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova.network.linux import remote
from nova.runtime import entry_points

if TYPE_CHECKING:
    from nova.network.fake import FakeDriver

DRIVERS = 'nova.network.drivers'         # the group of entry points: where other packages add theirs


def load(conf: ConfigOpts, helper: Any = None) -> FakeDriver:
    """The driver that [network] driver names.

    :param helper: privileges.Helper that does for the Linux driver what this process may not do
    :raises InvalidOption: there is none of this name
    """
    if helper is not None:
        return remote.RemoteDriver(helper)
    return entry_points.named('[network] driver', conf.network.driver, DRIVERS)(conf)
