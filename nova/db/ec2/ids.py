"""The numbers behind the ids of the EC2 API."""
from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables.ec2 import ec2_ids as table

PART = 500                       # values of one IN


def numbers(db: engine.Database, prefix: str, uuids: Collection[str]) -> dict[str, int]:
    """{uuid: number} of all; those that have none get one, for ever.

    :param prefix: of the kind of thing, as ``i`` for an instance
    """
    wanted = list(dict.fromkeys(uuids))
    with db.reader() as conn:
        found = _known(conn, prefix, wanted)
    missing = [uuid for uuid in wanted if uuid not in found]
    if missing:
        db.run(_add, prefix, missing)
        with db.reader() as conn:
            found |= _known(conn, prefix, missing)
    return found


def uuids(db: engine.Database, prefix: str, wanted: Collection[int]) -> dict[int, str]:
    """{number: uuid} of those that there are."""
    found: dict[int, str] = {}
    numbers = [number for number in dict.fromkeys(wanted) if 0 < number < 1 << 31]
    with db.reader() as conn:
        for start in range(0, len(numbers), PART):
            rows = conn.execute(sa.select(table.c.id, table.c.uuid).where(
                table.c.prefix == prefix, table.c.id.in_(numbers[start:start + PART])))
            found.update((number, uuid) for number, uuid in rows)
    return found


def _known(conn: sa.Connection, prefix: str, wanted: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(wanted), PART):
        rows = conn.execute(sa.select(table.c.uuid, table.c.id).where(
            table.c.prefix == prefix, table.c.uuid.in_(wanted[start:start + PART])))
        found.update((uuid, number) for uuid, number in rows)
    return found


def _add(conn: sa.Connection, prefix: str, missing: list[str]) -> None:
    for uuid in missing:                        # another request may have added some meanwhile
        engine.insert_ignore(conn, table, {'prefix': prefix, 'uuid': uuid})
