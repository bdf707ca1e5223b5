"""Launch templates of the EC2 API and their versions."""
from collections.abc import Collection
import hashlib
from typing import Any

import sqlalchemy as sa

from nova import exception
from nova.db import engine
from nova.db.tables.ec2 import ec2_launch_template_versions as of_versions
from nova.db.tables.ec2 import ec2_launch_templates as table
from nova.db.types import ColumnValues

MAX_TEMPLATES, MAX_VERSIONS = 100, 100                  # maximum templates of a project, and versions of a template
Row = dict[str, Any]
# a template and its highest version number, which is never NULL: the default version cannot be deleted
_SHOWN = sa.select(table, sa.select(sa.func.max(of_versions.c.number)).where(
    of_versions.c.template_id == table.c.id).scalar_subquery().label('newest'))


def create(conn: sa.Connection, values: ColumnValues, version: ColumnValues) -> bool:
    """Create a template with version 1; return False if the project has a template with this name.

    :param values: columns of the template: uuid, project_id, name, created_by, created_at
    :param version: columns of the version: description, data
    :raises BadRequest: the project would have more than MAX_TEMPLATES templates
    """
    made = engine.insert_ignore(conn, table, {
        **values, 'name_hash': _hash(str(values['name'])), 'default_version': 1, 'latest_version': 1})
    if not made.rowcount:
        return False
    ids = conn.execute(sa.select(table.c.id, table.c.uuid).where(table.c.project_id == values['project_id'])).all()
    if len(ids) > MAX_TEMPLATES:
        raise exception.BadRequest(f'A project has at most {MAX_TEMPLATES} launch templates.')
    number = next(id_ for id_, uuid in ids if uuid == values['uuid'])
    conn.execute(sa.insert(of_versions).values(
        template_id=number, number=1, created_by=values['created_by'], created_at=values['created_at'], **version))
    return True


def add_version(conn: sa.Connection, template_id: int, values: ColumnValues) -> int | None:
    """Add a version; return its number, or None if the template does not exist.

    :param values: columns of the version
    :raises BadRequest: the template would have more than MAX_VERSIONS versions
    """
    row = _locked(conn, template_id)
    if row is None:
        return None
    number = int(row['latest_version']) + 1
    present = sa.select(sa.func.count()).select_from(of_versions).where(of_versions.c.template_id == template_id)
    if conn.execute(present).scalar_one() >= MAX_VERSIONS:
        raise exception.BadRequest(f'A launch template has at most {MAX_VERSIONS} versions.')
    conn.execute(sa.update(table).where(table.c.id == template_id).values(latest_version=number))
    conn.execute(sa.insert(of_versions).values(template_id=template_id, number=number, **values))
    return number


def listed(db: engine.Database, project_id: str) -> list[Row]:
    """Return all templates of a project, oldest first; ``newest`` is the highest existing version number."""
    with db.reader() as conn:
        query = _SHOWN.where(table.c.project_id == project_id).order_by(table.c.id)
        return [dict(row) for row in conn.execute(query).mappings()]


def one(db: engine.Database, project_id: str, *, uuid: str | None = None, name: str | None = None) -> Row | None:
    """Return a project's template by uuid or name, as in ``listed``."""
    named = table.c.uuid == uuid if uuid is not None else table.c.name_hash == _hash(name or '')
    with db.reader() as conn:
        row = conn.execute(_SHOWN.where(table.c.project_id == project_id, named)).mappings().first()
        return dict(row) if row else None


def versions(db: engine.Database, template_id: int, numbers: Collection[int] | None = None) -> list[Row]:
    """Return the versions of a template that have these numbers, or all versions."""
    wanted = [] if numbers is None else [of_versions.c.number.in_(list(numbers))]
    with db.reader() as conn:
        query = sa.select(of_versions).where(of_versions.c.template_id == template_id, *wanted)
        return [dict(row) for row in conn.execute(query.order_by(of_versions.c.number)).mappings()]


def set_default(conn: sa.Connection, template_id: int, number: int) -> bool:
    """Set the default version; return False if it does not exist."""
    if _locked(conn, template_id) is None or not conn.execute(sa.select(of_versions.c.number).where(
            of_versions.c.template_id == template_id, of_versions.c.number == number)).first():
        return False
    conn.execute(sa.update(table).where(table.c.id == template_id).values(default_version=number))
    return True


def delete(conn: sa.Connection, template_id: int) -> None:
    """Remove a template with its versions."""
    _locked(conn, template_id)
    conn.execute(sa.delete(of_versions).where(of_versions.c.template_id == template_id))
    conn.execute(sa.delete(table).where(table.c.id == template_id))


def delete_version(conn: sa.Connection, template_id: int, number: int) -> str | None:
    """Remove a version; return None, or the reason why it cannot be removed: ``default`` or ``absent``."""
    row = _locked(conn, template_id)
    if row is not None and row['default_version'] == number:
        return 'default'
    gone = conn.execute(sa.delete(of_versions).where(
        of_versions.c.template_id == template_id, of_versions.c.number == number))
    return None if gone.rowcount else 'absent'


def _locked(conn: sa.Connection, template_id: int) -> Row | None:
    """Return the template, locked until the transaction ends."""
    row = conn.execute(sa.select(table).where(table.c.id == template_id).with_for_update()).mappings().first()
    return dict(row) if row else None


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
