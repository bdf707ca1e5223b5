"""Parameters of RunInstances that a launch template may have, and what is refused of them in either."""
from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import tags

TAKES = ('ImageId InstanceType KeyName SecurityGroups SecurityGroupIds UserData Placement TagSpecifications '
         'BlockDeviceMappings')
IGNORES = 'Monitoring EbsOptimized'
LONGEST_USER_DATA = 16384                # bytes
_PLACEMENT = {'AvailabilityZone', 'GroupName'}
_EBS = {'SnapshotId', 'VolumeSize', 'DeleteOnTermination', 'VolumeType'}


def check(given: Mapping[str, Any]) -> None:
    """
    :raises Ec2Error: something that RunInstances would refuse, whatever there is in the cloud
    """
    tags.given(given.get('TagSpecifications'), 'instance')
    placement = {name for name, value in (given.get('Placement') or {}).items()
                 if (name, value) != ('Tenancy', 'default')}
    if others := sorted(placement - _PLACEMENT):
        raise errors.unsupported(f'The parameter Placement.{others[0]} of RunInstances is not supported.')
    for mapping in given.get('BlockDeviceMappings') or ():
        ebs = mapping.get('Ebs')
        if not ebs or mapping.get('VirtualName') or mapping.get('NoDevice') is not None or set(ebs) - _EBS:
            raise errors.unsupported('A block device mapping has a device name, and an Ebs with SnapshotId, '
                                     'VolumeSize, VolumeType or DeleteOnTermination.')
    if others := sorted(set(given.get('Monitoring') or ()) - {'Enabled'}):
        raise errors.unsupported(f'The parameter Monitoring.{others[0]} of RunInstances is not supported.')
    user_data(given)


def user_data(given: Mapping[str, Any]) -> bytes | None:
    """The user data of a request.

    :raises Ec2Error: it is no base64, or too long
    """
    if not given.get('UserData'):
        return None
    try:
        found = base64.b64decode(given['UserData'], validate=True)
    except ValueError:
        raise errors.Ec2Error('InvalidUserData.Malformed', 'User data is text in base64.') from None
    if len(found) > LONGEST_USER_DATA:
        raise errors.Ec2Error('InvalidParameterValue', f'User data has at most {LONGEST_USER_DATA} bytes.')
    return found
