"""Client for the calls of the Bare Metal API that the driver uses: https://docs.openstack.org/api-ref/baremetal/."""
import collections
from collections.abc import Callable, Iterator
import json
import time
from typing import Any, TypedDict
import urllib.parse

from oslo_config.cfg import ConfigOpts
import requests

from nova import context
from nova import exception
from nova.json_types import Json, JsonObject
from nova.runtime import rest_client

SERVICE_TYPE = 'baremetal'
VERSION = '1.82'                         # microversion; version 1.82 added shards
PAGE = 500                               # maximum items in one response
# Pauses before retries of a request that Ironic refused because another operation had locked the node
LOCKED_PAUSES_S = (0.2, 0.5, 1, 2, 4, 8, 15, 30)
POLL_INTERVALS_S = (0.05, 0.2, 0.5, 1, 2, 5)      # pauses between reads of a node in transition; the last pause repeats


# the fields of a node that the driver reads
Node = TypedDict('Node', {
    'uuid': str, 'name': str | None, 'resource_class': str | None, 'properties': dict[str, str | int] | None,
    'traits': list[str] | None, 'instance_uuid': str | None, 'instance_info': dict[str, str] | None,
    'power_state': str | None, 'target_power_state': str | None, 'provision_state': str,
    'target_provision_state': str | None, 'maintenance': bool, 'last_error': str | None, 'driver_info': JsonObject,
    'console_enabled': bool})
ConsoleInfo = TypedDict('ConsoleInfo', {'type': str, 'url': str}, total=False)
Console = TypedDict('Console', {'console_enabled': bool, 'console_info': ConsoleInfo | None})
FIELDS = tuple(Node.__annotations__)


