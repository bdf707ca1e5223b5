"""nova-manage vm list, live-migration, service: servers and services as stored in the databases."""
from __future__ import annotations

import re
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import tables
from nova.cmd.manage import api_calls

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.cells import cells as db_cells
    from nova.json_types import JsonDocument

_EC2_ID = re.compile(r'i-([0-9a-f]{17}|[0-9a-f]{8})')
_HOST = {'metavar': 'HOST', 'help': 'name of the host, as in service list'}
_BINARY = {'metavar': 'SERVICE', 'help': 'name of the service, such as nova-compute'}
BROKER_TIMEOUT_S = 5                  # seconds for the broker to accept the notifications


# ---- vm ----------------------------------------------------------------------

def list_servers(conf: cfg.ConfigOpts, host: str | None) -> int:
    """List all servers, or those of one host. Exit code 1: a cell is down."""
    from nova.cloud import assembly
    from nova.db.servers import instances
    columns = ('display_name', 'uuid', 'node', 'flavor', 'vm_state', 'launched_at', 'image_id', 'kernel_id',
               'ramdisk_id', 'project_id', 'user_id', 'availability_zone', 'launch_index')
    _api_db, cells = assembly.checked_databases(conf)
    found, down = cells.read(lambda conn: instances.columns_of(conn, columns, host))
    tables.print_table(
        ('Instance', 'UUID', 'Node', 'Type', 'State', 'Launched', 'Image', 'Kernel', 'Ramdisk', 'Project', 'User',
         'Zone', 'Index'),
        [(row[0], row[1], row[2], row[3].get('name'), row[4], row[5] and utils.isotime(row[5]), *row[6:])
         for _cell, listed in found for row in listed])
    return 1 if down else 0


def live_migrate(conf: cfg.ConfigOpts, server: str, host: str) -> None:
    """Move a running server to another host, as the API's os-migrateLive does and with all its checks."""
    uuid = _act(conf, server, {'os-migrateLive': {'host': host, 'block_migration': 'auto'}})
    print(f'Migration of {uuid} initiated. Check its progress with: openstack server migration list --server {uuid}')


def evacuate(conf: cfg.ConfigOpts, server: str, host: str | None, accept_risk: str | None) -> None:
    """Evacuate a server from a host that is down, as the API's evacuate does and with all its checks."""
    values = {'host': host, 'accepted_risk': accept_risk}
    uuid = _act(conf, server, {'evacuate': {name: value for name, value in values.items() if value is not None}})
    print(f'Evacuation of {uuid} initiated. To see the result: openstack server event list {uuid}')


def _act(conf: cfg.ConfigOpts, server: str, wanted: dict[str, Any]) -> str:
    """Run an action of a server through the API; return the server's uuid."""
    return post(conf, server, 'action', wanted)[0]


def post(conf: cfg.ConfigOpts, server: str, part: str, body: JsonDocument, microversion: str = 'latest'
         ) -> tuple[str, Any, str | None]:
    """Send POST /servers/UUID/part to the API, in this process or in a running nova-all.

    :param server: see ``find``
    :returns: (uuid, JSON document of the response or None, CA file of nova-all or None)
    """
    with api_calls.opened(conf) as (application, api_db, cells):
        uuid, project_id = find(api_db, cells, server)
        path = f'/servers/{uuid}/{part}'
        if application is None:
            return uuid, *api_calls.ask_all_in_one(conf, path, body, microversion)
        return uuid, api_calls.ask(application, project_id, 'POST', path, body, microversion), None


def find(api_db: engine.Database, cells: db_cells.Cells, name: str) -> tuple[str, str]:
    """Return (uuid, project_id) of a server by its uuid or its EC2 id of 17 or 8 digits.

    :raises InstanceNotFound: no cell has it
    """
    from nova.db.ec2 import ids
    from nova.db.servers import instances
    found = _EC2_ID.fullmatch(name)
    known = ids.uuids(api_db, 'i', [found[1]]) if found else {}
    uuid = next(iter(known.values())) if known else name.lower()
    for cell in cells.all():
        with cell.db.reader() as conn:
            row = instances.owner_of(conn, uuid)
        if row is not None:
            return row.uuid, row.project_id
    raise exception.InstanceNotFound(instance_id=name)


# ---- service -----------------------------------------------------------------

def enable(conf: cfg.ConfigOpts, host: str, binary: str) -> None:
    """Enable a service for new work."""
    _set_disabled(conf, host, binary, False)


def disable(conf: cfg.ConfigOpts, host: str, binary: str) -> None:
    """Disable a service for new work. Its present work continues."""
    _set_disabled(conf, host, binary, True)


def _set_disabled(conf: cfg.ConfigOpts, host: str, binary: str, value: bool) -> None:
    from nova import context
    from nova import notify
    from nova.cloud import assembly
    from nova.db.services import services
    _api_db, cells = assembly.checked_databases(conf)
    notifier: Any = notify.new(conf)
    for cell in cells.all():
        with cell.db.reader() as conn:
            rows = services.list(conn, host=host, binary=binary)
        if rows:
            row = cell.db.run(services.update, rows[0]['id'], {'disabled': value, 'disabled_reason': None})
            if notifier.on:
                notifier.publish(context.admin_context(), 'service.update', None, row, host, binary)
            notifier.stop(BROKER_TIMEOUT_S)
            return
    raise exception.ServiceNotFound(service_id=f'{binary} on {host}')


def describe_resource(conf: cfg.ConfigOpts, host: str) -> None:
    """Show what a compute host has, what its servers use, and what each project uses there."""
    from nova.cloud import assembly
    from nova.db.placement import compute_nodes
    from nova.db.placement import hosts
    _api_db, cells = assembly.checked_databases(conf)
    rows = []
    for cell in cells.all():
        with cell.db.reader() as conn:
            nodes, used = compute_nodes.by_host(conn, host), hosts.usage_by_project(conn, host)
        for node in nodes:
            rows.append((node['node'], '(total)', node['vcpus'], node['memory_mb'], node['local_gb']))
            rows.append((node['node'], '(used now)', node['vcpus_used'], node['memory_mb_used'], node['local_gb_used']))
        rows += [(host, *row.values()) for row in used]
    if not rows:
        raise exception.ComputeHostNotFound(host=host)
    tables.print_table(('Host', 'Project', 'VCPUs', 'Memory (MB)', 'Disk (GB)'), rows)


COMMANDS = {'enable': enable, 'disable': disable, 'describe_resource': describe_resource}
OPTIONS = {
    list_servers: {'host': {'metavar': 'HOST', 'nargs': '?', 'help': 'list only servers on this host'}},
    live_migrate: {'server': {'metavar': 'SERVER', 'help': 'uuid of the server, or its EC2 id (i- and 17 or 8 '
                                                           'digits)'},
                   'host': {'metavar': 'HOST', 'help': 'destination host, as in service list'}},
    evacuate: {'server': {'metavar': 'SERVER', 'help': 'uuid of the server, or its EC2 id (i- and 17 or 8 digits)'},
               'host': {'metavar': 'HOST', 'nargs': '?', 'help': 'destination host (default: the scheduler chooses)'},
               '--accept-risk': {'choices': ('two-writers',), 'help': 'start the server although the former host '
                                                                      'may still write to its disks, which would '
                                                                      'destroy its file systems'}},
    enable: {'host': _HOST, 'binary': _BINARY},
    disable: {'host': _HOST, 'binary': _BINARY},
    describe_resource: {'host': _HOST},
}
