"""Creation of the scheduler: the filter scheduler, or another class that the configuration names."""
import collections.abc

from oslo_config import cfg

from nova import exception
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.runtime import entry_points
from nova.scheduler import interface
from nova.scheduler import manager

ENTRY_POINTS = 'nova.scheduler.driver'
# present name and former names of the filter scheduler
FILTER_SCHEDULER = ('filter_scheduler', 'nova.scheduler.FilterScheduler',
                    'nova.scheduler.filter_scheduler.FilterScheduler')


def load(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> interface.Scheduler:
    """Return an instance of the scheduler class that ``[scheduler] driver`` names.

    :raises InvalidOption: the class does not exist, or lacks a method; the text lists the choices
    """
    name = conf.scheduler.driver
    if name in FILTER_SCHEDULER:
        return manager.SchedulerManager(conf, api_db, cells)
    cls: collections.abc.Callable[..., interface.Scheduler] = entry_points.named(
        '[scheduler] driver', name, ENTRY_POINTS, FILTER_SCHEDULER[:1])
    is_class = isinstance(cls, type)
    # a SchedulerManager has the RPC methods in its attribute ``methods``
    ours = isinstance(cls, type) and issubclass(cls, manager.SchedulerManager)
    methods = [*(() if ours else interface.INTERFACE.methods), 'start', 'stop', 'periodic_tasks']
    missing = [each for each in methods if not callable(getattr(cls, each, None))]
    if not is_class or missing:
        raise exception.InvalidOption(
            f'[scheduler] driver: {name} is not a class with the methods {", ".join(missing or methods)}.')
    return cls(conf, api_db, cells)
