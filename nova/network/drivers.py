"""Network drivers: the interface, optional methods, and loading."""
from collections.abc import Callable
from typing import cast, Protocol

from oslo_config.cfg import ConfigOpts

from nova.network.host.state import EncodedState
from nova.network.host.state import HostState
from nova.network.host.state import Lease
from nova.network.linux import remote
from nova.runtime import entry_points
from nova.runtime.privileges import Helper

DRIVERS = 'nova.network.drivers'         # entry point group to which other packages add drivers


class NetworkDriver(Protocol):
    """Interface of a network driver; it is constructed from the configuration.

    A driver that forwards no packets has ``forwards = False``: it gets no routers.
    """

    def start(self) -> None:
        """Check the host; raises NetworkPlumbingError if a prerequisite is missing."""

    def refresh(self, load: Callable[[], HostState]) -> list[str]:
        """Apply the HostState that ``load()`` returns to this host; return the kinds of objects that were repaired."""

    def teardown(self) -> None:
        """Remove all network objects of this cloud."""


def forwards(driver: NetworkDriver) -> bool:
    """Return whether the driver forwards packets of routers."""
    return bool(getattr(driver, 'forwards', True))


def follow(driver: NetworkDriver, load: Callable[[], HostState]) -> list[str]:
    """Call ``refresh`` without a check of unchanged objects.

    A driver may implement ``follow(load)``. Its caller also calls ``refresh`` periodically.
    """
    fast = getattr(driver, 'follow', None)
    return list(fast(load)) if fast is not None else driver.refresh(load)


def refilter(driver: NetworkDriver, state: EncodedState) -> list[str]:
    """Apply a state in which only rules and members of groups changed.

    Filter changes are urgent, and a check of the whole host takes much longer. A driver may implement
    ``refilter(rules, members)``; it returns False if it has not applied a state before.
    """
    fast = getattr(driver, 'refilter', None)
    if fast is not None and fast(state.encoded['rules'], state.encoded['members']):
        return []
    return driver.refresh(state)


def leases(driver: NetworkDriver, whole: bool) -> list[Lease]:
    """Return leases that began or ended since the last call.

    A driver that serves DHCP may implement ``leases(whole)``.

    :param whole: return all leases, which may have been renewed
    """
    found = getattr(driver, 'leases', None)
    return list(found(whole)) if found is not None else []


def load(conf: ConfigOpts, helper: Helper | None = None) -> NetworkDriver:
    """Load the driver named in [network] driver.

    :param helper: Helper that the Linux driver needs in an unprivileged process
    :raises InvalidOption: no such driver
    """
    if helper is not None:
        return remote.RemoteDriver(helper)
    return cast(NetworkDriver, entry_points.named('[network] driver', conf.network.driver, DRIVERS)(conf))
