"""The audit log, which has a record of every write that a caller requests.

    record = audit.Record('POST', '/servers', 'os_compute_api:servers:create', target_type='servers', context=ctx)
    with audit.recording(record):
        ...                              # the first write transaction of this thread inserts the record as its last row
    auditor.finish(record, 202)          # a request that wrote nothing, or was refused, gets a separate record

A record inside a transaction exists if and only if the transaction was committed. A record contains only names, ids,
addresses and codes. Bodies, headers and error texts are excluded, because an error text may repeat a body.
"""
from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import contextlib
import contextvars
import logging
import threading
import time
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar
import uuid as uuidlib
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import engine
from nova.db import errors
from nova.db.audit import records as db
from nova.db.cells import cells
from nova.runtime import batching
from nova.runtime import concurrency
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

_Params = ParamSpec('_Params')
_Row = TypeVar('_Row', bound=Mapping[str, object])

WRITES = frozenset({'POST', 'PUT', 'PATCH', 'DELETE'})
DROPPED = 'audit:dropped'        # action of a record with the number of refused requests that got no record
FOR_OWNER = 'ByOtherProject'     # reason in the record for the project that owns the target
# columns that are empty in the owner's record; that record shows only user, action, time and result
_OF_CALLER = ('domain_id', 'roles', 'credential_id', 'service_user_id', 'remote_address')
MAX_TEXT_LENGTH = 255                    # maximum number of characters of a column
MAX_BATCH_RECORDS = 100                       # maximum number of records in one separate INSERT
# rate and burst of records of refused requests, for one caller and for all callers of this process
ONE_RATE, ONE_BURST = 2, 200
ALL_RATE, ALL_BURST = 20, 2000
CALLERS = 1000                   # maximum number of callers with a separate counter of refused requests
SUMMARY_S = 10                   # interval of summaries of refused requests without records
RETRY_DELAY_S = 5                       # seconds until the next attempt after a database failure

_current: contextvars.ContextVar[Record | None] = contextvars.ContextVar('nova_audit_record', default=None)


class Caller(Protocol):
    """The caller of a request: a RequestContext, or the TokenData of the identity service."""

    @property
    def user_id(self) -> str | None: ...

    @property
    def project_id(self) -> str | None: ...

    @property
    def domain_id(self) -> str | None: ...

    @property
    def roles(self) -> Collection[str]: ...


class Publisher(Protocol):
    """Publisher of records: nova.notify.Notifier."""

    on: Literal[True]

    def publish_audit(self, row: db.Values) -> None: ...


class Off(Protocol):
    """nova.notify.OFF."""

    on: Literal[False]


class Record:
    """The audit record of one request.

    :param method, route: method and route of the request; the route has ``{names}`` in place of ids
    :param action: the policy rule of the operation
    :param target_type, target_id, target_part: the request's target, as far as the path names it; see ``about``
    :param context: context of the caller, or None if unknown
    :param remote_address: source address of the request
    :param code: status code of success, for the record inside the transaction
    """

    def __init__(self, method: str, route: str, action: str | None, *, target_type: str | None = None,
                 target_id: str | None = None, target_part: str | None = None, context: Caller | None = None,
                 remote_address: str | None = None, request_id: str | None = None, code: int | None = None) -> None:
        self.values: db.Values = {
            'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'request_id': request_id,
            **dict.fromkeys(('user_id', 'project_id', 'domain_id', 'roles', 'credential_id', 'service_user_id')),
            'remote_address': _text(remote_address), 'method': method, 'route': route, 'action': action,
            'target_type': target_type, 'target_id': _text(target_id), 'target_part': _text(target_part),
            'outcome': db.ACCEPTED, 'code': code, 'reason': None}
        self._path_names_it = target_id is not None
        self.written = False
        self.database: engine.Database | None = None         # database of the transaction that contains the record
        # (owner's project, uuid of the owner's record) if the target belongs to another project
        self._owner: tuple[str, str] | None = None
        if context is not None:
            self.asked_by(context)

    def named(self, action: str, target_id: str | None = None, target_part: str | None = None,
              **facts: Any) -> None:
        """Set the requested operation if it was unknown when the record was created."""
        self.values.update(action=action, target_id=_text(target_id), target_part=_text(target_part), **facts)
        self._path_names_it = self.values['target_id'] is not None

    def asked_by(self, context: Caller) -> None:
        """Set the caller."""
        values = self.values
        values['user_id'], values['project_id'] = context.user_id, context.project_id
        values['domain_id'] = context.domain_id
        values['roles'] = _text(','.join(sorted(context.roles or ())))
        values['service_user_id'] = getattr(context, 'service_user_id', None)
        claims = getattr(context, 'claims', context)
        values['credential_id'] = getattr(claims, 'credential_id', None) or getattr(claims, 'trust_id', None)
        values['remote_address'] = _text(getattr(context, 'remote_address', None)) or values['remote_address']
        values['request_id'] = getattr(context, 'request_id', None) or values['request_id']

    def about(self, id: str | int | None) -> None:
        """Set target_id, or target_part if the path already names the target. A later call replaces the value."""
        if not self.written and id:
            self.values['target_part' if self._path_names_it else 'target_id'] = _text(str(id))

    def belongs_to(self, project_id: str) -> None:
        """Set the project that owns the target. If the caller has another project, the owner gets a second record."""
        if not self.written and self._owner is None and project_id != self.values['project_id']:
            self._owner = project_id, str(uuidlib.uuid4())

    def row(self) -> db.Values:
        """Return the columns."""
        return dict(self.values)

    def rows(self) -> list[db.Values]:
        """Return the columns of all records of the request: the record of the caller's project first, then the
        owner's.
        """
        found = [self.row()]
        if self._owner is not None:
            project_id, uuid = self._owner
            found.append({**found[0], **dict.fromkeys(_OF_CALLER), 'project_id': project_id, 'uuid': uuid,
                          'reason': found[0]['reason'] or FOR_OWNER})
        return found

    def ended(self, code: int, error: BaseException | None = None) -> None:
        """Record the end of the request.

        :param error: error that refused the request; only its class is recorded
        """
        self.values['code'], self.values['outcome'] = code, outcome_of(code, error)
        if error is not None:
            self.values['reason'] = type(error).__name__ if isinstance(error, exception.NovaException) else 'Unexpected'

    def join(self, conn: sa.Connection, database: engine.Database) -> None:
        """Insert the record into this transaction, unless an earlier transaction contains it."""
        if not self.written:
            db.insert(conn, self.rows())
            self.database = database
            engine.after_commit(conn, self._committed)

    def _committed(self) -> None:
        self.written = True


