"""Queries for images, their properties, tags and members. An image is a dict with 'properties' and 'tags'."""
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import operator
from typing import Any, Protocol

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import statements
from nova.db.placement import categories
from nova.db.tables import image as t
from nova.db.tables.rows import ImageMembersRow
from nova.db.types import ColumnValues

UNFINISHED = ('saving', 'importing')      # statuses of images whose data is being transferred
SHOWN = 20            # characters of an image's id that the EC2 API shows: 17 digits and 3 hyphens
NOT_EMPTY = {'name': '', 'disk_format': '', 'container_format': '', 'owner': '', 'size': -1}    # NULL sorts like these
OPERATORS: dict[str, Callable[[sa.Column[Any], Any], sa.ColumnElement[bool]]] = {
    'eq': operator.eq, 'gt': operator.gt, 'gte': operator.ge, 'lt': operator.lt, 'lte': operator.le,
    'between': lambda column, pair: column.between(*pair),
    'outside': lambda column, pair: sa.not_(column.between(*pair))}


class Search(Protocol):
    """Filters, order and page of an image list; implementation: nova.image.embedded.search.Search."""

    equal: dict[str, list[Any]]
    compare: list[tuple[str, str, Any]]
    tags: list[str]
    properties: dict[str, str]
    visibility: str | None
    member_status: str
    os_hidden: bool
    sort: list[tuple[str, str]]
    limit: int
    marker: str | None
    after: Mapping[str, Any] | None
    cut: bool


def insert(conn: sa.Connection, values: dict[str, Any], properties: dict[str, str], tags: list[str]) -> bool:
    """Insert an image; return False if its id, or the first part of the id, is or was in use.

    The EC2 API finds an image by the first part of its id. Images with equal first parts could be confused.
    """
    image_id = values['id']
    for table in (t.images, t.image_tombstones):
        if conn.execute(sa.select(table.c.id).where(table.c.id.startswith(image_id[:SHOWN])).limit(1)).first():
            return False
    conn.execute(sa.insert(t.images).values(**values))
    set_properties(conn, image_id, properties)
    set_tags(conn, image_id, tags)
    return True


def _relations(of: Callable[[sa.Column[Any]], sa.ColumnElement[bool]]) -> sa.CompoundSelect[Any]:
    """Return the SELECT of the properties and tags of images that meet a condition on their ids."""
    own, tags = t.image_properties.c, t.image_tags.c
    return sa.union_all(
        sa.select(own.image_id, own.name, own.value, sa.literal(0).label('position')).where(of(own.image_id)),
        sa.select(tags.image_id, sa.null(), tags.value, tags.id).where(of(tags.image_id)))


_IDS: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_RELATIONS = _relations(lambda column: column.in_(_IDS)).order_by('position')


_GET = sa.select(t.images, categories.is_registered(t.images.c.id).label('administrative')).where(
    t.images.c.id == sa.bindparam('key_id'))
_LOCK = _GET.with_for_update()
_OF_ONE = _relations(lambda column: column == sa.bindparam('key_id')).subquery('more')
_WHOLE = _GET.add_columns(_OF_ONE.c.name.label('more_name'), _OF_ONE.c.value.label('more_value')).outerjoin_from(
    t.images, _OF_ONE, _OF_ONE.c.image_id == t.images.c.id).order_by(_OF_ONE.c.position)


def get(conn: sa.Connection, image_id: str, lock: bool = False) -> dict[str, Any] | None:
    """Return the image, or None. ``administrative`` is True for the default image of an instance category.

    :param lock: lock the row until the transaction ends
    """
    if lock:
        row = conn.execute(_LOCK, {'key_id': image_id}).mappings().first()
        return _with_relations(conn, [row])[0] if row else None
    rows = statements.dicts(conn.execute(_WHOLE, {'key_id': image_id}))
    if not rows:
        return None
    more = [(row.pop('more_name'), row.pop('more_value')) for row in rows]
    return {**rows[0], 'properties': {name: value for name, value in more if name is not None},
            'tags': [value for name, value in more if name is None and value is not None]}


def page(conn: sa.Connection, search: Search, project_id: nova_context.Projects | str, few: int,
         fitting: Callable[[Iterable[int]], int]) -> list[dict[str, Any]]:
    """Return the images that match ``search``, in the order and up to the limit of the search.

    :param project_id: project of the caller; ALL_PROJECTS sees every image
    :param few: number of images that are always read, whatever their sizes
    :param fitting: function(sizes) that returns how many of the first images fit into the page
    :raises InvalidMarker: the marker is not an image
    """
    query = sa.select(t.images).where(*_conditions(search), *_visible(search, project_id))
    order = [(_sortable(column), direction) for column, direction in search.sort]
    if search.after is not None:
        query = query.where(_after(order, tuple(
            NOT_EMPTY[name] if search.after[name] is None else search.after[name] for name, _direction in search.sort)))
    elif search.marker:
        marker = conn.execute(sa.select(*[column for column, _direction in order])
                              .where(t.images.c.id == search.marker)).first()
        if marker is None:               # the image was deleted after the previous page, or never existed
            raise exception.InvalidMarker(marker=search.marker)
        query = query.where(_after(order, tuple(marker)))
    query = query.order_by(*[column.asc() if direction == 'asc' else column.desc() for column, direction in order])
    rows = conn.execute(query.limit(search.limit)).mappings().all()
    if len(rows) > few:
        kept = fitting(_sizes(conn, [row['id'] for row in rows]))
        search.cut, rows = search.cut or kept < len(rows), rows[:kept]
    return _with_relations(conn, rows)


