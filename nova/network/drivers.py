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
    """Interface of a network driver. load() passes the configuration to the constructor.

    ``forwards = False`` marks a driver that does not forward packets, so hosts with this driver get no routers.
    """

    def start(self) -> None:
        """Check the host; raises NetworkPlumbingError if a prerequisite is missing."""

    def refresh(self, load: Callable[[], HostState]) -> list[str]:
        """Call ``load()`` and apply the HostState to this host; return the kinds of objects that were repaired."""

    def teardown(self) -> None:
        """Remove all network objects of this cloud."""


def forwards(driver: NetworkDriver) -> bool:
    """Return whether the driver forwards packets of routers."""
    return bool(getattr(driver, 'forwards', True))


def follow(driver: NetworkDriver, load: Callable[[], HostState]) -> list[str]:
    """Apply a changed state with the driver's optional method ``follow(load)``; if it is missing, with ``refresh``.

    ``follow`` may skip unchanged objects, because ``refresh`` also runs periodically.
    """
    fast = getattr(driver, 'follow', None)
    return list(fast(load)) if fast is not None else driver.refresh(load)


def refilter(driver: NetworkDriver, state: EncodedState) -> list[str]:
    """Apply a state in which only rules and members of groups changed, without a check of the whole host.

    A driver may implement ``refilter(rules, members)``. The method returns False if the driver has not applied a state
    before. If the method is missing or returns False, ``refresh`` is called.
    """
    fast = getattr(driver, 'refilter', None)
    if fast is not None and fast(state.encoded['rules'], state.encoded['members']):
        return []
    return driver.refresh(state)


def leases(driver: NetworkDriver, whole: bool) -> list[Lease]:
    """Return leases that began or ended since the last call.

    A driver that serves DHCP may implement ``leases(whole)``.

    :param whole: return all leases, including renewed ones
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
