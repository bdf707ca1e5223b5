"""Security groups: which ones a request means."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import security_groups

if TYPE_CHECKING:
    from nova.db.tables.rows import SecurityGroupsRow


def resolve(conn: Connection, project_id: str, names: list[str] | None, known_default: str | None = None) -> list[str]:
    """Ids of a project's groups for names or ids; the default group for None or none.

    :param known_default: id of the project's default group, None: not known
    :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
    """
    names = list(names or [security_groups.DEFAULT])
    if security_groups.DEFAULT not in names:
        return pick(security_groups.of_project(conn, project_id), names)
    default = known_default or security_groups.ensure_default(conn, project_id)
    if names == [security_groups.DEFAULT]:
        return [default]
    return pick(security_groups.of_project(conn, project_id), names, default)


def pick(rows: list[SecurityGroupsRow], names: list[str], default: str | None = None) -> list[str]:
    """Ids of the groups (rows of one project) that names or ids mean, each once, in order."""
    by_id = {row['id'] for row in rows}
    by_name: dict[str, list[str]] = {}
    for row in rows:
        by_name.setdefault(row['name'], []).append(row['id'])
    found: dict[str, None] = {}
    for name in names:
        idents = [default] if name == security_groups.DEFAULT and default else (
            [name] if name in by_id else by_name.get(name, []))
        if not idents:
            raise exception.SecurityGroupNotFound(security_group_id=name)
        if len(idents) > 1:
            raise exception.SecurityGroupAmbiguous(name=name)
        found[idents[0]] = None
    return list(found)
