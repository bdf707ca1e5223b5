"""The driver for QEMU and KVM guests through libvirt."""
from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TYPE_CHECKING

from oslo_config import cfg

from nova import exception
from nova import states
from nova.hardware import cpus
from nova.hardware import fit
from nova.hardware import guest_option_rows
from nova.hardware import host as hardware_host
from nova.objects import numa
from nova.objects import pci
from nova.runtime import disk_space
from nova.runtime import metrics
from nova.runtime import privileges
from nova.virt import driver
from nova.virt import image_signatures
from nova.virt import metadata
from nova.virt import sandbox
from nova.virt import traits
from nova.virt.libvirt import base
from nova.virt.libvirt import capabilities
from nova.virt.libvirt import cells
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import files
from nova.virt.libvirt import graphics
from nova.virt.libvirt import guest as guests
from nova.virt.libvirt import guest_operations
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt.local_disks import guest_interfaces
from nova.virt.libvirt.local_disks import injection
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt import interfaces
from nova.virt.libvirt import isolation
from nova.virt.libvirt.moves import cold
from nova.virt.libvirt.moves import live_migration
from nova.virt.libvirt import resize
from nova.virt.libvirt.moves import fencing
from nova.virt.libvirt.moves import outgoing
from nova.virt.libvirt.moves import pool_record
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import tpm_state
from nova.virt.libvirt import spec
from nova.virt.libvirt import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.privileged import remote
from nova.virt.libvirt.privileged import steps
from nova.virt.libvirt.volumes import connectors
from nova.virt.libvirt.volumes import feature as volumes
from nova.virt.libvirt.volumes import operations as volume_operations
from nova.virt.libvirt.volumes import probe
from nova.virt.libvirt.volumes import snapshots as volume_snapshots
from nova.virt.libvirt.domain import memory
from nova.virt.libvirt.domain import offered
from nova.virt.libvirt.domain import processors
from nova.virt.libvirt.life import adoption
from nova.virt.libvirt.life import growth
from nova.virt.libvirt.life import hands
from nova.virt.libvirt.life import mediated
from nova.virt.libvirt.life import rescue
from nova.virt.libvirt.life import rescued
from nova.virt.libvirt.life import shares
from nova.virt.libvirt.life import snapshots
from nova.virt.libvirt.local_disks import ceph_rights
from nova.virt.libvirt.local_disks import configured as local_disks
from nova.virt.libvirt.local_disks import pool as pools

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance

LOG = logging.getLogger(__name__)


