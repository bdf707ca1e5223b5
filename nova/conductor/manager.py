"""The conductor: a table of contents. Building in build.py, writes in state.py, lost work in reconcile.py."""
import datetime

from nova import utils
from nova.compute import interface as compute_interface
from nova.conductor import build
from nova.conductor import reconcile
from nova.conductor import state
from nova.db import instance_actions

TAKE_UP_S = 15


class ConductorManager(state.StateWriter, build.Builder, reconcile.Reconciler):
    """
    :param conf: the configuration
    :param api_db: Database of the API database
    :param cells: db.cells.Cells
    :param scheduler_client, compute_client, network_client: RPC clients
    :param images: nova.image.api.BoundImages
    """

    _compute_interface = compute_interface.INTERFACE

    def __init__(self, conf, api_db, cells, scheduler_client, compute_client, network_client, images):
        self._conf, self._api_db, self._cell_db = conf, api_db, cells.default.db
        self._scheduler, self._compute, self._network = scheduler_client, compute_client, network_client
        self._images = images
        self.drift = 0           # differences that the audit has mended: should stay 0

    def start(self):
        """What waits for a conductor may have waited for one that died: it is looked after soon.

        Not at once, because after a restart of everything the hosts need a moment to report.
        """
        soon = utils.utcnow() + datetime.timedelta(seconds=TAKE_UP_S)
        self._cell_db.run(instance_actions.hasten, soon)

    def stop(self):
        pass

    def periodic_tasks(self):
        conf = self._conf.conductor
        return [('reconcile', conf.reconcile_interval, self.reconcile),
                ('audit_usage', conf.audit_interval, self.audit),
                ('remove_lost_mappings', 600, self.remove_lost_mappings),
                ('expire_history', 3600, self.expire_history)]
