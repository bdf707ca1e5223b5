"""Keys that messages are signed with, and tokens by which hosts join."""
import base64
import datetime
import secrets

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import join_tokens
from nova.db.tables.api import message_keys as table

DEPLOYMENT, DEPLOYMENT_ID = '', 'deployment'         # in the place of a host's name, and of a fingerprint
PENDING, APPROVED, RENEWING, RETIRED, REVOKED = 'pending', 'approved', 'renewing', 'retired', 'revoked'
GOOD = (APPROVED, RENEWING)
OVERLAP = datetime.timedelta(hours=1)        # messages of the key before may be on their way
TOKENS_OF = '.'


def deployment(conn, make):
    """The row of the deployment's key; made when there is none.

    :param make: function() -> rpc.signatures.Key
    """
    row = get(conn, DEPLOYMENT_ID)
    if row is None:
        key = make()
        # of two processes that start at once one makes it
        engine.insert_ignore(conn, table, {
            **_row(DEPLOYMENT, DEPLOYMENT_ID, key.public, APPROVED),
            'private': base64.b64encode(key.private_bytes()).decode()})
        row = get(conn, DEPLOYMENT_ID)
    return row


def _row(host, ident, public, state):
    return {'id': ident, 'host': host, 'public': base64.b64encode(public).decode(), 'private': None,
            'state': state, 'created_at': utils.utcnow(), 'ends_at': None}


def get(conn, ident):
    """The row of a key, None when there is none."""
    return statements.first(conn, table, id=ident)


def is_good(row, now=None):
    """Whether messages of a key (a row) are taken."""
    return row['state'] in GOOD or row['state'] == RETIRED and row['ends_at'] > (now or utils.utcnow())


def of_hosts(conn):
    """The rows of all hosts' keys, by host and age."""
    return [row for row in statements.rows(conn, table, ('host', 'created_at')) if row['host'] != DEPLOYMENT]


def add(conn, host, ident, public, state):
    """Enter a key of a host, or approve one that waits; its row. One that was revoked stays so.

    :raises HostKeyRefused: the key belongs to another host
    """
    row = get(conn, ident)
    if row is None:
        engine.insert_ignore(conn, table, _row(host, ident, public, state))
        row = get(conn, ident)
    if row['host'] != host:
        raise exception.HostKeyRefused(host=host, reason='it is the key of another one')
    if state == APPROVED and row['state'] == PENDING:
        set_state(conn, ident, APPROVED)
        row['state'] = APPROVED
    return row


def set_state(conn, ident, state, ends_at=None):
    conn.execute(sa.update(table).where(table.c.id == ident).values(state=state, ends_at=ends_at))


def replace_others(conn, host, ident):
    """The keys of a host before this one are good for a while yet."""
    conn.execute(sa.update(table).where(table.c.host == host, table.c.id != ident, table.c.state.in_(GOOD)).values(
        state=RETIRED, ends_at=utils.utcnow() + OVERLAP))


def revoke(conn, host):
    """No message of a host is taken any more; how many keys it had."""
    return conn.execute(sa.update(table).where(table.c.host == host, table.c.state != REVOKED).values(
        state=REVOKED)).rowcount


def renew(conn, host):
    """Let a host make a new key when it asks next; how many it has that are good."""
    return conn.execute(sa.update(table).where(table.c.host == host, table.c.state == APPROVED).values(
        state=RENEWING)).rowcount


def has_good(conn, host):
    """Whether a host has a key whose messages are taken."""
    return any(is_good(row) for row in statements.rows(conn, table, host=host))


def new_token(conn, valid_s):
    """A token for one host that joins, as text."""
    now = utils.utcnow()
    conn.execute(sa.delete(join_tokens).where(join_tokens.c.expires_at < now))
    ident, secret = secrets.token_hex(8), secrets.token_hex(24)
    conn.execute(sa.insert(join_tokens).values(id=ident, secret=secret,
                                               expires_at=now + datetime.timedelta(seconds=valid_s)))
    return f'{ident}{TOKENS_OF}{secret}'


def token(conn, ident):
    """The secret of a token that is good, None when it is not."""
    row = statements.first(conn, join_tokens, id=ident)
    return row['secret'] if row and row['expires_at'] > utils.utcnow() else None


def use_token(conn, ident):
    """Take a token away; False when somebody else did."""
    return bool(conn.execute(sa.delete(join_tokens).where(join_tokens.c.id == ident)).rowcount)
