"""One transaction for many callers, each of whom gets a result of its own."""
from __future__ import annotations

from collections.abc import Callable, Hashable
import threading
from typing import Any, Generic, TypeVar
import weakref

from nova import exception
from nova.runtime import batching

MOST = 100              # orders of one run: bounds the time for which it holds locks

_Order = TypeVar('_Order')
_Result = TypeVar('_Result')


class _Call(batching.Item):
    def __init__(self, order: Any) -> None:
        super().__init__()
        self.order = order
        self.result: Any = None


class Joined(Generic[_Order, _Result]):
    """Runs a function with the orders of all callers that wait; a caller does not wait where none is at work.

    When a run is refused, each of its orders is tried alone, so that no caller gets the fault of another one. Any other
    error, such as a database that is away, is an error of the whole run.

    :param function: (orders) -> results, in this order; all or nothing, and it may be called again
    :param name: order -> what must not be twice in one run
    """

    def __init__(self, function: Callable[[list[_Order]], list[_Result]], name: Callable[[_Order], Hashable]) -> None:
        self._function, self._name = function, name
        self._lock = threading.Lock()
        # a project's lasts as long as a caller is in it
        self._lanes: weakref.WeakValueDictionary[Hashable, batching.Batch] = weakref.WeakValueDictionary()

    def __call__(self, lane: Hashable, order: _Order) -> _Result:
        """The result of an order; a run has orders of one lane, and runs of one lane follow each other."""
        with self._lock:
            batch = self._lanes.get(lane)
            if batch is None:
                batch = self._lanes[lane] = batching.Batch(self._work, MOST)
        call = _Call(order)
        batch.run(call)
        found: _Result = call.result
        return found

    def _work(self, calls: list[_Call]) -> None:
        for run in self._runs(calls):
            try:
                self._run(run)
            except Exception as error:           # of this run alone
                for call in run:
                    call.error = error

    def _runs(self, calls: list[_Call]) -> list[list[_Call]]:
        """Calls in runs in which no name is twice."""
        runs: list[dict[Hashable, _Call]] = []
        for call in calls:
            name = self._name(call.order)
            run = next((run for run in runs if name not in run), None)
            if run is None:
                runs.append(run := {})
            run[name] = call
        return [list(run.values()) for run in runs]

    def _run(self, calls: list[_Call]) -> None:
        try:
            results = self._function([call.order for call in calls])
        except exception.NovaException as error:
            if len(calls) == 1:
                calls[0].error = error
                return
            for call in calls:
                self._run([call])
            return
        for call, result in zip(calls, results, strict=True):
            call.result = result
