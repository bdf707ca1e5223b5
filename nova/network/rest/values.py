"""Types of requests: the checked values that handlers of the Networking API get.

In an update, keys may be missing.

Made by tools/row_types.py; do not edit.
"""
from typing import TypedDict

NetworkValues = TypedDict('NetworkValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'admin_state_up': bool,
    'shared': bool, 'mtu': int | None, 'router:external': bool, 'is_default': bool, 'port_security_enabled': bool,
    'qos_policy_id': str | None, 'dns_domain': str, 'availability_zone_hints': list[str],
    'provider:network_type': str | None, 'provider:physical_network': str | None,
    'provider:segmentation_id': int | None}, total=False)

SubnetValues = TypedDict('SubnetValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'network_id': str,
    'cidr': str | None, 'prefixlen': int | None, 'ip_version': int, 'gateway_ip': str | None, 'enable_dhcp': bool,
    'allocation_pools': list[dict[str, str]] | None, 'dns_nameservers': list[str], 'host_routes': list[dict[str, str]],
    'ipv6_ra_mode': str | None, 'ipv6_address_mode': str | None, 'subnetpool_id': str | None,
    'use_default_subnetpool': bool, 'service_types': list[str]}, total=False)

AddressScopeValues = TypedDict('AddressScopeValues', {
    'project_id': str | None, 'tenant_id': str | None, 'name': str, 'ip_version': int, 'shared': bool}, total=False)

SubnetpoolValues = TypedDict('SubnetpoolValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'shared': bool,
    'is_default': bool, 'prefixes': list[str], 'default_quota': int | None, 'min_prefixlen': int | None,
    'default_prefixlen': int | None, 'max_prefixlen': int | None, 'address_scope_id': str | None}, total=False)

PortExtraDhcpOpts = TypedDict('PortExtraDhcpOpts', {
    'opt_name': str, 'opt_value': str | None, 'ip_version': int}, total=False)

PortValues = TypedDict('PortValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'network_id': str,
    'mac_address': str | None, 'admin_state_up': bool, 'device_id': str, 'device_owner': str,
    'fixed_ips': list[dict[str, str]] | None, 'security_groups': list[str] | None, 'port_security_enabled': bool | None,
    'allowed_address_pairs': list[dict[str, str]] | None, 'extra_dhcp_opts': list[PortExtraDhcpOpts] | None,
    'dns_name': str, 'qos_policy_id': str | None, 'binding:host_id': str, 'binding:profile': dict[str, str] | None,
    'binding:vnic_type': str}, total=False)

TrunkSubPorts = TypedDict('TrunkSubPorts', {
    'port_id': str, 'segmentation_type': str | None, 'segmentation_id': int | None}, total=False)

TrunkValues = TypedDict('TrunkValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'port_id': str,
    'admin_state_up': bool, 'sub_ports': list[TrunkSubPorts] | None}, total=False)

AddressGroupValues = TypedDict('AddressGroupValues', {
    'project_id': str | None, 'tenant_id': str | None, 'name': str, 'description': str, 'addresses': list[str]},
    total=False)

SecurityGroupValues = TypedDict('SecurityGroupValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'stateful': bool | None},
    total=False)

SecurityGroupRuleValues = TypedDict('SecurityGroupRuleValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'direction': str, 'ethertype': str | None,
    'port_range_min': int | None, 'port_range_max': int | None, 'remote_ip_prefix': str | None, 'protocol': str | None,
    'security_group_id': str, 'remote_group_id': str | None, 'remote_address_group_id': str | None}, total=False)

DefaultSecurityGroupRuleValues = TypedDict('DefaultSecurityGroupRuleValues', {
    'description': str, 'direction': str, 'ethertype': str | None, 'port_range_min': int | None,
    'port_range_max': int | None, 'remote_ip_prefix': str | None, 'protocol': str | None, 'remote_group_id': str | None,
    'remote_address_group_id': None, 'used_in_default_sg': bool, 'used_in_non_default_sg': bool,
    'project_id': str | None, 'tenant_id': str | None}, total=False)

RouterExternalGatewayInfo = TypedDict('RouterExternalGatewayInfo', {
    'network_id': str, 'enable_snat': bool, 'external_fixed_ips': list[dict[str, str]], 'qos_policy_id': str | None},
    total=False)

RouterValues = TypedDict('RouterValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'admin_state_up': bool,
    'external_gateway_info': RouterExternalGatewayInfo | None, 'routes': list[dict[str, str]] | None,
    'distributed': bool | None, 'ha': bool | None, 'availability_zone_hints': list[str], 'flavor_id': str | None},
    total=False)

FloatingipValues = TypedDict('FloatingipValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'floating_network_id': str,
    'floating_ip_address': str | None, 'subnet_id': str | None, 'port_id': str | None, 'fixed_ip_address': str | None,
    'qos_policy_id': None, 'dns_name': str, 'dns_domain': str}, total=False)

FlavorValues = TypedDict('FlavorValues', {
    'name': str, 'description': str, 'enabled': bool, 'service_type': str}, total=False)

ServiceProfileValues = TypedDict('ServiceProfileValues', {
    'description': str, 'enabled': bool, 'driver': str, 'metainfo': str}, total=False)

RbacPolicyValues = TypedDict('RbacPolicyValues', {
    'project_id': str | None, 'tenant_id': str | None, 'object_type': str, 'object_id': str, 'action': str,
    'target_tenant': str}, total=False)

PolicyValues = TypedDict('PolicyValues', {
    'project_id': str | None, 'tenant_id': str | None, 'description': str, 'name': str, 'shared': bool,
    'is_default': bool}, total=False)
