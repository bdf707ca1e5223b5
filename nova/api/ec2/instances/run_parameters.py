"""Parameters of RunInstances that a launch template may have, and what is refused of them in either."""
from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import tags
from nova.api.ec2.instances import metadata_options

TAKES = ('ImageId InstanceType KeyName SecurityGroups SecurityGroupIds UserData Placement TagSpecifications '
         'BlockDeviceMappings MetadataOptions')
IGNORES = 'Monitoring EbsOptimized'
# of a network interface: the parameter of the instance that says the same, and what changes nothing
_INTERFACE = {'SubnetId': 'SubnetId', 'Groups': 'SecurityGroupIds', 'PrivateIpAddress': 'PrivateIpAddress'}
_MADE = 'NetworkInterfaceId'             # an interface that is there already, and stays
_PLAIN_INTERFACE = (('DeviceIndex', 0), ('DeleteOnTermination', True), ('AssociatePublicIpAddress', False))
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
    check_devices(given.get('BlockDeviceMappings') or ())
    if others := sorted(set(given.get('Monitoring') or ()) - {'Enabled'}):
        raise errors.unsupported(f'The parameter Monitoring.{others[0]} of RunInstances is not supported.')
    metadata_options.check(given.get('MetadataOptions') or {})
    user_data(given)


def check_devices(mappings: Sequence[Mapping[str, Any]]) -> None:
    """
    :raises Ec2Error: a block device mapping says what is not carried out
    """
    for mapping in mappings:
        ebs = mapping.get('Ebs')
        if not ebs or mapping.get('VirtualName') or mapping.get('NoDevice') is not None or {
                name for name, value in ebs.items() if (name, value) != ('Encrypted', False)} - _EBS:
            raise errors.unsupported('A block device mapping has a device name, and an Ebs with SnapshotId, '
                                     'VolumeSize, VolumeType or DeleteOnTermination.')


def of_request(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request in the form that a template has them: those of the one network interface that an
    instance may be given in place of it, and without tags for volumes where it makes none, as Ansible sends them.

    :raises Ec2Error: there are several, or it asks for what is not carried out
    """
    found = dict(given)
    if found.get('TagSpecifications') and not found.get('BlockDeviceMappings'):
        found['TagSpecifications'] = [each for each in found['TagSpecifications']
                                      if each.get('ResourceType') != 'volume']
    interfaces = found.pop('NetworkInterfaces', None)
    if not interfaces:
        return found
    one = {name: value for name, value in interfaces[0].items() if (name, value) not in _PLAIN_INTERFACE}
    if len(interfaces) == 1 and one.keys() <= {_MADE, 'DeleteOnTermination'} and one.get(_MADE):
        if interfaces[0].get('DeleteOnTermination'):
            raise errors.unsupported('An interface that was made before stays when the instance is terminated.')
        if any(found.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
            raise errors.Ec2Error('InvalidParameterCombination', 'Subnet, address and groups are those of the network '
                                                                 'interface.')
        return {**found, _MADE: one[_MADE]}
    if len(interfaces) > 1 or set(one) - _INTERFACE.keys():
        raise errors.unsupported('An instance is started with one network interface, of device index 0: a SubnetId, '
                                 'Groups, a PrivateIpAddress, deleted with the instance; or a NetworkInterfaceId.')
    if any(found.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
        raise errors.Ec2Error('InvalidParameterCombination', 'A subnet, an address and groups are given with '
                                                             'the network interface, or without one.')
    return {**found, **{_INTERFACE[name]: value for name, value in one.items()}}


def volume_type(given: Mapping[str, Any]) -> str | None:
    """The type of a volume that a client asks for; None: the cloud's default. ``standard``, EC2's oldest type, is what
    clients send who have no wish.
    """
    found = given.get('VolumeType')
    return str(found) if found not in (None, 'standard') else None


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
