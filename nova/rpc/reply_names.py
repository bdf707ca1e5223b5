"""Reply queue names that contain the host's name, so that a broker can prevent other hosts from reading the queues.

oslo.messaging 18.3.1 names the queues by random numbers, or by counters in files that every process can write. Random
names do not protect the queues, because the called services know the names.
"""
import uuid

import oslo_messaging

from nova.runtime.hooks import oslo_messaging as messaging_hooks

HOST_LENGTH = 180            # RabbitMQ limits a queue's name to 255 bytes


class _Names:
    def __init__(self, host: str) -> None:
        self._prefix = prefix(host)

    def get(self) -> str:
        return self._prefix + uuid.uuid4().hex


def prefix(host: str) -> str:
    """Return the part of a host's reply queue names between ``reply_`` and the random part."""
    return host[:HOST_LENGTH] + ':'


def use(transport: oslo_messaging.Transport, host: str) -> None:
    """Set the name of a transport's reply queue; do nothing if the driver does not use RabbitMQ."""
    driver = messaging_hooks.driver_of(transport)
    if hasattr(driver, 'name_replies'):          # nova-rabbit
        driver.name_replies(prefix(host))
    messaging_hooks.name_replies(driver, _Names(host))
