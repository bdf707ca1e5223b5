"""What happens at the same moment."""
import collections
import functools
import re
import threading
from concurrent import futures

from nova import exception
from nova.scheduler import manager as scheduler_manager


def at_once(*functions):
    """What these functions give, which all begin when the last one is ready."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        return function()
    with futures.ThreadPoolExecutor(len(functions)) as pool:
        return list(pool.map(run, functions))


def outcomes(*functions):
    """The same; of a function that is refused, its NovaException."""
    def outcome(function):
        try:
            return function()
        except exception.NovaException as error:
            return error
    return at_once(*(functools.partial(outcome, function) for function in functions))


def place(cloud, uuids, refusal=''):
    """Counter {host: servers; None: those without one} of servers that are placed at once.

    Each by a scheduler of its own, whose table knows nothing of the others.

    :param cloud: nova.tests.core.Cloud
    :param refusal: a regular expression of which each refusal has a part
    """
    spec = cloud.conductor.methods.get_request_spec(None, uuids[0])

    def placing(uuid):
        scheduler = scheduler_manager.SchedulerManager(cloud.conf, cloud.api_db, cloud.cells)
        scheduler.start()

        def select():
            try:
                selections, = scheduler.methods.select_destinations(cloud.ctx, spec, [uuid])
            except exception.NoValidHost as error:
                assert re.search(refusal, error.message)
                return None
            return selections[0].host
        return select
    return collections.Counter(at_once(*map(placing, uuids)))
