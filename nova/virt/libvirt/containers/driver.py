"""Driver for LXC containers of libvirt.

A container runs on the host's kernel. Its root user is an unprivileged user of the host (users.py). The image is a tar
archive, unpacked into a directory that is the container's file system (unpack.py). This service reads the console
(consoles.py). The API refuses operations that containers do not support.
"""
import contextlib
import io
import logging
import tarfile
from collections.abc import Callable

from oslo_config import cfg

from nova import exception
from nova import states
from nova.context import RequestContext
from nova.disk_files import files
from nova.hardware import guest_options
from nova.objects.instance import Instance
from nova.runtime import disk_space
from nova.runtime import privileges
from nova.runtime import progress
from nova.virt import driver
from nova.virt import image_signatures
from nova.virt import traits
from nova.virt.libvirt import base
from nova.virt.libvirt import calls
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.container_root import users
from nova.virt.libvirt.containers import guests
from nova.virt.libvirt.domain import cells
from nova.virt.libvirt.domain import machine
from nova.virt.libvirt.features import pause
from nova.virt.libvirt.features import usage
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.privileged import remote
from nova.virt.libvirt.privileged import steps

LOG = logging.getLogger(__name__)

LXC = 'lxc'
SEED = 'disk.seed'                       # tar archive with the files of the config drive
SEED_PLACE = 'var/lib/cloud/seed/config_drive'           # cloud-init's directory for a config drive
# items of guest_options.settings that containers support or may ignore
BOUNDS = {'quota_cpu_shares', 'quota_cpu_period', 'quota_cpu_quota', 'os_type'}
WEAKNESS = ('Containers share the kernel of this host, its users of [libvirt] uid_maps, and the file system below {0}: '
            'a container that breaks out can access the files of all containers, and any can fill the file system.')
ARCHIVE = 'archive'  # name that nova.image.inspector gives to a plain or compressed tar archive


