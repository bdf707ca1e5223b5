"""Instance categories: what servers are for. ``regular`` are those of users; the others are administrative.

A category stands in the API database. Servers name theirs in their rows and in their mappings, which are written in
the transaction that locks the category's row, so that none is deleted while a server is made in it.
"""
from __future__ import annotations

import functools
from typing import Any, TYPE_CHECKING
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import instance_mappings
from nova.db.tables.categories import instance_categories
from nova.db.tables.cell import instances

if TYPE_CHECKING:
    from nova.db.tables.rows import InstanceCategoriesRow

REGULAR, VPN = 'regular', 'vpn'
# name: description; always there
PREDEFINED = {REGULAR: 'Servers of users.', VPN: 'Gateways into the networks of projects.'}
BATCH = 500                    # servers that get another category in one transaction
_LIVE = instance_categories.c.deleted == 0
_DESCRIPTIVE = frozenset({'description'})      # what may be changed of ``regular``


def ensure(conn: sa.Connection) -> None:
    """Add the predefined categories that are not there, in a schema that has the table."""
    if not sa.inspect(conn).has_table(instance_categories.name):
        return
    for name, description in PREDEFINED.items():
        engine.insert_ignore(conn, instance_categories, {
            'uuid': str(uuidlib.uuid4()), 'name': name, 'description': description, 'image_id': None,
            'flavor_id': None, 'requirements': {}, 'created_at': utils.utcnow(), 'deleted': 0})


# ---- reading -------------------------------------------------------------------

def page(conn: sa.Connection, *, name: str | None = None, deleted: bool = False) -> list[InstanceCategoriesRow]:
    """Rows in the order in which they were made.

    :param name: of this name alone
    :param deleted: those that are deleted, too
    """
    conditions = [] if deleted else [_LIVE]
    if name is not None:
        conditions.append(instance_categories.c.name == name)
    return [statements.to_dict(row) for row in conn.execute(
        sa.select(instance_categories).where(*conditions).order_by(instance_categories.c.id)).mappings()]


def get(conn: sa.Connection, ident: str, *, deleted: bool = False, lock: bool = False) -> InstanceCategoriesRow:
    """A category by its id or its name.

    :param deleted: also one that is deleted; of several of one name that which is there, then the newest
    :param lock: lock it against changes and new servers until the transaction ends
    :raises CategoryNotFound:
    """
    c = instance_categories.c
    statement = sa.select(instance_categories).where(
        sa.or_(c.uuid == ident, c.name == ident), *([] if deleted else [_LIVE])).order_by(
        sa.case((_LIVE, 0), else_=1), c.id.desc()).limit(1)
    row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
    if row is None:
        raise exception.CategoryNotFound(category=ident)
    return statements.to_dict(row)


def find(conn: sa.Connection, name: str) -> InstanceCategoriesRow | None:
    """The row of the category of this name, None when there is none."""
    row = conn.execute(sa.select(instance_categories).where(
        instance_categories.c.name == name, _LIVE)).mappings().first()
    return None if row is None else statements.to_dict(row)


def requirements(db: Any, name: str | None) -> dict[str, str]:
    """{key: value} that a host of a server of this category must meet now; empty when the category is gone.

    :param db: the API database; it is not queried for regular servers
    """
    if name in (None, REGULAR):
        return {}
    with db.reader() as conn:
        row = find(conn, name)
    return row['requirements'] if row else {}


def use(conn: sa.Connection, name: str) -> None:
    """Keep a category from being deleted until the transaction ends, in which a server is made in it.

    :raises CategoryNotFound: it is gone
    """
    found = conn.execute(sa.select(instance_categories.c.id).where(
        instance_categories.c.name == name, _LIVE).with_for_update(read=True)).first()
    if found is None:
        raise exception.CategoryNotFound(category=name)


def is_used(conn: sa.Connection, name: str) -> bool:
    """Whether there is a server of this category."""
    return conn.execute(sa.select(instance_mappings.c.instance_uuid).where(
        instance_mappings.c.category == name).limit(1)).first() is not None


# ---- changing ------------------------------------------------------------------

def create(conn: sa.Connection, values: dict[str, Any]) -> InstanceCategoriesRow:
    """A new category; its row.

    :raises CategoryExists: the name is taken
    """
    row = {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'description': None, 'image_id': None,
           'flavor_id': None, 'requirements': {}, 'deleted': 0, **values}
    if not engine.insert_ignore(conn, instance_categories, row).rowcount:
        raise exception.CategoryExists(category=row['name'])
    return get(conn, row['uuid'])


