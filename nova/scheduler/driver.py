"""What chooses hosts: the filter scheduler, or another class in its place."""
import importlib.metadata
import inspect

from oslo_utils import importutils

from nova import exception
from nova.scheduler import interface
from nova.scheduler import manager

ENTRY_POINTS = 'nova.scheduler.driver'
# the name of today, and those that it has had
FILTER_SCHEDULER = ('filter_scheduler', 'nova.scheduler.FilterScheduler',
                    'nova.scheduler.filter_scheduler.FilterScheduler')


def load(conf, api_db, cells):
    """The manager that ``[scheduler] driver`` names, ready for its service.

    :raises InvalidOption: there is none, or it lacks a method; the text says what there is
    """
    name = conf.scheduler.driver
    if name in FILTER_SCHEDULER:
        return manager.SchedulerManager(conf, api_db, cells)
    points = {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    try:
        if name not in points and '.' not in name:
            raise ImportError('it is neither the name of one nor the path of a class')
        cls = points[name].load() if name in points else importutils.import_class(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise exception.InvalidOption(
            f'[scheduler] driver: {name} could not be loaded ({error}). There are '
            f'{", ".join([FILTER_SCHEDULER[0], *sorted(points)])}, and paths of classes.') from error
    methods = [*interface.INTERFACE.methods, 'start', 'stop', 'periodic_tasks']
    missing = [each for each in methods if not callable(getattr(cls, each, None))]
    if not inspect.isclass(cls) or missing:
        raise exception.InvalidOption(
            f'[scheduler] driver: {name} is no class with the methods {", ".join(missing or methods)}.')
    return cls(conf, api_db, cells)
