"""Which objects exist: tables of one SQLite file next to their contents."""
from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()

# bytes and objects that a project has; the bytes of parts of uploads are counted as well
usage = sa.Table(
    'usage', METADATA,
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('bytes', sa.BigInteger, nullable=False),
    sa.Column('objects', sa.BigInteger, nullable=False))
# A name belongs to a project: two of them may have buckets of the same name, and neither finds out about the other.
buckets = sa.Table(
    'buckets', METADATA,
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(63), nullable=False),
    sa.Column('created_at', sa.DateTime, nullable=False),
    sa.UniqueConstraint('project_id', 'name'), sqlite_autoincrement=True)
# SQLite compares text by its bytes: the order in which S3 lists keys
objects = sa.Table(
    'objects', METADATA,
    sa.Column('bucket_id', sa.ForeignKey('buckets.id'), primary_key=True),
    sa.Column('key', sa.Text, primary_key=True),
    sa.Column('file', sa.String(32), nullable=False, index=True),
    sa.Column('size', sa.BigInteger, nullable=False),
    sa.Column('etag', sa.String(64), nullable=False),
    sa.Column('modified_at', sa.DateTime, nullable=False),
    sa.Column('headers', sa.JSON, nullable=False))
uploads = sa.Table(
    'uploads', METADATA,
    sa.Column('id', sa.String(32), primary_key=True),
    sa.Column('bucket_id', sa.ForeignKey('buckets.id'), nullable=False, index=True),
    sa.Column('key', sa.Text, nullable=False),
    sa.Column('headers', sa.JSON, nullable=False),
    sa.Column('created_at', sa.DateTime, nullable=False))
parts = sa.Table(
    'parts', METADATA,
    sa.Column('upload_id', sa.ForeignKey('uploads.id'), primary_key=True),
    sa.Column('number', sa.Integer, primary_key=True),
    sa.Column('file', sa.String(32), nullable=False, index=True),
    sa.Column('size', sa.BigInteger, nullable=False),
    sa.Column('etag', sa.String(64), nullable=False),
    sa.Column('modified_at', sa.DateTime, nullable=False))
