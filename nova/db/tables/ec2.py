"""Tables of the EC2 API in the API database: numeric ids, tags, tokens, launch templates and VPCs."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

# numeric ids of resources. A number is never reused, so rows are kept after the resource is deleted. The caller's
# permissions for the resource are checked at each lookup
ec2_ids = table(
    'ec2_ids',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('prefix', sa.String(16), nullable=False),              # prefix of the resource type: i, ami, vol, …
    sa.Column('uuid', sa.String(64), nullable=False),                # id of the resource in its service
    sa.Column('digits', sa.String(17)),                              # first digits of the uuid, as in the EC2 ID
    sa.UniqueConstraint('prefix', 'uuid', name='uniq_ec2_ids_uuid'),
    sa.Index('ix_ec2_ids_digits', 'prefix', 'digits'),
)

ec2_tags = table(
    'ec2_tags',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    # owner of the tag; other projects do not see the tag
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('resource_id', sa.Integer, nullable=False),            # ec2_ids.id
    sa.Column('key', sa.String(127), nullable=False),
    sa.Column('value', sa.String(255), nullable=False),
    sa.UniqueConstraint('project_id', 'resource_id', 'key', name='uniq_ec2_tags_key'),
)

# one row for each ClientToken of operations that are not idempotent in the called service; the request that inserts the
# row creates the resource
ec2_client_tokens = table(
    'ec2_client_tokens',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('token_hash', sa.String(64), primary_key=True),        # hash of the operation and the token
    sa.Column('request_hash', sa.String(64), nullable=False),
    # uuid of the created resource; NULL during creation
    sa.Column('uuid', sa.String(64)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('attempted_at', types.DateTime, nullable=False),           # start of the last attempt
    sa.Index('ix_ec2_client_tokens_created', 'created_at'),
)

ec2_launch_templates = table(
    'ec2_launch_templates',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    sa.Column('uuid', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('name', sa.String(128), nullable=False),
    sa.Column('name_hash', sa.String(64), nullable=False),           # makes names case-sensitive on every database
    sa.Column('created_by', sa.String(64), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('default_version', sa.Integer, nullable=False),
    sa.Column('latest_version', sa.Integer, nullable=False),         # the last version number; numbers are never reused
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

# a VPC that a client created is a router of the network service with the same id; this table has additional attributes
ec2_vpcs = table(
    'ec2_vpcs',
    sa.Column('id', sa.String(36), primary_key=True),                # id of the router
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('cidr', sa.String(18), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    # ec2_dhcp_options.id; NULL: none, and the subnets of the VPC keep their name servers
    sa.Column('dhcp_options_id', sa.String(36)),
    sa.Index('ix_ec2_vpcs_project', 'project_id'),
)

ec2_dhcp_options = table(
    'ec2_dhcp_options',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(64), nullable=False),
    # JSON list of addresses; an empty list means the cloud's name servers
    sa.Column('name_servers', sa.String(255), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Index('ix_ec2_dhcp_options_project', 'project_id'),
)

ec2_internet_gateways = table(
    'ec2_internet_gateways',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('vpc_id', sa.String(36)),                              # the attached VPC, or NULL
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('vpc_id', name='uniq_ec2_internet_gateways_vpc'),
    sa.Index('ix_ec2_internet_gateways_project', 'project_id'),
)

ec2_route_tables = table(
    'ec2_route_tables',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('vpc_id', sa.String(36), nullable=False),
    sa.Column('main_vpc_id', sa.String(36)),                         # the VPC that has this table as its main table
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.UniqueConstraint('main_vpc_id', name='uniq_ec2_route_tables_main'),
    sa.Index('ix_ec2_route_tables_project', 'project_id'),
    sa.Index('ix_ec2_route_tables_vpc', 'vpc_id'),
)

ec2_routes = table(
    'ec2_routes',
    sa.Column('route_table_id', sa.String(36), primary_key=True),
    sa.Column('destination', sa.String(18), primary_key=True),
    sa.Column('gateway_id', sa.String(36), nullable=False),          # ec2_internet_gateways.id
)

ec2_route_associations = table(
    'ec2_route_associations',
    sa.Column('subnet_id', sa.String(36), primary_key=True),         # id in the network service
    sa.Column('id', sa.String(36), nullable=False),
    sa.Column('route_table_id', sa.String(36), nullable=False),
    sa.UniqueConstraint('id', name='uniq_ec2_route_associations_id'),
    sa.Index('ix_ec2_route_associations_table', 'route_table_id'),
)

# security groups of VPCs that clients created; other security groups belong to the project's first VPC
ec2_vpc_groups = table(
    'ec2_vpc_groups',
    sa.Column('group_id', sa.String(36), primary_key=True),          # id in the network service
    sa.Column('project_id', sa.String(64), nullable=False),
    sa.Column('vpc_id', sa.String(36), nullable=False),
    sa.Index('ix_ec2_vpc_groups_project', 'project_id'),
)
