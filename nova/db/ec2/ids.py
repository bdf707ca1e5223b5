"""Ids of resources in the EC2 API, from the first 17 digits of the uuid or from an 8-digit number."""
from collections.abc import Collection
from typing import Any
import uuid as uuid_of

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables.api import instance_mappings
from nova.db.tables.ec2 import ec2_ids as table

PART = 500                       # maximum number of values in one IN condition
SHORT, LONG = 8, 17              # digits of an id
SERVER = 'i'
# statements that every request runs, built once
_OF_PREFIX = table.c.prefix == sa.bindparam('of_prefix')
_WANTED: sa.BindParameter[Any] = sa.bindparam('wanted', expanding=True)
_NUMBERS = sa.select(table.c.uuid, table.c.id).where(_OF_PREFIX, table.c.uuid.in_(_WANTED))
_BY = {column.name: sa.select(column, table.c.uuid).where(_OF_PREFIX, column.in_(_WANTED)).order_by(table.c.id)
       for column in (table.c.id, table.c.digits)}
# a range instead of a pattern, because every database uses the index for a range
_MAPPED = sa.select(instance_mappings.c.instance_uuid).where(instance_mappings.c.instance_uuid.between(
    sa.bindparam('first'), sa.bindparam('last'))).limit(1)


def digits_of(uuid: str) -> str:
    """Return the 17 digits of the id for a uuid; see utils.ec2_id."""
    return uuid.replace('-', '')[:LONG]


def numbers(db: engine.Database, prefix: str, uuids: Collection[str]) -> dict[str, int]:
    """Return {uuid: number} of all uuids; missing numbers are assigned permanently.

    :param prefix: prefix of the resource type, such as ``i`` for an instance
    """
    wanted = list(dict.fromkeys(uuids))
    with db.reader() as conn:
        found = _known(conn, prefix, wanted)
    missing = [uuid for uuid in wanted if uuid not in found]
    if missing:
        found |= db.run(_add, prefix, missing)
    return found


def uuids(db: engine.Database, prefix: str, wanted: Collection[str]) -> dict[str, str]:
    """Return {digits: uuid} of the existing resources.

    :param wanted: digits of ids: the first 17 of the uuid, or 8 of the number
    """
    # If several resources have these digits, the id names the first: a user who chooses a uuid must not take over an id
    short = {int(digits, 16): digits for digits in wanted if len(digits) == SHORT and int(digits, 16) < 1 << 31}
    long = [digits for digits in dict.fromkeys(wanted) if len(digits) == LONG]
    found: dict[str, str] = {}
    with db.reader() as conn:
        for column, some in ((table.c.id, list(short)), (table.c.digits, long)):
            for start in range(0, len(some), PART):
                rows = conn.execute(_BY[column.name], {'of_prefix': prefix, 'wanted': some[start:start + PART]})
                for value, uuid in rows:
                    found.setdefault(short.get(value, value), uuid)
        unknown = [digits for digits in long if digits not in found] if prefix == SERVER else []
        added = {digits: uuid for digits in unknown[:PART] if (uuid := _server(conn, digits)) is not None}
    if added:
        db.run(_add, prefix, list(added.values()))
    return found | added


def later(db: engine.Database, prefix: str, uuids: Collection[str]) -> set[str]:
    """Return those uuids that share their leading digits with a resource of a lower number, which has the EC2 id."""
    wanted, found = list(uuids), set[str]()
    before = table.alias('before')
    with db.reader() as conn:
        for start in range(0, len(wanted), PART):
            found.update(conn.execute(sa.select(table.c.uuid).where(
                table.c.prefix == prefix, table.c.uuid.in_(wanted[start:start + PART]), sa.exists().where(
                    before.c.prefix == table.c.prefix, before.c.digits == table.c.digits,
                    before.c.id < table.c.id))).scalars())
    return found


def _server(conn: sa.Connection, digits: str) -> str | None:
    """Return the uuid of a server that has no number yet; its id came from RunInstances or the metadata service."""
    return conn.execute(_MAPPED, {'first': _whole(digits, '0'), 'last': _whole(digits, 'f')}).scalar()


def _whole(digits: str, rest: str) -> str:
    """Return the first or last uuid with these leading digits."""
    return str(uuid_of.UUID(digits.ljust(32, rest)))


def _known(conn: sa.Connection, prefix: str, wanted: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(wanted), PART):
        rows = conn.execute(_NUMBERS, {'of_prefix': prefix, 'wanted': wanted[start:start + PART]})
        found.update((uuid, number) for uuid, number in rows)
    return found


def _row(prefix: str, uuid: str) -> dict[str, str]:
    return {'prefix': prefix, 'uuid': uuid, 'digits': digits_of(uuid)}


def _add(conn: sa.Connection, prefix: str, missing: list[str]) -> dict[str, int]:
    """Assign numbers. All inserts precede the read, so that the numbers of concurrent requests are visible."""
    for uuid in missing:
        engine.insert_ignore(conn, table, _row(prefix, uuid))
    return _known(conn, prefix, missing)
