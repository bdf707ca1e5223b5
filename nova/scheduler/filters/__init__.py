"""Filters: masks over the host table.

A filter has these methods and attributes:
* ``mask(hosts, request)`` returns an array of booleans: True for each host that passes.
* ``reason(hosts, request, removed)`` explains the removal of the hosts at the positions ``removed``. It completes a
  sentence that begins with the number of hosts. Its verb has the form ``singular|plural``. Users see the sentence.
  A filter with only one reason may set ``why`` instead.
* ``checks_capacity``: the filter also checks a forced host, because a claim on a full host fails.
* ``selects_hosts``: the filter also checks a forced host. The nearest hosts of an explanation always pass this filter.
* ``run_on_rebuild = False``: the filter is skipped when a server is rebuilt from another image on its host.
* ``lacks`` tells why a host was removed, and ``shortfall`` tells how far it is from passing (scheduler/explain.py).
* ``facts`` and ``external_facts`` read data that is not in the table, once for each request for which ``needs_facts``
  is true. If ``reads_existing`` is set, both are also called for servers that are already built.
* ``limits(hosts, position)``, if defined, returns limits for a claim on the host (db.placement.claims.claim).

A class with the method ``host_passes`` for single hosts works too: see plugins.py.
"""
import collections.abc
import importlib
import types
import typing

from oslo_config import cfg

from nova import exception
from nova import objects
from nova.db.cells import cells as db_cells
from nova.runtime import entry_points
from nova.scheduler import host_view
from nova.scheduler.filters.base import CachedFilter
from nova.scheduler.filters.base import Facts
from nova.scheduler.filters.base import Filter
from nova.scheduler.filters.plugins import BaseHostFilter
from nova.scheduler.filters.plugins import PerHost

__all__ = ('ALL', 'BaseHostFilter', 'Filter', 'PerHost', 'CachedFilter', 'builtin_filters', 'facts', 'load')

# modules of this package with filters that options may name; their attribute FILTERS lists the classes
MODULES = ('builtin', 'capabilities', 'aggregates', 'busy', 'hints', 'query', 'trusted')
# values of scheduler_available_filters that mean all built-in filters
ALL = ('nova.scheduler.filters.all_filters', 'nova.scheduler.filters.standard_filters')
ENTRY_POINTS = 'nova.scheduler.filters'
# {name of a filter in other releases: name of its class}
_OTHER_NAMES = {'AggregateMultiTenancyIsolationFilter': 'AggregateMultiTenancyIsolation',
                'AggregateImagePropertiesIsolationFilter': 'AggregateImagePropertiesIsolation'}


def _module(name: str) -> types.ModuleType:
    return importlib.import_module(f'{__name__}.{name}')


def always() -> tuple[type[Filter], ...]:
    """Return the filters that no option can disable, in order."""
    bare_metal, builtin, capabilities, categories, groups, networks, numa, pci = (_module(name) for name in (
        'bare_metal', 'builtin', 'capabilities', 'categories', 'groups', 'networks', 'numa', 'pci'))
    return (builtin.CellFilter, builtin.RequestedHostFilter, builtin.RequestedAggregateFilter, builtin.MovedGuestFilter,
            builtin.RetryFilter, *groups.FILTERS, *categories.FILTERS,
            capabilities.TraitsFilter, bare_metal.MachineFilter, numa.NUMATopologyFilter, pci.PciPassthroughFilter,
            networks.NetworkResourcesFilter, networks.NetworkGuaranteesFilter)


def builtin_filters() -> dict[str, type[Filter]]:
    """Return {name: class} of the built-in filters."""
    classes = [*always(), *(cls for name in MODULES for cls in _module(name).FILTERS)]
    return {cls.__name__: cls for cls in classes}


