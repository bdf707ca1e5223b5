"""Databases and service clients that the modules of a conductor share."""
import collections.abc
import contextlib
import dataclasses
import logging
import typing

from oslo_config import cfg

from nova import context
from nova import exception
from nova import notify
from nova import utils
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.servers import instance_actions
from nova.db.services import services
from nova.image import api as image_api
from nova.share import api as share_api
from nova.volume import api as volume_api

LOG = logging.getLogger(__name__)

Connection = engine.Connection
Context = context.RequestContext
Row = collections.abc.Mapping[str, typing.Any]              # row of a table: {column: value}
RpcClient = typing.Any                   # rpc.bus.Client: it has a method for each row of an interface


def _no_versions() -> dict[str, int]:
    return {}


@dataclasses.dataclass(frozen=True)
class CellServices:
    """Databases and clients of a conductor.

    conf             the configuration
    api_db           the API database
    cells            all cells; the default cell is that of the conductor
    scheduler, compute, network    RPC clients; those of compute and network reach only the conductor's cell
    images           image service
    volumes          block storage
    shares           shared file systems
    notifier         sends notifications
    lowest_versions  function that returns {topic: lowest VERSION of its services that are up}
    """

    conf: cfg.ConfigOpts
    api_db: engine.Database
    cells: db_cells.Cells
    scheduler: RpcClient
    compute: RpcClient
    network: RpcClient
    images: image_api.Images
    volumes: volume_api.BlockStorage = dataclasses.field(default_factory=volume_api.NoVolumes)
    shares: share_api.Shares = dataclasses.field(default_factory=share_api.NoShares)
    notifier: notify.Notifier | notify.NoNotifier = notify.OFF
    lowest_versions: collections.abc.Callable[[], dict[str, int]] = _no_versions

    @property
    def cell(self) -> db_cells.Cell:
        """The conductor's own cell."""
        return self.cells.default

    @property
    def cell_db(self) -> engine.Database:
        """The database of the conductor's own cell."""
        return self.cells.default.db

    def host_is_up(self, host: str | None, conn: Connection | None = None) -> bool:
        """Return whether the compute service of a host is up; False for None.

        :param conn: connection to the cell's database; None: use a new transaction
        """
        if host is None:
            return False
        if conn is None:
            with self.cell_db.reader() as conn:
                return self.host_is_up(host, conn)
        found = services.list(conn, host=host, topic='compute')
        return services.any_up(conn, found, self.conf.service_down_time)

    @contextlib.contextmanager
    def retrying(self, uuid: str) -> collections.abc.Iterator[None]:
        """Let a reconciler soon repeat a message about a server if no service answers in the block."""
        try:
            yield
        except exception.Unavailable as error:
            self.retry_soon(error, uuid)

    def retry_soon(self, error: exception.NovaException, *uuids: str) -> None:
        """Mark the actions of these servers as overdue after a service did not answer; a reconciler continues them.

        All cells are updated: the scheduler may have moved the servers to another cell, although its answer was lost.
        """
        LOG.warning('%d servers wait for a retry, first %s: %s', len(uuids), uuids[0], error)
        now = utils.utcnow()
        self.cells.scatter(lambda cell: cell.db.run(instance_actions.expedite, now, uuids))
