"""Batch the calls of many threads into one transaction, with a separate result for each call."""
from collections.abc import Callable, Hashable
import threading
from typing import Generic, TypeVar
import weakref

from nova import exception
from nova.runtime import batching

MAX_BATCH = 100              # maximum calls in one transaction, to limit how long the transaction holds locks

_Order = TypeVar('_Order')
_Result = TypeVar('_Result')


class _Call(batching.Item, Generic[_Order, _Result]):
    result: _Result              # set if the call succeeded

    def __init__(self, order: _Order) -> None:
        super().__init__()
        self.order, self.finished = order, False


class BatchedCalls(Generic[_Order, _Result]):
    """Batches calls: runs a function once for the orders (arguments) of all calls that came during the previous run.

    If the function raises a NovaException, each order is retried separately, so that only failing orders raise. On
    another error, such as a database outage, the run ends, and all callers without a result get the error.

    :param function: (orders) -> [result of each order]. It must be atomic, and may be called again
    :param name: order -> key; a run contains each key at most once
    """

    def __init__(self, function: Callable[[list[_Order]], list[_Result]], name: Callable[[_Order], Hashable]) -> None:
        self._function, self._name = function, name
        self._lock = threading.Lock()
        # {key of __call__: Batch}; weak references, so that a Batch disappears with its last caller
        self._lanes = weakref.WeakValueDictionary[Hashable, batching.Batch[_Call[_Order, _Result]]]()

    def __call__(self, lane: Hashable, order: _Order) -> _Result:
        """Return the result of an order. The key ``lane`` selects the batch; different lanes run in parallel."""
        with self._lock:
            batch = self._lanes.get(lane)
            if batch is None:
                batch = self._lanes[lane] = batching.Batch(self._work, MAX_BATCH)
        call: _Call[_Order, _Result] = _Call(order)
        batch.run(call)
        return call.result

    def _work(self, calls: list[_Call[_Order, _Result]]) -> None:
        for run in self._runs(calls):
            try:
                self._run(run)
            except Exception as error:           # only calls of this run without a result get the error
                for call in run:
                    if not call.finished:
                        call.error = error

    def _runs(self, calls: list[_Call[_Order, _Result]]) -> list[list[_Call[_Order, _Result]]]:
        """Split calls into runs without duplicate keys."""
        runs: list[dict[Hashable, _Call[_Order, _Result]]] = []
        for call in calls:
            name = self._name(call.order)
            run = next((run for run in runs if name not in run), None)
            if run is None:
                runs.append(run := {})
            run[name] = call
        return [list(run.values()) for run in runs]

    def _run(self, calls: list[_Call[_Order, _Result]]) -> None:
        try:
            results = self._function([call.order for call in calls])
        except exception.NovaException as error:
            if len(calls) == 1:
                calls[0].error, calls[0].finished = error, True
                return
            for call in calls:
                self._run([call])
            return
        for call, result in zip(calls, results, strict=True):
            call.result, call.finished = result, True