class Client:
    """Thread-safe client. Methods raise errors of the Bare Metal service as VirtError with the service's message."""

    def __init__(self, conf: ConfigOpts) -> None:
        self._options = conf.ironic
        self._service = rest_client.Service(conf, 'ironic', SERVICE_TYPE, 'Bare Metal')

    # ---- nodes

    def nodes(self) -> list[Node]:
        """Return the FIELDS of all nodes in the conductor group and shard of this host.

        :raises VirtError: the service does not respond
        """
        query = {'fields': ','.join(FIELDS), 'limit': str(PAGE)}
        for name in ('conductor_group', 'shard'):
            if self._options[name] is not None:
                query[name] = self._options[name]
        return list(self._pages('look at the nodes', query))

    def _pages(self, operation: str, query: dict[str, str], kind: str = 'nodes') -> Iterator[Any]:
        while True:
            answer = self._call(operation, 'GET', f'/v1/{kind}?' + urllib.parse.urlencode(query)).json()
            yield from answer[kind]
            if not answer[kind] or not answer.get('next'):       # the service may have a smaller limit than PAGE
                return
            query = {**query, 'marker': answer[kind][-1]['uuid']}

    def node(self, uuid: str) -> Node:
        """Return a node.

        :raises VirtError: the node does not exist
        """
        found = self.find(uuid)
        if found is None:
            raise _failure('look at a node', f'there is no node {uuid}')
        return found

    def find(self, uuid: str) -> Node | None:
        """Return a node with all fields, or None if it does not exist."""
        answer = self._call('look at a node', 'GET', f'/v1/nodes/{_segment(uuid)}', fine=(404,))
        return answer.json() if answer.status_code != 404 else None

    def addresses(self, uuid: str | None = None) -> collections.defaultdict[str, list[str]]:
        """Return {uuid of a node: MAC addresses of its network cards} for the node ``uuid``, or for all nodes."""
        query = {'fields': 'uuid,address,node_uuid', 'limit': str(PAGE), **({'node': uuid} if uuid else {})}
        found: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
        for port in self._pages('look at the network cards', query, 'ports'):
            found[port['node_uuid']].append(port['address'])
        return found

    def node_of(self, instance_uuid: str) -> Node | None:
        """Return the node of a server, or None if no node has the server."""
        query = {'instance_uuid': instance_uuid, 'fields': ','.join(FIELDS)}
        found = self._call('look for a node', 'GET', '/v1/nodes?' + urllib.parse.urlencode(query)).json()['nodes']
        return found[0] if found else None

    def update(self, uuid: str, operation: str, *changes: tuple[str, Any]) -> None:
        """Change fields of a node: (JSON path, value). The value None removes the field."""
        self._call(operation, 'PATCH', f'/v1/nodes/{_segment(uuid)}', body=[
            {'op': 'remove', 'path': path} if value is None else {'op': 'add', 'path': path, 'value': value}
            for path, value in changes])

    def faults(self, uuid: str, interfaces: tuple[str, ...]) -> dict[str, str]:
        """Return {interface: reason} of the driver interfaces of a node that fail validation."""
        found = self._call('check the node', 'GET', f'/v1/nodes/{_segment(uuid)}/validate').json()
        return {name: found[name].get('reason') or 'no reason is given' for name in interfaces
                if not found.get(name, {}).get('result')}

    # ---- ports

    def ports(self, uuid: str) -> list[str]:
        """Return ids of the Neutron ports (VIFs) attached to a node."""
        return [vif['id'] for vif in
                self._call('look at the ports', 'GET', f'/v1/nodes/{_segment(uuid)}/vifs').json()['vifs']]

    def give_port(self, uuid: str, port_id: str) -> None:
        self._call('attach a port', 'POST', f'/v1/nodes/{_segment(uuid)}/vifs', body={'id': port_id})

    def take_port(self, uuid: str, port_id: str) -> None:
        self._call('detach a port', 'DELETE', f'/v1/nodes/{_segment(uuid)}/vifs/{_segment(port_id)}', fine=(404,))

    # ---- states

    def provision(self, uuid: str, operation: str, target: str, **more: Json) -> None:
        """Begin a change of the provision state."""
        self._call(operation, 'PUT', f'/v1/nodes/{_segment(uuid)}/states/provision', body={'target': target, **more})

    def power(self, uuid: str, target: str, timeout: int | None = None) -> bool:
        """Begin a change of the power state; return False if the service refuses a soft change.

        :param timeout: seconds after which the service aborts the change
        """
        wanted: JsonObject = {'target': target, **({'timeout': timeout} if timeout else {})}
        return self._call('change the power', 'PUT', f'/v1/nodes/{_segment(uuid)}/states/power', body=wanted,
                          fine=(400,) if target.startswith('soft ') else ()).status_code != 400

    def console(self, uuid: str) -> Console:
        return self._call('look at the console', 'GET', f'/v1/nodes/{_segment(uuid)}/states/console').json()

    def enable_console(self, uuid: str) -> None:
        self._call('open the console', 'PUT', f'/v1/nodes/{_segment(uuid)}/states/console', body={'enabled': True})

    def wait(self, uuid: str, operation: str, seconds: float, reached: Callable[[Node], bool],
             failed: Callable[[Node], bool] = lambda node: False) -> Node:
        """Poll the node until ``reached(node)`` is true, and return the node.

        :raises VirtError: ``failed(node)`` is true, or ``seconds`` have passed
        """
        deadline = time.monotonic() + seconds
        looks = iter(POLL_INTERVALS_S)
        while True:
            node = self.node(uuid)
            if reached(node):
                return node
            if failed(node):
                raise _failure(operation, node['last_error'] or f'the node is {node["provision_state"]}')
            if time.monotonic() > deadline:
                raise _failure(operation, f'after {seconds:.0f} s the node is {node["provision_state"]}, '
                                          f'{node["power_state"]}')
            time.sleep(next(looks, POLL_INTERVALS_S[-1]))

    # ---- HTTP

    def _call(self, operation: str, method: str, path: str, fine: tuple[int, ...] = (),
              body: Json = None) -> requests.Response:
        ctx = context.admin_context()
        pauses, renewed = iter(LOCKED_PAUSES_S), False
        while True:
            try:
                answer = self._service.request(ctx, method, lambda: self._service.endpoint() + path, {
                    'X-OpenStack-Ironic-API-Version': VERSION, 'Accept': 'application/json'}, json=body)
            except exception.Unavailable as error:
                raise _failure(operation, str(error)) from None
            if answer.status_code < 400 or answer.status_code in fine:
                return answer
            if answer.status_code == rest_client.BAD_TOKEN and not renewed:
                renewed = bool(self._service.refusal(ctx, answer.status_code))       # the next request uses a new token
                continue
            reason = _reason(answer)
            pause = next(pauses, None) if answer.status_code == 409 and 'locked' in reason else None
            if pause is None:
                raise _failure(operation, reason)
            time.sleep(pause)


def _segment(text: str) -> str:
    return urllib.parse.quote(text, safe='')


def _failure(operation: str, reason: str) -> exception.VirtError:
    return exception.VirtError(operation=operation, reason=reason)


def _reason(answer: requests.Response) -> str:
    """Return the message of an error response. The service encodes the message as JSON once or twice."""
    try:
        found = answer.json()['error_message']
        found = json.loads(found) if isinstance(found, str) else found
        return str(found['faultstring'])[:500]
    except (ValueError, KeyError, TypeError):
        return f'the Bare Metal service answered with code {answer.status_code}'
