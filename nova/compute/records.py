"""Guest records: local records of a host about the servers that it runs.

Path of a record: <state path>/guest-records/<host>/<uuid>.json

A database that was restored from a backup is older than the guests. The generation of a server's row increases whenever
the server's host changes. The host records this generation. The host refuses to change a guest if the row has a lower
generation (ADR 0014).
"""
import collections.abc
import contextlib
import dataclasses
import logging
import os
import threading
import typing
import urllib.parse

from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.runtime import concurrency
from nova.runtime import durable_files
from nova.runtime import versioned_records

LOG = logging.getLogger(__name__)

DIRECTORY, ENDING, COMPLETE, BOOT = 'guest-records', '.json', 'complete', 'boot'
LOCKS = 16                   # maximum number of records that are written concurrently
MAX_COMPLETED_TASKS = 16     # maximum number of completed tasks in a record
GUEST, FILES, SHARED, RESIZE_BACKUP, INCOMING = 'guest', 'files', 'shared_files', 'resize_backup', 'incoming'


@dataclasses.dataclass(frozen=True)
class Record:
    """Record of one guest.

    generation  generation of the server's row at the end of the last task of the server on this host
    completed_tasks  (request id, event) of the last tasks of the server that succeeded on this host
    has_left    the guest has left; its files are kept for a return
    disputed    the host has since seen an older row; reset by the next task or when an operator resolves the difference
    server      fields of the server (objects.Instance), as JSON
    unknown_fields  fields that only another release knows, kept for that release
    """

    generation: int
    completed_tasks: tuple[tuple[str, str], ...] = ()
    has_left: bool = False
    disputed: bool = False
    server: dict[str, typing.Any] = dataclasses.field(default_factory=dict, compare=False)
    unknown_fields: dict[str, typing.Any] = dataclasses.field(default_factory=dict, compare=False)

    def is_newer_than(self, generation: int | None) -> bool:
        """Return True if the record is disputed or newer than a row of this generation, or the generation is None."""
        return self.disputed or generation is None or generation < self.generation


FORMAT = versioned_records.RecordFormat[dict[str, typing.Any]](
    name='record of a server', fields=versioned_records.fields_of(Record),
    required=frozenset({'generation', 'completed_tasks', 'has_left', 'disputed'}))


@dataclasses.dataclass(frozen=True)
class Row:
    """State of a server as a conductor reports it.

    state       DELETED_FOR_GOOD, ELSEWHERE, NEEDED or UNKNOWN of nova.states
    generation  generation of the server's row, also of a deleted row; None: the conductor did not report it
    """

    state: str
    generation: int | None = None


def is_removable(what: str, record: Record | None, row: Row) -> bool:
    """Return whether a host may remove resources of a server: its row is newer than the record and allows the removal.

    :param what: GUEST, FILES, SHARED, RESIZE_BACKUP or INCOMING
    """
    if row.state not in states.GONE or what == SHARED and row.state != states.DELETED_FOR_GOOD:
        return False
    if record is None:
        # keep a guest without a record (of an older release, or just arrived), unless its server is deleted
        return what != GUEST or row.state == states.DELETED_FOR_GOOD
    if record.is_newer_than(row.generation) or row.generation is None:
        return False
    # a resize backup may also be removed if the generation has not changed since the guest left
    return row.state == states.DELETED_FOR_GOOD or what == RESIZE_BACKUP and record.has_left or (
        row.generation > record.generation)


def refusal(record: Record | None, instance: objects.Instance, request_id: str | None, event: str) -> str | None:
    """Return the reason to refuse a task: the task is already done, or the row is older than the record, or was older
    before (``disputed``). Else None.
    """
    if record is None:
        return None
    if (request_id, event) in record.completed_tasks:
        return f'this host has done {event} of request {request_id} already'
    if record.is_newer_than(instance.generation):
        return (f'the database has generation {instance.generation} of the server, and the record of this host has '
                f'{record.generation}{"; the host has seen an older row before" if record.disputed else ""}')
    return None


