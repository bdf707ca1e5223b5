"""Tags of the EC2 API, for resources of services that store no tags."""
from collections.abc import Collection, Mapping, Sequence
import unicodedata

from oslo_db import exception as db_exc
import sqlalchemy as sa

from nova import exception
from nova.db import engine
from nova.db.tables.ec2 import ec2_ids
from nova.db.tables.ec2 import ec2_tags as table

MAX_TAGS = 50                        # maximum number of tags of a resource
HIDDEN = 'ec2:'                      # prefix of the keys of internal attributes, which do not count as tags
PART = 500                       # maximum number of values in one IN condition


def of(db: engine.Database, project_id: str, resources: Collection[int]) -> dict[int, dict[str, str]]:
    """Return {number of the resource: {key: value}} of a project's tags."""
    found: dict[int, dict[str, str]] = {}
    numbers = list(dict.fromkeys(resources))
    with db.reader() as conn:
        for start in range(0, len(numbers), PART):
            rows = conn.execute(sa.select(table.c.resource_id, table.c.key, table.c.value).where(
                table.c.project_id == project_id, table.c.resource_id.in_(numbers[start:start + PART])))
            for number, key, value in rows:
                found.setdefault(number, {})[key] = value
    return found


def put(db: engine.Database, project_id: str, number: int, tags: Mapping[str, str]) -> None:
    """Set tags of a resource.

    :raises BadRequest: the resource would have more than MAX_TAGS tags
    :raises InvalidInput: the database compares two of the keys as equal
    """
    db.run(_put, project_id, number, dict(tags))


def _put(conn: sa.Connection, project_id: str, number: int, tags: dict[str, str]) -> None:
    of_it = [table.c.project_id == project_id, table.c.resource_id == number]
    known = _rows(conn, project_id, number)
    _delete(conn, [row['id'] for row in known if row['key'] in tags])
    keys = {*tags, *(row['key'] for row in known)}
    try:
        for key, value in tags.items():
            conn.execute(sa.insert(table).values(project_id=project_id, resource_id=number, key=key, value=value))
    except db_exc.DBDuplicateEntry as error:
        if len({_folded(key) for key in keys}) == len(keys):     # another request has written one of them
            raise db_exc.RetryRequest(error) from error
        raise exception.InvalidInput('This database does not store keys of tags of one resource that differ only in '
                                     'case or in accents.') from None
    counted = sa.select(sa.func.count()).select_from(table).where(*of_it, sa.not_(table.c.key.startswith(HIDDEN)))
    if conn.execute(counted).scalar_one() > MAX_TAGS:
        raise exception.BadRequest(f'A resource has at most {MAX_TAGS} tags.')


def _folded(key: str) -> str:
    """Return a key without case and accents, as MariaDB compares keys."""
    return ''.join(char for char in unicodedata.normalize('NFKD', key.casefold()) if not unicodedata.combining(char))


def remove(db: engine.Database, project_id: str, number: int, tags: Mapping[str, str | None]) -> None:
    """Remove tags.

    :param tags: {key: required value, or None for any value}; an empty mapping removes all tags
    """
    def work(conn: sa.Connection) -> None:
        _delete(conn, [row['id'] for row in _rows(conn, project_id, number)
                       if not tags or row['key'] in tags and tags[row['key']] in (None, row['value'])])
    db.run(work)


def _rows(conn: sa.Connection, project_id: str, number: int) -> Sequence[sa.RowMapping]:
    """Return the id, key and value of each tag of a resource. Python compares keys, because MariaDB ignores case."""
    return conn.execute(sa.select(table.c.id, table.c.key, table.c.value).where(
        table.c.project_id == project_id, table.c.resource_id == number)).mappings().all()


def _delete(conn: sa.Connection, ids: list[int]) -> None:
    if ids:
        conn.execute(sa.delete(table).where(table.c.id.in_(ids)))


def listed(db: engine.Database, project_id: str) -> list[tuple[str, str, str, str]]:
    """Return [(uuid, prefix of the EC2 id such as i or vol, key, value)] of all tags of a project."""
    with db.reader() as conn:
        rows = conn.execute(sa.select(ec2_ids.c.uuid, ec2_ids.c.prefix, table.c.key, table.c.value).join(
            ec2_ids, ec2_ids.c.id == table.c.resource_id).where(table.c.project_id == project_id))
        return [(uuid, prefix, key, value) for uuid, prefix, key, value in rows]
