"""The audit log of one database: its records, and a chain of digests that reveals changes.

A transaction inserts its record unsealed, so that writers do not wait for each other. ``seal`` numbers the committed
records without gaps and gives each a digest, computed from the record and the previous digest. Expired records are
removed oldest first, and a checkpoint among the records contains the last removed number. The functions work on the API
database and on cell databases.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
import dataclasses
import datetime
import hashlib
import hmac
from typing import TypeAlias
import uuid as uuidlib

import orjson
import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.audit import chain
from nova.db.tables.audit import records
from nova.db.tables.rows import AuditRecordsRow

Value: TypeAlias = str | int | datetime.datetime | None
Values = dict[str, Value]                # a record as {column: value}

ACCEPTED, DENIED, FAILED, UNKNOWN = OUTCOMES = ('accepted', 'denied', 'failed', 'unknown')
EXPIRED = 'audit:expire'                 # action of a checkpoint
GENESIS = '0' * 64                       # digest before the first record
PAGE = 500                               # maximum number of records that one transaction seals, verifies or removes
# columns in a digest, in this order; a new column requires new prefixes (_ROW, _CHECKPOINT)
_SEALED = ('seq', 'uuid', 'created_at', 'request_id', 'user_id', 'project_id', 'domain_id', 'roles', 'credential_id',
           'service_user_id', 'remote_address', 'method', 'route', 'action', 'target_type', 'target_id', 'target_part',
           'outcome', 'code', 'reason')
_ROW, _CHECKPOINT = 'audit record 1', 'audit checkpoint 1'
_HEAD = 1                                # id of the only row of the chain


# ---- writing -----------------------------------------------------------------

def insert(conn: sa.Connection, values: Values | list[Values]) -> None:
    """Insert one or several records."""
    conn.execute(statements.insert(records), values)


def insert_missing(conn: sa.Connection, values: list[Values]) -> None:
    """Insert records unless they exist; a commit with a lost response may have inserted them."""
    engine.insert_many_ignore(conn, records, values)


def correct(conn: sa.Connection, values: Values) -> None:
    """Correct the record of a request that failed after its first transaction.

    If the record is sealed or was not committed, a second record is inserted.
    """
    _lock(conn)
    found = conn.execute(sa.update(records).where(
        records.c.uuid == values['uuid'], records.c.seq.is_(None)).values(
        outcome=values['outcome'], code=values['code'], reason=values['reason'])).rowcount
    if not found:
        insert(conn, {**values, 'uuid': str(uuidlib.uuid4())})


# ---- reading -----------------------------------------------------------------

def page(conn: sa.Connection, filters: Mapping[str, Value], since: datetime.datetime | None = None,
         until: datetime.datetime | None = None, after: tuple[datetime.datetime, str] | None = None,
         limit: int | None = None) -> list[AuditRecordsRow]:
    """Return records as dicts, newest first.

    :param filters: {column: value}
    :param since, until: period of the records; ``since`` is inclusive
    :param after: (created_at, uuid) of the last record of the previous page
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


def place_of(conn: sa.Connection, uuid: str, filters: Mapping[str, Value]) -> tuple[datetime.datetime, str] | None:
    """Return the position of a record in pages, (created_at, uuid), or None if it does not pass the filters."""
    c = records.c
    row = conn.execute(sa.select(c.created_at, c.uuid).where(
        c.uuid == uuid, *(c[name] == value for name, value in filters.items()))).first()
    return None if row is None else (row.created_at, row.uuid)


# ---- the chain ---------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Seal:
    """A position in the chain: number and digest of a sealed record, as text ``number:digest``."""

    seq: int
    digest: str

    def __str__(self) -> str:
        return f'{self.seq}:{self.digest}'

    @classmethod
    def parse(cls, text: str) -> Seal:
        """Parse ``number:digest``.

        :raises ValueError: the text has another form
        """
        seq, _, digest = text.partition(':')
        if not seq.isascii() or not seq.isdigit() or len(seq) > 18 or len(digest) != 64:
            raise ValueError(text)
        return cls(int(seq), digest)


def digest_of(row: Mapping[str, Value], before: str, key: bytes) -> str:
    """Return the digest of a record, which also covers ``before``, the digest of the previous record.

    :param key: secret key as bytes; without a key (b'') anybody can compute the digest
    """
    domain = _CHECKPOINT if row['action'] == EXPIRED else _ROW
    text = orjson.dumps([domain, before, *(row[name] for name in _SEALED)])
    return hmac.digest(key, text, 'sha256').hex() if key else hashlib.sha256(text).hexdigest()


def head(conn: sa.Connection) -> Seal:
    """Return the Seal of the newest sealed record."""
    row = conn.execute(sa.select(chain.c.seq, chain.c.digest)).first()
    return Seal(*row) if row else Seal(0, GENESIS)


def _lock(conn: sa.Connection) -> Seal:
    """Lock the row of the table ``chain`` until the transaction ends; return the Seal of the newest sealed record.

    The row is inserted only if it is missing: on MariaDB an INSERT with an existing key takes a shared lock of the
    row, and two transactions that hold this lock and then write run into a deadlock.
    """
    if not _touch(conn):
        engine.insert_ignore(conn, chain, {'id': _HEAD, 'seq': 0, 'digest': GENESIS, 'sealed_at': utils.utcnow()})
        _touch(conn)
    return head(conn)


