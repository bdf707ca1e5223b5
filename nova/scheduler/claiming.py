"""Claims on hosts in one transaction: numbers by condition, groups under their lock, and extras.

An *extra* is what a request takes of a node besides numbers: CPUs and pages of NUMA cells, PCI devices. KINDS has a row
for each kind, a function ``wanted(conf, spec)`` that gives the Extra of a request or None; a request without any costs
no statement more.
"""
import dataclasses

from nova import exception
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.placement import zones
from nova.scheduler import extras
from nova.scheduler import groups
from nova.scheduler import numa_request
from nova.scheduler import pci

# wanted(conf, spec) -> Extra or None: of every request, in this order. ``spec`` is the objects.RequestSpec, in which
# ``flavor`` is the one that the server is to have: of a resize the new one. It must be cheap where nothing is wanted.
KINDS = [numa_request.wanted, pci.wanted]

Extra = extras.Extra


def wanted(conf, spec):
    """The extras of a request, a tuple."""
    return tuple(extra for extra in (kind(conf, spec) for kind in KINDS) if extra is not None)


@dataclasses.dataclass
class Claim:
    """A server's claim on a host of a view, while its transaction lasts.

    instance_uuid   the server
    migration_id    the move that holds the claim; None: the server's own row does
    request         the pipeline.Request
    values          further columns of the row that holds it (instances, or migrations for a move): who claims writes it
    taken           what an extra wants another one, asked after it, to know: {name: anything}
    """

    position: int
    host: str
    node_id: int
    instance_uuid: str
    migration_id: int | None
    request: object
    values: dict = dataclasses.field(default_factory=dict)
    taken: dict = dataclasses.field(default_factory=dict)
    savepoint: object = None


class Taker:
    """Claims for one request in one transaction.

    :param hosts: the view that positions are of
    :param cell_uuid: of the cell of the connection; None: there is one alone
    """

    def __init__(self, conn, hosts, request, cell_uuid=None):
        self._conn, self._hosts, self._request = conn, hosts, request
        self._companions = None if request.group is None else groups.Companions(conn, request.group, hosts, cell_uuid)

    def first(self, ranking, instance_uuid, migration_id=None):
        """(number in the ranking, Claim) of the first of these hosts that has room.

        :raises ClaimFailed: none has
        """
        for number, position in enumerate(ranking):
            claim = self.take(position, instance_uuid, migration_id)
            if claim is not None:
                return number, claim
        raise exception.ClaimFailed(host=self._hosts.host[ranking[0]], instance_id=instance_uuid)

    def take(self, position, instance_uuid, migration_id=None):
        """The Claim on a host, None when it has no room for it, or its group does not allow it.

        :raises ClaimFailed: its zone is not the one any more that is asked for
        """
        hosts, request = self._hosts, self._request
        claim = Claim(int(position), hosts.host[position], int(hosts.ids[position]), instance_uuid, migration_id,
                      request)
        if self._companions is not None and not self._companions.allow(claim.host):
            return None
        if request.extras:
            claim.savepoint = self._conn.begin_nested()
        fits = claims.claim(self._conn, claim.node_id, request.asked, self._limits(position))
        if not fits or not self._extras(claim):
            if claim.savepoint is not None:
                claim.savepoint.rollback()
            return None
        if request.zone is not None and zones.of(self._conn, [claim.host]).get(claim.host) not in request.zones:
            raise exception.ClaimFailed(host=claim.host, instance_id=instance_uuid)
        if self._companions is not None:
            self._companions.add(claim.host)
        return claim

    def _limits(self, position):
        """What filters say that go by other numbers than the node's own; see claims.claim."""
        limits = {}
        for each in self._request.limiting:
            limits |= each.limits(self._hosts, position)
        return limits

    def _extras(self, claim):
        if not self._request.extras:
            return True
        node = compute_nodes.get(self._conn, claim.node_id)          # the claim on its numbers has locked it
        return all(extra.take(self._conn, node, claim) for extra in self._request.extras)

    def give_back(self, claim):
        """The server turned out to need none: undo the claim."""
        if claim.savepoint is not None:
            claim.savepoint.rollback()
        else:
            claims.free_node(self._conn, claim.node_id, claim.request.asked)
        if self._companions is not None:
            self._companions.remove(claim.host)
