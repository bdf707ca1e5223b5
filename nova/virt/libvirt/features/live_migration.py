"""Live migration of QEMU guests, with local disks or disks that both hosts share.

The destination creates the files and the definition of the guest. Then the source migrates the running guest with
libvirt. If this process was not running when a migration ended, it reads the result from both hypervisors.
"""
import contextlib
import logging
import os
import time
from typing import Any

import libvirt
from oslo_config import cfg

from nova import exception
from nova.objects.block_device import BlockDevice
from nova.objects.network_info import Vif
from nova import states
from nova.context import RequestContext
from nova.disk_files import files
from nova.objects.instance import Instance
from nova.runtime import concurrency
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt import graphics
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.disk_clients import DiskClients
from nova.virt.libvirt.domain import volume_disks as volume
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import disk_transfer
from nova.virt.libvirt.moves import migration_xml
from nova.virt.libvirt.moves import outgoing
from nova.virt.libvirt.moves import post_copy
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import transferred_record
from nova.virt.libvirt.platform import Platform
from nova.virt.libvirt.privileged.remote import HostSteps
from nova.virt.libvirt.volumes import probe
from nova.virt.libvirt.volumes.connections import VolumeConnections

LOG = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.2                    # seconds between two polls of a migration
SETTLE_TIMEOUT_S = 60                    # timeout in seconds until libvirt has ended an aborted or failed migration