def _touch(conn: sa.Connection) -> bool:
    """Lock the row of the chain; return False if it does not exist."""
    return bool(conn.execute(sa.update(chain).where(chain.c.id == _HEAD).values(sealed_at=utils.utcnow())).rowcount)


def _advance(conn: sa.Connection, seal: Seal) -> None:
    conn.execute(sa.update(chain).where(chain.c.id == _HEAD).values(
        seq=seal.seq, digest=seal.digest, sealed_at=utils.utcnow()))


def waits_since(conn: sa.Connection) -> datetime.datetime | None:
    """Return the creation time of the oldest unsealed record, or None."""
    oldest = sa.select(sa.func.min(records.c.created_at)).where(records.c.seq.is_(None), records.c.action != EXPIRED)
    found: datetime.datetime | None = conn.execute(oldest).scalar()
    return found


def seal(conn: sa.Connection, key: bytes, expected: int | None = None) -> tuple[int, Seal]:
    """Seal the oldest unsealed records, at most PAGE.

    :param expected: minimum number that the head must have, because the caller has seen this number
    :returns: (number of sealed records, the Seal)
    :raises ValueError: the head has a smaller number; no record is sealed
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


def checkpoint(conn: sa.Connection) -> AuditRecordsRow | None:
    """Return the newest sealed checkpoint as a dict, or None if no record was ever removed."""
    row = conn.execute(sa.select(records).where(records.c.action == EXPIRED, records.c.seq.is_not(None)).order_by(
        records.c.seq.desc()).limit(1)).mappings().first()
    return None if row is None else statements.to_dict(row)


def floor(conn: sa.Connection) -> Seal:
    """Return the Seal of the newest removed record; its number is 0 if none was removed."""
    found = checkpoint(conn)
    return Seal.parse(str(found['target_id'])) if found else Seal(0, GENESIS)


def expire(conn: sa.Connection, key: bytes, before: datetime.datetime) -> int:
    """Remove the oldest sealed records that were created before ``before``, at most PAGE.

    :returns: number of removed records
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
        'reason': f'The retention time of records up to number {last.seq} is over.', 'seq': at.seq + 1}
    made['digest'] = digest = digest_of(made, at.digest, key)
    insert(conn, made)
    _advance(conn, Seal(at.seq + 1, digest))
    return conn.execute(sa.delete(records).where(c.seq <= last.seq)).rowcount


# ---- verifying ---------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Verified:
    """Result of a verification.

    wrong       a sentence about the first invalid record, or None if all are valid
    first, last numbers of the verified records
    waiting     number of unsealed records
    seal        the newest Seal
    """

    wrong: str | None
    first: int
    last: int
    waiting: int
    seal: Seal


def verify(db: engine.Database, key: bytes, exported: Iterable[Seal] = ()) -> Verified:
    """Verify the chain of a database by recomputing its digests.

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
            if not rows and floor(conn).seq > at.seq:       # the next records expired during the verification
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
    """Return (Seal of the last valid record, error of the next record or None)."""
    for number, row in enumerate(rows):
        name = f'Record {at.seq + 1}'
        if row['seq'] != at.seq + 1:
            return at, f'{name} was removed; the next existing record is {row["seq"]}.'
        digest = digest_of(row, at.digest, key)
        if not hmac.compare_digest(digest, str(row['digest'] or '')):
            behind = rows[number + 1] if number + 1 < len(rows) else None
            if behind and digest_of({**behind, 'seq': row['seq']}, at.digest, key) == behind['digest']:
                return at, f'{name} ({row["uuid"]}) was inserted; the next record originally had this number.'
            return at, (f'{name} ({row["uuid"]}) differs from the sealed record: it was changed or inserted, or '
                        '[audit] key has changed.')
        at = Seal(at.seq + 1, digest)
        if published.get(at.seq, digest) != digest:
            return at, (f'The digest of record {at.seq} ({row["uuid"]}) differs from the published one: '
                        'the log was rewritten.')
    return at, None


def _ends(db: engine.Database, first: int, at: Seal, top: Seal, published: Mapping[int, str]) -> str | None:
    """Check for records that were removed or inserted at the ends of the chain; return the error, or None."""
    c = records.c
    with db.reader() as conn:
        beyond = conn.execute(sa.select(c.uuid, c.seq).where(c.seq > max(top.seq, head(conn).seq)).order_by(c.seq)
                              .limit(1)).first()
        below = conn.execute(sa.select(c.uuid, c.seq).where(c.seq < first).limit(1)).first()
        forged = conn.execute(sa.select(c.uuid).where(c.seq.is_(None), c.action == EXPIRED).limit(1)).scalar()
    if at.seq < top.seq:
        return f'Records {at.seq + 1} to {top.seq} were removed.'
    if at != top and top.seq >= first:
        return f'The digest of record {at.seq} differs from the digest at the end of the chain.'
    if beyond is not None:
        return f'Record {beyond.seq} ({beyond.uuid}) was inserted after the end of the chain.'
    if below is not None and below.seq < first:
        return f'Record {below.seq} ({below.uuid}) was inserted before the oldest remaining record.'
    if forged is not None:
        return f'Checkpoint {forged} was inserted.'
    missing = max((seq for seq in published if seq > top.seq), default=None)
    if missing is not None:
        return f'Records {top.seq + 1} to {missing} were removed; the digest of record {missing} was published.'
    return None
