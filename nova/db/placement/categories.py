"""Instance categories: the purposes of servers. Users see only servers of the category ``regular``.

The other categories are administrative. Categories are in the API database; a server's row and mapping name its
category. A server's creation locks the category's row, so that the category cannot be deleted meanwhile.
"""
import functools
from collections.abc import Collection
from typing import Any
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import instance_mappings
from nova.db.tables.api import instance_categories
from nova.db.tables.cell import instances
from nova.db.tables.rows import InstanceCategoriesRow
from nova.db.types import ColumnValues

REGULAR, VPN = 'regular', 'vpn'
# {name: description} of the predefined categories, which always exist
PREDEFINED = {REGULAR: 'Servers of users.', VPN: 'Gateways into the networks of projects.'}
BATCH = 500                    # maximum number of servers that change their category in one transaction
_LIVE = instance_categories.c.deleted == 0
_DESCRIPTIVE = frozenset({'description'})      # columns of ``regular`` that may be changed


def ensure(conn: sa.Connection) -> None:
    """Insert missing predefined categories if the schema has the table."""
    if not sa.inspect(conn).has_table(instance_categories.name):
        return
    for name, description in PREDEFINED.items():
        engine.insert_ignore(conn, instance_categories, {
            'uuid': str(uuidlib.uuid4()), 'name': name, 'description': description, 'image_id': None,
            'flavor_id': None, 'requirements': {}, 'created_at': utils.utcnow(), 'deleted': 0})


# ---- reading -------------------------------------------------------------------

def page(conn: sa.Connection, *, name: str | None = None, deleted: bool = False) -> list[InstanceCategoriesRow]:
    """Return the rows of categories in the order of creation.

    :param name: only the category of this name
    :param deleted: include deleted ones
    """
    conditions = [] if deleted else [_LIVE]
    if name is not None:
        conditions.append(instance_categories.c.name == name)
    return statements.dicts(conn.execute(
        sa.select(instance_categories).where(*conditions).order_by(instance_categories.c.id)))


