"""Thread pools of an RPC server: one for each method with a limit (``at_once``), and one for all other methods.

Waiting messages of the project that recently used the least thread time start first (nova/runtime/fairness.py).
Messages without a project, such as messages between services, start in the order of arrival.
"""
from collections.abc import Callable
import concurrent.futures
from typing import TypeAlias

from nova.rpc.delivery import Incoming
from nova.rpc.interface import Interface
from nova.runtime import fairness
from nova.runtime import queues

# Waiting messages of the common pool in this process. The broker keeps the rest, and other processes take it. A lower
# number disturbs the order: messages between services, and those of other projects, then wait behind a project's
# backlog. The other pools have no limit: their messages would use up the prefetch count, and stop all other methods.
MAX_WAITING = 2000

_Batch: TypeAlias = list[Incoming]            # oslo.messaging passes each message in a list


class Pools:
    """An executor for the servers of oslo.messaging.

    :param interface: rows with ``at_once`` get a pool of that size
    :param max_workers: threads for all other methods
    """

    def __init__(self, interface: Interface, max_workers: int) -> None:
        name = f'rpc-{interface.topic}'
        self._main = fairness.FairExecutor(queues.RPC, name, max_workers, spare=False)
        self._pools = {row.name: fairness.FairExecutor(queues.RPC, f'{name}-{row.name}', row.at_once, spare=False)
                       for row in interface.methods.values() if row.at_once}

    def submit(self, function: Callable[[_Batch], object], incoming: _Batch) -> concurrent.futures.Future[object]:
        """Run a message now or later, and acknowledge it: now, or when it has a thread if too many messages
        wait for the common pool.

        :raises RuntimeError: the pool has ended; the broker sends the message to another process
        """
        project_id = str((incoming[0].ctxt or {}).get('project_id') or '')
        pool = self._pools.get(str(incoming[0].message.get('method')), self._main)
        if pool is not self._main or pool.backlog < MAX_WAITING:
            incoming[0].acknowledge()
        return pool.submit(project_id or None, function, incoming)

    @property
    def full(self) -> bool:
        """Return whether a message waits because every thread of the common pool is busy."""
        return self._main.full

    def shutdown(self, wait: bool = True) -> None:
        """Accept no new message; run all waiting messages."""
        pools = self._main, *self._pools.values()
        for pool in pools:
            pool.stop(0, start_waiting=True)
        for pool in pools if wait else ():
            pool.stop(None, start_waiting=True)
