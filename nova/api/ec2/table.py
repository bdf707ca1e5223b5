"""Table of all operations of the EC2 API."""
from nova.api.ec2 import key_pairs
from nova.api.ec2 import operations
from nova.api.ec2 import regions
from nova.api.ec2 import tags
from nova.api.ec2.images import changes
from nova.api.ec2.images import listing as images
from nova.api.ec2.images import registration
from nova.api.ec2.instances import attributes
from nova.api.ec2.instances import consoles
from nova.api.ec2.instances import launch_templates
from nova.api.ec2.instances import launches
from nova.api.ec2.instances import listing as instances
from nova.api.ec2.instances import placement_groups
from nova.api.ec2.instances import power
from nova.api.ec2.instances import types
from nova.api.ec2.networks import addresses
from nova.api.ec2.networks import dhcp_options
from nova.api.ec2.networks import gateways
from nova.api.ec2.networks import interface_changes
from nova.api.ec2.networks import network_interfaces
from nova.api.ec2.networks import route_tables
from nova.api.ec2.networks import routes
from nova.api.ec2.networks import security_groups
from nova.api.ec2.networks import security_rules
from nova.api.ec2.networks import subnets
from nova.api.ec2.networks import vpcs
from nova.api.ec2.volumes import attachments
from nova.api.ec2.volumes import snapshots
from nova.api.ec2.volumes import status
from nova.api.ec2.volumes import volumes

MODULES = (
    instances, launches, power, attributes, consoles, launch_templates, placement_groups,
    images, changes, registration, types, key_pairs, volumes, status, attachments, snapshots,
    security_groups, security_rules, addresses, network_interfaces, interface_changes,
    vpcs, subnets, gateways, route_tables, routes, dhcp_options,
    regions, tags)
OPERATIONS: dict[str, operations.Operation] = {row.name: row for module in MODULES for row in module.OPERATIONS}
