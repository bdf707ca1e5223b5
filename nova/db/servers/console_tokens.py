"""Console tokens. A token can open a console for a limited time; its row exists until the console session ends.

A stop or move of the server, or the deletion of the server or its project, deletes the row. The proxy then ends the
session at its next check. A live-migrated server keeps the tokens of its sessions, so that clients can reconnect with
them.
"""
import base64
from collections.abc import Iterable, Mapping
import datetime
import hashlib

from cryptography import fernet
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import statements
from nova.db.tables.cell import instances
from nova.db.tables.cell import console_auth_tokens as table
from nova.db.tables.rows import ConsoleAuthTokensRow
from nova.db.types import ColumnValues

# {console type: kind of console} of the consoles that use nova's own proxies
KINDS = {'novnc': 'vnc', 'spice-html5': 'spice', 'serial': 'serial'}
RECONNECT_TIME_S = 120                  # minimum time for a client to reconnect after a live migration
MAX_TOKEN_LENGTH = 255                   # maximum length of a token that is looked up; issued tokens have 36 characters
_DELETE = sa.delete(table).where(table.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _lock(token: str) -> fernet.Fernet:
    """Return the cipher for a console password. Its key is the token, which the database does not contain."""
    return fernet.Fernet(base64.urlsafe_b64encode(hashlib.sha256(b'console password ' + token.encode()).digest()))


def insert(conn: sa.Connection, token: str, ttl_s: int, values: ColumnValues, password: str | None = None) -> None:
    """Store a token that is valid for ``ttl_s`` seconds.

    :param values: the other columns of the table; ``user_token_expires_at`` limits the validity
    :param password: password of the console
    """
    now, until = utils.utcnow(), values.get('user_token_expires_at')
    end = now + datetime.timedelta(seconds=ttl_s)
    secret = _lock(token).encrypt(password.encode()).decode() if password else None
    conn.execute(sa.insert(table).values(
        token_hash=_hash(token), created_at=now, secret=secret,
        expires_at=min(end, until) if isinstance(until, datetime.datetime) else end, **values))


def password(row: ConsoleAuthTokensRow, token: str) -> str | None:
    """Return the password of a token's console, or None."""
    return _lock(token).decrypt(row['secret'].encode()).decode() if row['secret'] else None


def get(conn: sa.Connection, token: str) -> ConsoleAuthTokensRow:
    """Return the row of a valid token. A token is valid if it has not expired and its server is still on the same host.

    :raises ConsoleTokenNotFound: the token is not valid
    """
    statement = sa.select(table).join(instances, sa.and_(
        instances.c.uuid == table.c.instance_uuid, instances.c.host == table.c.instance_host)).where(
        table.c.token_hash == _hash(token), table.c.expires_at > utils.utcnow())
    row = conn.execute(statement).mappings().first()
    if row is None:
        raise exception.ConsoleTokenNotFound()
    return statements.to_dict(row)


def take(conn: sa.Connection, token: str, seconds: int, once: bool) -> ConsoleAuthTokensRow:
    """Begin a session and return the row; see ``get``.

    :param seconds: time until ``keep`` must be called
    :param once: whether only the first session is allowed
    :raises ConsoleTokenNotFound: the token is not valid, or was used
    """
    row = get(conn, token)
    condition = [table.c.token_hash == row['token_hash'], *([table.c.session_expires_at.is_(None)] if once else ())]
    taken = conn.execute(sa.update(table).where(*condition).values(
        session_expires_at=utils.utcnow() + datetime.timedelta(seconds=seconds)))
    if not taken.rowcount:
        raise exception.ConsoleTokenNotFound()
    return row


def keep(conn: sa.Connection, hashes: Iterable[str], seconds: int) -> set[str]:
    """Extend the sessions of servers that are still on the token's host; return the token_hash of these sessions.

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
            session_expires_at=utils.utcnow() + datetime.timedelta(seconds=seconds)))
    return found


def delete(conn: sa.Connection, *instance_uuids: str) -> None:
    """Delete all console tokens of these servers."""
    conn.execute(_DELETE, {'uuids': list(instance_uuids)})


def delete_unused(conn: sa.Connection, instance_uuid: str) -> None:
    """Delete the console tokens of a server, except tokens with open sessions, which ``follow`` updates."""
    conn.execute(sa.delete(table).where(table.c.instance_uuid == instance_uuid, sa.or_(
        table.c.session_expires_at.is_(None), table.c.session_expires_at <= utils.utcnow())))


def left_behind(conn: sa.Connection, instance_uuid: str, host: str) -> set[str]:
    """Return the console types of tokens that point to a former host of a server."""
    return set(conn.execute(sa.select(table.c.console_type).where(
        table.c.instance_uuid == instance_uuid, table.c.instance_host != host)).scalars())


def follow(conn: sa.Connection, instance_uuid: str, host: str, places: Mapping[str, ColumnValues]) -> None:
    """Update a server's tokens that refer to a former host of the server.

    The guest keeps its console passwords, so the encrypted passwords are unchanged.
    :param places: {console type: columns of the new place}; tokens of other types are deleted
    """
    now = utils.utcnow()
    rows = conn.execute(sa.select(table).where(
        table.c.instance_uuid == instance_uuid, table.c.instance_host != host)).mappings().all()
    for row in rows:
        this = table.c.token_hash == row['token_hash']
        if row['console_type'] not in places:
            conn.execute(sa.delete(table).where(this))
            continue
        end = max(row['expires_at'], now + datetime.timedelta(seconds=RECONNECT_TIME_S))
        conn.execute(sa.update(table).where(this).values(
            **places[row['console_type']], instance_host=host, session_expires_at=None,
            expires_at=min(end, row['user_token_expires_at'] or end)))


def expire(conn: sa.Connection) -> int:
    """Delete expired tokens without a session; return their number."""
    now = utils.utcnow()
    return conn.execute(sa.delete(table).where(table.c.expires_at <= now, sa.or_(
        table.c.session_expires_at.is_(None), table.c.session_expires_at <= now))).rowcount
