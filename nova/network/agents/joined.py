"""One transaction for many callers, each of whom gets a result of its own."""
from __future__ import annotations

from collections.abc import Callable, Hashable
import threading
from typing import Generic, TypeVar

from nova import exception

MOST = 100              # orders of one run: bounds the time for which it holds locks

_Order = TypeVar('_Order')
_Result = TypeVar('_Result')


class _Call(Generic[_Order, _Result]):
    """An order and what became of it."""

    result: _Result
    error: BaseException | None = None

    def __init__(self, order: _Order) -> None:
        self.order = order
        self.woken, self.ended = threading.Event(), False

    def outcome(self) -> _Result:
        if self.error is not None:
            raise self.error
        return self.result


class Joined(Generic[_Order, _Result]):
    """Runs a function with the orders of all callers that wait; a caller does not wait where none is at work.

    When a run is refused, each of its orders is tried alone, so that no caller gets the fault of another one. Any other
    error, such as a database that is away, is an error of all.

    :param function: (orders) -> results, in this order; all or nothing, and it may be called again
    :param name: order -> what must not be twice in one run
    """

    def __init__(self, function: Callable[[list[_Order]], list[_Result]], name: Callable[[_Order], Hashable]) -> None:
        self._function, self._name = function, name
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, list[_Call[_Order, _Result]]] = {}          # of lanes in which there is a run

    def __call__(self, lane: Hashable, order: _Order) -> _Result:
        """The result of an order; a run has orders of one lane, and runs of one lane follow each other."""
        call: _Call[_Order, _Result] = _Call(order)
        with self._lock:
            others = self._waiting.get(lane)
            if others is None:
                self._waiting[lane] = []
            else:
                others.append(call)
        if others is not None:
            call.woken.wait()
        if not call.ended:
            self._lead(lane, call)
        return call.outcome()

    def _lead(self, lane: Hashable, call: _Call[_Order, _Result]) -> None:
        """Run what waits, with this call, then wake up who has a result, and who leads the next run."""
        with self._lock:
            run, self._waiting[lane] = self._divided([call, *self._waiting[lane]])
        try:
            self._run(run)
        except BaseException as error:
            for each in run:
                each.error = error
            raise
        finally:
            with self._lock:
                waiting = self._waiting[lane]
                following = waiting.pop(0) if waiting else None
                if following is None:
                    del self._waiting[lane]
            for each in run:
                each.ended = True
                each.woken.set()
            if following is not None:
                following.woken.set()

    def _divided(self, calls: list[_Call[_Order, _Result]]) -> tuple[list[_Call[_Order, _Result]],
                                                                     list[_Call[_Order, _Result]]]:
        """(those of the next run, those that wait for another one)"""
        run: dict[Hashable, _Call[_Order, _Result]] = {}
        rest: list[_Call[_Order, _Result]] = []
        for call in calls:
            name = self._name(call.order)
            if name in run or len(run) == MOST:
                rest.append(call)
            else:
                run[name] = call
        return list(run.values()), rest

    def _run(self, calls: list[_Call[_Order, _Result]]) -> None:
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
