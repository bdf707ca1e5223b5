"""Keys that sign messages, and tokens with which new hosts join."""
import base64
from collections.abc import Callable
import datetime
import secrets
from typing import Any, Protocol, TypedDict

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.networks import hosts as network_hosts
from nova.db.tables.api import join_tokens
from nova.db.tables.api import message_keys as table

DEPLOYMENT, DEPLOYMENT_ID = '', 'deployment'         # ``host`` of all keys of the deployment; ``id`` of the first
PENDING, APPROVED, RENEWING, RETIRED, REVOKED = 'pending', 'approved', 'renewing', 'retired', 'revoked'
GOOD = (APPROVED, RENEWING)
OVERLAP = datetime.timedelta(hours=1)        # time within which messages signed with the previous key are accepted
MAX_PENDING = 1000           # keys of all hosts that wait for approval: any sender of messages can add them
MAX_RENEWALS = 100           # retired keys of a host
KEPT = datetime.timedelta(days=1)            # time after which pending and expired keys are deleted if room is needed
TOKENS_OF = '.'


# Only ``signing_key`` reads the private half of the deployment's key, so that accounts without access to that column
# can do everything else. See db/grants.py.
PUBLIC = tuple(column for column in table.c if column not in (table.c.private, table.c.signatures_required))

# Earlier releases also stored keys that senders of messages had sent for an empty host name: they have no signature.
_GENUINE = sa.or_(table.c.id == DEPLOYMENT_ID, table.c.signed_by.is_not(None))
_OF_DEPLOYMENT = sa.and_(table.c.host == DEPLOYMENT, _GENUINE)


class KeyPair(Protocol):
    """The part of nova.rpc.signatures.Key that this module uses."""

    id: str
    public: bytes

    def private_bytes(self) -> bytes: ...


class PublicKey(TypedDict):
    """A row of message_keys without the private half of the key."""

    id: str
    host: str
    public: str
    state: str
    created_at: datetime.datetime
    expires_at: datetime.datetime | None
    signed_by: str | None
    key_signature: str | None


class SigningKey(PublicKey):
    """The row of the deployment's key, with its private half."""

    private: str
    signatures_required: bool


def signing_key(conn: sa.Connection, make: Callable[[], KeyPair]) -> SigningKey:
    """Return the row of the deployment's key with its private half; create it for a new deployment.

    A new deployment requires signatures, unless the configuration overrides this.
    :param make: function that creates a key
    """
    own = sa.select(table).where(_OF_DEPLOYMENT, table.c.state == APPROVED)
    row = conn.execute(own).mappings().first()
    if row is None:
        key = make()
        # if several processes start together, the key of the first one is used
        engine.insert_ignore(conn, table, {
            **_row(DEPLOYMENT, DEPLOYMENT_ID, key.public, APPROVED), 'signatures_required': True,
            'private': base64.b64encode(key.private_bytes()).decode()})
        row = conn.execute(own).mappings().one()
    return statements.to_dict(row)


def of_deployment(conn: sa.Connection) -> list[PublicKey]:
    """Return the rows of the deployment's former, present and next keys without private halves, oldest first."""
    return _rows(conn, _OF_DEPLOYMENT)


def stage(conn: sa.Connection, key: KeyPair, signed_by: str, key_signature: bytes) -> None:
    """Insert the next key of the deployment. Hosts learn the key before it is used.

    :param signed_by: fingerprint of the present key
    :param key_signature: the present key's signature of the new one
    """
    conn.execute(sa.insert(table).values(
        **{**_row(DEPLOYMENT, key.id, key.public, PENDING),
           'private': base64.b64encode(key.private_bytes()).decode()},
        signed_by=signed_by, key_signature=base64.b64encode(key_signature).decode(),
        signatures_required=requires_signatures(conn)))


def requires_signatures(conn: sa.Connection) -> bool:
    """Return whether signatures are required if [messages] signatures is not set; True before the first start."""
    found = conn.execute(sa.select(table.c.signatures_required).where(
        _OF_DEPLOYMENT, table.c.state == APPROVED)).scalar()
    return found is None or bool(found)


