"""Quotas of networks, ports, groups, rules and other network resources."""
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Table
from nova.db.networks import limits
from nova.db.networks import networks
from nova.db.projects import quotas
from nova.db.tables import network as t

COUNTED: dict[str, Table] = {
    'network': t.networks, 'subnet': t.subnets, 'port': t.ports, 'security_group': t.security_groups,
    'security_group_rule': t.security_group_rules, 'router': t.routers, 'floatingip': t.floating_ips,
    'rbac_policy': t.shares, 'subnetpool': t.subnet_pools, 'trunk': t.trunks, 'dns_domain': t.dns_domains,
    'dns_entry': t.dns_entries}


def limit(conf: ConfigOpts, name: str | None, own: dict[str, int] | None = None) -> int:
    """Return a project's limit; -1: unlimited.

    :param own: {name: limit} set for the project; the defaults are in [network] quota
    """
    return (own or {}).get(name or '', conf.network.quota.get(name, -1))


def used(conn: Connection, name: str, project_id: str) -> int:
    """Return how many resources of a kind (a key of COUNTED) a project has."""
    return networks.count(conn, COUNTED[name], project_id)


def check(conn: Connection, conf: ConfigOpts, name: str, project_id: str, adding: int = 1) -> None:
    """Check the quota. Other requests of the project wait until the transaction ends.

    Call this function before any read without a lock, because that read would fix the snapshot of later reads.

    :raises QuotaExceeded:
    """
    quotas.lock(conn, project_id)
    check_unlocked(conn, conf, name, project_id, adding)


def check_unlocked(conn: Connection, conf: ConfigOpts, name: str, project_id: str, adding: int) -> None:
    """Check the quota. Concurrent requests may use the same room.

    :raises QuotaExceeded:
    """
    left = limits.left(conn, name, COUNTED[name], project_id, limit(conf, name))
    if left is not None and left < adding:
        allowed = limit(conf, name, limits.of(conn, project_id))
        plural = f'{name[:-1]}ies' if name.endswith('y') else f'{name}s'
        raise exception.QuotaExceeded(resource=plural, requested=adding, used=allowed - left, limit=allowed)
