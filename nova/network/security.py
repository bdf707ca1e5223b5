"""Security groups: which ones a request means, and the stored form of their rules."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import hosts
from nova.db.networks import security_groups
from nova.network import gateways
from nova.network import group_rules

MAX_ID = 36


def check_used(network_id: str, secured: bool, names: Collection[str]) -> bool:
    """Whether ports that are made in the network are in groups, which is what ``secured`` says.

    :param secured: whether ports that are made in the network have port security
    :param names: the groups that a server names
    :raises NetworkRequestInvalid: they would do nothing. The default group is also meant where none is named
    """
    if not secured and set(names) - {security_groups.DEFAULT}:
        raise exception.NetworkRequestInvalid(
            reason=f'network {network_id} has no port security: security groups do nothing there.')
    return secured


def resolve(conn: Connection, project_id: str, names: list[str] | None, known_default: str | None = None) -> list[str]:
    """Ids of groups for names or ids of a project's own, or ids of those shared with it; the default group for None or
    none.

    :param known_default: id of the project's default group, None: not known
    :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
    """
    names = list(names or [security_groups.DEFAULT])
    if security_groups.DEFAULT not in names:
        return pick(conn, project_id, names, lock=True)
    default = known_default or security_groups.ensure_default(conn, project_id)
    if names == [security_groups.DEFAULT]:
        return [default]
    return pick(conn, project_id, names, default, lock=True)


def pick(conn: Connection, project_id: str, names: list[str], default: str | None = None,
         lock: bool = False) -> list[str]:
    """Ids of the groups that names or ids mean to a project, each once, in order.

    :param lock: those that others share with it stay so until the transaction ends
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


def stored_rule(conn: Connection, rule: dict[str, Any]) -> dict[str, Any]:
    """The checked rule as it is stored: its protocol in the form that was sent.

    A network service of an older release reads the names of group_rules.PROTOCOLS alone. While there is one, the
    protocol is stored in that form.

    :raises InvalidInput:
    """
    rule = group_rules.check_rule(rule)
    canonical = group_rules.canonical_protocol(rule['protocol'], rule['ethertype'])
    if canonical != rule['protocol'] and hosts.older(conn, gateways.SINCE):
        return {**rule, 'protocol': canonical}
    return rule
