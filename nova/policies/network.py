"""Rules of the embedded network service; names and defaults are those of the Networking API, except:

* Creating a port in a network that is shared with the project also requires the role member.
* Only services may set device_id and device_owner of a port, because the network service acts on these fields.
"""
from nova.policies.service import Rule
from nova.policies.service import Service
from nova.policies.service import names

# (rule, check, description)
BASE = (
    ('context_is_admin', 'role:admin',
     'Administrators of networks, with a token that is scoped to a project. They see the resources of all projects.'),
    ('admin_only', 'rule:context_is_admin', 'Administrators.'),
    ('owner', 'project_id:%(project_id)s', 'Users of the project that owns the resource.'),
    ('service_api', 'role:service', 'Other services, such as the compute service.'),
    ('network_owner', 'project_id:%(network:project_id)s',
     'Users of the project that owns the network of a port or subnet.'),
    ('shared', 'field:networks:shared=True',
     'Networks, and the ports and subnets in them, that are shared with the project.'),
    ('external', 'field:networks:router:external=True', 'External networks.'),
    ('external_network', 'field:subnets:router:external=True', 'Subnets of external networks.'),
    ('sg_owner', 'project_id:%(security_group:project_id)s',
     'Users of the project that owns the security group of a rule.'),
    ('ext_parent_owner', 'project_id:%(ext_parent:project_id)s',
     'Users of the project that owns the floating IP of a port forwarding, the QoS policy of a rule, or the router of '
     'a conntrack helper.'),
    ('shared_qos_policy', 'field:policies:shared=True', 'QoS policies that are shared with the project.'),
    ('shared_security_group', 'field:security_groups:shared=True',
     'Security groups that are shared with the project.'),
    ('shared_subnetpools', 'field:subnetpools:shared=True', 'Subnet pools that are shared with the project.'),
    ('shared_address_groups', 'field:address_groups:shared=True', 'Address groups that are shared with the project.'),
    ('shared_address_scopes', 'field:address_scopes:shared=True', 'Address scopes that are shared with the project.'),
    ('compute_device', 'field:port:device_owner=~^compute:', 'Ports of servers.'),
    ('baremetal_device', 'field:port:device_owner=~^baremetal:', 'Ports of bare metal nodes.'),
    ('manila_device', 'field:port:device_owner=~^manila:', 'Ports of file shares.'),
    ('context_is_advsvc', 'role:advsvc', 'Services for advanced networking.'),
    ('admin_or_owner', 'rule:context_is_admin or rule:owner',
     'Administrators, and users of the owning project. For older policy files.'),
)

_MEMBER = '(rule:admin_only) or (role:member and project_id:%(project_id)s)'
_READER = '(rule:admin_only) or (role:reader and project_id:%(project_id)s)'
_ADMIN = 'rule:admin_only'
_MANAGER = '(rule:admin_only) or (role:manager and project_id:%(project_id)s)'
_PARENT_MEMBER = '(rule:admin_only) or (role:member and rule:ext_parent_owner)'
_PARENT_READER = '(rule:admin_only) or (role:reader and rule:ext_parent_owner)'
_PARENT_MANAGER = '(rule:admin_only) or (role:manager and rule:ext_parent_owner)'
_SERVICE = '(rule:admin_only) or (rule:service_api)'
_NETWORK_MEMBER = '(rule:admin_only) or (rule:service_api) or role:member and rule:network_owner'
_ANY_READER = 'role:reader'
_NETWORK_MEMBER_OR_SERVICE = '(rule:admin_only) or (role:member and rule:network_owner) or rule:service_api'
_SUBNET_MEMBER = (
    'role:member and project_id:%(project_id)s or (rule:admin_only) or (role:member and rule:network_owner)')
_GROUP_MEMBER = '(rule:admin_only) or (role:member and rule:sg_owner)'
_QOS_READER = '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or rule:shared_qos_policy'
_GROUP_READER = '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or rule:shared_security_group'
_POOL_READER = '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or rule:shared_subnetpools'
_ADDRESS_READER = '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or rule:shared_address_groups'
_SCOPE_READER = 'rule:admin_only or role:reader and project_id:%(project_id)s or rule:shared_address_scopes'
_NOT_ALL_PROJECTS = (
    'rule:admin_only or (not field:rbac_policy:target_tenant=* and not field:rbac_policy:target_project=*)')
