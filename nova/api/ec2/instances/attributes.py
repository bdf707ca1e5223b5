"""Attributes of instances."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2.instances import views


def _user_data(req: operations.Request, server: dict[str, Any]) -> dict[str, Any]:
    return {'UserData': {'Value': server.get('OS-EXT-SRV-ATTR:user_data')}}


def _groups(req: operations.Request, server: dict[str, Any]) -> list[dict[str, Any]]:
    found = req.call('compute', 'GET', f'/servers/{server["id"]}/os-security-groups')['security_groups']
    return [{'GroupId': req.ids.one('sg', group['id']), 'GroupName': group['name']} for group in found]


# attribute: function of (request, server) that gives its part of the answer
ATTRIBUTES: dict[str, Any] = {
    'instanceType': lambda req, server: {'InstanceType': {'Value': server['flavor'].get('original_name')}},
    'userData': _user_data,
    'disableApiTermination': lambda req, server: {'DisableApiTermination': {'Value': server['locked']}},
    'rootDeviceName': lambda req, server: {'RootDeviceName': {'Value': server.get('OS-EXT-SRV-ATTR:root_device_name')}},
    'instanceInitiatedShutdownBehavior': lambda req, server: {'InstanceInitiatedShutdownBehavior': {'Value': 'stop'}},
    'ebsOptimized': lambda req, server: {'EbsOptimized': {'Value': False}},
    'kernel': lambda req, server: {}, 'ramdisk': lambda req, server: {},       # of the image, if there are any
    'groupSet': lambda req, server: {'Groups': _groups(req, server)},
    'blockDeviceMapping': lambda req, server: {
        'BlockDeviceMappings': views.Instances(req, [server]).one(server)['BlockDeviceMappings']},
}


def describe_instance_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given['Attribute'] not in ATTRIBUTES:
        raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not known here.')
    server = views.one_of(req, given)
    return {'InstanceId': req.ids.one('i', server['id']), **ATTRIBUTES[given['Attribute']](req, server)}


def modify_instance_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Termination protection alone, and only off: a lock of the compute API would stop every other action as well."""
    server = views.one_of(req, given)
    if (given.get('DisableApiTermination') or {}).get('Value'):
        raise errors.unsupported('Instances cannot be protected from termination; lock the server in the compute API.')
    if server['locked']:
        raise errors.Ec2Error('OperationNotPermitted', 'The server is locked in the compute API.')
    return {}


OPERATIONS = [
    operations.row('DescribeInstanceAttribute', describe_instance_attribute, 'InstanceId Attribute'),
    operations.row('ModifyInstanceAttribute', modify_instance_attribute, 'InstanceId DisableApiTermination'),
]
