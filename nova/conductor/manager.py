"""Conductor manager: creates the objects of the conductor and maps RPC methods to their functions."""
import collections.abc
import typing

from nova.conductor import authority
from nova.conductor import events
from nova.conductor import interface
from nova.conductor.cell_services import CellServices
from nova.conductor.hosts import counters
from nova.conductor.hosts import enrolment
from nova.conductor.hosts import heartbeats
from nova.conductor.hosts import guest_reports
from nova.conductor.hosts import inventory
from nova.conductor.hosts import power_states
from nova.conductor.hosts import registration
from nova.conductor.hosts import usage_audit
from nova.conductor.moves import cold
from nova.conductor.moves import evacuation
from nova.conductor.moves import live
from nova.conductor.moves import maintenance
from nova.conductor.servers import builds
from nova.conductor.servers import deletion
from nova.conductor.servers import disk_keys
from nova.conductor.servers import image_grants
from nova.conductor.servers import rebuilds
from nova.conductor.servers import shares
from nova.conductor.servers import shelving
from nova.conductor.servers import specs
from nova.conductor.servers import tasks
from nova.conductor.servers import volumes
from nova.conductor.upkeep import audit_log
from nova.conductor.upkeep import deferred
from nova.conductor.upkeep import expiry
from nova.conductor.upkeep import lost_mappings
from nova.conductor.upkeep import reconciler
from nova.conductor.upkeep import synchronization
from nova.conductor.upkeep import usage_checks
from nova.db import online_migrations
from nova.rpc import admission
from nova.rpc import serializer
from nova.rpc.interface import Methods
from nova.rpc.interface import named

PeriodicTask = tuple[str, float, collections.abc.Callable[[], typing.Any]]     # (name, spacing in seconds, function)


