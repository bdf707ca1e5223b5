"""Index of the object store: buckets, objects, uploads and their parts."""
from collections.abc import Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db.objects import tables as t

# Upper bound of keys with a prefix: prefix + LAST. LAST is as long as the longest key (objectstore.store.MAX_KEY).
LAST = chr(0x10ffff) * 256
_LISTED = [t.objects.c[name] for name in ('key', 'size', 'etag', 'modified_at')]


def files(conn: sa.Connection) -> set[str]:
    """Return the names of all content files of objects and parts."""
    return {name for table in (t.objects, t.parts) for name in conn.execute(sa.select(table.c.file)).scalars()}


# ---- usage of projects

def used(conn: sa.Connection, project: str) -> tuple[int, int]:
    """Return (bytes, number of objects and of parts) that a project uses."""
    row = conn.execute(sa.select(t.usage.c.bytes, t.usage.c.objects).where(t.usage.c.project_id == project)).first()
    return (row.bytes, row.objects) if row else (0, 0)


def set_used(conn: sa.Connection, project: str, size: int, objects: int) -> None:
    conn.execute(sa.delete(t.usage).where(t.usage.c.project_id == project))
    conn.execute(sa.insert(t.usage), {'project_id': project, 'bytes': size, 'objects': objects})


def recount(conn: sa.Connection) -> None:
    """Set the usage of all projects from their objects and parts. Older releases did not count parts."""
    each = sa.union_all(
        sa.select(t.objects.c.bucket_id, t.objects.c.size),
        sa.select(t.uploads.c.bucket_id, t.parts.c.size).join_from(t.uploads, t.parts)).subquery()
    conn.execute(sa.delete(t.usage))
    conn.execute(sa.insert(t.usage).from_select(
        ['project_id', 'bytes', 'objects'],
        sa.select(t.buckets.c.project_id, sa.func.sum(each.c.size), sa.func.count()).join_from(
            t.buckets, each, t.buckets.c.id == each.c.bucket_id).group_by(t.buckets.c.project_id)))


# ---- buckets

def buckets(conn: sa.Connection, project: str) -> Sequence[Any]:
    """Return the buckets of a project by name."""
    return conn.execute(sa.select(t.buckets).where(t.buckets.c.project_id == project).order_by(t.buckets.c.name)).all()


def bucket_id(conn: sa.Connection, project: str, name: str) -> int | None:
    return conn.execute(sa.select(t.buckets.c.id).where(
        t.buckets.c.project_id == project, t.buckets.c.name == name)).scalar()


def insert_bucket(conn: sa.Connection, project: str, name: str) -> None:
    conn.execute(sa.insert(t.buckets), {'project_id': project, 'name': name, 'created_at': utils.utcnow()})


def is_empty(conn: sa.Connection, bucket: int) -> bool:
    """Tell whether a bucket has no objects and no uploads."""
    return not any(conn.execute(sa.select(table.c.key).where(table.c.bucket_id == bucket).limit(1)).first()
                   for table in (t.objects, t.uploads))


def delete_bucket(conn: sa.Connection, bucket: int) -> None:
    conn.execute(sa.delete(t.buckets).where(t.buckets.c.id == bucket))


# ---- objects

def get(conn: sa.Connection, bucket: int, key: str) -> sa.Row[Any] | None:
    """Return the row of an object, or None."""
    return conn.execute(sa.select(t.objects).where(t.objects.c.bucket_id == bucket, t.objects.c.key == key)).first()


def page(conn: sa.Connection, bucket: int, prefix: str, after: str, limit: int) -> Sequence[Any]:
    """Return (key, size, etag, modified_at) of objects with a prefix and a key above ``after``, in byte order."""
    return conn.execute(sa.select(*_LISTED).where(
        t.objects.c.bucket_id == bucket, t.objects.c.key > after, t.objects.c.key >= prefix,
        t.objects.c.key <= prefix + LAST).order_by(t.objects.c.key).limit(limit)).all()


def delete(conn: sa.Connection, bucket: int, key: str) -> None:
    conn.execute(sa.delete(t.objects).where(t.objects.c.bucket_id == bucket, t.objects.c.key == key))


def replace(conn: sa.Connection, bucket: int, key: str, *, file: str, size: int, etag: str,
            headers: dict[str, str]) -> sa.Row[Any]:
    """Insert or replace an object; return its row."""
    delete(conn, bucket, key)
    conn.execute(sa.insert(t.objects), {'bucket_id': bucket, 'key': key, 'file': file, 'size': size, 'etag': etag,
                                        'headers': headers, 'modified_at': utils.utcnow()})
    row = get(conn, bucket, key)
    assert row is not None
    return row


# ---- multipart uploads

def uploads(conn: sa.Connection, bucket: int) -> Sequence[Any]:
    """Return the uploads of a bucket, sorted by key and then by age."""
    return conn.execute(sa.select(t.uploads).where(t.uploads.c.bucket_id == bucket).order_by(
        t.uploads.c.key, t.uploads.c.created_at)).all()


def upload(conn: sa.Connection, bucket: int, key: str, ident: str) -> sa.Row[Any] | None:
    """Return the row of an upload, or None."""
    return conn.execute(sa.select(t.uploads).where(
        t.uploads.c.id == ident, t.uploads.c.key == key, t.uploads.c.bucket_id == bucket)).first()


def count_uploads(conn: sa.Connection, project: str) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(t.uploads.join(t.buckets)).where(
        t.buckets.c.project_id == project)).scalar_one()


def insert_upload(conn: sa.Connection, ident: str, bucket: int, key: str, headers: dict[str, str]) -> None:
    conn.execute(sa.insert(t.uploads), {'id': ident, 'bucket_id': bucket, 'key': key, 'headers': headers,
                                        'created_at': utils.utcnow()})


def delete_upload(conn: sa.Connection, ident: str) -> None:
    """Delete an upload with its parts."""
    conn.execute(sa.delete(t.parts).where(t.parts.c.upload_id == ident))
    conn.execute(sa.delete(t.uploads).where(t.uploads.c.id == ident))


def uploads_before(conn: sa.Connection, moment: datetime.datetime) -> Sequence[Any]:
    """Return (id, project_id) of uploads that began before a time and got no part since."""
    return conn.execute(sa.select(t.uploads.c.id, t.buckets.c.project_id).join(t.buckets).where(
        t.uploads.c.created_at < moment, ~sa.exists().where(
            t.parts.c.upload_id == t.uploads.c.id, t.parts.c.modified_at >= moment))).all()


def parts(conn: sa.Connection, ident: str) -> Sequence[Any]:
    """Return rows of the parts of an upload by number."""
    return conn.execute(sa.select(t.parts).where(t.parts.c.upload_id == ident).order_by(t.parts.c.number)).all()


def part(conn: sa.Connection, ident: str, number: int) -> sa.Row[Any] | None:
    """Return the row of a part, or None."""
    return conn.execute(sa.select(t.parts).where(t.parts.c.upload_id == ident, t.parts.c.number == number)).first()


def replace_part(conn: sa.Connection, ident: str, number: int, *, file: str, size: int, etag: str) -> sa.Row[Any]:
    """Insert or replace a part; return its row."""
    conn.execute(sa.delete(t.parts).where(t.parts.c.upload_id == ident, t.parts.c.number == number))
    conn.execute(sa.insert(t.parts), {'upload_id': ident, 'number': number, 'file': file, 'size': size, 'etag': etag,
                                      'modified_at': utils.utcnow()})
    row = part(conn, ident, number)
    assert row is not None
    return row
