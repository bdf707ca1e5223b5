"""Guest operations: changePassword, trigger_crash_dump, injectNetworkInfo, diagnostics, screenshot, stored password,
NUMA topology.
"""

from nova import actions
from nova.api import request as api_request
from nova.api import shapes
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db import engine
from nova.db.servers import instances
from nova.json_types import JsonDocument
from nova.objects import numa
from nova.objects.instance import POSTED_PASSWORD
from nova.virt import driver
from nova.web import fields
from nova.web.params import Object
from nova.web.params import Param
from nova.web.routes import Route

DIAGNOSTICS = 'os_compute_api:os-server-diagnostics'
SCREENSHOT = 'nova:os-console-screenshot'
PASSWORD_SHOW = 'os_compute_api:os-server-password:show'
PASSWORD_CLEAR = 'os_compute_api:os-server-password:clear'
TOPOLOGY = 'compute:server:topology:index'
TOPOLOGY_OF_HOST = 'compute:server:topology:host:index'

CHANGE_PASSWORD = Object(Param('adminPass', server_schemas.PASSWORD, required=True))


# ---- actions -----------------------------------------------------------------

def change_password(req: api_request.Request, id: str) -> None:
    server_actions.run(req, id, actions.ACTIONS['changePassword'],
                       admin_password=req.body['changePassword']['adminPass'])


# ---- diagnostics -------------------------------------------------------------

_STANDARD = ('state', 'hypervisor', 'hypervisor_os', 'uptime', 'cpu_details', 'disk_details', 'nic_details',
             'memory_details')


def diagnostics(req: api_request.Request, server_id: str) -> JsonDocument:
    row, facts = server_actions.ask_host(req, server_id, DIAGNOSTICS, 'diagnostics', 'get_diagnostics')
    if not req.has('standard_diagnostics'):
        return free_form(facts)
    # always 'libvirt', because the API reference lists no driver name for this product
    return {**{name: facts[name] for name in _STANDARD}, 'driver': 'libvirt',
            'config_drive': bool(row['config_drive']), 'num_cpus': len(facts['cpu_details']),
            'num_disks': len(facts['disk_details']), 'num_nics': len(facts['nic_details'])}


def free_form(facts: driver.GuestDiagnostics) -> JsonDocument:
    """Convert diagnostics to the format before 2.48, with the field names of libvirt's driver."""
    shown: dict[str, str | int | None] = {
        f'cpu{number}_time': cpu['time'] for number, cpu in enumerate(facts['cpu_details'])}
    for number, disk in enumerate(facts['disk_details']):
        name = 'vd' + chr(ord('a') + number % 26)
        shown.update({f'{name}_read': disk['read_bytes'], f'{name}_read_req': disk['read_requests'],
                      f'{name}_write': disk['write_bytes'], f'{name}_write_req': disk['write_requests'],
                      f'{name}_errors': disk['errors_count']})
    for number, nic in enumerate(facts['nic_details']):
        for direction in ('rx', 'tx'):
            shown.update({f'vnet{number}_{direction}': nic[f'{direction}_octets'],
                          **{f'vnet{number}_{direction}_{what}': nic[f'{direction}_{what}'] for what in (
                              'packets', 'errors', 'drop')}})
    for number, guests in enumerate(facts.get('guest_interfaces', ())):        # reported by the guest agent
        shown.update({f'guest{number}_{what}': guests[what] for what in ('name', 'mac_address')})
        shown[f'guest{number}_addresses'] = ' '.join(guests['addresses'])
    memory = facts['memory_details']
    for name, value in (('memory', memory['maximum']), ('memory-used', memory['used'])):
        if value is not None:
            shown[name] = value * 1024          # KiB
    return shown


# ---- screenshot --------------------------------------------------------------

def screenshot(req: api_request.Request, server_id: str) -> JsonDocument:
    """Return a screenshot: JPEG in base64."""
    _row, shown = server_actions.ask_host(req, server_id, SCREENSHOT, 'screenshots', 'get_console_screenshot')
    return {'screenshot': shown}


# ---- password stored by the guest --------------------------------------------

def show_password(req: api_request.Request, server_id: str) -> JsonDocument:
    row = server_lookup.get(req, server_id, PASSWORD_SHOW)
    return {'password': row['system_metadata'].get(POSTED_PASSWORD, '')}


def clear_password(req: api_request.Request, server_id: str) -> None:
    """Clear the stored password; the guest may store another one."""
    cell = server_lookup.cell_of(req, server_id)
    cell.db.run(_clear, req, server_id)


def _clear(conn: engine.Connection, req: api_request.Request, server_id: str) -> None:
    server_lookup.locked_row(req, conn, server_id, PASSWORD_CLEAR)
    instances.update(conn, server_id, instances.merged(conn, server_id, {'system_metadata': {POSTED_PASSWORD: None}}))


# ---- topology ----------------------------------------------------------------

NODE = fields.Fields(
    fields.Field('vcpu_set', 'vcpu_set', type=shapes.VCPU_SET),
    fields.Field('siblings', 'siblings', type=shapes.SIBLINGS),
    fields.Field('memory_mb', 'memory_mb', type='integer required'),
    fields.Field('host_node', lambda node, view: node.get('host_node', fields.ABSENT), optional=True,
                 rule=TOPOLOGY_OF_HOST, type='integer'),
    fields.Field('cpu_pinning', lambda node, view: node.get('cpu_pinning', fields.ABSENT), optional=True,
                 rule=TOPOLOGY_OF_HOST, type=shapes.CPU_PINNING),
)


def topology(req: api_request.Request, server_id: str) -> JsonDocument:
    """Return the NUMA nodes of the guest; administrators also see their placement. Empty without NUMA topology."""
    row = server_lookup.get(req, server_id, TOPOLOGY)
    if row['numa_topology'] is None:
        return {'nodes': [], 'pagesize_kb': None}
    found = numa.shown(numa.load_guest(row['numa_topology']), placed=row['host'] is not None)
    build = NODE.builder(req, target=server_lookup.target(row))
    return {**found, 'nodes': [build(node) for node in found['nodes']]}


# ---- routes ------------------------------------------------------------------

_SERVER = '/servers/{server_id}'
ROUTES = (
    server_actions.route('changePassword', change_password, (CHANGE_PASSWORD, 1, None),
                         errors=(400, 401, 403, 404, 409, 501)),
    server_actions.route('trigger_crash_dump', server_actions.plain('trigger_crash_dump'),
                         ({'type': 'null'}, 17, None), since=17),
    server_actions.route('injectNetworkInfo', server_actions.plain('injectNetworkInfo'), errors=(401, 403, 404, 409)),
    Route('GET', _SERVER + '/diagnostics', diagnostics, policy=DIAGNOSTICS, query=server_schemas.NOTHING,
          errors=(400, 401, 403, 404, 409, 501)),
    Route('GET', _SERVER + '/os-console-screenshot', screenshot, policy=SCREENSHOT, query=server_schemas.NOTHING,
          errors=(400, 401, 403, 404, 409, 501)),
    Route('GET', _SERVER + '/os-server-password', show_password, policy=PASSWORD_SHOW,
          query=server_schemas.NOTHING, errors=(401, 403, 404)),
    Route('DELETE', _SERVER + '/os-server-password', clear_password, policy=PASSWORD_CLEAR, status=204,
          errors=(401, 403, 404)),
    Route('GET', _SERVER + '/topology', topology, policy=TOPOLOGY, checks=(TOPOLOGY_OF_HOST,), since=78,
          query=server_schemas.NOTHING, errors=(401, 403, 404)),
)