class Records:
    """Records of one host's guests.

    A failed write is logged and the record stays in memory, so that a full disk does not fail tasks.

    boot    identifier of the boot of the machine in which all guests were recovered last, or ''

    :param directory: directory of all hosts' records; None: records are in memory only
    """

    def __init__(self, directory: str | None, host: str) -> None:
        self._all = directory
        self._directory = directory and os.path.join(directory, urllib.parse.quote(host, safe=''))
        self._locks = tuple(threading.Lock() for _number in range(LOCKS))
        self._records: dict[str, Record] = {}
        self._unreadable: set[str] = set()               # uuids of unreadable records
        self.complete = False
        self.boot = ''
        if self._directory and os.path.isdir(self._directory):
            self._load(self._directory)

    def _load(self, directory: str) -> None:
        for name in os.listdir(directory):
            self.complete = self.complete or name == COMPLETE
            if name == BOOT:
                with contextlib.suppress(OSError, UnicodeDecodeError), open(os.path.join(directory, name)) as file:
                    self.boot = file.read()
            if not name.endswith(ENDING):
                continue
            try:
                found = FORMAT.read_as(os.path.join(directory, name), _record)
            except exception.RecordUnreadable as error:
                LOG.warning('%s The resources of this server are not removed from this host.', error.message)
                self._unreadable.add(name.removesuffix(ENDING))
                continue
            if found is not None:
                self._records[name.removesuffix(ENDING)] = found

    def get(self, uuid: str) -> Record | None:
        return self._records.get(uuid)

    def allows_removal(self, what: str, uuid: str, row: Row) -> bool:
        """Return whether resources of a server may be removed, see ``is_removable``.

        For an unreadable record the result is False, because a newer release may have written the record.
        """
        return uuid not in self._unreadable and is_removable(what, self.get(uuid), row)

    def uuids(self) -> list[str]:
        return list(self._records)

    def server(self, uuid: str) -> dict[str, typing.Any]:
        """Return the last recorded fields of the server, or {} without a readable record."""
        if self._directory is None:
            return self._records[uuid].server if uuid in self._records else {}
        try:
            found = FORMAT.read_as(os.path.join(self._directory, uuid + ENDING), lambda values: dict(values['server']))
        except exception.RecordUnreadable:
            return {}
        return found or {}

    def note(self, server: objects.Instance, request_id: str | None = None, event: str | None = None,
             **values: object) -> None:
        """Record that the server is on this host according to its row.

        :param request_id, event: request id and event of the task that has ended
        :param values: fields that the task has set
        """
        before = self._records.get(server.uuid)
        completed = before.completed_tasks if before else ()
        if request_id and event:
            completed = (*completed, (request_id, event))[-MAX_COMPLETED_TASKS:]
        fields = dict(server.obj_to_primitive()['nova_object.data'])
        fields.update((name, value) for name, value in values.items() if name in _PLAIN)
        for name in ('pci_devices', 'image_grant'):
            fields.pop(name, None)
        self._put(server.uuid, Record(server.generation, completed, server=fields,
                                      unknown_fields=before.unknown_fields if before else {}))

    def note_left(self, uuid: str, generation: int) -> None:
        """Record the row's new generation, and that the guest has left but its files are kept for a return."""
        before = self._records.get(uuid)
        if before is not None:
            self._put(uuid, dataclasses.replace(before, generation=generation, has_left=True,
                                                server=self.server(uuid)))

    def dispute(self, uuid: str) -> None:
        """Record that the host has seen a row that is older than the record."""
        before = self._records.get(uuid)
        if before is not None and not before.disputed:
            self._put(uuid, dataclasses.replace(before, disputed=True, server=self.server(uuid)))

    def forget(self, uuid: str) -> None:
        with self._locked(uuid):
            known = self._records.pop(uuid, None) is not None or uuid in self._unreadable
            self._unreadable.discard(uuid)
            if known and self._directory:
                try:
                    os.unlink(os.path.join(self._directory, uuid + ENDING))
                except OSError as error:
                    LOG.warning('Cannot remove the record of guest %s: %s', uuid, error)

    def finish(self) -> None:
        """Mark the records as complete: from now on, a server without a record counts as never having been here."""
        if not self.complete:
            self.complete = True
            if self._directory:
                self._write(os.path.join(self._directory, COMPLETE), b'{}')

    def note_boot(self, boot: str) -> None:
        """Record that all guests were recovered in this boot of the machine."""
        self.boot = boot
        if self._directory:
            self._write(os.path.join(self._directory, BOOT), boot.encode())

    def check_name(self, host: str, guests: collections.abc.Iterable[str]) -> None:
        """Check that guests of this hypervisor are not recorded under another host name.

        :raises InvalidInput: a guest has such a record; the host name in the configuration has changed
        """
        if self.complete or self._all is None or not os.path.isdir(self._all):  # name used before
            return
        here = {uuid + ENDING for uuid in guests if uuid not in self._records}
        own = os.path.basename(self._directory or '')
        for name in sorted(os.listdir(self._all)) if here else ():
            directory = os.path.join(self._all, name)
            if name == own or not os.path.isdir(directory):      # a file is not the directory of a host
                continue
            found = here.intersection(os.listdir(directory))
            if found:
                other = urllib.parse.unquote(name)
                raise exception.InvalidInput(reason=(
                    f'this host is named {host} ([DEFAULT] host), and {len(found)} of its guests were started by host '
                    f'{other} with the same state directory. No guest is touched. Set host = {other} again. To rename '
                    f'the host, move its servers away first, and remove {directory}.'))

    def _put(self, uuid: str, record: Record) -> None:
        with self._locked(uuid):
            self._records[uuid] = record if self._directory is None else dataclasses.replace(record, server={})
            if self._directory:
                path = os.path.join(self._directory, uuid + ENDING)
                if uuid in self._unreadable:
                    self._unreadable.remove(uuid)
                    with contextlib.suppress(OSError):
                        os.replace(path, path + '.unreadable')
                self._write(path, FORMAT.encode(utils.to_record(record)))

    def _locked(self, uuid: str) -> threading.Lock:
        """Return the lock of a server's record. Several locks allow concurrent writes for different servers."""
        return self._locks[hash(uuid) % LOCKS]

    def _write(self, path: str, content: bytes) -> None:
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            concurrency.blocking(durable_files.replace, path, content)
        except OSError as error:
            LOG.error('Cannot write %s, which is unchanged: %s', path, error.strerror)


_PLAIN = ('vm_state', 'task_state', 'power_state', 'network_info')     # columns that need no conversion to JSON


def _record(values: dict[str, typing.Any]) -> Record:
    """Return a Record without the fields of the server: they stay in the file."""
    return utils.from_known(Record, {
        **values, 'generation': int(values['generation']), 'has_left': bool(values['has_left']),
        'disputed': bool(values['disputed']), 'server': {},
        'completed_tasks': tuple((str(request), str(event)) for request, event in values['completed_tasks'])})
