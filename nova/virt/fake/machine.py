"""State of one fake host and its guests, shared by the features of the driver."""
import contextlib
import glob
import json
import logging
import os
import pathlib
import random
import tempfile
import threading
import time
import uuid as uuidlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypedDict

import orjson

from nova import exception
from nova.objects.block_device import BlockDevice
from nova import states
from nova.json_types import Json, JsonObject
from nova.objects import pci
from nova.objects.counters import Counters
from nova.objects.instance import Instance
from nova.objects.network_info import Vif
from nova.runtime import progress
from nova.runtime import versioned_records

LOG = logging.getLogger(__name__)


Guest = TypedDict('Guest', {
    'console': list[str], 'power_state': int, 'vcpus': int, 'memory_mb': int, 'disk_gb': int,
    'networks': list[str],                       # ids of ports in the order of their plugging
    'numa_topology': str | None, 'pci_devices': list[str], 'tpm': str, 'password': str, 'rests': bool,
    'dumps': int,                                # number of memory dumps of the guest
    'ran': bool,                                 # whether the guest ran when the host was powered off
    'ahead': str,                                # destination at which the guest already runs during post-copy
    'rescue': dict[str, str | list[str]],        # {'image', 'volumes'}
    'shares': dict[str, str],                    # {id of a share: tag}
    'volumes': dict[str, str | None],            # {volume id: device name}
    'sizes': dict[str, int],                     # {volume id: GiB}
    'files': dict[str, list[str]],               # {volume id: names of files, the active file last}
    'copies': list[list[str | bool]]             # [[volume id, file of its copy, whether the guest was quiesced]]
}, total=False)
FORMAT = versioned_records.RecordFormat[Guest](
    name='record of a simulated guest', required=frozenset({'console', 'power_state'}), fields=frozenset({
        'console', 'copies', 'disk_gb', 'dumps', 'memory_mb', 'networks', 'numa_topology', 'pci_devices', 'power_state',
        'ran', 'rests', 'shares', 'tpm', 'vcpus', 'volumes'}))
INCOMING = versioned_records.RecordFormat[JsonObject](name='record of an incoming simulated guest', fields=frozenset())
Failures = dict[str, float | Exception]
CONSOLE_LINES = 1000         # maximum lines of a guest's console
HOST = 'host'                # key of the host in Machine._samples
STEPS = 10                   # number of progress reports of an operation with a delay
DISK_BYTES = MIB = 1024 * 1024      # size of a snapshot


