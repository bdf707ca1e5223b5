"""nova-manage vm adopt: libvirt guests without a server become servers.

The command inspects the guest and creates the server. The compute service of the host takes over the guest in
its build task, see ADR 0022.
"""
from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import tables
from nova.cmd.command_line import flag
from nova.runtime import system_modules

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.api import app
    from nova.db.cells import cells as db_cells
    from nova.json_types import JsonDocument
    from nova.virt.libvirt.features import adopted

REFUSED, NOTHING_DONE, UNFINISHED = 1, 3, 4          # exit codes
BUS = 'nova-inprocess:///adoption'       # no service receives from it; the conductor's reconciler starts the build
WAIT_S = 300                             # seconds to wait for the compute service
POLL_S = 0.5


def adopt(conf: cfg.ConfigOpts, guest: str, host: str | None, project: str, user: str, image: str, flavor: str | None,
          name: str | None, network: list[str] | None, port: list[str] | None, connection: str | None,
          yes: bool) -> int:
    """Show how a guest of a host would become a server, and with --yes let it become one."""
    from nova import policy
    from nova.api import app
    from nova.cloud import apis
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    host = host or conf.host
    found, refusals = look(connection or conf.libvirt.connection_uri, guest)
    api_db, cells = assembly.checked_databases(conf)
    refusals += _known(cells, host, found.uuid)
    fits = flavor or f'adopted-{found.vcpus}-{found.memory_mb}-{found.root_gb}'
    _show(found, host, project, user, image, fits, name or found.name, network, port, refusals)
    if refusals:
        return REFUSED
    if not yes:
        print('Nothing was changed. Run the command with --yes to adopt the guest.')
        return NOTHING_DONE
    bus = rpc_bus.Bus(conf, BUS)
    try:
        services = apis.api_services(conf, bus, api_db, cells, assembly.images(conf, api_db), policy.Policies(conf))
        application = app.Application(services)
        if flavor is None:
            _make_flavor(application, project, fits, found)
        _create(application, project, user, found, {
            'name': name or found.name, 'imageRef': image, 'flavorRef': fits, 'availability_zone': f':{host}',
            'networks': [*({'uuid': each} for each in network or ()), *({'port': each} for each in port or ())]
            or 'none'})
    finally:
        bus.close()
    return _await(cells, found.uuid)


def look(uri: str, guest: str) -> tuple[adopted.Found, list[str]]:
    """Return (adopted.Found, [reasons against an adoption]) of a libvirt guest.

    :raises InvalidInput: libvirt does not answer, or has no such guest
    """
    system_modules.use()
    import libvirt

    from nova.virt.libvirt import calls
    from nova.virt.libvirt.features import adopted

    libvirt.registerErrorHandler(lambda *_: None, None)
    try:
        opened = libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise exception.InvalidInput(reason=f'libvirt at {uri} does not answer: {error.get_error_message()}') from None
    try:
        domain = next((each for each in opened.listAllDomains() if guest in (each.UUIDString(), each.name())), None)
        if domain is None:
            raise exception.InvalidInput(reason=f'libvirt at {uri} has no guest {guest}.')
        text, why = calls.described(domain)

        def size(path: str, form: str) -> int:
            return adopted.size(path, form) if os.path.exists(path) else domain.blockInfo(path)[0]
        found = adopted.read(text, size)
        return found, ([why] if why else []) + found.refusals
    except libvirt.libvirtError as error:
        raise exception.InvalidInput(reason=f'libvirt at {uri}: {error.get_error_message()}') from None
    finally:
        opened.close()


def _known(cells: db_cells.Cells, host: str, uuid: str) -> list[str]:
    """Return the reasons why, according to the databases, the host cannot adopt the guest."""
    from nova.db.placement import compute_nodes
    from nova.db.servers import listing
    able, why = False, []
    for cell in cells.all():
        with cell.db.reader() as conn:
            able = able or any((compute_nodes.capabilities_of(conn, host, node['node']) or {}).get('adoption')
                               for node in compute_nodes.by_host(conn, host))
            if listing.by_uuid(conn, uuid) or listing.by_uuid(conn, uuid, deleted=True):
                why.append('a server with this uuid exists or existed')
    return why if able else [*why, f'{host} is not a compute host whose driver can adopt guests']


