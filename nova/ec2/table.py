"""Table of all operations of the EC2 API."""
from nova.ec2 import key_pairs
from nova.ec2 import operations
from nova.ec2 import regions
from nova.ec2 import tags
from nova.ec2.images import changes
from nova.ec2.images import listing as images
from nova.ec2.images import registration
from nova.ec2.instances import attributes
from nova.ec2.instances import consoles
from nova.ec2.instances import launch_templates
from nova.ec2.instances import launches
from nova.ec2.instances import listing as instances
from nova.ec2.instances import placement_groups
from nova.ec2.instances import power
from nova.ec2.instances import types
from nova.ec2.networks import addresses
from nova.ec2.networks import dhcp_options
from nova.ec2.networks import gateways
from nova.ec2.networks import interface_changes
from nova.ec2.networks import network_interfaces
from nova.ec2.networks import route_tables
from nova.ec2.networks import routes
from nova.ec2.networks import security_groups
from nova.ec2.networks import security_rules
from nova.ec2.networks import subnets
from nova.ec2.networks import vpcs
from nova.ec2.volumes import attachments
from nova.ec2.volumes import snapshots
from nova.ec2.volumes import status
from nova.ec2.volumes import volumes

MODULES = (
    instances, launches, power, attributes, consoles, launch_templates, placement_groups,
    images, changes, registration, types, key_pairs, volumes, status, attachments, snapshots,
    security_groups, security_rules, addresses, network_interfaces, interface_changes,
    vpcs, subnets, gateways, route_tables, routes, dhcp_options,
    regions, tags)
OPERATIONS: dict[str, operations.Operation] = {row.name: row for module in MODULES for row in module.OPERATIONS}
