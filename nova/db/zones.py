"""The zones of a cell's compute hosts: what the aggregates say, written into the rows that everybody reads.

The schedulers follow these rows by change number, so that a zone reaches them without a query of its own.
"""
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db.tables_cell import compute_nodes
from nova.db.tables_cell import instances
from nova.db.tables_cell import migrations
from nova.db.tables_cell import services

_COMPUTE = services.c.topic == 'compute'


def of(conn, hosts=None):
    """{host: zone} of the compute services.

    :param hosts: only of these; None: of all
    """
    statement = sa.select(services.c.host, services.c.availability_zone).where(_COMPUTE)
    if hosts is not None:
        statement = statement.where(services.c.host.in_(hosts))
    return {host: zone for host, zone in conn.execute(statement)}


def move(conn, wanted):
    """Put hosts into the zones {host: zone}; those of other cells are left alone.

    The nodes are locked first, which every claim needs: no server can arrive between the look and the write.

    :raises HostHasServers: a host with servers would change its zone; the caller's transaction must end
    """
    changing = _changing(conn, wanted)
    if not changing:
        return
    conn.execute(sa.select(compute_nodes.c.id).where(compute_nodes.c.host.in_(list(changing)))
                 .order_by(compute_nodes.c.id).with_for_update())
    for column in (instances.c.host, migrations.c.held_host):        # servers, and those on their way
        busy = sa.select(column).where(column.in_(list(changing))).limit(1)
        found = conn.execute(busy).scalar()
        if found is not None:
            raise exception.HostHasServers(host=found)
    _write(conn, changing)


def mend(conn, wanted):
    """Write the zones {host: zone} where the rows say another one, also of servers; {host: zone} of those hosts."""
    changing = _changing(conn, wanted)
    _write(conn, changing)
    for zone, hosts in _by_zone(changing).items():
        conn.execute(sa.update(instances).where(instances.c.host.in_(hosts)).values(availability_zone=zone))
    return changing


def current(host):
    """The zone of a host as a value in a statement: what is written is true, whatever a scheduler believes."""
    return sa.select(services.c.availability_zone).where(services.c.host == host, _COMPUTE).scalar_subquery()


def _changing(conn, wanted):
    present = of(conn, list(wanted))
    return {host: zone for host, zone in wanted.items() if present.get(host, zone) != zone}


def _by_zone(changing):
    found = {}
    for host, zone in changing.items():
        found.setdefault(zone, []).append(host)
    return found


def _write(conn, changing):
    for zone, hosts in _by_zone(changing).items():
        conn.execute(sa.update(services).where(services.c.host.in_(hosts), _COMPUTE)
                     .values(availability_zone=zone))
        conn.execute(sa.update(compute_nodes).where(compute_nodes.c.host.in_(hosts))
                     .values(changed=utils.change_number()))
