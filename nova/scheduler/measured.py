"""What is counted of the operations that place servers."""
import functools
import time

from nova import exception
from nova.runtime import metrics


def measured(function):
    """A method that answers with a list, an item for each server, and an empty one where a server got no host."""
    @functools.wraps(function)
    def method(*args, **kwargs):
        begun = time.monotonic()
        try:
            answer = function(*args, **kwargs)
        except exception.NoValidHost as error:
            _refused(getattr(error, 'removals', None))
            raise
        finally:
            metrics.PLACEMENT_SECONDS.observe(time.monotonic() - begun)
        metrics.PLACED.inc(sum(1 for each in answer if each))
        return answer
    return method


def _refused(removals):
    """
    :param removals: [explain.Removal], [] where there are no hosts, None where claims were lost again and again
    """
    last = 'claims' if removals is None else removals[-1].filter if removals else 'none'
    metrics.PLACEMENT_REFUSED.labels(last).inc()
    for each in removals or ():
        metrics.PLACEMENT_REMOVED.labels(each.filter).inc(each.count)