_SHARED_MEMBER = '(rule:admin_only) or (rule:service_api) or role:member and rule:network_owner or rule:shared'
_MEMBER_OR_ADVANCED = '(rule:admin_only) or (role:member and project_id:%(project_id)s) or rule:context_is_advsvc'

RULES = (
    Rule('get_availability_zone', _ANY_READER, 'List availability zones.'),
    Rule('get_service_provider', _ANY_READER, 'List service providers.'),
    Rule('get_flavor', _ANY_READER, 'List and show flavors of routers.'),
    Rule('create_flavor', _ADMIN, 'Create a flavor of routers.'),
    Rule('update_flavor', _ADMIN, 'Change a flavor of routers.'),
    Rule('delete_flavor', _ADMIN, 'Delete a flavor of routers.'),
    Rule('create_flavor_service_profile', _ADMIN, 'Give a flavor a service profile.'),
    Rule('delete_flavor_service_profile', _ADMIN, 'Take a service profile from a flavor.'),
    Rule('get_service_profile', _ADMIN, 'List and show service profiles of flavors.'),
    Rule('create_service_profile', _ADMIN, 'Create a service profile.'),
    Rule('update_service_profile', _ADMIN, 'Change a service profile.'),
    Rule('delete_service_profile', _ADMIN, 'Delete a service profile.'),
    Rule('get_agent', _ADMIN, 'List and show the hosts of the network service. Other callers get an empty list.'),
    Rule('update_agent', _ADMIN, 'Set a host of the network service up or down, or change its description.'),
    Rule('get_l3-routers', _ADMIN, 'List the routers of a host.'),
    Rule('create_l3-router', _ADMIN, 'Give a router to a host.'),
    Rule('delete_l3-router', _ADMIN, 'Take a router from its host.'),
    Rule('get_network_ip_availability', _SERVICE, 'Show the used addresses of networks.'),
    Rule('get_quota', _READER, 'Show the quotas of a project. For a list of the quotas of all projects, the rule is '
         'checked without a project, so by default only administrators pass.'),
    Rule('update_quota', _ADMIN, 'Change the quotas of a project.'),
    Rule('delete_quota', _ADMIN, 'Reset the quotas of a project to the defaults.'),
    Rule('get_rule_type', _ANY_READER, 'List and show types of QoS rules.'),
    Rule('get_auto_allocated_topology', _READER, 'Show the automatically allocated topology of a project.'),
    Rule('create_network', _MEMBER, 'Create a network.'),
    Rule('delete_auto_allocated_topology', _MEMBER, 'Delete the automatically allocated topology of a project.'),
    Rule('get_network', '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or rule:service_api or '
         'rule:shared or rule:external or rule:context_is_advsvc', 'List and show networks.'),
    Rule('get_network:provider:network_type', _ADMIN, 'Show provider:network_type of networks.'),
    Rule('get_network:provider:physical_network', _ADMIN, 'Show provider:physical_network of networks.'),
    Rule('get_network:provider:segmentation_id', _ADMIN, 'Show provider:segmentation_id of networks.'),
    Rule('create_network:shared', _ADMIN, 'Set shared of a new network.'),
    Rule('create_network:router:external', _ADMIN, 'Set router:external of a new network.'),
    Rule('create_network:port_security_enabled', _MEMBER, 'Set port_security_enabled of a new network.'),
    Rule('create_network:provider:network_type', _ADMIN, 'Set provider:network_type of a new network.'),
    Rule('create_network:provider:physical_network', _ADMIN, 'Set provider:physical_network of a new network.'),
    Rule('create_network:provider:segmentation_id', _ADMIN, 'Set provider:segmentation_id of a new network.'),
    Rule('create_network:is_default', _ADMIN, 'Set is_default of a new network.'),
    Rule('create_network:tags', _MEMBER, 'Create a network with tags.'),
    Rule('update_network', _MEMBER, 'Change a network.'),
    Rule('update_network:shared', _ADMIN, 'Change shared of a network.'),
    Rule('update_network:router:external', _ADMIN, 'Change router:external of a network.'),
    Rule('update_network:port_security_enabled', _MEMBER, 'Change port_security_enabled of a network.'),
    Rule('update_network:is_default', _ADMIN, 'Change is_default of a network.'),
    Rule('delete_network', _MEMBER, 'Delete a network.'),
    Rule('get_network:tags', '(rule:admin_only) or (role:reader and project_id:%(project_id)s) or rule:shared or '
         'rule:external or rule:context_is_advsvc', 'Show the tags of a network.'),
    Rule('update_network:tags', _MEMBER, 'Add or replace tags of a network.'),
    Rule('delete_network:tags', _MEMBER, 'Delete tags of a network.'),
    Rule('get_subnet', 'role:reader and project_id:%(project_id)s or rule:shared or rule:external_network or '
         '(rule:admin_only) or (role:reader and rule:network_owner) or rule:service_api', 'List and show subnets.'),
    Rule('create_subnet', '(rule:admin_only) or (role:member and rule:network_owner)', 'Create a subnet.'),
    Rule('create_subnet:service_types', _ADMIN, 'Set service_types of a new subnet.'),
    Rule('create_subnet:tags', _SUBNET_MEMBER, 'Create a subnet with tags.'),
    Rule('update_subnet', _SUBNET_MEMBER, 'Change a subnet.'),
    Rule('update_subnet:service_types', _ADMIN, 'Change service_types of a subnet.'),
    Rule('delete_subnet', _SUBNET_MEMBER, 'Delete a subnet.'),
    Rule('get_subnet:tags', 'role:reader and project_id:%(project_id)s or rule:shared or rule:external_network or '
         '(rule:admin_only) or (role:reader and rule:network_owner)', 'Show the tags of a subnet.'),
    Rule('update_subnet:tags', _SUBNET_MEMBER, 'Add or replace tags of a subnet.'),
    Rule('delete_subnet:tags', _SUBNET_MEMBER, 'Delete tags of a subnet.'),
    Rule('get_address_group', _ADDRESS_READER, 'List and show address groups.'),
    Rule('create_address_group', _MEMBER, 'Create an address group.'),
    Rule('update_address_group', _MEMBER, 'Change the name or description of an address group.'),
    Rule('delete_address_group', _MEMBER, 'Delete an address group.'),
    Rule('add_addresses', _MEMBER, 'Add ranges to an address group.'),
    Rule('remove_addresses', _MEMBER, 'Remove ranges from an address group.'),
    Rule('get_address_scope', _SCOPE_READER, 'List and show address scopes.'),
    Rule('create_address_scope', _MEMBER, 'Create an address scope.'),
    Rule('create_address_scope:shared', _ADMIN, 'Set shared of a new address scope.'),
    Rule('update_address_scope', _MEMBER, 'Change an address scope.'),
    Rule('update_address_scope:shared', _ADMIN, 'Change shared of an address scope.'),
    Rule('delete_address_scope', _MEMBER, 'Delete an address scope.'),
    Rule('get_subnetpool', _POOL_READER, 'List and show subnet pools.'),
    Rule('create_subnetpool', _MEMBER, 'Create a subnet pool.'),
    Rule('create_subnetpool:shared', _ADMIN, 'Set shared of a new subnet pool.'),
    Rule('create_subnetpool:is_default', _ADMIN, 'Set is_default of a new subnet pool.'),
    Rule('create_subnetpool:tags', _MEMBER, 'Create a subnet pool with tags.'),
    Rule('update_subnetpool', _MEMBER, 'Change a subnet pool.'),
    Rule('update_subnetpool:is_default', _ADMIN, 'Change is_default of a subnet pool.'),
    Rule('delete_subnetpool', _MEMBER, 'Delete a subnet pool.'),
    Rule('add_prefixes', _MEMBER, 'Add ranges to a subnet pool.'),
    Rule('remove_prefixes', _MEMBER, 'Remove ranges from a subnet pool.'),
    Rule('get_subnetpool:tags', _POOL_READER, 'Show the tags of a subnet pool.'),
    Rule('update_subnetpool:tags', _MEMBER, 'Add or replace tags of a subnet pool.'),
    Rule('delete_subnetpool:tags', _MEMBER, 'Delete tags of a subnet pool.'),
    Rule('get_port', '(rule:admin_only) or (rule:service_api) or role:reader and rule:network_owner or role:reader '
         'and project_id:%(project_id)s', 'List and show ports.'),
    Rule('get_port:binding:host_id', _SERVICE, 'Show binding:host_id of ports.'),
    Rule('get_port:binding:vif_type', _SERVICE, 'Show binding:vif_type of ports.'),
    Rule('get_port:binding:profile', _SERVICE, 'Show binding:profile of ports.'),
    Rule('get_port:binding:vif_details', _SERVICE, 'Show binding:vif_details of ports.'),
    Rule('get_port:resource_request', _ADMIN, 'Show resource_request of ports.'),
    Rule('create_port',
         '(rule:admin_only) or (rule:service_api) or role:member and (rule:network_owner or rule:shared)',
         'Create a port.'),
    Rule('create_port:mac_address', _NETWORK_MEMBER, 'Set mac_address of a new port.'),
    Rule('create_port:fixed_ips', _SHARED_MEMBER, 'Set fixed_ips of a new port.'),
    Rule('create_port:fixed_ips:ip_address', _NETWORK_MEMBER, 'Set fixed_ips:ip_address of a new port.'),
    Rule('create_port:fixed_ips:subnet_id', _SHARED_MEMBER, 'Set fixed_ips:subnet_id of a new port.'),
    Rule('create_port:device_id', _SERVICE, 'Set device_id of a new port.'),
    Rule('create_port:device_owner', _SERVICE, 'Set device_owner of a new port.'),
    Rule('create_port:binding:host_id', _SERVICE, 'Set binding:host_id of a new port.'),
    Rule('create_port:port_security_enabled', _NETWORK_MEMBER, 'Set port_security_enabled of a new port.'),
    Rule('create_port:allowed_address_pairs', _NETWORK_MEMBER_OR_SERVICE, 'Set allowed_address_pairs of a new port.'),
    Rule('create_port:allowed_address_pairs:mac_address', _NETWORK_MEMBER_OR_SERVICE,
         'Set allowed_address_pairs:mac_address of a new port.'),
    Rule('create_port:allowed_address_pairs:ip_address', _NETWORK_MEMBER_OR_SERVICE,
         'Set allowed_address_pairs:ip_address of a new port.'),
    Rule('create_port:tags', _MEMBER_OR_ADVANCED, 'Create a port with tags.'),
    Rule('update_port', '(rule:admin_only) or (rule:service_api) or role:member and project_id:%(project_id)s',
         'Change a port.'),
    Rule('update_port:mac_address', '(rule:admin_only) or (rule:service_api) or role:manager and rule:network_owner',
         'Change mac_address of a port.'),
    Rule('update_port:fixed_ips', _NETWORK_MEMBER, 'Change fixed_ips of a port.'),
    Rule('update_port:fixed_ips:ip_address', _NETWORK_MEMBER, 'Change fixed_ips:ip_address of a port.'),
    Rule('update_port:fixed_ips:subnet_id', _SHARED_MEMBER, 'Change fixed_ips:subnet_id of a port.'),
    Rule('update_port:device_id', _SERVICE, 'Change device_id of a port.'),
    Rule('update_port:device_owner', _SERVICE, 'Change device_owner of a port.'),
    Rule('update_port:binding:host_id', _SERVICE, 'Change binding:host_id of a port.'),
    Rule('update_port:port_security_enabled', _NETWORK_MEMBER, 'Change port_security_enabled of a port.'),
    Rule('update_port:allowed_address_pairs', _NETWORK_MEMBER_OR_SERVICE, 'Change allowed_address_pairs of a port.'),
    Rule('update_port:allowed_address_pairs:mac_address', _NETWORK_MEMBER_OR_SERVICE,
         'Change allowed_address_pairs:mac_address of a port.'),
    Rule('update_port:allowed_address_pairs:ip_address', _NETWORK_MEMBER_OR_SERVICE,
         'Change allowed_address_pairs:ip_address of a port.'),
    Rule('delete_port', '(rule:admin_only) or (rule:service_api) or (service_roles:service and (role:member and '
         'rule:network_owner or role:member and project_id:%(project_id)s)) or (not rule:compute_device and not '
         'rule:baremetal_device and not rule:manila_device and (role:member and rule:network_owner or role:member and '
         'project_id:%(project_id)s))', 'Delete a port.'),
    Rule('get_port:tags', 'rule:context_is_advsvc or (rule:admin_only) or (role:reader and rule:network_owner) or '
         'role:reader and project_id:%(project_id)s', 'Show the tags of a port.'),
    Rule('update_port:tags', _MEMBER_OR_ADVANCED, 'Add or replace tags of a port.'),
    Rule('delete_port:tags', 'rule:context_is_advsvc or role:member and project_id:%(project_id)s or '
         '(rule:admin_only) or (role:member and rule:network_owner)', 'Delete tags of a port.'),
    Rule('get_security_group', _GROUP_READER, 'List and show security groups.'),
    Rule('create_security_group', _MEMBER, 'Create a security group.'),
    Rule('create_security_group:tags', _MEMBER, 'Create a security group with tags.'),
    Rule('update_security_group', _MEMBER, 'Change a security group.'),
    Rule('delete_security_group', _MEMBER, 'Delete a security group.'),
    Rule('get_security_group:tags', _GROUP_READER, 'Show the tags of a security group.'),
    Rule('update_security_group:tags', _MEMBER, 'Add or replace tags of a security group.'),
    Rule('delete_security_group:tags', _MEMBER, 'Delete tags of a security group.'),
    Rule('get_security_group_rule', '(rule:admin_only) or (role:reader and rule:sg_owner)',
         'List and show security group rules.'),
    Rule('create_security_group_rule', _GROUP_MEMBER, 'Create a security group rule.'),
    Rule('update_security_group_rule', _GROUP_MEMBER, 'Change a security group rule.'),
    Rule('delete_security_group_rule', _GROUP_MEMBER, 'Delete a security group rule.'),
    Rule('get_default_security_group_rule', _ANY_READER, 'List and show default security group rules.'),
    Rule('create_default_security_group_rule', _ADMIN, 'Create a default security group rule.'),
    Rule('delete_default_security_group_rule', _ADMIN, 'Delete a default security group rule.'),
    Rule('get_router', _READER, 'List and show routers.'),
    Rule('get_router:distributed', _ADMIN, 'Show distributed of routers.'),
    Rule('get_router:ha', _ADMIN, 'Show ha of routers.'),
    Rule('create_router', _MEMBER, 'Create a router.'),
    Rule('create_router:external_gateway_info', _MEMBER, 'Set external_gateway_info of a new router.'),
    Rule('create_router:external_gateway_info:network_id', _MEMBER,
         'Set external_gateway_info:network_id of a new router.'),
    Rule('create_router:external_gateway_info:enable_snat', _ADMIN,
         'Set external_gateway_info:enable_snat of a new router.'),
    Rule('create_router:external_gateway_info:external_fixed_ips', _ADMIN,
         'Set external_gateway_info:external_fixed_ips of a new router.'),
    Rule('create_router:tags', _MEMBER, 'Create a router with tags.'),
    Rule('update_router', _MEMBER, 'Change a router.'),
    Rule('update_router:external_gateway_info', _MEMBER, 'Change external_gateway_info of a router.'),
    Rule('update_router:external_gateway_info:network_id', _MEMBER,
         'Change external_gateway_info:network_id of a router.'),
    Rule('update_router:external_gateway_info:enable_snat', _ADMIN,
         'Change external_gateway_info:enable_snat of a router.'),
    Rule('update_router:external_gateway_info:external_fixed_ips', _ADMIN,
         'Change external_gateway_info:external_fixed_ips of a router.'),
    Rule('delete_router', _MEMBER, 'Delete a router.'),
    Rule('add_router_interface', _MEMBER, 'Connect a router to a subnet.'),
    Rule('remove_router_interface', _MEMBER, 'Disconnect a router from a subnet.'),
    Rule('add_extraroutes', _MEMBER, 'Add routes to a router.'),
    Rule('remove_extraroutes', _MEMBER, 'Remove routes from a router.'),
    Rule('get_l3-agents', _ADMIN, 'Show the host of a router.'),
    Rule('get_router:tags', _READER, 'Show the tags of a router.'),
    Rule('update_router:tags', _MEMBER, 'Add or replace tags of a router.'),
    Rule('delete_router:tags', _MEMBER, 'Delete tags of a router.'),
    Rule('get_floatingip', _READER, 'List and show floating IPs.'),
    Rule('get_router_conntrack_helper', _PARENT_READER, 'List and show conntrack helpers of a router.'),
    Rule('create_router_conntrack_helper', _PARENT_MEMBER, 'Create a conntrack helper of a router.'),
    Rule('update_router_conntrack_helper', _PARENT_MEMBER, 'Change a conntrack helper of a router.'),
    Rule('delete_router_conntrack_helper', _PARENT_MEMBER, 'Delete a conntrack helper of a router.'),
    Rule('create_floatingip', _MEMBER, 'Create a floating IP.'),
    Rule('create_floatingip:floating_ip_address', _MANAGER, 'Set floating_ip_address of a new floating IP.'),
    Rule('create_floatingip:tags', _MEMBER, 'Create a floating IP with tags.'),
    Rule('update_floatingip', _MEMBER, 'Change a floating IP.'),
    Rule('delete_floatingip', _MEMBER, 'Delete a floating IP.'),
    Rule('get_floatingip_port_forwarding', _PARENT_READER, 'List and show port forwardings.'),
    Rule('create_floatingip_port_forwarding', _PARENT_MEMBER, 'Create a port forwarding.'),
    Rule('update_floatingip_port_forwarding', _PARENT_MEMBER, 'Change a port forwarding.'),
    Rule('delete_floatingip_port_forwarding', _PARENT_MEMBER, 'Delete a port forwarding.'),
    Rule('get_floatingip:tags', _READER, 'Show the tags of a floating IP.'),
    Rule('update_floatingip:tags', _MEMBER, 'Add or replace tags of a floating IP.'),
    Rule('delete_floatingip:tags', _MEMBER, 'Delete tags of a floating IP.'),
    Rule('get_rbac_policy', _READER, 'List and show RBAC policies.'),
    Rule('create_rbac_policy', _MEMBER, 'Create an RBAC policy.'),
    Rule('create_rbac_policy:target_tenant', _NOT_ALL_PROJECTS, 'Set target_tenant of a new RBAC policy.'),
    Rule('update_rbac_policy', _MEMBER, 'Change an RBAC policy.'),
    Rule('update_rbac_policy:target_tenant', _NOT_ALL_PROJECTS, 'Change target_tenant of an RBAC policy.'),
    Rule('delete_rbac_policy', _MEMBER, 'Delete an RBAC policy.'),
    Rule('get_policy', _QOS_READER, 'List and show QoS policies.'),
    Rule('create_policy', _MANAGER, 'Create a QoS policy.'),
    Rule('create_policy:shared', _ADMIN, 'Set shared of a new QoS policy.'),
    Rule('create_policy:tags', _MANAGER, 'Create a QoS policy with tags.'),
    Rule('update_policy', _MANAGER, 'Change a QoS policy.'),
    Rule('update_policy:shared', _ADMIN, 'Change shared of a QoS policy.'),
    Rule('delete_policy', _MANAGER, 'Delete a QoS policy.'),
    Rule('get_policy_bandwidth_limit_rule', _PARENT_READER, 'List and show bandwidth limit rules of a QoS policy.'),
    Rule('create_policy_bandwidth_limit_rule', _PARENT_MANAGER, 'Create a bandwidth limit rule of a QoS policy.'),
    Rule('update_policy_bandwidth_limit_rule', _PARENT_MANAGER, 'Change a bandwidth limit rule of a QoS policy.'),
    Rule('delete_policy_bandwidth_limit_rule', _PARENT_MANAGER, 'Delete a bandwidth limit rule of a QoS policy.'),
    Rule('get_policy_dscp_marking_rule', _PARENT_READER, 'List and show DSCP marking rules of a QoS policy.'),
    Rule('create_policy_dscp_marking_rule', _PARENT_MANAGER, 'Create a DSCP marking rule of a QoS policy.'),
    Rule('update_policy_dscp_marking_rule', _PARENT_MANAGER, 'Change a DSCP marking rule of a QoS policy.'),
    Rule('delete_policy_dscp_marking_rule', _PARENT_MANAGER, 'Delete a DSCP marking rule of a QoS policy.'),
    Rule('get_policy_minimum_bandwidth_rule', _PARENT_READER, 'List and show minimum bandwidth rules of a QoS policy.'),
    Rule('create_policy_minimum_bandwidth_rule', _PARENT_MANAGER, 'Create a minimum bandwidth rule of a QoS policy.'),
    Rule('update_policy_minimum_bandwidth_rule', _PARENT_MANAGER, 'Change a minimum bandwidth rule of a QoS policy.'),
    Rule('delete_policy_minimum_bandwidth_rule', _PARENT_MANAGER, 'Delete a minimum bandwidth rule of a QoS policy.'),
    Rule('get_policy_minimum_packet_rate_rule', _PARENT_READER,
         'List and show minimum packet rate rules of a QoS policy.'),
    Rule('create_policy_minimum_packet_rate_rule', _PARENT_MANAGER,
         'Create a minimum packet rate rule of a QoS policy.'),
    Rule('update_policy_minimum_packet_rate_rule', _PARENT_MANAGER,
         'Change a minimum packet rate rule of a QoS policy.'),
    Rule('delete_policy_minimum_packet_rate_rule', _PARENT_MANAGER,
         'Delete a minimum packet rate rule of a QoS policy.'),
    Rule('get_policy_packet_rate_limit_rule', _PARENT_READER, 'List and show packet rate limit rules of a QoS policy.'),
    Rule('create_policy_packet_rate_limit_rule', _PARENT_MANAGER, 'Create a packet rate limit rule of a QoS policy.'),
    Rule('get_trunk', _READER, 'List and show trunks.'),
    Rule('create_trunk', _MEMBER, 'Create a trunk.'),
    Rule('create_trunk:tags', _MEMBER, 'Create a trunk with tags.'),
    Rule('update_trunk', _MEMBER, 'Change a trunk.'),
    Rule('delete_trunk', _MEMBER, 'Delete a trunk.'),
    Rule('get_subports', _READER, 'List the subports of a trunk.'),
    Rule('add_subports', _MEMBER, 'Add subports to a trunk.'),
    Rule('remove_subports', _MEMBER, 'Remove subports from a trunk.'),
    Rule('get_trunk:tags', _READER, 'Show the tags of a trunk.'),
    Rule('update_trunk:tags', _MEMBER, 'Add or replace tags of a trunk.'),
    Rule('delete_trunk:tags', _MEMBER, 'Delete tags of a trunk.'),
    Rule('get_policy:tags', _QOS_READER, 'Show the tags of a QoS policy.'),
    Rule('update_policy:tags', _MANAGER, 'Add or replace tags of a QoS policy.'),
    Rule('delete_policy:tags', _MANAGER, 'Delete tags of a QoS policy.'),
)

