"""Compute service: the table of RPC methods, start-up and shutdown."""
import logging
import os
import typing

from oslo_config import cfg

from nova import context
from nova import exception
from nova.compute import availability
from nova.compute import background_actions
from nova.compute import build
from nova.compute import counters
from nova.compute import deletion
from nova.compute import differences
from nova.compute import disk_clients
from nova.compute import external_events
from nova.compute import guest_operations
from nova.compute import images as compute_images
from nova.compute import interface
from nova.compute import inventory
from nova.compute import notifications
from nova.compute import orphans
from nova.compute import power
from nova.compute import power_states
from nova.compute import queue
from nova.compute import records
from nova.compute import recovery
from nova.compute import rescue
from nova.compute import shelve
from nova.compute import volumes as compute_volumes
from nova.compute.host import Host
from nova.compute.moves import live_migration
from nova.compute.moves import rebuild
from nova.compute.moves import resize
from nova.compute.ports import interfaces
from nova.compute.ports import lost as lost_ports
from nova.image import granted
from nova.objects.counters import SAMPLE_S
from nova.rpc import retrying_client
from nova.rpc.interface import Methods
from nova.rpc.interface import named
from nova.runtime import concurrency
from nova.runtime import host_identity
from nova.runtime import service
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

AUDIT_USAGE_S = 300          # seconds between two checks whether an audit period has ended
RECHECK_INTERVAL_S = 15            # seconds between two checks while a guest differs from its row
CONDUCTOR_PAUSE_S = 2        # seconds between two attempts to reach a conductor at start-up


