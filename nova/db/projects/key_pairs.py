"""Key pairs of users; only the public keys are stored."""
from collections.abc import Sequence

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import key_pairs
from nova.db.tables.rows import KeyPairsRow


def get(conn: sa.Connection, user_id: str, name: str) -> KeyPairsRow:
    """Return a key pair of a user.

    :raises KeypairNotFound: there is no such key pair
    """
    row = statements.first(conn, key_pairs, user_id=user_id, name=name)
    if row is None:
        raise exception.KeypairNotFound(name=name, user_id=user_id)
    return row


def page(conn: sa.Connection, user_id: str, *, marker: str | None = None,
         limit: int | None = None) -> Sequence[sa.RowMapping]:
    """Return one page of a user's key pairs, by name.

    :param marker: name of the last key pair of the previous page
    :raises InvalidMarker: the user has no such key pair
    """
    statement = sa.select(key_pairs).where(key_pairs.c.user_id == user_id)
    if marker is not None:
        try:
            get(conn, user_id, marker)
        except exception.KeypairNotFound:
            raise exception.InvalidMarker(marker=marker) from None
        statement = statement.where(key_pairs.c.name > marker)
    return conn.execute(statement.order_by(key_pairs.c.name).limit(limit)).mappings().all()


def check_name(conn: sa.Connection, user_id: str, name: str) -> None:
    """Check that a user has no key pair with this name.

    :raises KeypairExists: the user has a key pair with this name
    """
    if statements.first(conn, key_pairs, user_id=user_id, name=name) is not None:
        raise exception.KeypairExists(name=name)


def create(conn: sa.Connection, user_id: str, name: str, type_: str, fingerprint: str, public_key: str) -> KeyPairsRow:
    """Create a key pair; return its row.

    :raises KeypairExists: the user has a key pair with this name
    """
    if not engine.insert_ignore(conn, key_pairs, {
            'user_id': user_id, 'name': name, 'type': type_, 'fingerprint': fingerprint, 'public_key': public_key,
            'created_at': utils.utcnow()}).rowcount:
        raise exception.KeypairExists(name=name)
    return get(conn, user_id, name)


def delete(conn: sa.Connection, user_id: str, name: str) -> None:
    """Delete a key pair.

    :raises KeypairNotFound: there is no such key pair
    """
    if not conn.execute(sa.delete(key_pairs).where(
            key_pairs.c.user_id == user_id, key_pairs.c.name == name)).rowcount:
        raise exception.KeypairNotFound(name=name, user_id=user_id)
