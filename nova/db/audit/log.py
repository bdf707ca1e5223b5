"""The audit log: one record of every write that a caller requests.

    record = audit.Record('POST', '/servers', 'os_compute_api:servers:create', target_type='servers', context=ctx)
    with audit.recording(record):
        ...                              # the first write transaction of this thread has the record as its last row
    auditor.finish(record, 202)          # a request that wrote nothing, or was refused, gets a record of its own

A record that is part of a transaction is there if, and only if, what was written is. What it says are columns that are
chosen here: names, ids, addresses, codes. No body, no header and no sentence of an error, which may repeat a body, gets
in.
"""
from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping
import contextlib
import contextvars
import logging
import threading
import time
from typing import Any
import uuid as uuidlib

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import engine
from nova.db import errors
from nova.db.audit import records as db
from nova.db.audit.records import ACCEPTED
from nova.db.audit.records import DENIED
from nova.db.audit.records import FAILED
from nova.db.audit.records import UNKNOWN
from nova.db.cells import cells
from nova.runtime import batching
from nova.runtime import concurrency
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

WRITES = frozenset({'POST', 'PUT', 'PATCH', 'DELETE'})
DROPPED = 'audit:dropped'        # action of a record that stands for refused requests that have none
FOR_OWNER = 'ByOtherProject'     # reason of a record that the project has of whose server it is
# of the caller, not for that project: it learns who, what, when, and with what result
_OF_CALLER = ('domain_id', 'roles', 'credential_id', 'service_user_id', 'remote_address')
LONGEST = 255                    # characters of a column
MOST = 100                       # records of one INSERT of their own
# Refused requests that get a record: a second, and at once after a rest; of one caller, and of all in this process.
ONE_RATE, ONE_BURST = 2, 200
ALL_RATE, ALL_BURST = 20, 2000
CALLERS = 1000                   # whose refused requests are counted apart
SUMMARY_S = 10                   # until those that have no record are counted in one
AWAY_S = 5                       # a database that did not answer holds up no other refusal for so long

_current = contextvars.ContextVar('nova_audit_record', default=None)


class Record:
    """What is recorded of one request.

    :param method, route: of the request, the route with ``{names}`` in place of ids
    :param action: the rule that guards it
    :param target_type, target_id, target_part: what it is of, as far as the path says; see ``about``
    :param context: of the caller; None: not known
    :param remote_address: where the request came from
    :param code: of success, for the record in the transaction
    """

    def __init__(self, method: Any, route: Any, action: Any, *, target_type: str | None = None,
                 target_id: str | None = None, target_part: Any = None, context: Any = None,
                 remote_address: Any = None, request_id: str | None = None, code: Any = None) -> None:
        self.values = {
            'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'request_id': request_id,
            **dict.fromkeys(('user_id', 'project_id', 'domain_id', 'roles', 'credential_id', 'service_user_id')),
            'remote_address': _text(remote_address), 'method': method, 'route': route, 'action': action,
            'target_type': target_type, 'target_id': _text(target_id), 'target_part': _text(target_part),
            'outcome': ACCEPTED, 'code': code, 'reason': None}
        self._path_names_it = target_id is not None
        self.joined = self.written = False
        self.database = None             # in whose transaction it is
        self._owner: Any = None               # (project, uuid of its record), of what belongs to another project
        if context is not None:
            self.asked_by(context)

    def named(self, action: Any, target_id: str | None = None, target_part: Any = None, **facts: Any) -> None:
        """Set what is requested, where it was not known at first."""
        self.values.update(action=action, target_id=_text(target_id), target_part=_text(target_part), **facts)
        self._path_names_it = self.values['target_id'] is not None

    def asked_by(self, context: Any) -> None:
        """Say who asks: a RequestContext, or the TokenData of the identity service."""
        values = self.values
        values['user_id'], values['project_id'] = context.user_id, context.project_id
        values['domain_id'] = context.domain_id
        values['roles'] = _text(','.join(sorted(context.roles or ())))
        values['service_user_id'] = getattr(context, 'service_user_id', None)
        values['credential_id'] = getattr(getattr(context, 'claims', context), 'credential_id', None)
        values['remote_address'] = _text(getattr(context, 'remote_address', None)) or values['remote_address']
        values['request_id'] = getattr(context, 'request_id', None) or values['request_id']

    def about(self, id: Any) -> None:
        """Say what is made, or meant: the target, or a part of the one that the path names. The last word counts."""
        if not self.written and id:
            self.values['target_part' if self._path_names_it else 'target_id'] = _text(str(id))

    def belongs_to(self, project_id: str) -> None:
        """Say whose it is: another project than the caller's has a record of its own."""
        if not self.written and self._owner is None and project_id != self.values['project_id']:
            self._owner = project_id, str(uuidlib.uuid4())

    def row(self) -> Any:
        """The columns."""
        return dict(self.values)

    def rows(self) -> Any:
        """The columns of all records of the request: that of the caller's project, then the owner's."""
        found = [self.row()]
        if self._owner is not None:
            project_id, uuid = self._owner
            found.append({**found[0], **dict.fromkeys(_OF_CALLER), 'project_id': project_id, 'uuid': uuid,
                          'reason': found[0]['reason'] or FOR_OWNER})
        return found

    def ended(self, code: Any, error: Any = None) -> None:
        """Take over how the request ended.

        :param error: what refused it; its class is recorded, not its words
        """
        self.values['code'], self.values['outcome'] = code, outcome_of(code, error)
        if error is not None:
            self.values['reason'] = type(error).__name__ if isinstance(error, exception.NovaException) else 'Unexpected'

    def join(self, conn: sa.Connection, database: Any) -> None:
        """Write the record into this transaction, unless one before it has it."""
        if not self.written:
            db.insert(conn, self.rows())
            self.joined, self.database = True, database
            engine.after_commit(conn, self._committed)

    def _committed(self) -> None:
        self.written = True