class LiveMigration:
    """Feature LiveMigration, for source and destination.

    :param host: name of this host
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, guests: Guests, steps: HostSteps, platform: Platform,
                 connections: VolumeConnections, clients: DiskClients,
                 addresses: disk_transfer.LibvirtAddresses) -> None:
        self._conf, self._host = conf, host
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor
        self._steps, self._platform, self._connections = steps, platform, connections
        self._clients, self._addresses = clients, addresses
        self._post_copy = post_copy.PostCopy(self._hypervisor, self._storage, host)
        self._jobs: dict[str, outgoing.Job] = {}     # {uuid of a guest: migration from this host}
        self._unsettled: set[str] = set()       # guests with an unknown result of a migration by an earlier process

    # ---- checks ----

    def check_destination(self, instance: Instance, block_migration: bool | None,
                          disk_over_commit: bool) -> driver.MigrationFacts:
        options, virt_type = self._conf.libvirt, self._platform.virt_type
        return {'block_migration': block_migration, 'over_commit': bool(disk_over_commit),
                'seen': shared_storage.record_fingerprint(self._storage, instance.uuid),
                'pool_seen': shared_storage.pool_digest(self._storage, instance.uuid),
                'free_bytes': min(self._storage.room(), self._storage.backends.unused_bytes() if disk_over_commit
                                  else self._storage.free_bytes()),
                'cpu_features': self._hypervisor.run('describe the processor', outgoing.cpu_features, virt_type),
                'virt_type': virt_type, 'memory_source': self._platform.memory_source,
                'tls': bool(options.live_migration_with_native_tls), 'tls_able': self._can_encrypt(),
                'address': self._addresses.own}

    def check_source(self, instance: Instance, facts: driver.MigrationFacts) -> driver.MigrationFacts:
        guest = self._guests.record(instance.uuid)
        refusal = next((sentence for sentence, holds in (
            ('it has PCI devices of this host', guest.hostdevs),
            (shared_storage.ELSEWHERE, records.elsewhere(guest)),
            ('it has encrypted volumes; it can be moved while it is off',
             any(each.source.get('luks') for each in guest.volumes)),
            ('its local disks are encrypted; it can be moved while it is off',
             any(disk.secret for disk in guest.disks)),
            ('it has a CD-ROM of this host; it can be moved while it is off',
             any(disk.device == 'cdrom' for disk in guest.disks)),
            (f'guests run with {self._platform.virt_type} here and with {facts["virt_type"]} there',
             facts['virt_type'] != self._platform.virt_type)) if holds), None)
        if refusal is not None:
            raise exception.MigrationPreCheckError(reason=refusal)
        _check_memory(guest, facts['memory_source'])
        tls = outgoing.agree_on_tls(self._conf.libvirt.live_migration_with_native_tls, self._can_encrypt(),
                                    facts['tls'], facts['tls_able'])
        seen = shared_storage.record_fingerprint(self._storage, instance.uuid)
        shared = seen is not None and seen == facts['seen']
        pooled = not shared and shared_storage.check_pool_disks(self._storage, guest, facts.get('pool_seen'))
        local = any(not disk.readonly for disk in guest.disks)       # whether the guest has a writable local disk
        if local and facts['block_migration'] is not None and facts['block_migration'] == (shared or pooled):
            raise exception.MigrationPreCheckError(reason=(
                'the hosts share the disks of the server: migrate it without block migration' if shared or pooled
                else 'the hosts share no storage: migrate the server with block migration'))
        if not shared and not pooled:
            _check_room(guest, facts)
        self._check_cpu(instance.uuid, facts)
        values = transferred_record.packed(guest)
        return {'block_migration': not shared, 'guest': values, 'address': facts['address'], 'tls': tls,
                'source': {'address': self._addresses.own, 'directory': self._storage.path(instance.uuid)}}

    def _check_cpu(self, uuid: str, facts: driver.MigrationFacts) -> None:
        """Check that the destination's processor has the features of the guest's processor.

        :raises MigrationPreCheckError: a feature is missing
        """
        cpu = migration_xml.cpu_of(self._hypervisor.guest('read the processor', uuid, outgoing.running_xml))
        needed = self._hypervisor.run('describe the processor', outgoing.cpu_features, self._platform.virt_type, cpu)
        if needed is None or facts['cpu_features'] is None:
            return                       # libvirt at the destination compares the features during the migration
        missing = sorted(set(needed) - set(facts['cpu_features']))
        if missing:
            raise exception.MigrationPreCheckError(reason=(
                f'the processor of the destination lacks features of the guest: {", ".join(missing[:10])}'))

    def _can_encrypt(self) -> bool:
        return outgoing.can_encrypt(self._conf.libvirt.live_migration_with_native_tls, self._steps.qemu_settings())

    # ---- at the destination ----

    def pre_live_migration(self, context: RequestContext, instance: Instance, network_info: list[Vif],
                           block_devices: list[BlockDevice], facts: driver.MigrationFacts) -> driver.MigrationFacts:
        uuid = instance.uuid
        guest = transferred_record.unpacked(facts['guest'], uuid, self._storage, self._platform.virt_type, network_info)
        guest.resources.numa, guest.resources.memory_source = facts.get('numa_topology'), self._platform.memory_source
        guest.volumes = self._connections.connect_all(instance, block_devices, guest.hardware.machine, guest.disks, [])
        try:
            return self._make_ready(context, guest, facts)
        except Exception:
            self._connections.take_back(uuid, guest.volumes)  # without a record, a rollback disconnects no volume
            raise

    def _make_ready(self, context: RequestContext, guest: xml.Guest,
                    facts: driver.MigrationFacts) -> driver.MigrationFacts:
        uuid, copied, incremental = guest.uuid, bool(facts['block_migration']), False
        probe.check(guest.volumes)
        self._connections.define_secrets(guest.volumes)

        def note(guest: xml.Guest) -> None:
            shared_storage.note_incoming(self._storage, guest, self._host)
        with self._guests.operation(uuid):
            self._unplug_expected(uuid)                       # an interrupted attempt may have plugged ports
            self._guests.remove(uuid, keep_disks=not copied)
            if copied:
                try:
                    incremental = self._make_disks(context, guest, facts)
                    self._storage.save(guest)
                except OSError as error:
                    raise exception.VirtError(operation='make the disks', reason=error.strerror) from error
            else:
                note(guest)
            for port in guest.ports():   # plug ports after the record is stored, so that a rollback can unplug them
                self._steps.plug(uuid, port)
            text = self._guests.domain_xml(guest, self._storage.save if copied else note)
        return {**facts, 'domain': text, 'incremental': incremental}

    def _make_disks(self, context: RequestContext, guest: xml.Guest, facts: driver.MigrationFacts) -> bool:
        """Create empty disks as large as the source's disks. Return whether all backing images are cached."""
        directory = self._storage.make_directory(guest.uuid)
        sizes = transferred_record.sizes(facts['guest'])
        if any(disk.source for disk in guest.disks):
            owners.mark_in_migration(directory, True)
        files_of = [disk for disk in guest.disks if not disk.source]
        incremental = all(self._storage.cache.has(context, disk.backing_file)
                          for disk in files_of if disk.backing_file)
        for disk in files_of:
            if disk.readonly:
                continue
            if not incremental:
                disk.backing_file = disk.backing_format = None
            size = sizes[os.path.basename(disk.file)]
            if disk.format == 'qcow2':
                self._steps.qemu_img.create(disk.file, 'qcow2', size, disk.backing_file, disk.backing_format)
            else:
                with open(disk.file, 'xb') as file:
                    file.truncate(size)
            files.give_to_guest(disk.file)
        names = [os.path.basename(disk.file) for disk in files_of if disk.readonly]
        names += [part for part in transferred_record.BOOT_FILES if getattr(guest.boot, part)]
        address, there = transferred_record.place(facts['source'], guest.uuid)
        disk_transfer.fetch(self._addresses.uri_of(address), there, names, directory,
                            self._conf.libvirt.qemu_img_timeout, reserve=self._storage.reserve)
        return incremental

    def has_arrived(self, uuid: str) -> bool:
        try:
            return bool(self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.arrived))
        except exception.GuestNotFound:
            return False

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance,
                                           network_info: list[Vif]) -> None:
        if instance.vm_state == states.ACTIVE:
            self._hypervisor.guest('let the guest run', instance.uuid, outgoing.run_on)
        guest = self._guests.record(instance.uuid)        # if the disks are shared, the source has written this record
        expected = shared_storage.incoming(self._storage, instance.uuid, self._host)
        if expected is not None:
            guest.volumes = expected.volumes
            guest.resources.cell, guest.resources.cpuset = expected.resources.cell, expected.resources.cpuset
        guest.ownership.host = guest.ownership.successor = None
        owners.mark_in_migration(self._storage.path(instance.uuid), False)
        if guest.resources.numa:
            guest.resources.numa = instance.numa_topology
        guest.interfaces = spec.interfaces(network_info, guest)
        running = self._hypervisor.guest('read the arrived guest', instance.uuid, outgoing.running_xml)
        guest.consoles, threads = graphics.read(running), volume.threads(running)
        for disk in guest.devices():
            disk.iothread = threads.get(disk.target)
        self._storage.save(guest)
        shared_storage.forget_incoming(self._storage, instance.uuid, self._host)
        self._clients.record_open(guest)

    def rollback_live_migration(self, context: RequestContext, instance: Instance, network_info: list[Any],
                                facts: driver.MigrationFacts) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            coming = self._unplug_expected(uuid)
            guest = coming if facts.get('block_migration') is False else self._storage.load(uuid)
            self._guests.remove(uuid, keep_disks=not facts.get('block_migration'))
            self._connections.take_back(uuid, guest.volumes if guest is not None else ())
            shared_storage.forget_incoming(self._storage, uuid, self._host)

    def _unplug_expected(self, uuid: str) -> xml.Guest | None:
        """Unplug the ports of an arriving guest with shared disks. Return its record, or None if no guest was expected.

        The ports are in this host's record of the arriving guest, not in the source's record on the shared storage.
        """
        coming = shared_storage.incoming(self._storage, uuid, self._host)
        for port in coming.ports() if coming is not None else ():
            self._steps.unplug(uuid, port)
        return coming

    def incoming_guests(self) -> list[str]:
        return shared_storage.list_incoming(self._storage, self._host)

    def discard_incoming_guest(self, uuid: str) -> None:
        with self._guests.operation(uuid):
            coming = self._unplug_expected(uuid)
            self._connections.disconnect(uuid, coming.volumes if coming is not None else ())
            shared_storage.forget_incoming(self._storage, uuid, self._host)

    # ---- at the source ----

    def live_migrate(self, context: RequestContext, instance: Instance, destination: str | None,
                     facts: driver.MigrationFacts, progress: post_copy.Report) -> None:
        uuid, copied = instance.uuid, facts['block_migration']
        guest = self._guests.record(uuid)
        job = self._jobs[uuid] = outgoing.Job()
        with self._guests.operation(uuid):
            try:
                if not copied:
                    shared_storage.hand_over(self._storage, guest, destination)
                elif any(disk.source for disk in guest.disks):
                    self._storage.owners.promise(uuid, destination)
                self._send(job, guest, facts, progress)
            except BaseException:
                self._storage.owners.promise(uuid, None)
                shared_storage.hand_over(self._storage, self._storage.load(uuid) or guest, None)
                raise
            finally:
                del self._jobs[uuid]
                self._post_copy.forget(uuid)

    def _send(self, job: outgoing.Job, guest: xml.Guest, facts: driver.MigrationFacts,
              progress: post_copy.Report) -> None:
        uuid, options, tls, copied = guest.uuid, self._conf.libvirt, facts['tls'], bool(facts['block_migration'])
        targets = [disk.target for disk in guest.disks if copied and not disk.readonly and not disk.source]
        was = self._hypervisor.power_state(uuid)
        running = self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.running_xml)
        uri = self._addresses.uri_of(facts['address'])
        call = post_copy.Call(
            uri, outgoing.parameters(options, running, facts['domain'], facts['address'], targets, tls),
            outgoing.flags(options, bool(targets), facts['incremental'], tls, seen=_seen_alike(guest, copied)))
        self._post_copy.keep(uuid, call)
        concurrency.spawn('migration', job.run, self._hypervisor, uuid, call.uri, call.parameters, call.flags)
        try:
            self._watch(job, uuid, progress)
        except BaseException as error:
            self._end(job, uuid)
            self._finish_if_ahead(uuid, call, progress)
            if job.error is None or self._has_left(uuid, uri, was):
                LOG.info('Guest %s had left before its migration could be cancelled: %s', uuid, error)
                return
            raise
        self._finish_if_ahead(uuid, call, progress)
        if job.error is not None and not self._has_left(uuid, uri, was):
            if job.aborted.is_set():
                raise exception.MigrationAborted(instance_id=uuid)
            raise job.error

    def _watch(self, job: outgoing.Job, uuid: str, progress: post_copy.Report) -> None:
        """Report the progress and enforce the timeouts until the job ends.

        :raises VirtError: the migration exceeded a timeout; libvirt still runs the job
        """
        options = self._conf.libvirt
        limits = outgoing.Limits(options.live_migration_completion_timeout, options.live_migration_progress_timeout)
        slow, hurried, values = options.live_migration_downtime, False, None
        while not job.done.wait(POLL_INTERVAL_S):
            with contextlib.suppress(exception.VirtError):       # the migration has ended, or libvirt is unreachable
                if slow and self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.progress):
                    self._hypervisor.guest(outgoing.OPERATION, uuid, lambda domain: domain.migrateSetMaxDowntime(slow))
                    slow = 0
                values = self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.progress)
            if job.done.is_set() or not values:
                continue
            progress(values)
            why = limits.passed(values)
            if why and options.live_migration_timeout_action == 'abort':
                raise exception.VirtError(operation=outgoing.OPERATION, reason=why)
            if why and not hurried:
                hurried = True
                with contextlib.suppress(exception.VirtError):       # libvirt refuses a late or repeated request
                    self.force_complete_live_migration_of(uuid)

    def _finish_if_ahead(self, uuid: str, call: post_copy.Call, progress: post_copy.Report) -> None:
        if self._conf.libvirt.live_migration_permit_post_copy:
            self._post_copy.finish(uuid, call, progress)

    def _end(self, job: outgoing.Job, uuid: str) -> None:
        """Abort a migration, and wait without a timeout until it has ended."""
        while not job.done.is_set():
            with contextlib.suppress(exception.VirtError):
                self._hypervisor.guest(outgoing.OPERATION, uuid, calls.abort_job)
            job.done.wait(POLL_INTERVAL_S)

    def _has_left(self, uuid: str, uri: str, was: int) -> bool:
        """After a failed call, return whether the guest is at the destination. If not, restore its power state ``was``.
        """
        state = self._settled_state(uuid)
        if state == was:
            return False
        if state is None:                # libvirt undefines the guest only after it runs at the destination
            return True
        try:
            there = concurrency.blocking(outgoing.is_at, uri, uuid)
        except libvirt.libvirtError as unreachable:
            LOG.error('Guest %s keeps its power state %s here, because it is unknown whether the destination runs it '
                      '(%s).', uuid, state, unreachable.get_error_message())
            return False
        if there:
            self._hypervisor.guest(outgoing.OPERATION, uuid, calls.undefine)
        elif was == states.RUNNING and state == states.POWER_PAUSED:
            self._hypervisor.guest(outgoing.OPERATION, uuid, calls.unpause)
        return bool(there)

    def _settled_state(self, uuid: str) -> int | None:
        """Wait until no migration of the guest is in progress. Return the state; None: the guest is not here."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        try:
            while not self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.settled):
                if time.monotonic() > deadline:
                    raise exception.VirtError(operation=outgoing.OPERATION, reason='libvirt does not end the migration')
                time.sleep(POLL_INTERVAL_S)
            return int(self._hypervisor.power_state(uuid))
        except exception.GuestNotFound:
            return None

    def settle_migrations(self) -> None:
        """At startup: wait until the migrations of an earlier process have ended, and record which guests stay here.

        ``await_live_migration`` does this later for migrations in post-copy and for migrations with unknown results.
        """
        for uuid, state in self._hypervisor.guests().items():
            if state not in outgoing.ACTIVE:
                continue
            try:
                self._settle(uuid)
            except exception.VirtError as error:         # only log: the service must start for the other guests
                LOG.error('The result of a migration of guest %s is unknown. It is checked when the migration is '
                          'resumed, or at the next start: %s', uuid, error.message)
                self._unsettled.add(uuid)
                self._hypervisor.guests()                 # raises if libvirt is unreachable, so that the startup fails

    def _settle(self, uuid: str) -> None:
        """Wait until the migration of one guest has ended. If the guest is active on this host, record that it stays.

        :raises VirtError: the result is unknown
        """
        if not self._post_copy.looks_ahead(uuid) and self._settled_state(uuid) in outgoing.ACTIVE:
            self._stays(uuid)

    def _stays(self, uuid: str) -> None:
        """Record that this host owns the disks of a guest, because its migration failed."""
        guest = self._storage.load(uuid)
        if guest is not None and guest.ownership.host == self._host:
            self._storage.owners.promise(uuid, None)
            shared_storage.hand_over(self._storage, guest, None)
            self._post_copy.forget(uuid)

    def await_live_migration(self, instance: Instance, progress: post_copy.Report) -> None:
        uuid = instance.uuid
        if not self._post_copy.is_ahead(uuid):
            if uuid in self._unsettled:
                with self._guests.operation(uuid):
                    self._settle(uuid)
                self._unsettled.discard(uuid)
            return
        with self._guests.operation(uuid):
            call = self._post_copy.kept(uuid)
            self._post_copy.finish(uuid, call, progress)
            if self._post_copy.is_ahead(uuid):           # the destination has lost the guest
                self._stays(uuid)
            elif call is not None:                       # if the guest is at the destination, undefine it here
                self._has_left(uuid, call.uri, states.NOSTATE)

    def abort_live_migration(self, instance: Instance) -> None:
        job = self._jobs.get(instance.uuid)
        if job is not None:
            job.aborted.set()
            self._hypervisor.guest(outgoing.OPERATION, instance.uuid, calls.abort_job)

    def force_complete_live_migration(self, instance: Instance) -> None:
        if instance.uuid in self._jobs:
            self.force_complete_live_migration_of(instance.uuid)

    def force_complete_live_migration_of(self, uuid: str) -> None:
        with contextlib.suppress(exception.GuestNotFound):
            self._hypervisor.guest(outgoing.OPERATION, uuid, outgoing.hurry,
                                  self._conf.libvirt.live_migration_permit_post_copy)

    def post_live_migration_at_source(self, context: RequestContext, instance: Instance,
                                      network_info: driver.NetworkInfo, facts: driver.MigrationFacts) -> None:
        """Remove the guest's files, except disks that are shared with the destination.

        ``facts`` is not used, because it is empty after a restart of the service.
        """
        self._post_copy.forget(instance.uuid)
        with self._guests.operation(instance.uuid):
            guest = self._storage.load(instance.uuid)
            self._guests.remove(instance.uuid, keep_disks=not shared_storage.may_remove(guest, self._host))
            self._connections.disconnect(instance.uuid, guest.volumes if guest is not None else ())


def _seen_alike(guest: xml.Guest, copied: bool) -> bool:
    """Return whether some disks are not copied and the destination sees all writes to these disks.

    It sees writes to network disks, and to disks that bypass the source's page cache (mode none or directsync).
    """
    stay: list[xml.Disk | volume.Volume] = [
        *guest.volumes, *(disk for disk in guest.disks if disk.source or not copied)]
    return bool(stay) and all(disk.readonly or disk.cache in ('none', 'directsync') or (
        disk.source is not None and disk.source['type'] == volume.NETWORK) for disk in stay)


def _check_room(guest: xml.Guest, facts: driver.MigrationFacts) -> None:
    """Check the free space at the destination.

    :raises MigrationPreCheckError: the destination has no space for the disks
    """
    used = facts['over_commit']
    needed = sum(os.stat(disk.file).st_blocks * 512 if used else local_files.size_of(disk.file, disk.format)
                 for disk in guest.disks)
    if needed > facts['free_bytes']:
        raise exception.MigrationPreCheckError(reason=(
            f'its disks need {needed / storage.GIB:.1f} GiB, but the destination has only '
            f'{facts["free_bytes"] / storage.GIB:.1f} GiB free'))


def _check_memory(guest: xml.Guest, there: str) -> None:
    """Check that source and destination use the same memory backing for the guest.

    :raises MigrationPreCheckError: the memory backing differs, so the hosts may count its memory differently
    """
    here = guest.resources.memory_source
    if here != there:
        raise exception.MigrationPreCheckError(reason=(
            f'its memory has the type {here} on the source and would have the type {there} on the destination. Stop '
            'the server and migrate it cold'))
