"""Actions addFixedIp and removeFixedIp (until 2.43): fixed IPs on the ports of a server."""
import ipaddress
from collections.abc import Callable
from typing import Any

from nova import actions
from nova import exception
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.db.tables.rows import InstancesRow
from nova.web import params
from nova.web.routes import Route

LAST = 43
_NETWORK = {'type': ['string', 'number'], 'minLength': 1, 'maxLength': 36}


def add(req: api_request.Request, id: str) -> None:
    wanted = str(req.body['addFixedIp']['networkId'])

    def check(row: InstancesRow) -> None:
        if wanted not in {vif['network']['id'] for vif in row['network_info']}:
            raise exception.BadRequest(f'The server has no port in network {wanted}.')
    _change(req, id, 'addFixedIp', check, network_id=wanted)


def remove(req: api_request.Request, id: str) -> None:
    wanted = str(ipaddress.ip_address(req.body['removeFixedIp']['address']))

    def check(row: InstancesRow) -> None:
        if wanted not in {ip['address'] for vif in row['network_info'] for subnet in vif['network']['subnets']
                          for ip in subnet['ips']}:
            raise exception.BadRequest(f'The server has no fixed IP {wanted}.')
    _change(req, id, 'removeFixedIp', check, address=wanted)


def _change(req: api_request.Request, server_id: str, name: str, check: Callable[[InstancesRow], None],
            **arguments: str) -> None:
    cell, action = server_lookup.cell_of(req, server_id), actions.ACTIONS[name]
    with cell.db.reader() as conn:
        check(server_actions.find_for(req, conn, server_id, action))
    req.services.networks.check_addresses(req.context, server_id)
    row = server_actions.begin(req, cell, server_id, action, arguments)
    server_actions.cast(req, cell, row, action, **arguments)


def _row(name: str, handler: Callable[..., Any], inner: params.Param) -> Route:
    return Route('POST', '/servers/{id}/action', handler, policy=actions.ACTIONS[name].policy, action=name,
                 until=LAST, status=202, errors=(400, 401, 403, 404, 409),
                 body=params.document(name, inner))


ROUTES = (
    _row('addFixedIp', add, params.Param('networkId', _NETWORK, required=True)),
    _row('removeFixedIp', remove, params.Param('address', params.IP_ADDRESS, required=True)),
)
