"""The tables of the API database at the first release."""
from typing import Any

from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0001'
down_revision = None
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
BIG_KEY = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


def _create(name: str, *items: Any) -> None:
    op.create_table(name, *items, mysql_engine='InnoDB', mysql_charset='utf8mb4')


def upgrade() -> None:
    _create(
        'addresses',
        sa.Column('subnet_id', sa.String(36), primary_key=True),
        sa.Column('number', sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column('address', sa.String(39), nullable=False, index=True),
        sa.Column('port_id', sa.String(36), index=True), sa.Column('released_at', MOMENT),
    )
    _create(
        'aggregate_hosts',
        sa.Column('aggregate_id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('host', sa.String(255), primary_key=True, index=True),
    )
    _create(
        'aggregates',
        sa.Column('id', sa.Integer, primary_key=True), sa.Column('uuid', sa.String(36), nullable=False, unique=True),
        sa.Column('name', sa.String(255), nullable=False, unique=True),
        sa.Column('availability_zone', sa.String(255)), sa.Column('metadata', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT),
    )
    _create(
        'audit_chain',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('seq', sa.BigInteger, nullable=False), sa.Column('digest', sa.String(64), nullable=False),
        sa.Column('sealed_at', MOMENT, nullable=False),
    )
    _create(
        'audit_records',
        sa.Column('id', BIG_KEY, primary_key=True), sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('request_id', sa.String(255)),
        sa.Column('user_id', sa.String(255)), sa.Column('project_id', sa.String(255)),
        sa.Column('domain_id', sa.String(255)), sa.Column('roles', sa.String(255)),
        sa.Column('credential_id', sa.String(255)), sa.Column('service_user_id', sa.String(255)),
        sa.Column('remote_address', sa.String(255)), sa.Column('method', sa.String(16), nullable=False),
        sa.Column('route', sa.String(255), nullable=False), sa.Column('action', sa.String(255), nullable=False),
        sa.Column('target_type', sa.String(255)), sa.Column('target_id', sa.String(255)),
        sa.Column('target_part', sa.String(255)), sa.Column('outcome', sa.String(16), nullable=False),
        sa.Column('code', sa.Integer), sa.Column('reason', sa.String(255)), sa.Column('seq', sa.BigInteger),
        sa.Column('digest', sa.String(64)), sa.Index('ix_audit_records_action', 'action', 'seq'),
        sa.Index('ix_audit_records_created', 'created_at'),
        sa.Index('ix_audit_records_project', 'project_id', 'created_at'),
        sa.Index('uniq_audit_records_seq', 'seq', unique=True),
        sa.Index('uniq_audit_records_uuid', 'uuid', unique=True),
    )
    _create(
        'auto_topologies',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('network_id', sa.String(36), nullable=False, unique=True),
        sa.Column('router_id', sa.String(36), nullable=False),
    )
    _create(
        'cells',
        sa.Column('uuid', sa.String(36), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False, unique=True),
        sa.Column('database_url', sa.Text, nullable=False), sa.Column('transport_url', sa.Text, nullable=False),
        sa.Column('disabled', sa.Boolean, nullable=False),
    )
    _create(
        'default_security_group_rules',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('direction', sa.String(8), nullable=False),
        sa.Column('ethertype', sa.String(4), nullable=False), sa.Column('protocol', sa.String(40)),
        sa.Column('port_range_min', sa.Integer), sa.Column('port_range_max', sa.Integer),
        sa.Column('remote_ip_prefix', sa.String(43)), sa.Column('from_own_group', sa.Boolean, nullable=False),
        sa.Column('used_in_default_sg', sa.Boolean, nullable=False), sa.Column('used_in_non_default_sg', sa.Boolean, nullable=False),
        sa.Column('removed', sa.Boolean, nullable=False), sa.Column('description', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'default_security_groups',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('security_group_id', sa.String(36), nullable=False),
    )
    _create(
        'dns_domains',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('name', sa.String(189), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('for_project', sa.String(255), nullable=False),
        sa.UniqueConstraint('name', 'project_id', name='uniq_dns_domains0name0project_id'),
    )
    _create(
        'dns_entries',
        sa.Column('domain_id', sa.String(36), primary_key=True), sa.Column('name', sa.String(63), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('address', sa.String(39), nullable=False, index=True),
    )
    _create(
        'ec2_client_tokens',
        sa.Column('project_id', sa.String(64), primary_key=True),
        sa.Column('token_hash', sa.String(64), primary_key=True),
        sa.Column('request_hash', sa.String(64), nullable=False), sa.Column('uuid', sa.String(64)),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('attempted_at', MOMENT, nullable=False),
        sa.Index('ix_ec2_client_tokens_created', 'created_at'),
    )
    _create(
        'ec2_dhcp_options',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(64), nullable=False),
        sa.Column('name_servers', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Index('ix_ec2_dhcp_options_project', 'project_id'),
    )
    _create(
        'ec2_ids',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
        sa.Column('prefix', sa.String(16), nullable=False), sa.Column('uuid', sa.String(64), nullable=False),
        sa.Column('digits', sa.String(17)), sa.UniqueConstraint('prefix', 'uuid', name='uniq_ec2_ids_uuid'),
        sa.Index('ix_ec2_ids_digits', 'prefix', 'digits'),
    )
    _create(
        'ec2_internet_gateways',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(64), nullable=False),
        sa.Column('vpc_id', sa.String(36)), sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('vpc_id', name='uniq_ec2_internet_gateways_vpc'),
        sa.Index('ix_ec2_internet_gateways_project', 'project_id'),
    )
    _create(
        'ec2_launch_template_versions',
        sa.Column('template_id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('description', sa.String(255)), sa.Column('created_by', sa.String(64), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('data', LONG_TEXT, nullable=False),
    )
    _create(
        'ec2_launch_templates',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
        sa.Column('uuid', sa.String(36), nullable=False), sa.Column('project_id', sa.String(64), nullable=False),
        sa.Column('name', sa.String(128), nullable=False), sa.Column('name_hash', sa.String(64), nullable=False),
        sa.Column('created_by', sa.String(64), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('default_version', sa.Integer, nullable=False),
        sa.Column('latest_version', sa.Integer, nullable=False),
        sa.UniqueConstraint('project_id', 'name_hash', name='uniq_ec2_launch_templates_name'),
        sa.UniqueConstraint('uuid', name='uniq_ec2_launch_templates_uuid'),
    )
    _create(
        'ec2_route_associations',
        sa.Column('subnet_id', sa.String(36), primary_key=True), sa.Column('id', sa.String(36), nullable=False),
        sa.Column('route_table_id', sa.String(36), nullable=False),
        sa.UniqueConstraint('id', name='uniq_ec2_route_associations_id'),
        sa.Index('ix_ec2_route_associations_table', 'route_table_id'),
    )
    _create(
        'ec2_route_tables',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(64), nullable=False),
        sa.Column('vpc_id', sa.String(36), nullable=False), sa.Column('main_vpc_id', sa.String(36)),
        sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('main_vpc_id', name='uniq_ec2_route_tables_main'),
        sa.Index('ix_ec2_route_tables_project', 'project_id'), sa.Index('ix_ec2_route_tables_vpc', 'vpc_id'),
    )
    _create(
        'ec2_routes',
        sa.Column('route_table_id', sa.String(36), primary_key=True),
        sa.Column('destination', sa.String(18), primary_key=True),
        sa.Column('gateway_id', sa.String(36), nullable=False),
    )
    _create(
        'ec2_tags',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
        sa.Column('project_id', sa.String(64), nullable=False), sa.Column('resource_id', sa.Integer, nullable=False),
        sa.Column('key', sa.String(127), nullable=False), sa.Column('value', sa.String(255), nullable=False),
        sa.UniqueConstraint('project_id', 'resource_id', 'key', name='uniq_ec2_tags_key'),
    )
    _create(
        'ec2_vpc_groups',
        sa.Column('group_id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(64), nullable=False), sa.Column('vpc_id', sa.String(36), nullable=False),
        sa.Index('ix_ec2_vpc_groups_project', 'project_id'),
    )
    _create(
        'ec2_vpcs',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(64), nullable=False),
        sa.Column('cidr', sa.String(18), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('dhcp_options_id', sa.String(36)), sa.Index('ix_ec2_vpcs_project', 'project_id'),
    )
    _create(
        'flavor_projects',
        sa.Column('flavor_id', sa.String(255), primary_key=True),
        sa.Column('project_id', sa.String(255), primary_key=True),
    )
    _create(
        'flavors',
        sa.Column('id', sa.Integer, primary_key=True),
        sa.Column('flavor_id', sa.String(255), nullable=False, unique=True),
        sa.Column('name', sa.String(255), nullable=False, unique=True),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT),
        sa.Column('memory_mb', sa.Integer, nullable=False), sa.Column('vcpus', sa.Integer, nullable=False),
        sa.Column('root_gb', sa.Integer, nullable=False), sa.Column('ephemeral_gb', sa.Integer, nullable=False),
        sa.Column('swap', sa.Integer, nullable=False), sa.Column('rxtx_factor', sa.Float, nullable=False),
        sa.Column('is_public', sa.Boolean, nullable=False), sa.Column('disabled', sa.Boolean, nullable=False),
        sa.Column('description', sa.Text), sa.Column('extra_specs', LONG_TEXT, nullable=False),
    )
    _create(
        'floating_ips',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('floating_network_id', sa.String(36), nullable=False, index=True),
        sa.Column('floating_ip_address', sa.String(39), nullable=False, index=True),
        sa.Column('floating_port_id', sa.String(36), nullable=False, unique=True),
        sa.Column('port_id', sa.String(36), index=True), sa.Column('fixed_ip_address', sa.String(39)),
        sa.Column('router_id', sa.String(36), index=True), sa.Column('status', sa.String(16), nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
        sa.UniqueConstraint('port_id', 'fixed_ip_address', name='uq_floating_ips_fixed'),
    )
    _create(
        'host_mappings',
        sa.Column('host', sa.String(255), primary_key=True), sa.Column('cell_uuid', sa.String(36), nullable=False),
    )
    _create(
        'idempotency_keys',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('key_hash', sa.String(64), primary_key=True),
        sa.Column('request_hash', sa.String(64), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('attempted_at', MOMENT, nullable=False), sa.Column('answer', LONG_TEXT),
        sa.Index('ix_idempotency_keys_created', 'created_at'),
        sa.Index('ix_idempotency_keys_project', 'project_id', 'created_at'),
    )
    _create(
        'identity_application_credentials',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('user_id', sa.String(64), nullable=False),
        sa.Column('project_id', sa.String(64), nullable=False), sa.Column('name', sa.String(255), nullable=False),
        sa.Column('description', LONG_TEXT), sa.Column('secret_hash', sa.String(255), nullable=False),
        sa.Column('role_ids', LONG_TEXT, nullable=False), sa.Column('unrestricted', sa.Boolean, nullable=False),
        sa.Column('expires_at', MOMENT), sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('user_id', 'name', name='uniq_identity_application_credentials_name'),
    )
    _create(
        'identity_assignments',
        sa.Column('user_id', sa.String(64), primary_key=True),
        sa.Column('target_type', sa.String(16), primary_key=True),
        sa.Column('target_id', sa.String(64), primary_key=True),
        sa.Column('role_id', sa.String(64), primary_key=True),
        sa.Index('ix_identity_assignments_target', 'target_type', 'target_id'),
    )
    _create(
        'identity_credentials',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('user_id', sa.String(64), nullable=False, index=True),
        sa.Column('type', sa.String(16), nullable=False), sa.Column('encrypted_blob', sa.String(1024), nullable=False),
        sa.Column('project_id', sa.String(64)), sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'identity_passwords',
        sa.Column('id', sa.Integer, primary_key=True),
        sa.Column('user_id', sa.String(64), nullable=False, index=True),
        sa.Column('password_hash', sa.String(255), nullable=False),
    )
    _create(
        'identity_projects',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('domain_id', sa.String(64), nullable=False),
        sa.Column('name', sa.String(64), nullable=False), sa.Column('description', LONG_TEXT, nullable=False),
        sa.Column('enabled', sa.Boolean, nullable=False), sa.Column('tags', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_projects_name'),
    )
    _create(
        'identity_revoked_tokens',
        sa.Column('audit_id', sa.String(32), primary_key=True),
        sa.Column('expires_at', MOMENT, nullable=False, index=True),
    )
    _create(
        'identity_roles',
        sa.Column('id', sa.String(64), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False, unique=True), sa.Column('description', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'identity_users',
        sa.Column('id', sa.String(64), primary_key=True), sa.Column('domain_id', sa.String(64), nullable=False),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('description', LONG_TEXT),
        sa.Column('email', sa.String(255)), sa.Column('enabled', sa.Boolean, nullable=False),
        sa.Column('default_project_id', sa.String(64)), sa.Column('password_hash', sa.String(255)),
        sa.Column('password_expires_at', MOMENT), sa.Column('tokens_revoked_until', MOMENT),
        sa.Column('options', LONG_TEXT), sa.Column('totp_step', sa.BigInteger),
        sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('domain_id', 'name', name='uniq_identity_users_name'),
    )
    _create(
        'image_members',
        sa.Column('image_id', sa.String(36), primary_key=True), sa.Column('member', sa.String(255), primary_key=True),
        sa.Column('status', sa.String(16), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Index('ix_image_members_member', 'member', 'status'),
    )
    _create(
        'image_properties',
        sa.Column('id', sa.Integer, primary_key=True), sa.Column('image_id', sa.String(36), nullable=False),
        sa.Column('name', sa.String(255), nullable=False, index=True), sa.Column('value', LONG_TEXT),
        sa.Index('ix_image_properties_image', 'image_id'),
    )
    _create(
        'image_tags',
        sa.Column('id', sa.Integer, primary_key=True), sa.Column('image_id', sa.String(36), nullable=False),
        sa.Column('value', sa.String(255), nullable=False, index=True), sa.Index('ix_image_tags_image', 'image_id'),
    )
    _create(
        'image_tombstones',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('deleted_at', MOMENT, nullable=False),
    )
    _create(
        'images',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('name', sa.String(255), index=True),
        sa.Column('status', sa.String(16), nullable=False), sa.Column('visibility', sa.String(16), nullable=False),
        sa.Column('owner', sa.String(255)), sa.Column('protected', sa.Boolean, nullable=False),
        sa.Column('os_hidden', sa.Boolean, nullable=False), sa.Column('disk_format', sa.String(16)),
        sa.Column('container_format', sa.String(16)), sa.Column('min_disk', sa.Integer, nullable=False),
        sa.Column('min_ram', sa.Integer, nullable=False), sa.Column('size', sa.BigInteger),
        sa.Column('reserved', sa.BigInteger, nullable=False, server_default='0'),
        sa.Column('virtual_size', sa.BigInteger), sa.Column('checksum', sa.String(32)),
        sa.Column('os_hash_algo', sa.String(16)), sa.Column('os_hash_value', sa.String(128)),
        sa.Column('data_id', sa.String(36)), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Index('ix_images_created', 'created_at', 'id'),
        sa.Index('ix_images_owner', 'owner', 'visibility'),
    )
    _create(
        'instance_categories',
        sa.Column('id', sa.Integer, primary_key=True), sa.Column('uuid', sa.String(36), nullable=False, unique=True),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('description', sa.Text),
        sa.Column('image_id', sa.String(36)), sa.Column('flavor_id', sa.String(255)),
        sa.Column('requirements', LONG_TEXT, nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT), sa.Column('deleted_at', MOMENT),
        sa.Column('deleted', sa.Integer, nullable=False),
        sa.UniqueConstraint('name', 'deleted', name='uniq_instance_categories_name_deleted'),
    )
    _create(
        'instance_mappings',
        sa.Column('instance_uuid', sa.String(36), primary_key=True),
        sa.Column('cell_uuid', sa.String(36), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('vcpus', sa.Integer, nullable=False), sa.Column('memory_mb', sa.Integer, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('server_group_id', sa.String(36)),
        sa.Column('queued_for_delete', sa.Boolean, nullable=False, server_default=sa.text('false')),
        sa.Column('category', sa.String(255), nullable=False, server_default='regular'),
        sa.Column('move_id', sa.String(36)), sa.Index('ix_instance_mappings_cells', 'project_id', 'cell_uuid'),
        sa.Index('ix_instance_mappings_group', 'server_group_id'),
        sa.Index('ix_instance_mappings_project', 'project_id', 'queued_for_delete', 'vcpus', 'memory_mb'),
    )
    _create(
        'join_tokens',
        sa.Column('id', sa.String(16), primary_key=True), sa.Column('secret', sa.String(64), nullable=False),
        sa.Column('expires_at', MOMENT, nullable=False),
    )
    _create(
        'key_pairs',
        sa.Column('id', sa.Integer, primary_key=True), sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('type', sa.String(8), nullable=False),
        sa.Column('fingerprint', sa.String(255), nullable=False), sa.Column('public_key', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('user_id', 'name', name='uniq_key_pairs_user_name'),
    )
    _create(
        'message_keys',
        sa.Column('id', sa.String(40), primary_key=True),
        sa.Column('host', sa.String(255), nullable=False, index=True),
        sa.Column('public', sa.String(64), nullable=False), sa.Column('private', sa.String(64)),
        sa.Column('state', sa.String(16), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('expires_at', MOMENT), sa.Column('signed_by', sa.String(40)), sa.Column('key_signature', sa.String(128)),
        sa.Column('signatures_required', sa.Boolean, nullable=False, server_default=sa.text('false')),
    )
    _create(
        'metadata_keys',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('key', sa.String(64), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'network_hosts',
        sa.Column('host', sa.String(255), primary_key=True), sa.Column('address', sa.String(39), nullable=False),
        sa.Column('gateway', sa.Boolean, nullable=False), sa.Column('last_seen_at', MOMENT, nullable=False),
        sa.Column('version', sa.Integer, nullable=False, server_default='0'),
    )
    _create(
        'network_leases',
        sa.Column('subnet_id', sa.String(36), primary_key=True),
        sa.Column('number', sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column('address', sa.String(39), nullable=False, index=True),
        sa.Column('port_id', sa.String(36), nullable=False), sa.Column('mac_address', sa.String(17), nullable=False),
        sa.Column('host', sa.String(255), nullable=False), sa.Column('expires_at', MOMENT, nullable=False),
    )
    _create(
        'network_limits',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('resource', sa.String(64), primary_key=True), sa.Column('hard_limit', sa.Integer, nullable=False),
    )
    _create(
        'network_revisions',
        sa.Column('kind', sa.String(8), primary_key=True),
        sa.Column('shard', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('number', sa.BigInteger, nullable=False),
    )
    _create(
        'network_segments',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('network_id', sa.String(36), nullable=False, unique=True),
    )
    _create(
        'network_shares',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('network_id', sa.String(36), nullable=False),
        sa.Column('object_type', sa.String(16), nullable=False, server_default='network'),
        sa.Column('action', sa.String(32), nullable=False),
        sa.Column('target_project', sa.String(255), nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
        sa.UniqueConstraint('network_id', 'action', 'target_project', name='uq_network_shares'),
        sa.Index('ix_network_shares_target', 'target_project'),
    )
    _create(
        'network_tags',
        sa.Column('resource_id', sa.String(36), primary_key=True), sa.Column('tag', sa.String(255), primary_key=True),
    )
    _create(
        'network_vlans',
        sa.Column('physical_network', sa.String(255), primary_key=True),
        sa.Column('vlan', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('network_id', sa.String(36), nullable=False, unique=True),
    )
    _create(
        'networks',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False, index=True),
        sa.Column('shared', sa.Boolean, nullable=False), sa.Column('is_default', sa.Boolean, nullable=False),
        sa.Column('admin_state_up', sa.Boolean, nullable=False),
        sa.Column('bridge', sa.String(15), nullable=False, unique=True), sa.Column('mtu', sa.Integer, nullable=False),
        sa.Column('network_type', sa.String(16), nullable=False, server_default='flat'),
        sa.Column('physical_network', sa.String(255)),
        sa.Column('external', sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column('port_security_enabled', sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column('qos_policy_id', sa.String(36), index=True), sa.Column('zone_hints', LONG_TEXT),
        sa.Column('dns_domain', sa.String(255), nullable=False, server_default=''),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'port_forwardings',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('floating_ip_id', sa.String(36), nullable=False),
        sa.Column('protocol', sa.String(8), nullable=False), sa.Column('external_port', sa.Integer, nullable=False),
        sa.Column('internal_port_id', sa.String(36), nullable=False, index=True),
        sa.Column('internal_ip_address', sa.String(39), nullable=False),
        sa.Column('internal_port', sa.Integer, nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
        sa.UniqueConstraint('floating_ip_id', 'protocol', 'external_port', name='uq_port_forwardings'),
    )
    _create(
        'port_security_groups',
        sa.Column('port_id', sa.String(36), primary_key=True),
        sa.Column('security_group_id', sa.String(36), primary_key=True, index=True),
    )
    _create(
        'ports',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('network_id', sa.String(36), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False, index=True),
        sa.Column('mac_address', sa.String(17), nullable=False, unique=True),
        sa.Column('admin_state_up', sa.Boolean, nullable=False), sa.Column('status', sa.String(16), nullable=False),
        sa.Column('device_id', sa.String(255), nullable=False, index=True),
        sa.Column('device_owner', sa.String(255), nullable=False),
        sa.Column('host', sa.String(255), nullable=False, index=True),
        sa.Column('migrating_to', sa.String(255), nullable=False, server_default='', index=True),
        sa.Column('position', sa.Integer, nullable=False), sa.Column('tag', sa.String(60)),
        sa.Column('created_by_compute', sa.Boolean, nullable=False), sa.Column('attached_by', sa.String(255)),
        sa.Column('port_security_enabled', sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column('allowed_address_pairs', LONG_TEXT), sa.Column('extra_dhcp_opts', LONG_TEXT),
        sa.Column('dns_name', sa.String(63), nullable=False, server_default=''),
        sa.Column('qos_policy_id', sa.String(36), index=True),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'qos_markings',
        sa.Column('policy_id', sa.String(36), primary_key=True), sa.Column('id', sa.String(36), nullable=False),
        sa.Column('dscp_mark', sa.Integer, nullable=False),
    )
    _create(
        'qos_policies',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('shared', sa.Boolean, nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'qos_rules',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('policy_id', sa.String(36), nullable=False),
        sa.Column('direction', sa.String(8), nullable=False), sa.Column('max_kbps', sa.Integer, nullable=False),
        sa.Column('max_burst_kbps', sa.Integer, nullable=False),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
        sa.UniqueConstraint('policy_id', 'direction', name='uq_qos_rules'),
    )
    _create(
        'quota_classes',
        sa.Column('class_name', sa.String(255), primary_key=True),
        sa.Column('resource', sa.String(64), primary_key=True), sa.Column('hard_limit', sa.Integer, nullable=False),
    )
    _create(
        'quota_locks',
        sa.Column('project_id', sa.String(255), primary_key=True),
    )
    _create(
        'quotas',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('user_id', sa.String(255), primary_key=True),
        sa.Column('resource', sa.String(64), primary_key=True), sa.Column('hard_limit', sa.Integer, nullable=False),
    )
    _create(
        'rate_limits',
        sa.Column('owner', sa.String(255), primary_key=True), sa.Column('name', sa.String(32), primary_key=True),
        sa.Column('full_at', sa.BigInteger, nullable=False, index=True),
    )
    _create(
        'request_specs',
        sa.Column('instance_uuid', sa.String(36), primary_key=True), sa.Column('spec', LONG_TEXT, nullable=False),
    )
    _create(
        'router_interfaces',
        sa.Column('router_id', sa.String(36), primary_key=True),
        sa.Column('subnet_id', sa.String(36), primary_key=True, index=True),
        sa.Column('port_id', sa.String(36), nullable=False, index=True),
    )
    _create(
        'routers',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False, index=True),
        sa.Column('admin_state_up', sa.Boolean, nullable=False),
        sa.Column('external_network_id', sa.String(36), index=True),
        sa.Column('enable_snat', sa.Boolean, nullable=False), sa.Column('routes', LONG_TEXT, nullable=False),
        sa.Column('host', sa.String(255), nullable=False), sa.Column('zone_hints', LONG_TEXT),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'security_group_rules',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('security_group_id', sa.String(36), nullable=False, index=True),
        sa.Column('direction', sa.String(8), nullable=False), sa.Column('ethertype', sa.String(4), nullable=False),
        sa.Column('protocol', sa.String(40)), sa.Column('port_range_min', sa.Integer),
        sa.Column('port_range_max', sa.Integer), sa.Column('remote_ip_prefix', sa.String(43)),
        sa.Column('remote_group_id', sa.String(36), index=True),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'security_groups',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('description', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False),
        sa.Index('ix_security_groups_project_name', 'project_id', 'name'),
    )
    _create(
        'server_groups',
        sa.Column('id', sa.Integer, primary_key=True), sa.Column('uuid', sa.String(36), nullable=False, unique=True),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('policy', sa.String(255), nullable=False),
        sa.Column('rules', LONG_TEXT, nullable=False), sa.Column('metadata', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False), sa.Index('ix_server_groups_project', 'project_id'),
    )
    _create(
        'subnet_pools',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False), sa.Column('shared', sa.Boolean, nullable=False),
        sa.Column('ip_version', sa.Integer, nullable=False), sa.Column('default_ip_version', sa.Integer, unique=True),
        sa.Column('prefixes', LONG_TEXT, nullable=False), sa.Column('default_prefixlen', sa.Integer, nullable=False),
        sa.Column('min_prefixlen', sa.Integer, nullable=False),
        sa.Column('max_prefixlen', sa.Integer, nullable=False), sa.Column('default_quota', sa.Integer),
        sa.Column('description', sa.String(255), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'subnets',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('network_id', sa.String(36), nullable=False, index=True),
        sa.Column('name', sa.String(255), nullable=False, index=True),
        sa.Column('cidr', sa.String(43), nullable=False), sa.Column('subnetpool_id', sa.String(36), index=True),
        sa.Column('ipv6_ra_mode', sa.String(20)), sa.Column('ipv6_address_mode', sa.String(20)),
        sa.Column('ip_version', sa.Integer, nullable=False), sa.Column('gateway_ip', sa.String(39)),
        sa.Column('enable_dhcp', sa.Boolean, nullable=False),
        sa.Column('allocation_pools', LONG_TEXT, nullable=False),
        sa.Column('dns_nameservers', LONG_TEXT, nullable=False), sa.Column('host_routes', LONG_TEXT, nullable=False),
        sa.Column('service_types', LONG_TEXT), sa.Column('description', sa.String(255), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False),
    )
    _create(
        'volume_attachments',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('instance_uuid', sa.String(36), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('status', sa.String(32), nullable=False),
        sa.Column('device', sa.String(255)), sa.Column('connector', LONG_TEXT),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('attached_at', MOMENT),
        sa.Index('ix_volume_attachments_instance', 'instance_uuid'),
        sa.Index('ix_volume_attachments_volume', 'volume_id'),
    )
    _create(
        'volume_backups',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('snapshot_id', sa.String(36)), sa.Column('temporary', sa.Boolean, nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('user_id', sa.String(255)),
        sa.Column('name', sa.String(255)), sa.Column('description', sa.String(255)),
        sa.Column('size', sa.Integer, nullable=False), sa.Column('status', sa.String(32), nullable=False),
        sa.Column('bootable', sa.Boolean, nullable=False), sa.Column('metadata', LONG_TEXT, nullable=False),
        sa.Column('image_metadata', LONG_TEXT, nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('key_id', sa.String(36)),
        sa.Index('ix_volume_backups_key', 'key_id'),
        sa.Index('ix_volume_backups_project_created', 'project_id', 'created_at', 'id'),
        sa.Index('ix_volume_backups_volume', 'volume_id'),
    )
    _create(
        'volume_encryption_keys',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('type_id', sa.String(36), nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('encryption_key_id', sa.String(16), nullable=False),
        sa.Column('encrypted_key', sa.String(255), nullable=False),
    )
    _create(
        'volume_snapshots',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('user_id', sa.String(255)),
        sa.Column('name', sa.String(255)), sa.Column('description', sa.String(255)),
        sa.Column('size', sa.Integer, nullable=False), sa.Column('status', sa.String(32), nullable=False),
        sa.Column('bootable', sa.Boolean, nullable=False), sa.Column('metadata', LONG_TEXT, nullable=False),
        sa.Column('image_metadata', LONG_TEXT, nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Column('key_id', sa.String(36)),
        sa.Index('ix_volume_snapshots_key', 'key_id'),
        sa.Index('ix_volume_snapshots_project_created', 'project_id', 'created_at', 'id'),
        sa.Index('ix_volume_snapshots_volume', 'volume_id'),
    )
    _create(
        'volume_transfers',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('volume_id', sa.String(36), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False), sa.Column('name', sa.String(255)),
        sa.Column('key_hash', sa.String(64), nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.UniqueConstraint('volume_id', name='uniq_volume_transfers_volume'),
        sa.Index('ix_volume_transfers_project_created', 'project_id', 'created_at', 'id'),
    )
    _create(
        'volume_type_projects',
        sa.Column('type_id', sa.String(36), primary_key=True),
        sa.Column('project_id', sa.String(255), primary_key=True), sa.Column('created_at', MOMENT, nullable=False),
    )
    _create(
        'volume_types',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False, unique=True), sa.Column('description', sa.String(255)),
        sa.Column('extra_specs', LONG_TEXT, nullable=False), sa.Column('encryption', LONG_TEXT),
        sa.Column('is_public', sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
    )
    _create(
        'volumes',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('user_id', sa.String(255)), sa.Column('name', sa.String(255)),
        sa.Column('description', sa.String(255)), sa.Column('size', sa.Integer, nullable=False),
        sa.Column('status', sa.String(32), nullable=False), sa.Column('bootable', sa.Boolean, nullable=False),
        sa.Column('multiattach', sa.Boolean, nullable=False),
        sa.Column('volume_type', sa.String(255), nullable=False),
        sa.Column('availability_zone', sa.String(255), nullable=False), sa.Column('image_id', sa.String(36)),
        sa.Column('snapshot_id', sa.String(36)), sa.Column('source_volume_id', sa.String(36)),
        sa.Column('backup_id', sa.String(36)), sa.Column('key_id', sa.String(36)),
        sa.Column('readonly', sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column('metadata', LONG_TEXT, nullable=False), sa.Column('image_metadata', LONG_TEXT, nullable=False),
        sa.Column('created_at', MOMENT, nullable=False), sa.Column('updated_at', MOMENT, nullable=False),
        sa.Index('ix_volumes_key', 'key_id'),
        sa.Index('ix_volumes_project_created', 'project_id', 'created_at', 'id'),
    )
    _create(
        'vpns',
        sa.Column('project_id', sa.String(64), primary_key=True), sa.Column('public_address', sa.String(45)),
        sa.Column('public_port', sa.Integer), sa.Column('started_at', MOMENT),
    )
