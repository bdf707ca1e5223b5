"""How many networks, ports, groups and rules a project may have."""
import sqlalchemy as sa

from nova.db import tables_network as t
from nova.embedded.network import faults
from nova.embedded.network import resource

COUNTED = {'network': t.networks, 'subnet': t.subnets, 'port': t.ports, 'security_group': t.security_groups,
           'security_group_rule': t.security_group_rules}
# known to clients, not offered by this service
ABSENT = ('floatingip', 'router', 'rbac_policy', 'subnetpool')


def limits(conf):
    """{resource: limit}; -1: no limit."""
    return {**{name: conf.network.quota.get(name, -1) for name in COUNTED}, **dict.fromkeys(ABSENT, 0)}


def used(conn, name, project_id):
    table = COUNTED[name]
    return conn.execute(sa.select(sa.func.count()).select_from(table).where(
        table.c.project_id == project_id)).scalar()


def check(conn, conf, name, project_id, adding=1):
    """Refuse what would exceed the quota; the project's other requests wait until the transaction ends.

    :raises OverQuota:
    """
    limit = limits(conf)[name]
    if limit >= 0:
        resource.lock_project(conn, project_id)
        if used(conn, name, project_id) + adding > limit:
            raise faults.OverQuota(resource=name)


def details(conn, conf, project_id):
    return {
        name: {'limit': limit, 'used': used(conn, name, project_id) if name in COUNTED else 0, 'reserved': 0}
        for name, limit in limits(conf).items()
    }
