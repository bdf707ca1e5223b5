"""Answers that are given again: rows of requests that came with an Idempotency-Key."""
import sqlalchemy as sa

from nova.db import engine
from nova.db.tables_api import idempotency_keys as table


def begin(conn, project_id, key_hash, request_hash, now):
    """Make the row of a request that begins; None when it was made here, else the row that was there, as a dict."""
    made = engine.insert_ignore(conn, table, {
        'project_id': project_id, 'key_hash': key_hash, 'request_hash': request_hash, 'created_at': now})
    if made.rowcount:
        return None
    return dict(conn.execute(sa.select(table).where(*_is(project_id, key_hash))).mappings().one())


def take_over(conn, row, now):
    """Begin again what another process began and never finished; False when somebody else was faster."""
    found = conn.execute(sa.update(table).where(
        *_is(row['project_id'], row['key_hash']), table.c.created_at == row['created_at'],
        table.c.answer.is_(None)).values(created_at=now))
    return bool(found.rowcount)


def finish(conn, project_id, key_hash, answer):
    conn.execute(sa.update(table).where(*_is(project_id, key_hash)).values(answer=answer))


def forget(conn, project_id, key_hash):
    """The request was refused: it may be sent again with this key."""
    conn.execute(sa.delete(table).where(*_is(project_id, key_hash)))


def expire(conn, before):
    """Remove the rows of requests that came before a time; their number."""
    return conn.execute(sa.delete(table).where(table.c.created_at < before)).rowcount


def _is(project_id, key_hash):
    return table.c.project_id == project_id, table.c.key_hash == key_hash
