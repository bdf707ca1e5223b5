"""Fake driver: every feature of the driver interface without a hypervisor.

One process can have many fake hosts, each with a driver object. Delays and failures of operations are configurable. If
a state directory is configured, guests survive a restart of the process, like guests of a hypervisor.
"""
from collections.abc import Callable

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.objects.network_info import Vif
from nova import states
from nova.context import RequestContext
from nova.hardware import cpus
from nova.hardware import guest_options
from nova.hardware import host as hardware_host
from nova.objects import numa
from nova.objects.instance import Instance
from nova.runtime import privileges
from nova.virt import driver
from nova.virt import monitors
from nova.virt.fake import features
from nova.virt.fake import guest_operations
from nova.virt.fake import live_migration
from nova.virt.fake import machine
from nova.virt.fake import volumes


# traits that a fake host does not report, because no x86 host with KVM has them
UNLIKE_ANY_PC = frozenset({'HW_CPU_X86_AMD_SEV', 'HW_CPU_X86_AMD_SEV_ES', 'COMPUTE_VIOMMU_MODEL_SMMUV3',
                           'COMPUTE_STORAGE_BUS_LXC', 'COMPUTE_STORAGE_BUS_UML', 'COMPUTE_STORAGE_BUS_XEN',
                           'COMPUTE_NET_VIF_MODEL_NETFRONT', 'COMPUTE_NET_VIF_MODEL_SPAPR_VLAN'})
# lines that a guest writes to its console when it boots
BOOT = ('kernel starts', 'disks are there', 'network is up', 'booted')


