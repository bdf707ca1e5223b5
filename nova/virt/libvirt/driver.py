"""Driver for QEMU and KVM guests through libvirt."""
import contextlib
import functools
import logging
import os
from collections.abc import Callable

from oslo_config import cfg

from nova import exception
from nova.context import RequestContext
from nova.disk_files import sandbox
from nova.disk_files.qemu_img import Tool
from nova.hardware import host as hardware_host
from nova.objects.block_device import BlockDevice
from nova.objects import numa
from nova.objects.instance import Instance
from nova.runtime import disk_space
from nova.runtime import metrics
from nova.runtime import privileges
from nova.virt import driver
from nova.virt import image_signatures
from nova.virt import metadata
from nova.virt import traits
from nova.virt.libvirt import base
from nova.virt.libvirt import calls
from nova.virt.libvirt import disk_backups
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import graphics
from nova.virt.libvirt import guests
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt import isolation
from nova.virt.libvirt import platform
from nova.virt.libvirt import spec
from nova.virt.libvirt.domain import offered
from nova.virt.libvirt.features import adoption
from nova.virt.libvirt.features import agent
from nova.virt.libvirt.features import cold_moves
from nova.virt.libvirt.features import consoles
from nova.virt.libvirt.features import diagnostics
from nova.virt.libvirt.features import growth
from nova.virt.libvirt.features import interfaces
from nova.virt.libvirt.features import live_migration
from nova.virt.libvirt.features import pause
from nova.virt.libvirt.features import rescue
from nova.virt.libvirt.features import resize
from nova.virt.libvirt.features import shares
from nova.virt.libvirt.features import snapshots
from nova.virt.libvirt.features import usage
from nova.virt.libvirt.features import volume_snapshots
from nova.virt.libvirt.features import volumes
from nova.virt.libvirt.local_disks import backends
from nova.virt.libvirt.local_disks import injection
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import pool as pools
from nova.virt.libvirt.local_disks import resize_backups
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import disk_transfer
from nova.virt.libvirt.moves import fencing
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.privileged import remote
from nova.virt.libvirt.privileged import steps
from nova.virt.libvirt.volumes import connections
from nova.virt.libvirt.volumes import connectors
from nova.virt.libvirt.volumes import probe
from nova.virt.libvirt.xml import Guest

LOG = logging.getLogger(__name__)


