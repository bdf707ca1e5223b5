"""/servers/{id}/os-interface: ports of a server. Attaching is synchronous, detaching asynchronous."""
import uuid
import typing
from typing import Any

from nova import actions
from nova import exception
from nova import objects
from nova.api.servers import casts
from nova.api import request as api_request
from nova.api import shapes
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.db.cells import cells as db_cells
from nova.db.servers import port_devices
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonDocument
from nova.objects.network_info import PortRequest
from nova.objects.network_info import Vif
from nova.objects import pci
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web import params
from nova.web.routes import Route

_RULE = 'os_compute_api:os-attach-interfaces:'
_NOTHING = params.Query(closed=102)
DEVICES = 'port_devices'             # capability of drivers that attach ports as host devices

_TAG = params.string(1, 60, '^[^,/]*$')
ATTACH = params.Object(params.Param('interfaceAttachment', params.Object(
    params.Param('net_id', params.UUID), params.Param('port_id', params.UUID),
    params.Param('fixed_ips', params.Array(params.Object(params.Param('ip_address', params.IP_ADDRESS, required=True)),
                                           minItems=1, maxItems=1)),
    params.Param('tag', _TAG, since=49))))

VIEW = Fields(
    Field('port_state', 'port_state', type='string required'),
    Field('fixed_ips', 'fixed_ips', type=shapes.FIXED_IPS),
    Field('port_id', 'port_id', type='string format=uuid required'),
    Field('net_id', 'net_id', type='string format=uuid required'),
    Field('mac_addr', 'mac_addr', type='string format=mac-address required'),
    Field('tag', 'tag', since=70, type='null|string required'),
)


def _of_port(port: dict[str, Any]) -> api_request.Document:
    """Convert a port of nova/network/api.py to the values that VIEW shows."""
    return {'port_state': port['status'], 'fixed_ips': port['fixed_ips'], 'port_id': port['id'],
            'net_id': port['network_id'], 'mac_addr': port['mac_address'], 'tag': port['tag']}


def _of_vif(vif: Vif) -> api_request.Document:
    """Convert a VIF of nova/objects/network_info.py to the values that VIEW shows."""
    network = vif['network']
    return {'port_state': 'ACTIVE' if vif['active'] else 'DOWN', 'port_id': vif['id'], 'net_id': network['id'],
            'mac_addr': vif['address'], 'tag': vif['tag'],
            'fixed_ips': [{'subnet_id': subnet['id'], 'ip_address': ip['address']}
                          for subnet in network['subnets'] for ip in subnet['ips']]}


def _port(req: api_request.Request, server_id: str, port_id: str) -> dict[str, Any]:
    """Return a port of the server.

    :raises PortNotFound: the server has no such port
    """
    for port in req.services.networks.ports_of(req.context, server_id):
        if port['id'] == port_id:
            return port
    raise exception.PortNotFound(port_id=port_id[:80])


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    server_lookup.get(req, server_id, _RULE + 'list')
    build = VIEW.builder(req)
    return {'interfaceAttachments': [build(_of_port(port))
                                     for port in req.services.networks.ports_of(req.context, server_id)]}


def show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    server_lookup.get(req, server_id, _RULE + 'show')
    return {'interfaceAttachment': VIEW.builder(req)(_of_port(_port(req, server_id, id)))}


def attach(req: api_request.Request, server_id: str) -> JsonDocument:
    given = req.body.get('interfaceAttachment', {})
    if given.get('net_id') and given.get('port_id'):
        raise exception.BadRequest('Must not input both network_id and port_id')
    if given.get('fixed_ips') and not given.get('net_id'):
        raise exception.BadRequest('Must input network_id when request IP address')
    addresses = [entry['ip_address'] for entry in given.get('fixed_ips', [])]
    vif = attach_port(req, server_id, {
        'port_id': given.get('port_id'), 'network_id': given.get('net_id'), 'tag': given.get('tag'),
        'fixed_ip': addresses[0] if addresses else None}, actions.ACTIONS['attach_interface'])
    return {'interfaceAttachment': VIEW.builder(req)(_of_vif(vif))}


def attach_port(req: api_request.Request, server_id: str, request: PortRequest, action: actions.Action) -> Vif:
    """Attach a port to a server, wait for the result and return the VIF.

    :param request: {'port_id', 'network_id', 'fixed_ip', 'tag'}
    :param action: row of actions.ACTIONS with the policy rule of the operation
    :raises Conflict: the host is down, or has no free device for the port
    """
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, server_id, action)
        up = row['host'] is None or server_lookup.host_is_up(req, conn, row['host'])
    tasks.check_states(row, action)
    if not up:
        raise exception.Conflict(f'Cannot attach an interface to instance {server_id}: its host is down.')
    attached = {vif['network']['id'] for vif in row['network_info']}
    try:
        checked = req.services.networks.check_attach(req.context, row['project_id'], attached, request)
        (request,), needed = checked.requests, checked.devices
        # choose the ID of a new port here, so that an interrupted attach can be resumed
        request['port_id'] = request['port_id'] or str(uuid.uuid4())
        arguments = typing.cast(JsonDocument, request)
        if needed:
            _check_devices(req, cell, row)
            row = cell.db.run(port_devices.begin, req.context, server_id, action, arguments, needed[0],
                              req.context.is_admin)
        else:
            row = server_actions.begin(req, cell, server_id, action, arguments)
        return cell.rpc.compute.attach_interface(req.context, server=row['host'],
                                                 instance=objects.Instance.from_row(row), **request)
    except (exception.NetworkAmbiguous, exception.NoMoreFixedIps) as error:
        raise exception.BadRequest(error.message) from None
    except exception.GuestNotFound:                # the guest does not exist yet, or was deleted
        raise exception.InstanceNotReady(instance_id=server_id) from None


def _check_devices(req: api_request.Request, cell: db_cells.Cell, row: InstancesRow) -> None:
    """Check that the server's host can attach and detach ports that are host devices.

    :raises Unsupported, Conflict: the host does not have this capability
    """
    with cell.db.reader() as conn:
        if row['host'] is None or server_actions.capable(conn, row, DEVICES):
            return
    kind: type[exception.NovaException] = exception.Unsupported if 501 in req.route.errors else exception.Conflict
    raise kind(f'The host of instance {row["uuid"]} cannot attach or detach ports that are host devices: its '
               'hypervisor does not support this.')


def detach(req: api_request.Request, server_id: str, id: str) -> None:
    detach_port(req, server_id, id, actions.ACTIONS['detach_interface'])


def detach_port(req: api_request.Request, server_id: str, port_id: str, action: actions.Action) -> None:
    """Start to detach a port. If the port is a host device of the guest, it need not exist any more."""
    cell, server = server_actions.find(req, server_id, action)
    if port_id in pci.of_ports(server['flavor']):
        _check_devices(req, cell, server)
    else:
        _port(req, server_id, port_id)
    req.services.networks.check_detach(req.context, server['project_id'], server_id, port_id)
    row = server_actions.begin(req, cell, server_id, action, {'port_id': port_id})
    casts.to_host(req, cell, row, cell.rpc.compute.detach_interface, port_id=port_id)


_PATH = '/servers/{server_id}/os-interface'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'list', query=_NOTHING, errors=(401, 403, 404, 501)),
    Route('POST', _PATH, attach, policy=_RULE + 'create', body=ATTACH,
          errors=(400, 401, 403, 404, 409, 500, 501)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', query=_NOTHING, errors=(401, 403, 404)),
    Route('DELETE', _PATH + '/{id}', detach, policy=_RULE + 'delete', status=202,
          errors=(400, 401, 403, 404, 409, 501)),
)
