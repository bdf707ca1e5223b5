"""Where instances are in the network: their interfaces, with subnets and security groups."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2.networks import network_interfaces
from nova.api.ec2.networks import vpcs

FIELDS = ('id', 'device_id', 'project_id', 'mac_address', 'fixed_ips', 'security_groups')
FEW = 8                          # instances that are requested one by one


class Interfaces:
    """Of some servers, in one look at each table.

    :param uuids: of the servers
    """

    def __init__(self, req: operations.Request, uuids: Sequence[str]) -> None:
        self._vpcs = vpcs.Vpcs(req)
        self._ports = ports_of(req, uuids)
        ports = [port for each in self._ports.values() for port in each]
        groups = {uuid for port in ports for uuid in port.get('security_groups') or ()}
        self._ids = req.ids.shown('eni', [port['id'] for port in ports])
        self._subnets = req.ids.shown('subnet', {fixed['subnet_id'] for port in ports for fixed in port['fixed_ips']})
        self._groups = req.ids.shown('sg', groups)
        rows = req.call('network', 'GET', '/security-groups', query={
            'project_id': req.project_id, 'fields': ['id', 'name']}) if groups else {}
        self._names = {row['id']: row['name'] for row in rows.get('security_groups', ())}

    def of(self, server: dict[str, Any]) -> dict[str, Any]:
        """What an instance shows of them. One without ports shows the names of its groups alone."""
        found = [self._one(port, index) for index, port in enumerate(self._ports.get(server['id'], ()))]
        if not found:
            return {'NetworkInterfaces': [], 'SecurityGroups': [
                {'GroupName': group['name']} for group in server.get('security_groups') or ()]}
        groups = {group['GroupId']: group for interface in found for group in interface['Groups']}
        return {'VpcId': found[0]['VpcId'], 'SubnetId': found[0]['SubnetId'], 'NetworkInterfaces': found,
                'SecurityGroups': [*groups.values()]}

    def _one(self, port: dict[str, Any], index: int) -> dict[str, Any]:
        fixed = (port['fixed_ips'] or [{}])[0]
        return {
            'NetworkInterfaceId': self._ids[port['id']], 'MacAddress': port['mac_address'],
            'VpcId': self._vpcs.of_subnet(fixed.get('subnet_id')),
            'SubnetId': self._subnets.get(fixed.get('subnet_id')), 'PrivateIpAddress': fixed.get('ip_address'),
            'OwnerId': port.get('project_id'), 'Status': 'in-use',
            'Attachment': {'DeviceIndex': index, 'Status': 'attached',
                           'AttachmentId': network_interfaces.ATTACHMENT + str(self._ids[port['id']])[4:]},
            'Groups': [{'GroupId': self._groups[uuid], 'GroupName': self._names.get(uuid)}
                       for uuid in port.get('security_groups') or ()]}


def ports_of(req: operations.Request, uuids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """{uuid of a server: its ports}; none where the cloud has no network service."""
    query: dict[str, Any] = {'project_id': req.project_id, 'fields': FIELDS}
    if len(uuids) <= FEW:
        query['device_id'] = list(uuids)
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        rows = req.call('network', 'GET', '/ports', query=query)['ports'] if uuids else []
    except errors.NoService:
        return {}
    for port in rows:
        found.setdefault(port['device_id'], []).append(port)
    return found
