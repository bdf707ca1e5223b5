"""The driver for containers: libvirt's LXC.

A container has the host's kernel. Its root is an ordinary user of the host (users.py), its file system is a directory
that was unpacked from the image, a tar archive (unpack.py), and what it prints is read all the time (consoles.py).
What it lacks, this driver does not inherit: the API refuses it.
"""
from __future__ import annotations

import contextlib
import io
import logging
import os
import tarfile
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

import libvirt
from oslo_config import cfg

from nova import exception
from nova import states
from nova.disk_files import files
from nova.hardware import guest_options
from nova.runtime import disk_space
from nova.runtime import privileges
from nova.runtime import progress
from nova.virt import driver
from nova.virt import image_signatures
from nova.virt import traits
from nova.virt.libvirt import base
from nova.virt.libvirt import console
from nova.virt.libvirt import guest as guests
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt import spec
from nova.virt.libvirt import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.containers import consoles
from nova.virt.libvirt.containers import domain
from nova.virt.libvirt.containers import unpack
from nova.virt.libvirt.containers import users
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.privileged import remote
from nova.virt.libvirt.privileged import steps

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance

LOG = logging.getLogger(__name__)

LXC = 'lxc'
SEED = 'disk.seed'                       # archive with what a config drive would have
SEED_PLACE = 'var/lib/cloud/seed/config_drive'           # where cloud-init looks for one that is a directory
# Of guest_options.settings: what is carried out, and what asks for nothing
BOUNDS = {'quota_cpu_shares', 'quota_cpu_period', 'quota_cpu_quota', 'os_type'}
PORTS = 'containers have ports on bridges of the embedded network service alone'
WEAKNESS = ('Containers share the kernel of this host, its users of [libvirt] uid_maps, and the file system below {0}: '
            'one that breaks out has the files of all others, and one that writes without end fills it for all.')
ARCHIVE = 'archive'                      # of nova.image.inspector: the data of a system, which may be compressed


