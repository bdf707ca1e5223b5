"""Tables of a cell's database: servers and their related rows, services, compute nodes."""
from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.tables import rows

metadata = sa.MetaData()


def cell_table(name: str, *columns: sa.schema.SchemaItem) -> types.Table[Any]:
    return types.Table(name, metadata, *columns, **types.TABLE_OPTIONS)


def _instance_columns() -> list[sa.Column[Any]]:
    """Return the columns of servers: all data that the API shows, so that showing a server takes one SELECT.

    ``instances_history`` has equal columns; deleting a server moves its row there.
    """
    return [*_state_columns(), *_given_columns(), *_found_columns()]


def _state_columns() -> list[sa.Column[Any]]:
    text = sa.String(255)
    return [
        sa.Column('id', types.Number, primary_key=True),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('project_id', text, nullable=False),
        sa.Column('user_id', text, nullable=False),
        sa.Column('created_at', types.DateTime, nullable=False),
        sa.Column('updated_at', types.DateTime, nullable=False),
        sa.Column('launched_at', types.DateTime),
        sa.Column('terminated_at', types.DateTime),
        sa.Column('deleted_at', types.DateTime),
        # states
        sa.Column('vm_state', sa.String(32), nullable=False),
        sa.Column('task_state', sa.String(32)),
        sa.Column('power_state', sa.Integer, nullable=False, default=0),
        sa.Column('progress', sa.Integer, nullable=False, default=0),
        sa.Column('locked', sa.Boolean, nullable=False, default=False),
        sa.Column('locked_by', sa.String(16)),               # 'owner' or 'admin'
        sa.Column('locked_reason', text),
        # place
        sa.Column('host', text),
        sa.Column('node', text),
        # incremented when ``host`` changes; the new host stores it in its record of the guest (compute/records.py)
        sa.Column('generation', sa.Integer, nullable=False, default=0, server_default='0'),
        sa.Column('availability_zone', text),
        sa.Column('pinned_availability_zone', text),
    ]


def _given_columns() -> list[sa.Column[Any]]:
    """Return the columns with values that the user has given."""
    text = sa.String(255)
    return [
        sa.Column('display_name', text, nullable=False),
        sa.Column('description', text),
        sa.Column('hostname', text, nullable=False),
        sa.Column('reservation_id', text, nullable=False),
        sa.Column('launch_index', sa.Integer, nullable=False, default=0),
        sa.Column('image_id', sa.String(36)),                # NULL: boots from a volume
        sa.Column('kernel_id', sa.String(36)),
        sa.Column('ramdisk_id', sa.String(36)),
        sa.Column('root_device_name', text),
        sa.Column('key_name', text),
        sa.Column('key_data', types.LongText),
        sa.Column('user_data', types.LongText),              # base64 as received
        sa.Column('config_drive', sa.Boolean, nullable=False, default=False),
        sa.Column('access_ip_v4', sa.String(39)),
        sa.Column('access_ip_v6', sa.String(39)),
        sa.Column('disk_config', sa.String(8), nullable=False, default='MANUAL'),
        sa.Column('trusted_certs', types.Json),              # list of certificate ids
        sa.Column('scheduler_hints', types.Json),
        sa.Column('metadata', types.Json, nullable=False),   # {key: value}
        sa.Column('tags', sa.Text, nullable=False, default=''),   # ',a,b,'; a tag cannot contain a comma
        # the flavor at the time of creation or of the last resize
        sa.Column('flavor_id', text, nullable=False),        # the id in the API
        sa.Column('flavor', types.Json, nullable=False),     # objects.flavor.Flavor
        sa.Column('vcpus', sa.Integer, nullable=False),
        sa.Column('memory_mb', sa.Integer, nullable=False),
        sa.Column('root_gb', sa.Integer, nullable=False),
        sa.Column('ephemeral_gb', sa.Integer, nullable=False),
    ]