def _text(value: Any) -> Any:
    """What a column takes of a client's word."""
    return value.replace('\0', '')[:LONGEST] or None if value else None


class OperatorRecord(Record):
    """Of a command, which may make or change the schema itself: a database without the table takes no record."""

    def join(self, conn: sa.Connection, database: Any) -> None:
        if sa.inspect(conn).has_table('audit_records'):
            super().join(conn, database)


def outcome_of(code: Any, error: Any = None) -> Any:
    """One of db.audit.OUTCOMES."""
    if isinstance(error, engine.CommitUnanswered):
        return UNKNOWN
    if code < 400:
        return ACCEPTED
    return DENIED if code in (401, 403) else FAILED


@contextlib.contextmanager
def recording(record: Any) -> Iterator[Any]:
    """Let the first write transaction of the block, in this thread, have the record; None: none of them has one."""
    token = _current.set(record)
    try:
        with engine.joining(record.join if record is not None else None):
            yield record
    finally:
        _current.reset(token)


def about(id: Any) -> None:
    """Say of what the request is that this thread works on, where it is recorded: an id, or a name that is no secret;
    None says nothing.
    """
    record = _current.get()
    if record is not None:
        record.about(id)


def belongs_to(project_id: str) -> None:
    """Say whose thing the request is about that this thread works on, where it is recorded."""
    record = _current.get()
    if record is not None:
        record.belongs_to(project_id)


def naming(function: Callable[..., Any], column: str) -> Any:
    """``function(conn, …)``, which gives the row of what it makes; the request is about what stands in its column."""
    def run(conn: sa.Connection, *args: Any, **kwargs: Any) -> Any:
        row = function(conn, *args, **kwargs)
        about(row[column])
        return row
    return run


# ---- records that are part of no transaction ------------------------------------

