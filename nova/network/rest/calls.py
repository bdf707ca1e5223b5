"""Operations of the Networking API for callers without HTTP; they run in the transaction and context of the caller."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.audit import log
from nova.db.networks import networks as db
from nova.db.tables import network as t
from nova.json_types import JsonObject
from nova.network.rest import permissions
from nova.network.rest.rows import is_owner
from nova.network.rest.rows import R
from nova.network.rest.rows import Resource

if TYPE_CHECKING:
    from nova.network.rest.request import Deps


MAX_ID = 255                # maximum length of an id in a lookup


def get_visible(conn: Connection, context: RequestContext, resource: Resource[R], ident: str) -> R:
    """Return the row with an id, if the row is visible to the caller.

    :raises NotFound:
    """
    row = db.seen(conn, resource.table, resource.visible(context), ident[:MAX_ID])
    if row is None:
        raise resource.missing(ident[:MAX_ID])
    return row


def get_changeable(conn: Connection, context: RequestContext, resource: Resource[R], ident: str, rule: str) -> R:
    """Return a row that the caller may change.

    :param rule: rule of the change
    :raises NotFound, PolicyDenied:
    """
    row = get_visible(conn, context, resource, ident)
    authorize(conn, context, resource, rule, row)
    return row


def authorize(conn: Connection, context: RequestContext, resource: Resource[Any], rule: str,
              values: Mapping[str, Any], more: Mapping[str, str | None] | None = None) -> None:
    """Check a rule for a resource.

    :param values: row, view or new values of the resource
    :param more: further attributes for the rule
    :raises PolicyDenied:
    """
    where = {**permissions.target_of(context, rule, values), **(more or {})}
    if resource.of_network:
        where = permissions.in_network(conn, context, rule, where, values['network_id'])
    permissions.authorize(context, rule, where)


def authorize_fields(conn: Connection, context: RequestContext, resource: Resource[Any], given: JsonObject,
                     values: Mapping[str, Any], row: Mapping[str, Any] | None) -> None:
    """Check the rules of the restricted attributes in a request.

    :param given: attributes of the request
    :param values: parsed values of these attributes
    :param row: row before the update; None: the resource is created
    :raises PolicyDenied:
    """
    verb = 'create' if row is None else 'update'
    for name in resource.restricted(given, values, verb):
        authorize(conn, context, resource, f'{verb}_{resource.name}:{name}', {**(row or {}), **values})


def create(conn: Connection, deps: Deps, context: RequestContext, resource: Resource[Any], values: JsonObject) -> str:
    """Create a resource as a POST with these values does; return its id.

    :raises InvalidInput, PolicyDenied, OverQuota: and errors of the resource
    """
    parsed = resource.parse(values, 'create')
    new = {**parsed, 'project_id': parsed.get('project_id') or parsed.get('tenant_id') or context.project_id}
    if _has_parent(conn, context, resource, parsed):
        authorize(conn, context, resource, f'create_{resource.name}', new, _of_group(conn, parsed))
        authorize_fields(conn, context, resource, values, new, None)
    ident = resource.create(conn, deps, context, parsed)
    log.about(ident)
    return ident


def _has_parent(conn: Connection, context: RequestContext, resource: Resource[Any], values: JsonObject) -> bool:
    """Return whether the caller may add a new resource to the network or security group that its values name."""
    if 'security_group_id' in values:
        group = db.get(conn, t.security_groups, str(values['security_group_id'])[:MAX_ID])
        return group is not None and is_owner(context, group)
    return not resource.of_network or db.seen(
        conn, t.networks, db.visible(context), str(values['network_id'])[:MAX_ID]) is not None


def _of_group(conn: Connection, values: JsonObject) -> dict[str, str | None]:
    """Return {'security_group:project_id': owner of a new rule's security group}, or {} for other resources."""
    group = db.get(conn, t.security_groups, str(values['security_group_id'])[:MAX_ID]) if (
        'security_group_id' in values) else None
    return {'security_group:project_id': group['project_id']} if group is not None else {}
