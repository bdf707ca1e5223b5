"""GET /os-events (an API extension): state changes of servers as server-sent events.

An event is the state of a server after a change, read from its row. Changes of a server within ``POLL_S`` give one
event. The ID of an event is its time in microseconds. A client that reconnects with Last-Event-ID gets all changes
since that time, from the rows of existing and deleted servers. The last state of each server is sent at least once.
``event: reset`` means that the history is too short: the client must list servers to detect deletions.

The format is text/event-stream of the HTML standard. Every ``CHECK_S`` seconds the caller is authorized again; the
stream ends if the token, role, user or project has been revoked. The stream also ends after ``STREAM_S`` seconds;
clients reconnect automatically.
"""
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
from nova.api.services import Services
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
OVERLAP_S = 5             # a row gets its time before its commit, so each poll reads the last seconds again
KEEPALIVE_INTERVAL_S = 15  # after this time without an event, send a comment to detect disconnected clients
STREAM_S = 300
RETRY_MS = 1000           # reconnection delay of clients
CHECK_S = 10              # interval of authorization checks
BUSY_S = 10               # Retry-After if all streams are in use

PAGE = 1000               # maximum number of rows that one poll reads from a cell

_MOMENT = datetime.timedelta(microseconds=1)
_OVERLAP = datetime.timedelta(seconds=OVERLAP_S)
_EPOCH = datetime.datetime(1970, 1, 1)


def follow(req: api_request.Request) -> Response:
    everything = req.query.one('all_tenants')
    if everything:
        req.authorize(ALL)
    target, category = req.own(), server_category.visible_category(req)

    def may_go_on() -> bool:
        caller = req.environ[auth.AGAIN]()
        allows = functools.partial(req.services.policy.allows, caller, target=target)
        return (allows(RULE) and (not everything or allows(ALL))
                and (category is not None or caller.is_admin))     # only administrators see all categories
    feed = _Feed(req.services, nova_context.ALL_PROJECTS if everything else req.project_id, _start(req), category)
    stopping = req.environ.get('nova.stopping') or threading.Event()
    streams, owner = req.services.streams, req.project_id
    if not streams.acquire(owner):
        raise exception.TooManyRequests(retry_after=BUSY_S)
    check = may_go_on if auth.AGAIN in req.environ else lambda: True
    return Response(Stream(_events(feed, stopping, check), 'text/event-stream', lambda: streams.release(owner)))


def _start(req: api_request.Request) -> datetime.datetime | None:
    """Return the time at which the stream starts; None: now.

    :raises BadRequest: Last-Event-ID is malformed
    """
    text = req.environ.get('HTTP_LAST_EVENT_ID', '').strip() or req.query.one('last_event_id')
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 16:
        raise exception.BadRequest('Last-Event-ID is not the id of an event.')
    return _EPOCH + datetime.timedelta(microseconds=int(text))


class _Feed:
    """Reader of the changes of servers for one stream.

    :param project_id: project of the servers, or ALL_PROJECTS
    :param since: naive UTC datetime of the client's last event, or None
    :param category: None for servers of all instance categories
    """

    def __init__(self, services: Services, project_id: str | nova_context.Projects, since: datetime.datetime | None,
                 category: str | None = None) -> None:
        self._cells, self._project_id, self._category = services.cells, project_id, category
        kept = services.conf.conductor.deleted_servers_kept_days
        self.reset = since is not None and bool(kept) and since < utils.utcnow() - datetime.timedelta(days=kept)
        self._reached = since or utils.utcnow()
        # (uuid, time) of the sent events of the last OVERLAP_S seconds
        self._sent: dict[tuple[str, datetime.datetime], None] = {}
        self._first = since is None
        self._down: list[db_cells.Cell] = []

    def new(self) -> list[Any]:
        """Return rows that were not sent yet, oldest first."""
        start: datetime.datetime | None = self._reached if self._first else self._reached - _OVERLAP
        self._first, self._down = False, []
        fresh: list[Any] = []
        while start is not None and not fresh:
            rows, start = self._page(start)
            fresh = [row for row in rows if (row['uuid'], row['changed_at']) not in self._sent]
        for row in fresh:
            self._sent[row['uuid'], row['changed_at']] = None
            if not self._down:               # while a cell is down, do not advance past its changes
                self._reached = max(self._reached, row['changed_at'])
        self._sent = {key: None for key in self._sent if key[1] >= self._reached - _OVERLAP}
        return fresh

    def _page(self, start: datetime.datetime) -> tuple[list[Any], datetime.datetime | None]:
        """Return (rows since a time, oldest first; start of the next page or None)."""
        rows, horizon = [], datetime.datetime.max
        answers, down = self._cells.read(lambda conn: changes.since(
            conn, start, project_id=self._project_id, category=self._category, limit=PAGE))
        self._down += down                   # of all pages
        for _cell, found in answers:
            rows += found
            if len(found) >= PAGE:           # this cell may have more rows after the last one
                horizon = min(horizon, found[-1]['changed_at'])
        rows = sorted((row for row in rows if row['changed_at'] <= horizon), key=lambda row: row['changed_at'])
        return rows, None if horizon == datetime.datetime.max else horizon + _MOMENT


def _events(feed: _Feed, stopping: threading.Event, may_go_on: Callable[[], bool]) -> Iterator[bytes]:
    """Generate the chunks of the stream.

    :param may_go_on: whether the caller is still authorized; raises Unauthorized or Unavailable
    """
    yield f'retry: {RETRY_MS}\n\n'.encode()
    if feed.reset:
        yield b'event: reset\ndata: {}\n\n'
    end = time.monotonic() + STREAM_S
    last_sent = checked = time.monotonic()
    while time.monotonic() < end:
        if time.monotonic() - checked >= CHECK_S:
            checked = time.monotonic()
            if not _still(may_go_on):
                return
        chunk = b''.join(map(_event, feed.new()))
        now = time.monotonic()
        if chunk or now - last_sent > KEEPALIVE_INTERVAL_S:
            last_sent = now
            yield chunk or b': keepalive\n\n'
        if stopping.wait(POLL_S):
            return


def _still(may_go_on: Callable[[], bool]) -> bool:
    try:
        return may_go_on()
    except exception.Unauthorized:
        return False
    except exception.Unavailable:            # authorization unknown: continue, and check again later
        LOG.warning('Cannot check the authorization of an event stream now; the stream continues.')
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
