"""Claims on nodes in one transaction.

* Counted resources are claimed by a conditional UPDATE.
* Server groups are checked under a lock.
* KINDS has a row for each kind of special resource. Requests without special resources need no further SQL
  statement.
"""
import collections.abc

import numpy as np
from oslo_config import cfg

from nova import exception
from nova import objects
from nova.db import engine
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.placement import zones
from nova.scheduler import groups
from nova.scheduler import host_view
from nova.scheduler.placement_request import Claim
from nova.scheduler.placement_request import Request
from nova.scheduler.placement_request import SpecialResource
from nova.scheduler.resources import numa_request
from nova.scheduler.resources import pci

# Functions requested(conf, spec) -> a SpecialResource or None, called in this order for every request. ``spec`` is the
# objects.RequestSpec. The spec's ``flavor`` is the flavor after the request: for a resize, the new flavor. A function
# must be cheap if nothing is requested.
KINDS: list[collections.abc.Callable[[cfg.ConfigOpts, objects.RequestSpec], SpecialResource | None]] = [
    numa_request.requested, pci.requested]


def special_of(conf: cfg.ConfigOpts, spec: objects.RequestSpec) -> tuple[SpecialResource, ...]:
    """Return the special resources that a request needs."""
    return tuple(found for found in (kind(conf, spec) for kind in KINDS) if found is not None)


class NodeClaims:
    """Claims for one request in one transaction.

    :param hosts: the view to which positions refer
    :param cell_uuid: cell of the connection, or None if there is one cell
    """

    def __init__(self, conn: engine.Connection, hosts: host_view.Hosts, request: Request,
                 cell_uuid: str | None = None) -> None:
        self._conn, self._hosts, self._request = conn, hosts, request
        self._members = None if request.group is None else groups.LockedMembers(
            conn, request.group, hosts, cell_uuid)

    def first(self, ranking: collections.abc.Sequence[int] | np.ndarray, instance_uuid: str,
              migration_id: int | None = None) -> Claim:
        """Return the Claim on the first host of a ranking that has room.

        :raises ClaimFailed: no host has room
        """
        for position in ranking:
            claim = self.take(position, instance_uuid, migration_id)
            if claim is not None:
                return claim
        raise exception.ClaimFailed(host=self._hosts.host[ranking[0]], instance_id=instance_uuid)

    def take(self, position: int, instance_uuid: str, migration_id: int | None = None) -> Claim | None:
        """Return the Claim on a host, or None if the host has no room or the server group's policy forbids it.

        :raises ClaimFailed: the host's zone is no longer the requested one
        """
        hosts, request = self._hosts, self._request
        claim = Claim(int(position), hosts.host[position], int(hosts.ids[position]), instance_uuid, migration_id,
                      request)
        if self._members is not None and not self._members.allow(claim.host):
            return None
        if request.special:
            claim.savepoint = self._conn.begin_nested()
        fits = claims.claim(self._conn, claim.node_id, request.resources, self._limits(position))
        if not fits or not self._take_special(claim):
            if claim.savepoint is not None:
                claim.savepoint.rollback()
            return None
        if request.zone is not None and zones.of(self._conn, [claim.host]).get(claim.host) not in request.zones:
            raise exception.ClaimFailed(host=claim.host, instance_id=instance_uuid)
        if self._members is not None:
            self._members.add(claim.host)
        return claim

    def _limits(self, position: int) -> dict[str, float]:
        """Return the limits from filters that replace the node's own limits; see claims.claim."""
        limits: dict[str, float] = {}
        for each in self._request.limiting:
            for name, value in each.limits(self._hosts, position).items():
                limits[name] = min(value, limits.get(name, value))
        return limits

    def _take_special(self, claim: Claim) -> bool:
        if not self._request.special:
            return True
        node = compute_nodes.get(self._conn, claim.node_id)  # the claim of counted resources has locked the row
        return all(each.take(self._conn, node, claim) for each in self._request.special)

    def give_back(self, claim: Claim) -> None:
        """Undo a claim that the server does not need."""
        if claim.savepoint is not None:
            claim.savepoint.rollback()
        else:
            claims.free_node(self._conn, claim.node_id, claim.request.resources)
        if self._members is not None:
            self._members.remove(claim.host)
