"""Server groups in placement: where the members are, and which host their policy allows one more.

What the table of hosts says is a guess; ``Companions`` decides, in the claim's transaction.
"""
import dataclasses

from nova.db import server_groups

AFFINITY, ANTI_AFFINITY = 'affinity', 'anti-affinity'
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = 'soft-affinity', 'soft-anti-affinity'
HARD = (AFFINITY, ANTI_AFFINITY)


@dataclasses.dataclass(frozen=True)
class Group:
    """A server group as placement sees it.

    most     members that a host may have under anti-affinity
    moving   uuid of the server when it has a place already: it is no companion of itself
    members  {host: members on it, or on their way to it}
    """

    uuid: str
    policy: str
    most: int
    moving: str | None
    members: dict


def find(api_db, cell_db, group_id, moving=None):
    """The Group of an id, None when there is none (any more); see there for ``moving``."""
    with api_db.reader() as conn:
        row = server_groups.find(conn, group_id)
    if row is None:
        return None
    most = row['rules'].get('max_server_per_host', 1)
    return again(cell_db, Group(row['uuid'], row['policy'], most, moving, {}))


def again(cell_db, group):
    """The same group with its members where they are now."""
    with cell_db.reader() as conn:
        return dataclasses.replace(group, members=server_groups.hosts(conn, group.uuid, group.moving))


class Companions:
    """The members of a group while claims are made: nobody else places one until the transaction ends.

    :param group: Group; one of a soft policy allows everything
    """

    def __init__(self, conn, group):
        self._group = group
        self._members = {}
        if group.policy in HARD:
            server_groups.lock(conn, group.uuid)
            self._members = server_groups.hosts(conn, group.uuid, group.moving)

    def allow(self, host):
        """Whether the policy allows one more member on this host."""
        if self._group.policy == AFFINITY:
            return not self._members or host in self._members
        if self._group.policy == ANTI_AFFINITY:
            return self._members.get(host, 0) < self._group.most
        return True

    def add(self, host):
        """A member has been placed there."""
        self._members[host] = self._members.get(host, 0) + 1