# Documented rules of operations and fields that this service does not have; policy files may contain them.
ABSENT = names({
    '!': 'context_with_global_access',
    'rule:context_is_admin or project_id:%(network:project_id)s': 'admin_or_network_owner',
    'rule:owner or rule:admin_or_network_owner': 'admin_owner_or_network_owner',
    '': 'regular_user',
    'rule:admin_or_owner': 'default',
    'rule:context_is_admin or project_id:%(ext_parent:project_id)s': 'admin_or_ext_parent_owner',
    '(rule:admin_only) or (role:member and project_id:%(project_id)s)': '''
        create_floatingip:router_id update_floatingip:router_id create_local_ip update_local_ip delete_local_ip
        create_ndp_proxy update_ndp_proxy delete_ndp_proxy create_port:pvlan_type create_port:pvlan_community
        update_port:pvlan_type update_port:pvlan_community create_network:pvlan update_network:pvlan
        add_external_gateways add_external_gateways:external_gateways add_external_gateways:external_gateways:network_id
        update_external_gateways update_external_gateways:external_gateways
        update_external_gateways:external_gateways:network_id remove_external_gateways
        remove_external_gateways:external_gateways onboard_network_subnets
    ''',
    'rule:admin_only': '''
        create_agent delete_agent create_dhcp-network get_dhcp-networks delete_dhcp-network update_l3-router
        get_dhcp-agents create_router:evpn_vni
        create_network:segments get_network:segments update_network:segments update_network:provider:network_type
        update_network:provider:physical_network update_network:provider:segmentation_id create_network_segment_range
        create_network_segment_range:tags get_network_segment_range get_network_segment_range:tags
        update_network_segment_range update_network_segment_range:tags delete_network_segment_range
        delete_network_segment_range:tags create_port:hints create_port:trusted get_port:hints
        get_port:trusted update_port:hints update_port:trusted create_router:distributed create_router:ha
        create_router:enable_default_route_bfd create_router:enable_default_route_ecmp update_router:distributed
        update_router:ha update_router:enable_default_route_bfd update_router:enable_default_route_ecmp
        add_external_gateways:external_gateways:enable_snat add_external_gateways:external_gateways:external_fixed_ips
        update_external_gateways:external_gateways:enable_snat
        update_external_gateways:external_gateways:external_fixed_ips create_segment create_segments_tags get_segment
        get_segments_tags update_segment update_segments_tags delete_segment delete_segments_tags
        create_subnet:segment_id get_subnet:segment_id update_subnet:segment_id update_subnet:leak_routes
    ''',
    '(rule:admin_only) or (role:reader and project_id:%(project_id)s)': '''
        get_router:evpn_vni get_flavor_service_profile get_floatingip_pool get_local_ip get_metering_label
        get_metering_label_rule get_ndp_proxy get_port:pvlan_type get_port:pvlan_community get_network:pvlan
        get_security_groups_default_statefulness
    ''',
    '(rule:admin_only) or (role:member and rule:ext_parent_owner)': '''
        create_local_ip_port_association delete_local_ip_port_association
    ''',
    '(rule:admin_only) or (role:reader and rule:ext_parent_owner)': '''
        get_local_ip_port_association get_alias_bandwidth_limit_rule
        get_alias_dscp_marking_rule get_alias_minimum_bandwidth_rule
    ''',
    '(rule:admin_only) or (role:manager and project_id:%(project_id)s)': '''
        get_loggable_resource create_log get_log update_log delete_log create_metering_label delete_metering_label
        create_metering_label_rule delete_metering_label_rule create_security_groups_default_statefulness
        update_security_groups_default_statefulness delete_security_groups_default_statefulness
    ''',
    '(rule:admin_only) or (rule:service_api)': 'get_port_binding',
    'rule:service_api':
        'create_port_binding delete_port_binding activate create_port:binding:profile update_port:binding:profile',
    'field:port:device_owner=~^network:': 'network_device',
    'rule:context_is_admin or role:data_plane_integrator': 'admin_or_data_plane_int',
    '(rule:admin_only) or (role:member and project_id:%(project_id)s) or rule:service_api':
        'create_port:binding:vnic_type',
    '(rule:admin_only) or (rule:service_api) or role:member and project_id:%(project_id)s':
        'update_port:binding:vnic_type',
    'rule:admin_only or role:data_plane_integrator': 'update_port:data_plane_status',
    '(rule:admin_only) or (role:manager and rule:ext_parent_owner)': '''
        update_policy_packet_rate_limit_rule delete_policy_packet_rate_limit_rule
        update_alias_bandwidth_limit_rule delete_alias_bandwidth_limit_rule
        update_alias_dscp_marking_rule delete_alias_dscp_marking_rule update_alias_minimum_bandwidth_rule
        delete_alias_minimum_bandwidth_rule
    ''',
    'rule:get_policy_minimum_packet_rate_rule': 'get_alias_minimum_packet_rate_rule',
    'rule:update_policy_minimum_packet_rate_rule': 'update_alias_minimum_packet_rate_rule',
    'rule:delete_policy_minimum_packet_rate_rule': 'delete_alias_minimum_packet_rate_rule',
    '(not field:rbac_policy:target_tenant=* and not field:rbac_policy:target_project=*) or rule:admin_only':
        'restrict_wildcard',
    'rule:admin_only or not field:rbac_policy:target_project=*':
        'create_rbac_policy:target_project update_rbac_policy:target_project',
    'rule:context_is_admin or project_id:%(security_group:project_id)s': 'admin_or_sg_owner',
    'rule:owner or rule:admin_or_sg_owner': 'admin_owner_or_sg_owner',
    'field:security_group_rules:belongs_to_default_sg=True': 'rule_default_sg',
    '(rule:admin_only) or (rule:service_api) or role:reader and project_id:%(project_id)s':
        'create_default_security_group',
})

NETWORK = Service('network', 'network', 'network_policy.yaml', BASE, RULES, ABSENT)
