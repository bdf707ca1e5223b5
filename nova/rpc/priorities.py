"""The threads of an RPC server: one pool for each method with a bound of its own, one for all others."""
from __future__ import annotations

import collections
from collections.abc import Callable
import concurrent.futures
from typing import Any


class Pools:
    """An executor as oslo.messaging's servers want one.

    Plain pools: under eventlet their threads are green, and idle threads are used before new ones.

    :param interface: rpc.interface.Interface; rows with ``at_once`` get a pool of that size
    :param max_workers: threads for all others
    """

    def __init__(self, interface: Any, max_workers: Any) -> None:
        name = f'rpc-{interface.topic}'
        self._main = concurrent.futures.ThreadPoolExecutor(max_workers, thread_name_prefix=name)
        self._pools = {row.name: concurrent.futures.ThreadPoolExecutor(row.at_once, f'{name}-{row.name}')
                       for row in interface.methods.values() if row.at_once}
        self._waiting: collections.deque[None] = collections.deque()         # one for each message of the common pool

    def submit(self, function: Callable[..., Any], incoming: Any) -> Any:
        own = self._pools.get(incoming[0].message.get('method'))
        if own is not None:
            return own.submit(function, incoming)
        self._waiting.append(None)
        try:
            return self._main.submit(self._begin, function, incoming)
        except RuntimeError:                             # it has ended
            self._waiting.pop()
            raise

    def _begin(self, function: Callable[..., Any], incoming: Any) -> Any:
        self._waiting.pop()
        return function(incoming)

    @property
    def full(self) -> bool:
        """Whether a message waits because every thread of the common pool is at work."""
        return bool(self._waiting)

    def shutdown(self, wait: bool = True) -> None:
        pools = self._main, *self._pools.values()
        for pool in pools:
            pool.shutdown(wait=False)
        for pool in pools if wait else ():
            pool.shutdown()
