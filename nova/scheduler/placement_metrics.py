"""Metrics of the operations that place servers."""
import collections.abc
import functools
import time
import typing

from nova import exception
from nova.runtime import metrics
from nova.scheduler import explain

P = typing.ParamSpec('P')


def measured(function: collections.abc.Callable[P, list[typing.Any]]) -> collections.abc.Callable[P, list[typing.Any]]:
    """A method that answers with a list, an item for each server, and an empty one where a server got no host."""
    @functools.wraps(function)
    def method(*args: P.args, **kwargs: P.kwargs) -> list[typing.Any]:
        begun = time.monotonic()
        try:
            answer = function(*args, **kwargs)
        except exception.NoValidHost as error:
            _count_refusal(getattr(error, 'removals', None))
            raise
        finally:
            metrics.PLACEMENT_SECONDS.observe(time.monotonic() - begun)
        metrics.PLACED.inc(sum(1 for each in answer if each))
        return answer
    return method


def _count_refusal(removals: list[explain.Removal] | None) -> None:
    """
    :param removals: [] where there are no hosts, None where claims were lost again and again
    """
    last = 'claims' if removals is None else removals[-1].filter if removals else 'none'
    metrics.PLACEMENT_REFUSED.labels(last).inc()
    for each in removals or ():
        metrics.PLACEMENT_REMOVED.labels(each.filter).inc(each.count)
