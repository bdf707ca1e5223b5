"""nova-manage state differences: show and resolve differences between guests and the database rows of servers.

Hosts report differences at their start and while they run (nova/compute/differences.py). If the row of a server names
another host than the reporting one, only this command changes the row: an administrator must decide.
"""
from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Literal, TYPE_CHECKING

from nova import differences as rules
from nova import utils
from nova.cmd import tables
from nova.cmd.command_line import flag

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.cells import cells as db_cells
    from nova.db.tables.rows import GuestReportsRow
    from nova.db.tables.rows import InstancesRow

NOT_SETTLED = 3              # exit code
FRESH_S = 60             # maximum age of reports; hosts report every 15 s, and an old report could undo later changes
DELETED = 'Not settled: the record was deleted.'
# order of resolution: first the reports of hosts that have the guest. Then another host's report that it has no guest
# (ABSENT) does not set the server to ERROR.
ORDER = (rules.NEWER, rules.UNKNOWN, rules.VOLUMES, rules.ABSENT)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A host's report about a server, with the host's cell and the server's row."""

    cell: db_cells.Cell
    report: GuestReportsRow
    row: InstancesRow | None

    @property
    def uuid(self) -> str:
        return str(self.report['instance_uuid'])


def show_differences(conf: cfg.ConfigOpts, server: list[str] | None, settle: bool) -> int:
    """Show guests that differ from their rows, for example after a restore of the database.

    --settle updates the rows to match the guests. Exit code 3: unresolved differences remain.
    """
    from nova.cloud import assembly
    api_db, cells = assembly.checked_databases(conf)
    found = [each for each in read(cells) if not server or each.uuid in server]
    outcomes = settled(api_db, found, settle, conf.network.backend == 'embedded')
    tables.print_table(('Server', 'Name', 'Project', 'Difference', 'Host', 'Row', 'Settlement'), (
        (each.uuid, _of(each, 'display_name'), _of(each, 'project_id'), each.report['kind'], each.report['host'],
         None if each.row is None else f'{each.row["host"]} ({each.row["generation"]})', outcome)
        for each, outcome, _done in outcomes), 'The hosts report no differences.')
    if not found:
        return 0
    if not settle:
        print('Nothing was changed. Run the command with --settle to update the records.')
    elif any(done for _each, _outcome, done in outcomes):
        print('The hosts apply the changes to the network interfaces within a minute.')
    return 0 if all(done for _each, _outcome, done in outcomes) else NOT_SETTLED


def settled(api_db: engine.Database, found: list[Difference], settle: bool,
            ports_are_here: bool = True) -> list[tuple[Difference, str, bool]]:
    """Resolve differences. Return [(difference, sentence about the result, whether it was resolved)].

    :param settle: False: change nothing
    :param ports_are_here: whether ports are rows of the API database
    """
    guests, followed, outcomes = _guests(found), set(), []
    for each in found:
        kind, outcome = each.report['kind'], rules.settlement(each.report['kind'], guests.get(each.uuid, 0))
        done = False
        if settle and not outcome.startswith('Not settled'):
            outcome, done = _settle(api_db, each, each.uuid in followed, ports_are_here)
            if done and kind in (rules.NEWER, rules.UNKNOWN):
                followed.add(each.uuid)
        outcomes.append((each, outcome, done))
    return outcomes


def _enter_ports(api_db: engine.Database, difference: Difference) -> str:
    """Insert the missing ports of a guest; return a sentence about ports that cannot be restored."""
    import ipaddress

    from nova.db.networks import lost_ports
    from nova.network import attach
    from nova.network import ipam
    from nova.network.host import network as host_network
    server = difference.report['server']
    try:
        lost = api_db.run(lost_ports.enter, {**server, 'uuid': difference.uuid}, difference.report['host'],
                          lambda address: ipam.number_of(ipaddress.ip_address(address)), attach.has_port_security,
                          host_network.dns_label(server.get('hostname')))
    except (AttributeError, KeyError, TypeError, ValueError):
        lost = [str(vif)[:60] for vif in server.get('network_info') or ()]
    return f" Its ports {', '.join(lost)} are lost: create new ports and attach them." if lost else ''


def _of(difference: Difference, name: Literal['display_name', 'project_id']) -> str | None:
    value: str | None = difference.row[name] if difference.row else difference.report['server'].get(name)
    return value


def _guests(found: list[Difference]) -> dict[str, int]:
    """Return {uuid: number of hosts that report the guest as newer than its row (NEWER) or without a row (UNKNOWN)}."""
    counts: dict[str, int] = {}
    for each in found:
        if each.report['kind'] in (rules.NEWER, rules.UNKNOWN):
            counts[each.uuid] = counts.get(each.uuid, 0) + 1
    return counts


def read(cells: db_cells.Cells) -> list[Difference]:
    """Return the reports of all hosts, in the order in which they must be resolved."""
    from nova.db.servers import guest_reports
    from nova.db.servers import instances
    found = []
    for cell in cells.all():
        with cell.db.reader() as conn:
            reports = guest_reports.every(conn)
            rows = instances.get_many(conn, [report['instance_uuid'] for report in reports])
        found += [Difference(cell, report, rows.get(report['instance_uuid'])) for report in reports]
    return sorted(found, key=lambda each: (ORDER.index(each.report['kind']), each.uuid, each.report['host']))


