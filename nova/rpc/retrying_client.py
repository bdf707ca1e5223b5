"""RPC client that retries while a conductor or network service restarts.

The services execute a repeated request once and return the first result again. If the called service relays that a
third service is unavailable, the client retries for 20 s only. It does not retry if a compute host is unavailable.
"""
from collections.abc import Callable
import functools
import time
from typing import Any

from nova import exception

RETRIES = 8          # attempts, with pauses of 0.5 s, 1 s, 2 s, … 32 s between them
RELAYED_RETRY_TIME_S = 20       # seconds after the first attempt for which a relayed error is retried


class RetryingClient:
    """A client that retries its calls.

    :param client: RPC client of an interface; the RetryingClient has the same methods
    :param topic: topic of the interface
    :param server: server to call; None: any of the topic
    """

    def __init__(self, client: object, topic: str, server: str | None = None) -> None:
        self.client: Any = client
        self._topic = topic
        self._to = {} if server is None else {'server': server}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = functools.partial(getattr(self.client, name), **self._to)

        def send(*args: object, **kwargs: object) -> object:
            begun = time.monotonic()
            for attempt in range(RETRIES - 1):
                try:
                    return method(*args, **kwargs)
                except exception.HostUnavailable:
                    raise
                except exception.Unavailable as error:
                    pause = 0.5 * 2 ** attempt
                    relayed = error.kwargs.get('service') != self._topic
                    if relayed and time.monotonic() + pause - begun > RELAYED_RETRY_TIME_S:
                        raise
                    time.sleep(pause)
            return method(*args, **kwargs)
        return send
