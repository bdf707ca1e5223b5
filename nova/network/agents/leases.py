"""Report the DHCP leases of a host."""
from collections.abc import Callable
import logging
import threading
import time

from nova import exception
from nova.network import drivers
from nova.network.host.state import Lease
from nova.network.interface import MAX_LEASES

LOG = logging.getLogger(__name__)


class LeaseReports:
    """Reports leases that changed since the last report. A failed report is retried with the next one.

    Two periodic tasks report on separate threads; a lock serializes them.

    :param send: function that sends at most MAX_LEASES leases
    """

    def __init__(self, driver: drivers.NetworkDriver, send: Callable[[list[Lease]], None]) -> None:
        self._driver, self._send = driver, send
        self._sent: dict[tuple[str, str], int] = {}
        self._unsent: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def report(self, whole: bool = False) -> None:
        """Report new leases.

        :param whole: check all leases for renewals
        """
        with self._lock:
            self._report(whole)

    def _report(self, whole: bool) -> None:
        for lease in drivers.leases(self._driver, whole):
            key = lease['mac'], lease['address']
            if self._sent.get(key) != lease['expires_at']:
                self._unsent[key] = lease['expires_at']
        for keys in _batches(list(self._unsent)):
            try:
                self._send([{'mac': mac, 'address': address, 'expires_at': self._unsent[mac, address]}
                            for mac, address in keys])
            except exception.Unavailable as error:
                LOG.warning('Cannot report DHCP leases of this host; the next report retries: %s', error)
                return
            for key in keys:
                self._sent[key] = self._unsent.pop(key)
        if whole:
            now = time.time()
            self._sent = {key: until for key, until in self._sent.items() if until > now}


def _batches(keys: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    return [keys[at:at + MAX_LEASES] for at in range(0, len(keys), MAX_LEASES)]
