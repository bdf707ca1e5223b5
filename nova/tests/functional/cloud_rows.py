"""Services, nodes and servers of a small deployment, as rows."""
import datetime
import uuid

import sqlalchemy as sa

from nova import utils
from nova.db.tables import cell as tables_cell
from nova.tests import server_rows


def service(conn, host, binary='nova-compute', zone='nova', seen_s=1, **values):
    """A service heard of ``seen_s`` seconds ago; its uuid."""
    now = utils.utcnow()
    row = {'uuid': str(uuid.uuid4()), 'host': host, 'binary': binary, 'topic': binary.removeprefix('nova-'),
           'availability_zone': zone, 'version': 1, 'created_at': now, 'updated_at': None, 'disabled': False,
           'last_seen_at': now - datetime.timedelta(seconds=seen_s), 'disabled_reason': None,
           'forced_down': False, **values}
    conn.execute(sa.insert(tables_cell.services).values(row))
    return row['uuid']


def stop(conn, host):
    """The services of a host stopped an hour ago."""
    conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == host).values(
        last_seen_at=utils.utcnow() - datetime.timedelta(hours=1)))


def node(conn, host, name=None, **values):
    """A compute node of 8 CPUs, 16 GiB and 100 GiB, half of it used; its uuid."""
    now = utils.utcnow()
    row = {'uuid': str(uuid.uuid4()), 'host': host, 'node': name or host, 'created_at': now, 'updated_at': now,
           'change_number': utils.change_number(), 'hypervisor_type': 'QEMU', 'hypervisor_version': 7002000,
           'host_ip': '192.0.2.1', 'cpu_info': {'arch': 'x86_64'}, 'vcpus': 8, 'memory_mb': 16384, 'local_gb': 100,
           'cpu_allocation_ratio': 4.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0,
           'vcpus_used': 4, 'memory_mb_used': 8192, 'local_gb_used': 50, 'running_vms': 2,
           'disk_available_least': 40, 'capabilities': {}, 'supported_instances': [], 'uptime': None, **values}
    conn.execute(sa.insert(tables_cell.compute_nodes).values(row))
    return row['uuid']


def server(conn, host, number=0, **values):
    """A server on a host's node of the same name; its uuid."""
    row = server_rows.row(number, host=host, node=host, **values)
    server_rows.insert(conn, [row])
    return row['uuid']
