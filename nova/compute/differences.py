"""Differences between this host's guests and the database: report them, and plug ports and volumes again.

A host does not change rows of servers that belong to another host. An administrator resolves such a difference with
``nova-manage state differences --settle``.
"""
import collections.abc
import logging
import typing

from nova import context
from nova import differences
from nova import exception
from nova import objects
from nova.objects.block_device import AttachedVolume
from nova import states
from nova.compute import records
from nova.compute import volumes
from nova.compute.host import Host
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

Reports = list[dict[str, typing.Any]]


def compare(guests: collections.abc.Mapping[str, int], servers: collections.abc.Mapping[str, objects.Instance],
            rows: collections.abc.Mapping[str, records.Row], host_records: records.Records) -> dict[str, str]:
    """Return {uuid: kind of nova.differences} of the differences.

    :param guests: {uuid: power state} of the driver's guests and of those that are kept for the revert of a move
    :param servers: {uuid: server} that are on this host according to their rows
    :param rows: reports of conductors about other guests
    """
    found = {}
    for uuid in guests:
        record = host_records.get(uuid)
        row = rows.get(uuid)
        if record is None or record.has_left:
            continue
        if uuid in servers:
            if record.is_newer_than(servers[uuid].generation):
                found[uuid] = differences.NEWER
        elif row is not None and row.state == states.UNKNOWN:
            found[uuid] = differences.UNKNOWN
        elif row is not None and row.state != states.DELETED_FOR_GOOD and record.is_newer_than(row.generation):
            found[uuid] = differences.NEWER
    if host_records.complete:
        found.update((uuid, differences.ABSENT) for uuid, server in servers.items()
                     if uuid not in guests and host_records.get(uuid) is None and is_settled_here(server))
        # The host's record says that the guest has left, but the row is older than the record. A server with a task is
        # skipped, because its guest may have left since ``servers`` was read.
        found.update((uuid, differences.ABSENT) for uuid, server in servers.items()
                     if (record := host_records.get(uuid)) is not None and record.has_left and uuid not in found
                     and server.task_state is None and record.is_newer_than(server.generation))
    return found


def is_settled_here(server: objects.Instance) -> bool:
    """Return whether the server has no task and a vm state in which its host should have a guest."""
    return server.task_state is None and server.vm_state not in (
        states.BUILDING, states.ERROR, states.SHELVED_OFFLOADED, states.DELETED)