def update(conn: sa.Connection, image_id: str, values: ColumnValues, /, **expect: object) -> bool:
    """Update the image if the columns in ``expect`` still match; return whether it was updated."""
    conditions = [t.images.c[name] == value for name, value in expect.items()]
    changed = conn.execute(sa.update(t.images).where(t.images.c.id == image_id, *conditions).values(**values))
    return changed.rowcount > 0


def set_checksums(conn: sa.Connection, image_id: str, data_id: str, *, checksum: str, os_hash_algo: str,
                  os_hash_value: str) -> None:
    """Record the checksums of an image's file, unless the image was deleted."""
    update(conn, image_id, {'checksum': checksum, 'os_hash_algo': os_hash_algo, 'os_hash_value': os_hash_value},
           data_id=data_id)


def set_properties(conn: sa.Connection, image_id: str, properties: dict[str, str]) -> None:
    conn.execute(sa.delete(t.image_properties).where(t.image_properties.c.image_id == image_id))
    if properties:
        conn.execute(sa.insert(t.image_properties),
                     [{'image_id': image_id, 'name': name, 'value': value} for name, value in properties.items()])


def set_tags(conn: sa.Connection, image_id: str, tags: list[str]) -> None:
    conn.execute(sa.delete(t.image_tags).where(t.image_tags.c.image_id == image_id))
    if tags:
        conn.execute(sa.insert(t.image_tags), [{'image_id': image_id, 'value': tag} for tag in tags])


def delete(conn: sa.Connection, image_id: str) -> bool:
    """Remove an image and its related rows; its id stays reserved. Return False if it does not exist."""
    if not conn.execute(sa.delete(t.images).where(t.images.c.id == image_id)).rowcount:
        return False
    for table in (t.image_properties, t.image_tags, t.image_members, t.image_tasks):
        conn.execute(sa.delete(table).where(table.c.image_id == image_id))
    conn.execute(sa.insert(t.image_tombstones).values(id=image_id, deleted_at=utils.utcnow()))
    return True


def reset_saving(conn: sa.Connection) -> None:
    """Set images with an interrupted upload or import to the status queued, in which they wait for data."""
    conn.execute(sa.update(t.images).where(t.images.c.status.in_(UNFINISHED))
                 .values(status='queued', data_id=None, reserved=0, updated_at=utils.utcnow()))


def await_data(conn: sa.Connection, present: set[str]) -> list[str]:
    """Set images with missing files to the status queued, in which they wait for data; return their ids.

    :param present: names of the existing files
    """
    found = conn.execute(sa.select(t.images.c.id, t.images.c.data_id).where(t.images.c.data_id.is_not(None))).all()
    lost = sorted(row.id for row in found if row.data_id not in present)
    for image_id in lost:
        conn.execute(sa.update(t.images).where(t.images.c.id == image_id).values(
            status='queued', data_id=None, reserved=0, size=None, virtual_size=None, checksum=None, os_hash_algo=None,
            os_hash_value=None, updated_at=utils.utcnow()))
    return lost


def data_ids(conn: sa.Connection) -> set[str]:
    """Return the names of all files of images."""
    return set(conn.execute(sa.select(t.images.c.data_id).where(t.images.c.data_id.is_not(None))).scalars())


def unhashed(conn: sa.Connection) -> list[tuple[str, str]]:
    """Return [(image id, name of its file)] of images that have data but no checksums."""
    found = conn.execute(sa.select(t.images.c.id, t.images.c.data_id).where(
        t.images.c.status.in_(('active', 'deactivated')), t.images.c.checksum.is_(None))).all()
    return [(row.id, row.data_id) for row in found]


_USED = sa.select(
    sa.func.coalesce(sa.func.sum(sa.func.coalesce(t.images.c.size, 0) + t.images.c.reserved), 0), sa.func.count(),
    sa.func.coalesce(sa.func.sum(sa.case((t.images.c.status.in_(UNFINISHED), 1), else_=0)), 0)).where(
    t.images.c.owner == sa.bindparam('of_owner'))


def used(conn: sa.Connection, owner: str) -> tuple[int, int, int]:
    """Return (bytes, images, uploads in progress) of a project. The bytes include those reserved for uploads."""
    size, images, uploads = conn.execute(_USED, {'of_owner': owner}).one()
    return int(size), int(images), int(uploads)


