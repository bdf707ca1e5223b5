"""Build pipeline requests with all data that the decision needs, because the decision does no I/O."""
import collections.abc
import dataclasses

from oslo_config import cfg

from nova import objects
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import categories
from nova.db.placement import claims
from nova.db.tables.rows import InstancesRow
from nova.scheduler import filters
from nova.scheduler import groups
from nova.scheduler import host_table
from nova.scheduler import node_claims
from nova.scheduler.placement_request import Group
from nova.scheduler.placement_request import Limits
from nova.scheduler.placement_request import Request
from nova.scheduler.filters import base
from nova.scheduler.resources import numa_request


class RequestReader:
    """Builds pipeline requests from request specs.

    :param using: filters; their ``facts`` are read
    """

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells,
                 using: collections.abc.Sequence[base.Filter], table: host_table.HostTable) -> None:
        self._conf, self._api_db, self._cells, self._filters, self._table = conf, api_db, cells, using, table
        self._limits = tuple(each for each in using if isinstance(each, Limits))

    def of_new(self, spec: objects.RequestSpec, moving: str | None = None) -> Request:
        """Return the request of a new server.

        :param moving: uuid of the server if it may already have a host; it does not count as a member of its group
        """
        forced = self._is_forced(spec)
        flavor, special = spec.flavor, node_claims.special_of(self._conf, spec)
        resources = claims.resources({
            'flavor': flavor, 'image_id': (spec.image or {}).get('id'), 'vcpus': flavor['vcpus'],
            'memory_mb': flavor['memory_mb'], 'root_gb': flavor['root_gb'], 'ephemeral_gb': flavor['ephemeral_gb']})
        return self._with_facts(Request(
            resources=numa_request.without_pinned(resources, special), zone=self._zone(spec),
            host=spec.force_host or spec.requested_host, node=spec.force_node or spec.requested_node, forced=forced,
            failed_nodes=tuple((host, node) for host, node in spec.retry_hosts or ()),
            group=None if forced else self._group(spec, moving), spec=spec, limiting=self._limiting(spec, forced),
            special=special, requirements=categories.requirements(self._api_db, spec.category_name),
            disabled_cells=self._disabled_cells()), self._filters)

    def of_existing(self, cell: db_cells.Cell, spec: objects.RequestSpec, row: InstancesRow, *,
                    ignore: collections.abc.Sequence[str] = (), target: str | None = None,
                    force: bool = False) -> Request:
        """Return the request of an existing server, without the hosts that its build requested or failed on.

        :param cell: cell in which the server must stay
        :param row: the server's row, with the resources of the flavor after the move
        :param ignore: names of excluded hosts
        :param target: name of the requested host
        :param force: skip the filters and check only capacity
        """
        special = node_claims.special_of(self._conf, spec)
        category = row['category'] or spec.category_name
        return self._with_facts(Request(
            resources=numa_request.without_pinned(claims.resources(row, with_pinned=True), special),
            zone=None if force else spec.availability_zone, host=target, forced=force, ignored=tuple(ignore),
            group=None if force else self._group(spec, spec.instance_uuid), spec=spec,
            limiting=self._limiting(spec, force), special=special,
            requirements=categories.requirements(self._api_db, category), cell=cell.uuid), self._filters)

    def of_rebuild(self, cell: db_cells.Cell, spec: objects.RequestSpec, host: str, node: str) -> Request:
        """Return the request of a rebuild: the server keeps its node and resources and gets another image.

        The request suits filters with ``run_on_rebuild`` only.
        """
        return self._with_facts(
            Request(resources=dict.fromkeys(claims.RESOURCES, 0), zone=self._zone(spec), host=host, node=node,
                    spec=spec, cell=cell.uuid),
            [each for each in self._filters if each.run_on_rebuild])

    def _with_facts(self, request: Request, using: collections.abc.Sequence[base.Filter]) -> Request:
        """Return the request with the facts that these filters need. Filters that skip the request need none."""
        assert request.spec is not None
        return dataclasses.replace(request, facts=filters.facts(
            [each for each in using if each.applies(request)], self._cells, self._table.hosts, request.spec,
            request.cell is not None))

    @staticmethod
    def _is_forced(spec: objects.RequestSpec) -> bool:
        return spec.force_host is not None or spec.force_node is not None

    def _zone(self, spec: objects.RequestSpec) -> str | None:
        """Return the zone of a new server."""
        return None if self._is_forced(spec) else spec.availability_zone or self._conf.default_schedule_zone

    def _limiting(self, spec: objects.RequestSpec, forced: bool) -> tuple[Limits, ...]:
        return tuple(each for each in self._limits if (each.checks_capacity or not forced) and each.has_limits(spec))

    def _disabled_cells(self) -> tuple[str, ...]:
        """Return the uuids of the disabled cells, in which no new servers are placed."""
        return tuple(cell.uuid for cell in self._cells.all() if cell.disabled)

    def _group(self, spec: objects.RequestSpec, moving: str | None = None) -> Group | None:
        """Return the server group that the hint ``group`` names, or None without this hint.

        :param moving: uuid of the server if it already exists; it does not count as a member
        """
        named = (spec.hints or {}).get('group')
        return groups.find(self._api_db, self._cells, named[0], spec.project_id, moving) if named else None
