"""The audit log of one database: its records, and the chain of digests that shows whether they were changed.

A transaction inserts its record unsealed, so that writers do not wait for each other. ``seal`` takes what was committed
meanwhile, numbers it without gaps and gives each record a digest of itself and of the one before. What is older than it
has to be kept is removed from the oldest on, and a checkpoint among the records says up to where.

Every function works on the API database and on a cell's.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
import dataclasses
import datetime
import hashlib
import hmac
from typing import Any
import uuid as uuidlib

import orjson
import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.audit import chain
from nova.db.tables.audit import records

Values = dict[str, Any]                  # of a record: {column: value}

ACCEPTED, DENIED, FAILED, UNKNOWN = OUTCOMES = ('accepted', 'denied', 'failed', 'unknown')
EXPIRED = 'audit:expire'                 # action of a checkpoint
GENESIS = '0' * 64                       # what stands before the first record
PAGE = 500                               # records of one transaction that seals, verifies or removes
# what a digest is of, in this order; a new column comes in with a new domain
_SEALED = ('seq', 'uuid', 'created_at', 'request_id', 'user_id', 'project_id', 'domain_id', 'roles', 'credential_id',
           'service_user_id', 'remote_address', 'method', 'route', 'action', 'target_type', 'target_id', 'target_part',
           'outcome', 'code', 'reason')
_ROW, _CHECKPOINT = 'audit record 1', 'audit checkpoint 1'
_HEAD = 1                                # id of the one row of the chain


# ---- writing -----------------------------------------------------------------

def insert(conn: sa.Connection, values: Values | list[Values]) -> None:
    """Add a record, or several."""
    conn.execute(statements.insert(records), values)


def insert_missing(conn: sa.Connection, values: list[Values]) -> None:
    """Add records, apart from those that are there: a commit that was not answered may have been one."""
    engine.insert_many_ignore(conn, records, values)


def correct(conn: sa.Connection, values: Values) -> None:
    """Let the record of a request that went on after its first transaction, and failed, say so.

    One that is sealed already, or was never committed, gets a second one in addition.
    """
    _lock(conn)
    found = conn.execute(sa.update(records).where(
        records.c.uuid == values['uuid'], records.c.seq.is_(None)).values(
        outcome=values['outcome'], code=values['code'], reason=values['reason'])).rowcount
    if not found:
        insert(conn, {**values, 'uuid': str(uuidlib.uuid4())})


# ---- reading -----------------------------------------------------------------

def page(conn: sa.Connection, filters: Mapping[str, Any], since: datetime.datetime | None = None,
         until: datetime.datetime | None = None, after: tuple[datetime.datetime, str] | None = None,
         limit: int | None = None) -> list[Values]:
    """Records as dicts, the newest first.

    :param filters: {column: value}
    :param since, until: times, the first inclusive
    :param after: (created_at, uuid) of the record before the page
    """
    c = records.c
    statement = sa.select(records).where(*(c[name] == value for name, value in filters.items()))
    if since is not None:
        statement = statement.where(c.created_at >= since)
    if until is not None:
        statement = statement.where(c.created_at < until)
    if after is not None:
        moment, uuid = after
        statement = statement.where(sa.or_(c.created_at < moment, sa.and_(c.created_at == moment, c.uuid < uuid)))
    return statements.dicts(conn.execute(statement.order_by(c.created_at.desc(), c.uuid.desc()).limit(limit)))


def place_of(conn: sa.Connection, uuid: str, filters: Mapping[str, Any]) -> tuple[datetime.datetime, str] | None:
    """(created_at, uuid) of a record that passes the filters, or None."""
    c = records.c
    row = conn.execute(sa.select(c.created_at, c.uuid).where(
        c.uuid == uuid, *(c[name] == value for name, value in filters.items()))).first()
    return None if row is None else (row.created_at, row.uuid)


# ---- the chain ---------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Seal:
    """Up to where a log is sealed: the number of the record and its digest, as text ``number:digest``."""

    seq: int
    digest: str

    def __str__(self) -> str:
        return f'{self.seq}:{self.digest}'

    @classmethod
    def parse(cls, text: str) -> Seal:
        """:raises ValueError: it is none"""
        seq, _, digest = text.partition(':')
        if not seq.isascii() or not seq.isdigit() or len(seq) > 18 or len(digest) != 64:
            raise ValueError(text)
        return cls(int(seq), digest)


def digest_of(row: Mapping[str, Any], before: str, key: bytes) -> str:
    """The digest of a record behind the one with the digest ``before``.

    :param key: bytes; b'': the digest is one that everybody can make
    """
    domain = _CHECKPOINT if row['action'] == EXPIRED else _ROW
    text = orjson.dumps([domain, before, *(row[name] for name in _SEALED)])
    return hmac.digest(key, text, 'sha256').hex() if key else hashlib.sha256(text).hexdigest()


def head(conn: sa.Connection) -> Seal:
    """The Seal of the newest sealed record."""
    row = conn.execute(sa.select(chain.c.seq, chain.c.digest)).first()
    return Seal(*row) if row else Seal(0, GENESIS)


def _lock(conn: sa.Connection) -> Seal:
    """The head, locked until the transaction ends.

    The row is made where it is missing alone: on MariaDB an INSERT that finds its key taken shares a lock of the row,
    and two that share it and both go on to write are a deadlock each time.
    """
    if not _touch(conn):
        engine.insert_ignore(conn, chain, {'id': _HEAD, 'seq': 0, 'digest': GENESIS, 'sealed_at': utils.utcnow()})
        _touch(conn)
    return head(conn)


def _touch(conn: sa.Connection) -> bool:
    """Lock the row of the head; False: there is none yet."""
    return bool(conn.execute(sa.update(chain).where(chain.c.id == _HEAD).values(sealed_at=utils.utcnow())).rowcount)


def _advance(conn: sa.Connection, seal: Seal) -> None:
    conn.execute(sa.update(chain).where(chain.c.id == _HEAD).values(
        seq=seal.seq, digest=seal.digest, sealed_at=utils.utcnow()))


def waits_since(conn: sa.Connection) -> datetime.datetime | None:
    """When the oldest record was made that is to be sealed; None: there is nothing to seal."""
    oldest = sa.select(sa.func.min(records.c.created_at)).where(records.c.seq.is_(None), records.c.action != EXPIRED)
    found: datetime.datetime | None = conn.execute(oldest).scalar()
    return found


def seal(conn: sa.Connection, key: bytes, expected: int | None = None) -> tuple[int, Seal]:
    """Seal the oldest records that wait, PAGE at most.

    :param expected: the least number that the head must have: what who asks has seen before
    :returns: (how many, the Seal)
    :raises ValueError: the head lies before that; nothing is sealed
    """
    at = _lock(conn)
    if expected is not None and at.seq < expected:
        raise ValueError(f'{at.seq} < {expected}')
    rows = statements.dicts(conn.execute(sa.select(records).where(
        records.c.seq.is_(None), records.c.action != EXPIRED).order_by(records.c.id).limit(PAGE)))
    sealed = []
    for row in rows:
        row['seq'] = at.seq + 1
        at = Seal(row['seq'], digest_of(row, at.digest, key))
        sealed.append({'key_id': row['id'], 'seq': at.seq, 'digest': at.digest})
    if sealed:
        conn.execute(sa.update(records).where(records.c.id == sa.bindparam('key_id')).values(
            seq=sa.bindparam('seq'), digest=sa.bindparam('digest')), sealed)
        _advance(conn, at)
    return len(sealed), at


def checkpoint(conn: sa.Connection) -> Values | None:
    """The newest sealed checkpoint as a dict, or None: nothing was ever removed."""
    row = conn.execute(sa.select(records).where(records.c.action == EXPIRED, records.c.seq.is_not(None)).order_by(
        records.c.seq.desc()).limit(1)).mappings().first()
    return None if row is None else dict(row)


def floor(conn: sa.Connection) -> Seal:
    """The Seal of the last record that was removed."""
    found = checkpoint(conn)
    return Seal.parse(found['target_id']) if found else Seal(0, GENESIS)


def expire(conn: sa.Connection, key: bytes, before: datetime.datetime) -> int:
    """Remove the sealed records from before a time, from the oldest on up to the first that is younger, PAGE at most.

    :returns: how many
    """
    at, low, c = _lock(conn), floor(conn), records.c
    found = conn.execute(sa.select(c.seq, c.digest, c.created_at).where(c.seq > low.seq, c.seq <= at.seq).order_by(
        c.seq).limit(PAGE)).all()
    last = None
    for row in found:
        if row.created_at >= before:
            break
        last = row
    if last is None:
        return 0
    made: Values = {
        **dict.fromkeys(_SEALED), 'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'method': 'DELETE',
        'route': '', 'action': EXPIRED, 'target_type': 'audit', 'outcome': ACCEPTED,
        'target_id': str(Seal(last.seq, last.digest)), 'target_part': last.created_at.isoformat(),
        'reason': f'Records up to number {last.seq} were kept long enough.', 'seq': at.seq + 1}
    made['digest'] = digest_of(made, at.digest, key)
    insert(conn, made)
    _advance(conn, Seal(made['seq'], made['digest']))
    return conn.execute(sa.delete(records).where(c.seq <= last.seq)).rowcount


# ---- verifying ---------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Verified:
    """What a look at a log found.

    wrong       a sentence about the first record that is not as it was sealed; None: all are
    first, last numbers of the records that were looked at
    waiting     records that are not sealed yet
    seal        the newest Seal
    """

    wrong: str | None
    first: int
    last: int
    waiting: int
    seal: Seal


def verify(db: engine.Database, key: bytes, exported: Iterable[Seal] = ()) -> Verified:
    """Compute the chain of a Database again.

    :param exported: Seals that were published elsewhere
    """
    with db.reader() as conn:
        at, top = floor(conn), head(conn)
        waiting = conn.execute(sa.select(sa.func.count()).where(records.c.seq.is_(None))).scalar_one()
    first, published = at.seq + 1, {seal.seq: seal.digest for seal in exported}
    wrong: str | None = None
    while wrong is None and at.seq < top.seq:
        with db.reader() as conn:
            rows = _after(conn, at.seq, top.seq)
            if not rows and floor(conn).seq > at.seq:       # what was to be looked at has expired meanwhile
                at = floor(conn)
                continue
        at, wrong = _walk(rows, at, key, published)
        if not rows:
            break
    if wrong is None:
        wrong = _ends(db, first, at, top, published)
    return Verified(wrong, first, at.seq, waiting, top)


def _after(conn: sa.Connection, seq: int, top: int) -> list[Values]:
    c = records.c
    statement = sa.select(records).where(c.seq > seq, c.seq <= top).order_by(c.seq).limit(PAGE)
    return statements.dicts(conn.execute(statement))


def _walk(rows: list[Values], at: Seal, key: bytes, published: Mapping[int, str]) -> tuple[Seal, str | None]:
    """(Seal of the last record that is right, what is wrong with the next one or None)."""
    for number, row in enumerate(rows):
        name = f'Record {at.seq + 1}'
        if row['seq'] != at.seq + 1:
            return at, f'{name} was removed; the next one that is there is record {row["seq"]}.'
        digest = digest_of(row, at.digest, key)
        if not hmac.compare_digest(digest, row['digest'] or ''):
            behind = rows[number + 1] if number + 1 < len(rows) else None
            if behind and digest_of({**behind, 'seq': row['seq']}, at.digest, key) == behind['digest']:
                return at, f'{name} ({row["uuid"]}) was inserted: the one behind it stood in its place.'
            return at, (f'{name} ({row["uuid"]}) is not the one that was sealed: it was changed or inserted, or '
                        '[audit] key is another one.')
        at = Seal(row['seq'], digest)
        if published.get(at.seq, digest) != digest:
            return at, f'{name} ({row["uuid"]}) has another digest than was published: the log was rewritten.'
    return at, None


def _ends(db: engine.Database, first: int, at: Seal, top: Seal, published: Mapping[int, str]) -> str | None:
    """What is wrong where the records begin and end, or None."""
    c = records.c
    with db.reader() as conn:
        beyond = conn.execute(sa.select(c.uuid, c.seq).where(c.seq > max(top.seq, head(conn).seq)).order_by(c.seq)
                              .limit(1)).first()
        below = conn.execute(sa.select(c.uuid, c.seq).where(c.seq < first).limit(1)).first()
        forged = conn.execute(sa.select(c.uuid).where(c.seq.is_(None), c.action == EXPIRED).limit(1)).scalar()
    if at.seq < top.seq:
        return f'Record {at.seq + 1} was removed, and all behind it up to record {top.seq}.'
    if at != top and top.seq >= first:
        return f'Record {at.seq} has another digest than the end of the chain.'
    if beyond is not None:
        return f'Record {beyond.seq} ({beyond.uuid}) was inserted behind the end of the chain.'
    if below is not None and below.seq < first:
        return f'Record {below.seq} ({below.uuid}) was inserted before the first one that is kept.'
    if forged is not None:
        return f'Checkpoint {forged} was inserted.'
    missing = max((seq for seq in published if seq > top.seq), default=None)
    if missing is not None:
        return f'Record {top.seq + 1} was removed, and all behind it up to record {missing}, which was published.'
    return None