def promote(conn: sa.Connection, ident: str, expires_at: datetime.datetime) -> None:
    """Activate the next key of the deployment.

    :param expires_at: end of the acceptance of messages that are signed with the previous key
    """
    conn.execute(sa.update(table).where(table.c.host == DEPLOYMENT, table.c.state == APPROVED).values(
        state=RETIRED, private=None, expires_at=expires_at))
    conn.execute(sa.update(table).where(table.c.id == ident).values(state=APPROVED, created_at=utils.utcnow()))


def _rows(conn: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[PublicKey]:
    return statements.dicts(conn.execute(
        sa.select(*PUBLIC).where(*conditions).order_by(table.c.created_at, table.c.id)))


def _row(host: str, ident: str, public: bytes, state: str) -> dict[str, Any]:
    return {'id': ident, 'host': host, 'public': base64.b64encode(public).decode(), 'private': None,
            'state': state, 'created_at': utils.utcnow(), 'expires_at': None}


def get(conn: sa.Connection, ident: str) -> PublicKey | None:
    """Return the row of a key without its private half, or None."""
    return next(iter(_rows(conn, table.c.id == ident)), None)


_MANY = sa.select(*PUBLIC).where(table.c.id.in_(sa.bindparam('ids', expanding=True)))


def get_many(conn: sa.Connection, ids: list[str]) -> dict[str, PublicKey]:
    """Return {id: row of the key without its private half} of the keys that exist."""
    return {row['id']: row for row in statements.dicts(conn.execute(_MANY, {'ids': ids}))}


def is_trusted(row: PublicKey) -> bool:
    """Tell whether messages signed with a key (a row) are accepted, now or after the next key change.

    The deployment's next key does not sign messages yet; receivers accept it in advance.
    """
    if row['host'] == DEPLOYMENT:
        return (row['id'] == DEPLOYMENT_ID or row['signed_by'] is not None) and (
            is_good(row) or row['state'] == PENDING)
    return is_good(row)


def is_good(row: PublicKey) -> bool:
    """Tell whether messages signed with a key (a row) are accepted."""
    return row['state'] in GOOD or (
        row['state'] == RETIRED and row['expires_at'] is not None and row['expires_at'] > utils.utcnow())


def of_hosts(conn: sa.Connection) -> list[PublicKey]:
    """Return the rows of all hosts' keys, by host and age."""
    return sorted(_rows(conn, table.c.host != DEPLOYMENT), key=lambda row: row['host'])


def add(conn: sa.Connection, host: str, ident: str, public: bytes, state: str) -> PublicKey:
    """Insert a key of a host, or approve a pending one; return its row. Revoked keys are unchanged.

    :raises HostKeyRefused: the key belongs to another host, or the name of the host is empty
    :raises TooManyHostKeys:
    """
    _check_name(host)
    row = get(conn, ident)
    if row is None:
        _make_room(conn, host, state)
        engine.insert_ignore(conn, table, _row(host, ident, public, state))
        row, = _rows(conn, table.c.id == ident)
    if row['host'] != host:
        raise exception.HostKeyRefused(host=host, reason='the key belongs to another host')
    if state == APPROVED and row['state'] == PENDING:
        set_state(conn, ident, APPROVED)
        row['state'] = APPROVED
    return row


def _check_name(host: str) -> None:
    """Refuse the empty name: it stands for the deployment. Some databases ignore spaces at the end of a text.

    :raises HostKeyRefused: the name is empty
    """
    if not host.strip():
        raise exception.HostKeyRefused(host=repr(host), reason='the name of the host is empty')


def _make_room(conn: sa.Connection, host: str, state: str) -> None:
    """Delete unused keys, and refuse a key beyond the limits. A host that still waits adds its key again.

    :raises TooManyHostKeys:
    """
    old = utils.utcnow() - KEPT
    conn.execute(sa.delete(table).where(sa.or_(
        sa.and_(table.c.host == DEPLOYMENT, sa.not_(_GENUINE)),
        sa.and_(table.c.host != DEPLOYMENT, sa.or_(
            sa.and_(table.c.state == PENDING, table.c.created_at < old),
            sa.and_(table.c.state == RETIRED, table.c.expires_at < old))))))
    if statements.more_than(conn, table, MAX_PENDING - 1, state=PENDING) if state == PENDING else (
            statements.more_than(conn, table, MAX_RENEWALS - 1, host=host, state=RETIRED)):
        raise exception.TooManyHostKeys(host=host)


def set_state(conn: sa.Connection, ident: str, state: str, expires_at: datetime.datetime | None = None) -> None:
    conn.execute(sa.update(table).where(table.c.id == ident).values(state=state, expires_at=expires_at))


def replace_others(conn: sa.Connection, host: str, ident: str) -> None:
    """Retire the earlier keys of a host; they are accepted for the time OVERLAP.

    :raises HostKeyRefused: the name of the host is empty
    """
    _check_name(host)
    conn.execute(sa.update(table).where(table.c.host == host, table.c.id != ident, table.c.state.in_(GOOD)).values(
        state=RETIRED, expires_at=utils.utcnow() + OVERLAP))


def revoke(conn: sa.Connection, host: str) -> int:
    """Revoke all keys of a host, and take the routers from the host; return the number of keys.

    :raises HostKeyRefused: the name of the host is empty
    """
    _check_name(host)
    network_hosts.distrust(conn, host)
    return conn.execute(sa.update(table).where(table.c.host == host, table.c.state != REVOKED).values(
        state=REVOKED)).rowcount


def withdraw(conn: sa.Connection, host: str) -> dict[str, str]:
    """Like ``revoke``, but return the {id: previous state} that ``restore`` needs."""
    states = {row['id']: row['state'] for row in _rows(conn, table.c.host == host)}
    revoke(conn, host)
    return states


def restore(conn: sa.Connection, states: dict[str, str]) -> None:
    """Restore the previous states of the keys that ``withdraw`` has revoked."""
    for ident, state in states.items():
        conn.execute(sa.update(table).where(table.c.id == ident, table.c.state == REVOKED).values(state=state))


def renew(conn: sa.Connection, host: str) -> int:
    """Make a host create a new key at its next request; return the number of its approved keys.

    :raises HostKeyRefused: the name of the host is empty
    """
    _check_name(host)
    return conn.execute(sa.update(table).where(table.c.host == host, table.c.state == APPROVED).values(
        state=RENEWING)).rowcount


def has_good(conn: sa.Connection, host: str) -> bool:
    """Tell whether a host has a valid key."""
    return any(is_good(row) for row in _rows(conn, table.c.host == host))


def is_revoked(conn: sa.Connection, host: str) -> bool:
    """Tell whether all keys of a host are revoked. Other services may accept the keys until they read the rows."""
    rows = _rows(conn, table.c.host == host)
    return bool(rows) and not any(is_good(row) for row in rows) and any(row['state'] == REVOKED for row in rows)


def new_token(conn: sa.Connection, valid_s: int) -> str:
    """Create a token with which one host can join the deployment; return the text 'id.secret'."""
    now = utils.utcnow()
    conn.execute(sa.delete(join_tokens).where(join_tokens.c.expires_at < now))
    ident, secret = secrets.token_hex(8), secrets.token_hex(24)
    conn.execute(sa.insert(join_tokens).values(id=ident, secret=secret,
                                               expires_at=now + datetime.timedelta(seconds=valid_s)))
    return f'{ident}{TOKENS_OF}{secret}'


def token(conn: sa.Connection, ident: str) -> str | None:
    """Return the secret of a valid token, or None."""
    row = statements.first(conn, join_tokens, id=ident)
    return row['secret'] if row and row['expires_at'] > utils.utcnow() else None


def use_token(conn: sa.Connection, ident: str) -> bool:
    """Delete a token; return False if another process has deleted it."""
    return bool(conn.execute(sa.delete(join_tokens).where(join_tokens.c.id == ident)).rowcount)
