"""A resource of the face: its rows, its attributes, and what create, update and delete do."""
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Resource:
    """
    visible   function(context) -> condition on rows that the caller may see
    writable  function(context, row) -> whether the caller may change the row
    views     function(conn, context, rows) -> list of dicts
    create, update, delete   function(conn, face, context, values | row, values | row); create returns the
    new id
    missing   function(id) -> the error when there is no such row
    prepare   function(conn, context): called in a transaction before a list
    tagged    whether it has tags
    at        its path; '': its plural
    actions   (method, path below one, function(conn, face, context, row, body, **parts) -> document or None)
    """

    singular: str
    plural: str
    table: object
    attributes: dict
    listing: object
    visible: typing.Callable
    writable: typing.Callable
    views: typing.Callable
    create: typing.Callable
    update: typing.Callable
    delete: typing.Callable
    missing: typing.Callable
    prepare: typing.Callable | None = None
    actions: tuple = ()
    tagged: bool = True
    at: str = ''

    @property
    def path(self):
        return self.at or self.plural.replace('_', '-')


def owner(context, row):
    return context.is_admin or bool(context.project_id) and row['project_id'] == context.project_id


def times(row):
    """The columns that every resource shows."""
    return {'id': row['id'], 'project_id': row['project_id'], 'tenant_id': row['project_id'],
            'description': row['description'], 'created_at': stamp(row['created_at']),
            'updated_at': stamp(row['updated_at']), 'revision_number': row['revision'], 'tags': []}


def stamp(moment):
    return moment.strftime('%Y-%m-%dT%H:%M:%SZ')