def get(conn: sa.Connection, ident: str, *, deleted: bool = False, lock: bool = False) -> InstanceCategoriesRow:
    """Return a category by id or name.

    :param deleted: include deleted categories; among equal names an existing category has priority, then the newest
    :param lock: prevent changes and new servers until the transaction ends
    :raises CategoryNotFound: it does not exist
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
    """Return the row of the category of this name, or None."""
    row = conn.execute(sa.select(instance_categories).where(
        instance_categories.c.name == name, _LIVE)).mappings().first()
    return None if row is None else statements.to_dict(row)


def requirements(db: engine.Database, name: str | None) -> dict[str, str]:
    """Return the requirements {key: value} on hosts of servers of this category; empty if the category was deleted.

    :param db: the API database; it is not queried for regular servers
    """
    if name is None or name == REGULAR:
        return {}
    with db.reader() as conn:
        row = find(conn, name)
    return row['requirements'] if row else {}


def use(conn: sa.Connection, name: str) -> None:
    """Prevent the deletion of a category until the end of this transaction, which creates a server of the category.

    :raises CategoryNotFound: it was deleted
    """
    found = conn.execute(sa.select(instance_categories.c.id).where(
        instance_categories.c.name == name, _LIVE).with_for_update(read=True)).first()
    if found is None:
        raise exception.CategoryNotFound(category=name)


def is_used(conn: sa.Connection, name: str) -> bool:
    """Tell whether servers of this category exist."""
    return conn.execute(sa.select(instance_mappings.c.instance_uuid).where(
        instance_mappings.c.category == name).limit(1)).first() is not None


# ---- changing ------------------------------------------------------------------

def create(conn: sa.Connection, values: ColumnValues) -> InstanceCategoriesRow:
    """Create a category; return its row.

    :raises CategoryExists: the name is in use
    """
    row = {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'description': None, 'image_id': None,
           'flavor_id': None, 'requirements': {}, 'deleted': 0, **values}
    if not engine.insert_ignore(conn, instance_categories, row).rowcount:
        raise exception.CategoryExists(category=row['name'])
    return get(conn, str(row['uuid']))


def update(conn: sa.Connection, ident: str, values: ColumnValues) -> InstanceCategoriesRow:
    """Update a category; return its row.

    :raises CategoryNotFound: it does not exist
    :raises CategoryIsPredefined: a predefined category would be renamed, or more than the description of ``regular``
        would change
    :raises CategoryInUse: the category would be renamed while servers have it
    :raises CategoryExists: the new name is in use
    """
    row = get(conn, ident, lock=True)
    name = str(values.get('name', row['name']))
    if name != row['name']:
        _refuse_used(conn, row)
        if find(conn, name) is not None:
            raise exception.CategoryExists(category=name)
    if row['name'] == REGULAR and values.keys() - _DESCRIPTIVE - {'name'}:
        raise exception.CategoryIsPredefined(category=REGULAR)
    _set(conn, row, {**values, 'updated_at': utils.utcnow()})
    return get(conn, row['uuid'])


def delete(conn: sa.Connection, ident: str) -> None:
    """Mark a category as deleted. No new server can have it, and its row is kept until it is purged.

    :raises CategoryNotFound, CategoryIsPredefined, CategoryInUse:
    """
    row = get(conn, ident, lock=True)
    _refuse_used(conn, row)
    _set(conn, row, {'deleted': row['id'], 'deleted_at': utils.utcnow()})


def purge(conn: sa.Connection, ident: str) -> None:
    """Delete a category permanently.

    :raises CategoryNotFound, CategoryIsPredefined, CategoryInUse:
    """
    row = get(conn, ident, deleted=True, lock=True)
    if not row['deleted']:
        _refuse_used(conn, row)
    conn.execute(sa.delete(instance_categories).where(instance_categories.c.id == row['id']))


def _refuse_used(conn: sa.Connection, row: InstanceCategoriesRow) -> None:
    """Check that a category can be removed.

    :raises CategoryIsPredefined, CategoryInUse:
    """
    if row['name'] in PREDEFINED:
        raise exception.CategoryIsPredefined(category=row['name'])
    if is_used(conn, row['name']):
        raise exception.CategoryInUse(category=row['name'])


def _set(conn: sa.Connection, row: InstanceCategoriesRow, values: ColumnValues) -> None:
    conn.execute(sa.update(instance_categories).where(instance_categories.c.id == row['id']).values(**values))


# ---- servers from before the introduction of categories ----------------------------

def assign(api_db: engine.Database, cell_db: engine.Database, image_id: str, name: str) -> int:
    """Change the category of the regular servers of an image; return their number.

    An interrupted call can be repeated, because the mappings are changed before the rows, and the rows show which
    servers remain.
    :raises CategoryNotFound: it does not exist
    :raises InvalidInput: it is REGULAR, the category of these servers
    """
    if name == REGULAR:
        raise exception.InvalidInput(f'The servers already have the category {REGULAR}.')
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


# ---- administrative resources ----------------------------------------------------

def is_registered(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that an image is the default image of a category. Such images are administrative."""
    return sa.exists().where(instance_categories.c.image_id == column, _LIVE)


def registered_images(conn: sa.Connection) -> set[str]:
    """Return the ids of the default images of categories."""
    return set(conn.execute(sa.select(instance_categories.c.image_id).where(
        instance_categories.c.image_id.is_not(None), _LIVE)).scalars())


def some_administrative(conn: sa.Connection, uuids: Collection[str | None]) -> bool:
    """Tell whether one of these servers is administrative."""
    return conn.execute(sa.select(instance_mappings.c.instance_uuid).where(
        instance_mappings.c.instance_uuid.in_(uuids), instance_mappings.c.category != REGULAR).limit(1)
        ).first() is not None


def administrative_of(conn: sa.Connection, uuids: list[str]) -> set[str]:
    """Return the subset of these servers that are administrative."""
    return set(conn.execute(sa.select(instance_mappings.c.instance_uuid).where(
        instance_mappings.c.instance_uuid.in_(uuids), instance_mappings.c.category != REGULAR)).scalars())


@functools.cache
def is_administrative(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that ``column`` is the uuid of an administrative server."""
    return sa.exists().where(instance_mappings.c.instance_uuid == column,
                             instance_mappings.c.category != REGULAR)
