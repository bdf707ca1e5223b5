"""Flavors, their extra specs and the access of projects to private flavors."""
from collections.abc import Callable, Sequence
import functools
from typing import Any

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import flavor_projects
from nova.db.tables.api import flavors
from nova.db.tables.rows import FlavorsRow
from nova.db.types import ColumnValues
from nova.objects.flavor import Flavor

# sort keys of the API -> columns
SORT_KEYS = {
    'created_at': 'created_at', 'description': 'description', 'disabled': 'disabled',
    'ephemeral_gb': 'ephemeral_gb', 'flavorid': 'flavor_id', 'id': 'id', 'is_public': 'is_public',
    'memory_mb': 'memory_mb', 'name': 'name', 'root_gb': 'root_gb', 'rxtx_factor': 'rxtx_factor', 'swap': 'swap',
    'updated_at': 'updated_at', 'vcpu_weight': 'id', 'vcpus': 'vcpus',
}


def visible_to(project_id: nova_context.Projects | str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Return a condition on flavors visible to a project: public flavors, and private flavors that it may use.

    :param project_id: id of a project, or NO_PROJECT for only public flavors
    """
    if project_id is nova_context.NO_PROJECT:
        return flavors.c.is_public.is_(True)
    given = sa.select(flavor_projects.c.flavor_id).where(flavor_projects.c.project_id == project_id)
    return sa.or_(flavors.c.is_public.is_(True), flavors.c.flavor_id.in_(given))


_GET = sa.select(flavors).where(flavors.c.flavor_id == sa.bindparam('key_flavor_id'))
_GET_VISIBLE = _GET.where(visible_to(sa.bindparam('key_project_id')))
_GET_PUBLIC = _GET.where(visible_to(nova_context.NO_PROJECT))


def get(conn: sa.Connection, flavor_id: str, project_id: nova_context.Projects | str) -> FlavorsRow:
    """Return a flavor by its id in the API.

    :param project_id: only flavors visible to this project; NO_PROJECT: only public ones; ALL_PROJECTS: all
    :raises FlavorNotFound: there is no such flavor
    """
    key = {'key_flavor_id': str(flavor_id)}
    if project_id is nova_context.NO_PROJECT:
        row = conn.execute(_GET_PUBLIC, key).mappings().first()
    elif nova_context.one_project(project_id):
        row = conn.execute(_GET_VISIBLE, {**key, 'key_project_id': project_id}).mappings().first()
    else:
        row = conn.execute(_GET, key).mappings().first()
    if row is None:
        raise exception.FlavorNotFound(flavor_id=flavor_id)
    return statements.to_dict(row)


def stored(row: FlavorsRow) -> Flavor:
    """Return the fields of a flavor that are stored with a server."""
    return {'id': row['id'], 'flavor_id': row['flavor_id'], 'name': row['name'], 'memory_mb': row['memory_mb'],
            'vcpus': row['vcpus'], 'root_gb': row['root_gb'], 'ephemeral_gb': row['ephemeral_gb'], 'swap': row['swap'],
            'rxtx_factor': row['rxtx_factor'], 'is_public': row['is_public'], 'disabled': row['disabled'],
            'description': row['description'], 'extra_specs': row['extra_specs']}


def page(conn: sa.Connection, *, project_id: nova_context.Projects | str, is_public: bool | None = None,
         min_memory_mb: int | None = None, min_root_gb: int | None = None, name: str | None = None,
         sort_key: str = 'flavorid', descending: bool = False, marker: str | None = None,
         limit: int | None = None) -> Sequence[sa.RowMapping]:
    """Return one page of flavors.

    :param project_id: only flavors visible to this project; NO_PROJECT: only public ones; ALL_PROJECTS: all
    :param is_public: whether to return public or private flavors, or None for both
    :param name: part of the name
    :param marker: flavor_id of the last flavor of the previous page
    :raises InvalidMarker: the list has no such flavor
    """
    visible = project_id if project_id is nova_context.NO_PROJECT or nova_context.one_project(project_id) else None
    statement = _listed(visible, is_public, min_memory_mb, min_root_gb, name, sort_key, descending, limit)
    if marker is not None:
        conditions = [] if statement.whereclause is None else [statement.whereclause]
        statement = statement.where(_after(conn, flavors.c[SORT_KEYS[sort_key]], descending, marker, conditions))
    return conn.execute(statement).mappings().all()


@functools.lru_cache(maxsize=64)
def _listed(visible: nova_context.Projects | str | None, is_public: bool | None, min_memory_mb: int | None,
            min_root_gb: int | None, name: str | None, sort_key: str, descending: bool, limit: int | None,
            ) -> sa.Select[Any]:
    """Return the cached statement of a list.

    :param visible: project of the visible flavors, or None for all
    """
    given: tuple[tuple[Any, Callable[[Any], sa.ColumnElement[bool]]], ...] = (
        (visible, visible_to),
        (is_public, flavors.c.is_public.is_),
        (min_memory_mb, flavors.c.memory_mb.__ge__),
        (min_root_gb, flavors.c.root_gb.__ge__),
        (name, lambda text: flavors.c.name.contains(text, autoescape=True)))
    conditions = [condition(wanted) for wanted, condition in given if wanted is not None]
    column = flavors.c[SORT_KEYS[sort_key]]
    order = [key.desc() if descending else key.asc() for key in (column, flavors.c.id)]
    if column.nullable:                # databases sort NULL differently
        empty = column.is_(None)
        order.insert(0, empty.asc() if descending else empty.desc())
    return sa.select(flavors).where(*conditions).order_by(*order).limit(limit)


def _after(conn: sa.Connection, column: sa.Column[Any], descending: bool, marker: str,
           conditions: list[sa.ColumnElement[bool]]) -> sa.ColumnElement[bool]:
    """Return a condition on flavors after the marker, in the order of a column, then of id. NULL sorts first."""
    found = conn.execute(sa.select(column, flavors.c.id)
                         .where(flavors.c.flavor_id == marker, *conditions)).first()
    if found is None:
        raise exception.InvalidMarker(marker=marker)
    value, number = found
    later_id = flavors.c.id < number if descending else flavors.c.id > number
    if value is None:
        same = sa.and_(column.is_(None), later_id)
        return same if descending else sa.or_(same, column.is_not(None))
    bound = sa.literal(value, column.type)         # SQLAlchemy refuses to compare with a bare True or False
    same = sa.and_(column == bound, later_id)
    later = sa.or_(column < bound, column.is_(None)) if descending else column > bound
    return sa.or_(same, later)


def create(conn: sa.Connection, values: ColumnValues) -> FlavorsRow:
    """Create a flavor; return its row.

    :param values: columns, with ``flavor_id`` and ``name``
    :raises FlavorExists: the id or the name is in use
    """
    row = {'created_at': utils.utcnow(), 'updated_at': None, 'ephemeral_gb': 0, 'swap': 0, 'rxtx_factor': 1.0,
           'is_public': True, 'disabled': False, 'description': None, 'extra_specs': {}, **values}
    if not engine.insert_ignore(conn, flavors, row).rowcount:
        taken = conn.execute(sa.select(flavors.c.flavor_id).where(
            flavors.c.flavor_id == row['flavor_id'])).first()
        attr, value = ('ID', row['flavor_id']) if taken else ('name', row['name'])
        raise exception.FlavorExists(attr=attr, value=value)
    return get(conn, str(row['flavor_id']), nova_context.ALL_PROJECTS)


def update(conn: sa.Connection, flavor_id: str, values: ColumnValues) -> FlavorsRow:
    """Update columns; return the row.

    :raises FlavorNotFound: there is no such flavor
    """
    found = conn.execute(sa.update(flavors).where(flavors.c.flavor_id == flavor_id)
                         .values(updated_at=utils.utcnow(), **values))
    if not found.rowcount:
        raise exception.FlavorNotFound(flavor_id=flavor_id)
    return get(conn, flavor_id, nova_context.ALL_PROJECTS)


def delete(conn: sa.Connection, flavor_id: str) -> None:
    """Delete a flavor.

    :raises FlavorNotFound: there is no such flavor
    """
    if not conn.execute(sa.delete(flavors).where(flavors.c.flavor_id == flavor_id)).rowcount:
        raise exception.FlavorNotFound(flavor_id=flavor_id)
    conn.execute(sa.delete(flavor_projects).where(flavor_projects.c.flavor_id == flavor_id))


def change_extra_specs(conn: sa.Connection, flavor_id: str, change: Callable[..., Any]) -> dict[str, str]:
    """Replace the extra specs by ``change(extra_specs)`` and return them.

    :raises FlavorNotFound: there is no such flavor
    """
    row = conn.execute(sa.select(flavors.c.extra_specs).where(flavors.c.flavor_id == flavor_id)
                       .with_for_update()).first()
    if row is None:
        raise exception.FlavorNotFound(flavor_id=flavor_id)
    specs = change(dict(row.extra_specs))
    conn.execute(sa.update(flavors).where(flavors.c.flavor_id == flavor_id)
                 .values(extra_specs=specs, updated_at=utils.utcnow()))
    return specs


def projects(conn: sa.Connection, flavor_id: str) -> list[str]:
    """Return the ids of the projects with access to a private flavor."""
    return list(conn.execute(sa.select(flavor_projects.c.project_id)
                             .where(flavor_projects.c.flavor_id == flavor_id)
                             .order_by(flavor_projects.c.project_id)).scalars())


def add_project(conn: sa.Connection, flavor_id: str, project_id: str) -> None:
    """Give a project access to a private flavor.

    :raises FlavorAccessExists: the project already has access
    """
    row = {'flavor_id': flavor_id, 'project_id': project_id}
    if not engine.insert_ignore(conn, flavor_projects, row).rowcount:
        raise exception.FlavorAccessExists(**row)


def remove_project(conn: sa.Connection, flavor_id: str, project_id: str) -> None:
    """Remove a project's access to a private flavor.

    :raises FlavorAccessNotFound: the project has no access
    """
    if not conn.execute(sa.delete(flavor_projects).where(
            flavor_projects.c.flavor_id == flavor_id,
            flavor_projects.c.project_id == project_id)).rowcount:
        raise exception.FlavorAccessNotFound(flavor_id=flavor_id, project_id=project_id)


def exist(conn: sa.Connection) -> bool:
    """Tell whether any flavor exists."""
    return conn.execute(sa.select(flavors.c.flavor_id).limit(1)).first() is not None


def insert_missing(conn: sa.Connection, values: ColumnValues) -> None:
    """Insert a flavor unless its id or name is in use."""
    engine.insert_ignore(conn, flavors, {**values, 'created_at': utils.utcnow()})