class ContainerDriver(base.LibvirtBase):
    """Implement the required methods of the driver interface in nova/virt/driver.py.

    :param inspect_image, helper: as in LibvirtDriver
    """

    _guests: guests.ContainerGuests

    def __init__(self, conf: cfg.ConfigOpts, host: str, images: driver.ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        super().__init__(conf, host, images, inspect_image, helper)
        directory = storage.instances_directory(conf.state_path)
        uids = users.parse('uid_maps', conf.libvirt.uid_maps)
        gids = users.parse('gid_maps', conf.libvirt.gid_maps)
        reserve = disk_space.reserve_of(conf)
        self._steps = remote.RemoteSteps(helper, conf) if helper else steps.LocalSteps(conf, directory)
        self.storage = storage.Storage(
            directory, images, self._steps.qemu_img, inspect_image and (
                lambda path, disk_format: inspect_image(path, ARCHIVE if disk_format == 'raw' else disk_format)),
            local_files.Raw(directory, self._steps.qemu_img, reserve), conf.libvirt.remove_unused_base_images_after,
            reserve,
            image_signatures.Verifier(conf.image.certificates_directory, lambda: self.certificate).verify, host)
        self.hypervisor = hosts.Host(hosts.address(conf), directory, self.report_change,
                                     lambda reason: self.on_hypervisor(reason))
        self._guests = guests.ContainerGuests(self.storage, self.hypervisor, self._steps, uids, gids)
        self.usage = usage.GuestUsage(host, self.storage, self.hypervisor, calls.container_counters)
        self.features.update({
            driver.Pause: pause.Pause(self._guests),
            driver.Interfaces: guests.Interfaces(self._guests),
            driver.ImageCache: self.storage.cache})

    def init_host(self) -> None:
        self.storage.prepare()
        self._steps.qemu_img.prepare(self.storage.directory)
        self.hypervisor.connect()
        self._weaknesses = [WEAKNESS.format(self.storage.directory)]
        LOG.warning('GUESTS ARE NOT KEPT APART: %s', self._weaknesses[0])
        self._guests.read_consoles()
        self._guests.remove_unused_images()

    def stop(self) -> None:
        self._guests.stop_consoles()
        super().stop()

    # ---- the host ---------------------------------------------------------------------

    def resources(self) -> list[driver.NodeResources]:
        facts = self.hypervisor.facts()
        return [driver.NodeResources(
            node=self.host, memory_mb=facts['memory_mb'], vcpus=facts['vcpus'],
            local_gb=self.storage.backends.total_bytes() // storage.GIB,
            disk_available_least=self.storage.backends.unused_bytes() // storage.GIB,
            cpu_info=spec.cpu_info(facts['capabilities']),
            hypervisor_type='LXC', hypervisor_version=facts['version'], host_ip=self.conf.my_ip,
            supported_instances=spec.supported_instances(facts['capabilities'], LXC), uptime=driver.uptime())]

    def cpu_flags(self, node: driver.NodeResources) -> list[str]:
        return traits.local_flags()

    # ---- lifecycle --------------------------------------------------------------------

    def spawn(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            self._guests.remove(uuid)    # remove the guest of an interrupted attempt
            try:
                self._check(instance, request)
                guest = self._guest_of(instance, request)
                self._create(context, instance, request)
                self.storage.save(guest)
                self._guests.start(guest)
            except (exception.VirtError, OSError) as error:
                self._guests.undo(uuid)
                reason = error.message if isinstance(error, exception.VirtError) else error.strerror
                raise exception.BuildFailed(instance_id=uuid, reason=reason) from error
            except Exception:
                self._guests.undo(uuid)
                raise

    @staticmethod
    def _check(instance: Instance, request: driver.SpawnRequest) -> None:
        why = ''
        if request.image is None or any(row.get('destination_type') == 'volume' for row in request.block_devices):
            why = 'containers have no volumes'
        elif instance.ephemeral_gb or int((instance.flavor or {}).get('swap') or 0):
            why = 'containers have no ephemeral or swap disks'
        elif instance.numa_topology or instance.devices():
            why = 'containers have no NUMA topology and no PCI devices'
        elif request.await_networks is not None or any(vif['type'] != 'bridge' for vif in request.network_info or ()):
            why = guests.PORTS
        else:
            settings = set(guest_options.settings_of(instance)) - BOUNDS
            why = f'containers do not support {", ".join(sorted(settings))}' if settings else ''
        if why:
            raise exception.BuildFailed(instance_id=instance.uuid, reason=why)

    def _guest_of(self, instance: Instance, request: driver.SpawnRequest) -> xml.Guest:
        guest = xml.Guest(
            instance.uuid,
            spec.identity_of(instance, self.storage.directory, request.image['id'] if request.image else ''),
            machine.Hardware(LXC, settings=guest_options.settings_of(instance)),
            cells.Resources(instance.vcpus, instance.memory_mb),
            self.storage.path(instance.uuid, steps.CONSOLE_LOG))
        guest.interfaces = spec.interfaces(request.network_info, guest)
        return guest

    def _create(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        """Create the directory of a container with its file system."""
        uuid = instance.uuid
        found = self.storage.cache.fetch(context, request.image,             # type: ignore[arg-type]
                                         progress.part(request.report, 0, new_disks.FETCHED))
        if found.format != 'raw':
            raise exception.ImageUnacceptable(image_id=request.image['id'], reason=(      # type: ignore[index]
                'containers need an image with the disk format raw and a tar archive as data'))
        self.storage.make_directory(uuid)
        archives = [found.path]
        given = dict(request.injected_files)
        if request.config_drive is not None:
            given = {f'{SEED_PLACE}/{name}': data for name, data in request.config_drive.items()}
        if given:
            archives.append(self.storage.path(uuid, SEED))
            _write_seed(archives[-1], given)
        room = instance.root_gb * storage.GIB or self.storage.backends.unused_bytes()
        try:
            self.storage.check_room()
            self._steps.unpack(uuid, archives, min(room, self.storage.room()))
        finally:
            files.remove(self.storage.path(uuid, SEED))

    def destroy(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo,
                keep_disks: bool = False, keep_machine: bool = False) -> None:
        with self._guests.operation(instance.uuid):
            self._guests.remove(instance.uuid, keep_disks)
        self._guests.remove_unused_images()

    # ---- power ------------------------------------------------------------------------

    def power_on(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            if self.power_state(instance) == states.SHUTDOWN:
                self._guests.start(self._guests.refresh(uuid, network_info))
            else:
                self.hypervisor.guest('start the guest', uuid, calls.start)

    def reboot(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo, hard: bool) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            guest = self._guests.refresh(uuid, network_info)
            with contextlib.suppress(exception.GuestNotFound):
                if hard or not self._guests.shut_down(uuid, self.conf.libvirt.wait_soft_reboot_seconds):
                    self.hypervisor.guest('stop the guest', uuid, calls.stop)
            self._guests.start(guest)

    def console_output(self, instance: Instance) -> bytes:
        if not self.storage.exists(instance.uuid):
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return steps.tail(self.storage.path(instance.uuid, steps.CONSOLE_LOG))


def _write_seed(path: str, given: dict[str, bytes]) -> None:
    """Write a tar archive of additional files with mode 0600, so that only the container's root can read them."""
    with open(path, 'wb', opener=files.private) as file, tarfile.open(fileobj=file, mode='w') as archive:
        for name, data in sorted(given.items()):
            member = tarfile.TarInfo(name.lstrip('/'))
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
