"""Requests for the pipeline, with all facts that the decision goes by: read first, decided upon later."""
import collections.abc
import dataclasses
import typing

from oslo_config import cfg

from nova import objects
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import categories
from nova.db.placement import claims
from nova.scheduler import filters
from nova.scheduler import groups
from nova.scheduler import hosts as host_table
from nova.scheduler import node_claims
from nova.scheduler import pipeline
from nova.scheduler.filters import base
from nova.scheduler.resources import numa_request


class RequestReader:
    """
    :param using: the filters, whose facts are read
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells,
                 using: collections.abc.Sequence[base.Filter], table: host_table.HostTable) -> None:
        self._conf, self._api_db, self._cells, self._filters, self._table = conf, api_db, cells, using, table

    def of_new(self, spec: objects.RequestSpec) -> pipeline.Request:
        """Of a server that has no place yet."""
        return self._read(spec, spec.category_name, None)

    def of_existing(self, cell: db_cells.Cell, spec: objects.RequestSpec, row: typing.Mapping[str, typing.Any], *,
                    ignore: collections.abc.Sequence[str] = (), target: str | None = None,
                    force: bool = False) -> pipeline.Request:
        """Of a server that has, or had, a place; where its build was wanted, or failed, does not count any more.

        :param cell: the server's, in which it stays
        :param row: the server's, with the sizes of the flavor that it is to have
        :param ignore: names of hosts that are out of the question
        :param target: name of the one host that is requested
        :param force: filters are not consulted, room is
        """
        request = self._read(spec, row['category'] or spec.category_name, cell)
        resources = numa_request.without_pinned(claims.resources({**row, 'numa_topology': None}), request.special)
        return dataclasses.replace(
            request, resources=resources, host=target, node=None, forced=force, tried=(),
            zone=None if force else spec.availability_zone, ignored=tuple(ignore),
            group=None if force else self._group(spec, spec.instance_uuid))

    def of_rebuild(self, cell: db_cells.Cell, spec: objects.RequestSpec, host: str, node: str) -> pipeline.Request:
        """Of a server that stays on its node, where it has its room already, with another image."""
        request = self._read(spec, spec.category_name, cell)
        return dataclasses.replace(request, resources=dict.fromkeys(claims.RESOURCES, 0), host=host, node=node,
                                   forced=False, tried=(), group=None, special=())

    def _read(self, spec: objects.RequestSpec, category: str | None, cell: db_cells.Cell | None) -> pipeline.Request:
        forced = spec.force_host is not None or spec.force_node is not None
        image_id = (spec.image or {}).get('id')
        flavor = spec.flavor
        special = node_claims.special_of(self._conf, spec)
        resources = numa_request.without_pinned(
            claims.resources({**flavor, 'flavor': flavor, 'image_id': image_id}), special)
        return pipeline.Request(
            resources=resources, zone=None if forced else spec.availability_zone or self._conf.default_schedule_zone,
            host=spec.force_host or spec.requested_host, node=spec.force_node or spec.requested_node,
            forced=forced, tried=tuple((host, node) for host, node in spec.retry_hosts or ()), spec=spec,
            facts=filters.facts(self._filters, self._cells, self._table.hosts, spec),
            limiting=self._limiting(spec, forced), special=special, cell=cell.uuid if cell else None,
            closed=() if cell else self._closed(),
            requirements=categories.requirements(self._api_db, category),
            group=None if forced else self._group(spec))

    def _limiting(self, spec: objects.RequestSpec, forced: bool) -> tuple[base.Filter, ...]:
        return tuple(each for each in self._filters
                     if hasattr(each, 'limits') and (each.room or not forced) and each.bounds(spec))

    def _closed(self) -> tuple[str, ...]:
        """Uuids of the cells that get no new servers, in order."""
        return tuple(cell.uuid for cell in self._cells.all() if cell.disabled)

    def _group(self, spec: objects.RequestSpec, moving: str | None = None) -> groups.Group | None:
        """The group that the hints name, None without one or when it is gone.

        :param moving: uuid of the server when it has a place already
        """
        named = (spec.hints or {}).get('group')
        return groups.find(self._api_db, self._cells, named[0], spec.project_id, moving) if named else None
