"""Bare metal driver: each node of the Bare Metal service is a node of this host and can have one server.

The driver stores no state. Every method reads the node from the Bare Metal service and continues from the node's
state, also after a crash. The instance_info of a server's node has the compute host as ``nova_host_id``. Nodes with
servers of another host or of another client of Ironic are ignored.
"""
from collections.abc import Callable
from typing import Any

import orjson
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.objects.image import Image
from nova.objects.network_info import Vif
from nova import states
from nova.context import RequestContext
from nova.json_types import JsonObject
from nova.hardware import machines
from nova.objects.counters import Counters
from nova.objects.instance import Instance
from nova.runtime import privileges
from nova.virt import driver
from nova.virt import monitors
from nova.virt.ironic import client as ironic_client
from nova.virt.ironic import features
from nova.virt.ironic import nodes

POWER = {'power on': states.RUNNING, 'power off': states.SHUTDOWN, 'rebooting': states.RUNNING}
AVAILABLE, ACTIVE, RESCUED = 'available', nodes.ACTIVE, nodes.RESCUED
# provision states (https://docs.openstack.org/ironic/latest/user/states.html) in which a node's server can be deleted
DEPLOYED = {ACTIVE, RESCUED, 'deploy failed', 'error', 'rescue failed', 'unrescue failed', 'wait call-back',
            'deploy hold', 'rescue wait'}
# CHANGING: transitions from or to DEPLOYED; CLEANED: cleaning after a server; NOT_ENROLLED: not ready for servers
CHANGING = {'deploying', 'deleting', 'rebuild', 'deleted', 'rescuing', 'unrescuing'}
CLEANED = {'cleaning', 'clean wait', 'clean hold'}
NOT_ENROLLED = {'enroll', 'verifying', 'manageable', 'inspecting', 'inspect wait', 'inspect failed', 'adopting',
                'adopt failed'}
# {file of a config drive: key of the file in a configdrive document of the Bare Metal service}
DRIVE = {'openstack/latest/meta_data.json': 'meta_data', 'openstack/latest/network_data.json': 'network_data',
         'openstack/latest/user_data': 'user_data', 'openstack/latest/vendor_data.json': 'vendor_data'}
OLD_VERSION = 1                          # constant hypervisor_version, because nodes have no version


class NoUsage(monitors.Usage):
    """Usage without counters: bare metal servers have none, and this host's counters do not describe the nodes."""

    def nodes(self) -> dict[str, Counters]:
        return {}


