"""Console tokens: what opens a console for a while, and stays while a session of it lasts.

A session ends with the row of its token: whatever deletes the row (a stop, a move, the delete of the server or of its
project) ends the sessions as well, as soon as their proxy looks. A server that moves while it runs takes the tokens of
its sessions with it: the client connects again with the same one.
"""
from __future__ import annotations

import base64
from collections.abc import Iterable
import datetime
import hashlib
from typing import Any, TYPE_CHECKING

from cryptography import fernet
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import statements
from nova.db.tables.cell import instances
from nova.db.tables.console import console_auth_tokens as table

if TYPE_CHECKING:
    from nova.db.tables.rows import ConsoleAuthTokensRow

# console type: kind of console, of those whose sessions are kept by proxies of ours
KINDS = {'novnc': 'vnc', 'spice-html5': 'spice', 'serial': 'serial'}
FOLLOW_S = 120                  # that the client of a session has at least to connect again
LONGEST = 255                   # characters of a token that is looked up; ours have 36
_DELETE = sa.delete(table).where(table.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _lock(token: str) -> fernet.Fernet:
    """What seals the password of a console: who has the database has not the tokens."""
    return fernet.Fernet(base64.urlsafe_b64encode(hashlib.sha256(b'console password ' + token.encode()).digest()))


def insert(conn: sa.Connection, token: str, ttl_s: int, values: dict[str, Any], password: str | None = None) -> None:
    """Store a token that is good for so many seconds.

    :param values: the other columns of the table; it is good no longer than until ``user_token_ends_at``
    :param password: that the console asks for
    """
    now = utils.utcnow()
    end = now + datetime.timedelta(seconds=ttl_s)
    secret = _lock(token).encrypt(password.encode()).decode() if password else None
    conn.execute(sa.insert(table).values(token_hash=_hash(token), created_at=now, secret=secret,
                                         expires_at=min(end, values.get('user_token_ends_at') or end), **values))


def password(row: ConsoleAuthTokensRow, token: str) -> str | None:
    """The password of the console that a token opens; None where it asks for none."""
    return _lock(token).decrypt(row['secret'].encode()).decode() if row['secret'] else None


def get(conn: sa.Connection, token: str) -> ConsoleAuthTokensRow:
    """The row of a token that is good: not expired, and its server is where it was when the token was made.

    :raises ConsoleTokenNotFound:
    """
    statement = sa.select(table).join(instances, sa.and_(
        instances.c.uuid == table.c.instance_uuid, instances.c.host == table.c.instance_host)).where(
        table.c.token_hash == _hash(token), table.c.expires_at > utils.utcnow())
    row = conn.execute(statement).mappings().first()
    if row is None:
        raise exception.ConsoleTokenNotFound()
    return statements.to_dict(row)


def take(conn: sa.Connection, token: str, seconds: int, once: bool) -> ConsoleAuthTokensRow:
    """``get``, and a session of it has begun.

    :param seconds: until ``keep`` has to be called
    :param once: whether only the first session may begin
    :raises ConsoleTokenNotFound: it is not good, or was used
    """
    row = get(conn, token)
    condition = [table.c.token_hash == row['token_hash'], *([table.c.used_until.is_(None)] if once else ())]
    taken = conn.execute(sa.update(table).where(*condition).values(
        used_until=utils.utcnow() + datetime.timedelta(seconds=seconds)))
    if not taken.rowcount:
        raise exception.ConsoleTokenNotFound()
    return row


def keep(conn: sa.Connection, hashes: Iterable[str], seconds: int) -> set[str]:
    """The hashes whose sessions may go on, for so many seconds.

    :param hashes: token_hash of sessions
    """
    wanted = sorted(set(hashes))
    if not wanted:
        return set()
    statement = sa.select(table.c.token_hash).join(instances, sa.and_(
        instances.c.uuid == table.c.instance_uuid, instances.c.host == table.c.instance_host)).where(
        table.c.token_hash.in_(wanted))
    found = set(conn.execute(statement).scalars())
    if found:
        conn.execute(sa.update(table).where(table.c.token_hash.in_(sorted(found))).values(
            used_until=utils.utcnow() + datetime.timedelta(seconds=seconds)))
    return found


def delete(conn: sa.Connection, *instance_uuids: str) -> None:
    """Nothing opens a console of these servers any more."""
    conn.execute(_DELETE, {'uuids': list(instance_uuids)})


def delete_unused(conn: sa.Connection, instance_uuid: str) -> None:
    """Nothing opens a console of this server any more but tokens of sessions, once ``follow`` has found their place."""
    conn.execute(sa.delete(table).where(table.c.instance_uuid == instance_uuid, sa.or_(
        table.c.used_until.is_(None), table.c.used_until <= utils.utcnow())))


def left_behind(conn: sa.Connection, instance_uuid: str, host: str) -> set[str]:
    """The console types of tokens that lead to where a server was before it came to this host."""
    return set(conn.execute(sa.select(table.c.console_type).where(
        table.c.instance_uuid == instance_uuid, table.c.instance_host != host)).scalars())


def follow(conn: sa.Connection, instance_uuid: str, host: str, places: dict[str, dict[str, Any]]) -> None:
    """Let the tokens of sessions lead to the host that their server has moved to.

    The guest keeps the passwords of its consoles, so what is sealed stays.

    :param places: {console type: columns of the place there}; tokens of other types are deleted
    """
    now = utils.utcnow()
    rows = conn.execute(sa.select(table).where(
        table.c.instance_uuid == instance_uuid, table.c.instance_host != host)).mappings().all()
    for row in rows:
        this = table.c.token_hash == row['token_hash']
        if row['console_type'] not in places:
            conn.execute(sa.delete(table).where(this))
            continue
        end = max(row['expires_at'], now + datetime.timedelta(seconds=FOLLOW_S))
        conn.execute(sa.update(table).where(this).values(
            **places[row['console_type']], instance_host=host, used_until=None,
            expires_at=min(end, row['user_token_ends_at'] or end)))


def expire(conn: sa.Connection) -> int:
    """Remove those whose time is over and that no session uses; their number."""
    now = utils.utcnow()
    return conn.execute(sa.delete(table).where(table.c.expires_at <= now, sa.or_(
        table.c.used_until.is_(None), table.c.used_until <= now))).rowcount
