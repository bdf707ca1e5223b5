"""Type of a server in the compute API, with the fields that the EC2 API reads. Only administrators get all fields."""
from typing import Any, TypedDict

Server = TypedDict('Server', {
    'id': str, 'name': str, 'status': str, 'created': str, 'locked': bool, 'metadata': dict[str, str],
    'image': Any, 'flavor': dict[str, Any], 'addresses': dict[str, list[dict[str, Any]]],
    'security_groups': list[dict[str, str]], 'key_name': str | None, 'user_data': str | None, 'fault': dict[str, Any],
    'availability_zone': str, 'server_groups': list[str], 'os-instance-categories:category': str,
    'os-extended-volumes:volumes_attached': list[dict[str, Any]], 'OS-EXT-AZ:availability_zone': str | None,
    'OS-EXT-STS:vm_state': str, 'OS-EXT-STS:task_state': str | None, 'OS-EXT-STS:power_state': int,
    'OS-SRV-USG:launched_at': str | None, 'OS-EXT-SRV-ATTR:user_data': str | None,
    'OS-EXT-SRV-ATTR:root_device_name': str | None, 'OS-EXT-SRV-ATTR:kernel_id': str | None,
    'OS-EXT-SRV-ATTR:ramdisk_id': str | None, 'OS-EXT-SRV-ATTR:launch_index': int}, total=False)
