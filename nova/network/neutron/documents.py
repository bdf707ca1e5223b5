"""Collections of the Networking API, and types of their documents with the keys that this package reads."""
from typing import Any, Generic, TypedDict, TypeVar

Row = TypeVar('Row')


class Kind(str, Generic[Row]):
    """Path of a collection; the type parameter is the type of its documents."""


# Group of a port's resource request. ``resources``: {class: amount}.
RequestGroup = TypedDict('RequestGroup', {'id': str, 'required': list[str], 'resources': dict[str, int]})
# Resource request of a port; without ``request_groups``, the request consists of one group
ResourceRequest = TypedDict('ResourceRequest', {
    'request_groups': list[RequestGroup] | None, 'required': list[str], 'resources': dict[str, int],
    'same_subtree': list[str]}, total=False)
Port = TypedDict('Port', {
    'id': str, 'name': str, 'project_id': str, 'network_id': str, 'mac_address': str, 'status': str,
    'device_id': str, 'device_owner': str, 'created_at': str, 'revision_number': int, 'fixed_ips': list[dict[str, str]],
    'security_groups': list[str], 'ip_allocation': str, 'numa_affinity_policy': str | None,
    'port_security_enabled': bool, 'resource_request': ResourceRequest | None,
    'binding:host_id': str, 'binding:vif_type': str, 'binding:vnic_type': str, 'binding:vif_details': dict[str, Any],
    'binding:profile': dict[str, Any]}, total=False)
Network = TypedDict('Network', {
    'id': str, 'name': str, 'project_id': str, 'admin_state_up': bool, 'shared': bool, 'subnets': list[str],
    'mtu': int | None, 'dns_domain': str | None, 'port_security_enabled': bool, 'router:external': bool,
    'provider:physical_network': str | None}, total=False)
Subnet = TypedDict('Subnet', {
    'id': str, 'network_id': str, 'cidr': str, 'ip_version': int, 'gateway_ip': str | None,
    'dns_nameservers': list[str], 'host_routes': list[dict[str, str]], 'enable_dhcp': bool,
    'ipv6_address_mode': str | None, 'created_at': str, 'segment_id': str}, total=False)
Binding = TypedDict('Binding', {
    'host': str, 'status': str, 'vif_type': str | None, 'vif_details': dict[str, Any] | None, 'vnic_type': str | None,
    'profile': dict[str, Any]}, total=False)
FloatingIp = TypedDict('FloatingIp', {
    'id': str, 'project_id': str, 'floating_network_id': str, 'floating_ip_address': str, 'port_id': str,
    'fixed_ip_address': str}, total=False)
Group = TypedDict('Group', {'id': str, 'project_id': str, 'name': str, 'description': str}, total=False)
Rule = TypedDict('Rule', {
    'id': str, 'project_id': str, 'security_group_id': str, 'direction': str, 'ethertype': str, 'protocol': str | None,
    'port_range_min': int | None, 'port_range_max': int | None, 'remote_ip_prefix': str | None,
    'remote_group_id': str | None, 'remote_address_group_id': str | None}, total=False)
Policy = TypedDict('Policy', {'object_id': str})             # RBAC policy of a network


class ServerPort(Port, total=False):
    """A port with the tag of its device in the guest."""

    tag: str | None


def bindings_of(port_id: str) -> Kind[Binding]:
    return Kind(f'ports/{port_id}/bindings')


PORTS: Kind[Port] = Kind('ports')
NETWORKS: Kind[Network] = Kind('networks')
SUBNETS: Kind[Subnet] = Kind('subnets')
FLOATING_IPS: Kind[FloatingIp] = Kind('floatingips')
GROUPS: Kind[Group] = Kind('security-groups')
RULES: Kind[Rule] = Kind('security-group-rules')
POLICIES: Kind[Policy] = Kind('rbac-policies')