def _settle(api_db: engine.Database, difference: Difference, followed: bool,
            ports_are_here: bool) -> tuple[str, bool]:
    """Resolve a difference. Return (sentence about the result, whether it was resolved)."""
    from nova.db.servers import guest_reports
    from nova.db.servers import instances
    from nova.db.volumes import guest_volumes
    cell, report, uuid = difference.cell, difference.report, difference.uuid
    host, kind = report['host'], report['kind']
    if utils.utcnow() - report['reported_at'] > datetime.timedelta(seconds=FRESH_S):
        return f'Not settled: the host has not reported for {FRESH_S} s.', False
    if kind == rules.ABSENT:
        if followed:
            cell.db.run(guest_reports.resolve, report, False)
            return 'The record now matches the guest on another host.', True

        def lose(conn: engine.Connection) -> bool:
            row = instances.get_many(conn, [uuid]).get(uuid)
            lost = row is not None and row['host'] == host and guest_reports.lose(conn, row, host)
            guest_reports.resolve(conn, report, False)
            return lost
        return ('The server is now in ERROR: its host has no guest for it.' if cell.db.run(lose)
                else 'The record has changed since the report.'), True
    try:
        with cell.db.reader() as conn:
            row = instances.get_many(conn, [uuid]).get(uuid)
            # attach no volumes and ports to a deleted server
            if kind != rules.UNKNOWN and row is None:
                return DELETED, False
            resized = kind == rules.NEWER and row is not None and guest_reports.is_resized(row, report)
            rows = guest_reports.devices_of(conn, uuid)
        if kind == rules.UNKNOWN or resized:
            api_db.run(_enter_mapping, cell.uuid, guest_reports.entered(report['server'], uuid))
        dropped = rules.of_volumes(report['volumes'], rows)[1]
        attached = api_db.run(guest_volumes.follow, uuid, _of(difference, 'project_id'), report['volumes'],
                              dropped)
    except (ValueError, guest_volumes.Held) as error:
        return f'Not settled: {error}.', False

    def write(conn: engine.Connection) -> str | None:
        row = instances.get_many(conn, [uuid]).get(uuid)
        if kind == rules.UNKNOWN and row is None:
            guest_reports.enter(conn, report, host)
        elif row is None:
            return DELETED
        elif kind == rules.NEWER:
            guest_reports.follow(conn, row, report, host)
        guest_reports.set_volumes(conn, uuid, report['volumes'], attached)
        guest_reports.resolve(conn, report, True)
        return None
    lost = _enter_ports(api_db, difference) if ports_are_here and kind in (rules.NEWER, rules.UNKNOWN) else ''
    refused = cell.db.run(write)           # last, because the host plugs the ports after this transaction
    return refused or f'The record now matches the guest on {host}.{lost}', refused is None


def _enter_mapping(conn: engine.Connection, cell_uuid: str, server: dict[str, Any]) -> None:
    """Insert the missing rows of the server into the API database, and give existing ones the flavor of the guest.

    :raises ValueError: the server is in another cell, which may build it again
    """
    from nova import objects
    from nova.db.projects import quotas
    from nova.db.servers import mappings
    from nova.db.servers import request_specs
    uuid = server['uuid']
    mapping = mappings.get(conn, uuid)
    if mapping is not None and mapping['cell_uuid'] != cell_uuid:
        raise ValueError(f'the record of the server is in cell {mapping["cell_uuid"]}')
    if mapping is None:
        mappings.insert(conn, [{
            'instance_uuid': uuid, 'cell_uuid': cell_uuid,
            **{name: server[name] for name in ('project_id', 'user_id', 'vcpus', 'memory_mb', 'created_at')}}])
    else:
        quotas.set_size(conn, uuid, server['vcpus'], server['memory_mb'])
    spec = request_specs.get_many(conn, [uuid]).get(uuid)
    if spec is not None:
        spec.flavor = server['flavor']
        request_specs.update(conn, spec)
    else:
        request_specs.insert(conn, [objects.RequestSpec(
            instance_uuid=uuid, project_id=server['project_id'], user_id=server['user_id'], flavor=server['flavor'],
            image={'id': server['image_id'], 'properties': server['image_properties']} if server['image_id'] else None,
            availability_zone=None, requested_networks=None, security_groups=[], injected_files=[],
            admin_password=None, block_devices=[], hints={}, force_host=None, force_node=None, requested_host=None,
            requested_node=None, retry_hosts=[], num_instances=1)])


COMMANDS = {'differences': show_differences}
OPTIONS = {show_differences: {
    '--server': {'metavar': 'UUID', 'action': 'append', 'help': 'show only the differences of this server; may be '
                                                                'repeated'},
    '--settle': flag('update the records to match the guests (default: only show the differences)'),
}}
EXIT_CODES = {show_differences: {NOT_SETTLED: 'unsettled differences remain'}}