class Reporter:
    """Reports differences. After an administrator resolves a difference, plugs the guest's ports and volumes again."""

    def __init__(self, host: Host, volumes: volumes.Volumes) -> None:
        self._host, self._volumes = host, volumes
        self._done: set[str] = set()
        self._plugging: set[str] = set()
        self.found: dict[str, str] = {}
        self._is_open = False            # the conductor has unresolved reports of this host

    @property
    def is_waiting(self) -> bool:
        """Return whether there are differences, or resolved differences that were not reported yet."""
        return bool(self.found or self._done or self._is_open)

    def look(self, ctx: context.RequestContext, guests: collections.abc.Mapping[str, int],
             here: collections.abc.Mapping[str, str], servers: collections.abc.Iterable[objects.Instance],
             rows: collections.abc.Mapping[str, records.Row], with_volumes: bool = False) -> None:
        """Compare and report; update the guest records (records.py) of the servers of this host.

        :param here: resources on this host, as orphans.Orphans.find returns them
        """
        mine = {server.uuid: server for server in servers}
        known = {**{uuid: states.SHUTDOWN for uuid, what in here.items() if what == records.FILES}, **guests}
        self.report(ctx, known, mine, rows, with_volumes)
        host = self._host
        for uuid in known.keys() & mine.keys():
            record, server = host.records.get(uuid), mine[uuid]
            if server.task_state is None and (
                    record is None or not record.disputed and record.generation < server.generation):
                host.records.note(server)
        for uuid in set(host.records.uuids()) - mine.keys() - here.keys() - known.keys():
            host.records.forget(uuid)
        for uuid, row in rows.items():               # the host crashed after a move, before it recorded the move
            record = host.records.get(uuid)
            if here.get(uuid) == records.RESIZE_BACKUP and record is not None and row.generation is not None and (
                    record.generation < row.generation):
                host.records.note_left(uuid, row.generation)
        host.records.finish()

    def report(self, ctx: context.RequestContext, guests: collections.abc.Mapping[str, int],
               servers: collections.abc.Mapping[str, objects.Instance],
               rows: collections.abc.Mapping[str, records.Row], with_volumes: bool) -> None:
        """Report the current differences; without differences, send a report only if the previous report had some.

        :param with_volumes: compare the volumes of guests, too
        """
        host, before = self._host, self.found
        self.found = compare(guests, servers, rows, host.records)
        with_volumes = with_volumes or self.is_waiting or bool(before)
        attached = self._attached() if with_volumes else {}
        for uuid, kind in self.found.items():
            host.records.dispute(uuid)
            if before.get(uuid) != kind:
                LOG.error('%s', _TEXTS[kind] % {'uuid': uuid, 'host': host.name})
        if not (self.is_waiting or before or with_volumes and attached):
            return
        done, self._done = self._done, set()
        try:
            answer = host.conductor.report_guests(
                ctx, host=host.name, guests=self._reports(guests, attached),
                volumes=attached if with_volumes else None, replugged=sorted(done))
        except exception.NovaException:
            self._done |= done
            raise
        self._is_open = bool((answer or {}).get('open'))
        for uuid in (answer or {}).get('resolved', ()):
            if uuid not in self._plugging and uuid not in done:
                self._plugging.add(uuid)
                host.queue.submit(uuid, self._plug, ctx, uuid)

    def _attached(self) -> dict[str, dict[str, AttachedVolume]]:
        volumes = self._host.driver.get_feature(virt.Volumes)
        return volumes.attached_volumes() if volumes else {}

    def _reports(self, guests: collections.abc.Mapping[str, int], attached: dict[str, typing.Any]) -> Reports:
        host, reports = self._host, []
        for uuid, kind in sorted(self.found.items())[:differences.MAX_REPORTS]:
            record = host.records.get(uuid)
            reports.append({
                'instance_uuid': uuid, 'kind': kind, 'generation': record.generation if record else 0,
                'power_state': guests.get(uuid, states.NOSTATE),
                'server': host.records.server(uuid) if kind in (differences.NEWER, differences.UNKNOWN) else {},
                'volumes': attached.get(uuid, {})})
        return reports

    def _plug(self, ctx: context.RequestContext, uuid: str) -> None:
        """Plug ports and volumes of a guest after its row was changed to name this host; runs in the server's queue."""
        host = self._host
        try:
            entries = host.conductor.instances_on_host(ctx, host=host.name)
            server = next((entry['instance'] for entry in entries if entry['instance'].uuid == uuid), None)
            if server is not None:
                host.set_up_networks(ctx, server)
                devices = self._volumes.connect(ctx, server, objects.RequestSpec(block_devices=[]))
                self._volumes.complete(ctx, server, devices)
                host.records.note(server)
                LOG.info('The row of server %s matches its guest on this host again.', uuid)
            self._done.add(uuid)
            self.found.pop(uuid, None)
        except (exception.NovaException, OSError) as error:
            LOG.error('Cannot plug ports and volumes of server %s yet: %s', uuid, error)
        finally:
            self._plugging.discard(uuid)


_TEXTS = {
    differences.NEWER: 'The row of server %(uuid)s is older than its guest on host %(host)s: the database was restored '
                       'from a backup. The guest is left as it is. See `nova-manage state differences`.',
    differences.UNKNOWN: 'The guest of server %(uuid)s on host %(host)s has no row. It is left as it is. See '
                         '`nova-manage state differences`.',
    differences.ABSENT: 'The row of server %(uuid)s names host %(host)s, which has never run this server. No guest '
                        'is started. See `nova-manage state differences`.',
}
