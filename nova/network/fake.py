"""Fake network driver that leaves the host unchanged: for tests, and users without root."""
from collections.abc import Callable

from oslo_config.cfg import ConfigOpts

from nova.network.host.state import HostState


class FakeDriver:
    """A drivers.NetworkDriver: ports and addresses exist only in the database."""

    forwards = False

    def __init__(self, conf: ConfigOpts) -> None:
        self.conf = conf

    def start(self) -> None:
        """Do nothing: there are no prerequisites."""

    def refresh(self, load: Callable[[], HostState]) -> list[str]:
        return []

    def teardown(self) -> None:
        """Do nothing: nothing was set up."""
