"""Types of the rows: what ``dict(row)`` of each table has. Made by tools/row_types.py; do not edit."""
import datetime
from typing import Any
from typing import TypedDict

AddressGroupsRow = TypedDict('AddressGroupsRow', {
    'id': str, 'project_id': str, 'name': str, 'addresses': Any, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

AddressScopesRow = TypedDict('AddressScopesRow', {
    'id': str, 'project_id': str, 'name': str, 'shared': bool, 'ip_version': int, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

AddressesRow = TypedDict('AddressesRow', {
    'subnet_id': str, 'number': int, 'address': str, 'port_id': str | None, 'released_at': datetime.datetime | None})

AuditRecordsRow = TypedDict('AuditRecordsRow', {
    'id': int, 'uuid': str, 'created_at': datetime.datetime, 'request_id': str | None, 'user_id': str | None,
    'project_id': str | None, 'domain_id': str | None, 'roles': str | None, 'credential_id': str | None,
    'service_user_id': str | None, 'remote_address': str | None, 'method': str, 'route': str, 'action': str,
    'target_type': str | None, 'target_id': str | None, 'target_part': str | None, 'outcome': str, 'code': int | None,
    'reason': str | None, 'seq': int | None, 'digest': str | None})

AutoTopologiesRow = TypedDict('AutoTopologiesRow', {
    'project_id': str, 'network_id': str, 'router_id': str})

BlockDeviceMappingsRow = TypedDict('BlockDeviceMappingsRow', {
    'id': int, 'uuid': str, 'instance_uuid': str, 'created_at': datetime.datetime, 'source_type': str,
    'destination_type': str, 'device_name': str | None, 'device_type': str | None, 'disk_bus': str | None,
    'guest_format': str | None, 'boot_index': int | None, 'image_id': str | None, 'volume_id': str | None,
    'snapshot_id': str | None, 'volume_size': int | None, 'volume_type': str | None, 'attachment_id': str | None,
    'connection_info': Any, 'delete_on_termination': bool, 'tag': str | None})

CellMovesRow = TypedDict('CellMovesRow', {
    'instance_uuid': str, 'move_id': str, 'other_cell': str, 'created_at': datetime.datetime, 'base': Any})

CellsRow = TypedDict('CellsRow', {
    'uuid': str, 'name': str, 'database_url': str, 'transport_url': str, 'disabled': bool})

ComputeNodesRow = TypedDict('ComputeNodesRow', {
    'id': int, 'uuid': str, 'host': str, 'node': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime,
    'change_number': int, 'usage_change_number': int, 'hypervisor_type': str, 'hypervisor_version': int,
    'host_ip': str | None, 'cpu_info': Any, 'vcpus': int, 'memory_mb': int, 'local_gb': int, 'reserved_memory_mb': int,
    'reserved_disk_gb': int, 'cpu_allocation_ratio': float, 'ram_allocation_ratio': float,
    'disk_allocation_ratio': float, 'vcpus_used': int, 'memory_mb_used': int, 'local_gb_used': int, 'running_vms': int,
    'disk_available_least': int | None, 'capabilities': Any, 'supported_instances': Any, 'traits': Any, 'metrics': Any,
    'failed_builds': int, 'uptime': str | None, 'pci_stats': Any, 'numa_topology': str | None,
    'numa_change_number': int | None})

ConsoleAuthTokensRow = TypedDict('ConsoleAuthTokensRow', {
    'token_hash': str, 'instance_uuid': str, 'console_type': str, 'instance_host': str, 'host': str | None, 'port': int,
    'tls_port': int | None, 'internal_access_path': str | None, 'created_at': datetime.datetime,
    'expires_at': datetime.datetime, 'project_id': str | None, 'user_id': str | None, 'secret': str | None,
    'user_token_id': str | None, 'user_token_expires_at': datetime.datetime | None, 'user_claims': str | None,
    'session_expires_at': datetime.datetime | None})

DefaultSecurityGroupRulesRow = TypedDict('DefaultSecurityGroupRulesRow', {
    'id': str, 'direction': str, 'ethertype': str, 'protocol': str | None, 'port_range_min': int | None,
    'port_range_max': int | None, 'remote_ip_prefix': str | None, 'from_own_group': bool, 'used_in_default_sg': bool,
    'used_in_non_default_sg': bool, 'removed': bool, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

DiskKeysRow = TypedDict('DiskKeysRow', {
    'id': int, 'instance_uuid': str, 'created_at': datetime.datetime, 'encryption_key_id': str, 'encrypted_key': str})

DnsDomainsRow = TypedDict('DnsDomainsRow', {
    'id': str, 'name': str, 'project_id': str, 'for_project': str})

DnsEntriesRow = TypedDict('DnsEntriesRow', {
    'domain_id': str, 'name': str, 'project_id': str, 'address': str})

FlavorsRow = TypedDict('FlavorsRow', {
    'id': int, 'flavor_id': str, 'name': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime | None,
    'memory_mb': int, 'vcpus': int, 'root_gb': int, 'ephemeral_gb': int, 'swap': int, 'rxtx_factor': float,
    'is_public': bool, 'disabled': bool, 'description': str | None, 'extra_specs': Any})

FloatingIpsRow = TypedDict('FloatingIpsRow', {
    'id': str, 'project_id': str, 'floating_network_id': str, 'floating_ip_address': str, 'floating_port_id': str,
    'port_id': str | None, 'fixed_ip_address': str | None, 'router_id': str | None, 'status': str, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

GuestReportsRow = TypedDict('GuestReportsRow', {
    'id': int, 'host': str, 'instance_uuid': str, 'kind': str, 'generation': int, 'power_state': int, 'server': Any,
    'volumes': Any, 'reported_at': datetime.datetime, 'resolved': bool})

HostMaintenanceServersRow = TypedDict('HostMaintenanceServersRow', {
    'maintenance_id': int, 'instance_uuid': str, 'direction': str, 'state': str, 'migration_id': int | None,
    'dest': str | None, 'reason': str | None, 'updated_at': datetime.datetime})

HostMaintenancesRow = TypedDict('HostMaintenancesRow', {
    'id': int, 'uuid': str, 'host': str, 'aggregate_id': int, 'status': str, 'message': str | None,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'stopped_at': datetime.datetime | None,
    'next_check_at': datetime.datetime | None, 'project_id': str | None, 'user_id': str | None})

IdentityAccessRulesRow = TypedDict('IdentityAccessRulesRow', {
    'id': str, 'user_id': str, 'service': str, 'method': str, 'path': str, 'created_at': datetime.datetime})

IdentityApplicationCredentialsRow = TypedDict('IdentityApplicationCredentialsRow', {
    'id': str, 'user_id': str, 'project_id': str, 'name': str, 'description': str | None, 'secret_hash': str,
    'role_ids': Any, 'unrestricted': bool, 'access_rule_ids': Any, 'expires_at': datetime.datetime | None,
    'created_at': datetime.datetime})

IdentityCredentialsRow = TypedDict('IdentityCredentialsRow', {
    'id': str, 'user_id': str, 'type': str, 'encrypted_blob': str, 'project_id': str | None,
    'created_at': datetime.datetime})

IdentityDomainsRow = TypedDict('IdentityDomainsRow', {
    'id': str, 'name': str, 'description': str, 'enabled': bool, 'tags': Any, 'extra': Any,
    'created_at': datetime.datetime})

IdentityEndpointGroupsRow = TypedDict('IdentityEndpointGroupsRow', {
    'id': str, 'name': str, 'description': str | None, 'filters': Any, 'created_at': datetime.datetime})

IdentityEndpointsRow = TypedDict('IdentityEndpointsRow', {
    'id': str, 'service_id': str, 'region_id': str | None, 'interface': str, 'url': str, 'enabled': bool, 'extra': Any,
    'created_at': datetime.datetime})

IdentityGroupsRow = TypedDict('IdentityGroupsRow', {
    'id': str, 'domain_id': str, 'name': str, 'description': str, 'extra': Any, 'created_at': datetime.datetime})

IdentityLimitsRow = TypedDict('IdentityLimitsRow', {
    'id': str, 'registered_limit_id': str, 'project_id': str, 'domain_id': str, 'resource_limit': int,
    'description': str | None, 'created_at': datetime.datetime})

IdentityPoliciesRow = TypedDict('IdentityPoliciesRow', {
    'id': str, 'type': str, 'blob': str, 'extra': Any, 'created_at': datetime.datetime})

IdentityProjectEndpointsRow = TypedDict('IdentityProjectEndpointsRow', {
    'project_id': str, 'kind': str, 'target_id': str})

IdentityProjectsRow = TypedDict('IdentityProjectsRow', {
    'id': str, 'domain_id': str, 'name': str, 'description': str, 'enabled': bool, 'tags': Any, 'parent_id': str | None,
    'extra': Any, 'created_at': datetime.datetime})

IdentityRegionsRow = TypedDict('IdentityRegionsRow', {
    'id': str, 'parent_region_id': str | None, 'description': str, 'extra': Any, 'created_at': datetime.datetime})

IdentityRegisteredLimitsRow = TypedDict('IdentityRegisteredLimitsRow', {
    'id': str, 'service_id': str, 'region_id': str, 'resource_name': str, 'default_limit': int,
    'description': str | None, 'created_at': datetime.datetime})

IdentityRolesRow = TypedDict('IdentityRolesRow', {
    'id': str, 'name': str, 'description': str | None, 'domain_id': str | None, 'name_space': str, 'extra': Any,
    'created_at': datetime.datetime})

IdentityServicesRow = TypedDict('IdentityServicesRow', {
    'id': str, 'type': str, 'name': str | None, 'description': str | None, 'enabled': bool, 'extra': Any,
    'created_at': datetime.datetime})

IdentityTrustsRow = TypedDict('IdentityTrustsRow', {
    'id': str, 'trustor_user_id': str, 'trustee_user_id': str, 'project_id': str, 'role_ids': Any,
    'impersonation': bool, 'expires_at': datetime.datetime | None, 'remaining_uses': int | None,
    'created_at': datetime.datetime})

IdentityUsersRow = TypedDict('IdentityUsersRow', {
    'id': str, 'domain_id': str, 'name': str, 'description': str | None, 'email': str | None, 'enabled': bool,
    'default_project_id': str | None, 'password_hash': str | None, 'password_expires_at': datetime.datetime | None,
    'tokens_revoked_until': datetime.datetime | None, 'options': Any, 'totp_step': int | None, 'extra': Any,
    'created_at': datetime.datetime})

ImageCacheTasksRow = TypedDict('ImageCacheTasksRow', {
    'id': int, 'host': str, 'image_id': str, 'request_id': str, 'project_id': str | None, 'user_id': str | None,
    'created_at': datetime.datetime, 'deadline': datetime.datetime, 'state': str, 'reason': str | None,
    'finished_at': datetime.datetime | None})

ImageMembersRow = TypedDict('ImageMembersRow', {
    'image_id': str, 'member': str, 'status': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime})

ImageTasksRow = TypedDict('ImageTasksRow', {
    'id': str, 'image_id': str, 'type': str, 'status': str, 'message': str, 'owner': str | None, 'user_id': str | None,
    'request_id': str | None, 'input': Any, 'created_at': datetime.datetime, 'updated_at': datetime.datetime})

InstanceActionEventsRow = TypedDict('InstanceActionEventsRow', {
    'id': int, 'action_id': int, 'event': str, 'started_at': datetime.datetime, 'finished_at': datetime.datetime | None,
    'result': str | None, 'details': str | None, 'traceback': str | None, 'host': str | None})

InstanceActionsRow = TypedDict('InstanceActionsRow', {
    'id': int, 'instance_uuid': str, 'action': str, 'request_id': str, 'project_id': str | None, 'user_id': str | None,
    'started_at': datetime.datetime, 'updated_at': datetime.datetime, 'finished_at': datetime.datetime | None,
    'message': str | None, 'owner': str | None, 'deadline': datetime.datetime | None, 'arguments': Any})

InstanceCategoriesRow = TypedDict('InstanceCategoriesRow', {
    'id': int, 'uuid': str, 'name': str, 'description': str | None, 'image_id': str | None, 'flavor_id': str | None,
    'requirements': Any, 'created_at': datetime.datetime, 'updated_at': datetime.datetime | None,
    'deleted_at': datetime.datetime | None, 'deleted': int})

InstanceMappingsRow = TypedDict('InstanceMappingsRow', {
    'instance_uuid': str, 'cell_uuid': str, 'project_id': str, 'user_id': str, 'vcpus': int, 'memory_mb': int,
    'created_at': datetime.datetime, 'server_group_id': str | None, 'queued_for_delete': bool, 'category': str,
    'move_id': str | None})

InstancesRow = TypedDict('InstancesRow', {
    'id': int, 'uuid': str, 'project_id': str, 'user_id': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'launched_at': datetime.datetime | None, 'terminated_at': datetime.datetime | None,
    'deleted_at': datetime.datetime | None, 'vm_state': str, 'task_state': str | None, 'power_state': int,
    'progress': int, 'locked': bool, 'locked_by': str | None, 'locked_reason': str | None, 'host': str | None,
    'node': str | None, 'generation': int, 'availability_zone': str | None, 'pinned_availability_zone': str | None,
    'display_name': str, 'description': str | None, 'hostname': str, 'reservation_id': str, 'launch_index': int,
    'image_id': str | None, 'kernel_id': str | None, 'ramdisk_id': str | None, 'root_device_name': str | None,
    'key_name': str | None, 'key_data': str | None, 'user_data': str | None, 'config_drive': bool,
    'access_ip_v4': str | None, 'access_ip_v6': str | None, 'disk_config': str, 'trusted_certs': Any,
    'scheduler_hints': Any, 'metadata': Any, 'tags': str, 'flavor_id': str, 'flavor': Any, 'vcpus': int,
    'memory_mb': int, 'root_gb': int, 'ephemeral_gb': int, 'image_properties': Any, 'network_info': Any,
    'security_groups': Any, 'volumes': Any, 'system_metadata': Any, 'fault': Any, 'server_group_id': str | None,
    'category': str, 'numa_topology': str | None, 'cell_move': str | None})

JoinTokensRow = TypedDict('JoinTokensRow', {
    'id': str, 'secret': str, 'expires_at': datetime.datetime})

KeyConsumersRow = TypedDict('KeyConsumersRow', {
    'target_id': str, 'digest': str, 'project_id': str, 'document': Any, 'created_at': datetime.datetime})

KeyContainersRow = TypedDict('KeyContainersRow', {
    'id': str, 'project_id': str, 'creator_id': str, 'name': str | None, 'type': str, 'project_access': bool,
    'acl_created_at': datetime.datetime | None, 'acl_updated_at': datetime.datetime | None,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime})

KeyOrdersRow = TypedDict('KeyOrdersRow', {
    'id': str, 'project_id': str, 'creator_id': str, 'type': str, 'meta': Any, 'secret_id': str | None,
    'container_id': str | None, 'created_at': datetime.datetime, 'updated_at': datetime.datetime})

KeyPairsRow = TypedDict('KeyPairsRow', {
    'id': int, 'user_id': str, 'name': str, 'type': str, 'fingerprint': str, 'public_key': str,
    'created_at': datetime.datetime})

KeySecretsRow = TypedDict('KeySecretsRow', {
    'id': str, 'project_id': str, 'creator_id': str, 'name': str | None, 'secret_type': str, 'algorithm': str | None,
    'bit_length': int | None, 'mode': str | None, 'expires_at': datetime.datetime | None, 'metadata': Any,
    'content_type': str | None, 'encrypted_payload': str | None, 'encryption_key_id': str | None,
    'project_access': bool, 'acl_created_at': datetime.datetime | None, 'acl_updated_at': datetime.datetime | None,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime})

MetadefItemsRow = TypedDict('MetadefItemsRow', {
    'namespace_id': str, 'kind': str, 'name': str, 'document': Any, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime})

MetadefNamespacesRow = TypedDict('MetadefNamespacesRow', {
    'id': str, 'namespace': str, 'display_name': str | None, 'description': str | None, 'visibility': str,
    'protected': bool, 'owner': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime})

MigrationsRow = TypedDict('MigrationsRow', {
    'id': int, 'uuid': str, 'instance_uuid': str, 'project_id': str, 'user_id': str, 'migration_type': str,
    'status': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'request_id': str | None,
    'arguments': Any, 'claims_swapped': bool, 'source_compute': str | None, 'source_node': str | None,
    'dest_compute': str | None, 'dest_node': str | None, 'dest_host': str | None, 'old_flavor': Any, 'new_flavor': Any,
    'memory_total_bytes': int | None, 'memory_processed_bytes': int | None, 'memory_remaining_bytes': int | None,
    'disk_total_bytes': int | None, 'disk_processed_bytes': int | None, 'disk_remaining_bytes': int | None,
    'claimed_host': str | None, 'claimed_node': str | None, 'claimed_vcpus': int, 'claimed_memory_mb': int,
    'claimed_local_gb': int, 'claimed_numa_topology': str | None})

NetworkFlavorsRow = TypedDict('NetworkFlavorsRow', {
    'id': str, 'name': str, 'service_type': str, 'enabled': bool, 'profile_ids': Any, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

NetworkHostsRow = TypedDict('NetworkHostsRow', {
    'host': str, 'address': str, 'gateway': bool, 'last_seen_at': datetime.datetime, 'version': int,
    'admin_state_up': bool, 'description': str | None, 'guarantees': Any})

NetworkServiceProfilesRow = TypedDict('NetworkServiceProfilesRow', {
    'id': str, 'driver': str, 'metainfo': str, 'enabled': bool, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

NetworkSharesRow = TypedDict('NetworkSharesRow', {
    'id': str, 'project_id': str, 'network_id': str, 'object_type': str, 'action': str, 'target_project': str,
    'description': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

NetworksRow = TypedDict('NetworksRow', {
    'id': str, 'project_id': str, 'name': str, 'shared': bool, 'is_default': bool, 'admin_state_up': bool,
    'bridge': str, 'mtu': int, 'network_type': str, 'physical_network': str | None, 'external': bool,
    'port_security_enabled': bool, 'qos_policy_id': str | None, 'zone_hints': Any, 'dns_domain': str,
    'description': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

PciDevicesRow = TypedDict('PciDevicesRow', {
    'id': int, 'host': str, 'node': str, 'address': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'vendor_id': str, 'product_id': str, 'dev_type': str, 'numa_node': int | None,
    'parent_addr': str | None, 'devname': str | None, 'tags': Any, 'status': str, 'instance_uuid': str | None,
    'request_id': str | None, 'claimed_by_move': bool})

PortForwardingsRow = TypedDict('PortForwardingsRow', {
    'id': str, 'project_id': str, 'floating_ip_id': str, 'protocol': str, 'external_port': int, 'internal_port_id': str,
    'internal_ip_address': str, 'internal_port': int, 'ports': int, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

PortsRow = TypedDict('PortsRow', {
    'id': str, 'project_id': str, 'network_id': str, 'name': str, 'mac_address': str, 'admin_state_up': bool,
    'status': str, 'device_id': str, 'device_owner': str, 'host': str, 'migrating_to': str, 'position': int,
    'tag': str | None, 'created_by_compute': bool, 'attached_by': str | None, 'port_security_enabled': bool,
    'allowed_address_pairs': Any, 'extra_dhcp_opts': Any, 'dns_name': str, 'qos_policy_id': str | None,
    'description': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

QosMarkingsRow = TypedDict('QosMarkingsRow', {
    'policy_id': str, 'id': str, 'dscp_mark': int})

QosMinimumsRow = TypedDict('QosMinimumsRow', {
    'id': str, 'policy_id': str, 'type': str, 'direction': str, 'amount': int, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

QosPoliciesRow = TypedDict('QosPoliciesRow', {
    'id': str, 'project_id': str, 'name': str, 'shared': bool, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

QosRulesRow = TypedDict('QosRulesRow', {
    'id': str, 'policy_id': str, 'direction': str, 'max_kbps': int, 'max_burst_kbps': int, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

RouterConntrackHelpersRow = TypedDict('RouterConntrackHelpersRow', {
    'id': str, 'router_id': str, 'protocol': str, 'port': int, 'helper': str, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

RouterInterfacesRow = TypedDict('RouterInterfacesRow', {
    'router_id': str, 'subnet_id': str, 'port_id': str})

RoutersRow = TypedDict('RoutersRow', {
    'id': str, 'project_id': str, 'name': str, 'admin_state_up': bool, 'external_network_id': str | None,
    'enable_snat': bool, 'routes': Any, 'host': str, 'zone_hints': Any, 'flavor_id': str | None,
    'qos_policy_id': str | None, 'taken': bool, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

SecurityGroupRulesRow = TypedDict('SecurityGroupRulesRow', {
    'id': str, 'project_id': str, 'security_group_id': str, 'direction': str, 'ethertype': str, 'protocol': str | None,
    'port_range_min': int | None, 'port_range_max': int | None, 'remote_ip_prefix': str | None,
    'remote_group_id': str | None, 'remote_address_group_id': str | None, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

SecurityGroupsRow = TypedDict('SecurityGroupsRow', {
    'id': str, 'project_id': str, 'name': str, 'stateful': bool, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

ServicesRow = TypedDict('ServicesRow', {
    'id': int, 'uuid': str, 'host': str, 'binary': str, 'topic': str, 'availability_zone': str, 'version': int,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime | None, 'last_seen_at': datetime.datetime | None,
    'disabled': bool, 'disabled_reason': str | None, 'forced_down': bool, 'identity': str | None, 'aggregates': Any})

ShareMappingsRow = TypedDict('ShareMappingsRow', {
    'id': int, 'uuid': str, 'instance_uuid': str, 'share_id': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'status': str, 'tag': str, 'export_location': str | None, 'protocol': str | None})

SubnetPoolsRow = TypedDict('SubnetPoolsRow', {
    'id': str, 'project_id': str, 'name': str, 'shared': bool, 'ip_version': int, 'default_ip_version': int | None,
    'prefixes': Any, 'default_prefixlen': int, 'min_prefixlen': int, 'max_prefixlen': int, 'default_quota': int | None,
    'address_scope_id': str | None, 'description': str, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime, 'revision': int})

SubnetsRow = TypedDict('SubnetsRow', {
    'id': str, 'project_id': str, 'network_id': str, 'name': str, 'cidr': str, 'subnetpool_id': str | None,
    'ipv6_ra_mode': str | None, 'ipv6_address_mode': str | None, 'ip_version': int, 'gateway_ip': str | None,
    'enable_dhcp': bool, 'allocation_pools': Any, 'dns_nameservers': Any, 'host_routes': Any, 'service_types': Any,
    'description': str, 'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

TaskLogRow = TypedDict('TaskLogRow', {
    'host': str, 'period_beginning': datetime.datetime, 'period_ending': datetime.datetime, 'state': str,
    'updated_at': datetime.datetime, 'task_items': int, 'errors': int, 'message': str})

TrunkSubportsRow = TypedDict('TrunkSubportsRow', {
    'port_id': str, 'trunk_id': str, 'segmentation_type': str, 'segmentation_id': int})

TrunksRow = TypedDict('TrunksRow', {
    'id': str, 'project_id': str, 'name': str, 'port_id': str, 'admin_state_up': bool, 'description': str,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'revision': int})

VolumeAttachmentsRow = TypedDict('VolumeAttachmentsRow', {
    'id': str, 'volume_id': str, 'instance_uuid': str, 'project_id': str, 'status': str, 'device': str | None,
    'connector': Any, 'created_at': datetime.datetime, 'attached_at': datetime.datetime | None})

VolumeBackupsRow = TypedDict('VolumeBackupsRow', {
    'id': str, 'volume_id': str, 'snapshot_id': str | None, 'temporary': bool, 'project_id': str, 'user_id': str | None,
    'name': str | None, 'description': str | None, 'size': int, 'status': str, 'bootable': bool, 'metadata': Any,
    'image_metadata': Any, 'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'key_id': str | None})

VolumeDefaultTypesRow = TypedDict('VolumeDefaultTypesRow', {
    'project_id': str, 'type_id': str})

VolumeEncryptionKeysRow = TypedDict('VolumeEncryptionKeysRow', {
    'id': str, 'type_id': str, 'created_at': datetime.datetime, 'encryption_key_id': str, 'encrypted_key': str})

VolumeKeysRow = TypedDict('VolumeKeysRow', {
    'id': int, 'instance_uuid': str, 'volume_id': str, 'created_at': datetime.datetime, 'encryption_key_id': str,
    'encrypted_key': str})

VolumeQosSpecsRow = TypedDict('VolumeQosSpecsRow', {
    'id': str, 'name': str, 'consumer': str, 'specs': Any, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime})

VolumeSnapshotsRow = TypedDict('VolumeSnapshotsRow', {
    'id': str, 'volume_id': str, 'project_id': str, 'user_id': str | None, 'name': str | None,
    'description': str | None, 'size': int, 'status': str, 'bootable': bool, 'metadata': Any, 'image_metadata': Any,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'key_id': str | None})

VolumeTransfersRow = TypedDict('VolumeTransfersRow', {
    'id': str, 'volume_id': str, 'project_id': str, 'name': str | None, 'key_hash': str,
    'created_at': datetime.datetime})

VolumeTypesRow = TypedDict('VolumeTypesRow', {
    'id': str, 'name': str, 'description': str | None, 'extra_specs': Any, 'encryption': Any, 'is_public': bool,
    'created_at': datetime.datetime, 'updated_at': datetime.datetime, 'qos_specs_id': str | None})

VolumesRow = TypedDict('VolumesRow', {
    'id': str, 'project_id': str, 'user_id': str | None, 'name': str | None, 'description': str | None, 'size': int,
    'status': str, 'bootable': bool, 'multiattach': bool, 'volume_type': str, 'availability_zone': str,
    'image_id': str | None, 'snapshot_id': str | None, 'source_volume_id': str | None, 'backup_id': str | None,
    'key_id': str | None, 'readonly': bool, 'metadata': Any, 'image_metadata': Any, 'created_at': datetime.datetime,
    'updated_at': datetime.datetime})
