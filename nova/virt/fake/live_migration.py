"""Live migration between fake hosts of one process: the guest's record really moves."""
import threading
import time
import weakref

from nova import exception
from nova.virt import driver

STEP_S = 0.02            # between two looks at what was asked meanwhile, and two reports of progress
GIB = 1 << 30

# (what separates one cloud of a process from another, host) -> driver: the wire between hypervisors
_REACHABLE = weakref.WeakValueDictionary()


class LiveMigration(driver.LiveMigration):
    """Mixed into the fake driver.

    It takes ``delays['live_migrate']`` seconds. A guest that comes needs a host that expects it.
    """

    shares_disks = False         # with the other hosts

    def _init_live_migration(self):
        self._expected = {}          # uuid -> network_info, of guests that are about to come
        self._jobs = {}              # uuid -> _Job
        self._wire = (self.conf.fake.state_dir or id(self.conf), self.host)
        _REACHABLE[self._wire] = self

    def disconnect(self):
        """Let nobody reach this host any more; what it sends meanwhile is lost."""
        if _REACHABLE.get(self._wire) is self:
            del _REACHABLE[self._wire]

    def check_destination(self, instance, block_migration, disk_over_commit):
        with self._operation('check_destination', instance):
            copied = not self.shares_disks and _has_local_disks(instance)
            if block_migration is False and copied:
                raise exception.MigrationPreCheckError(
                    reason='the hosts share no storage; a migration with its disks (block migration) is needed')
            return {'block_migration': copied}

    def check_source(self, instance, facts):
        with self._operation('check_source', instance):
            self._guest(instance)
            return facts

    def pre_live_migration(self, context, instance, network_info, block_devices, facts):
        with self._operation('pre_live_migration', instance), self._lock:
            self._expected[instance.uuid] = [vif['id'] for vif in network_info]
            return facts

    def live_migrate(self, context, instance, destination, facts, progress):
        job = self._jobs[instance.uuid] = _Job(self.delays.get('live_migrate', 0), instance)
        try:
            self._guest(instance)
            while not job.done():
                progress(job.progress())
                if job.aborted.wait(min(STEP_S, job.left())):
                    raise exception.MigrationAborted(instance_id=instance.uuid)
            progress(job.progress())
            self._fail('live_migrate')
            self._send(instance.uuid, self._wire[:1] + (destination['host'],), facts.get('numa_topology'))
        finally:
            self._jobs.pop(instance.uuid, None)

    def _send(self, uuid, wire, topology):
        """Hand the guest over; it is at one of the two at any moment."""
        other = _REACHABLE.get(wire)
        if other is None or _REACHABLE.get(self._wire) is not self:
            raise exception.VirtError(operation='migrate the guest', reason='the connection to the host is lost')
        first, second = sorted((self, other), key=lambda each: each.host)
        with first._lock, second._lock:
            if uuid not in other._expected:
                raise exception.VirtError(operation='migrate the guest', reason='the host does not expect it')
            guest = self._guests.pop(uuid)
            other._guests[uuid] = {**guest, 'networks': other._expected.pop(uuid), 'numa_topology': topology}
            self._save()
            other._save()

    def abort_live_migration(self, instance):
        job = self._jobs.get(instance.uuid)
        if job is not None:
            job.aborted.set()

    def force_complete_live_migration(self, instance):
        with self._operation('force_complete_live_migration', instance):
            job = self._jobs.get(instance.uuid)
            if job is not None:
                job.forced = True

    def post_live_migration_at_source(self, context, instance, network_info, facts):
        with self._operation('post_live_migration_at_source', instance):
            pass                     # nothing of a fake guest stays behind

    def post_live_migration_at_destination(self, context, instance, network_info):
        with self._operation('post_live_migration_at_destination', instance):
            self._guest(instance)

    def rollback_live_migration(self, context, instance, network_info, facts):
        with self._operation('rollback_live_migration', instance), self._lock:
            self._expected.pop(instance.uuid, None)


def _has_local_disks(instance):
    """Whether a guest has disks that are no volumes."""
    return bool(instance.image_id or instance.ephemeral_gb or (instance.flavor or {}).get('swap'))


class _Job:
    """A migration under way."""

    def __init__(self, seconds, instance):
        self.started, self.seconds = time.monotonic(), seconds
        self.memory, self.disk = instance.memory_mb << 20, (instance.root_gb + instance.ephemeral_gb) * GIB
        self.aborted, self.forced = threading.Event(), False

    def left(self):
        return 0 if self.forced else max(0, self.started + self.seconds - time.monotonic())

    def done(self):
        return not self.left()

    def progress(self):
        """The figures of the driver contract: all of it is copied evenly in the time that it takes."""
        share = 1 - self.left() / self.seconds if self.seconds else 1
        values = {}
        for name, total in (('memory', self.memory), ('disk', self.disk)):
            processed = int(total * share)
            values |= {f'{name}_total_bytes': total, f'{name}_processed_bytes': processed,
                       f'{name}_remaining_bytes': total - processed}
        return values
