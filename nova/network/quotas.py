"""How many networks, ports, groups and rules a project may have."""
from __future__ import annotations

from oslo_config.cfg import ConfigOpts
from sqlalchemy import Connection

from nova import exception
from nova.db.networks import networks
from nova.db.projects import quotas
from nova.db.tables import network as t

COUNTED = {'network': t.networks, 'subnet': t.subnets, 'port': t.ports, 'security_group': t.security_groups,
           'security_group_rule': t.security_group_rules}


def limit(conf: ConfigOpts, name: str | None) -> int:
    """What [network] quota allows a project; -1: no limit."""
    return conf.network.quota.get(name, -1)


def used(conn: Connection, name: str, project_id: str) -> int:
    """How many of a kind a project has."""
    return networks.count(conn, COUNTED[name], project_id)


def check(conn: Connection, conf: ConfigOpts, name: str, project_id: str, adding: int = 1) -> None:
    """Refuse what would exceed the quota; the project's other requests wait until the transaction ends.

    Call it before the transaction reads anything without a lock: a database may show later reads that moment.

    :raises QuotaExceeded:
    """
    allowed = limit(conf, name)
    if allowed < 0:
        return
    quotas.lock(conn, project_id)
    count = used(conn, name, project_id)
    if count + adding > allowed:
        raise exception.QuotaExceeded(resource=name + 's', requested=adding, used=count, limit=allowed)
