"""Prefer: wait=SECONDS (RFC 7240): delay a response until the end of the task that the request started.

The content of the response is unchanged. The response is sent when the server has no task or the timeout expires, so
that the client need not poll. One thread in each process polls for all waiting clients, with one query per cell.
"""
import dataclasses
import logging
import re
import threading
import time

from nova import exception
from nova.api.request import Request
from nova.db.cells import cells as db_cells
from nova.db.servers import changes
from nova.runtime import concurrency
from nova.runtime import fairness
from nova.runtime import queues
from nova.web import preferences
from nova.web.request import Response

LOG = logging.getLogger(__name__)

MAX_WAIT_S = 30                      # shorter than the usual timeout of proxies
POLL_INTERVAL_S, LATER_POLL_INTERVAL_S = 0.025, 0.25    # polling interval in the first second of a wait, and later
ERROR_POLL_INTERVAL_S = 2                        # polling interval after an error
_WAIT = preferences.preference('wait', r'(\d{1,9})')
# (method, path, status code) of operations that start a task
_GOES_ON = {('POST', '/servers', 202), ('POST', '/servers/{id}/action', 202), ('DELETE', '/servers/{id}', 204)}
_SERVER_ID = re.compile(r'/servers/([0-9a-f-]{36})\Z')


def applies(method: str, path: str) -> bool:
    """Return True if an operation supports the header."""
    return any((method, path) == row[:2] for row in _GOES_ON)


@dataclasses.dataclass(eq=False)
class _Wait:
    server_id: str
    began: float
    ended: threading.Event
    cell: db_cells.Cell | None = None


class PreferWait:
    """Requests of one process that wait for the end of a task.

    :param most: maximum number of waits; each occupies a thread of the HTTP server. One project may use half of them
    """

    def __init__(self, cells: db_cells.Cells, most: int) -> None:
        self._cells, self._slots = cells, fairness.ConcurrencyLimit(queues.PREFER_WAIT, most)
        self._lock = threading.Lock()
        self._waits: set[_Wait] = set()
        self._looks = False                          # the polling thread is running

    def answer(self, req: Request, response: Response) -> Response:
        """Return the response after the task of a request has ended or the timeout has expired.

        Return immediately if the client does not wait, no task was started, or too many requests wait. The response
        has the header Preference-Applied only if the request has waited.
        """
        preference = _WAIT.search(req.environ.get(preferences.HEADER, ''))
        server_id = preference and _begun(req, response)
        if not preference or not server_id or not self._slots.acquire(req.project_id):
            return response
        seconds = min(int(preference[1]), MAX_WAIT_S)
        try:
            if not self._wait(server_id, seconds, req.environ.get('nova.stopping')):
                return response
        finally:
            self._slots.release(req.project_id)
        return dataclasses.replace(response, headers=[*response.headers, (preferences.APPLIED, f'wait={seconds}')])

    def _wait(self, server_id: str, seconds: float, stopping: threading.Event | None) -> bool:
        """Wait; return False if the process cannot start the thread that polls."""
        wait = _Wait(server_id, time.monotonic(), threading.Event())
        with self._lock:
            self._looks = self._looks or concurrency.try_spawn('waits', self._look_on)
            if not self._looks:
                return False
            self._waits.add(wait)
        try:
            deadline = wait.began + seconds
            while not wait.ended.wait(max(0, min(1, deadline - time.monotonic()))):
                if time.monotonic() >= deadline or stopping is not None and stopping.is_set():
                    break
            return True
        finally:
            with self._lock:
                self._waits.discard(wait)

    # ---- polling thread

    def _look_on(self) -> None:
        """Poll until no request waits."""
        while True:
            with self._lock:
                waits = list(self._waits)
                if not waits:
                    self._looks = False
                    return
            youngest = max(wait.began for wait in waits)
            pause_s = POLL_INTERVAL_S if time.monotonic() - youngest < 1 else LATER_POLL_INTERVAL_S
            try:
                self._look(waits)
            except Exception:
                LOG.exception('Cannot read the tasks of servers for waiting requests; retrying')
                pause_s = ERROR_POLL_INTERVAL_S
            time.sleep(pause_s)

    def _look(self, waits: list[_Wait]) -> None:
        by_cell: dict[str, list[_Wait]] = {}
        for wait in waits:
            if wait.cell is None:
                try:
                    wait.cell = self._cells.of_server(wait.server_id)
                except exception.InstanceNotFound:       # the server was deleted
                    wait.ended.set()
                    continue
            by_cell.setdefault(wait.cell.uuid, []).append(wait)
        for found in by_cell.values():
            cell = found[0].cell
            assert cell is not None
            try:
                with cell.db.reader() as conn:
                    busy = changes.busy(conn, [wait.server_id for wait in found])
            except exception.NovaException as error:     # the cell is down: keep waiting
                LOG.info('Cannot read the tasks of servers in cell %s: %s', cell.name, error)
                continue
            for wait in found:
                if wait.server_id not in busy:
                    self._end_or_follow(wait)
                elif not busy[wait.server_id]:
                    wait.ended.set()

    def _end_or_follow(self, wait: _Wait) -> None:
        """Handle a server that left its cell: it was deleted, or moved from cell0 to the cell of its host."""
        try:
            now = self._cells.of_server(wait.server_id)
        except exception.InstanceNotFound:
            now = None
        if now is None or wait.cell is not None and now.uuid == wait.cell.uuid:
            wait.ended.set()
        wait.cell = now


def _begun(req: Request, response: Response) -> str | None:
    """Return the ID of the server if a request started a task, else None."""
    row = req.route
    if row is None or (row.method, row.path, response.status or row.code(req.version)) not in _GOES_ON:
        return None
    if row.path == '/servers':
        found = next((_SERVER_ID.search(value) for name, value in response.headers if name.lower() == 'location'), None)
        return found[1] if found else None
    return req.segments[1]