class FakeDriver(driver.ComputeDriver):
    """Implement the required methods of the driver interface (nova/virt/driver.py) and register every feature.

    ``delays`` and ``failures`` are the dicts of the Machine. Tests may change them at run time.
    """

    real_guests = False

    def __init__(self, conf: ConfigOpts, host: str, images: driver.ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        super().__init__(conf, host, images, inspect_image, helper)
        made = self.machine = machine.Machine(host, conf.fake.state_dir, conf.fake.delays, conf.fake.failures)
        made.shares_disks = conf.fake.shares_disks
        paused, rescued, ports = features.Pause(made), features.Rescue(made), features.Interfaces(made)
        guest, stored = guest_operations.GuestOperations(made, conf.my_ip), features.Images(made, images)
        attached, volume_snapshots = volumes.Volumes(made, host, conf.my_ip), volumes.VolumeSnapshots(made)
        self.usage = features.Usage(made, host, conf)
        self.features.update({
            driver.Pause: paused, driver.Suspend: paused, driver.Snapshot: stored,
            driver.Rescue: rescued, driver.StableRescue: rescued,
            driver.Password: guest, driver.Quiesce: guest, driver.CrashDump: guest, driver.Diagnostics: guest,
            driver.Consoles: guest, driver.Screenshots: guest,
            driver.Interfaces: ports, driver.PortDevices: ports,
            driver.Volumes: attached, driver.ExtendVolume: volumes.ExtendVolume(made),
            driver.VolumeCopies: volume_snapshots, driver.AssistedSnapshots: volume_snapshots,
            driver.Shares: features.Shares(made), driver.Resize: features.Resize(made),
            driver.Growth: features.Growth(made), driver.Adoption: features.Adoption(made),
            driver.LiveMigration: live_migration.LiveMigration(made, host, conf.fake.state_dir or id(conf)),
            driver.HostControl: features.HostControl(made), driver.ImageCache: stored,
            driver.EncryptedDisks: made, driver.EncryptedVolumes: attached})

    @property
    def delays(self) -> dict[str, float]:
        return self.machine.delays

    @property
    def failures(self) -> machine.Failures:
        return self.machine.failures

    def watch(self, callback: Callable[[str, int], None]) -> None:
        self.machine.on_event = callback

    def init_host(self) -> None:
        self.machine.load()

    def resources(self) -> list[driver.NodeResources]:
        options, topology = self.conf.fake, self.numa_topology()
        used = sum(guest['disk_gb'] for guest in list(self.machine.guests.values()))
        return [driver.NodeResources(
            node=self.host, local_gb=options.local_gb, numa_topology=numa.text_of_host(topology),
            pci_devices=machine.configured_devices(options.pci_devices, self.host),
            vcpus=hardware_host.shared_count(topology) if topology else options.vcpus,
            memory_mb=sum(cell.memory for cell in topology.cells) if topology else options.memory_mb,
            hypervisor_type='fake', hypervisor_version=1000, host_ip=self.conf.my_ip,
            uptime=driver.uptime(),
            cpu_info={'arch': 'x86_64', 'model': 'fake', 'vendor': 'nova', 'features': sorted(options.cpu_features),
                      'topology': {'cores': options.vcpus, 'threads': 1, 'sockets': 1}},
            disk_available_least=max(0, options.local_gb - used),
            supported_instances=[['x86_64', 'fake', 'hvm']])]

    def numa_topology(self) -> numa.HostTopology | None:
        """Return the configured HostTopology, or None if the host has more processors than a topology supports."""
        options = self.conf.fake
        if not options.numa_cells and options.vcpus > cpus.LIMIT:
            return None
        cells = options.numa_cells or [f'{options.vcpus}:{options.memory_mb}']
        return hardware_host.configured(hardware_host.of_cells(cells), self.conf)

    def guest_traits(self) -> list[str]:
        return sorted(guest_options.every_trait() - UNLIKE_ANY_PC)

    def host_cpu_stats(self) -> dict[str, int]:
        return {**dict.fromkeys((*monitors.PARTS, 'frequency'), 0),
                **{name: int(value) for name, value in self.conf.fake.cpu_stats.items()}}

    def guests(self) -> dict[str, int]:
        return self.machine.power_states()

    def power_state(self, instance: Instance) -> int:
        return self.machine.guest(instance)['power_state']

    def spawn(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        with self.machine.operation('spawn', request.report):
            if self.machine.maintenance:
                raise exception.BuildFailed(instance_id=instance.uuid, reason='the host is in maintenance')
            for path, _content in request.injected_files:
                if '\0' in path:
                    raise exception.BuildFailed(instance_id=instance.uuid, reason='a file name with a NUL')
            with self.machine.lock:
                self.machine.guests.pop(instance.uuid, None)
                self.machine.put(instance, states.RUNNING, request.network_info, *BOOT)
                self.machine.give_tpm(instance, request.keep_machine)
                self.machine.keep_volumes(instance, request.block_devices)
            if request.await_networks is not None:
                request.await_networks()

    def destroy(self, context: RequestContext, instance: Instance, network_info: list[Vif],
                keep_disks: bool = False, keep_machine: bool = False) -> None:
        with self.machine.change('destroy'):
            guest = self.machine.guests.pop(instance.uuid, None)
            self.machine.tpms.pop(instance.uuid, None)
            if guest and keep_machine:
                self.machine.tpms[instance.uuid] = guest.get('tpm', '')
            self.machine.expected.pop(instance.uuid, None)
            self.machine.forget_kept(instance.uuid)
            self.machine.set_incoming(instance.uuid, False)

    def leftovers(self) -> dict[str, bool]:
        with self.machine.lock:
            return dict.fromkeys(self.machine.incoming - self.machine.guests.keys(), True)

    def has_disks(self, instance: Instance, source: str) -> bool:
        return self.machine.shares_disks

    def fence(self, instance: Instance, former: driver.FormerHost) -> bool:
        if former.accepts_two_writers:
            return 'fence' not in self.failures
        self.machine.fail('fence')
        return True

    def power_on(self, context: RequestContext, instance: Instance, network_info: list[Vif]) -> None:
        with self.machine.operation('power_on'):
            self.machine.put(instance, states.RUNNING, network_info, *BOOT)

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        with self.machine.operation('power_off'):
            self.machine.set_state(instance, states.SHUTDOWN, 'powered off')

    def reboot(self, context: RequestContext, instance: Instance, network_info: list[Vif],
               hard: bool) -> None:
        with self.machine.operation('reboot'):
            if hard:
                self.machine.put(instance, states.RUNNING, network_info, *BOOT)
            else:
                self.machine.set_state(instance, states.RUNNING, *BOOT)

    def console_output(self, instance: Instance) -> bytes:
        with self.machine.operation('console_output'):
            return ''.join(line + '\n' for line in self.machine.guest(instance)['console']).encode()
