"""Snapshots of file-based volumes: add an overlay on the active file, and merge files.

Block Storage creates and removes the files and calls os-assisted-volume-snapshots, because only QEMU may write to the
files of a running guest. To merge files of a stopped guest, the driver starts a paused machine with the volume. So the
files are always read by a QEMU that libvirt confines.
"""
import contextlib
import os
import time
import uuid as uuids
from collections.abc import Callable, Iterator

from oslo_config import cfg

from nova import exception
from nova.context import RequestContext
from nova.objects.instance import Instance
from nova.runtime import progress
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import chain
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.features import agent
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.volumes import operations
from nova.virt.libvirt.volumes.connectors import Connectors

POLL_INTERVAL_S = 0.2                    # seconds between two polls of a merge
OTHER_SIZE = 'the new file has another size than the volume'
NOT_NAMED = ('while its server runs, QEMU would write an NFS address instead of a file name into the header, which the '
             'block storage cannot read; stop the server first')
CREATE, DELETE = 'make a snapshot of the volume', 'merge the files of the volume'


class VolumeSnapshots:
    """Feature AssistedSnapshots."""

    def __init__(self, conf: cfg.ConfigOpts, guests: Guests, connectors: Connectors, guest_agent: agent.Agent) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor
        self._conf, self._connectors, self._agent = conf, connectors, guest_agent

    def create_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str,
                               create_info: dict[str, str]) -> driver.VolumeFile:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            volume = _chained(guest, volume_id, CREATE)
            name = chain.check_name(create_info['new_file'])
            files = disk.files_of(volume.source)
            if files[0][0] != name:
                size = self._check_new(volume, name, files)
                fresh = disk.with_files(volume.source, [(name, chain.QCOW2), *files])
                self._put_on_top(instance, guest, volume, fresh, size)
            return {'name': name, 'format': chain.QCOW2}

    def _check_new(self, volume: disk.Volume, name: str, files: list[chain.File]) -> int:
        """Check a new file and return its virtual size in bytes.

        :raises VirtError: the file is not an overlay of the volume's active file
        """
        if name in (each for each, _form in files):
            raise exception.VirtError(operation=CREATE, reason=f'{name} is a file of the volume already')
        if len(files) >= chain.MAX_FILES:
            raise exception.VirtError(operation=CREATE, reason=f'it already has the maximum of {len(files)} files')
        source = disk.named(volume.source, name)
        header = self._connectors.header(source)
        directory = os.path.dirname(source['path']) if source['type'] == 'file' else None
        found = chain.below(header, directory)
        if found != files[0]:
            raise exception.VirtError(operation=CREATE, reason=(
                f'its backing file is {" of the format ".join(found) if found else "missing"}, but the active file is '
                f'{" of the format ".join(files[0])}'))
        return chain.size(header)

    def _put_on_top(self, instance: Instance, guest: xml.Guest, volume: disk.Volume, fresh: disk.DiskSource,
                    size: int) -> None:
        before, uuid = volume.source, guest.uuid
        if self._guests.is_active(uuid):
            with self._at_rest(instance, guest):
                # Record the new file before QEMU uses it. After a crash, a start with the empty overlay loses no data,
                # but a start with the old file would lose the writes to the overlay.
                volume.source = fresh
                self._storage.save(guest)
                try:
                    if not self._hypervisor.guest(CREATE, uuid, operations.put_on_top, volume.target, fresh, size):
                        raise exception.VirtError(operation=CREATE, reason=OTHER_SIZE)
                except (exception.VirtError, exception.GuestNotFound):
                    if not self._uses(guest, volume):
                        volume.source = before
                        self._storage.save(guest)
                        raise
        else:
            with self._machine(CREATE, guest, volume) as (alone, target):
                if not self._hypervisor.guest(CREATE, alone, operations.has_size, target, size):
                    raise exception.VirtError(operation=CREATE, reason=OTHER_SIZE)
        volume.source = fresh
        self._keep(guest)

    def _uses(self, guest: xml.Guest, volume: disk.Volume) -> bool:
        """Return whether the guest uses the file in its record: the switch may have succeeded despite an error."""
        with contextlib.suppress(exception.VirtError, exception.GuestNotFound):
            return bool(self._hypervisor.guest(CREATE, guest.uuid, operations.uses, volume.target,
                                              xml.volume(volume, guest)))
        return False

    def _at_rest(self, instance: Instance, guest: xml.Guest) -> contextlib.AbstractContextManager[None]:
        """Quiesce the guest's file systems during the block, unless a snapshot of the server has already done so."""
        if os.path.exists(self._storage.path(guest.uuid, agent.MARK)):
            return contextlib.nullcontext()
        return self._agent.quiet(instance, guest)

    def _keep(self, guest: xml.Guest) -> None:
        self._storage.save(guest)
        self._hypervisor.run(CREATE, calls.define, guest.uuid, self._guests.domain_xml(guest))

    def delete_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str, snapshot_id: str,
                               delete_info: dict[str, str | None], report: progress.Report = progress.ignore,
                               ) -> driver.VolumeFile:
        with self._guests.operation(instance.uuid):
            guest = self._guests.record(instance.uuid)
            volume = _chained(guest, volume_id, DELETE)
            files = disk.files_of(volume.source)
            merge = chain.plan(files, delete_info.get('file_to_merge'), delete_info.get('merge_target_file'))
            if merge is not None:
                running, remote = self._guests.is_active(guest.uuid), volume.source['type'] == disk.NETWORK
                if running and remote and merge.named:
                    raise exception.VirtError(operation=DELETE, reason=NOT_NAMED)
                before, after = volume.source, disk.with_files(volume.source, merge.after)

                def note() -> None:
                    volume.source = after
                    self._storage.save(guest)
                try:
                    with self._machine(DELETE, guest, volume) as (uuid, target):
                        self._merge(uuid, target, files, merge, not remote, report, note)
                except exception.NovaException:
                    if volume.source is not before and not self._uses(guest, volume):
                        volume.source = before
                        self._storage.save(guest)
                    raise
                if remote and merge.named:
                    upper, lower = merge.named
                    self._connectors.name_below(disk.named(before, files[upper][0]), *files[lower])
                volume.source = after
                self._keep(guest)
            name, form = disk.files_of(volume.source)[0]
            return {'name': name, 'format': form}

    @contextlib.contextmanager
    def _machine(self, operation: str, guest: xml.Guest, volume: disk.Volume) -> Iterator[tuple[str, str]]:
        """Yield (uuid, target) of a domain that has the volume: the running guest, or a temporary paused machine."""
        if self._guests.is_active(guest.uuid):
            yield guest.uuid, volume.target
            return
        uuid, alone = str(uuids.uuid4()), disk.alone_volume(volume)
        self._hypervisor.run(operation, operations.start_alone, uuid, disk.alone(uuid, alone))
        try:
            yield uuid, alone.target
        finally:
            with contextlib.suppress(exception.GuestNotFound):
                self._hypervisor.guest(operation, uuid, calls.stop)

    def _merge(self, uuid: str, target: str, files: list[chain.File], merge: chain.Merge, relative: bool,
               report: progress.Report, note: Callable[[], None]) -> None:
        """Merge files of a volume.

        :param relative: see operations.begin_merge
        :param note: called if the active file changes: the new active file has all data, and QEMU switches afterwards
        :raises VirtError: the merge failed or timed out; the volume's content is unchanged
        """
        ask, active = self._hypervisor.guest, merge.commit and merge.top == 0
        present = ask(DELETE, uuid, operations.files, target)
        if present != [name for name, _form in files]:
            raise exception.VirtError(operation=DELETE, reason="the guest's files differ from its record: "
                                                               f'{", ".join(present)[:200]}')
        base = None if merge.base is None else files[merge.base][0]
        deadline = time.monotonic() + self._conf.libvirt.qemu_img_timeout
        ask(DELETE, uuid, operations.begin_merge, target, merge.commit, files[merge.top][0], base,
            relative)
        try:
            while (percent := ask(DELETE, uuid, operations.merge_percent, target)) is not None:
                if active and percent == 100:
                    note()
                    ask(DELETE, uuid, operations.end_swap, target)
                    break
                if time.monotonic() > deadline:
                    raise exception.VirtError(operation=DELETE, reason='it takes longer than [libvirt] '
                                                                       'qemu_img_timeout')
                report(percent)
                time.sleep(POLL_INTERVAL_S)
        except exception.NovaException:
            with contextlib.suppress(exception.VirtError, exception.GuestNotFound):
                ask(DELETE, uuid, operations.abort_swap, target)
            raise
        if ask(DELETE, uuid, operations.files, target) != [name for name, _form in merge.after]:
            raise exception.VirtError(operation=DELETE, reason='the merge failed')


def _chained(guest: xml.Guest, volume_id: str, operation: str) -> disk.Volume:
    """Return a file-based volume of a guest.

    :raises VirtError: the guest does not have the volume, or the volume does not support snapshots by files
    """
    volume = guest.volume(volume_id)
    if volume is None:
        raise exception.VirtError(operation=operation, reason='the guest does not have it')
    source = volume.source
    if source['type'] != 'file' and source.get('protocol') != 'nfs':
        raise exception.VirtError(operation=operation, reason='it is not a file')
    if source.get('luks') or volume.device == 'lun' or volume.shareable or guest.rescued is not None:
        raise exception.VirtError(operation=operation, reason='it is encrypted, a lun or multiattach, or its '
                                                              'server is in rescue')
    return volume
