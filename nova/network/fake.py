"""The network driver of a host that is left alone: tests, and users without root."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_config.cfg import ConfigOpts


class FakeDriver:
    """A drivers.NetworkDriver: addresses and ports are real rows, and nothing is set up."""

    forwards = False

    def __init__(self, conf: ConfigOpts) -> None:
        self.conf = conf

    def start(self) -> None:
        """Nothing is needed."""

    def refresh(self, load: Callable[[], Any]) -> list[str]:
        return []

    def teardown(self) -> None:
        """Nothing was set up."""
