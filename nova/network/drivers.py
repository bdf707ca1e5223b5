"""Which driver sets up the host, and what a driver is."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, Protocol

from oslo_config.cfg import ConfigOpts

from nova.network.linux import remote
from nova.runtime import entry_points

DRIVERS = 'nova.network.drivers'         # the group of entry points: where other packages add theirs


class NetworkDriver(Protocol):
    """Made of the configuration alone.

    One that forwards no packets has ``forwards = False``: routers go to other hosts.
    """

    def start(self) -> None:
        """Look at what this host can do; raises NetworkPlumbingError when something needed is missing."""

    def refresh(self, load: Callable[[], Any]) -> list[str]:
        """Make the host's network as ``load()``, a HostState, says -> the kinds of what was mended."""

    def teardown(self) -> None:
        """Remove all that was set up."""


def forwards(driver: NetworkDriver) -> bool:
    """Whether routers of this host lead anywhere."""
    return bool(getattr(driver, 'forwards', True))


def follow(driver: NetworkDriver, load: Callable[[], Any]) -> list[str]:
    """``refresh``, without a look at what is to be as it was at the last time.

    A driver may have ``follow(load)``, as ``refresh``. Its caller also calls ``refresh`` from time to time.
    """
    fast = getattr(driver, 'follow', None)
    return list(fast(load)) if fast is not None else driver.refresh(load)


def refilter(driver: NetworkDriver, state: Any) -> list[str]:
    """The same where nothing but rules and members of groups is another one than at the last refresh.

    Filters have to follow at once, and the rest of the host takes much longer to look at. A driver may have
    ``refilter(rules, members)``, which returns False when it does not know the rest any more.
    """
    fast = getattr(driver, 'refilter', None)
    if fast is not None and fast(state.rules, state.members):
        return []
    return driver.refresh(lambda: state)


def leases(driver: NetworkDriver, whole: bool) -> list[dict[str, Any]]:
    """[{'mac', 'address', 'until': Unix time}] of leases that began or ended since the last call.

    A driver may have ``leases(whole)``: one that serves DHCP by itself.

    :param whole: all leases, which may have been renewed
    """
    found = getattr(driver, 'leases', None)
    return list(found(whole)) if found is not None else []


def load(conf: ConfigOpts, helper: Any = None) -> NetworkDriver:
    """The driver that [network] driver names.

    :param helper: privileges.Helper that does for the Linux driver what this process may not do
    :raises InvalidOption: there is none of this name
    """
    if helper is not None:
        return remote.RemoteDriver(helper)
    return cast(NetworkDriver, entry_points.named('[network] driver', conf.network.driver, DRIVERS)(conf))
