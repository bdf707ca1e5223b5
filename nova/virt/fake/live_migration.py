"""Live migration between fake hosts of one process: move the record of a guest to another Machine."""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
import weakref

from nova import exception
from nova.context import RequestContext
from nova.objects.block_device import BlockDevice
from nova.objects.instance import Instance
from nova.objects.network_info import Vif
from nova.virt import driver
from nova.virt.fake.machine import Machine

STEP_S = 0.02            # interval of progress reports and checks for an abort
GIB = 1 << 30

# the reachable hosts: {(value of ``cloud``, host name): LiveMigration of the host}
_REACHABLE: weakref.WeakValueDictionary[tuple[str | int, str], LiveMigration] = weakref.WeakValueDictionary()


class LiveMigration:
    """Simulated live migration that takes ``delays['live_migrate']`` seconds.

    :param cloud: any value; hosts with equal values reach each other
    """

    def __init__(self, machine: Machine, host: str, cloud: str | int) -> None:
        self.machine, self.host = machine, host
        self.jobs: dict[str, _Job] = {}          # {uuid of a guest: its migration from this host}
        self._wire = (cloud, host)
        self.connect()

    def connect(self) -> None:
        """Make this host reachable for other hosts."""
        _REACHABLE[self._wire] = self

    def disconnect(self) -> None:
        """Make this host unreachable: migrations from and to it fail."""
        if _REACHABLE.get(self._wire) is self:
            del _REACHABLE[self._wire]

    def check_destination(self, instance: Instance, block_migration: bool | None,
                          disk_over_commit: bool) -> driver.MigrationFacts:
        with self.machine.operation('check_destination'):
            copied = not self.machine.shares_disks and _has_local_disks(instance)
            if block_migration is False and copied:
                raise exception.MigrationPreCheckError(
                    reason='the hosts share no storage: migrate the server with block migration')
            return {'block_migration': copied}

    def check_source(self, instance: Instance, facts: driver.MigrationFacts) -> driver.MigrationFacts:
        with self.machine.operation('check_source'):
            self.machine.guest(instance)
            return facts

    def pre_live_migration(self, context: RequestContext, instance: Instance, network_info: list[Vif],
                           block_devices: list[BlockDevice], facts: driver.MigrationFacts) -> driver.MigrationFacts:
        with self.machine.operation('pre_live_migration'), self.machine.lock:
            self.machine.expected[instance.uuid] = {
                'networks': [vif['id'] for vif in network_info], 'numa_topology': facts.get('numa_topology')}
            return facts

    def live_migrate(self, context: RequestContext, instance: Instance, destination: str | None,
                     facts: driver.MigrationFacts, progress: Callable[[dict[str, int]], None]) -> None:
        job = self.jobs[instance.uuid] = _Job(self.machine.delays.get('live_migrate', 0), instance)
        try:
            self.machine.guest(instance)
            while not job.done():
                progress(job.progress())
                if job.aborted.wait(min(STEP_S, job.left())):
                    raise exception.MigrationAborted(instance_id=instance.uuid)
            progress(job.progress())
            self.machine.fail('live_migrate')
            self._send(instance.uuid, (self._wire[0], destination or ''))
        finally:
            self.jobs.pop(instance.uuid, None)

    def _send(self, uuid: str, wire: tuple[str | int, str]) -> None:
        """Move the guest in one step, so that exactly one host has it at any time."""
        other = _REACHABLE.get(wire)
        if other is None or _REACHABLE.get(self._wire) is not self:
            raise exception.VirtError(operation='migrate the guest', reason='the connection to the host is lost')
        first, second = sorted((self, other), key=lambda each: each.host)
        with first.machine.lock, second.machine.lock:
            if uuid not in other.machine.expected:
                raise exception.VirtError(operation='migrate the guest', reason='the host does not expect it')
            guest = self.machine.guests.pop(uuid)
            other.machine.guests[uuid] = {**guest, **other.machine.expected.pop(uuid)}
            self.machine.save()
            other.machine.save()

    def await_live_migration(self, instance: Instance, progress: Callable[[dict[str, int]], None]) -> None:
        """Complete the transfer of a guest in post-copy. Tests set the guest's ``ahead`` to the host with the guest."""
        with self.machine.operation('await_live_migration'):
            ahead = self.machine.guests.get(instance.uuid, {}).get('ahead')
        job = _Job(GIB, instance)
        while ahead:
            progress(job.progress())
            try:
                self._send(instance.uuid, (self._wire[0], ahead))
                return
            except exception.VirtError:
                time.sleep(STEP_S)

    def abort_live_migration(self, instance: Instance) -> None:
        with self.machine.operation('abort_live_migration'):
            job = self.jobs.get(instance.uuid)
            if job is not None:
                job.aborted.set()

    def force_complete_live_migration(self, instance: Instance) -> None:
        with self.machine.operation('force_complete_live_migration'):
            job = self.jobs.get(instance.uuid)
            if job is not None:
                job.forced = True

    def post_live_migration_at_source(self, context: RequestContext, instance: Instance,
                                      network_info: list[Vif], facts: driver.MigrationFacts) -> None:
        with self.machine.operation('post_live_migration_at_source'):
            pass                     # ``_send`` has removed the guest

    def has_arrived(self, uuid: str) -> bool:
        with self.machine.lock:
            return uuid in self.machine.guests

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance,
                                           network_info: list[Vif]) -> None:
        with self.machine.operation('post_live_migration_at_destination'):
            self.machine.guest(instance)

    def rollback_live_migration(self, context: RequestContext, instance: Instance, network_info: list[Any],
                                facts: driver.MigrationFacts) -> None:
        with self.machine.operation('rollback_live_migration'), self.machine.lock:
            self.machine.expected.pop(instance.uuid, None)

    def incoming_guests(self) -> list[str]:
        """Return [], because a fake guest has no disks."""
        return []

    def discard_incoming_guest(self, uuid: str) -> None:
        """Do nothing: ``incoming_guests`` is always empty."""


def _has_local_disks(instance: Instance) -> bool:
    """Return whether a guest has disks other than volumes."""
    return bool(instance.image_id or instance.ephemeral_gb or (instance.flavor or {}).get('swap'))


class _Job:
    """Migration in progress."""

    def __init__(self, seconds: float, instance: Instance) -> None:
        self.started, self.seconds = time.monotonic(), seconds
        self.memory, self.disk = instance.memory_mb << 20, (instance.root_gb + instance.ephemeral_gb) * GIB
        self.aborted, self.forced = threading.Event(), False

    def left(self) -> float:
        return 0 if self.forced else max(0, self.started + self.seconds - time.monotonic())

    def done(self) -> bool:
        return not self.left()

    def progress(self) -> dict[str, int]:
        """Return the argument of ``progress`` in the driver interface. The copied bytes grow linearly with time."""
        share = 1 - self.left() / self.seconds if self.seconds else 1
        values: dict[str, int] = {}
        for name, total in (('memory', self.memory), ('disk', self.disk)):
            processed = int(total * share)
            values |= {f'{name}_total_bytes': total, f'{name}_processed_bytes': processed,
                       f'{name}_remaining_bytes': total - processed}
        return values