def _found_columns() -> list[sa.Column[Any]]:
    """Return the columns with values that services determine."""
    return [
        sa.Column('image_properties', types.Json, nullable=False),     # properties of the server's image
        sa.Column('network_info', types.Json, nullable=False),         # list of VIFs: nova/objects/network_info.py
        sa.Column('security_groups', types.Json, nullable=False),      # list of names
        sa.Column('volumes', types.Json, nullable=False),              # [{id, delete_on_termination}]
        sa.Column('system_metadata', types.Json, nullable=False),
        sa.Column('fault', types.Json),                      # {code, message, details, created}
        sa.Column('server_group_id', sa.String(36)),
        sa.Column('category', sa.String(255), nullable=False, default='regular'),
        # GuestTopology (objects.numa): as placed on the host, or as requested if the server has no host; NULL: none
        sa.Column('numa_topology', types.LongText),
        # OUTGOING or INCOMING during a transfer to another cell; see db/moves/cell_steps.py
        sa.Column('cell_move', sa.String(8)),
    ]


instances: types.Table[rows.InstancesRow] = cell_table(
    'instances', *_instance_columns(),
    sa.UniqueConstraint('uuid', name='uniq_instances_uuid'),
    sa.Index('ix_instances_project_created', 'project_id', 'created_at', 'id'),
    sa.Index('ix_instances_created', 'created_at', 'id'),
    sa.Index('ix_instances_updated', 'updated_at'),
    sa.Index('ix_instances_host', 'host', 'node'),
    sa.Index('ix_instances_task_state', 'task_state'),
    sa.Index('ix_instances_reservation', 'reservation_id'),
    sa.Index('ix_instances_server_group', 'server_group_id'),
)

instances_history = cell_table(
    'instances_history', *_instance_columns(),
    sa.Index('ix_instances_history_uuid', 'uuid'),
    sa.Index('ix_instances_history_project_updated', 'project_id', 'updated_at'),
    sa.Index('ix_instances_history_deleted', 'deleted_at'),
)

