"""Limits and usage of networks in the words of the compute API, which showed them until 2.35 (classes until 2.49).

The network service sets and enforces them: the compute API shows them, and cannot change them.
"""
from __future__ import annotations

from oslo_config.cfg import ConfigOpts

from nova.db.engine import Connection
from nova.network import quotas

# key of the compute API -> name in [network] quota
NAMES = {'fixed_ips': None, 'floating_ips': 'floatingip', 'security_groups': 'security_group',
         'security_group_rules': 'security_group_rule'}


def limit(conf: ConfigOpts, key: str) -> int:
    """The limit of a project; -1: no limit, or one that a Networking service has; 0: the service does not offer it."""
    if conf.network.backend != 'embedded':
        return -1
    name = NAMES[key]
    if name is not None and name not in quotas.COUNTED:
        return conf.network.quota.get(name, 0)
    return quotas.limit(conf, name)


def limits(conf: ConfigOpts) -> dict[str, int]:
    """{key: limit}."""
    return {key: limit(conf, key) for key in NAMES}


def usage(conn: Connection, project_id: str) -> dict[str, int]:
    """{key: number in use} of a project."""
    return {key: quotas.used(conn, name or 'port', project_id) if name in (None, *quotas.COUNTED) else 0
            for key, name in NAMES.items()}
