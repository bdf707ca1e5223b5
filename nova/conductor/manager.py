"""The conductor: a table of contents. Building in build.py, writes in state.py, lost work in reconcile.py."""
import collections
import datetime

from nova import notify
from nova import utils
from nova.compute import interface as compute_interface
from nova.conductor import audit_log
from nova.conductor import build
from nova.conductor import deferred
from nova.conductor import enrolment
from nova.conductor import evacuate
from nova.conductor import follow
from nova.conductor import heartbeats
from nova.conductor import image_grants
from nova.conductor import live_migrate
from nova.conductor import maintenance
from nova.conductor import migrate
from nova.conductor import move_watch
from nova.conductor import notices
from nova.conductor import power_states
from nova.conductor import rebuild
from nova.conductor import reconcile
from nova.conductor import shares
from nova.conductor import shelve
from nova.conductor import state
from nova.conductor import together
from nova.conductor import upgrade
from nova.conductor import usage
from nova.conductor import volumes
from nova.db import online_migrations
from nova.db.moves import live_migrations
from nova.db.servers import instance_actions
from nova.share import api as share_api
from nova.volume import api as volume_api

TAKE_UP_S = 15


class ConductorManager(deferred.Deferred, shelve.Shelver, state.StateWriter, build.Builder, reconcile.Reconciler,
                       follow.Follower, migrate.Migrator, move_watch.MoveWatch, rebuild.Rebuilder,
                       volumes.Volumes, shares.Shares, notices.Notices,
                       usage.UsageAudit, live_migrate.LiveMigrator, evacuate.Evacuator, maintenance.Maintainer,
                       upgrade.Upgrader, audit_log.AuditLog, image_grants.Granter, enrolment.Enroller):
    """
    :param conf: the configuration
    :param api_db: Database of the API database
    :param cells: db.cells.Cells
    :param scheduler_client, compute_client, network_client: RPC clients
    :param images: nova.image.api.Images
    :param block_storage: nova.volume.api.Volumes; None: there are no volumes
    """

    _compute_interface = compute_interface.INTERFACE
    notifier = notify.OFF          # see tell_with

    def __init__(self, conf, api_db, cells, scheduler_client, compute_client, network_client, images,
                 block_storage=None):
        self._conf, self._api_db, self._cells, self._cell_db = conf, api_db, cells, cells.default.db
        self._scheduler, self._compute, self._network = scheduler_client, compute_client, network_client
        self._images = images
        self._volumes = block_storage or volume_api.NoVolumes()
        self._doubtful = collections.deque()
        self._shares = share_api.NoShares()
        self._heartbeats = heartbeats.Heartbeats(self._cell_db, conf, self.messages_lost)
        self._power_states = power_states.PowerStates(self._cell_db)
        self._together = together.Together(self._cell_db)
        self._data_migrations = online_migrations.Background(api_db, cells)
        self._audit_seals, self._audit_told = {}, {}       # {name of a database: newest seal; when it was told}
        self.drift = 0           # differences that the audit has mended: should stay 0

    def start(self):
        """What waits for a conductor may have waited for one that died, or was given to it: it is looked after soon.

        Not at once, because after a restart of everything the hosts need a moment to report.
        """
        self.messages_lost()

    def messages_lost(self):
        """So it is after queues had to be declared anew: what was in them, and in the queues of hosts, nobody has
        begun. And after a database was away, or nobody could report: what was written in the first moment of that
        nobody was told of.
        """
        soon = utils.utcnow() + datetime.timedelta(seconds=TAKE_UP_S)
        self._cell_db.run(instance_actions.hasten, soon, untaken=True)
        self._cell_db.run(live_migrations.hasten, soon)
        self.doubt_sizes()

    def stop(self):
        self._heartbeats.flush()
        self.notifier.stop()

    def in_progress(self):
        """For a report about the process."""
        return {'differences that the audit has mended': self.drift}

    def periodic_tasks(self):
        conf = self._conf.conductor
        return [('reconcile', conf.reconcile_interval, self.reconcile),
                ('audit_usage', conf.audit_interval, self.audit),
                ('settle_cell_moves', conf.reconcile_interval, self.settle_cell_moves),
                ('settle_volumes', conf.reconcile_interval, self.settle_volumes),
                ('remove_lost_mappings', 600, self.remove_lost_mappings),
                ('remove_new_lost_mappings', 60, self.remove_new_lost_mappings),
                ('confirm_old_moves', 60, self.confirm_old_moves),
                ('count_sizes', move_watch.MISCOUNTED_S, self.count_sizes),
                ('migrate_data', online_migrations.BACKGROUND_S, self.migrate_data),
                ('follow_zones', conf.reconcile_interval, self.follow_zones),
                ('forget_groups', conf.reconcile_interval, self.forget_groups),
                ('maintain_hosts', maintenance.PERIOD_S, self.maintain_hosts),
                ('resend_image_caching', conf.reconcile_interval, self.resend_image_caching),
                ('seal_audit_log', audit_log.SEAL_S, self.seal_audit_log),
                ('expire_audit_log', 3600, self.expire_audit_log),
                ('expire_history', 3600, self.expire_history),
                ('offload_shelved', 60, self.offload_shelved),
                ('reclaim_deleted', 60, self.reclaim_deleted),
                ('count_soft_deleted', 600, self.count_soft_deleted),
                ('expire_console_tokens', 600, self.expire_console_tokens),
                ('expire_idempotency_keys', 600, self.expire_idempotency_keys)]