class Machine:
    """Guests of a fake host, in memory and, if a state directory is configured, in files.

    delays     {operation: seconds}; an operation is the name of a method of the driver
    failures   {operation: fraction of the calls that fail, or an exception to raise}
    lock       reentrant lock for reads and changes of guests
    guests     {uuid: guest}
    kept       {uuid: former state} of guests that have moved away, for a revert of the move
    incoming   uuids of guests with an incomplete cold migration to this host
    foreign_guests  {uuid: power state} of guests of another program
    tpms       {uuid: content of the TPM} of guests during a rebuild
    expected   {uuid: ports and NUMA topology on this host} of guests that a live migration will bring to this host
    on_event       called with (uuid, power state) when a guest changes state without a request
    shares_disks   whether the host shares the disks of its guests with the other hosts
    maintenance    whether the host refuses new guests
    cached_images  ids of images fetched ahead of time

    ``guests_file``, ``kept_file`` and ``incoming_file`` are the paths of the files, or None without a directory.
    """

    def __init__(self, host: str, directory: str | None, delays: dict[str, str], failures: dict[str, str]) -> None:
        self.delays = {name: float(seconds) for name, seconds in delays.items()}
        self.failures: Failures = {name: float(share) for name, share in failures.items()}
        self.lock = threading.RLock()
        self.guests: dict[str, Guest] = {}
        self.kept: dict[str, Guest] = {}
        self.incoming: set[str] = set()
        self.foreign_guests: dict[str, int] = {}
        self.expected: dict[str, Guest] = {}
        self.tpms: dict[str, str] = {}
        self._samples: dict[str, int] = {}           # {uuid or HOST: number of samples until now}
        self._run = str(time.monotonic_ns())
        self.on_event: Callable[[str, int], None] = lambda uuid, power_state: None
        self.shares_disks = self.maintenance = False
        self.cached_images: list[str] = []
        self._directory = pathlib.Path(directory) if directory else None
        self.guests_file = self._directory and self._directory / f'{host}.json'
        self.kept_file = self._directory and self._directory / f'{host}.kept'
        self.incoming_file = self._directory and self._directory / f'{host}.incoming'
        self._unreadable: dict[pathlib.Path, JsonObject] = {}
        self._disks = f'snapshot-{host}-'        # prefix of the names of temporary disks

    def load(self) -> None:
        """Read the state files, and remove temporary disks that a crash left."""
        if (self._directory is None or self.guests_file is None or self.kept_file is None
                or self.incoming_file is None):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.glob(glob.escape(self._disks) + '*'):
            path.unlink()
        with self.lock:
            self.guests = self._read(self.guests_file)
            self.kept = self._read(self.kept_file)
            # the file has {uuid: record}, or a list of uuids if an older release wrote it
            self.incoming = set(map(str, _loaded(self.incoming_file)))

    def save(self) -> None:
        """Write the guests."""
        if self.guests_file is not None:
            self._replace(self.guests_file, self.guests)

    def _read(self, path: pathlib.Path) -> dict[str, Guest]:
        """Return {uuid: guest} of a file. Log unreadable records; ``_replace`` writes them back unchanged."""
        found = {}
        loaded = _loaded(path)
        for uuid, guest in loaded.items() if isinstance(loaded, dict) else ():
            try:
                found[uuid] = FORMAT.with_header(FORMAT.checked(guest, f'{uuid} in {path}'))
            except exception.RecordUnreadable as error:
                LOG.error('%s Only this guest is affected.', error.message)
                self._unreadable.setdefault(path, {})[uuid] = guest
        return found

    def _replace(self, path: pathlib.Path, guests: Mapping[str, Guest | JsonObject]) -> None:
        # no fsync, because simulated guests need not survive a power failure
        fresh = path.with_name(path.name + '.new')
        fresh.write_bytes(orjson.dumps({**self._unreadable.get(path, {}), **guests}))
        os.replace(fresh, path)

    @contextlib.contextmanager
    def operation(self, name: str, report: progress.Report = progress.ignore) -> Iterator[None]:
        """Context manager: before the with block, wait for the configured delay and raise the configured error.

        :param report: called with the percentage during the delay
        """
        seconds, steps = self.delays.get(name, 0), 1 if report is progress.ignore else STEPS
        for step in range(1, steps + 1) if seconds else ():
            time.sleep(seconds / steps)
            if step < steps:
                report(100 * step // steps)
        self.fail(name)
        yield

    @contextlib.contextmanager
    def change(self, name: str) -> Iterator[None]:
        """Like ``operation``, for a block that changes guests: hold the lock and save the guests afterwards."""
        with self.operation(name), self.lock:
            yield
            self.save()

    def fail(self, name: str) -> None:
        """Raise the exception that is configured for an operation, or a VirtError in a fraction of the calls."""
        failure = self.failures.get(name)
        if isinstance(failure, Exception):
            raise failure
        if failure and random.random() < failure:
            raise exception.VirtError(operation=name, reason='a failure was configured')

    def guest(self, instance: Instance) -> Guest:
        """Return the guest of a server.

        :raises GuestNotFound: this host does not have the guest
        """
        with self.lock:
            if instance.uuid not in self.guests:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            return self.guests[instance.uuid]

    def put(self, instance: Instance, power_state: int, network_info: list[Vif], *lines: str) -> None:
        """Create or recreate the guest of a server with these ports; add lines to its console."""
        with self.lock:
            devices = assigned_devices(instance, self.guests)
            guest = self.guests.setdefault(instance.uuid, FORMAT.with_header({'console': []}))
            guest['vcpus'], guest['memory_mb'] = instance.vcpus, instance.memory_mb
            guest['disk_gb'] = instance.root_gb + instance.ephemeral_gb
            guest['networks'] = [vif['id'] for vif in network_info]
            guest['numa_topology'] = instance.numa_topology
            guest['pci_devices'] = devices
            self.set_state(instance, power_state, *lines)

    def set_state(self, instance: Instance, power_state: int, *lines: str) -> None:
        """Set the power state of a guest; add lines to its console."""
        with self.lock:
            guest = self.guest(instance)
            guest['power_state'] = power_state
            console = [*guest['console'], *(f'{instance.hostname}: {line}' for line in lines)]
            guest['console'] = console[-CONSOLE_LINES:]
            self.save()

    def counters(self) -> dict[str, Counters]:
        """Return {uuid: Counters} of the running guests. The values increase with each call."""
        with self.lock:
            running = {uuid: guest for uuid, guest in self.guests.items() if guest['power_state'] == states.RUNNING}
            kept = {*running, HOST}
            self._samples = {name: number for name, number in self._samples.items() if name in kept}
            return {uuid: self.sample(uuid, guest.get('vcpus', 1), guest.get('memory_mb', 0))
                    for uuid, guest in running.items()}

    def sample(self, name: str, vcpus: int, memory_mb: int) -> Counters:
        """Return the next Counters of a guest or the host. The simulated load rises and falls within 16 calls."""
        with self.lock:
            number = self._samples[name] = self._samples.get(name, -1) + 1
        load = 9 * number + abs(number % 16 - 8)
        return Counters(self._run, memory_mb * MIB * (8 + number % 8) // 16, load * vcpus * 10 ** 9, *(
            load * factor for factor in (MIB, 2 * MIB, 100, 200, 300_000, 150_000, 300, 150)))

    def power_states(self) -> dict[str, int]:
        """Return {uuid: power state} of the guests."""
        with self.lock:
            return {uuid: guest['power_state'] for uuid, guest in self.guests.items()}

    def change_by_itself(self, uuid: str, power_state: int) -> None:
        """Simulate a guest that shuts down or crashes."""
        with self.lock:
            self.guests[uuid]['power_state'] = power_state
            self.save()
        self.on_event(uuid, power_state)

    def keep_volumes(self, instance: Instance, devices: list[BlockDevice]) -> None:
        """Set the initial volumes of a guest, block_device_mappings rows, and save the guests."""
        self.guests[instance.uuid]['volumes'] = {
            volume_id: device['device_name'] for device in devices
            if device.get('destination_type') == 'volume' and (volume_id := device['volume_id'])}
        self.save()

    def give_tpm(self, instance: Instance, keep: bool) -> None:
        """Give a guest the TPM preserved during a rebuild, or a new TPM with random content."""
        kept = self.tpms.pop(instance.uuid, '')
        self.guests[instance.uuid]['tpm'] = kept if keep and kept else uuidlib.uuid4().hex

    def keep(self, uuid: str, guest: Guest) -> None:
        """Store the document of a guest in ``kept``, for a revert of its move."""
        self.kept[uuid] = guest
        self._save_kept()

    def forget_kept(self, uuid: str) -> None:
        """Remove a guest from ``kept``, because its move was confirmed."""
        if self.kept.pop(uuid, None) is not None:
            self._save_kept()

    def _save_kept(self) -> None:
        if self.kept_file is not None:
            self._replace(self.kept_file, self.kept)

    def set_incoming(self, uuid: str, is_incoming: bool) -> None:
        """Record whether a cold migration of a guest to this host is incomplete."""
        if is_incoming != (uuid in self.incoming):
            (self.incoming.add if is_incoming else self.incoming.discard)(uuid)
            if self.incoming_file is not None:
                self._replace(self.incoming_file, dict.fromkeys(sorted(self.incoming), INCOMING.with_header({})))

    @contextlib.contextmanager
    def disk(self) -> Iterator[str]:
        """Yield the path of a small temporary raw disk."""
        with tempfile.NamedTemporaryFile(dir=self._directory, prefix=self._disks) as file:
            file.write(b'fake disk'.ljust(DISK_BYTES, b'\0'))
            file.flush()
            yield file.name