class ConductorManager:
    """The objects that implement the RPC methods of the conductor, as attributes.

    methods  {RPC method of interface.py: function}

    :raises TypeError: the table does not fit the interface
    """

    methods: Methods

    def __init__(self, services: CellServices) -> None:
        self.services = services
        self.specs = specs.RequestSpecs(services)
        self.events = events.Events(services)

        # ---- servers
        self.grants = image_grants.ImageGrants(services)
        self.rebuilds = rebuilds.Rebuilds(services, self.specs, self.grants)
        self.tasks = tasks.Tasks(services, self.events, self.grants, self.rebuilds)
        self.disk_keys = disk_keys.DiskKeys(services)
        self.volumes = volumes.Volumes(services, self.grants, self.disk_keys)
        self.shares = shares.Shares(services)
        self.builds = builds.Builds(services, self.events, self.specs, self.volumes)
        self.shelving = shelving.Shelving(services, self.events, self.specs, self.tasks, self.volumes)

        # ---- moves
        self.moves = cold.ColdMoves(services, self.events, self.specs)
        self.live = live.LiveMigrations(services, self.events, self.specs, self.tasks, self.volumes, self.grants)
        self.evacuations = evacuation.Evacuations(services, self.events, self.specs)
        self.maintenance = maintenance.Maintenance(services, self.moves, self.live)
        self.deletion = deletion.Deletion(services, self.events, self.volumes, self.shares, self.grants, self.moves,
                                          self.disk_keys)

        # ---- upkeep
        self.claim_check = usage_checks.ClaimCheck(services)
        self.quota_check = usage_checks.QuotaCheck(services)
        self.reconciler = reconciler.Reconciler(
            services, sizes=self.quota_check, specs=self.specs, tasks=self.tasks, builds=self.builds,
            deletion=self.deletion, volumes=self.volumes, shelving=self.shelving, moves=self.moves, live=self.live,
            evacuations=self.evacuations)
        self.lost_mappings = lost_mappings.LostMappings(services, self.volumes)
        self.synchronization = synchronization.Synchronization(services)
        self.deferred = deferred.DeferredActions(services, self.deletion)
        self.audit_log = audit_log.AuditLog(services)
        self.expiry = expiry.Expiry(services)
        self.data_migrations = online_migrations.Background(services.api_db, services.cells)

        # ---- hosts
        self.heartbeats = heartbeats.Heartbeats(services.cell_db, services.conf, self.reconciler.messages_lost)
        self.power_states = power_states.PowerStates(services.cell_db)
        self.registration = registration.Registration(services, self.heartbeats)
        self.inventory = inventory.Inventory(services)
        self.guest_reports = guest_reports.GuestReports(services)
        self.usage_audit = usage_audit.UsageAudit(services)
        self.counters = counters.CounterReports(services)
        self.enrolment = enrolment.Enrolment(services)

        self.methods = self._methods()

    def _methods(self) -> Methods:
        builds, deletion, shelving, rebuilds = self.builds, self.deletion, self.shelving, self.rebuilds
        tasks, volumes, shares, inventory = self.tasks, self.volumes, self.shares, self.inventory
        live, evacuations, moves, registration = self.live, self.evacuations, self.moves, self.registration
        return Methods(interface.INTERFACE, named(
            # ---- servers: builds, deletion, tasks
            builds.build_instances, builds.reschedule_instance, deletion.delete_instance, deletion.instance_destroyed,
            shelving.unshelve_instance, shelving.instance_offloaded, rebuilds.check_rebuild,
            tasks.update_instance, tasks.begin_task, tasks.end_task, tasks.begin_background, tasks.end_background,
            tasks.background_on_host, tasks.release_port_device,
            self.specs.get_request_spec, self.disk_keys.get_disk_key, self.disk_keys.get_volume_key,
            # ---- moves
            live.continue_live_migration, live.check_and_live_migrate, live.prepare_live_migration,
            live.report_live_migration, live.live_migration_arrived, live.live_migration_finished,
            live.live_migration_failed, live.resume_live_migration,
            evacuations.continue_evacuation, evacuations.evacuation_finished, evacuations.evacuation_failed,
            evacuations.list_evacuated, evacuations.evacuated_guest_removed,
            moves.continue_move, moves.continue_moves, moves.move_accepted, moves.move_refused, moves.move_sent,
            moves.move_finished, moves.move_confirmed, moves.reverted_guest_removed, moves.move_reverted,
            moves.move_failed,
            # ---- volumes and shares of servers
            volumes.prepare_volumes, volumes.complete_volumes, volumes.disconnect_volumes, volumes.connect_volume,
            volumes.get_volume_device, volumes.volume_attached, volumes.volume_detached, volumes.volume_detach_failed,
            volumes.refresh_volume, volumes.connect_new_volume, volumes.volume_swapped, volumes.volume_swap_failed,
            volumes.volume_file_changed, volumes.volume_snapshot_status, volumes.reimage_root,
            volumes.snapshot_volumes,
            shares.allow_share, shares.share_attached, shares.share_detached,
            # ---- hosts
            inventory.get_block_devices, inventory.instances_on_host, inventory.server_states,
            self.guest_reports.report_guests,
            inventory.image_cached, inventory.report_nodes, self.power_states.report_power_states,
            self.counters.report_counters,
            registration.report_service, registration.register_service, registration.heartbeat,
            registration.report_availability,
            self.enrolment.enroll_host, self.usage_audit.audit_instance_usage, self.events.notify,
            serializer.object_backport))

    def admission(self) -> admission.Admission:
        """Return the access checks for messages of compute hosts."""
        return authority.admission_of(self.services)

    # ---- lifecycle: see nova.runtime.service

    def start(self) -> None:
        self.messages_lost()

    def stop(self) -> None:
        self.heartbeats.flush()
        self.services.notifier.stop()

    def messages_lost(self) -> None:
        self.reconciler.messages_lost()

    def take_over(self) -> None:
        """Continue the work of the previous process immediately; only for a deployment with a single process.

        Call it before the first request: it removes all mappings without an instance row, also those of new servers.
        """
        self.lost_mappings.remove_lost_mappings(0)
        self.reconciler.take_over()

    def in_progress(self) -> dict[str, int]:
        """Return figures for the Guru Meditation Report of the process: {text: number}."""
        return {'usage differences that the audit has corrected': self.claim_check.drift}

    def periodic_tasks(self) -> list[PeriodicTask]:
        conf = self.services.conf.conductor
        return [('reconcile', conf.reconcile_interval, self.reconciler.reconcile),
                ('audit_usage', conf.audit_interval, self.claim_check.audit),
                ('settle_cell_moves', conf.reconcile_interval, self.reconciler.settle_cell_moves),
                ('settle_volumes', conf.reconcile_interval, self.volumes.settle_volumes),
                ('remove_lost_mappings', 600, self.lost_mappings.remove_lost_mappings),
                ('remove_new_lost_mappings', 60, self.lost_mappings.remove_new_lost_mappings),
                ('confirm_old_moves', 60, self.moves.confirm_old_moves),
                ('count_sizes', usage_checks.MIN_MISCOUNT_AGE_S, self.quota_check.count_sizes),
                ('migrate_data', online_migrations.BACKGROUND_S, self.data_migrations.run),
                ('follow_zones', conf.reconcile_interval, self.synchronization.follow_zones),
                ('forget_groups', conf.reconcile_interval, self.synchronization.forget_groups),
                ('maintain_hosts', maintenance.PERIOD_S, self.maintenance.maintain_hosts),
                ('resend_image_caching', conf.reconcile_interval, self.synchronization.resend_image_caching),
                ('seal_audit_log', audit_log.SEAL_S, self.audit_log.seal_audit_log),
                ('expire_audit_log', 3600, self.audit_log.expire_audit_log),
                ('expire_history', 3600, self.expiry.expire_history),
                ('expire_old_actions', 600, self.expiry.expire_old_actions),
                ('offload_shelved', 60, self.deferred.offload_shelved),
                ('reclaim_deleted', 60, self.deferred.reclaim_deleted),
                ('count_soft_deleted', 600, self.quota_check.count_soft_deleted),
                ('expire_counters', 3600, self.counters.expire_counters),
                ('expire_console_tokens', 600, self.expiry.expire_console_tokens),
                ('expire_idempotency_keys', 600, self.expiry.expire_idempotency_keys)]
