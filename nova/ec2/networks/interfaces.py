"""Network interfaces of instances, with subnets and security groups."""
from collections.abc import Sequence
from typing import Any

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import network_interfaces
from nova.ec2.networks import vpcs
from nova.ec2.server import Server
from nova.json_types import JsonDocument

FIELDS = ('id', 'device_id', 'project_id', 'mac_address', 'fixed_ips', 'security_groups', 'name')


class Interfaces:
    """Interfaces of several servers, read with one query for each table.

    :param uuids: UUIDs of the servers
    """

    def __init__(self, req: operations.Request, uuids: Sequence[str]) -> None:
        self._vpcs = vpcs.Vpcs(req)
        self._ports = ports_of(req, uuids)
        ports = [port for each in self._ports.values() for port in each]
        groups = {uuid for port in ports for uuid in port.get('security_groups') or ()}
        self._attributes = tags.attributes_of(req, 'eni', [port['id'] for port in ports])
        self._ids = req.ids.shown('eni', [port['id'] for port in ports])
        self._subnets = req.ids.shown('subnet', {fixed['subnet_id'] for port in ports for fixed in port['fixed_ips']})
        self._groups = req.ids.shown('sg', groups)
        rows = req.pages('network', '/security-groups', 'security_groups', {
            'project_id': req.project_id, 'fields': ['id', 'name']}) if groups else []
        self._names = {row['id']: row['name'] for row in rows}

    def facts(self, server: Server) -> list[list[Any]]:
        """Collect the data of a server's interfaces for ``shown``, as a list that can be dumped as JSON."""
        found, ports = [], self._ports.get(server['id'], [])
        for port in ports if len(ports) < 2 else _in_order(server, ports):
            fixed = port['fixed_ips'][0] if port['fixed_ips'] else {}
            subnet = fixed.get('subnet_id')
            found.append([self._ids[port['id']], port['mac_address'], self._vpcs.of_subnet(subnet),
                          self._subnets.get(subnet), fixed.get('ip_address'), port.get('project_id'),
                          port.get('name') or '', _public(server, port['mac_address']),
                          self._attributes[port['id']].get(network_interfaces.INDEX),
                          network_interfaces.is_deleted_with_instance(self._attributes[port['id']]),
                          [[self._groups[group], self._names.get(group)]
                           for group in port.get('security_groups') or ()]])
        return found


def shown(server: Server, facts: list[list[Any]]) -> JsonDocument:
    """Return the network keys of an instance's view. An instance without ports shows only its group names.

    :param facts: see ``Interfaces.facts``; the result depends on nothing else
    """
    found = [_one(index, *each) for index, each in enumerate(facts)]
    if not found:
        return {'NetworkInterfaces': [], 'SecurityGroups': [
            {'GroupName': group['name']} for group in server.get('security_groups') or ()]}
    groups = {group['GroupId']: group for interface in found for group in interface['Groups']}
    return {'VpcId': found[0]['VpcId'], 'SubnetId': found[0]['SubnetId'], 'NetworkInterfaces': found,
            'SecurityGroups': [*groups.values()]}


def _in_order(server: Server, ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ports in the order of the server's interfaces; ports without an address are last."""
    macs = [address['OS-EXT-IPS-MAC:mac_addr'] for network in server['addresses'].values() for address in network]
    places = {mac: place for place, mac in reversed(list(enumerate(macs)))}
    return sorted(ports, key=lambda port: places.get(port['mac_address'], len(macs)))


def _public(server: Server, mac: str) -> str | None:
    """Return the floating IP of a port of a server."""
    return next((address['addr'] for network in server['addresses'].values() for address in network
                 if address.get('OS-EXT-IPS:type') == 'floating' and address['OS-EXT-IPS-MAC:mac_addr'] == mac), None)


def _one(index: int, ident: str, mac: str, vpc: str, subnet: str | None, address: str | None, owner: str | None,
         name: str, public: str | None, place: str | None, deleted: bool,
         groups: list[list[Any]]) -> dict[str, Any]:
    association = network_interfaces.association(public, owner)
    return {
        'SourceDestCheck': True, 'InterfaceType': 'interface', 'Description': name, 'Ipv6Addresses': [],
        'Association': association, 'PrivateIpAddresses': [
            {'PrivateIpAddress': address, 'Primary': True, 'Association': association}] if address else [],
        'NetworkInterfaceId': ident, 'MacAddress': mac, 'VpcId': vpc, 'SubnetId': subnet, 'PrivateIpAddress': address,
        'OwnerId': owner, 'Status': 'in-use',
        'Attachment': {'DeviceIndex': index if place is None else int(place), 'NetworkCardIndex': 0,
                       'Status': 'attached', 'DeleteOnTermination': deleted,
                       'AttachmentId': network_interfaces.ATTACHMENT + ident[4:]},
        'Groups': [{'GroupId': group, 'GroupName': name} for group, name in groups]}


def ports_of(req: operations.Request, uuids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return {UUID of a server: its ports}; empty without a network service."""
    query: dict[str, Any] = {'project_id': req.project_id, 'fields': FIELDS}
    if len(uuids) <= operations.MAX_SINGLE_READS:
        query['device_id'] = list(uuids)
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        rows = req.pages('network', '/ports', 'ports', query) if uuids else []
    except errors.NoService:
        return {}
    for port in rows:
        found.setdefault(port['device_id'], []).append(port)
    return found
