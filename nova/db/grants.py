"""Database privileges that nova-network needs, and the GRANT statements for its account.

nova-network runs on hosts of guests: with a fully privileged account, a guest that escapes would control the cloud.
"""
import dataclasses

import sqlalchemy as sa

from nova.db.servers import block_devices
from nova.db.services import message_keys

READ, WRITE, CHANGE = ('SELECT',), ('SELECT', 'INSERT', 'UPDATE', 'DELETE'), ('SELECT', 'UPDATE')
API, CELL = 'api', 'cell'


@dataclasses.dataclass(frozen=True)
class Grant:
    """A privilege on a table.

    database    API or CELL
    table       its name
    privileges  SQL privileges
    columns     columns that the account may read and write, or None for all
    """

    database: str
    table: str
    privileges: tuple[str, ...]
    columns: tuple[str, ...] | None = None


NETWORK = (
    Grant(API, 'alembic_version', READ),
    Grant(API, 'alembic_contract_version', READ),
    Grant(API, 'cells', READ),
    Grant(API, 'host_mappings', READ),  # for the check whether a host of an older release belongs to this cloud
    Grant(API, 'instance_mappings', READ),               # for the check whether ports may be removed
    Grant(API, 'request_specs', READ),                   # files to inject; hosts where builds have failed
    Grant(API, 'metadata_keys', ('SELECT', 'INSERT')),
    Grant(API, 'message_keys', READ, tuple(column.name for column in message_keys.PUBLIC)),
    *(Grant(API, table, WRITE) for table in ('ports', 'addresses', 'port_security_groups')),
    *(Grant(API, table, CHANGE) for table in ('networks', 'subnets')),           # row locks require UPDATE
    # for the hosts of routers and addresses, and the removal of ports
    *(Grant(API, table, CHANGE) for table in ('routers', 'floating_ips')),
    *(Grant(API, table, READ) for table in ('router_interfaces', 'router_conntrack_helpers', 'network_segments',
                                            'network_vlans', 'network_shares', 'network_limits', 'dns_domains',
                                            'dns_entries')),
    *(Grant(API, table, READ) for table in ('subnet_pools', 'trunks', 'trunk_subports',     # address scopes, trunks
                                            'address_groups')),                             # rules of security groups
    *(Grant(API, table, ('SELECT', 'DELETE')) for table in ('port_forwardings', 'network_tags')),
    # limits and guarantees of ports, DSCP marks
    *(Grant(API, table, READ) for table in ('qos_rules', 'qos_minimums', 'qos_markings')),
    Grant(API, 'default_security_group_rules', READ),    # to create the rules of a project's first group
    Grant(API, 'network_hosts', WRITE),
    Grant(API, 'network_leases', WRITE),
    Grant(API, 'network_revisions', ('SELECT', 'INSERT', 'UPDATE')),
    *(Grant(API, table, ('SELECT', 'INSERT', 'UPDATE')) for table in (
        'security_groups', 'default_security_groups', 'security_group_rules')),      # to create a project's first group
    Grant(API, 'quota_locks', ('SELECT', 'INSERT', 'UPDATE')),
    Grant(CELL, 'alembic_version', READ),
    Grant(CELL, 'alembic_contract_version', READ),
    Grant(CELL, 'services', READ),
    Grant(CELL, 'migrations', READ),
    Grant(CELL, 'instance_actions', READ),
    Grant(CELL, 'instances', READ),                      # metadata of guests
    Grant(CELL, 'block_device_mappings', READ, ('id', 'instance_uuid', *block_devices.OF_METADATA)),
    Grant(CELL, 'instances', ('UPDATE',), ('system_metadata', 'updated_at')),        # the password that a guest posts
)


def statements(conn: sa.Connection, database: str, account: str) -> list[str]:
    """Return the GRANT statements of NETWORK in one database. On MariaDB the statements may run in any database.

    :param conn: a connection to the database
    :param database: API or CELL
    :param account: in the server's notation: ``nova_network@'10.0.0.%'``
    """
    there = set(sa.inspect(conn).get_table_names())
    place = f'{_name(conn)}.' if conn.dialect.name == 'mysql' else ''
    return [f'GRANT {_privileges(grant)} ON {place}{grant.table} TO {account};' for grant in NETWORK
            if grant.database == database and grant.table in there]


def script(conn: sa.Connection, database: str, account: str) -> list[str]:
    """Return a script with ``statements`` for the server's command line client, which may be connected to another
    database.

    psql must connect to the database first, because PostgreSQL cannot name tables of other databases.
    """
    first = [f'\\connect {_name(conn)}'] if conn.dialect.name == 'postgresql' else []
    return [*first, *statements(conn, database, account)]


def _name(conn: sa.Connection) -> str:
    return conn.dialect.identifier_preparer.quote_identifier(conn.engine.url.database or '')


def _privileges(grant: Grant) -> str:
    columns = f' ({", ".join(grant.columns)})' if grant.columns else ''
    return ', '.join(privilege + columns for privilege in grant.privileges)
