"""Find the nodes with servers of this host, and change their power states."""
from nova import exception
from nova.objects.instance import Instance
from nova.virt.ironic.client import Client
from nova.virt.ironic.client import Node

OWNER = 'nova_host_id'                   # key of instance_info with the name of the compute host
ACTIVE, RESCUED = 'active', 'rescue'     # provision states


class Nodes:
    """Nodes with servers of this host.

    :param host: name of the compute host
    :param power_s: timeout of a power state change in seconds
    """

    def __init__(self, client: Client, host: str, power_s: float) -> None:
        self._client, self._host, self._power_s = client, host, power_s

    def is_ours(self, node: Node) -> bool:
        return bool(node['instance_uuid']) and (node['instance_info'] or {}).get(OWNER) == self._host

    def of(self, instance: Instance) -> Node:
        """Return the node of a server.

        :raises GuestNotFound: no node of this host has the server
        """
        node = self._client.node_of(instance.uuid)
        if node is None or not self.is_ours(node):
            raise exception.GuestNotFound(instance_id=instance.uuid)
        return node

    def switch_on(self, uuid: str) -> None:
        if self._client.node(uuid)['power_state'] != 'power on':
            self._client.power(uuid, 'power on')
            self.await_power(uuid, 'power on')

    def await_power(self, uuid: str, wanted: str, seconds: float | None = None) -> None:
        self._client.wait(uuid, wanted, seconds or self._power_s,
                          lambda node: node['power_state'] == wanted and not node['target_power_state'],
                          lambda node: node['power_state'] == 'error')
