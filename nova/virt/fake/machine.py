"""State of one fake host: the guests on which its features operate."""
from __future__ import annotations

import contextlib
import copy
import glob
import logging
import os
import pathlib
import random
import tempfile
import threading
import time
import uuid as uuidlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from nova import exception
from nova.json_types import Json, JsonObject
from nova.objects import instance as instance_object
from nova.runtime import progress
from nova.runtime import versioned_records
from nova.virt.fake import pci

LOG = logging.getLogger(__name__)

FORMAT = versioned_records.RecordFormat(
    name='record of a simulated guest', required=frozenset({'console', 'power_state'}), fields=frozenset({
        'console', 'copies', 'disk_gb', 'dumps', 'memory_mb', 'networks', 'numa_topology', 'pci_devices', 'power_state',
        'ran', 'rests', 'shares', 'tpm', 'vcpus', 'volumes'}))
ARRIVING = versioned_records.RecordFormat(name='record of an arriving simulated guest', fields=frozenset())
CONSOLE_LINES = 1000         # maximum of each guest
STEPS = 10                   # progress reports of an operation that takes time
DISK_BYTES = 1024 * 1024     # size of a snapshot


class Machine:
    """Guests in memory and, with a state directory, in a file that outlives the process.

    delays     {operation: seconds}; operations are names of methods of the driver
    failures   {operation: share of the calls that fail, or an exception to raise}
    lock       reentrant lock for reads and changes of guests
    guests     {uuid: guest}, a dict for JSON
    kept       {uuid: former state} of guests that have moved away and may be reverted
    arriving   uuids of guests with an incomplete cold migration to this host
    foreign_guests  {uuid: power state} of guests of another program
    tpms       {uuid: content} of the TPMs of guests in a rebuild
    expected   {uuid: [port id]} of guests that will arrive by live migration
    on_event       called with (uuid, power state) when a guest changes state without a request
    shares_disks   whether the host shares the disks of its guests with the other hosts
    maintenance    whether the host refuses new guests
    cached_images  ids of images fetched ahead of time

    ``guests_file``, ``kept_file`` and ``arriving_file`` are None without a directory.
    """

    def __init__(self, host: str, directory: str | None, delays: dict[str, str], failures: dict[str, str]) -> None:
        self.delays = {name: float(seconds) for name, seconds in delays.items()}
        self.failures: dict[str, Any] = {name: float(share) for name, share in failures.items()}
        self.lock = threading.RLock()
        self.guests: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}
        self.arriving: set[str] = set()
        self.foreign_guests: dict[str, int] = {}
        self.expected: dict[str, list[str]] = {}
        self.tpms: dict[str, str] = {}
        self.on_event: Callable[[str, int], None] = lambda uuid, power_state: None
        self.shares_disks = self.maintenance = False
        self.cached_images: list[str] = []
        self._directory = pathlib.Path(directory) if directory else None
        self.guests_file = self._directory and self._directory / f'{host}.json'
        self.kept_file = self._directory and self._directory / f'{host}.kept'
        self.arriving_file = self._directory and self._directory / f'{host}.arriving'
        self._unreadable: dict[pathlib.Path, dict[str, Any]] = {}
        self._disks = f'snapshot-{host}-'        # prefix of the names of copied disks

    def load(self) -> None:
        """Read the state of an earlier process; remove the disk of a crashed snapshot."""
        if (self._directory is None or self.guests_file is None or self.kept_file is None
                or self.arriving_file is None):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.glob(glob.escape(self._disks) + '*'):
            path.unlink()
        with self.lock:
            self.guests = self._read(self.guests_file)
            self.kept = self._read(self.kept_file)
            # the file has a list of uuids, or records by uuid
            self.arriving = set(map(str, _loaded(self.arriving_file)))

    def save(self) -> None:
        """Write the guests."""
        if self.guests_file is not None:
            self._replace(self.guests_file, self.guests)

    def _read(self, path: pathlib.Path) -> dict[str, Any]:
        """Return {uuid: guest} of a file. An unreadable record is logged and preserved in the file."""
        found = {}
        loaded = _loaded(path)
        for uuid, guest in loaded.items() if isinstance(loaded, dict) else ():
            try:
                found[uuid] = FORMAT.with_header(FORMAT.checked(guest, f'{uuid} in {path}'))
            except exception.RecordUnreadable as error:
                LOG.error('%s Only this guest is affected.', error.message)
                self._unreadable.setdefault(path, {})[uuid] = guest
        return found

    def _replace(self, path: pathlib.Path, guests: dict[str, Any]) -> None:
        # no fsync, because simulated guests need not survive a power failure
        fresh = path.with_name(path.name + '.new')
        fresh.write_bytes(orjson.dumps({**self._unreadable.get(path, {}), **guests}))
        os.replace(fresh, path)

    @contextlib.contextmanager
    def operation(self, name: str, report: progress.Report = progress.ignore) -> Iterator[None]:
        """Simulate an operation with the configured delay and failure rate.

        :param report: called with the progress during the delay
        """
        seconds, steps = self.delays.get(name, 0), 1 if report is progress.ignore else STEPS
        for step in range(1, steps + 1) if seconds else ():
            time.sleep(seconds / steps)
            if step < steps:
                report(100 * step // steps)
        self.fail(name)
        yield

    def fail(self, name: str) -> None:
        """Fail with the configured rate.

        :raises VirtError: or the exception that is configured
        """
        failure = self.failures.get(name)
        if isinstance(failure, Exception):
            raise failure
        if failure and random.random() < failure:
            raise exception.VirtError(operation=name, reason='a failure was configured')

    def guest(self, instance: instance_object.Instance) -> dict[str, Any]:
        """Return the guest of a server.

        :raises GuestNotFound: this host has none
        """
        with self.lock:
            if instance.uuid not in self.guests:
                raise exception.GuestNotFound(instance_id=instance.uuid)
            return self.guests[instance.uuid]

    def put(self, instance: instance_object.Instance, power_state: int, network_info: list[Any], *lines: str) -> None:
        """Create or recreate the guest of a server with these ports; add lines to its console."""
        with self.lock:
            devices = pci.given(instance, self.guests)
            guest = self.guests.setdefault(instance.uuid, FORMAT.with_header({'console': []}))
            guest['vcpus'], guest['memory_mb'] = instance.vcpus, instance.memory_mb
            guest['disk_gb'] = instance.root_gb + instance.ephemeral_gb
            guest['networks'] = [vif['id'] for vif in network_info]
            guest['numa_topology'] = instance.numa_topology
            guest['pci_devices'] = devices
            self.set_state(instance, power_state, *lines)

    def set_state(self, instance: instance_object.Instance, power_state: int, *lines: str) -> None:
        """Set the power state of a guest; add lines to its console."""
        with self.lock:
            guest = self.guest(instance)
            guest['power_state'] = power_state
            console = [*guest['console'], *(f'{instance.hostname}: {line}' for line in lines)]
            guest['console'] = console[-CONSOLE_LINES:]
            self.save()

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

    def volumes(self, uuid: str) -> dict[str, str]:
        """Return {volume id: device name} of a guest."""
        with self.lock:
            return dict(self.guests[uuid].get('volumes', {}))

    def shares(self, uuid: str) -> dict[str, str]:
        """Return {share id: tag} of a guest."""
        with self.lock:
            return dict(self.guests[uuid].get('shares', {}))

    def keep_volumes(self, instance: instance_object.Instance, devices: list[dict[str, Any]]) -> None:
        """Set the initial volumes of a guest: block_device_mappings rows."""
        self.guests[instance.uuid]['volumes'] = {
            device['volume_id']: device['device_name'] for device in devices
            if device.get('destination_type') == 'volume'}

    def give_tpm(self, instance: instance_object.Instance, keep: bool) -> None:
        """Give a guest its preserved TPM, or a new one with unique content."""
        kept = self.tpms.pop(instance.uuid, '')
        self.guests[instance.uuid]['tpm'] = kept if keep and kept else uuidlib.uuid4().hex

    def keep(self, uuid: str, guest: dict[str, Any]) -> None:
        """Store the state of a guest for a revert."""
        self.kept[uuid] = guest
        self._save_kept()

    def bring_back(self, uuid: str) -> None:
        """Restore the stored state of a guest, if there is one."""
        if uuid in self.kept:
            self.guests[uuid] = copy.deepcopy(self.kept[uuid])

    def forget_kept(self, uuid: str) -> None:
        """Delete the stored state of a guest after the confirmation of its move."""
        if self.kept.pop(uuid, None) is not None:
            self._save_kept()

    def _save_kept(self) -> None:
        if self.kept_file is not None:
            self._replace(self.kept_file, self.kept)

    def note_arriving(self, uuid: str, arrives: bool) -> None:
        """Record whether a guest is partially transferred."""
        if arrives != (uuid in self.arriving):
            (self.arriving.add if arrives else self.arriving.discard)(uuid)
            if self.arriving_file is not None:
                self._replace(self.arriving_file, dict.fromkeys(sorted(self.arriving), ARRIVING.with_header({})))

    @contextlib.contextmanager
    def disk(self) -> Iterator[str]:
        """Yield the path of a small temporary raw disk."""
        with tempfile.NamedTemporaryFile(dir=self._directory, prefix=self._disks) as file:
            file.write(b'fake disk'.ljust(DISK_BYTES, b'\0'))
            file.flush()
            yield file.name


def _loaded(path: pathlib.Path) -> JsonObject | list[Json]:
    """Return the JSON of a file; empty if the file is missing or invalid."""
    try:
        found: JsonObject | list[Json] = orjson.loads(path.read_bytes())
        return found
    except FileNotFoundError:
        return {}
    except ValueError as error:
        LOG.error('The file %s of the fake driver cannot be read: %s. The guests in it are lost.', path, error)
        return {}