def _text(value: str | None) -> str | None:
    """Return a client's text in the form that a column can store."""
    return value.replace('\0', '')[:MAX_TEXT_LENGTH] or None if value else None


class OperatorRecord(Record):
    """The audit record of a command. The command may create the schema, so a database without the table gets no
    record.
    """

    def join(self, conn: sa.Connection, database: engine.Database) -> None:
        if sa.inspect(conn).has_table('audit_records'):
            super().join(conn, database)


def outcome_of(code: int, error: BaseException | None = None) -> str:
    """Return the outcome (one of records.OUTCOMES) of a request with this status code and error."""
    if isinstance(error, engine.CommitUnanswered):
        return db.UNKNOWN
    if code < 400:
        return db.ACCEPTED
    return db.DENIED if code in (401, 403) else db.FAILED


@contextlib.contextmanager
def recording(record: Record | None) -> Iterator[None]:
    """Insert the record in this thread's first write transaction in the block. With None, no record is inserted."""
    token = _current.set(record)
    try:
        with engine.joining(record.join if record is not None else None):
            yield
    finally:
        _current.reset(token)


def about(id: str | int | None) -> None:
    """Set the target of this thread's recorded request to an id or a public name. None has no effect."""
    record = _current.get()
    if record is not None:
        record.about(id)


def belongs_to(project_id: str) -> None:
    """Set the owner of the target of this thread's request, if it is recorded."""
    record = _current.get()
    if record is not None:
        record.belongs_to(project_id)