class ContainerDriver(base.LibvirtBase, driver.Pause, driver.ImageCache, driver.Interfaces):
    """See the contract in nova/virt/driver.py.

    :param inspect_image, helper: as of LibvirtDriver
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str, images: driver.ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        super().__init__(conf, host, images, inspect_image, helper)
        self.set_up_operations()
        directory = storage.instances_directory(conf.state_path)
        self._uids = users.parse('uid_maps', conf.libvirt.uid_maps)
        self._gids = users.parse('gid_maps', conf.libvirt.gid_maps)
        reserve = disk_space.reserve_of(conf)
        self._steps = remote.RemoteSteps(helper, conf) if helper else steps.LocalSteps(conf, directory)
        self.storage = storage.Storage(
            directory, images, self._steps.qemu_img, inspect_image and (
                lambda path, disk_format: inspect_image(path, ARCHIVE if disk_format == 'raw' else disk_format)),
            local_files.Raw(directory, self._steps.qemu_img, reserve), conf.libvirt.remove_unused_base_images_after,
            reserve,
            image_signatures.Verifier(conf.image.certificates_directory, lambda: self.certificate).verify, host)
        self.hypervisor = hosts.Host(hosts.address(conf), directory, self.state_changed, self.answers)
        self._consoles = consoles.Consoles(
            self.hypervisor, lambda uuid: self.storage.path(uuid, steps.CONSOLE_LOG))

    def init_host(self) -> None:
        self.storage.prepare()
        self._steps.qemu_img.prepare(self.storage.directory)
        self.hypervisor.connect()
        self.found_weaknesses = [WEAKNESS.format(self.storage.directory)]
        LOG.warning('GUESTS ARE NOT KEPT APART: %s', self.found_weaknesses[0])
        for uuid, state in self.hypervisor.guests().items():
            if state == states.RUNNING:
                self._consoles.add(uuid)
        self._consoles.start()
        self.remove_unused_images()

    def stop(self) -> None:
        self._consoles.stop()
        super().stop()

    # ---- the host ---------------------------------------------------------------------

    def resources(self) -> list[driver.NodeResources]:
        facts = self.hypervisor.facts()
        return [driver.NodeResources(
            node=self.host, memory_mb=facts['memory_mb'], vcpus=facts['vcpus'],
            local_gb=self.storage.total_bytes() // storage.GIB,
            disk_available_least=self.storage.unused_bytes() // storage.GIB,
            cpu_info=spec.cpu_info(facts['capabilities']),
            hypervisor_type='LXC', hypervisor_version=facts['version'], host_ip=self.conf.my_ip,
            supported_instances=spec.supported_instances(facts['capabilities'], LXC), uptime=driver.uptime())]

    def cpu_flags(self, node: driver.NodeResources) -> list[str]:
        return traits.local_flags()

    # ---- life -------------------------------------------------------------------------

    def spawn(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            self._remove(uuid)           # what an attempt left that did not come to its end
            try:
                self._check(instance, request)
                guest = self._guest_of(instance, request)
                self._create(context, instance, request)
                self.storage.save(guest)
                self._start(guest)
            except (exception.VirtError, OSError) as error:
                self._undo(uuid)
                reason = error.message if isinstance(error, exception.VirtError) else error.strerror
                raise exception.BuildFailed(instance_id=uuid, reason=reason) from error
            except Exception:
                self._undo(uuid)
                raise

    @staticmethod
    def _check(instance: Instance, request: driver.SpawnRequest) -> None:
        why = ''
        if request.image is None or any(row.get('destination_type') == 'volume' for row in request.block_devices):
            why = 'containers have no volumes'
        elif instance.ephemeral_gb or int((instance.flavor or {}).get('swap') or 0):
            why = 'containers have no other disk than the root: no ephemeral one, no swap'
        elif instance.numa_topology or instance.devices():
            why = 'containers have no NUMA topology and no PCI devices'
        elif request.await_networks is not None or any(vif['type'] != 'bridge' for vif in request.network_info or ()):
            why = PORTS
        else:
            settings = set(_settings(instance)) - BOUNDS
            why = f'containers have no machine of which to say {", ".join(sorted(settings))}' if settings else ''
        if why:
            raise exception.BuildFailed(instance_id=instance.uuid, reason=why)

    def _guest_of(self, instance: Instance, request: driver.SpawnRequest) -> xml.Guest:
        flavor, image = instance.flavor or {}, request.image or {}
        guest = xml.Guest(
            uuid=instance.uuid, name=instance.name, owner=self.storage.directory, virt_type=LXC, vcpus=instance.vcpus,
            memory_mb=instance.memory_mb, console_log=self.storage.path(instance.uuid, steps.CONSOLE_LOG),
            settings=_settings(instance),
            facts={'name': instance.display_name, 'flavor': flavor.get('name', ''),
                   'project_id': instance.project_id, 'user_id': instance.user_id, 'image_id': image.get('id', '')})
        guest.interfaces = spec.interfaces(request.network_info, guest)
        return guest

    def _create(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        """Make the directory of a container with its file system."""
        uuid = instance.uuid
        found = self.storage.cache.fetch(context, request.image,             # type: ignore[arg-type]
                                         progress.part(request.report, 0, new_disks.FETCHED))
        if found.format != 'raw':
            raise exception.ImageUnacceptable(image_id=request.image['id'], reason=(      # type: ignore[index]
                'containers are made of images with the disk format raw whose data is a tar archive'))
        os.mkdir(self.storage.path(uuid))
        os.chmod(self.storage.path(uuid), storage.DIRECTORY_MODE)
        archives = [found.path]
        given = dict(request.injected_files)
        if request.config_drive is not None:
            given = {f'{SEED_PLACE}/{name}': data for name, data in request.config_drive.items()}
        if given:
            archives.append(self.storage.path(uuid, SEED))
            _write_seed(archives[-1], given)
        room = instance.root_gb * storage.GIB or self.storage.unused_bytes()
        try:
            self.storage.check_room()
            self._steps.unpack(uuid, archives, min(room, self.storage.room()))
        finally:
            files.remove(self.storage.path(uuid, SEED))

    def _undo(self, uuid: str) -> None:
        try:
            self._remove(uuid)
        except (exception.VirtError, OSError):
            LOG.exception('What a failed build left of %s could not be removed.', uuid)

    def destroy(self, context: RequestContext, instance: Instance, network_info: Any, keep_disks: bool = False,
                keep_machine: bool = False) -> None:
        with self.operation(instance.uuid):
            self._remove(instance.uuid, keep_disks)
        self.remove_unused_images()

    def _remove(self, uuid: str, keep_disks: bool = False) -> None:
        self._consoles.remove(uuid)
        with contextlib.suppress(exception.GuestNotFound):
            self.hypervisor.guest('remove the guest', uuid, _undefine)
        if not keep_disks and self.storage.exists(uuid):
            self._steps.remove_root(uuid)
            self.storage.remove(uuid)

    # ---- power ------------------------------------------------------------------------

    def _start(self, guest: xml.Guest) -> None:
        text = domain.domain(guest, self.storage.path(guest.uuid, unpack.ROOT), self._uids, self._gids)
        self.hypervisor.run('start the guest', guests.define_and_start, guest.uuid, text)
        self._consoles.add(guest.uuid)

    def _recorded(self, uuid: str, network_info: Any) -> xml.Guest:
        guest = self.guest_record(uuid)
        guest.interfaces = spec.interfaces(network_info, guest)
        self.storage.save(guest)
        return guest

    def power_on(self, context: RequestContext, instance: Instance, network_info: Any) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            if self.power_state(instance) == states.SHUTDOWN:
                self._start(self._recorded(uuid, network_info))
            else:
                self.hypervisor.guest('start the guest', uuid, guests.start)

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        with self.operation(instance.uuid):
            super().power_off(instance, timeout)
            self._consoles.remove(instance.uuid)

    def reboot(self, context: RequestContext, instance: Instance, network_info: Any, hard: bool) -> None:
        uuid = instance.uuid
        with self.operation(uuid):
            guest = self._recorded(uuid, network_info)
            with contextlib.suppress(exception.GuestNotFound):
                if hard or not self.shut_down(uuid, self.conf.libvirt.wait_soft_reboot_seconds):
                    self.hypervisor.guest('stop the guest', uuid, guests.stop)
            self._start(guest)

    def pause(self, instance: Instance) -> None:
        with self.operation(instance.uuid):
            self.hypervisor.guest('pause the guest', instance.uuid, guests.pause)

    def unpause(self, instance: Instance) -> None:
        with self.operation(instance.uuid):
            self.hypervisor.guest('unpause the guest', instance.uuid, guests.unpause)

    # ---- ports ------------------------------------------------------------------------

    def attach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, Any]) -> None:
        with self.operation(instance.uuid):
            guest = self.guest_record(instance.uuid)
            if vif['type'] != 'bridge':
                raise exception.VirtError(operation='plug the port', reason=PORTS)
            interface, = spec.interfaces([vif], guest)
            guest.interfaces = [*(known for known in guest.interfaces if known.mac != interface.mac), interface]
            self.storage.save(guest)
            with contextlib.suppress(exception.GuestNotFound):     # it is defined with all its ports at its start
                self.hypervisor.guest('plug the port', instance.uuid, guests.plug, domain.port(interface),
                                      guests.interface_path(interface.mac))

    def detach_interface(self, context: RequestContext, instance: Instance, vif: dict[str, Any]) -> None:
        with self.operation(instance.uuid):
            guest = self.storage.load(instance.uuid)
            if guest is None:
                return
            interface, = spec.interfaces([vif], guest)
            with contextlib.suppress(exception.GuestNotFound):
                for step in (guests.ask_to_unplug, guests.undefine_device):
                    self.hypervisor.guest('unplug the port', instance.uuid, step, domain.port(interface),
                                          guests.interface_path(interface.mac))
            guest.interfaces = [known for known in guest.interfaces if known.mac != interface.mac]
            self.storage.save(guest)

    def console_output(self, instance: Instance) -> bytes:
        if not self.storage.exists(instance.uuid):
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return console.tail(self.storage.path(instance.uuid, steps.CONSOLE_LOG))


def _settings(instance: Instance) -> dict[str, str]:
    return guest_options.settings((instance.flavor or {}).get('extra_specs'), instance.image_properties)


def _undefine(found: libvirt.virDomain) -> None:
    guests.stop(found)
    found.undefine()


def _write_seed(path: str, given: dict[str, bytes]) -> None:
    """An archive with files that the image has not, of the container's root alone to read."""
    with open(path, 'wb', opener=files.private) as file, tarfile.open(fileobj=file, mode='w') as archive:
        for name, data in sorted(given.items()):
            member = tarfile.TarInfo(name.lstrip('/'))
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