def update(conn: sa.Connection, ident: str, values: dict[str, Any]) -> InstanceCategoriesRow:
    """Change a category; its row then.

    :raises CategoryNotFound:
    :raises CategoryIsPredefined: another name, or more than the description of ``regular``
    :raises CategoryInUse: another name, while servers have this one
    :raises CategoryExists: the new name is taken
    """
    row = get(conn, ident, lock=True)
    name = values.get('name', row['name'])
    if name != row['name']:
        _refuse_used(conn, row)
        if find(conn, name) is not None:
            raise exception.CategoryExists(category=name)
    if row['name'] == REGULAR and values.keys() - _DESCRIPTIVE - {'name'}:
        raise exception.CategoryIsPredefined(category=REGULAR)
    _set(conn, row, {**values, 'updated_at': utils.utcnow()})
    return get(conn, row['uuid'])


def delete(conn: sa.Connection, ident: str) -> None:
    """Let a category be deleted: no new server gets it, and its row stays until it is purged.

    :raises CategoryNotFound, CategoryIsPredefined, CategoryInUse:
    """
    row = get(conn, ident, lock=True)
    _refuse_used(conn, row)
    _set(conn, row, {'deleted': row['id'], 'deleted_at': utils.utcnow()})


def purge(conn: sa.Connection, ident: str) -> None:
    """Remove a category for good, whether it is deleted or not.

    :raises CategoryNotFound, CategoryIsPredefined, CategoryInUse:
    """
    row = get(conn, ident, deleted=True, lock=True)
    if not row['deleted']:
        _refuse_used(conn, row)
    conn.execute(sa.delete(instance_categories).where(instance_categories.c.id == row['id']))


def _refuse_used(conn: sa.Connection, row: InstanceCategoriesRow) -> None:
    """:raises CategoryIsPredefined, CategoryInUse:"""
    if row['name'] in PREDEFINED:
        raise exception.CategoryIsPredefined(category=row['name'])
    if is_used(conn, row['name']):
        raise exception.CategoryInUse(category=row['name'])


def _set(conn: sa.Connection, row: InstanceCategoriesRow, values: dict[str, Any]) -> None:
    conn.execute(sa.update(instance_categories).where(instance_categories.c.id == row['id']).values(**values))


# ---- servers that are older than categories --------------------------------------

def assign(api_db: engine.Database, cell_db: engine.Database, image_id: str, name: str) -> int:
    """Give the regular servers that were made of an image another category; their number.

    What breaks off is done by doing it again: the mappings come first, and the rows say what is left.

    :raises CategoryNotFound:
    """
    done = 0
    while True:
        with cell_db.reader() as conn:
            uuids = list(conn.execute(sa.select(instances.c.uuid).where(
                instances.c.image_id == image_id, instances.c.category == REGULAR).limit(BATCH)).scalars())
        api_db.run(_assign, name, uuids)
        if not uuids:
            return done
        cell_db.run(_assign_rows, name, uuids)
        done += len(uuids)


def _assign(conn: sa.Connection, name: str, uuids: list[str]) -> None:
    use(conn, name)
    conn.execute(sa.update(instance_mappings).where(instance_mappings.c.instance_uuid.in_(uuids))
                 .values(category=name))


def _assign_rows(conn: sa.Connection, name: str, uuids: list[str]) -> None:
    conn.execute(sa.update(instances).where(instances.c.uuid.in_(uuids)).values(category=name))


# ---- what is administrative ----------------------------------------------------

def is_registered(column: Any) -> Any:
    """The condition that an image's id is the default of a category: such images are administrative."""
    return sa.exists().where(instance_categories.c.image_id == column, _LIVE)


def registered_images(conn: sa.Connection) -> set[str]:
    """Ids of the images that are the defaults of categories, as a set."""
    return set(conn.execute(sa.select(instance_categories.c.image_id).where(
        instance_categories.c.image_id.is_not(None), _LIVE)).scalars())


def some_administrative(conn: sa.Connection, uuids: list[str]) -> bool:
    """Whether one of these servers is administrative."""
    return conn.execute(sa.select(instance_mappings.c.instance_uuid).where(
        instance_mappings.c.instance_uuid.in_(uuids), instance_mappings.c.category != REGULAR).limit(1)
        ).first() is not None


def administrative_of(conn: sa.Connection, uuids: list[str]) -> set[str]:
    """Which of these servers are administrative."""
    return set(conn.execute(sa.select(instance_mappings.c.instance_uuid).where(
        instance_mappings.c.instance_uuid.in_(uuids), instance_mappings.c.category != REGULAR)).scalars())


@functools.cache
def is_administrative(column: Any) -> Any:
    """The condition that a server's uuid is that of an administrative server."""
    return sa.exists().where(instance_mappings.c.instance_uuid == column,
                             instance_mappings.c.category != REGULAR)