def naming(function: Callable[Concatenate[sa.Connection, _Params], _Row],
           column: str) -> Callable[Concatenate[sa.Connection, _Params], _Row]:
    """Wrap ``function(conn, …)``, which returns a new row: record a column of this row as the id of the target."""
    def run(conn: sa.Connection, /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Row:
        row = function(conn, *args, **kwargs)
        about(str(row[column]))
        return row
    return run


# ---- records outside of transactions ----------------------------------------------

class _Bucket:
    """A token bucket, which limits requests to a burst and then to a rate per second."""

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
    def __init__(self, row: db.Values) -> None:
        super().__init__()
        self.row = row


_Who = tuple[str | None, str | None, str | None]         # (user, project, address)


class Auditor:
    """Writes the records that no transaction of the request has inserted, and publishes all records.

    :param api_db: Database of the API database
    """

    def __init__(self, api_db: engine.Database, notifier: Publisher | Off) -> None:
        self._db, self._notifier = api_db, notifier
        self._batch = batching.Batch(self._write, MAX_BATCH_RECORDS)
        self._lock = threading.Lock()
        self._all = _Bucket(ALL_RATE, ALL_BURST)
        self._callers: collections.OrderedDict[_Who, _Bucket] = collections.OrderedDict()
        self._dropped: collections.Counter[_Who] = collections.Counter()
        self._summary = False
        self._away_until: float = 0

    def finish(self, record: Record, code: int, error: BaseException | None = None) -> None:
        """Record and publish the end of a request. Errors are logged, never raised.

        :param code: status code of the response
        :param error: error that refused the request
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
                self._away_until = time.monotonic() + RETRY_DELAY_S
            metrics.AUDIT_LOG_LOST.labels('error').inc()
            values = record.values
            LOG.error('Cannot write the audit log (%s): request %s of user %s, project %s, from %s: %s returned %s.',
                      errors.reason(problem), values['request_id'], values['user_id'], values['project_id'],
                      values['remote_address'], values['action'], code)

    def _record(self, record: Record) -> bool:
        """Write a separate record, or correct an inserted one; return False if the rate limit drops the record."""
        if time.monotonic() < self._away_until:
            raise exception.ServiceUnavailable(service='database')
        if record.database is not None and record.values['outcome'] != db.ACCEPTED:
            for row in record.rows():
                record.database.run(db.correct, row)
            return True
        if record.values['outcome'] in (db.DENIED, db.FAILED) and not self._may_record(record.values):
            return False
        for row in record.rows():
            self._batch.run(_Item(row))
        return True

    def _write(self, items: Iterable[_Item]) -> None:
        self._db.run(db.insert_missing, [item.row for item in items])

    # ---- rate limits

    def _may_record(self, values: dict[str, Any]) -> bool:
        """Tell whether a refused request gets a record; otherwise count the request."""
        who = (values['user_id'], values['project_id'], values['remote_address'])
        with self._lock:
            bucket = self._callers.pop(who, None) or _Bucket(ONE_RATE, ONE_BURST)
            self._callers[who] = bucket
            if len(self._callers) > CALLERS:
                self._callers.popitem(last=False)
            if bucket.take() and self._all.take():
                return True
            self._dropped[who if who in self._dropped or len(self._dropped) < CALLERS else (None, None, None)] += 1
            metrics.AUDIT_LOG_LOST.labels('flood').inc()
            self._summary = self._summary or concurrency.try_spawn('audit-dropped', self._summarize)
        return False

    def _summarize(self) -> None:
        time.sleep(SUMMARY_S)
        self.flush()

    def flush(self) -> None:
        """For each caller, record the number of refused requests that got no record."""
        with self._lock:
            dropped, self._dropped = self._dropped, collections.Counter()
            self._summary = False
        rows = []
        for (user_id, project_id, address), count in dropped.items():
            record = Record('', '', DROPPED, target_type='audit', remote_address=address)
            record.values.update(user_id=user_id, project_id=project_id, outcome=db.DENIED,
                                 reason=f'{count} refused requests without separate records.')
            rows.append(record.row())
        for start in range(0, len(rows), MAX_BATCH_RECORDS):
            try:
                self._db.run(db.insert_missing, rows[start:start + MAX_BATCH_RECORDS])
            except Exception:
                LOG.exception('Cannot record the number of refused requests in the audit log: %d', dropped.total())


# ---- embedded services ------------------------------------------------------------

def named(action: str, target_id: str | None = None, target_part: str | None = None,
          **facts: Any) -> None:
    """Set the operation of this thread's request. A request to an embedded service without this call is not recorded.

    :param facts: further columns: route, target_type, and the status code of success
    """
    record = _current.get()
    if record is not None:
        record.named(action, target_id, target_part, **facts)


def asked_by(context: Caller) -> None:
    """Set the caller of this thread's request, for a service that authenticates callers in its handlers."""
    record = _current.get()
    if record is not None:
        record.asked_by(context)


class Face:
    """WSGI middleware that runs after authentication; it records a write if the embedded service calls ``named``."""

    def __init__(self, application: WSGIApplication, auditor: Auditor) -> None:
        self._application, self._auditor = application, auditor

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ['REQUEST_METHOD'] not in WRITES:
            return self._application(environ, start_response)
        request_id = environ.setdefault('openstack.request_id', nova_context.new_request_id())
        record = _FaceRecord(environ['REQUEST_METHOD'], '', None, context=environ.get('nova.context'),
                             remote_address=environ.get('REMOTE_ADDR'), request_id=request_id)
        codes = []

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Callable[[bytes], object]:
            codes.append(int(status[:3]))
            return start_response(status, headers, *more)
        try:
            with recording(record):
                return self._application(environ, start)
        finally:
            if record.values['action'] is not None:
                self._auditor.finish(record, codes[-1] if codes else 500)


class _FaceRecord(Record):
    def join(self, conn: sa.Connection, database: engine.Database) -> None:
        if self.values['action'] is not None:
            super().join(conn, database)