class LibvirtDriver(base.LibvirtBase):
    """Implement the required methods of the driver interface (nova/virt/driver.py) and register the features.

    :param inspect_image: function (path, disk format), called for every downloaded image before a program reads the
        image; the function raises if the image must not be used
    :param helper: privileges.Helper that runs the operations of nova.virt.libvirt.privileged.remote; None runs them in
        this process
    """

    guest_agent = True
    device_names = False
    _guests: guests.Guests

    def __init__(self, conf: cfg.ConfigOpts, host: str, images: driver.ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        super().__init__(conf, host, images, inspect_image, helper)
        options, directory = conf.libvirt, storage.instances_directory(conf.state_path)
        self._is_full = False
        self._steps = remote.RemoteSteps(helper, conf) if helper else steps.LocalSteps(conf, directory)
        self._place = backends.configured(conf, directory, self._steps.qemu_img, host)
        self.storage = storage.Storage(
            directory, images, self._steps.qemu_img, inspect_image, self._place,
            options.remove_unused_base_images_after, disk_space.reserve_of(conf),
            image_signatures.Verifier(conf.image.certificates_directory, lambda: self.certificate).verify, host,
            self._disk_passphrase)
        self.hypervisor = hosts.Host(options.connection_uri, directory, self.report_change,
                                     lambda reason: self.on_hypervisor(reason))
        self._ceph = pools.configured(options)
        self.platform = platform.Platform(conf)
        self.clients = disk_clients.DiskClients(self._ceph)
        self.connectors = connectors.Connectors(host, connectors.ConnectorOptions(
            options.volume_root_helper, options.volume_use_multipath,
            os.path.join(os.path.dirname(directory), 'os-brick')))
        self._connections = connections.VolumeConnections(conf, self.storage, self.hypervisor, self.connectors,
                                                          self._volume_passphrase, functools.partial(
                                                              shared_storage.incoming_guests, self.storage, host))
        self._guests = guests.Guests(conf, host, self.storage, self.hypervisor, self._steps, self.platform,
                                     self._connections, self.clients, self._disk_passphrase)
        self._agent = agent.Agent(self._guests)
        self._live_migration = live_migration.LiveMigration(
            conf, host, self._guests, self._steps, self.platform, self._connections, self.clients,
            disk_transfer.LibvirtAddresses(conf))
        self.usage = usage.GuestUsage(host, self.storage, self.hypervisor, calls.counters)
        self._register_features()

    def _register_features(self) -> None:
        conf, made, stored = self.conf, self._guests, self.storage
        backups = disk_backups.DiskBackups(stored, self.hypervisor, conf.libvirt.qemu_img_timeout)
        observed, shown = diagnostics.Diagnostics(made, self.platform, self._agent), consoles.Consoles(conf, made)
        ports, rescued = interfaces.Interfaces(made, self._steps), rescue.Rescue(made, self.clients)
        moves = cold_moves.ColdMoves(conf, self.host, made, self.platform, disk_transfer.LibvirtAddresses(conf))
        attached = volumes.Volumes(conf, self.host, made, self.connectors, self._connections, self.clients, backups)
        self.features.update({
            driver.Pause: pause.Pause(made, self._agent.set_clock),
            driver.Suspend: pause.Suspend(made, self._agent.set_clock),
            driver.Snapshot: snapshots.Snapshots(made, self._steps, self.images, self._agent, backups),
            driver.Rescue: rescued, driver.StableRescue: rescued,
            driver.Password: self._agent, driver.Quiesce: self._agent,
            driver.Diagnostics: observed, driver.CrashDump: observed,
            driver.Consoles: shown, driver.Screenshots: shown,
            driver.Interfaces: ports, driver.PortDevices: ports,
            driver.Volumes: attached, driver.ExtendVolume: attached, driver.VolumeCopies: attached,
            driver.AssistedSnapshots: volume_snapshots.VolumeSnapshots(conf, made, self.connectors, self._agent),
            driver.Shares: shares.Shares(made, conf.libvirt.virtiofsd_path),
            driver.Resize: resize.Resize(self.host, made, self._steps, self._connections, moves),
            driver.Growth: growth.Growth(made), driver.Adoption: adoption.Adoption(made),
            driver.LiveMigration: self._live_migration,
            driver.ImageCache: stored.cache,
            driver.EncryptedDisks: stored, driver.EncryptedVolumes: self._connections})

    def init_host(self) -> None:
        self.storage.prepare()
        _prepare_qemu_img(self._steps.qemu_img, self.storage.directory)
        injection.prepare(self.conf.libvirt.inject_partition, self.conf.libvirt.inject_network)
        self.hypervisor.connect()
        self._place.check_hypervisor(self.hypervisor)
        capabilities, described = self.platform.discover(self.hypervisor)
        settings = self._steps.qemu_settings()
        graphics.check(self.conf, settings, offered.graphics(described))
        self._weaknesses = isolation.of_this_host(capabilities, settings)
        for weakness in self._weaknesses:
            LOG.warning('GUESTS ARE NOT KEPT APART: %s', weakness)
        metrics.ISOLATION_WEAKNESSES.watch(self, lambda watched: {(): len(watched.weaknesses)})
        LOG.info('Guests run with %s below %s.', self.platform.virt_type, self.storage.directory)
        self._live_migration.settle_migrations()
        self._guests.remove_unused_images()
        self._agent.thaw_all()
        _check_fence(self.conf, self.storage, self._ceph)

    def _disk_passphrase(self, uuid: str) -> str:
        if self.disk_key is None:
            raise exception.VirtError(operation='open the disks', reason='this service has no access to the keys')
        return self.disk_key(uuid)

    def _volume_passphrase(self, uuid: str, volume_id: str) -> str:
        if self.volume_key is None:
            raise exception.VirtError(operation='open the volume', reason='this service has no access to the keys')
        return self.volume_key(uuid, volume_id)

    # ---- the host ---------------------------------------------------------------------

    def _log_room(self) -> None:
        """Log once when the file system of the guests is full, and once when it has free space again."""
        full = self.storage.free_bytes() < disk_space.MIB
        if full and not self._is_full:
            LOG.error('The file system of %s is full. This host refuses new guests, images, snapshots and moves to it. '
                      'Existing guests keep running, and can be stopped and deleted.', self.storage.directory)
        elif self._is_full and not full:
            LOG.info('The file system of %s has free space again.', self.storage.directory)
        self._is_full = full

    def resources(self) -> list[driver.NodeResources]:
        self._log_room()
        facts = self.platform.refresh(self.hypervisor)
        topology = self.platform.topology
        return [driver.NodeResources(
            node=self.host, memory_mb=self.conf.libvirt.file_backed_memory or facts['memory_mb'],
            local_gb=self.storage.backends.total_bytes() // storage.GIB,
            disk_available_least=self.storage.free_bytes() // storage.GIB,
            hypervisor_type='QEMU', hypervisor_version=facts['version'], host_ip=self.conf.my_ip,
            cpu_info=spec.cpu_info(facts['capabilities']),
            supported_instances=spec.supported_instances(facts['capabilities'], self.platform.virt_type),
            uptime=driver.uptime(), numa_topology=numa.text_of_host(topology),
            vcpus=hardware_host.shared_count(topology) if topology else facts['vcpus'],
            pci_devices=self.platform.devices(self.hypervisor))]

    def cpu_flags(self, node: driver.NodeResources) -> list[str]:
        # libvirt does not list flags that are part of the host's CPU model
        return [*super().cpu_flags(node), *traits.local_flags()]

    def guest_traits(self) -> list[str]:
        return self.platform.configured_traits(self.storage.backends.encrypts)

    def has_disks(self, instance: Instance, source: str) -> bool:
        # raise if pool disks lack a record: if this method returned False, the caller would create new disks
        self.storage.check_reach(instance.uuid)
        shared_storage.take_from_pool(self.storage, instance.uuid, source, self.platform.virt_type)
        return shared_storage.was_taken_over(self.storage.load(instance.uuid), source, self.host)

    def fence(self, instance: Instance, former: driver.FormerHost) -> bool:
        return fencing.fence(self.storage, self._ceph, instance.uuid, former)

    def watch_disk_clients(self, record: disk_clients.Record) -> None:
        self.clients.record = record

    def guests_with_clients(self) -> list[str]:
        return [guest.uuid for guest in self.storage.guests() if disk_clients.images_of(guest)]

    def open_clients(self, uuid: str) -> dict[str, list[str] | None]:
        guest = self.storage.load(uuid)
        return {} if guest is None or not self._guests.is_active(uuid) else self.clients.look(guest)

    # ---- guests -----------------------------------------------------------------------

    def spawn(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            self._guests.remove(uuid, keep_machine=request.keep_machine)   # remove the guest of an earlier attempt
            self.storage.remove(uuid, again=True,                # also removes pool disks that another host has created
                                kept=spec.machine_files(request.keep_machine))
            try:
                machine = spec.machine_of(instance, request.image, self.platform.traits)
                disks, boot_files = new_disks.create(self.storage, context, instance, request, machine)
                request.report(new_disks.MADE)
                injection.inject(self.conf.libvirt, disks, request)
                guest = self._guests.describe(instance, request, disks, boot_files)
                self.storage.save(guest)
                self._place_devices(instance, guest, request)
                self._guests.start(guest, request.await_networks)
            except Exception as error:
                self._guests.undo(uuid, request.keep_machine)
                if isinstance(error, OSError):
                    full = error.errno in disk_space.FULL
                    raise exception.BuildFailed(instance_id=uuid, reason=(
                        f'the disk of host {self.host} is full' if full else error.strerror)) from error
                if isinstance(error, exception.VirtError):
                    raise exception.BuildFailed(instance_id=uuid, reason=error.message) from error
                raise

    def _place_devices(self, instance: Instance, guest: Guest, request: driver.SpawnRequest) -> None:
        """Write the addresses of devices with a tag into the config drive, after libvirt has assigned the addresses."""
        def look() -> dict[str, list[str]]:
            self._guests.define(guest)
            return self.device_addresses(instance)
        if found := metadata.place_devices(request.config_drive or {}, look):
            new_disks.renew_config_drive(self.storage, guest, {**(request.config_drive or {}), **found})
            self.storage.save(guest)

    def device_addresses(self, instance: Instance) -> dict[str, list[str]]:
        return self.hypervisor.guest("read the devices' addresses", instance.uuid, calls.device_addresses)

    def destroy(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo,
                keep_disks: bool = False, keep_machine: bool = False) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            keep_disks = keep_disks and not self.storage.has_lost(uuid)
            guest = None if keep_disks else self.storage.load(uuid)
            if not keep_disks:
                resize_backups.forget(self.storage, uuid)
            self._guests.remove(uuid, keep_disks, keep_machine and self._guests.keeps_machine(instance, guest))
            self._connections.disconnect(uuid, guest.volumes if guest else ())
        self._guests.remove_unused_images()

    def power_on(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        with self._guests.operation(instance.uuid):
            self._guests.power_on(instance.uuid, network_info)

    def power_on_here(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo,
                      block_devices: list[BlockDevice]) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._guests.refresh(instance.uuid, network_info)
            # replace the topology, devices and connections of the previous host in the record
            guest.resources.numa, guest.hostdevs = instance.numa_topology, instance.devices()
            guest.volumes = self._connections.connect_all(instance, block_devices, guest.hardware.machine, guest.disks,
                                                          guest.volumes)
            self.storage.save(guest)
            self._guests.start(guest)

    def reboot(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo, hard: bool) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            guest = self._guests.refresh(uuid, network_info)
            self._guests.reconnect(guest)                # fail before the guest is stopped
            probe.check(guest.booted().volumes)
            with contextlib.suppress(exception.GuestNotFound):
                if hard or not self._guests.shut_down(uuid, self.conf.libvirt.wait_soft_reboot_seconds):
                    self.hypervisor.guest('stop the guest', uuid, calls.stop_and_forget)
            self._guests.start(guest)

    def console_output(self, instance: Instance) -> bytes:
        if not self.storage.exists(instance.uuid):
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return self._steps.console(instance.uuid)


def _check_fence(conf: cfg.ConfigOpts, stored: storage.Storage, ceph: pools.Pool) -> None:
    """Warn at startup if this host lacks the rights in Ceph with which an evacuation fences a failed host."""
    images = {image for guest in stored.guests() for image in disk_clients.images_of(guest)}
    if images or conf.libvirt.rbd_user:
        for sentence in fencing.missing_rights(ceph, images):
            LOG.warning('EVACUATIONS TO THIS HOST WILL STOP: %s', sentence)


def _prepare_qemu_img(tool: Tool, directory: str) -> None:
    mode = tool.prepare(directory)
    if mode.startswith(sandbox.UNTRIED):
        LOG.error('The sandbox of qemu-img is checked once the disk has free space again.')
    elif mode == 'none':
        LOG.warning('qemu-img reads images without a sandbox and with all privileges of this process: a malicious '
                    'image could take over this host. Set [libvirt] sandbox_qemu_img = true to enable the sandbox.')
    else:
        LOG.info('qemu-img runs in a sandbox: %s.', mode)
