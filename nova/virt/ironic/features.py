"""Features of bare metal servers: serial consoles, and rescue with the ramdisk that Ironic has for the node."""
from typing import Any
import urllib.parse

from nova import exception
from nova.context import RequestContext
from nova.objects.image import Image
from nova.objects.instance import Instance
from nova.objects.network_info import Vif
from nova.virt import driver
from nova.virt.ironic.client import Client
from nova.virt.ironic.client import ConsoleInfo
from nova.virt.ironic.nodes import ACTIVE
from nova.virt.ironic.nodes import Nodes
from nova.virt.ironic.nodes import RESCUED


class Consoles:
    """Feature Consoles.

    :param power_s: timeout in seconds to open a console
    """

    def __init__(self, client: Client, nodes: Nodes, power_s: float) -> None:
        self._client, self._nodes, self._power_s = client, nodes, power_s

    def console(self, instance: Instance, kind: str) -> driver.ConsolePlace:
        node = self._nodes.of(instance)
        if kind != 'serial':
            raise exception.ConsoleTypeUnavailable(console_type=kind)
        found = self._client.console(node['uuid'])
        if not found['console_enabled']:
            self._client.enable_console(node['uuid'])
            self._client.wait(node['uuid'], 'open the console', self._power_s, lambda each: each['console_enabled'])
            found = self._client.console(node['uuid'])
        address = console_address(found.get('console_info') or {})
        if address is None:
            raise exception.ConsoleTypeUnavailable(console_type=kind)
        return {'host': address[0], 'port': address[1], 'tls_port': None, 'internal_access_path': None,
                'password': None}


def console_address(info: ConsoleInfo) -> tuple[str, int] | None:
    """Return (host, port) of a socat console, which is a raw TCP connection, or None for other console types."""
    if info.get('type') != 'socat':
        return None
    try:
        url = urllib.parse.urlsplit(info.get('url') or '')
        return (url.hostname, url.port) if url.scheme == 'tcp' and url.hostname and url.port else None
    except ValueError:
        return None


class Rescue:
    """Feature Rescue.

    :param deploy_s: timeout in seconds of a provision state change
    """

    def __init__(self, client: Client, nodes: Nodes, deploy_s: float) -> None:
        self._client, self._nodes, self._deploy_s = client, nodes, deploy_s

    def rescue(self, context: RequestContext, instance: Instance, network_info: list[Vif],
               image: Image, admin_password: str, block_devices: list[dict[str, Any]],
               config_drive: dict[str, bytes] | None = None) -> None:
        if image['id'] != instance.image_id:
            raise exception.ImageUnacceptable(image_id=image['id'], reason='the rescue of a bare metal server uses the '
                                              'ramdisk of its node, not an image.')
        node = self._nodes.of(instance)
        if node['provision_state'] == RESCUED:
            return
        self._client.provision(node['uuid'], 'rescue', 'rescue', rescue_password=admin_password)
        self._client.wait(node['uuid'], 'rescue', self._deploy_s, lambda found: found['provision_state'] == RESCUED,
                          lambda found: found['provision_state'] == 'rescue failed')

    def unrescue(self, context: RequestContext, instance: Instance, network_info: list[Vif]) -> None:
        node = self._nodes.of(instance)
        if node['provision_state'] != ACTIVE:
            self._client.provision(node['uuid'], 'end the rescue', 'unrescue')
            self._client.wait(node['uuid'], 'end the rescue', self._deploy_s,
                              lambda found: found['provision_state'] == ACTIVE,
                              lambda found: found['provision_state'] == 'unrescue failed')
        self._nodes.switch_on(node['uuid'])