# One row for each request that acts on a server. An open row (finished_at NULL) is a task in progress, with its owner,
# deadline and arguments. Therefore a task survives the loss of its message.
instance_actions: types.Table[rows.InstanceActionsRow] = cell_table(
    'instance_actions',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('action', sa.String(255), nullable=False),
    sa.Column('request_id', sa.String(255), nullable=False),
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('started_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('finished_at', types.DateTime),
    sa.Column('message', sa.String(255)),
    sa.Column('owner', sa.String(255)),                      # the service that runs the task, such as 'compute:host1'
    sa.Column('deadline', types.DateTime),                   # time after which a reconciler may take over the task
    sa.Column('arguments', types.Json),                      # arguments for a repetition
    sa.Index('ix_instance_actions_instance', 'instance_uuid', 'started_at'),
    sa.Index('ix_instance_actions_request', 'instance_uuid', 'request_id'),
    sa.Index('ix_instance_actions_open', 'finished_at', 'deadline'),
)

instance_action_events: types.Table[rows.InstanceActionEventsRow] = cell_table(
    'instance_action_events',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('action_id', sa.BigInteger, nullable=False),
    sa.Column('event', sa.String(255), nullable=False),
    sa.Column('started_at', types.DateTime, nullable=False),
    sa.Column('finished_at', types.DateTime),
    sa.Column('result', sa.String(255)),                     # 'Success' or 'Error'
    sa.Column('details', types.LongText),                    # for the user
    sa.Column('traceback', types.LongText),                  # for administrators
    sa.Column('host', sa.String(255)),
    sa.Index('ix_instance_action_events_action', 'action_id'),
)

# One row for each move of a server to another host or flavor. The row holds a claim on a second node, in addition to
# the claim of the server's row. Before the swap (``claims_swapped``) the second node is the destination, afterwards the
# source. The claim ends when the move is confirmed, reverted or finished. Without a claim, claimed_host is NULL. See
# db/moves/migrations.py.
migrations: types.Table[rows.MigrationsRow] = cell_table(
    'migrations',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('project_id', sa.String(255), nullable=False),     # project of the caller
    sa.Column('user_id', sa.String(255), nullable=False),
    sa.Column('migration_type', sa.String(16), nullable=False),  # resize, migration, live-migration, evacuation
    sa.Column('status', sa.String(32), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('request_id', sa.String(255)),
    sa.Column('arguments', types.Json, nullable=False),      # data for continuing the move
    sa.Column('claims_swapped', sa.Boolean, nullable=False, default=False),
    # source and destination
    sa.Column('source_compute', sa.String(255)),
    sa.Column('source_node', sa.String(255)),
    sa.Column('dest_compute', sa.String(255)),
    sa.Column('dest_node', sa.String(255)),
    sa.Column('dest_host', sa.String(255)),                  # address of the destination
    sa.Column('old_flavor', types.Json, nullable=False),     # in the form of instances.flavor
    sa.Column('new_flavor', types.Json, nullable=False),
    # progress of a live migration in bytes
    *(sa.Column(f'{what}_{part}_bytes', sa.BigInteger) for what in ('memory', 'disk')
      for part in ('total', 'processed', 'remaining')),
    # claim on the second node
    sa.Column('claimed_host', sa.String(255)),
    sa.Column('claimed_node', sa.String(255)),
    sa.Column('claimed_vcpus', sa.Integer, nullable=False, default=0),
    sa.Column('claimed_memory_mb', sa.Integer, nullable=False, default=0),
    sa.Column('claimed_local_gb', sa.Integer, nullable=False, default=0),
    sa.Column('claimed_numa_topology', types.LongText),         # in the form of instances.numa_topology
    sa.Index('ix_migrations_instance', 'instance_uuid', 'id'),
    sa.Index('ix_migrations_status', 'status', 'updated_at'),
    sa.Index('ix_migrations_claimed', 'claimed_host', 'claimed_node'),
    sa.Index('ix_migrations_created', 'created_at', 'id'),
    sa.Index('ix_migrations_updated', 'updated_at'),
)

block_device_mappings: types.Table[rows.BlockDeviceMappingsRow] = cell_table(
    'block_device_mappings',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('source_type', sa.String(16), nullable=False),       # image, volume, snapshot, blank
    sa.Column('destination_type', sa.String(16), nullable=False),  # local, volume
    sa.Column('device_name', sa.String(255)),
    sa.Column('device_type', sa.String(16)),
    sa.Column('disk_bus', sa.String(16)),
    sa.Column('guest_format', sa.String(16)),
    sa.Column('boot_index', sa.Integer),
    sa.Column('image_id', sa.String(36)),
    sa.Column('volume_id', sa.String(36)),
    sa.Column('snapshot_id', sa.String(36)),
    sa.Column('volume_size', sa.Integer),                    # GiB
    sa.Column('volume_type', sa.String(255)),
    sa.Column('attachment_id', sa.String(36)),
    sa.Column('connection_info', types.Json),
    sa.Column('delete_on_termination', sa.Boolean, nullable=False, default=False),
    sa.Column('tag', sa.String(60)),
    sa.Index('ix_block_device_mappings_instance', 'instance_uuid'),
    sa.Index('ix_block_device_mappings_volume', 'volume_id'),
)

# Differences between guests and rows of servers, as reported by hosts. There is one row for each server, host and kind
# of difference until the difference is resolved. See nova/differences.py.
guest_reports: types.Table[rows.GuestReportsRow] = cell_table(
    'guest_reports',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('kind', sa.String(16), nullable=False),
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    sa.Column('power_state', sa.Integer, nullable=False, default=0),
    sa.Column('server', types.Json, nullable=False),         # fields of objects.Instance in the host's record
    sa.Column('volumes', types.Json, nullable=False),        # {volume id: {'attachment_id', 'device_name'}}
    sa.Column('reported_at', types.DateTime, nullable=False),
    # whether the database is corrected; then the row remains until the host has plugged the interfaces and volumes
    sa.Column('resolved', sa.Boolean, nullable=False, default=False),
    sa.UniqueConstraint('host', 'instance_uuid', 'kind', name='uniq_guest_reports_host_instance_kind'),
)

# usage of servers and compute nodes over time (nova/objects/counter_rings.py); rows are deleted with their owners
counter_rings: types.Table[Any] = cell_table(
    'counter_rings',
    sa.Column('owner_uuid', sa.String(36), primary_key=True),        # uuid of the server or compute node
    sa.Column('step', sa.Integer, primary_key=True, autoincrement=False),        # length of a slot in seconds
    sa.Column('data', sa.LargeBinary, nullable=False),
)

# shared file systems that servers mount
share_mappings: types.Table[rows.ShareMappingsRow] = cell_table(
    'share_mappings',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('share_id', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('status', sa.String(16), nullable=False),      # attaching, attached, detaching, error
    sa.Column('tag', sa.String(255), nullable=False),        # mount tag in the guest
    sa.Column('export_location', sa.Text),
    sa.Column('protocol', sa.String(16)),
    sa.UniqueConstraint('instance_uuid', 'share_id', name='uniq_share_mappings_instance_share'),
)

# keys of encrypted disks, written by conductor/servers/disk_keys.py; a key is deleted with its server
disk_keys: types.Table[rows.DiskKeysRow] = cell_table(
    'disk_keys',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('encryption_key_id', sa.String(16), nullable=False),   # name of the deployment key that encrypts this key
    sa.Column('encrypted_key', sa.String(255), nullable=False),
)

# keys of encrypted volumes of servers; the keys are encrypted like disk_keys
volume_keys: types.Table[rows.VolumeKeysRow] = cell_table(
    'volume_keys',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('volume_id', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('encryption_key_id', sa.String(16), nullable=False),
    sa.Column('encrypted_key', sa.Text, nullable=False),
    sa.UniqueConstraint('instance_uuid', 'volume_id', name='uniq_volume_keys_instance_volume'),
)

services: types.Table[rows.ServicesRow] = cell_table(
    'services',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('binary', sa.String(64), nullable=False),      # nova-compute, …
    sa.Column('topic', sa.String(64), nullable=False),
    sa.Column('availability_zone', sa.String(255), nullable=False),
    sa.Column('version', sa.Integer, nullable=False, default=0),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime),
    sa.Column('last_seen_at', types.DateTime),               # heartbeat
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('disabled_reason', sa.String(255)),
    sa.Column('forced_down', sa.Boolean, nullable=False, default=False),
    sa.Column('identity', sa.String(36)),                    # identity of the host that owns the service name, or NULL
    # aggregates of a compute service's host, sorted by id: [{id, uuid, name, metadata}]; the metadata include the zone
    sa.Column('aggregates', types.SharedList),
    sa.UniqueConstraint('host', 'binary', name='uniq_services_host_binary'),
)

# Capacities of nodes, and their usage by claims. Schedulers read the rows with new change numbers. Claims set
# ``usage_change_number`` when they change vcpus_used, memory_mb_used, local_gb_used and running_vms. Changes of other
# columns set ``change_number``. See ``utils.change_number``.
compute_nodes: types.Table[rows.ComputeNodesRow] = cell_table(
    'compute_nodes',
    sa.Column('id', sa.Integer, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('node', sa.String(255), nullable=False),       # hypervisor_hostname
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('change_number', sa.BigInteger, nullable=False),
    sa.Column('usage_change_number', sa.BigInteger, nullable=False, default=0, server_default='0'),
    sa.Column('hypervisor_type', sa.String(64), nullable=False),
    sa.Column('hypervisor_version', sa.Integer, nullable=False),
    sa.Column('host_ip', sa.String(39)),
    sa.Column('cpu_info', types.Shared),
    sa.Column('vcpus', sa.Integer, nullable=False),
    sa.Column('memory_mb', sa.Integer, nullable=False),
    sa.Column('local_gb', sa.Integer, nullable=False),
    sa.Column('reserved_memory_mb', sa.Integer, nullable=False, default=0),
    sa.Column('reserved_disk_gb', sa.Integer, nullable=False, default=0),
    sa.Column('cpu_allocation_ratio', types.Float, nullable=False),
    sa.Column('ram_allocation_ratio', types.Float, nullable=False),
    sa.Column('disk_allocation_ratio', types.Float, nullable=False),
    sa.Column('vcpus_used', sa.Integer, nullable=False, default=0),
    sa.Column('memory_mb_used', sa.Integer, nullable=False, default=0),
    sa.Column('local_gb_used', sa.Integer, nullable=False, default=0),
    sa.Column('running_vms', sa.Integer, nullable=False, default=0),
    sa.Column('disk_available_least', sa.Integer),           # GiB that are free on the disk
    sa.Column('capabilities', types.Shared, nullable=False),   # {feature: whether the driver supports it}
    sa.Column('supported_instances', types.Shared, nullable=False),  # [[arch, hypervisor type, vm mode]]
    sa.Column('traits', types.SharedList),                   # sorted names
    # [{name, value, source, timestamp}], or NULL without monitors
    sa.Column('metrics', types.Json),
    sa.Column('failed_builds', sa.Integer, nullable=False, default=0, server_default='0'),   # since the last success
    sa.Column('uptime', sa.String(255)),
    # pools (objects.pci.Pool) of the available devices, or NULL
    sa.Column('pci_stats', types.Shared),
    sa.Column('numa_topology', types.LongText),              # HostTopology (objects.numa), including the claims
    sa.Column('numa_change_number', sa.BigInteger),          # change number of numa_topology
    sa.UniqueConstraint('host', 'node', name='uniq_compute_nodes_host_node'),
    sa.Index('ix_compute_nodes_change_number', 'change_number'),
    sa.Index('ix_compute_nodes_numa_change_number', 'numa_change_number'),
    sa.Index('ix_compute_nodes_usage_change_number', 'usage_change_number'),
)

# Transfers of servers to another cell, which take some milliseconds. Source and destination cell have a row each. The
# conductor finishes interrupted transfers or rolls them back
cell_moves: types.Table[rows.CellMovesRow] = cell_table(
    'cell_moves',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('move_id', sa.String(36), nullable=False),
    sa.Column('other_cell', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    # in the source cell: the rows of the server as they were first copied to the other cell
    sa.Column('base', types.Json),
)

# usage audits: one row for each host and period; the primary key prevents concurrent audits of one period
task_log: types.Table[rows.TaskLogRow] = cell_table(
    'task_log',
    sa.Column('host', sa.String(255), primary_key=True),
    sa.Column('period_beginning', types.DateTime, primary_key=True),
    sa.Column('period_ending', types.DateTime, primary_key=True),
    sa.Column('state', sa.String(16), nullable=False),               # RUNNING, DONE
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('task_items', sa.Integer, nullable=False, default=0),  # number of servers
    sa.Column('errors', sa.Integer, nullable=False, default=0),
    sa.Column('message', sa.String(255), nullable=False),
    sa.Index('ix_task_log_period', 'period_beginning', 'period_ending'),
)

# console tokens, stored only as hashes
console_auth_tokens: types.Table[rows.ConsoleAuthTokensRow] = cell_table(
    'console_auth_tokens',
    sa.Column('token_hash', sa.String(64), primary_key=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('console_type', sa.String(16), nullable=False),
    sa.Column('instance_host', sa.String(255), nullable=False),      # the server's host, updated by a live migration
    sa.Column('host', sa.String(255)),                               # address to which the proxy connects
    sa.Column('port', sa.Integer, nullable=False),
    sa.Column('tls_port', sa.Integer),
    sa.Column('internal_access_path', sa.String(255)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('expires_at', types.DateTime, nullable=False),
    # project of the requesting user, for the audit of sessions
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('secret', sa.String(255)),  # password of the console, encrypted with the token
    sa.Column('user_token_id', sa.String(64)),                       # the console token expires with this user token
    sa.Column('user_token_expires_at', types.DateTime),
    sa.Column('user_claims', sa.Text),                               # claims of the user token; see tokens.text_of
    # NULL: no session was opened since the creation of the console token or the last move of the server
    sa.Column('session_expires_at', types.DateTime),
    sa.Index('ix_console_auth_tokens_instance', 'instance_uuid'),
    sa.Index('ix_console_auth_tokens_expires', 'expires_at'))

# the last maintenance of each host; db/moves/maintenance.py describes statuses and transitions
host_maintenances: types.Table[rows.HostMaintenancesRow] = cell_table(
    'host_maintenances',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('host', sa.String(255), nullable=False, unique=True),
    # aggregate (in the API database) with the destination hosts of the servers
    sa.Column('aggregate_id', sa.Integer, nullable=False),
    sa.Column('status', sa.String(16), nullable=False),
    sa.Column('message', types.LongText),                    # sentence about failures
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('stopped_at', types.DateTime),
    # time when a conductor next processes the maintenance, or NULL if no work is left
    sa.Column('next_check_at', types.DateTime),
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Index('ix_host_maintenances_next_check_at', 'next_check_at'),
    sa.Index('ix_host_maintenances_aggregate', 'aggregate_id'),
)

# servers of a maintenance: the planned move of each server and its result
host_maintenance_servers: types.Table[rows.HostMaintenanceServersRow] = cell_table(
    'host_maintenance_servers',
    sa.Column('maintenance_id', types.Number, primary_key=True, autoincrement=False),
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('direction', sa.String(4), nullable=False),    # away or back
    sa.Column('state', sa.String(8), nullable=False),
    sa.Column('migration_id', types.Number),                      # the server's last move
    sa.Column('dest', sa.String(255)),                       # destination of the move
    sa.Column('reason', types.LongText),                     # reason of a failure
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_host_maintenance_servers_state', 'maintenance_id', 'state'),
)

# One row for each assignable device of a host; see objects.pci.Device. If ``claimed_by_move`` is true, the device
# belongs to the claim of a move (migrations.claimed_host), not to the server's own claim.
pci_devices: types.Table[rows.PciDevicesRow] = cell_table(
    'pci_devices',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('node', sa.String(255), nullable=False),
    sa.Column('address', sa.String(16), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('vendor_id', sa.String(4), nullable=False),
    sa.Column('product_id', sa.String(4), nullable=False),
    sa.Column('dev_type', sa.String(8), nullable=False),     # objects.pci.TYPES
    sa.Column('numa_node', sa.Integer),
    sa.Column('parent_addr', sa.String(16)),                 # address of a virtual function's physical function
    sa.Column('devname', sa.String(255)),                    # name of the network interface
    sa.Column('tags', types.Json, nullable=False),           # from the host's configuration
    sa.Column('status', sa.String(16), nullable=False),      # available, claimed, unavailable, removed
    sa.Column('instance_uuid', sa.String(36)),
    sa.Column('request_id', sa.String(36)),                  # port that requested the device
    sa.Column('claimed_by_move', sa.Boolean, nullable=False, default=False),
    sa.UniqueConstraint('host', 'node', 'address', name='uniq_pci_devices_node_address'),
    sa.Index('ix_pci_devices_instance', 'instance_uuid'))

# one row for each server group, locked while a host is chosen for a member, to serialize claims of members
group_locks = cell_table(
    'group_locks',
    sa.Column('group_uuid', sa.String(36), primary_key=True),
)

# requests to prefetch images on hosts, and their results
image_cache_tasks: types.Table[rows.ImageCacheTasksRow] = cell_table(
    'image_cache_tasks',
    sa.Column('id', types.Number, primary_key=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('image_id', sa.String(36), nullable=False),
    sa.Column('request_id', sa.String(255), nullable=False),
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('deadline', types.DateTime, nullable=False),   # time of the next attempt
    sa.Column('state', sa.String(8), nullable=False, default='waiting', server_default='waiting'),
    sa.Column('reason', types.LongText),                     # reason of a failure
    sa.Column('finished_at', types.DateTime),
    sa.UniqueConstraint('host', 'image_id', name='uniq_image_cache_tasks_host_image'),
    sa.Index('ix_image_cache_tasks_deadline', 'deadline'),
)
