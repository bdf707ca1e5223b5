"""The compute service: a table of contents. Each file beside it has one kind of work."""
import contextlib
import dataclasses
import logging
import math
import threading
import time

from nova import context
from nova import exception
from nova.compute import backup
from nova.compute import beside
from nova.compute import build
from nova.compute import evacuate
from nova.compute import events
from nova.compute import host_control
from nova.compute import image_cache
from nova.compute import inside
from nova.compute import interfaces
from nova.compute import inventory
from nova.compute import live_migration
from nova.compute import notices
from nova.compute import power
from nova.compute import queue
from nova.compute import rebuild
from nova.compute import recover
from nova.compute import rescue
from nova.compute import resize
from nova.compute import shares
from nova.compute import shelve
from nova.compute import snapshot
from nova.compute import soft_delete
from nova.compute import sync
from nova.compute import task
from nova.compute import usage
from nova.compute import volumes
from nova.hardware import pci_spec
from nova.objects import pci
from nova.rpc import retrying_client
from nova.runtime import service

LOG = logging.getLogger(__name__)

AUDIT_USAGE_S = 300          # a period that has ended is recorded so soon
TELL_AGAIN_S = 600           # what a host has is told again so often though nothing has changed
CONDUCTOR_PAUSE_S = 2        # between two attempts to reach a conductor at the start


class ComputeManager(rescue.Rescue, shelve.Shelve, backup.Backup, inside.Inside, soft_delete.SoftDelete,
                     build.Builder, power.Power, rebuild.Rebuild, snapshot.Snapshot, sync.Sync, image_cache.ImageCache,
                     recover.Recovery, resize.Resize, beside.BesideTasks,
                     notices.Notices, interfaces.Interfaces, volumes.Volumes, shares.Shares,
                     live_migration.LiveMigration, evacuate.Evacuation,
                     events.ExternalEvents, host_control.HostControl, host_control.AssistedSnapshots, usage.UsageAudit,
                     inventory.Inventory):
    """
    :param conf: the configuration
    :param host: name of this compute host
    :param driver: a virt.driver.ComputeDriver
    :param conductor_client, network_client: RPC clients
    :param images: nova.image.grants.GrantedImages
    :param network_server: host of the network service that is asked; None: any
    """

    def __init__(self, conf, host, driver, conductor_client, network_client, images, network_server=None):
        self.conf, self.host, self.driver = conf, host, driver
        self.conductor = retrying_client.Patient(conductor_client, 'conductor')
        self.network = retrying_client.Patient(network_client, 'network', network_server)
        self.images = images
        self.dhcp_domain = conf.metadata.dhcp_domain
        self.pci_specs = pci_spec.configured(pci_spec.device_specs, conf.pci.device_spec)
        self.init_inventory()
        self.init_sync()
        self.init_notices()
        self._told = None, float('-inf')         # nodes as they were told last, and when
        self.power_states = {}       # {uuid: power state} as it was told last
        self._stopping = threading.Event()
        self.queue = queue.TaskQueue(conf.max_concurrent_builds, conf.max_concurrent_tasks,
                                     conf.max_concurrent_live_migrations)
        self.migration_turns = queue.Turns(conf.max_concurrent_live_migrations)

    def start(self):
        """Before the first message is taken: say what the host has, take up what was interrupted."""
        self.driver.init_host()
        while not self._stopping.is_set():
            try:
                self.report_nodes()
                break
            except exception.Unavailable as error:
                LOG.warning('Waiting for a conductor: %s', error.message)
                self._stopping.wait(CONDUCTOR_PAUSE_S)
        self.report_alive()
        self.start_sync()
        self.recover()
        self.recover_moves()
        self.recover_beside()
        self.clean_evacuated()

    def stop(self):
        """Finish what runs, at most graceful_shutdown_timeout seconds; guests go on."""
        self._stopping.set()
        if not self.queue.stop(self.conf.graceful_shutdown_timeout):
            LOG.warning('Some tasks are still running; they are taken up again at the next start.')
        self.stop_sync()
        self.driver.stop()

    def periodic_tasks(self):
        tasks = [('report_nodes', self.conf.update_resources_interval, self.report_changed_nodes),
                 ('sync_power_states', self.conf.sync_power_state_interval, self.sync_power_states),
                 ('clean_evacuated', self.conf.sync_power_state_interval, self.clean_evacuated)]
        if self.conf.instance_usage_audit:
            tasks.append(('audit_instance_usage', AUDIT_USAGE_S, self.audit_instance_usage))
        return tasks

    def ping(self, ctx):
        return 'pong'

    def in_progress(self):
        """For a report about the process."""
        tasks = self.queue.in_progress()
        return {'servers with a task': len(tasks), 'tasks that wait': sum(tasks.values()),
                'tasks': ', '.join(sorted(tasks)) or 'none', 'driver': type(self.driver).__name__,
                'guests are kept apart': ' '.join(self.driver.weaknesses) or 'as far as is known'}

    @contextlib.contextmanager
    def task(self, ctx, instance, event, **kwargs):
        """task.task of this host; see there."""
        with task.task(self.conductor, ctx, self.host, instance, event,
                       deadline_s=self.conf.conductor.task_deadline, **kwargs) as current:
            yield current
        if current.ended and 'power_state' in current.values:
            self.power_states[instance.uuid] = current.values['power_state']
        else:
            self.power_states.pop(instance.uuid, None)

    def report_alive(self):
        """The first heartbeat, before anything is read: from now on nobody evacuates what is found here."""
        self.conductor.report_service(context.admin_context(), host=self.host, binary='nova-compute', topic='compute',
                                      version=service.VERSION)

    def report_nodes(self):
        """Tell the conductor what this host has."""
        nodes = self._nodes()
        self.conductor.report_nodes(context.admin_context(), host=self.host, nodes=nodes)
        self._told = _compared(nodes), time.monotonic()

    def report_changed_nodes(self):
        """The same, when it is not what was told lately."""
        told, at = self._told
        if time.monotonic() - at > TELL_AGAIN_S or _compared(self._nodes()) != told:
            self.report_nodes()

    def _nodes(self):
        locality = {'network_locality': self.conf.network_locality} if self.conf.network_locality else {}
        return [
            {**dataclasses.asdict(node), **self.described(node),
             'vcpus': max(0, node.vcpus - self.conf.reserved_host_cpus),
             'reserved_memory_mb': self.conf.reserved_host_memory_mb,
             'reserved_disk_gb': math.ceil(self.conf.reserved_host_disk_mb / 1024),
             'cpu_allocation_ratio': self.conf.cpu_allocation_ratio,
             'ram_allocation_ratio': self.conf.ram_allocation_ratio,
             'disk_allocation_ratio': self.conf.disk_allocation_ratio,
             'pci_devices': pci.dump(pci_spec.admitted(self.pci_specs, node.pci_devices)),
             'capabilities': {**self.driver.capabilities(), **locality}}
            for node in self.driver.resources()]

    def forget_told(self):
        """What was told is not there any more: it is told with the next look."""
        self._told = None, float('-inf')


def _compared(nodes):
    """What makes a report worth a message."""
    return [{name: value for name, value in node.items() if name != 'uptime'} for node in nodes]
