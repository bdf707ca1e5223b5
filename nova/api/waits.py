"""Prefer: wait=SECONDS (RFC 7240): a request that begins something is answered when that has ended.

The answer is the same as without, and comes as soon as the server has no task any more, or when the time is over. A
client then needs one request instead of asking again and again. All who wait in a process are looked after by one
thread, with one statement for each cell.
"""
from __future__ import annotations

import dataclasses
import logging
import re
import threading
import time
from typing import Any

from nova import exception
from nova.api.request import Request
from nova.db.cells import cells as db_cells
from nova.db.servers import changes
from nova.runtime import concurrency
from nova.web import preferences
from nova.web import request as web_request
from nova.web.request import Response

LOG = logging.getLogger(__name__)

MOST_S = 30                          # less than proxies wait for an answer
LOOK_S, LATER_S = 0.025, 0.25        # between two looks: in the first second of the youngest wait, and later
TROUBLE_S = 2                        # and after one that failed
_WAIT = preferences.preference('wait', r'(\d{1,9})')
# (method, path of the row, code of the answer) of what goes on after its answer
_GOES_ON = {('POST', '/servers', 202), ('POST', '/servers/{id}/action', 202), ('DELETE', '/servers/{id}', 204)}
_SERVER_ID = re.compile(r'/servers/([0-9a-f-]{36})\Z')


def applies(method: str, path: str) -> bool:
    """Whether the header has a meaning for an operation."""
    return any((method, path) == row[:2] for row in _GOES_ON)


@dataclasses.dataclass(eq=False)
class _Wait:
    server_id: str
    began: float
    ended: threading.Event
    cell: db_cells.Cell | None = None


class Waits:
    """The waits of one process.

    :param most: of them at a time; each has a thread of the HTTP server. One project has half of them at most
    """

    def __init__(self, cells: db_cells.Cells, most: int) -> None:
        self._cells, self._slots = cells, web_request.Streams(most)
        self._lock = threading.Lock()
        self._waits: set[_Wait] = set()
        self._looks = False                          # a thread looks

    def answer(self, req: Request, response: Response) -> Response:
        """The response of a request, when what it began has ended or the time is over that the client waits.

        It is given back at once where the client does not wait, where nothing goes on, or where too many wait already;
        only who has waited gets Preference-Applied.
        """
        preference = _WAIT.search(req.environ.get(preferences.HEADER, ''))
        server_id = preference and _begun(req, response)
        if not preference or not server_id or not self._slots.acquire(req.project_id):
            return response
        seconds = min(int(preference[1]), MOST_S)
        try:
            self._wait(server_id, seconds, req.environ.get('nova.stopping'))
        finally:
            self._slots.release(req.project_id)
        return dataclasses.replace(response, headers=[*response.headers, (preferences.APPLIED, f'wait={seconds}')])

    def _wait(self, server_id: str, seconds: float, stopping: Any) -> None:
        wait = _Wait(server_id, time.monotonic(), threading.Event())
        with self._lock:
            self._waits.add(wait)
            begin, self._looks = not self._looks, True
        if begin:
            concurrency.spawn('waits', self._look_on)
        try:
            deadline = wait.began + seconds
            while not wait.ended.wait(max(0, min(1, deadline - time.monotonic()))):
                if time.monotonic() >= deadline or stopping is not None and stopping.is_set():
                    return
        finally:
            with self._lock:
                self._waits.discard(wait)

    # ---- the thread

    def _look_on(self) -> None:
        """Look until no client waits."""
        while True:
            with self._lock:
                waits = list(self._waits)
                if not waits:
                    self._looks = False
                    return
            youngest = max(wait.began for wait in waits)
            pause_s = LOOK_S if time.monotonic() - youngest < 1 else LATER_S
            try:
                self._look(waits)
            except Exception:
                LOG.exception('The servers for which clients wait cannot be looked at')
                pause_s = TROUBLE_S
            time.sleep(pause_s)

    def _look(self, waits: list[_Wait]) -> None:
        by_cell: dict[str, list[_Wait]] = {}
        for wait in waits:
            if wait.cell is None:
                try:
                    wait.cell = self._cells.of_server(wait.server_id)
                except exception.InstanceNotFound:       # it was deleted
                    wait.ended.set()
                    continue
            by_cell.setdefault(wait.cell.uuid, []).append(wait)
        for found in by_cell.values():
            cell = found[0].cell
            assert cell is not None
            try:
                with cell.db.reader() as conn:
                    busy = changes.busy(conn, [wait.server_id for wait in found])
            except exception.NovaException as error:     # the cell is down: who waits waits on
                LOG.info('Cell %s does not say how its servers are: %s', cell.name, error)
                continue
            for wait in found:
                if wait.server_id not in busy:
                    self._end_or_follow(wait)
                elif not busy[wait.server_id]:
                    wait.ended.set()

    def _end_or_follow(self, wait: _Wait) -> None:
        """It is not in its cell: deleted, or in another one since it got its host."""
        try:
            now = self._cells.of_server(wait.server_id)
        except exception.InstanceNotFound:
            now = None
        if now is None or wait.cell is not None and now.uuid == wait.cell.uuid:
            wait.ended.set()
        wait.cell = now


def _begun(req: Request, response: Response) -> str | None:
    """The server of which a request began something that goes on."""
    row = req.route
    if row is None or (row.method, row.path, response.status or row.code(req.version)) not in _GOES_ON:
        return None
    if row.path == '/servers':
        found = next((_SERVER_ID.search(value) for name, value in response.headers if name.lower() == 'location'), None)
        return found[1] if found else None
    return req.segments[1]
