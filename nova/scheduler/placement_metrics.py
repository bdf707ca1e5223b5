"""Metrics of the placement operations."""
import collections.abc
import functools
import time
import typing

from nova import exception
from nova.runtime import metrics
from nova.scheduler import explain

P = typing.ParamSpec('P')


def measured(function: collections.abc.Callable[P, list[typing.Any]]) -> collections.abc.Callable[P, list[typing.Any]]:
    """Decorator: count results and measure the duration of a method that returns selections for each server."""
    @functools.wraps(function)
    def method(*args: P.args, **kwargs: P.kwargs) -> list[typing.Any]:
        begun = time.monotonic()
        try:
            answer = function(*args, **kwargs)
        except exception.NoValidHost as error:
            _count_no_valid_host(getattr(error, 'removals', None))
            raise
        finally:
            metrics.PLACEMENT_SECONDS.observe(time.monotonic() - begun)
        metrics.PLACED.inc(sum(1 for each in answer if each))
        return answer
    return method


def _count_no_valid_host(removals: list[explain.Removal] | None) -> None:
    """Count a NoValidHost error under the filter that removed the last hosts.

    :param removals: Removals of the filters; [] if there are no hosts, None if claims failed repeatedly
    """
    last = 'claims' if removals is None else removals[-1].filter if removals else 'none'
    metrics.PLACEMENT_REFUSED.labels(last).inc()
    for each in removals or ():
        metrics.PLACEMENT_REMOVED.labels(each.filter).inc(each.count)