def available(names: collections.abc.Iterable[str]) -> dict[str, type[typing.Any]]:
    """Return {name: class} of the entries of ``scheduler_available_filters``.

    An entry is a class path, a function that returns classes, an entry point, or a name in ALL for the built-in
    filters.
    :raises InvalidOption: an entry does not exist
    """
    found: dict[str, type[typing.Any]] = {}
    for name in names:
        if name in ALL:
            found |= builtin_filters()
            continue
        thing = _loaded('available_filters', name)
        classes = [thing] if isinstance(thing, type) else thing()
        found |= {cls.__name__: cls for cls in classes}
    return found


def _loaded(option: str, name: str) -> type[typing.Any] | collections.abc.Callable[
        [], collections.abc.Iterable[type[typing.Any]]]:
    """Load an entry: a class, or a function that returns classes."""
    return entry_points.named(option, name, ENTRY_POINTS, sorted(builtin_filters()))


def load(conf: cfg.ConfigOpts, names: collections.abc.Iterable[str]) -> list[Filter]:
    """Return filter objects for the names of ``enabled_filters``, after the filters that no option can disable.

    Each name is the name of an available class, an entry point, or package.module.Class.
    :raises InvalidOption: the filter does not exist; the text lists the available ones
    """
    known = available(conf.filter_scheduler.available_filters)
    points = entry_points.installed(ENTRY_POINTS)
    first = always()
    found = [cls(conf) for cls in first]
    for name in dict.fromkeys(_OTHER_NAMES.get(name, name) for name in names):
        if name in {cls.__name__ for cls in first}:
            continue
        if name in known:
            cls: collections.abc.Callable[..., typing.Any] = known[name]
        elif '.' in name or name in points:
            cls = _loaded('enabled_filters', name)
        else:
            raise exception.InvalidOption(f'enabled_filters: filter {name} does not exist; available are '
                                          f'{", ".join(sorted({*known, *points}))}.')
        found.append(_made(conf, cls))
    _needed(conf, found)
    return found


def _made(conf: cfg.ConfigOpts, cls: collections.abc.Callable[..., typing.Any]) -> Filter:
    is_filter = isinstance(cls, type) and issubclass(cls, Filter)
    if is_filter:
        made: Filter = cls(conf)
        return made
    if not callable(getattr(cls, 'host_passes', None)):
        raise exception.InvalidOption(f'enabled_filters: {cls} has no method host_passes.')
    return PerHost(conf, cls())


def _needed(conf: cfg.ConfigOpts, found: list[Filter]) -> None:
    """Add MetricsFilter if [metrics] required is set and the filter is not enabled."""
    busy = _module('busy')
    if conf.metrics.required and busy.weight_setting(conf) and not any(
            isinstance(each, busy.MetricsFilter) for each in found):
        found.append(busy.MetricsFilter(conf))


def facts(filters: collections.abc.Iterable[Filter], cells: db_cells.Cells,
          hosts: collections.abc.Callable[[], host_view.Hosts], spec: objects.RequestSpec,
          existing: bool = False) -> dict[str, Facts]:
    """Return {name of a filter: data that is not in the table}; make no query if no filter needs data.

    :param cells: db.cells.cells.Cells; the hosts of an unreachable cell are unavailable too
    :param hosts: returns the view
    :param existing: whether the server has been built
    :raises ServiceUnavailable: the default cell is unreachable
    """
    reading = [each for each in filters if each.needs_facts(spec) or existing and each.reads_existing]
    if not reading:
        return {}
    sets: dict[str, frozenset[typing.Any]] = {each.name: frozenset() for each in reading}
    of_cells = [each for each in reading if type(each).facts is not Filter.facts]

    def read(cell: db_cells.Cell) -> dict[str, frozenset[typing.Any]]:
        with cell.db.reader() as conn:
            return {each.name: each.facts(conn, spec) for each in of_cells}
    answers, down = cells.scatter(read) if of_cells else ([], [])
    if cells.default in down:
        raise exception.ServiceUnavailable(service='database')
    for _cell, here in answers:
        for name, part in here.items():
            sets[name] |= part
    return {**sets, **{each.name: each.external_facts(hosts(), spec) for each in reading
                       if type(each).external_facts is not Filter.external_facts}}
