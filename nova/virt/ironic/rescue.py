"""Rescue of bare metal servers with the ramdisk of their node."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.virt.ironic.client import Client
from nova.virt.ironic.nodes import ACTIVE
from nova.virt.ironic.nodes import RESCUED

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.ironic.nodes import Nodes


class Rescue:
    """Feature Rescue.

    :param deploy_s: timeout in seconds of a provision state change
    """

    def __init__(self, client: Client, nodes: Nodes, deploy_s: float) -> None:
        self._client, self._nodes, self._deploy_s = client, nodes, deploy_s

    def rescue(self, context: RequestContext, instance: Instance, network_info: list[dict[str, Any]],
               image: dict[str, Any], admin_password: str, block_devices: list[dict[str, Any]],
               config_drive: dict[str, bytes] | None = None) -> None:
        if image['id'] != instance.image_id:
            raise exception.ImageUnacceptable(image_id=image['id'], reason='a machine is rescued by the ramdisk that '
                                              'its node names, and by no image.')
        node = self._nodes.of(instance)
        if node['provision_state'] == RESCUED:
            return
        self._client.provision(node['uuid'], 'rescue', 'rescue', rescue_password=admin_password)
        self._client.wait(node['uuid'], 'rescue', self._deploy_s, lambda found: found['provision_state'] == RESCUED,
                          lambda found: found['provision_state'] == 'rescue failed')

    def unrescue(self, context: RequestContext, instance: Instance, network_info: list[dict[str, Any]]) -> None:
        node = self._nodes.of(instance)
        if node['provision_state'] != ACTIVE:
            self._client.provision(node['uuid'], 'end the rescue', 'unrescue')
            self._client.wait(node['uuid'], 'end the rescue', self._deploy_s,
                              lambda found: found['provision_state'] == ACTIVE,
                              lambda found: found['provision_state'] == 'unrescue failed')
        self._nodes.switch_on(node['uuid'])
