"""The scheduler: chooses hosts from its table and claims them in the database.

``request_reader`` reads the data of a request, ``decision`` chooses hosts in a view, and ``claimer`` writes the choice
to the database. If a claim fails, ``placement`` chooses and claims again. ``batch`` handles many requests together.
"""
import collections.abc

from oslo_config import cfg

from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.rpc.interface import Methods
from nova.rpc.interface import named
from nova.scheduler import batch
from nova.scheduler import claimer
from nova.scheduler import cross_cell
from nova.scheduler import decision
from nova.scheduler import dry_run
from nova.scheduler import filters
from nova.scheduler import host_table
from nova.scheduler import moves
from nova.scheduler import new_servers
from nova.scheduler import pipeline
from nova.scheduler import placement
from nova.scheduler import request_reader
from nova.scheduler import weights
from nova.scheduler.interface import INTERFACE


class SchedulerManager:
    """The filter scheduler.

    methods    RPC methods
    table      table of hosts of this process
    rules      filters, weighers and tie-breaking
    requests   RequestReader: builds pipeline requests
    batches    BatchPlacer of new servers
    :param conf: the configuration
    :param api_db: Database of the API database
    :param cells: db.cells.cells.Cells
    """

    methods: Methods

    def __init__(self, conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> None:
        self._conf = conf
        options = conf.filter_scheduler
        self.rules = decision.Rules(
            filters=tuple(filters.load(conf, options.enabled_filters)), weighers=weights.load(conf),
            tie_break=pipeline.TieBreak(options.host_subset_size, options.shuffle_best_same_weighed_hosts))
        for each in self.rules.filters:
            each.start(cells)
        self.table = host_table.HostTable(cells, max(1, conf.service_down_time // 4))
        self.requests = request_reader.RequestReader(conf, api_db, cells, self.rules.filters, self.table)
        self._claimers = claimer.Claimers(cells, claimer.CellClaimer(cells, self.table),
                                          cross_cell.CrossCellClaimer(api_db, cells, self.table))
        claim_loop = placement.ClaimLoop(self.rules, self.table, cells)
        self.batches = batch.BatchPlacer(placement.ServerPlacer(claim_loop, self._claimers), self._claimers, self.table,
                                         self.rules)
        new = new_servers.NewServers(self.requests, self.batches, self._claimers)
        existing = moves.Moves(self.requests, claim_loop, cells, self.table, self.rules)
        self.methods = Methods(INTERFACE, named(
            new.select_destinations,
            existing.select_move, existing.select_unshelve, existing.check_host,
            dry_run.DryRun(self.requests, cells, self.table, self.rules).explain))

    def start(self) -> None:
        self.table.hosts()
        if self._claimers.several():
            self.table.synchronize()

    def stop(self) -> None:
        """Do nothing: the scheduler has no work outside of RPC calls."""

    def periodic_tasks(self) -> list[tuple[str, int, collections.abc.Callable[[], None]]]:
        return [('follow_hosts', max(1, self._conf.report_interval // 2), self.table.synchronize)]

    def in_progress(self) -> dict[str, int]:
        """Return counters for the diagnostics report of the process."""
        return {'nodes in the host table': self.table.size(), 'filters': len(self.rules.filters),
                'weighers': len(self.rules.weighers)}
