"""Serial consoles of bare metal servers."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING
import urllib.parse

from nova import exception
from nova.virt.ironic.client import Client

if TYPE_CHECKING:
    from nova.objects.instance import Instance
    from nova.virt import driver
    from nova.virt.ironic.nodes import Nodes


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


def console_address(info: dict[str, Any]) -> tuple[str, int] | None:
    """Return (host, port) of a raw TCP serial console such as socat's, or None for other types."""
    if info.get('type') != 'socat':
        return None
    try:
        url = urllib.parse.urlsplit(info.get('url') or '')
        return (url.hostname, url.port) if url.scheme == 'tcp' and url.hostname and url.port else None
    except ValueError:
        return None
