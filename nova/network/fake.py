"""The network driver of a host that is left alone: tests, and users without root."""
from __future__ import annotations

from typing import Any

from collections.abc import Callable

from oslo_config.cfg import ConfigOpts



class FakeDriver:
    """Addresses and ports are real rows; nothing is set up.

    :param conf: the configuration
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self.conf = conf

    def start(self) -> None:
        """Look at what this host can do; raises NetworkPlumbingError when something needed is missing."""

    def refresh(self, load: Callable[..., Any]) -> list[str]:
        """Make the host's bridges, DHCP and filters as ``load()``, a HostState, says."""
        return []

    def teardown(self) -> None:
        """Remove all that was set up."""
