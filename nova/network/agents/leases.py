"""What a host reports of the leases that its DHCP servers gave."""
from __future__ import annotations

from collections.abc import Callable
import logging
import time
from typing import Any

from nova import exception
from nova.network import drivers
from nova.network.interface import MAX_LEASES

LOG = logging.getLogger(__name__)


class LeaseReports:
    """Tells of leases that differ from what was told before. What nobody took is told again.

    :param tell: takes at most MAX_LEASES of them
    """

    def __init__(self, driver: drivers.NetworkDriver, tell: Callable[[list[dict[str, Any]]], None]) -> None:
        self._driver, self._tell = driver, tell
        self._told: dict[tuple[str, str], int] = {}
        self._untold: dict[tuple[str, str], int] = {}

    def report(self, whole: bool = False) -> None:
        """Tell what is new.

        :param whole: look at all leases, which may have been renewed
        """
        for lease in drivers.leases(self._driver, whole):
            key = lease['mac'], lease['address']
            if self._told.get(key) != lease['until']:
                self._untold[key] = lease['until']
        for keys in _pieces(list(self._untold)):
            try:
                self._tell([{'mac': mac, 'address': address, 'until': self._untold[mac, address]}
                            for mac, address in keys])
            except exception.Unavailable as error:
                LOG.warning('Leases of this host were not reported, and are with its next report: %s', error)
                return
            for key in keys:
                self._told[key] = self._untold.pop(key)
        if whole:
            now = time.time()
            self._told = {key: until for key, until in self._told.items() if until > now}


def _pieces(keys: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    return [keys[at:at + MAX_LEASES] for at in range(0, len(keys), MAX_LEASES)]
