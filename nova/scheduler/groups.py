"""Server groups in scheduling: the hosts of the members, and the hosts that the policies allow for a new member.

The table of hosts only guides the choice. ``LockedMembers`` decides in the claim's transaction.

A network locality is a name that hosts share, such as the name of a rack: ``network_locality`` in the capabilities of a
host or in the metadata of its aggregates. The policy network-proximity requires a locality that all members share.
"""
import collections
import collections.abc
import dataclasses
import functools
import typing

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import server_groups
from nova.scheduler import host_view
from nova.scheduler.placement_request import Group
from nova.scheduler.placement_request import Request

# policies under which a member's host restricts the hosts of other members; a claim's transaction checks these policies
MUTUAL = frozenset((server_groups.AFFINITY, server_groups.ANTI_AFFINITY, server_groups.PROXIMITY))
AFFINE = frozenset((server_groups.AFFINITY, server_groups.PROXIMITY))


def find(api_db: engine.Database, cells: db_cells.Cells, group_id: str, project_id: str,
         moving: str | None = None) -> Group | None:
    """Return the group with this id, or None if it does not exist.

    :param moving: see Group
    :param project_id: project of the servers; groups of other projects are ignored
    :raises NoValidHost: the policy is affinity, and members are in a cell that does not answer
    """
    with api_db.reader() as conn:
        row = server_groups.find(conn, group_id)
    if row is None or not nova_context.covers(project_id, row['project_id']):
        return None
    policies = frozenset(row['policies'])
    needed = server_groups.capabilities(row['metadata']) if server_groups.CAPABILITIES in policies else {}
    max_per_host = row['rules'].get(server_groups.MAX_SERVER_PER_HOST, 1)
    group = refreshed(cells, Group(row['uuid'], policies, max_per_host, moving, {}, needed))
    if group.unknown and policies & AFFINE:
        with api_db.reader() as conn:
            unknown = server_groups.member_cells(conn, group.uuid) & {cell.uuid for cell in group.unknown}
        if unknown:
            raise exception.NoValidHost(reason='Servers of the group are in a cell that does not answer.', details='')
    return group


def refreshed(cells: db_cells.Cells, group: Group) -> Group:
    """Return the group with the present hosts of its members."""
    def read(cell: db_cells.Cell) -> set[tuple[str, str]]:
        with cell.db.reader() as conn:
            return server_groups.places(conn, group.uuid, group.moving)
    found, down = cells.scatter(read)
    places = {cell.uuid: part for cell, part in found}
    return dataclasses.replace(group, places=places, unknown=tuple(down), **_members(set().union(*places.values())))


def split(group: Group, hosts: host_view.Hosts) -> bool:
    """Tell whether members in several cells violate the group's policy affinity or network-proximity.

    :param hosts: a view of the hosts
    """
    if sum(bool(part) for part in group.places.values()) < 2:
        return False
    if server_groups.AFFINITY in group.policies:
        return True
    return not shared(_locality(hosts.rows[position]) for host in group.members for position in hosts.positions(host))


def _members(places: set[tuple[str, str]]) -> dict[str, typing.Any]:
    """Return the fields of a Group that are computed from the pairs (member, host)."""
    return {'members': collections.Counter(host for _, host in places),
            'between': len(places) > len({uuid for uuid, _ in places})}


def shared(localities: collections.abc.Iterable[frozenset[str]]) -> frozenset[str] | None:
    """Return the intersection of these sets, or None if there are no sets."""
    localities = list(localities)
    return functools.reduce(frozenset.intersection, localities) if localities else None


def places(request: Request, hosts: host_view.Hosts, positions: collections.abc.Iterable[int]
           ) -> collections.abc.Iterator[Request]:
    """Yield copies of the request, each limited to one host or network locality that may have room for all servers.

    The policy affinity limits a copy to a host, network-proximity to a locality.

    :param positions: positions of the hosts that suit one of the servers, best first
    """
    group = request.group
    assert group is not None  # only requests with a group have affinity
    if server_groups.AFFINITY in group.policies:
        for position in positions:
            yield dataclasses.replace(request, host=hosts.host[position])
        return
    tried: set[str] = set()
    for position in positions:
        for name in sorted(_locality(hosts.rows[position]) - tried):
            tried.add(name)
            yield dataclasses.replace(request, group=dataclasses.replace(group, within=name))


def _locality(row: host_view.Row) -> frozenset[str]:
    """Return the network localities of the host in a row of the host table."""
    return server_groups.locality(row.get('capabilities'), row.get('aggregates'))


class LockedMembers:
    """Members of a group, locked so that no other scheduler places a member until the claim's transaction ends.

    :param group: a Group; a group without a policy in MUTUAL allows every host
    :param table: the view of the hosts
    :param cell_uuid: cell of the connection; members in other cells are read from the group's ``places``
    """

    def __init__(self, conn: engine.Connection, group: Group, table: host_view.Hosts,
                 cell_uuid: str | None = None) -> None:
        self._conn, self._group, self._table = conn, group, table
        self._members: dict[str, int] = {}
        self._localities: dict[str, frozenset[str]] = {}
        self._between = False
        if group.policies & MUTUAL:
            server_groups.lock(conn, group.uuid)
            elsewhere = [part for cell, part in group.places.items() if cell_uuid not in (None, cell)]
            found = _members(server_groups.places(conn, group.uuid, group.moving).union(*elsewhere))
            self._members, self._between = found['members'], found['between']
        if server_groups.PROXIMITY in group.policies:
            self._localities = {
                **{host: _locality(table.rows[position]) for host in self._members
                   for position in table.positions(host)},
                **server_groups.localities(conn, list(self._members))}

    def allow(self, host: str) -> bool:
        """Tell whether the policies allow a new member on this host."""
        policies = self._group.policies
        if server_groups.AFFINITY in policies and self._members and (self._between or host not in self._members):
            return False
        if server_groups.ANTI_AFFINITY in policies and self._members.get(host, 0) >= self._group.max_per_host:
            return False
        return server_groups.PROXIMITY not in policies or bool(self._within_reach(host))

    def _within_reach(self, host: str) -> frozenset[str] | None:
        """Return the localities that all members share with a new member on this host; empty for a deleted host."""
        others = [self._localities[each] for each in self._members if each in self._localities]
        if host not in self._localities:
            believed = [_locality(self._table.rows[position]) for position in self._table.positions(host)]
            if not any(shared([*others, each]) for each in believed):
                return frozenset()  # do not query the database for thousands of hosts in other localities
            self._localities.update(server_groups.localities(self._conn, [host]))
        return shared([*others, self._localities.get(host, frozenset())])

    def add(self, host: str) -> None:
        """Record a member that was placed on a host."""
        self._members[host] = self._members.get(host, 0) + 1

    def remove(self, host: str) -> None:
        """Remove a member after its claim was undone."""
        self._members[host] -= 1
        if not self._members[host]:
            del self._members[host]
