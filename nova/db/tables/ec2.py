"""Tables of the EC2 API, in the API database: the numbers behind its ids, and its tags."""
import sqlalchemy as sa

from nova.db.tables.api import table

# A number stands for one thing for ever: rows stay when the thing is gone. What is meant is looked up as the caller.
ec2_ids = table(
    'ec2_ids',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('prefix', sa.String(16), nullable=False),              # of the kind: i, ami, vol, …
    sa.Column('uuid', sa.String(64), nullable=False),                # as the service names it
    sa.Column('digits', sa.String(17)),                              # the first of the uuid; an id shows them
    sa.UniqueConstraint('prefix', 'uuid', name='uniq_ec2_ids_uuid'),
    sa.Index('ix_ec2_ids_digits', 'prefix', 'digits'),
)

ec2_tags = table(
    'ec2_tags',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('project_id', sa.String(64), nullable=False),          # whose tag it is; others do not see it
    sa.Column('resource_id', sa.Integer, nullable=False),            # ec2_ids.id
    sa.Column('key', sa.String(127), nullable=False),
    sa.Column('value', sa.String(255), nullable=False),
    sa.UniqueConstraint('project_id', 'resource_id', 'key', name='uniq_ec2_tags_key'),
)