class Feature:
    """Base class of features that need only the machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine


def _loaded(path: pathlib.Path) -> JsonObject | list[Json]:
    """Return the JSON document of a file, or {} if the file is missing or invalid."""
    try:
        found: JsonObject | list[Json] = orjson.loads(path.read_bytes())
        return found
    except FileNotFoundError:
        return {}
    except ValueError as error:
        LOG.error('The file %s of the fake driver cannot be read: %s. The guests in it are lost.', path, error)
        return {}


_DEVICE_KEYS = ('address', 'vendor_id', 'product_id', 'dev_type', 'numa_node', 'parent_addr', 'devname')


def configured_devices(values: list[str], host: str) -> list[pci.Device]:
    """Return the devices of a host as described by [fake] pci_devices.

    :raises InvalidInput: the value of the option is invalid
    """
    try:
        decoded = [json.loads(value) for value in values]
        items = [item for value in decoded for item in (value if isinstance(value, list) else [value])]
        return [pci.Device(**{name: item[name] for name in _DEVICE_KEYS if name in item})
                for item in items if item.get('host', host) == host]
    except (ValueError, TypeError, AttributeError) as error:
        raise exception.InvalidInput(f'[fake] pci_devices: {error}') from None


def assigned_devices(instance: Instance, guests: dict[str, Guest]) -> list[str]:
    """Return PCI addresses of the instance's devices. If the instance lacks this data, read the guest's record.

    :param guests: {uuid: guest} of the host, to check that each device belongs to one guest
    :raises VirtError: another guest has one of the devices
    """
    if not instance.obj_attr_is_set('pci_devices'):
        return guests.get(instance.uuid, {}).get('pci_devices', [])
    addresses = [device.address for device in instance.devices()]
    for uuid, guest in guests.items():
        both = set(guest.get('pci_devices') or ()) & set(addresses)
        if both and uuid != instance.uuid:
            raise exception.VirtError(operation='give the guest its devices',
                                      reason=f'guest {uuid} has {", ".join(sorted(both))}')
    return addresses
