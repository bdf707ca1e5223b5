"""All operations of the EC2 API."""
from nova.api.ec2 import images
from nova.api.ec2 import instances
from nova.api.ec2 import key_pairs
from nova.api.ec2 import launch_templates
from nova.api.ec2 import operations
from nova.api.ec2 import placement_groups
from nova.api.ec2 import places
from nova.api.ec2 import registration
from nova.api.ec2 import routing
from nova.api.ec2 import security_groups
from nova.api.ec2 import tags
from nova.api.ec2 import volumes
from nova.api.ec2 import vpcs

OPERATIONS: dict[str, operations.Operation] = {row.name: row for row in (
    *instances.OPERATIONS, *images.OPERATIONS, *registration.OPERATIONS, *key_pairs.OPERATIONS,
    *security_groups.OPERATIONS, *volumes.OPERATIONS, *places.OPERATIONS, *vpcs.OPERATIONS, *routing.OPERATIONS,
    *placement_groups.OPERATIONS,
    *launch_templates.OPERATIONS, *tags.OPERATIONS)}