class _Bucket:
    """So many at once, and so many a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = float(burst), time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class _Item(batching.Item):
    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__()
        self.row = row


class Auditor:
    """Writes what is part of no transaction, and publishes what was written.

    :param api_db: Database of the API database
    :param notifier: nova.notify: publishes the records
    """

    def __init__(self, api_db: Any, notifier: Any) -> None:
        self._db, self._notifier = api_db, notifier
        self._gathering = batching.Gathering(self._write, MOST)
        self._lock = threading.Lock()
        self._all = _Bucket(ALL_RATE, ALL_BURST)
        self._callers: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._dropped: collections.Counter[Any] = collections.Counter()
        self._summary = False
        self._away_until: float = 0

    def finish(self, record: Any, code: Any, error: Any = None) -> None:
        """A request has ended: see that it has a record, as far as it gets one, and publish it. Never fails.

        :param code: of the answer
        :param error: what refused it
        """
        try:
            if record.written and code < 400:
                stored = True
            else:
                record.ended(code, error)
                stored = self._record(record)
            if stored and self._notifier.on:
                self._notifier.publish_audit(record.row())
        except Exception as problem:
            if isinstance(problem, cells.UNREACHABLE):
                self._away_until = time.monotonic() + AWAY_S
            metrics.AUDIT_LOST.labels('error').inc()
            values = record.values
            LOG.error('Not in the audit log (%s): request %s of user %s, project %s, from %s: %s answered with %s.',
                      errors.reason(problem), values['request_id'], values['user_id'], values['project_id'],
                      values['remote_address'], values['action'], code)

    def _record(self, record: Any) -> bool:
        """Write a record of its own; False: there are too many of them."""
        if time.monotonic() < self._away_until:
            raise exception.ServiceUnavailable(service='database')
        if record.joined and record.values['outcome'] != ACCEPTED:
            for row in record.rows():
                record.database.run(db.correct, row)
            return True
        if record.values['outcome'] in (DENIED, FAILED) and not self._may_record(record.values):
            return False
        for row in record.rows():
            self._gathering.bring(_Item(row))
        return True

    def _write(self, items: Any) -> None:
        self._db.run(db.insert_missing, [item.row for item in items])

    # ---- floods

    def _may_record(self, values: dict[str, Any]) -> bool:
        """Whether a refused request gets a record; else it is counted."""
        who = (values['user_id'], values['project_id'], values['remote_address'])
        with self._lock:
            bucket = self._callers.pop(who, None) or _Bucket(ONE_RATE, ONE_BURST)
            self._callers[who] = bucket
            if len(self._callers) > CALLERS:
                self._callers.popitem(last=False)
            if bucket.take() and self._all.take():
                return True
            self._dropped[who if who in self._dropped or len(self._dropped) < CALLERS else (None, None, None)] += 1
            begin, self._summary = not self._summary, True
        metrics.AUDIT_LOST.labels('flood').inc()
        if begin:
            concurrency.spawn('audit-dropped', self._summarize)
        return False

    def _summarize(self) -> None:
        time.sleep(SUMMARY_S)
        self.flush()

    def flush(self) -> None:
        """Record how many refused requests of whom have no record."""
        with self._lock:
            dropped, self._dropped = self._dropped, collections.Counter()
            self._summary = False
        rows = []
        for (user_id, project_id, address), count in dropped.items():
            record = Record('', '', DROPPED, target_type='audit', remote_address=address)
            record.values.update(user_id=user_id, project_id=project_id, outcome=DENIED,
                                 reason=f'{count} refused requests have no record of their own.')
            rows.append(record.row())
        for start in range(0, len(rows), MOST):
            try:
                self._db.run(db.insert_missing, rows[start:start + MOST])
            except Exception:
                LOG.exception('Refused requests are not counted in the audit log: %d', dropped.total())


# ---- faces ----------------------------------------------------------------------

def named(action: Any, **facts: Any) -> None:
    """Name what the request of this thread asks for; without this a face's request has no record.

    :param facts: columns: route, target_type, target_id, target_part, and code of success
    """
    record = _current.get()
    if record is not None:
        record.named(action, **facts)


def asked_by(context: Any) -> None:
    """Say who asks, where the face itself finds that out."""
    record = _current.get()
    if record is not None:
        record.asked_by(context)


class Face:
    """WSGI in front of an embedded face, behind what says who asks: its writes, which it names, are recorded."""

    def __init__(self, application: Any, auditor: Any) -> None:
        self._application, self._auditor = application, auditor

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ['REQUEST_METHOD'] not in WRITES:
            return self._application(environ, start_response)
        request_id = environ.setdefault('openstack.request_id', nova_context.new_request_id())
        record = _FaceRecord(environ['REQUEST_METHOD'], '', None, context=environ.get('nova.context'),
                             remote_address=environ.get('REMOTE_ADDR'), request_id=request_id)
        codes = []

        def start(status: Any, headers: Any, *more: Any) -> Any:
            codes.append(int(status[:3]))
            return start_response(status, headers, *more)
        try:
            with recording(record):
                return self._application(environ, start)
        finally:
            if record.values['action'] is not None:
                self._auditor.finish(record, codes[-1] if codes else 500)


class _FaceRecord(Record):
    def join(self, conn: sa.Connection, database: Any) -> None:
        if self.values['action'] is not None:
            super().join(conn, database)