class IronicDriver(driver.ComputeDriver):
    """Implement the required methods of nova/virt/driver.py, and register the features Rescue and Consoles."""

    real_guests = False                  # bare metal servers need no network devices of this host

    def __init__(self, conf: ConfigOpts, host: str, images: driver.ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        super().__init__(conf, host, images, inspect_image, helper)
        self._client = ironic_client.Client(conf)
        self._deploy_s, self._power_s = conf.ironic.deploy_timeout, conf.ironic.power_timeout
        self._nodes = nodes.Nodes(self._client, host, self._power_s)
        self.usage = NoUsage(host)
        self.features.update({driver.Rescue: features.Rescue(self._client, self._nodes, self._deploy_s),
                              driver.Consoles: features.Consoles(self._client, self._nodes, self._power_s)})

    def init_host(self) -> None:
        self._client.nodes()

    # ---- nodes

    def resources(self) -> list[driver.NodeResources]:
        return [self._resources(node) for node in self._client.nodes()
                if node['provision_state'] not in NOT_ENROLLED or node['instance_uuid']]

    def _resources(self, node: ironic_client.Node) -> driver.NodeResources:
        properties = node['properties'] or {}
        arch = str(properties.get('cpu_arch') or 'x86_64')
        return driver.NodeResources(
            node=node['uuid'], vcpus=_number(properties, 'cpus'), memory_mb=_number(properties, 'memory_mb'),
            local_gb=_number(properties, 'local_gb'), hypervisor_type=machines.HYPERVISOR,
            hypervisor_version=OLD_VERSION, host_ip=self.conf.my_ip, cpu_info={'arch': arch},
            supported_instances=[[arch, 'baremetal', 'hvm']], traits=self._traits(node))

    def _traits(self, node: ironic_client.Node) -> list[str]:
        """Return the node's traits, and a trait of its resource class if the node is usable for this host's servers."""
        usable = not node['maintenance'] and (self._nodes.is_ours(node) if node['instance_uuid']
                                              else node['provision_state'] == AVAILABLE)
        own = [machines.class_name(node['resource_class'])] if usable and node['resource_class'] else []
        return [*(node['traits'] or ()), *own]

    def guests(self) -> dict[str, int]:
        return {uuid: _power_state(node) for node in self._client.nodes()
                if (uuid := node['instance_uuid']) and self._nodes.is_ours(node)}

    def power_state(self, instance: Instance) -> int:
        return _power_state(self._nodes.of(instance))

    # ---- lifecycle

    def spawn(self, context: RequestContext, instance: Instance, request: driver.SpawnRequest) -> None:
        if request.injected_files:
            raise exception.BuildFailed(instance_id=instance.uuid,
                                        reason='bare metal servers do not support file injection')
        if request.image is None:
            raise exception.BuildFailed(instance_id=instance.uuid, reason='bare metal servers cannot boot from volumes')
        node = self._ready(instance)
        uuid = node['uuid']
        self._client.update(uuid, 'take the node', ('/instance_uuid', instance.uuid),
                            ('/instance_info', self._info(instance, request.image)))
        for vif in request.network_info:
            if vif['id'] not in self._client.ports(uuid):
                self._client.give_port(uuid, vif['id'])
        wrong = self._client.faults(uuid, ('power', 'deploy'))
        if wrong:
            raise exception.BuildFailed(instance_id=instance.uuid, reason=f'node {uuid}: ' + '; '.join(
                f'{name}: {why}' for name, why in sorted(wrong.items())))
        self._client.provision(uuid, 'deploy', 'active', **_drive(request))
        self._client.wait(uuid, 'deploy', self._deploy_s, lambda found: found['provision_state'] == ACTIVE,
                          lambda found: found['provision_state'] in ('deploy failed', 'error'))
        self._nodes.switch_on(uuid)

    def _ready(self, instance: Instance) -> ironic_client.Node:
        """Wait until the node that the scheduler chose is clean after its previous server; return the node.

        :raises BuildFailed: the node cannot have a server
        """
        node = self._client.node(instance.node or '')
        if node['provision_state'] in CHANGING | CLEANED:
            node = self._client.wait(node['uuid'], 'wait for the node', self._deploy_s,
                                     lambda found: found['provision_state'] not in CHANGING | CLEANED)
        why = ('is in maintenance' if node['maintenance'] else
               'has another server' if node['instance_uuid'] not in (None, instance.uuid) else
               f'is {node["provision_state"]}' if node['provision_state'] != AVAILABLE else '')
        if why:
            raise exception.BuildFailed(instance_id=instance.uuid, reason=f'node {node["uuid"]} {why}')
        return node

    def _info(self, instance: Instance, image: Image) -> dict[str, Any]:
        """Return the instance_info of a server's node, including the flavor's capabilities for the deployment."""
        specs = (instance.flavor or {}).get('extra_specs') or {}
        wanted = {key.removeprefix('capabilities:'): value for key, value in specs.items()
                  if key.startswith('capabilities:')}
        info = {nodes.OWNER: self.host, 'image_source': image['id'], 'root_gb': str(instance.root_gb),
                'display_name': instance.display_name, 'vcpus': str(instance.vcpus),
                'memory_mb': str(instance.memory_mb), 'local_gb': str(instance.root_gb)}
        if instance.ephemeral_gb:
            info['ephemeral_gb'] = str(instance.ephemeral_gb)
        if wanted:
            info['capabilities'] = orjson.dumps(wanted).decode()
        return info

    def destroy(self, context: RequestContext, instance: Instance, network_info: list[Vif],
                keep_disks: bool = False, keep_machine: bool = False) -> None:
        node = self._client.node_of(instance.uuid)
        if node is None or not self._nodes.is_ours(node):
            return
        uuid = node['uuid']

        def changes(found: ironic_client.Node) -> bool:
            return found['instance_uuid'] == instance.uuid and found['provision_state'] in CHANGING

        if changes(node):
            node = self._client.wait(uuid, 'remove the server', self._deploy_s, lambda found: not changes(found))
        if node['instance_uuid'] != instance.uuid:
            return
        for port_id in self._client.ports(uuid):
            self._client.take_port(uuid, port_id)
        if node['provision_state'] in DEPLOYED:
            self._client.provision(uuid, 'remove the server', 'deleted')
            node = self._client.wait(
                uuid, 'remove the server', self._deploy_s,
                lambda found: found['instance_uuid'] != instance.uuid or found['provision_state'] in {
                    AVAILABLE, *CLEANED},
                lambda found: found['provision_state'] in ('error', 'clean failed'))
        if node['instance_uuid'] == instance.uuid:         # still assigned: the build failed before the deployment
            self._client.update(uuid, 'give the node back', ('/instance_info', {}), ('/instance_uuid', None))

    # ---- power

    def power_on(self, context: RequestContext, instance: Instance, network_info: list[Vif]) -> None:
        self._nodes.switch_on(self._nodes.of(instance)['uuid'])

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        node = self._nodes.of(instance)
        if node['power_state'] == 'power off':
            return
        if timeout and self._client.power(node['uuid'], 'soft power off', timeout):
            try:
                self._nodes.await_power(node['uuid'], 'power off', timeout)
                return
            except exception.VirtError:              # the guest OS did not shut down in time
                pass
        self._client.power(node['uuid'], 'power off')
        self._nodes.await_power(node['uuid'], 'power off')

    def reboot(self, context: RequestContext, instance: Instance, network_info: list[Vif],
               hard: bool) -> None:
        uuid = self._nodes.of(instance)['uuid']
        if hard or not self._client.power(uuid, 'soft rebooting', self._power_s):
            self._client.power(uuid, 'rebooting')
        self._nodes.await_power(uuid, 'power on')

    def console_output(self, instance: Instance) -> bytes:
        self._nodes.of(instance)
        raise exception.Unsupported('The Bare Metal service does not store console output. Open the serial console '
                                    'instead.')

def _power_state(node: ironic_client.Node) -> int:
    return POWER.get(node['power_state'] or '', states.NOSTATE)


def _number(properties: dict[str, str | int], name: str) -> int:
    """Return a property of the node as a number. Inspection or an operator may have stored a text."""
    try:
        return max(0, int(properties.get(name) or 0))
    except (TypeError, ValueError):
        return 0


def _drive(request: driver.SpawnRequest) -> JsonObject:
    """Return the documents with which the Bare Metal service creates the config drive."""
    found: JsonObject = {}
    for path, name in DRIVE.items():
        content = (request.config_drive or {}).get(path)
        if content is not None:
            found[name] = orjson.loads(content) if path.endswith('.json') else content.decode('utf-8', 'replace')
    return {'configdrive': found} if found else {}