class ComputeManager:
    """The compute service of one host.

    methods   {RPC method of interface.py: function}
    host      nova.compute.host.Host; ``driver`` and ``queue`` are those of ``host``
    inventory, power_states, recovery   objects with periodic tasks

    :param conf: the configuration
    :param name: name of this compute host
    :param conductor_client, network_client: RPC clients
    :param network_server: host of the network service to use; None: any
    :raises InvalidOption: an option is invalid
    """

    methods: Methods

    def __init__(self, conf: cfg.ConfigOpts, name: str, driver: virt.ComputeDriver, conductor_client: object,
                 network_client: object, images: granted.GrantedImages, network_server: str | None = None) -> None:
        conductor = retrying_client.RetryingClient(conductor_client, 'conductor')
        self.host = host = Host(
            conf=conf, name=name, driver=driver, conductor=conductor, moves=conductor, volumes=conductor,
            network=retrying_client.RetryingClient(network_client, 'network', network_server), images=images,
            queue=queue.TaskQueue(conf.max_concurrent_builds, conf.max_concurrent_tasks,
                                  conf.max_concurrent_live_migrations),
            records=records.Records(os.path.join(host_identity.state_path(conf), records.DIRECTORY), name))
        self.driver, self.queue = host.driver, host.queue
        driver.use_keys(
            lambda uuid: host.volumes.get_disk_key(context.admin_context(), instance_uuid=uuid),
            lambda uuid, volume: host.volumes.get_volume_key(context.admin_context(), instance_uuid=uuid,
                                                             volume_id=volume))
        if conf.image.certificate_backend == 'barbican':
            from nova.volume import barbican                 # imported here, because other hosts do not need it
            driver.use_certificates(barbican.Barbican(conf).certificate)

        self._disk_clients = disk_clients.DiskClients(host)
        driver.watch_disk_clients(self._disk_clients.record)
        notifier = notifications.Notifier(host)
        orphans_of_host = orphans.Orphans(host)
        volumes = compute_volumes.Volumes(host)
        reporter = differences.Reporter(host, volumes)
        volume_snapshots = compute_volumes.VolumeSnapshots(host)
        shares = compute_volumes.Shares(host)
        ports = interfaces.Interfaces(host)
        power_operations = power.Power(host)
        guests = guest_operations.GuestOperations(host)
        snapshots = compute_images.Snapshots(host, volume_snapshots=volume_snapshots)
        image_cache = compute_images.ImageCache(host)
        rescues = rescue.Rescue(host)
        shelving = shelve.Shelve(host, volumes=volumes)
        rebuilds = rebuild.Rebuild(host, volumes=volumes)
        migration = live_migration.LiveMigration(host, volumes=volumes, notifier=notifier, orphans=orphans_of_host,
                                                 max_outgoing=conf.max_concurrent_live_migrations)
        deletions = deletion.Deletion(host, live_migration=migration)
        events = external_events.ExternalEvents(host)
        self._lost_ports = lost_ports.LostPorts(host, events.settle_ports, lambda: reporter.is_waiting)
        self.inventory = inventory.Inventory(host)
        self.availability = availability.Availability(host)
        self.counters = counters.Reporter(host)
        self.power_states = power_states.PowerStates(host, orphans=orphans_of_host, reporter=reporter)
        self._evacuation = rebuild.Evacuation(host, volumes=volumes, clients=self._disk_clients)
        self._resize = resize.Resize(host, volumes=volumes, orphans=orphans_of_host)
        builder = build.Builder(host, volumes=volumes, inventory=self.inventory)

        methods = named(
            builder.build_instance,
            deletions.terminate_instance, deletions.soft_delete_instance, deletions.restore_instance,
            power_operations.start_instance, power_operations.stop_instance, power_operations.reboot_instance,
            power_operations.pause_instance, power_operations.unpause_instance, power_operations.suspend_instance,
            power_operations.resume_instance,
            rebuilds.rebuild_instance, rescues.rescue_instance, rescues.unrescue_instance,
            snapshots.snapshot_instance, snapshots.backup_instance,
            shelving.shelve_instance, shelving.shelve_offload_instance, shelving.unshelve_instance,
            ports.attach_interface, ports.detach_interface, ports.add_fixed_ip, ports.remove_fixed_ip,
            volumes.attach_volume, volumes.detach_volume, volumes.swap_volume,
            volume_snapshots.create_volume_snapshot, volume_snapshots.delete_volume_snapshot, shares.attach_share,
            shares.detach_share,
            guests.set_admin_password, guests.trigger_crash_dump, guests.inject_network_info, guests.get_diagnostics,
            guests.get_console, guests.get_console_output, guests.get_console_screenshot,
            self._resize.prep_resize, self._resize.resize_instance, self._resize.finish_resize,
            self._resize.confirm_resize, self._resize.revert_resize, self._resize.finish_revert_resize,
            self._resize.grow_instance, self._resize.discard_migrated_instance,
            migration.check_live_migration_destination, migration.check_live_migration_source,
            migration.pre_live_migration, migration.live_migrate_instance, migration.finish_live_migration,
            migration.rollback_live_migration, migration.abort_live_migration,
            migration.force_complete_live_migration, migration.resume_live_migration, migration.has_guest,
            self._evacuation.evacuate_instance, self._evacuation.remove_evacuated_guests,
            events.external_instance_event,
            self.host_power_action, self.set_host_maintenance,
            image_cache.cache_images,
            self.ping)
        restarts = methods | named(snapshots.abandon_snapshot, ports.abandon_interface, ports.abandon_fixed_ip,
                                   guests.abandon_crash_dump)
        self._background = background_actions.BackgroundActions(host, restarts)
        self.methods = Methods(interface.INTERFACE, methods | named(self._background.resume_background))
        self.recovery = recovery.Recovery(
            host, methods=restarts, builder=builder,
            power=power_operations, power_states=self.power_states, orphans=orphans_of_host,
            reporter=reporter)

    # ---- lifecycle

    def start(self) -> None:
        """Report the resources and continue interrupted tasks, before the first RPC message is received."""
        stopping = self.host.stopping
        self.driver.init_host()
        self.host.records.check_name(self.host.name, self.driver.guests())
        while not stopping.is_set():
            try:
                self.inventory.report()
                break
            except exception.Unavailable as error:
                LOG.warning('Waiting for a conductor: %s', error.message)
                stopping.wait(CONDUCTOR_PAUSE_S)
        self._report_alive()
        self.availability.start()
        self.power_states.start()
        self.recovery.recover()
        self._resize.recover()
        self._background.recover()
        self._evacuation.clean_up()
        self._disk_clients.complete()
        self._lost_ports.start()

    def stop(self) -> None:
        """Finish running tasks within graceful_shutdown_timeout seconds; guests continue."""
        self.host.stopping.set()
        if not self.queue.stop(self.host.conf.graceful_shutdown_timeout):
            LOG.warning('Some tasks are still running; they are resumed at the next start.')
        self.power_states.stop()
        self.driver.stop()

    def periodic_tasks(self) -> list[tuple[str, float, typing.Callable[[], typing.Any]]]:
        """Return [(name, seconds between two runs, function)]."""
        conf = self.host.conf
        tasks: list[tuple[str, float, typing.Callable[[], typing.Any]]] = [
            ('report_nodes', conf.update_resources_interval, self.inventory.report_changes),
            ('sync_power_states', conf.sync_power_state_interval, self.power_states.synchronize),
            ('report_counters', SAMPLE_S, self.counters.report),
            ('report_availability', RECHECK_INTERVAL_S, self.availability.settle),
            ('look_again', RECHECK_INTERVAL_S, self.power_states.look_again),
            ('clean_evacuated', conf.sync_power_state_interval, self._evacuation.clean_up)]
        if conf.instance_usage_audit:
            tasks.append(('audit_instance_usage', AUDIT_USAGE_S, self._audit_instance_usage))
        return tasks

    def came_back(self) -> None:
        """Compare guests and servers after an RPC outage, during which servers may have been deleted or evacuated."""
        def compare() -> None:
            try:
                self.power_states.synchronize()
                self._evacuation.clean_up()
            except exception.NovaException as error:
                LOG.warning('Cannot compare guests with servers yet: %s', error.message)
        concurrency.spawn(f'came-back-{self.host.name}', compare)

    def forget_told(self) -> None:
        """Forget earlier reports, because the service has a new database row without them."""
        self.inventory.forget_report()
        self.availability.forget_report()

    def in_progress(self) -> dict[str, int | str]:
        """Return counters for the diagnostics report of the process."""
        tasks = self.queue.in_progress()
        return {'servers with a task': len(tasks), 'tasks that wait': sum(tasks.values()),
                'tasks': ', '.join(sorted(tasks)) or 'none', 'driver': type(self.driver).__name__,
                'weaknesses in the isolation of guests': ' '.join(self.driver.weaknesses) or 'none known'}

    # ---- the whole host

    def ping(self, ctx: context.RequestContext) -> str:
        return 'pong'

    def host_power_action(self, ctx: context.RequestContext, action: str) -> str:
        return self.host.driver_with(virt.HostControl).host_power_action(action)

    def set_host_maintenance(self, ctx: context.RequestContext, enabled: bool) -> None:
        self.host.driver_with(virt.HostControl).set_host_maintenance(enabled)

    def _report_alive(self) -> None:
        """Send the first heartbeat. Call it before the servers are read, so that no conductor evacuates them."""
        self.host.conductor.report_service(context.admin_context(), host=self.host.name, binary='nova-compute',
                                           topic='compute', version=service.VERSION)

    def _audit_instance_usage(self) -> bool:
        """Record the usage in the last audit period; return False if it was already recorded."""
        return self.host.conductor.audit_instance_usage(context.admin_context(), host=self.host.name)
