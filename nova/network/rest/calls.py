"""Operations of the Network API without HTTP, in the caller's transaction and context."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.audit import log
from nova.db.networks import networks as db
from nova.db.networks import tags as db_tags
from nova.json_types import JsonObject
from nova.network.rest import attributes
from nova.network.rest.resource import Resource
from nova.network.rest.resource import R

if TYPE_CHECKING:
    from nova.network.rest.request import Deps


MAX_ID = 255                # maximum length of an id in a lookup


def get_visible(conn: Connection, context: RequestContext, resource: Resource[R], ident: str) -> R:
    """Return a row visible to the caller. Another project's row is treated as missing.

    :raises NotFound:
    """
    row = db.seen(conn, resource.table, resource.visible(context), ident[:MAX_ID])
    if row is None:
        raise resource.missing(ident[:MAX_ID])
    return row


def get_changeable(conn: Connection, context: RequestContext, resource: Resource[R], ident: str, rule: str) -> R:
    """Return a row that the caller may change.

    :param rule: policy rule named in the error
    :raises NotFound, PolicyDenied:
    """
    row = get_visible(conn, context, resource, ident)
    if not resource.writable(context, row):
        raise exception.PolicyDenied(rule=rule)
    return row


def removable(conn: Connection, context: RequestContext, resource: Resource[R], ident: str) -> R:
    """Return a row that the caller may delete.

    :raises NotFound, PolicyDenied:
    """
    rule = f'delete_{resource.singular}'
    if resource.removable is None:
        return get_changeable(conn, context, resource, ident, rule)
    row = get_visible(conn, context, resource, ident)
    if not resource.removable(conn, context, row):
        raise exception.PolicyDenied(rule=rule)
    return row


def create(conn: Connection, deps: Deps, context: RequestContext, resource: Resource[Any], values: JsonObject) -> str:
    """Create a resource like a POST with these values, and return its id.

    :raises InvalidInput, PolicyDenied, OverQuota: and the resource's own errors
    """
    ident = resource.create(conn, deps, context, attributes.parse(resource.attributes, context, values, creating=True))
    log.about(ident)
    return ident


def delete(conn: Connection, deps: Deps, context: RequestContext, resource: Resource[R], row: R) -> None:
    """Delete a resource that the caller may change, with its tags."""
    resource.delete(conn, deps, context, row)
    if resource.tagged:
        db_tags.replace(conn, row['id'], [])