class LibvirtDriver(base.LibvirtBase, driver.Pause, driver.Suspend, snapshots.Snapshots,
                    guest_operations.GuestOperations, resize.Resize, driver.ImageCache, interfaces.Interfaces,
                    rescue.Rescue, growth.Growth, adoption.Adoption, volumes.Volumes,
                    volume_snapshots.VolumeFiles, shares.Shares,
                    live_migration.LiveMigration, cold.ColdMoves, driver.EncryptedDisks, driver.EncryptedVolumes):
    """See the contract in nova/virt/driver.py.

    :param inspect_image: called with (path, disk format) for every downloaded image before a tool reads it;
                          raises when the image must not be used
    :param helper: privileges.Helper with the operations of nova.virt.libvirt.privileged.remote; None: this process does
        all itself
    """

    guest_agent = True
    device_names = False

    def __init__(self, conf: cfg.ConfigOpts, host: str, images: driver.ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        super().__init__(conf, host, images, inspect_image, helper)
        options = conf.libvirt
        directory = storage.instances_directory(conf.state_path)
        self._steps = remote.RemoteSteps(helper, conf) if helper else steps.LocalSteps(conf, directory)
        self._qemu_img = self._steps.qemu_img
        self._place = local_disks.place(conf, directory, self._qemu_img, host)
        self.storage = storage.Storage(
            directory, images, self._qemu_img, inspect_image,
            self._place, options.remove_unused_base_images_after,
            disk_space.reserve_of(conf),
            image_signatures.Verifier(conf.image.certificates_directory, lambda: self.certificate).verify, host,
            self._passphrase)
        self.set_up_operations()
        self.hypervisor = hosts.Host(options.connection_uri, self.storage.directory, self.state_changed,
                                     self.answers)
        self._ceph = pools.Pool(options.images_rbd_pool, options.images_rbd_ceph_conf, options.rbd_user,
                                options.qemu_img_timeout)
        self.clients = disk_clients.DiskClients(self._ceph)
        self.connectors = connectors.Connectors(host, connectors.Way(conf.libvirt.volume_root_helper,
                                                                     conf.libvirt.volume_use_multipath,
                                                                     os.path.join(os.path.dirname(directory),
                                                                                  'os-brick')))
        self.memory_source = memory.ANONYMOUS
        self.virt_type = ''                      # this and the next are known from init_host() on
        self.topology: numa.HostTopology | None = None
        self._placing = threading.Lock()
        self._is_full = False
        self.jobs: dict[str, outgoing.Job] = {}
        self.unsettled: set[str] = set()
        self._guest_traits: frozenset[str] = frozenset()
        self._processor = processors.Processor()
        self.hands = self._hands()

    def _hands(self) -> hands.Hands:
        return hands.Hands(
            storage=self.storage, images=self.images, hypervisor=self.hypervisor,
            steps=self._steps, copy_seconds=self.conf.libvirt.qemu_img_timeout,
            share_program=self.conf.libvirt.share_program,
            operation=self.operation, recorded=self._recorded, known=self.guest_record, guest_of=self._guest_of,
            volumes_of=self.volumes_of, described=self._domain, start=self._define_and_start, define=self._define,
            define_paused=self._define_paused, power_off=self.power_off, disconnect=self.disconnect,
            remove=self._remove, undo=self._undo)

    def init_host(self) -> None:
        self.storage.prepare()
        self._prepare_qemu_img()
        injection.prepare(self.conf.libvirt.inject_partition, self.conf.libvirt.inject_network)
        self.hypervisor.connect()
        self._place.check_hypervisor(self.hypervisor)
        self.memory_source = memory.source_of(self.conf)
        facts = self.hypervisor.facts()
        self.topology, capabilities = self._topology(facts), facts['capabilities']
        wanted, able = self.conf.libvirt.virt_type, hosts.kvm_offered(capabilities)
        if wanted == 'kvm' and not able:
            raise exception.VirtError(operation='use KVM', reason='this host does not offer it; '
                                      '[libvirt] virt_type = auto falls back to emulation')
        self.virt_type = 'kvm' if able and wanted != 'qemu' else 'qemu'
        described = self.hypervisor.domain_capabilities(self.virt_type)
        self._guest_traits = offered.of(described, self.virt_type)
        self._processor = processors.choose(self.conf, described)
        settings = self._steps.qemu_settings()
        graphics.check(self.conf, settings, offered.graphics(described))
        self.found_weaknesses = isolation.of_this_host(capabilities, settings)
        for weakness in self.found_weaknesses:
            LOG.warning('GUESTS ARE NOT KEPT APART: %s', weakness)
        metrics.WEAKNESSES.watch(self, lambda watched: {(): len(watched.weaknesses)})
        LOG.info('Guests run with %s below %s.', self.virt_type, self.storage.directory)
        self.settle_migrations()
        self.remove_unused_images()
        self.thaw_what_a_crash_left()
        self._check_fence()

    def _check_fence(self) -> None:
        """Say at the start, and not at the first evacuation, that Ceph would refuse its fence."""
        images = {image for guest in self.storage.guests() for image in disk_clients.images_of(guest)}
        if images or self.conf.libvirt.rbd_user:
            for sentence in ceph_rights.missing(self._ceph, images):
                LOG.warning('EVACUATIONS TO THIS HOST WILL STOP: %s', sentence)

    def _prepare_qemu_img(self) -> None:
        way = self._qemu_img.prepare(self.storage.directory)
        if way.startswith(sandbox.UNTRIED):
            LOG.error('The sandbox of qemu-img is tried when the disk has room again.')
        elif way == 'none':
            LOG.warning('qemu-img reads images without a sandbox, with all rights of this process: an image that '
                        'breaks it takes over this host. [libvirt] sandbox_images = true keeps it apart.')
        else:
            LOG.info('qemu-img runs in a sandbox: %s.', way)

    # ---- the host ---------------------------------------------------------------------

    def _check_room(self) -> None:
        """Say in the log when the disk gets full, and when it has room again."""
        full = self.storage.free_bytes() < disk_space.MIB
        if full and not self._is_full:
            LOG.error('The file system of %s is full. This host refuses what needs room: new guests, images, snapshots '
                      'and moves to it. Guests go on, and can be stopped and deleted.', self.storage.directory)
        elif self._is_full and not full:
            LOG.info('The file system of %s has room again.', self.storage.directory)
        self._is_full = full

    def resources(self) -> list[driver.NodeResources]:
        self._check_room()
        facts = self.hypervisor.facts()
        self.topology = self._topology(facts)
        # Firmware and swtpm may have been installed since the last report; libvirt looks for them each time.
        self._guest_traits = offered.of(self.hypervisor.domain_capabilities(self.virt_type), self.virt_type)
        return [driver.NodeResources(
            node=self.host, memory_mb=self.conf.libvirt.file_backed_memory or facts['memory_mb'],
            local_gb=self.storage.total_bytes() // storage.GIB,
            disk_available_least=self.storage.free_bytes() // storage.GIB,
            hypervisor_type='QEMU', hypervisor_version=facts['version'], host_ip=self.conf.my_ip,
            cpu_info=spec.cpu_info(facts['capabilities']),
            supported_instances=spec.supported_instances(facts['capabilities'], self.virt_type),
            uptime=driver.uptime(), numa_topology=numa.text_of_host(self.topology),
            vcpus=hardware_host.shared_count(self.topology) if self.topology else facts['vcpus'],
            pci_devices=self._devices())]

    def _devices(self) -> list[pci.Device]:
        types = self.conf.devices.enabled_mdev_types
        return [*(self.hypervisor.pci_devices() if self.conf.pci.device_spec else ()),
                *(self.hypervisor.mediated_devices(types) if types else ())]

    def cpu_flags(self, node: driver.NodeResources) -> list[str]:
        # libvirt names only those that the processor's model does not imply
        return [*super().cpu_flags(node), *traits.local_flags()]

    def guest_traits(self) -> list[str]:
        options = self.conf.image
        verifying = [guest_option_rows.TRUSTED_CERTIFICATES] if (
            options.certificates_directory or options.certificates == 'barbican') else []
        encrypting = [guest_option_rows.ENCRYPTION] if self.storage.encrypts else []
        in_files = [memory.TRAIT] if self.memory_source == memory.FILE else []
        return sorted([*self._guest_traits, *verifying, *encrypting, *in_files])

    def _topology(self, facts: dict[str, Any]) -> numa.HostTopology | None:
        """The HostTopology as the configuration leaves it to guests; None when libvirt knows of none."""
        found = hardware_host.configured(capabilities.topology(facts['capabilities']), self.conf)
        if found is None:
            return None
        return hardware_host.with_pages(found, () if self.memory_source == memory.FILE else _mounted_pages())

    def has_disks(self, instance: Instance, source: str) -> bool:
        self.storage.check_reach(instance.uuid)          # else the guest would be created again despite its disks
        pool_record.take(self.storage, instance.uuid, source, self.virt_type)
        return shared_storage.came_over(self.storage.load(instance.uuid), source, self.host)

    def fence(self, instance: Instance, former: driver.FormerHost) -> bool:
        return fencing.fence(self.storage, self._ceph, instance.uuid, former)

    def watch_disk_clients(self, record: disk_clients.Record) -> None:
        self.clients.record = record

    def guests_with_clients(self) -> list[str]:
        return [guest.uuid for guest in self.storage.guests() if disk_clients.images_of(guest)]

    def open_clients(self, uuid: str) -> dict[str, list[str] | None]:
        guest = self.storage.load(uuid)
        return {} if guest is None or not self.is_active(uuid) else self.clients.look(guest)

    # ---- life -------------------------------------------------------------------------

    def spawn(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            # what an attempt left that did not come to its end
            self._remove(uuid, keep_machine=request.keep_machine)
            self.storage.remove(uuid, again=True, kept=_files_of(request.keep_machine))   # also disks of another host
            try:
                disks, boot_files = self.storage.new_disks.create(context, instance, request)
                request.report(new_disks.MADE)
                self._inject(disks, request)
                guest = self._guest_of(instance, request, disks, boot_files)
                self.storage.save(guest)
                self._place_devices(instance, guest, request)
                self._define_and_start(guest, request.await_networks)
            except Exception as error:
                self._undo(uuid, request.keep_machine)
                if isinstance(error, OSError):
                    full = error.errno in disk_space.FULL
                    raise exception.BuildFailed(instance_id=uuid, reason=(
                        f'the disk of host {self.host} is full' if full else error.strerror)) from error
                if isinstance(error, exception.VirtError):
                    raise exception.BuildFailed(instance_id=uuid, reason=error.message) from error
                raise

    def _inject(self, disks: list[xml.Disk], request: driver.SpawnRequest) -> None:
        """Write users' files, and where the network is, into the root disk, where no config drive brings them."""
        if request.config_drive is not None:
            return
        options = self.conf.libvirt
        possible = options.inject_partition != injection.OFF and bool(disks and request.image)
        if request.injected_files and not possible:
            raise exception.VirtError(operation=injection.OPERATION, reason=(
                '[libvirt] inject_partition of this host is -2, or the server boots from a volume; a config drive '
                'brings files'))
        network = guest_interfaces.text(request.network_info) if options.inject_network and possible else None
        if request.injected_files or network is not None:
            injection.write(disks[0], request.injected_files, options.inject_partition, network)

    def _place_devices(self, instance: Instance, guest: xml.Guest, request: driver.SpawnRequest) -> None:
        """Write the addresses of tagged devices into the config drive: libvirt chooses them when it defines a guest."""
        def look() -> dict[str, list[str]]:
            self._define(guest)
            return self.device_addresses(instance)
        if found := metadata.place_devices(request.config_drive or {}, look):
            self.storage.new_disks.renew_config_drive(guest, {**(request.config_drive or {}), **found})
            self.storage.save(guest)

    def device_addresses(self, instance: Instance) -> dict[str, list[str]]:
        return self.hypervisor.guest("read the devices' addresses", instance.uuid, guests.device_addresses)

    def _undo(self, uuid: str, keep_machine: bool = False) -> None:
        try:
            guest = self.storage.load(uuid)
            self._remove(uuid, keep_machine=keep_machine)
            self.disconnect(guest.volumes if guest else ())
        except (exception.VirtError, OSError):
            LOG.exception('What a failed build left of %s could not be removed.', uuid)

    def destroy(self, context: RequestContext, instance: Instance, network_info: Any, keep_disks: bool = False,
                keep_machine: bool = False) -> None:
        with self.operation(instance.uuid):
            keep_disks = keep_disks and not self.storage.has_lost(instance.uuid)
            guest = None if keep_disks else self.storage.load(instance.uuid)
            if not keep_disks:
                self.storage.kept.forget(instance.uuid)
            self._remove(instance.uuid, keep_disks, keep_machine and self._keeps_machine(instance, guest))
            self.disconnect(guest.volumes if guest else ())
        self.remove_unused_images()

    def _keeps_machine(self, instance: Instance, guest: xml.Guest | None) -> bool:
        """Whether the firmware's variables and the TPM of a guest are those of the machine that it gets. A rebuild that
        failed has left no record of the guest: the file says what they belong to.
        """
        path = self.storage.path(instance.uuid, spec.MACHINE)
        if guest is not None and any(guest.settings.get(name) for name in ('firmware_type', 'tpm_version')):
            files.write_json(path, spec.machine_of(guest))
        machine = files.read_json(path)
        return machine is not None and spec.has_same_machine(machine, instance, self._guest_traits)

    def _remove(self, uuid: str, keep_disks: bool = False, keep_machine: bool = False) -> None:
        guest = self.storage.load(uuid)
        # what a resize has put aside has the same TPM
        keep_state = keep_disks or keep_machine or self.storage.kept.load(uuid) is not None
        with contextlib.suppress(exception.GuestNotFound):
            self.hypervisor.guest('remove the guest', uuid, guests.undefine, keep_state)
        if guest is not None and any(disk.secret for disk in rescued.files(guest)):
            self.hypervisor.run('forget a key', volume_operations.forget_passphrase, uuid, uuid)
        if not keep_state and os.path.isdir(os.path.join(tpm_state.PLACE, uuid)):
            # of a guest that libvirt has lost, or that has lost its TPM in a resize: libvirt alone may remove it
            made = xml.Guest(uuid, f'instance-{uuid}', self.storage.directory, self.virt_type, 1, spec.MEMORY_MINIMUM,
                             self.storage.path(uuid, steps.CONSOLE_LOG), settings={'tpm_version': '2.0'})
            self.hypervisor.run('remove the TPM', guests.forget, uuid, xml.domain(made))
        for port in guest.ports() if guest is not None else ():
            self._steps.unplug(uuid, port)
        if guest is not None and mediated.needed(guest.hostdevs):
            self.hypervisor.run('give back the mediated devices', mediated.remove, uuid, guest.hostdevs)
        if not keep_disks and shared_storage.may_remove(guest, self.host):
            self.storage.remove(uuid, kept=_files_of(keep_machine))

    # ---- power ------------------------------------------------------------------------

    def power_on(self, context: RequestContext, instance: Instance, network_info: Any) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            try:
                state = self.hypervisor.power_state(uuid)
            except exception.GuestNotFound:
                state = states.SHUTDOWN
            if state == states.SHUTDOWN:
                self._define_and_start(self._recorded(uuid, network_info))
                return
            if state == states.POWER_SUSPENDED:
                with self._opening(self.guest_record(uuid)):
                    self.hypervisor.guest('start the guest', uuid, guests.start_paused)
            self.hypervisor.guest('start the guest', uuid, guests.start)

    def power_on_here(self, context: RequestContext, instance: Instance, network_info: Any,
                      block_devices: list[dict[str, Any]]) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            guest = self._recorded(uuid, network_info)
            # what its record says of both is of the host that it was on
            guest.numa, guest.hostdevs = instance.numa_topology, instance.devices()
            guest.volumes = self.volumes_of(instance, block_devices, guest.machine, guest.disks, guest.volumes)
            self.storage.save(guest)
            self._define_and_start(guest)

    def reboot(self, context: RequestContext, instance: Instance, network_info: Any, hard: bool) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            guest = self._recorded(uuid, network_info)
            probe.check(guest.volumes)   # while it runs still
            with contextlib.suppress(exception.GuestNotFound):
                if hard or not self.shut_down(uuid, self.conf.libvirt.wait_soft_reboot_seconds):
                    self.hypervisor.guest('stop the guest', uuid, guests.stop_and_forget)
            self._define_and_start(guest)

    def _recorded(self, uuid: str, network_info: Any) -> xml.Guest:
        """The guest as it was built, on the networks that it has now.

        :raises GuestNotFound: nothing is recorded
        """
        guest = self.storage.load(uuid)
        if guest is None:
            raise exception.GuestNotFound(instance_id=uuid)
        guest.virt_type = self.virt_type
        self.storage.refresh(guest)
        guest.interfaces = spec.interfaces(network_info, guest)
        self.storage.save(guest)
        return guest

    def _guest_of(self, instance: Instance, request: driver.SpawnRequest, disks: list[xml.Disk],
                  boot_files: dict[str, str], known: Sequence[Any] = ()) -> xml.Guest:
        return spec.guest(
            instance, request, self.virt_type, self.storage, disks, boot_files, self._guest_traits,
            lambda machine: self.volumes_of(instance, request.block_devices, machine, disks, known))

    def _define(self, guest: xml.Guest) -> None:
        self._plug(guest)
        self.hypervisor.run('define the guest', guests.define, guest.uuid, self._domain(guest))

    def _define_and_start(self, guest: xml.Guest, await_networks: Callable[[], None] | None = None) -> None:
        """Plug the guest's ports and let it run.

        :param await_networks: see SpawnRequest; the guest is there then, and stands still until its network is ready
        """
        if await_networks is None and not disk_clients.images_of(guest):
            self._prepare(guest)
            self._plug(guest)
            self.hypervisor.run('start the guest', guests.define_and_start, guest.uuid, self._domain(guest))
            return
        self._define_paused(guest)
        if await_networks is not None:
            await_networks()
        self.hypervisor.guest('start the guest', guest.uuid, guests.start)

    def _define_paused(self, guest: xml.Guest) -> None:
        self._prepare(guest)
        self._plug(guest)
        with self._opening(guest):
            self.hypervisor.run('start the guest', guests.define_and_pause, guest.uuid, self._domain(guest))

    @contextlib.contextmanager
    def _opening(self, guest: xml.Guest) -> Iterator[None]:
        """Record the clients of Ceph that the start of a guest in the block makes; a guest whose clients are not
        recorded does not run."""
        try:
            with self.clients.starting(guest):
                yield
        except exception.NovaException:
            with contextlib.suppress(exception.GuestNotFound):
                self.hypervisor.guest('stop the guest', guest.uuid, guests.stop)
            raise

    def _prepare(self, guest: xml.Guest) -> None:
        """Give libvirt what opens the guest's disks and volumes, and make its mediated devices: neither is there any
        more after a restart of libvirt or of the host.

        :raises VirtError: a storage does not answer
        """
        probe.check(guest.volumes)
        guest.memory_source = self.memory_source
        self.define_secrets(guest.volumes)
        self.define_volume_keys(guest.uuid, guest.volumes)
        if mediated.needed(guest.hostdevs):
            self.hypervisor.run('make the mediated devices', mediated.ensure, guest.uuid, guest.hostdevs)
        if any(disk.secret for disk in rescued.files(guest)):
            self.hypervisor.run('keep a key', volume_operations.define_passphrase, guest.uuid, guest.uuid,
                                self._passphrase(guest.uuid))

    def _passphrase(self, uuid: str) -> str:
        if self.disk_key is None:
            raise exception.VirtError(operation='open the disks', reason='this service was given no keys')
        return self.disk_key(uuid)

    def _plug(self, guest: xml.Guest) -> None:
        for port in guest.ports():
            self._steps.plug(guest.uuid, port)

    def _domain(self, guest: xml.Guest, keep: bool = True) -> str:
        """The domain XML of a guest, which gets its place on the host now, when its topology does not say it, and its
        consoles.

        :param keep: write the place down; the record is not another host's
        """
        host = self.topology
        with self._placing:
            others = [other for other in self.storage.guests() if other.uuid != guest.uuid]
            if host is not None and guest.numa is None:
                limits = fit.Overcommit(self.conf.cpu_allocation_ratio, self.conf.ram_allocation_ratio)
                guest.cell, shared = cells.floating(host, guest, others, limits)
                guest.cpuset = cpus.show(shared)
            guest.consoles = graphics.assign(
                self.conf, guest.consoles, guest.serial_ports, lambda name: self.storage.path(guest.uuid, name),
                graphics.used_ports(others))
            if keep:
                self.storage.save(guest)
        return xml.domain(guest, host, self._processor)

    # ---- features ---------------------------------------------------------------------

    def pause(self, instance: Instance) -> None:
        with self.operation(instance.uuid):
            self.hypervisor.guest('pause the guest', instance.uuid, guests.pause)

    def unpause(self, instance: Instance) -> None:
        with self.operation(instance.uuid):
            self.hypervisor.guest('unpause the guest', instance.uuid, guests.unpause)
            self.after_standstill(instance.uuid)

    def suspend(self, instance: Instance) -> None:
        if any(disk.secret for disk in self.guest_record(instance.uuid).disks):
            raise exception.VirtError(operation='suspend the guest', reason='its disks are encrypted, and the file of '
                                      'its memory would not be')
        with self.operation(instance.uuid):
            self.hypervisor.guest('suspend the guest', instance.uuid, guests.save)

    def resume(self, context: RequestContext, instance: Instance, network_info: Any) -> None:
        self.power_on(context, instance, network_info)
        self.after_standstill(instance.uuid)

    def console_output(self, instance: Instance) -> bytes:
        if not self.storage.exists(instance.uuid):
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return self._steps.console(instance.uuid)


def _files_of(machine: bool) -> tuple[str, ...]:
    """Names of the files of a guest that belong to its machine, if it is to stay."""
    return (spec.NVRAM, spec.MACHINE) if machine else ()


def _mounted_pages() -> frozenset[int]:
    mounts, meminfo = (pathlib.Path(f'/proc/{name}').read_text() for name in ('mounts', 'meminfo'))
    return hardware_host.mounted_pages(mounts, meminfo)
