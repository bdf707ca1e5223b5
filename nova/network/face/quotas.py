"""How many networks, ports, groups and rules a project may have."""
from nova import exception
from nova.network import quotas
from nova.network.face import faults

# known to clients, not offered by this service
ABSENT = ('floatingip', 'router', 'rbac_policy', 'subnetpool')


def limits(conf):
    """{resource: limit}; -1: no limit."""
    return {**{name: quotas.limit(conf, name) for name in quotas.COUNTED}, **dict.fromkeys(ABSENT, 0)}


def check(conn, conf, name, project_id, adding=1):
    """Refuse what would exceed the quota; the project's other requests wait until the transaction ends.

    :raises OverQuota:
    """
    try:
        quotas.check(conn, conf, name, project_id, adding)
    except exception.QuotaExceeded:
        raise faults.OverQuota(resource=name) from None


def details(conn, conf, project_id):
    return {name: {'limit': limit, 'reserved': 0,
                   'used': quotas.used(conn, name, project_id) if name in quotas.COUNTED else 0}
            for name, limit in limits(conf).items()}
