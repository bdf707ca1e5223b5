"""Filters: masks over the host table.

A filter has ``mask(hosts, request)``: an array of booleans, True for the hosts that it lets through; and
``reason(hosts, request, removed)``: what it has against the hosts at the positions ``removed``, as the end of a
sentence that begins with their number, its verb as ``singular|plural``, safe to be read by users. ``room`` marks
filters that are consulted even when an administrator forces a host, because the claim would refuse it anyway, and
``forced`` those that say which hosts are meant;
``rebuild = False`` those that have nothing to say about another image for a server that is on its host already.
``lacks`` and ``shortfall`` say how near a removed host came, which scheduler/explain.py reports to administrators.
``facts`` and ``outside`` are what a filter reads once a request besides the table; ``limits(hosts, position)``, where a
filter has it, is what the claim has to keep to on that host (db.claims.claim).

A class with the per-host method ``host_passes`` works as well: see plugins.py.
"""
import collections.abc
import importlib
import inspect
import types
import typing

from oslo_config import cfg

from nova import exception
from nova import objects
from nova.db.cells import cells as db_cells
from nova.runtime import entry_points
from nova.scheduler import host_view
from nova.scheduler.filters.base import Filter
from nova.scheduler.filters.base import Remembered
from nova.scheduler.filters.plugins import BaseHostFilter
from nova.scheduler.filters.plugins import PerHost

__all__ = ('ALL', 'BaseHostFilter', 'Filter', 'PerHost', 'Remembered', 'builtin_filters', 'facts', 'load')

# modules of this package, each with FILTERS: classes that a configuration may name
MODULES = ('builtin', 'capabilities', 'aggregates', 'busy', 'hints', 'isolation', 'query', 'trusted')
# what stands for all of them in scheduler_available_filters
ALL = ('nova.scheduler.filters.all_filters', 'nova.scheduler.filters.standard_filters')
ENTRY_POINTS = 'nova.scheduler.filters'
# names that other releases gave to filters
_OTHER_NAMES = {'AggregateMultiTenancyIsolationFilter': 'AggregateMultiTenancyIsolation',
                'AggregateImagePropertiesIsolationFilter': 'AggregateImagePropertiesIsolation'}


def _module(name: str) -> types.ModuleType:
    return importlib.import_module(f'{__name__}.{name}')


def always() -> tuple[type[Filter], ...]:
    """The filters that are consulted whatever the configuration says, in their order."""
    bare_metal, builtin, capabilities, categories, cells, groups, networks, numa, pci, requested_aggregate = (
        _module(name) for name in ('bare_metal', 'builtin', 'capabilities', 'categories', 'cells', 'groups', 'networks',
                                   'numa', 'pci', 'requested_aggregate'))
    return (*cells.FILTERS, builtin.RequestedHostFilter, requested_aggregate.RequestedAggregateFilter,
            builtin.MovedGuestFilter, builtin.RetryFilter, *groups.FILTERS, *categories.FILTERS,
            capabilities.TraitsFilter, bare_metal.MachineFilter, numa.NUMATopologyFilter, pci.PciPassthroughFilter,
            networks.NetworkResourcesFilter)


def builtin_filters() -> dict[str, type[Filter]]:
    """{name: class} of the filters that come with the system."""
    classes = [*always(), *(cls for name in MODULES for cls in _module(name).FILTERS)]
    return {cls.__name__: cls for cls in classes}


def available(names: collections.abc.Iterable[str]) -> dict[str, typing.Any]:
    """{name: class} of what ``scheduler_available_filters`` lists: class paths, functions that give classes, names of
    entry points, and ALL for those that come with the system.

    :raises InvalidOption: there is no such thing
    """
    found: dict[str, typing.Any] = {}
    for name in names:
        if name in ALL:
            found |= builtin_filters()
            continue
        thing = _loaded('available_filters', name)
        classes = [thing] if inspect.isclass(thing) else thing()
        found |= {cls.__name__: cls for cls in classes}
    return found


def _loaded(option: str, name: str) -> typing.Any:
    return entry_points.named(option, name, ENTRY_POINTS, sorted(builtin_filters()))


def load(conf: cfg.ConfigOpts, names: collections.abc.Iterable[str]) -> list[Filter]:
    """Filter objects for the names of ``enabled_filters``, after those that are always consulted.

    A name is that of an available class, of an entry point, or package.module.Class.

    :raises InvalidOption: there is no such filter; the text names those that there are
    """
    known = available(conf.filter_scheduler.available_filters)
    points = entry_points.installed(ENTRY_POINTS)
    first = always()
    found = [cls(conf) for cls in first]
    for name in dict.fromkeys(_OTHER_NAMES.get(name, name) for name in names):
        if name in {cls.__name__ for cls in first}:
            continue
        if name in known:
            cls = known[name]
        elif '.' in name or name in points:
            cls = _loaded('enabled_filters', name)
        else:
            raise exception.InvalidOption(f'enabled_filters: there is no filter {name}; there are '
                                          f'{", ".join(sorted({*known, *points}))}.')
        found.append(_made(conf, cls))
    _needed(conf, found)
    return found


def _made(conf: cfg.ConfigOpts, cls: typing.Any) -> Filter:
    if inspect.isclass(cls) and issubclass(cls, Filter):
        return cls(conf)
    if not callable(getattr(cls, 'host_passes', None)):
        raise exception.InvalidOption(f'enabled_filters: {cls} has no method host_passes.')
    return PerHost(conf, cls())


def _needed(conf: cfg.ConfigOpts, found: list[Filter]) -> None:
    """Metrics that must be there are required, whether the filter was named or not."""
    busy = _module('busy')
    if conf.metrics.required and busy.weight_setting(conf) and not any(
            isinstance(each, busy.MetricsFilter) for each in found):
        found.append(busy.MetricsFilter(conf))


def facts(filters: collections.abc.Iterable[Filter], cells: db_cells.Cells,
          hosts: collections.abc.Callable[[], host_view.Hosts], spec: objects.RequestSpec) -> dict[str, typing.Any]:
    """{name of a filter: what it reads besides the table} for a request; no query when no filter needs any.

    :param cells: db.cells.Cells; a cell that cannot be reached has no hosts either
    :param hosts: gives the view
    :raises ServiceUnavailable: the default cell cannot be reached
    """
    reading = [each for each in filters if each.wants(spec)]
    if not reading:
        return {}
    found: dict[str, typing.Any] = {each.name: frozenset() for each in reading}
    of_cells = [each for each in reading if type(each).facts is not Filter.facts]

    def read(cell: db_cells.Cell) -> dict[str, frozenset[typing.Any]]:
        with cell.db.reader() as conn:
            return {each.name: each.facts(conn, spec) for each in of_cells}
    answers, down = cells.scatter(read) if of_cells else ([], [])
    if cells.default in down:
        raise exception.ServiceUnavailable(service='database')
    for _cell, here in answers:
        for name, part in here.items():
            found[name] |= part
    for each in reading:
        if type(each).outside is not Filter.outside:
            found[each.name] = each.outside(hosts(), spec)
    return found
