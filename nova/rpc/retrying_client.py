"""A client that asks again: a conductor or network service that restarts is waited for, and nothing fails for it.

The services do a request that comes twice once: an answer that was lost is given again. What they relay, that a service
behind them does not answer, is an answer: it may pass, but a host does not become another one, and a service that was
waited for already is not waited for eight times.
"""
from __future__ import annotations

import functools
import time
from typing import Any

from nova import exception

RETRIES = 8          # with pauses of 0.5 s, 1 s, 2 s, … 32 s
RELAYED_S = 20       # so long after the first attempt a call is retried when a service behind the server is away


class Patient:
    """
    :param client: rpc client of an interface; its methods are this one's
    :param topic: of the interface
    :param server: the one to call; None: any of the topic
    """

    def __init__(self, client: Any, topic: str, server: Any = None) -> None:
        self.client, self._topic = client, topic
        self._to = {} if server is None else {'server': server}

    def __getattr__(self, name: str) -> Any:
        method = functools.partial(getattr(self.client, name), **self._to)

        def send(*args: Any, **kwargs: Any) -> Any:
            begun = time.monotonic()
            for attempt in range(RETRIES - 1):
                try:
                    return method(*args, **kwargs)
                except exception.HostUnavailable:
                    raise
                except exception.Unavailable as error:
                    pause = 0.5 * 2 ** attempt
                    relayed = error.kwargs.get('service') != self._topic
                    if relayed and time.monotonic() + pause - begun > RELAYED_S:
                        raise
                    time.sleep(pause)
            return method(*args, **kwargs)
        return send
