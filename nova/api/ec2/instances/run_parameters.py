"""Parameters of RunInstances that a launch template may have, and what is refused of them in either."""
from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import tags
from nova.api.ec2.instances import metadata_options

TAKES = ('ImageId InstanceType KeyName SecurityGroups SecurityGroupIds UserData Placement TagSpecifications '
         'BlockDeviceMappings MetadataOptions DisableApiTermination DisableApiStop InstanceInitiatedShutdownBehavior')
IGNORES = 'Monitoring EbsOptimized'
# of a network interface: the parameter of the instance that says the same, and what changes nothing
_INTERFACE = {'SubnetId': 'SubnetId', 'Groups': 'SecurityGroupIds', 'PrivateIpAddress': 'PrivateIpAddress'}
_MADE = 'NetworkInterfaceId'             # an interface that is there already, and stays
_PLAIN_INTERFACE = (('DeviceIndex', 0), ('DeleteOnTermination', True), ('AssociatePublicIpAddress', False))
UNPROTECTED = ('Instances cannot be protected from termination or a stop: the lock of the compute API, which would do '
               'it, stops every other action as well.')
# parameter: (its only value, why)
_ONLY = {'DisableApiTermination': (False, UNPROTECTED), 'DisableApiStop': (False, UNPROTECTED),
         'InstanceInitiatedShutdownBehavior': ('stop', 'An instance that shuts itself down is stopped.')}
MOST_INTERFACES = 16
_SAYS = ('A network interface of an instance that is started has a SubnetId, Groups and a PrivateIpAddress, and is '
         'deleted with the instance; or it has a NetworkInterfaceId alone.')
LONGEST_USER_DATA = 16384                # bytes
_PLACEMENT = {'AvailabilityZone', 'GroupName'}
_EBS = {'SnapshotId', 'VolumeSize', 'DeleteOnTermination', 'VolumeType'}


def check(given: Mapping[str, Any]) -> None:
    """
    :raises Ec2Error: something that RunInstances would refuse, whatever there is in the cloud
    """
    tags.given(given.get('TagSpecifications'), 'instance')
    for name, (only, why) in _ONLY.items():
        if given.get(name, only) != only:
            raise errors.unsupported(why)
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
    instance may be given in place of it, or several (see ``_several``), and without tags for volumes where it makes
    none, as Ansible sends them.

    :raises Ec2Error: one asks for what is not carried out
    """
    found = dict(given)
    if found.get('TagSpecifications') and not found.get('BlockDeviceMappings'):
        found['TagSpecifications'] = [each for each in found['TagSpecifications']
                                      if each.get('ResourceType') != 'volume']
    interfaces = found.pop('NetworkInterfaces', None)
    if not interfaces:
        return found
    if len(interfaces) > 1:
        return {**found, **_several(interfaces, found)}
    one = {name: value for name, value in interfaces[0].items() if (name, value) not in _PLAIN_INTERFACE}
    if one.keys() <= {_MADE, 'DeleteOnTermination'} and one.get(_MADE):
        if interfaces[0].get('DeleteOnTermination'):
            raise errors.unsupported('An interface that was made before stays when the instance is terminated.')
        if any(found.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
            raise errors.Ec2Error('InvalidParameterCombination', 'Subnet, address and groups are those of the network '
                                                                 'interface.')
        return {**found, _MADE: one[_MADE]}
    if set(one) - _INTERFACE.keys():
        raise errors.unsupported(_SAYS)
    if any(found.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
        raise errors.Ec2Error('InvalidParameterCombination', 'A subnet, an address and groups are given with '
                                                             'the network interface, or without one.')
    return {**found, **{_INTERFACE[name]: value for name, value in one.items()}}


def _several(interfaces: Sequence[Mapping[str, Any]], others: Mapping[str, Any]) -> dict[str, Any]:
    """Several interfaces, in the order of their device indexes: what ``of_request`` makes of one, of each. The compute
    API gives all that it makes the same security groups.

    :raises Ec2Error: they ask for what is not carried out
    """
    if any(others.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
        raise errors.Ec2Error('InvalidParameterCombination', 'A subnet, an address and groups are given with the '
                                                             'network interfaces, or without one.')
    ordered = sorted(interfaces, key=lambda each: int(each.get('DeviceIndex', 0)))
    if [each.get('DeviceIndex', 0) for each in ordered] != list(range(len(ordered))):
        raise errors.Ec2Error('InvalidParameterValue', 'The device indexes of network interfaces are 0, 1 and so on, '
                                                       'each once.')
    if len(ordered) > MOST_INTERFACES:
        raise errors.Ec2Error('AttachmentLimitExceeded', f'An instance is started with {MOST_INTERFACES} network '
                                                         'interfaces at most.')
    made = [{name: value for name, value in each.items() if name != 'DeviceIndex'} for each in ordered]
    made = [of_request({'NetworkInterfaces': [each]}) for each in made]
    groups = [each.pop('SecurityGroupIds', None) for each in made if _MADE not in each]
    if any(each != groups[0] for each in groups):
        raise errors.unsupported('The network interfaces that are made with an instance have the same security groups; '
                                 'make one with others before, by CreateNetworkInterface.')
    if any(_MADE not in each and 'SubnetId' not in each for each in made):
        raise errors.missing('NetworkInterface.SubnetId')
    return {'NetworkInterfaces': made, **({'SecurityGroupIds': groups[0]} if groups and groups[0] else {})}


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
