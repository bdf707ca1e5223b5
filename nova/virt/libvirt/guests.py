"""Define, start and remove virtual machines on this host."""
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oslo_config import cfg

from nova import exception
from nova import states
from nova.hardware import cpus
from nova.hardware import fit
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import graphics
from nova.virt.libvirt import guest_power
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import cells
from nova.virt.libvirt.domain import identity
from nova.virt.libvirt.domain import machine
from nova.virt.libvirt.domain import volume_disks
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import tpm_state
from nova.virt.libvirt.platform import Platform
from nova.virt.libvirt.privileged import steps
from nova.virt.libvirt.privileged.remote import HostSteps
from nova.virt.libvirt.volumes import operations
from nova.virt.libvirt.volumes import probe
from nova.virt.libvirt.volumes.connections import VolumeConnections

LOG = logging.getLogger(__name__)


class Guests(guest_power.GuestPower):
    """Lifecycle of virtual machines on this host.

    :param host: name of this host
    :param clients: recorder of the Ceph clients of guests
    :param disk_key: function that returns the passphrase of a guest's encrypted disks for its uuid, or raises VirtError
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, storage: Storage, hypervisor: Host,
                 host_steps: HostSteps, platform: Platform, volumes: VolumeConnections,
                 clients: disk_clients.DiskClients, disk_key: Callable[[str], str]) -> None:
        super().__init__(storage, hypervisor)
        self._conf, self._host, self._steps, self._platform = conf, host, host_steps, platform
        self._volumes, self._clients, self._disk_key = volumes, clients, disk_key
        self._placing = threading.Lock()

    # ---- records ----------------------------------------------------------------------

    def describe(self, instance: Instance, request: driver.SpawnRequest, disks: list[xml.Disk],
                 boot_files: dict[str, str], known: Sequence[Any] = ()) -> xml.Guest:
        """Connect the volumes of an instance, and return its Guest. The caller saves the record.

        :param boot_files: {'kernel': path, 'ramdisk': path}; empty if the root disk is bootable
        :param known: previous Volumes of the guest; volumes that remain keep their target names
        :raises ImageUnacceptable: the image requests unknown hardware
        :raises VirtError: this host cannot connect a volume
        """
        return spec.guest(
            instance, request, self._platform.virt_type, self.storage, disks, boot_files, self._platform.traits,
            lambda machine: self._volumes.connect_all(instance, request.block_devices, machine, disks, known))

    def refresh(self, uuid: str, network_info: driver.NetworkInfo) -> xml.Guest:
        """Store the present ports and the present addresses of disks in the record of a guest. Return the record.

        :raises GuestNotFound: the guest has no record
        """
        guest = self.record(uuid)
        guest.hardware.virt_type = self._platform.virt_type
        self.storage.backends.refresh(guest)
        guest.interfaces = spec.interfaces(network_info, guest)
        self.storage.save(guest)
        return guest

    def reconnect(self, guest: xml.Guest) -> list[volume_disks.Volume]:
        """Connect the volumes with which a guest boots again, and store their present device names in its record.

        :returns: the volumes that the host's kernel attaches
        :raises VirtError: this host does not reach a volume
        """
        found = self._volumes.reconnect(guest.booted().volumes)
        if found:
            self.storage.save(guest)
        return found

    def domain_xml(self, guest: xml.Guest, save: Callable[[xml.Guest], None] | None = None) -> str:
        """Choose consoles for a guest, and CPUs for a guest without NUMA topology. Return the domain XML.

        :param save: function that saves these choices; None: save them in the guest's record
        """
        topology = self._platform.topology
        with self._placing:
            arriving = shared_storage.incoming_guests(self.storage, self._host)
            known = {other.uuid: other for other in (*arriving, *self.storage.guests())}
            others = [other for uuid, other in known.items() if uuid != guest.uuid]
            if topology is not None and guest.resources.numa is None:
                limits = fit.Overcommit(self._conf.cpu_allocation_ratio, self._conf.ram_allocation_ratio)
                guest.resources.cell, shared = cells.floating(
                    topology, guest.resources, [other.resources for other in others], limits)
                guest.resources.cpuset = cpus.show(shared)
            guest.consoles = graphics.assign(
                self._conf, guest.consoles, guest.hardware.serial_ports,
                lambda name: self.storage.path(guest.uuid, name),
                graphics.used_ports(other.consoles for other in others))
            (save or self.storage.save)(guest)
        return xml.domain(guest, topology, self._platform.processor)

    # ---- start ------------------------------------------------------------------------

    def define(self, guest: xml.Guest) -> None:
        """Plug the ports of a guest and define it, but do not start it."""
        self._plug(guest)
        self.hypervisor.run('define the guest', calls.define, guest.uuid, self.domain_xml(guest))

    def start(self, guest: xml.Guest, await_networks: Callable[[], None] | None = None) -> None:
        """Plug the ports of a guest, define it and start it.

        :param await_networks: see SpawnRequest; called when the guest is started but still paused
        """
        if await_networks is None and not disk_clients.images_of(guest):
            self._prepare(guest)
            self._plug(guest)
            self.hypervisor.run('start the guest', calls.define_and_start, guest.uuid, self.domain_xml(guest))
            return
        self.start_paused(guest)
        if await_networks is not None:
            await_networks()
        self.hypervisor.guest('start the guest', guest.uuid, calls.start)

    def start_paused(self, guest: xml.Guest) -> None:
        """Start a guest, paused before its first instruction, so that libvirt creates its devices."""
        self._prepare(guest)
        self._plug(guest)
        with self._opening_disks(guest):
            self.hypervisor.run('start the guest', calls.define_and_pause, guest.uuid, self.domain_xml(guest))

    def power_on(self, uuid: str, network_info: driver.NetworkInfo) -> None:
        """Start a guest that is off. If the guest is suspended or paused, resume it.

        :raises GuestNotFound: the guest has no record
        """
        try:
            state = self.hypervisor.power_state(uuid)
        except exception.GuestNotFound:
            state = states.SHUTDOWN
        if state == states.SHUTDOWN:
            guest = self.refresh(uuid, network_info)
            self.reconnect(guest)
            self.start(guest)
            return
        if state == states.POWER_SUSPENDED:
            guest = self.record(uuid)
            if found := self.reconnect(guest):
                self.hypervisor.guest('renew the devices', uuid, calls.renew_saved_devices,
                                      {volume.target: volume.source['path'] for volume in found})
            self._prepare(guest)
            self._plug(guest)
            with self._opening_disks(guest):
                self.hypervisor.guest('start the guest', uuid, calls.start_paused)
        elif state == states.POWER_PAUSED:       # a process that was killed may not have recorded the clients
            self._clients.record_open(self.record(uuid))
        self.hypervisor.guest('start the guest', uuid, calls.start)

    @contextlib.contextmanager
    def _opening_disks(self, guest: xml.Guest) -> Iterator[None]:
        """Record the Ceph clients of the guest that the block starts. If recording or start fails, stop the guest."""
        try:
            with self._clients.starting(guest):
                yield
        except exception.NovaException:
            with contextlib.suppress(exception.GuestNotFound):
                self.hypervisor.guest('stop the guest', guest.uuid, calls.stop)
            raise

    def _prepare(self, guest: xml.Guest) -> None:
        """Create libvirt's secrets for the guest's disks and volumes, and its mediated devices, before it starts or
        resumes from its saved memory.

        A classic rescue boots without the volumes, so it can start while their storage is unreachable.
        Secrets are lost when libvirt restarts, and mediated devices are lost when the host restarts.

        :raises VirtError: a storage does not respond
        """
        volumes = guest.booted().volumes
        probe.check(volumes)
        guest.resources.memory_source = self._platform.memory_source
        self._volumes.define_secrets(volumes)
        self._volumes.define_keys(guest.uuid, volumes)
        if calls.needs_mediated(guest.hostdevs):
            self.hypervisor.run('make the mediated devices', calls.ensure_mediated, guest.uuid, guest.hostdevs)
        if any(disk.secret for disk in guest.files()):
            self.hypervisor.run('keep a key', operations.define_passphrase, guest.uuid, guest.uuid,
                                self._disk_key(guest.uuid))

    def _plug(self, guest: xml.Guest) -> None:
        for port in guest.ports():
            self._steps.plug(guest.uuid, port)

    # ---- removal ----------------------------------------------------------------------

    def remove(self, uuid: str, keep_disks: bool = False, keep_machine: bool = False) -> None:
        """Stop a guest, and remove its definition, ports, devices and files; no error if it does not exist.

        :param keep_disks: preserve the directory of the guest
        :param keep_machine: preserve the UEFI variables and the TPM state
        """
        guest = self.storage.load(uuid)
        # the TPM state is stored by uuid, so the guest in a resize backup needs the state, too
        keep_state = keep_disks or keep_machine or self.storage.load_backup(uuid) is not None
        with contextlib.suppress(exception.GuestNotFound):
            self.hypervisor.guest('remove the guest', uuid, calls.undefine, keep_state)
        if guest is not None and any(disk.secret for disk in guest.files()):
            self.hypervisor.run('forget a key', operations.forget_passphrase, uuid, uuid)
        if not keep_state:
            self._remove_tpm(uuid)
        for port in guest.ports() if guest is not None else ():
            self._steps.unplug(uuid, port)
        if guest is not None and calls.needs_mediated(guest.hostdevs):
            self.hypervisor.run('give back the mediated devices', calls.remove_mediated, uuid, guest.hostdevs)
        if not keep_disks and shared_storage.may_remove(guest, self._host):
            self.storage.remove(uuid, kept=spec.machine_files(keep_machine))

    def _remove_tpm(self, uuid: str) -> None:
        """Remove TPM state that undefine has left, because the definition was missing or had no TPM after a resize.

        Only libvirt has the right to remove the state. So define and undefine a guest with this uuid and a TPM.
        """
        if not os.path.isdir(os.path.join(tpm_state.SWTPM_DIRECTORY, uuid)):
            return
        made = xml.Guest(
            uuid, identity.Identity(f'instance-{uuid}', self.storage.directory),
            machine.Hardware(self._platform.virt_type, settings={'tpm_version': '2.0'}),
            cells.Resources(1, spec.MEMORY_MINIMUM), self.storage.path(uuid, steps.CONSOLE_LOG))
        self.hypervisor.run('remove the TPM', calls.forget, uuid, xml.domain(made))

    def undo(self, uuid: str, keep_machine: bool = False) -> None:
        """Remove the guest of a failed attempt, and disconnect its volumes. Log errors instead of raising them."""
        try:
            guest = self.storage.load(uuid)
            self.remove(uuid, keep_machine=keep_machine)
            self._volumes.disconnect(uuid, guest.volumes if guest else ())
        except (exception.VirtError, OSError):
            LOG.exception('Cannot clean up after the failed build of %s.', uuid)

    def keeps_machine(self, instance: Instance, guest: xml.Guest | None) -> bool:
        """Return whether a guest keeps its UEFI variables and TPM in a rebuild.

        If a failed rebuild has removed the record, the file ``spec.MACHINE`` describes the previous machine.

        :param guest: the record before the rebuild, or None if it does not exist
        """
        path = self.storage.path(instance.uuid, spec.MACHINE)
        if guest is not None and any(guest.hardware.settings.get(name) for name in ('firmware_type', 'tpm_version')):
            spec.MACHINE_FORMAT.write(path, {'arch': guest.hardware.arch, 'settings': guest.hardware.settings})
        try:
            machine = spec.MACHINE_FORMAT.read(path)
        except exception.RecordUnreadable as error:
            raise exception.VirtError(operation='keep the machine of the guest', reason=error.message) from None
        return machine is not None and spec.has_same_machine(machine, instance, self._platform.traits)
