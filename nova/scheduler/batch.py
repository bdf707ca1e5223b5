"""Servers that wait for a host, placed together: decided one after the other on one view, claimed in one transaction.

What differs from placing one alone is the number of statements, not what is decided: each request sees what those
before it took, the claim's condition is judged on locked rows, and a request that it refuses is decided anew by itself,
as are all when a server does not wait any more. One bad request does not fail the others.
"""
import functools
import logging

from nova import exception
from nova import states
from nova.db.placement import claim_batches
from nova.runtime import batching
from nova.runtime import metrics
from nova.scheduler import alike
from nova.scheduler import pipeline

LOG = logging.getLogger(__name__)

SERVERS = 64          # of one batch; with more, those who wait wait for longer
FRESH_S = 0.02        # under load: what this scheduler claims its table knows, what others claimed the condition knows


class Waiting(batching.Item):
    """A request for new servers.

    placed    a list as select_destinations gives it; None: it has to be placed by itself
    """

    def __init__(self, request, instance_uuids):
        super().__init__()
        self.request, self.uuids, self.placed = request, instance_uuids, None


class Changed(Exception):
    """A server does not wait any more."""


class Batches:
    """The part of the scheduler's manager that places many at once; mixed into it.

    Needs ``self._place_alone``, ``self._several``, ``self._claim_many_across``, ``self._table``, ``self._cells``,
    ``self._conf``, ``self._filters``, ``self._weighers``, ``self._order`` and ``self._selections``.
    """

    @staticmethod
    def together(request, instance_uuids):
        """Whether a request may be one of a batch: it takes numbers alone."""
        return (request.group is None and not request.extras and not request.limiting
                and len(instance_uuids) <= SERVERS)

    def place_many(self, items):
        """``placed`` of those items that find room; for Gathering."""
        metrics.PLACEMENT_BATCH.observe(len(items))
        if len(items) == 1 and len(items[0].uuids) == 1:
            item, = items                        # by itself it takes fewer statements; whoever comes meanwhile waits
            item.placed = self._place_alone(item.request, item.uuids)
            return
        hosts = self._table.hosts(fresh_s=FRESH_S)
        view, plans, shapes = hosts.copy(), [], []
        for item in items:
            try:
                rankings = self._rankings(view, item, shapes)
            except exception.NoValidHost:
                continue
            except Exception as error:           # a filter of somebody else's, for one
                item.error = error
                continue
            for ranking in rankings:
                view.consume(ranking[0], item.request.asked)
            plans.append((item, rankings))
        if self._several():
            self._claim_many_across(hosts, plans)
            return
        try:
            placed, usage = self._cells.default.db.run(self._claim_many, hosts, plans) if plans else ([], {})
        except Changed:
            return
        except Exception:
            LOG.exception('%d requests could not be claimed together; each is placed by itself.', len(plans))
            return
        self._table.note(self._cells.default, usage)
        for item, selections in placed:
            item.placed = selections

    def _rankings(self, view, item, shapes):
        """What ``pipeline.choose`` gives for an item, as far as the batch needs it.

        :param shapes: [alike.Alike] of the batch; one is added when there is none for this item
        :raises NoValidHost: an empty one: who is left over is decided anew by itself
        """
        request, uuids = item.request, item.uuids
        if not self._known or not alike.simple(request, uuids):
            return pipeline.choose(view, request, self._filters, self._weighers, uuids, self._order, pipeline.MOST)
        shape = next((each for each in shapes if each.fits(request)), None)
        if shape is None:
            shape = alike.Alike(view, request, self._filters, self._weighers, self._order,
                                1 + self._conf.scheduler.alternates if self._order.subset == 1 else pipeline.MOST)
            shapes.append(shape)
        ranking = shape.choose(uuids[0])
        if ranking is None:
            raise exception.NoValidHost(reason='', details='')
        return [ranking]

    @functools.cached_property
    def _known(self):
        return alike.known(self._filters, self._weighers)

    def _claim_many(self, conn, hosts, plans):
        """([(item, its selections)] of those that are claimed, {node: its usage now})."""
        places, placed, usage = self._take_many(conn, hosts, plans)
        if places and claim_batches.place(conn, places, states.BUILDING, states.SCHEDULING) != len(places):
            raise Changed
        return placed, usage

    def _take_many(self, conn, hosts, plans):
        """Take of the nodes what those of [(item, its rankings)] ask that find it there, and are where they may be.

        :returns: ({uuid: {'host', 'node', 'availability_zone'}}, [(item, its selections)], {node: its usage now})
        """
        firsts = {int(ranking[0]) for _, rankings in plans for ranking in rankings}
        nodes = claim_batches.Nodes(conn, {int(hosts.ids[position]) for position in firsts})
        zones = claim_batches.zones(conn, {hosts.host[position] for position in firsts})
        places, placed = {}, []
        for item, rankings in plans:
            request, chosen = item.request, [int(ranking[0]) for ranking in rankings]
            if not places.keys().isdisjoint(item.uuids) or request.zone is not None and any(
                    zones.get(hosts.host[position]) not in request.zones for position in chosen):
                continue
            if not nodes.take([(int(hosts.ids[position]), request.asked) for position in chosen]):
                continue
            for uuid, position in zip(item.uuids, chosen, strict=True):
                places[uuid] = {'host': hosts.host[position], 'node': hosts.node[position],
                                'availability_zone': zones.get(hosts.host[position])}
            placed.append((item, [self._selections(hosts, ranking) for ranking in rankings]))
        return places, placed, nodes.write()
