"""Tables of the object store's index, an SQLite file next to the contents."""
import sqlalchemy as sa

METADATA = sa.MetaData()

# usage of projects, with the parts of unfinished uploads
usage = sa.Table(
    'usage', METADATA,
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('bytes', sa.BigInteger, nullable=False),
    sa.Column('objects', sa.BigInteger, nullable=False))
# names are unique within a project, so that projects can neither block nor discover the names of other projects
buckets = sa.Table(
    'buckets', METADATA,
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(63), nullable=False),
    sa.Column('created_at', sa.DateTime, nullable=False),
    sa.UniqueConstraint('project_id', 'name'), sqlite_autoincrement=True)
# SQLite compares text by bytes, which is the order of keys in S3
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
