"""A hypervisor without guests: every feature, nothing behind it.

Many hosts fit into one process, each with a driver object of its own. Operations can be made slow or made to
fail; with a state file the guests outlive the process, as real ones do.
"""
import contextlib
import glob
import os
import pathlib
import random
import tempfile
import threading
import time

import orjson

from nova import exception
from nova import states
from nova.hardware import cpus
from nova.hardware import host as hardware_host
from nova.objects import numa
from nova.virt import driver
from nova.virt import monitors
from nova.virt.fake import host_control
from nova.virt.fake import image_cache
from nova.virt.fake import inside
from nova.virt.fake import interfaces
from nova.virt.fake import live_migration
from nova.virt.fake import pci
from nova.virt.fake import rescue
from nova.virt.fake import resize
from nova.virt.fake import shares
from nova.virt.fake import volumes


# what a guest's console shows of a boot
BOOT = ('kernel starts', 'disks are there', 'network is up', 'booted')


class FakeDriver(driver.ComputeDriver, driver.Pause, driver.Suspend, driver.Snapshot, rescue.Rescue,
                 inside.Inside, live_migration.LiveMigration, resize.Resize, host_control.HostControl,
                 host_control.AssistedSnapshots, host_control.ExtendVolume, image_cache.ImageCache,
                 interfaces.Interfaces, volumes.Volumes, shares.Shares):
    """See virt/driver.py.

    delays     {operation: seconds}; operations are names of methods
    failures   {operation: share of the calls that fail, or an exception to raise}
    """

    def __init__(self, conf, host, images):
        super().__init__(conf, host, images)
        self.delays = {name: float(seconds) for name, seconds in conf.fake.delays.items()}
        self.failures = {name: float(share) for name, share in conf.fake.failures.items()}
        self._lock = threading.RLock()
        self._guests = {}
        directory = conf.fake.state_dir
        self._file = pathlib.Path(directory, f'{host}.json') if directory else None
        self._disks = f'snapshot-{host}-'        # first part of the names of the copies of disks
        self._init_live_migration()

    def init_host(self):
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            for path in self._file.parent.glob(glob.escape(self._disks) + '*'):
                path.unlink()            # of a snapshot that a crash ended
            if self._file.exists():
                with self._lock:
                    self._guests = orjson.loads(self._file.read_bytes())

    def resources(self):
        options, topology = self.conf.fake, self.numa_topology()
        used = sum(guest['disk_gb'] for guest in list(self._guests.values()))
        return [driver.NodeResources(
            node=self.host, local_gb=options.local_gb, numa_topology=numa.text_of_host(topology),
            pci_devices=pci.devices(options.pci_devices, self.host),
            vcpus=hardware_host.shared_count(topology) if topology else options.vcpus,
            memory_mb=sum(cell.memory for cell in topology.cells) if topology else options.memory_mb,
            hypervisor_type='fake', hypervisor_version=1000, host_ip=self.conf.my_ip,
            uptime=driver.uptime(),
            cpu_info={'arch': 'x86_64', 'model': 'fake', 'vendor': 'nova', 'features': sorted(options.cpu_features),
                      'topology': {'cores': options.vcpus, 'threads': 1, 'sockets': 1}},
            disk_available_least=max(0, options.local_gb - used),
            supported_instances=[['x86_64', 'fake', 'hvm']])]

    def numa_topology(self):
        """The HostTopology that the options describe; None for more processors than one may have."""
        options = self.conf.fake
        if not options.numa_cells and options.vcpus > cpus.LIMIT:
            return None
        cells = options.numa_cells or [f'{options.vcpus}:{options.memory_mb}']
        return hardware_host.configured(hardware_host.of_cells(cells), self.conf)

    def host_cpu_stats(self):
        return {**dict.fromkeys((*monitors.PARTS, 'frequency'), 0),
                **{name: int(value) for name, value in self.conf.fake.cpu_stats.items()}}

    def guests(self):
        with self._lock:
            return {uuid: guest['power_state'] for uuid, guest in self._guests.items()}

    def power_state(self, instance):
        return self._guest(instance)['power_state']

    def spawn(self, context, instance, request):
        with self._operation('spawn', instance):
            self._check_maintenance(instance)
            for path, _content in request.injected_files:
                if '\0' in path:
                    raise exception.BuildFailed(instance_id=instance.uuid, reason='a file name with a NUL')
            with self._lock:
                self._guests.pop(instance.uuid, None)
                self._put(instance, states.RUNNING, request.network_info, *BOOT)
                self._keep_volumes(instance, request.block_devices)

    def destroy(self, context, instance, network_info, keep_disks=False):
        with self._operation('destroy', instance), self._lock:
            self._guests.pop(instance.uuid, None)
            self._expected.pop(instance.uuid, None)
            self._save()
            self._forget_kept(instance.uuid)

    def has_disks(self, instance):
        return self.shares_disks

    def power_on(self, context, instance, network_info):
        with self._operation('power_on', instance):
            self._put(instance, states.RUNNING, network_info, *BOOT)

    def power_off(self, instance, timeout=0):
        with self._operation('power_off', instance):
            self._set(instance, states.SHUTDOWN, 'powered off')

    def reboot(self, context, instance, network_info, hard):
        with self._operation('reboot', instance):
            if hard:
                self._put(instance, states.RUNNING, network_info, *BOOT)
            else:
                self._set(instance, states.RUNNING, *BOOT)

    def console_output(self, instance):
        with self._operation('console_output', instance):
            return ''.join(line + '\n' for line in self._guest(instance)['console']).encode()

    def pause(self, instance):
        with self._operation('pause', instance):
            self._set(instance, states.POWER_PAUSED, 'paused')

    def unpause(self, instance):
        with self._operation('unpause', instance):
            self._set(instance, states.RUNNING, 'unpaused')

    def suspend(self, instance):
        with self._operation('suspend', instance):
            self._set(instance, states.POWER_SUSPENDED, 'suspended')

    def resume(self, context, instance, network_info):
        with self._operation('resume', instance):
            self._set(instance, states.RUNNING, 'resumed')

    def snapshot(self, context, instance, image_id, progress):
        with self._operation('snapshot', instance):
            self._guest(instance)
            progress(states.IMAGE_PENDING_UPLOAD)
            directory = self._file.parent if self._file is not None else None
            with _disk(directory, self._disks) as path:
                progress(states.IMAGE_UPLOADING)
                self.images.upload(context, image_id, path, 'raw')

    def change_by_itself(self, uuid, power_state):
        """What a guest does without being asked: shut down, crash."""
        with self._lock:
            self._guests[uuid]['power_state'] = power_state
            self._save()
        self.on_event(uuid, power_state)

    # ---- inside ----

    @contextlib.contextmanager
    def _operation(self, name, instance):
        """Take as long as configured, and fail as often."""
        if self.delays.get(name):
            time.sleep(self.delays[name])
        self._fail(name)
        yield

    def _fail(self, name):
        failure = self.failures.get(name)
        if isinstance(failure, Exception):
            raise failure
        if failure and random.random() < failure:
            raise exception.VirtError(operation=name, reason='a failure was configured')

    def _guest(self, instance):
        with self._lock:
            if instance.uuid not in self._guests:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            return self._guests[instance.uuid]

    def _put(self, instance, power_state, network_info, *lines):
        with self._lock:
            devices = pci.given(instance, self._guests)
            guest = self._guests.setdefault(instance.uuid, {'console': []})
            guest['disk_gb'] = instance.root_gb + instance.ephemeral_gb
            guest['networks'] = [vif['id'] for vif in network_info]
            guest['numa_topology'] = instance.numa_topology
            guest['pci_devices'] = devices
            self._set(instance, power_state, *lines)

    def _set(self, instance, power_state, *lines):
        with self._lock:
            guest = self._guest(instance)
            guest['power_state'] = power_state
            guest['console'] = [*guest['console'], *(f'{instance.hostname}: {line}' for line in lines)][-1000:]
            self._save()

    def _save(self):
        if self._file is not None:
            fresh = self._file.with_suffix('.new')
            fresh.write_bytes(orjson.dumps(self._guests))
            os.replace(fresh, self._file)


@contextlib.contextmanager
def _disk(directory, prefix):
    """The file of a small raw disk."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix=prefix) as file:
        file.write(b'fake disk'.ljust(1024 * 1024, b'\0'))
        file.flush()
        yield file.name
