"""The threads of an RPC server: one pool for each method with a bound of its own, one for all others."""
from __future__ import annotations

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

    def submit(self, function: Callable[..., Any], incoming: Any) -> Any:
        return self._pools.get(incoming[0].message.get('method'), self._main).submit(function, incoming)

    @property
    def full(self) -> bool:
        """Whether a message waits because every thread of the common pool is at work."""
        return self._main._work_queue.qsize() > 0

    def shutdown(self, wait: bool = True) -> None:
        pools = self._main, *self._pools.values()
        for pool in pools:
            pool.shutdown(wait=False)
        for pool in pools if wait else ():
            pool.shutdown()
