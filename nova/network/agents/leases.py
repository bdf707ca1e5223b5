"""What a host reports of the leases that its DHCP servers gave."""
from __future__ import annotations

from collections.abc import Callable
import logging
import threading
import time
from typing import Any

from nova import exception
from nova.network import drivers
from nova.network.interface import MAX_LEASES

LOG = logging.getLogger(__name__)


class LeaseReports:
    """Reports leases that differ from what was reported before. A report that fails is repeated with the next one.

    Two periodic tasks report, each on a thread of its own: one after the other.

    :param send: takes at most MAX_LEASES of them
    """

    def __init__(self, driver: drivers.NetworkDriver, send: Callable[[list[dict[str, Any]]], None]) -> None:
        self._driver, self._send = driver, send
        self._sent: dict[tuple[str, str], int] = {}
        self._unsent: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def report(self, whole: bool = False) -> None:
        """Report what is new.

        :param whole: look at all leases, which may have been renewed
        """
        with self._lock:
            self._report(whole)

    def _report(self, whole: bool) -> None:
        for lease in drivers.leases(self._driver, whole):
            key = lease['mac'], lease['address']
            if self._sent.get(key) != lease['until']:
                self._unsent[key] = lease['until']
        for keys in _pieces(list(self._unsent)):
            try:
                self._send([{'mac': mac, 'address': address, 'until': self._unsent[mac, address]}
                            for mac, address in keys])
            except exception.Unavailable as error:
                LOG.warning('Leases of this host were not reported, and are with its next report: %s', error)
                return
            for key in keys:
                self._sent[key] = self._unsent.pop(key)
        if whole:
            now = time.time()
            self._sent = {key: until for key, until in self._sent.items() if until > now}


def _pieces(keys: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    return [keys[at:at + MAX_LEASES] for at in range(0, len(keys), MAX_LEASES)]
