"""Metadata definitions: namespaces with objects, properties, tags and resource types that describe properties.

The definitions are a catalog for people and dashboards. The services do not validate properties against them. Callers
see public namespaces and the namespaces of their project.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import datetime
from typing import TypedDict, TypeVar
import uuid

from oslo_db import exception as db_exc

from nova import exception
from nova import policy
from nova import utils
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.images import metadefs as queries
from nova.db.tables.rows import MetadefItemsRow
from nova.db.tables.rows import MetadefNamespacesRow
from nova.json_types import JsonObject

_Result = TypeVar('_Result')
Rows = list[MetadefItemsRow]
Items = Mapping[str, Sequence[JsonObject]]             # {kind of items: documents, each with a name}

OBJECT, PROPERTY, TAG, RESOURCE_TYPE = 'object', 'property', 'tag', 'resource_type'
MAX_NAMESPACES = 1000
MAX_ITEMS = 1000              # maximum items of one kind in a namespace
MAX_DOCUMENT = 65536          # maximum bytes of an item
# values of a new or changed namespace
NamespaceValues = TypedDict('NamespaceValues', {
    'namespace': str, 'display_name': str | None, 'description': str | None, 'visibility': str, 'protected': bool,
    'owner': str}, total=False)


class Namespace(MetadefNamespacesRow):
    """A namespace with its items."""

    items: Rows


class Metadefs:
    """Namespaces and their items. Each method checks a policy rule for the namespace.

    :param db: the API database
    :param rules: policy.Policy of the image API
    """

    def __init__(self, db: Database, rules: policy.Policy) -> None:
        self._db, self._rules = db, rules

    # ---- namespaces

    def visible(self, ctx: RequestContext, **match: str) -> list[Namespace]:
        """Return the namespaces that the caller sees, oldest first, with items of the kind RESOURCE_TYPE."""
        with self._db.reader() as conn:
            found = queries.namespaces(conn, None if _is_admin(ctx) else ctx.project_id or '', **match)
            items = queries.items(conn, [row['id'] for row in found], kind=RESOURCE_TYPE)
        return [{**row, 'items': [item for item in items if item['namespace_id'] == row['id']]} for row in found]

    def show(self, ctx: RequestContext, name: str) -> Namespace:
        with self._db.reader() as conn:
            row = self._namespace(conn, ctx, name, 'get_metadef_namespace')
            return {**row, 'items': queries.items(conn, [row['id']])}

    def create(self, ctx: RequestContext, values: NamespaceValues, items: Items) -> Namespace:
        """Create a namespace with items and return it.

        :raises Conflict: its name is in use
        :raises Forbidden: there are too many
        """
        now = utils.utcnow()
        row: MetadefNamespacesRow = {
            'display_name': None, 'description': None, 'visibility': 'private', 'protected': False, **values,
            'namespace': values['namespace'], 'owner': values.get('owner') or ctx.project_id or '',
            'id': str(uuid.uuid4()), 'created_at': now, 'updated_at': now}

        def write(conn: Connection) -> Namespace:
            if queries.count(conn) >= MAX_NAMESPACES:
                raise exception.Forbidden(f'There can be at most {MAX_NAMESPACES} namespaces of metadata definitions.')
            queries.insert(conn, row)
            return {**row, 'items': [item for kind, documents in items.items()
                                     for item in _insert(conn, row, kind, documents)]}
        return self._write(write, row['namespace'])

    def update(self, ctx: RequestContext, name: str, values: NamespaceValues) -> Namespace:
        """Change fields of a namespace and return it.

        :raises Conflict: its new name is in use
        """
        def write(conn: Connection) -> Namespace:
            row = self._namespace(conn, ctx, name, 'modify_metadef_namespace', lock=True)
            row = {**row, **values, 'updated_at': utils.utcnow()}
            queries.update(conn, row)
            return {**row, 'items': queries.items(conn, [row['id']])}
        return self._write(write, str(values.get('namespace')))

    def delete(self, ctx: RequestContext, name: str) -> None:
        """Delete a namespace with its items.

        :raises Forbidden: it is protected
        """
        def write(conn: Connection) -> None:
            queries.delete(conn, self._deletable(conn, ctx, name, 'delete_metadef_namespace')['id'])
        self._db.run(write)

    # ---- items

    def items(self, ctx: RequestContext, name: str, kind: str, rule: str, item: str | None = None) -> Rows:
        """Return the items of a kind in a namespace.

        :param item: name of the only item that is wanted
        :raises NotFound: there is no such item
        """
        with self._db.reader() as conn:
            namespace_id = self._namespace(conn, ctx, name, rule)['id']
            return queries.items(conn, [namespace_id], kind=kind) if item is None else [
                _item(conn, namespace_id, kind, item)]

    def add(self, ctx: RequestContext, name: str, kind: str, documents: Sequence[JsonObject], rule: str,
            replace: bool = False) -> Rows:
        """Add items and return them.

        :param replace: delete the present items of this kind first
        :raises Conflict: a name is in use
        """
        def write(conn: Connection) -> Rows:
            row = self._namespace(conn, ctx, name, rule, lock=True)
            if replace:
                queries.delete_items(conn, row['id'], kind=kind)
            return _insert(conn, row, kind, documents)
        return self._write(write, ', '.join(str(document['name']) for document in documents)[:255])

    def replace(self, ctx: RequestContext, name: str, kind: str, item: str, document: JsonObject, rule: str
                ) -> MetadefItemsRow:
        """Replace an item, which may get another name, and return it.

        :raises Conflict: the new name is in use
        """
        def write(conn: Connection) -> MetadefItemsRow:
            namespace_id = self._namespace(conn, ctx, name, rule, lock=True)['id']
            row = _item(conn, namespace_id, kind, item)
            changed = _row(namespace_id, kind, {'name': item, **document}, row['created_at'])
            queries.update_item(conn, row['name'], changed)
            return changed
        return self._write(write, str(document.get('name')))

    def remove(self, ctx: RequestContext, name: str, kind: str, rule: str, item: str | None = None) -> None:
        """Delete one item, or all of a kind.

        :raises NotFound: there is no such item
        :raises Forbidden: the namespace is protected
        """
        def write(conn: Connection) -> None:
            row = self._deletable(conn, ctx, name, rule)
            match = {} if item is None else {'name': _item(conn, row['id'], kind, item)['name']}
            queries.delete_items(conn, row['id'], kind=kind, **match)
        self._db.run(write)

    # ---- checks

    def _namespace(self, conn: Connection, ctx: RequestContext, name: str, rule: str, lock: bool = False
                   ) -> MetadefNamespacesRow:
        row = queries.find(conn, name, lock)
        if row is None or not (_is_admin(ctx) or row['visibility'] == 'public' or row['owner'] == ctx.project_id):
            raise exception.NotFound(f'There is no namespace {name[:80]} of metadata definitions.')
        self._rules.authorize(ctx, rule, {'project_id': row['owner'], 'owner': row['owner'],
                                          'visibility': row['visibility']})
        return row

    def _deletable(self, conn: Connection, ctx: RequestContext, name: str, rule: str) -> MetadefNamespacesRow:
        row = self._namespace(conn, ctx, name, rule, lock=True)
        if row['protected']:
            raise exception.Forbidden(f'The namespace {row["namespace"]} of metadata definitions is protected.')
        return row

    def _write(self, function: Callable[[Connection], _Result], name: str) -> _Result:
        try:
            return self._db.run(function)
        except db_exc.DBDuplicateEntry:
            raise exception.Conflict(f'The metadata definition {name} already exists.') from None


def _is_admin(ctx: RequestContext) -> bool:
    return bool(ctx.is_admin) and ctx.image_grant is None


def _item(conn: Connection, namespace_id: str, kind: str, name: str) -> MetadefItemsRow:
    found = queries.items(conn, [namespace_id], kind=kind, name=name)
    if not found:
        raise exception.NotFound(f'There is no {kind.replace("_", " ")} {name[:80]} in the namespace.')
    return found[0]


def _insert(conn: Connection, namespace: MetadefNamespacesRow, kind: str, documents: Sequence[JsonObject]) -> Rows:
    if len(queries.items(conn, [namespace['id']], kind=kind)) + len(documents) > MAX_ITEMS:
        raise exception.Forbidden(f'A namespace can have at most {MAX_ITEMS} of the kind {kind.replace("_", " ")}.')
    made = [_row(namespace['id'], kind, document) for document in documents]
    for row in made:
        queries.insert_item(conn, row)
    return made


def _row(namespace_id: str, kind: str, document: JsonObject, created_at: datetime.datetime | None = None
         ) -> MetadefItemsRow:
    """Return the row of an item.

    :raises TooLarge: its fields are too long
    """
    rest = {key: value for key, value in document.items() if key != 'name'}
    if len(utils.encode_json(rest)) > MAX_DOCUMENT:
        raise exception.TooLarge(f'A metadata definition can have at most {MAX_DOCUMENT} bytes.')
    now = utils.utcnow()
    return {'namespace_id': namespace_id, 'kind': kind, 'name': str(document['name']), 'document': rest,
            'created_at': created_at or now, 'updated_at': now}