def _show(found: adopted.Found, host: str, project: str, user: str, image: str, flavor: str, name: str,
          network: list[str] | None, port: list[str] | None, refusals: list[str]) -> None:
    rows = [('Guest', f'{found.name} ({found.uuid})'), ('Server', f'{name} of project {project}, user {user}'),
            ('Host', host), ('Flavor', f'{flavor} ({found.vcpus} vCPUs, {found.memory_mb} MiB, {found.root_gb} GiB)'),
            ('Image', image)]
    rows += [('Disk', f'{disk.file} ({disk.format}): the file is not moved, and is deleted with the server')
             for disk in found.disks]
    wanted = [*(network or ()), *(port or ())]
    rows.append(('Networks', ('after its next start: ' + ', '.join(wanted)) if wanted else 'none managed by Nova'))
    rows += [('Device', f'{mac} keeps its connection until the guest is restarted') for mac in found.macs]
    rows += [('Loses', f'{what}, after the guest is restarted') for what in found.lost]
    rows.append(('Console', 'its console log and display are available after the guest is restarted'))
    rows += [('Refused', why) for why in refusals]
    tables.print_table(('What', 'How'), rows)


def _make_flavor(application: app.Application, project: str, name: str, found: adopted.Found) -> None:
    """Create a private flavor of the guest's size, unless a flavor has this name."""
    from nova.cmd.manage import api_calls as inner
    try:
        inner.ask(application, project, 'POST', '/flavors', {'flavor': {
            'id': name, 'name': name, 'vcpus': found.vcpus, 'ram': found.memory_mb, 'disk': found.root_gb,
            'os-flavor-access:is_public': False}})
    except exception.NovaException:
        inner.ask(application, project, 'GET', f'/flavors/{name}', None)


def _create(application: app.Application, project: str, user: str, found: adopted.Found,
            server: JsonDocument) -> None:
    from nova.api import request
    from nova.cmd.manage import api_calls as inner
    inner.ask(application, project, 'POST', '/servers', {'server': server}, user=user, **{request.ADOPTS: found.uuid})


def _await(cells: db_cells.Cells, uuid: str) -> int:
    """Start the build immediately, and wait for the adoption. Return 0, REFUSED, or UNFINISHED after WAIT_S."""
    from nova.db.servers import instance_actions
    from nova.db.servers import listing
    reported, deadline = set(), time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for cell in cells.all():             # all cells: the build moves the row to the cell of the host
            with cell.db.reader() as conn:
                row = listing.by_uuid(conn, uuid)
            if row is None:
                continue
            if row['vm_state'] != 'building':
                told_why = ((row['fault'] or {}).get('details') or '').strip().splitlines()
                print(f'Server {uuid} is {row["vm_state"]}.' + (f' {told_why[-1].strip()}' if told_why else ''))
                return REFUSED if row['vm_state'] == 'error' else 0
            if cell.uuid not in reported:
                reported.add(cell.uuid)
                cell.db.run(instance_actions.expedite, utils.utcnow(), (uuid,))
        time.sleep(POLL_S)
    print(f'Server {uuid} still waits for its host. The adoption continues without this command.')
    return UNFINISHED


_MANY = {'action': 'append', 'metavar': 'ID'}
COMMANDS = {'adopt': adopt}
OPTIONS = {adopt: {
    'guest': {'metavar': 'GUEST', 'help': 'uuid of the guest, or its name in libvirt'},
    '--host': {'metavar': 'HOST', 'help': 'compute host of the guest, as in service list (default: this host)'},
    '--project': {'metavar': 'ID', 'required': True, 'help': 'project that will own the server'},
    '--user': {'metavar': 'ID', 'required': True, 'help': 'user that will own the server'},
    '--image': {'metavar': 'ID', 'required': True,
                'help': 'image of the server: its properties apply, and a rebuild uses it'},
    '--flavor': {'metavar': 'ID', 'help': 'flavor with the vCPUs and memory of the guest (default: create one)'},
    '--name': {'metavar': 'NAME', 'help': 'name of the server (default: the name of the guest)'},
    '--network': {**_MANY, 'help': 'network in which the server gets a port; may be repeated'},
    '--port': {**_MANY, 'help': 'existing port, with the MAC address of the guest, for the server; may be repeated'},
    '--connection': {'metavar': 'URI', 'help': 'URI of libvirt (default: [libvirt] connection_uri); '
                                               'qemu+ssh://HOST/system from another machine'},
    '--yes': flag('adopt the guest (default: only show what would change)'),
}}
EXIT_CODES = {adopt: {REFUSED: 'the guest cannot be adopted, or the adoption failed',
                      NOTHING_DONE: 'nothing was changed',
                      UNFINISHED: f'the host has not adopted the guest within {WAIT_S} s; the adoption continues'}}
