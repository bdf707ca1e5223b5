"""Differences between guests and instance rows, as hosts report them; an administrator resolves them."""
import typing

from nova import differences
from nova import exception
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.db.servers import guest_reports
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.objects.block_device import AttachedVolume
from nova.utils import dump_json

MAX_RECORD = 256 * 1024                  # maximum characters of the JSON of a server or its volumes
_TYPES = {'instance_uuid': str, 'generation': int, 'power_state': int, 'server': dict, 'volumes': dict}


class GuestDifferences(typing.TypedDict):
    """Answer to a report.

    resolved  uuids of servers whose ports and volumes the host must plug
    open      whether unresolved differences remain
    """

    resolved: list[str]
    open: bool


class GuestReports:
    """Stores the differences that hosts report; interface.py describes the RPC method."""

    def __init__(self, services: CellServices) -> None:
        self._cell_db = services.cell_db

    def report_guests(self, ctx: Context | None, host: str, guests: list[dict[str, typing.Any]],
                      volumes: dict[str, dict[str, AttachedVolume]] | None,
                      replugged: list[str]) -> GuestDifferences:
        reports = [_report(guest) for guest in guests[:differences.MAX_REPORTS]]

        def write(conn: Connection) -> tuple[set[str], bool]:
            others = [report for report in reports if not self._follows(conn, host, report)]
            followed = {report['instance_uuid'] for report in reports} - {each['instance_uuid'] for each in others}
            reported = {report['instance_uuid'] for report in others}
            if volumes is not None:
                others += [report for report in _of_volumes(conn, host, volumes)
                           if report['instance_uuid'] not in reported][:differences.MAX_REPORTS]
            return followed | guest_reports.replace(conn, host, others, replugged), bool(others)
        resolved, is_open = self._cell_db.run(write)
        return {'resolved': sorted(resolved), 'open': is_open}

    def _follows(self, conn: Connection, host: str, report: guest_reports.Report) -> bool:
        """Update the row of a server from its guest if the row names this host; return whether it was updated.

        If the row names this host, the host's report is correct and the row is outdated. A host does not choose the
        flavor of a server: an administrator must settle this difference.
        """
        if report['kind'] != differences.NEWER:
            return False
        row = instances.get_many(conn, [report['instance_uuid']]).get(report['instance_uuid'])
        if row is None or row['host'] != host or guest_reports.is_resized(row, report):
            return False
        guest_reports.follow(conn, row, report, host)
        return True


def _report(guest: dict[str, typing.Any]) -> guest_reports.Report:
    """Validate a report of a host.

    :raises InvalidInput: the report is malformed
    """
    if not isinstance(guest, dict) or guest.get('kind') not in differences.KINDS:
        raise exception.InvalidInput(reason='a report of guests has an unknown form')
    server, volumes = guest.get('server') or {}, guest.get('volumes') or {}
    values = {**guest, 'server': server, 'volumes': volumes}
    wrong = [name for name, kind in _TYPES.items() if type(values.get(name)) is not kind]
    if wrong:
        raise exception.InvalidInput(reason=f'a report of guests has missing or malformed values: {", ".join(wrong)}')
    # refuse the whole report: without its volumes, it would remove the volumes from the server's row
    if len(dump_json(volumes)) > MAX_RECORD:
        raise exception.InvalidInput(reason='a report of guests has too many volumes')
    if len(dump_json(server)) > MAX_RECORD:
        server = {}
    return {'instance_uuid': guest['instance_uuid'][:36], 'kind': guest['kind'], 'server': server,
            'volumes': volumes, 'generation': guest['generation'], 'power_state': guest['power_state']}


def _of_volumes(conn: Connection, host: str,
                volumes: dict[str, dict[str, AttachedVolume]]) -> list[guest_reports.Report]:
    rows = guest_reports.of_host(conn, host)
    # skip servers with an attachment or a detachment in progress
    for action in instance_actions.background_on_host(conn, host):
        rows.pop(action['instance_uuid'], None)
    return [{'instance_uuid': uuid, 'kind': differences.VOLUMES, 'server': {}, 'generation': 0, 'power_state': 0,
             'volumes': found} for uuid, found in volumes.items()
            if uuid in rows and len(dump_json(found)) <= MAX_RECORD
            and any(differences.of_volumes(found, dict.fromkeys(rows[uuid])))]
