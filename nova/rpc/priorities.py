"""Thread pools of an RPC server: one for each method with its own limit, one for all others.

Among projects, messages that wait for a thread start in the order of the projects' recent cost
(nova/runtime/fairness.py). Messages without a project, such as those between services, start in the order of arrival.
"""
from __future__ import annotations

from collections.abc import Callable
import concurrent.futures
import contextlib
import dataclasses
from typing import TypeAlias

from nova.rpc.delivery import Incoming
from nova.rpc.interface import Interface
from nova.runtime import fairness

_Batch: TypeAlias = list[Incoming]            # one message


@dataclasses.dataclass(eq=False)
class _Work:
    project_id: str
    function: Callable[[_Batch], object]
    incoming: _Batch
    future: concurrent.futures.Future[object]


class _Pool:
    """A pool of plain threads, which are green under eventlet; idle threads are used before new ones.

    :param size: maximum number of threads
    """

    def __init__(self, size: int, name: str) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(size, thread_name_prefix=name)
        self._turns: fairness.FairQueue[_Work] = fairness.FairQueue(size, spare=False)
        self.waiting: set[_Work] = set()                 # work that may start, but has no free thread
        self._ended = False

    def submit(self, function: Callable[[_Batch], object], incoming: _Batch) -> concurrent.futures.Future[object]:
        """:raises RuntimeError: the pool has ended"""
        if self._ended:
            raise RuntimeError('The pool has ended.')
        project_id = str((incoming[0].ctxt or {}).get('project_id') or '')
        work = _Work(project_id, function, incoming, concurrent.futures.Future())
        if not project_id or self._turns.take(project_id, work):
            self._begin(work)
        return work.future

    def _begin(self, work: _Work) -> None:
        """:raises RuntimeError: the pool has ended"""
        self.waiting.add(work)
        try:
            self._executor.submit(self._run, work)
        except RuntimeError:
            self.waiting.discard(work)
            raise

    def _run(self, work: _Work) -> None:
        self.waiting.discard(work)
        try:
            work.future.set_result(work.function(work.incoming))
        except BaseException as error:
            work.future.set_exception(error)
        finally:
            for following in self._turns.ended(work.project_id) if work.project_id else ():
                try:
                    self._begin(following)
                except RuntimeError as error:            # the broker sends the message to another process
                    following.future.set_exception(error)

    def shutdown(self, wait: bool) -> None:
        """Take no new message; start all waiting ones."""
        self._ended = True
        for work in self._turns.forget():
            with contextlib.suppress(RuntimeError):      # it arrived just now: the broker sends it to another process
                self._begin(work)
        self._executor.shutdown(wait)


class Pools:
    """An executor for the servers of oslo.messaging.

    :param interface: rows with ``at_once`` get a pool of that size
    :param max_workers: threads for all others
    """

    def __init__(self, interface: Interface, max_workers: int) -> None:
        name = f'rpc-{interface.topic}'
        self._main = _Pool(max_workers, name)
        self._pools = {row.name: _Pool(row.at_once, f'{name}-{row.name}')
                       for row in interface.methods.values() if row.at_once}

    def submit(self, function: Callable[[_Batch], object], incoming: _Batch) -> concurrent.futures.Future[object]:
        return self._pools.get(str(incoming[0].message.get('method')), self._main).submit(function, incoming)

    @property
    def full(self) -> bool:
        """Return whether a message waits because every thread of the common pool is busy."""
        return bool(self._main.waiting)

    def shutdown(self, wait: bool = True) -> None:
        pools = self._main, *self._pools.values()
        for pool in pools:
            pool.shutdown(False)
        for pool in pools if wait else ():
            pool.shutdown(True)
