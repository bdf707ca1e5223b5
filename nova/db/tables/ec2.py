"""Tables of the EC2 API, in the API database: the numbers behind its ids, its tags, tokens and launch templates."""
import sqlalchemy as sa

from nova.db import types
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

# A row a ClientToken, of operations whose own service knows none: the first writer makes the thing.
ec2_client_tokens = table(
    'ec2_client_tokens',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('token_hash', sa.String(64), primary_key=True),        # of the operation and the token
    sa.Column('request_hash', sa.String(64), nullable=False),
    sa.Column('uuid', sa.String(64)),                                # of what was made; NULL while it is being made
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('tried_at', types.DateTime, nullable=False),           # when the last attempt to serve it began
    sa.Index('ix_ec2_client_tokens_created', 'created_at'),
)

ec2_launch_templates = table(
    'ec2_launch_templates',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(128), nullable=False),
    sa.Column('name_hash', sa.String(64), nullable=False),           # names differ by case, whatever the database says
    sa.Column('created_by', sa.String(64), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('default_version', sa.Integer, nullable=False),
    sa.Column('latest_version', sa.Integer, nullable=False),         # the last number given; numbers never come again
    sa.UniqueConstraint('uuid', name='uniq_ec2_launch_templates_uuid'),
    sa.UniqueConstraint('project_id', 'name_hash', name='uniq_ec2_launch_templates_name'),
)

ec2_launch_template_versions = table(
    'ec2_launch_template_versions',
    sa.Column('template_id', sa.Integer, primary_key=True, autoincrement=False),     # ec2_launch_templates.id
    sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('description', sa.String(255)),
    sa.Column('created_by', sa.String(64), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('data', types.LongText, nullable=False),               # JSON of the parameters of RunInstances
)