def staged(conn: sa.Connection, owner: str) -> int:
    """Return the number of bytes that a project has staged for imports."""
    return int(conn.execute(sa.select(sa.func.coalesce(sa.func.sum(t.images.c.size), 0)).where(
        t.images.c.owner == owner, t.images.c.status == 'uploading')).scalar_one())


def lock_upload(conn: sa.Connection, image_id: str, data_id: str) -> bool:
    """Lock the row of an upload; return False if the upload has ended or the image is deleted."""
    return conn.execute(sa.select(t.images.c.id).where(
        t.images.c.id == image_id, t.images.c.status.in_(UNFINISHED), t.images.c.data_id == data_id)
        .with_for_update()).first() is not None


# ---- members -----------------------------------------------------------------

def members(conn: sa.Connection, image_id: str, member: str | None = None) -> list[ImageMembersRow]:
    """Return [{'image_id', 'member', 'status', 'created_at', 'updated_at'}], optionally of one member."""
    query = sa.select(t.image_members).where(t.image_members.c.image_id == image_id)
    if member is not None:
        query = query.where(t.image_members.c.member == member)
    return statements.dicts(conn.execute(query.order_by(t.image_members.c.created_at)))


def add_member(conn: sa.Connection, values: ImageMembersRow) -> None:
    conn.execute(sa.insert(t.image_members).values(**values))


def update_member(conn: sa.Connection, image_id: str, member: str, values: ColumnValues) -> None:
    conn.execute(sa.update(t.image_members).values(**values)
                 .where(t.image_members.c.image_id == image_id, t.image_members.c.member == member))


def delete_member(conn: sa.Connection, image_id: str, member: str) -> bool:
    return conn.execute(sa.delete(t.image_members).where(
        t.image_members.c.image_id == image_id, t.image_members.c.member == member)).rowcount > 0


# ---- helpers of page() -------------------------------------------------------

def _sizes(conn: sa.Connection, idents: list[str]) -> list[int]:
    """Return the number of characters in the properties and tags of each image, in the order of ``idents``."""
    own, tags = t.image_properties.c, t.image_tags.c
    characters = sa.func.length(own.name) + sa.func.length(own.value)
    found = dict.fromkeys(idents, 0)
    for ident, size in conn.execute(sa.union_all(
            sa.select(own.image_id, sa.func.sum(characters)).where(own.image_id.in_(idents)).group_by(own.image_id),
            sa.select(tags.image_id, sa.func.sum(sa.func.length(tags.value))).where(tags.image_id.in_(idents)).group_by(
                tags.image_id))):
        found[ident] += int(size)
    return list(found.values())


def _with_relations(conn: sa.Connection, rows: Sequence[sa.RowMapping]) -> list[dict[str, Any]]:
    found = [dict(row, properties={}, tags=[]) for row in rows]
    by_id = {image['id']: image for image in found}
    if by_id:
        for image_id, name, value, _position in conn.execute(_RELATIONS, {'ids': list(by_id)}):
            if name is None:
                by_id[image_id]['tags'].append(value)
            else:
                by_id[image_id]['properties'][name] = value
    return found


def _sortable(name: str) -> sa.ColumnElement[Any]:
    column = t.images.c[name]
    return sa.func.coalesce(column, NOT_EMPTY[name]) if name in NOT_EMPTY else column


def _after(order: list[tuple[sa.ColumnElement[Any], str]], marker: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """Return the condition for the rows that follow the marker in ``order``."""
    alternatives: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for (column, direction), value in zip(order, marker):
        alternatives.append(sa.and_(*equal, column > value if direction == 'asc' else column < value))
        equal.append(column == value)
    return sa.or_(*alternatives)


def _conditions(search: Search) -> Iterator[sa.ColumnElement[bool]]:
    c = t.images.c
    yield c.os_hidden == search.os_hidden
    for name, values in search.equal.items():
        yield c[name].in_(values)
    for name, op, value in search.compare:
        yield OPERATORS[op](c[name], value)
    tags, properties = t.image_tags.c, t.image_properties.c
    for tag in search.tags:
        yield sa.exists().where(tags.image_id == c.id, tags.value == tag)
    for name, value in search.properties.items():
        yield sa.exists().where(properties.image_id == c.id, properties.name == name, properties.value == value)


def _visible(search: Search, project_id: nova_context.Projects | str) -> Iterator[sa.ColumnElement[bool]]:
    """Yield conditions: the image has the requested visibility, and the caller may see it."""
    c, m = t.images.c, t.image_members.c
    if search.visibility not in (None, 'all'):
        yield c.visibility == search.visibility
    if not nova_context.one_project(project_id):
        return
    mine = c.owner == project_id
    member = sa.exists().where(m.image_id == c.id, m.member == project_id,
                               *([] if search.member_status == 'all' else [m.status == search.member_status]))
    shared = sa.and_(c.visibility == 'shared', member)
    open_to_all = ['public', 'community'] if search.visibility in ('all', 'community') else ['public']
    yield sa.or_(mine, c.visibility.in_(open_to_all), shared)
    yield sa.not_(categories.is_registered(c.id))
