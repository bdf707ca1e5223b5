"""Resolve security groups in requests."""
from collections.abc import Collection

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import security_groups

MAX_ID = 36


def check_used(network_id: str, secured: bool, names: Collection[str]) -> bool:
    """Check that no security groups are requested for a network without port security; return ``secured``.

    :param secured: whether new ports in the network have port security
    :param names: group names in the server request
    :raises NetworkRequestInvalid: groups would have no effect. The default group is allowed, because it is the default
        of ``names``
    """
    if not secured and set(names) - {security_groups.DEFAULT}:
        raise exception.NetworkRequestInvalid(
            reason=f'network {network_id} has no port security: security groups have no effect there.')
    return secured


def resolve(conn: Connection, project_id: str, names: list[str] | None, known_default: str | None = None) -> list[str]:
    """Return group ids for names or ids of own and shared groups; the default group if ``names`` is empty.

    :param known_default: id of the project's default group, None: unknown
    :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
    """
    names = list(names or [security_groups.DEFAULT])
    if security_groups.DEFAULT not in names:
        return resolve_groups(conn, project_id, names, lock=True)
    default = known_default or security_groups.ensure_default(conn, project_id)
    if names == [security_groups.DEFAULT]:
        return [default]
    return resolve_groups(conn, project_id, names, default, lock=True)


def resolve_groups(conn: Connection, project_id: str, names: list[str], default: str | None = None,
                   lock: bool = False) -> list[str]:
    """Return the ids of the groups that names or ids refer to, in order without duplicates.

    :param lock: keep groups of other projects shared until the transaction ends
    :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
    """
    by_id: set[str] = set()
    by_name: dict[str, list[str]] = {}
    for row in security_groups.of_project(conn, project_id):
        by_id.add(row['id'])
        by_name.setdefault(row['name'], []).append(row['id'])
    by_id |= security_groups.shared_with(conn, project_id, [
        name[:MAX_ID] for name in names if name not in by_id and name not in by_name], lock)
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
