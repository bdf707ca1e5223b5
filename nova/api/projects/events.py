"""GET /os-events, an addition of this product: the state changes of servers as server-sent events.

An event is the state of a server after a change, as its row has it; states that follow each other faster than
``POLL_S`` are one event. Its id is the time of the change in microseconds: a client that comes back with it in
Last-Event-ID gets everything since then, from the rows of the servers and from the history of the deleted ones. It may
get an event twice, and never misses a server's last state. ``event: reset`` says that the history does not reach
back so far: what was deleted meanwhile is only to be found out by listing.

The format is the one of the HTML standard (text/event-stream). Every ``CHECK_S`` the caller is looked up again: a
stream ends when the token, the role, the user or the project is gone. It ends by itself after ``STREAM_S``; clients
come back by themselves.
"""
from __future__ import annotations

import datetime
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.db.cells import cells as db_cells
from nova.db.servers import changes
from nova.identity import auth
from nova.web import params
from nova.web.params import Param
from nova.web.params import Query
from nova.web.request import Response
from nova.web.request import Stream
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

RULE, ALL = 'nova:events', 'nova:events:all_projects'

POLL_S = 0.5
OVERLAP_S = 5             # a change is stamped before it is committed: rows of the last seconds are looked at again
BEAT_S = 15               # a comment after so long a silence shows that the client is still there
STREAM_S = 300
RETRY_MS = 1000           # what a client that loses its stream waits
CHECK_S = 10              # between two looks whether the caller may go on
BUSY_S = 10               # and one that found no free stream

PAGE = 1000               # rows that a stream takes from a cell at once

_MOMENT = datetime.timedelta(microseconds=1)
_OVERLAP = datetime.timedelta(seconds=OVERLAP_S)
_EPOCH = datetime.datetime(1970, 1, 1)


def follow(req: api_request.Request) -> Response:
    everything = req.query.one('all_tenants')
    if everything:
        req.authorize(ALL)
    target, category = req.own(), server_category.seen(req)

    def may_go_on() -> bool:
        caller = req.environ[auth.AGAIN]()
        allows = functools.partial(req.services.policy.allows, caller, target=target)
        return (allows(RULE) and (not everything or allows(ALL))
                and (category is not None or caller.is_admin))            # else it gets administrative servers
    feed = _Feed(req.services, nova_context.ALL_PROJECTS if everything else req.project_id, _start(req), category)
    stopping = req.environ.get('nova.stopping') or threading.Event()
    streams, owner = req.services.streams, req.project_id
    if not streams.acquire(owner):
        raise exception.TooManyRequests(retry_after=BUSY_S)
    check = may_go_on if auth.AGAIN in req.environ else lambda: True
    return Response(Stream(_events(feed, stopping, check), 'text/event-stream', lambda: streams.release(owner)))


def _start(req: api_request.Request) -> datetime.datetime | None:
    """The moment from which the stream begins; None: now.

    :raises BadRequest: Last-Event-ID is no id of ours
    """
    text = req.environ.get('HTTP_LAST_EVENT_ID', '').strip() or req.query.one('last_event_id')
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 16:
        raise exception.BadRequest('Last-Event-ID is not the id of an event.')
    return _EPOCH + datetime.timedelta(microseconds=int(text))


class _Feed:
    """Where one stream is.

    :param project_id: whose, or ALL_PROJECTS
    :param since: naive UTC datetime of the last event that the client has, or None
    :param category: None for servers of all instance categories
    """

    def __init__(self, services: Any, project_id: str | nova_context.Projects, since: datetime.datetime | None,
                 category: str | None = None) -> None:
        self._cells, self._project_id, self._category = services.cells, project_id, category
        kept = services.conf.conductor.deleted_servers_kept_days
        self.reset = since is not None and bool(kept) and since < utils.utcnow() - datetime.timedelta(days=kept)
        self._reached = since or utils.utcnow()
        # (uuid, moment) of the overlap that the client has
        self._told: dict[tuple[str, datetime.datetime], None] = {}
        self._first = since is None
        self._down: list[db_cells.Cell] = []

    def new(self) -> list[Any]:
        """Rows that the client has not yet, oldest first."""
        start: datetime.datetime | None = self._reached if self._first else self._reached - _OVERLAP
        self._first = False
        fresh: list[Any] = []
        while start is not None and not fresh:
            rows, start = self._page(start)
            fresh = [row for row in rows if (row['uuid'], row['changed_at']) not in self._told]
        for row in fresh:
            self._told[row['uuid'], row['changed_at']] = None
            if not self._down:               # what happens meanwhile in a cell that is down is reported when it is back
                self._reached = max(self._reached, row['changed_at'])
        self._told = {key: None for key in self._told if key[1] >= self._reached - _OVERLAP}
        return fresh

    def _page(self, start: datetime.datetime) -> tuple[list[Any], datetime.datetime | None]:
        """(rows since a moment, oldest first; the moment from which there are more, None when these are all)"""
        rows, horizon = [], datetime.datetime.max
        answers, self._down = self._cells.read(lambda conn: changes.since(
            conn, start, project_id=self._project_id, category=self._category, limit=PAGE))
        for _cell, found in answers:
            rows += found
            if len(found) >= PAGE:           # of this cell nothing is known beyond
                horizon = min(horizon, found[-1]['changed_at'])
        rows = sorted((row for row in rows if row['changed_at'] <= horizon), key=lambda row: row['changed_at'])
        return rows, None if horizon == datetime.datetime.max else horizon + _MOMENT


def _events(feed: _Feed, stopping: threading.Event, may_go_on: Callable[[], bool]) -> Iterator[bytes]:
    """The chunks of the stream.

    :param may_go_on: whether the caller may still follow; raises Unauthorized or Unavailable
    """
    yield f'retry: {RETRY_MS}\n\n'.encode()
    if feed.reset:
        yield b'event: reset\ndata: {}\n\n'
    end = time.monotonic() + STREAM_S
    spoken = checked = time.monotonic()
    while time.monotonic() < end:
        if time.monotonic() - checked >= CHECK_S:
            checked = time.monotonic()
            if not _still(may_go_on):
                return
        chunk = b''.join(map(_event, feed.new()))
        now = time.monotonic()
        if chunk or now - spoken > BEAT_S:
            spoken = now
            yield chunk or b': still here\n\n'
        if stopping.wait(POLL_S):
            return


def _still(may_go_on: Callable[[], bool]) -> bool:
    try:
        return may_go_on()
    except exception.Unauthorized:
        return False
    except exception.Unavailable:            # nothing is known: the stream goes on, and is checked again
        LOG.warning('Whether the caller of an event stream may go on is not known now.')
        return True


def _event(row: api_request.Row) -> bytes:
    document = {'server': {
        'id': row['uuid'], 'name': row['display_name'], 'tenant_id': row['project_id'],
        'status': 'DELETED' if row['deleted'] else states.status(row['vm_state'], row['task_state']),
        'OS-EXT-STS:vm_state': row['vm_state'], 'OS-EXT-STS:task_state': row['task_state'],
        'OS-EXT-STS:power_state': row['power_state'], 'progress': row['progress'],
        'updated': utils.isotime(row['changed_at'])}}
    number = (row['changed_at'] - _EPOCH) // datetime.timedelta(microseconds=1)
    return b'id: %d\nevent: server\ndata: %s\n\n' % (number, orjson.dumps(document))


ROUTES = (
    Route('GET', '/os-events', follow, policy=RULE, checks=(ALL,), errors=(400, 401, 403, 429), query=Query(
        Param('all_tenants', params.BOOLEAN), Param('last_event_id', params.STRING))),
)
