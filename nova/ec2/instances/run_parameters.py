"""Parameters of RunInstances that launch templates may contain, and their validation."""
import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast, Final

from nova.ec2 import errors
from nova.ec2 import neutral
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2.instances import metadata_options
from nova.ec2.networks import network_interfaces

TAKES = ('ImageId InstanceType KeyName SecurityGroups SecurityGroupIds UserData Placement TagSpecifications '
         'BlockDeviceMappings MetadataOptions DisableApiTermination DisableApiStop InstanceInitiatedShutdownBehavior')
# {parameter of a network interface: equivalent parameter of the instance}
PUBLIC: Final = 'AssociatePublicIpAddress'
_INTERFACE = {'SubnetId': 'SubnetId', 'Groups': 'SecurityGroupIds', 'PrivateIpAddress': 'PrivateIpAddress',
              PUBLIC: PUBLIC}
_MADE = 'NetworkInterfaceId'             # ID of an existing interface, which is not deleted with the instance
_PLAIN_INTERFACE = (('DeviceIndex', 0), ('DeleteOnTermination', True))
UNPROTECTED = ('Instances cannot be protected from termination or stop: the lock of the compute API would also block '
               'all other actions.')
# {parameter: (only supported value, reason)}
_ONLY = {'DisableApiTermination': (False, UNPROTECTED), 'DisableApiStop': (False, UNPROTECTED),
         'InstanceInitiatedShutdownBehavior': ('stop', 'The only supported shutdown behavior is stop.')}
MAX_INTERFACES = 16
MAX_VOLUMES = 25                         # devices /dev/vdb to /dev/vdz
_INTERFACE_RULE = ('A new network interface may have SubnetId, Groups, PrivateIpAddress and '
         'AssociatePublicIpAddress, and is deleted with the instance; an existing one may only have a '
         'NetworkInterfaceId.')
MAX_USER_DATA = 16384                # bytes
_PLACEMENT = {'AvailabilityZone', 'GroupName'}
_EBS = {'SnapshotId', 'VolumeSize', 'DeleteOnTermination', 'VolumeType'}


def check(given: operations.Given) -> None:
    """Check parameters without looking up resources.

    :raises Ec2Error: an unsupported parameter
    """
    tags_of(given)
    values: Mapping[str, object] = given
    for name, (only, why) in _ONLY.items():
        if values.get(name, only) != only:
            raise errors.unsupported(why)
    if others := sorted(set(given.get('Placement') or ()) - _PLACEMENT):
        raise errors.unsupported(f'The parameter Placement.{others[0]} of RunInstances is not supported.')
    check_devices(given.get('BlockDeviceMappings') or ())
    metadata_options.check(given.get('MetadataOptions') or {})
    user_data(given)


def tags_of(given: operations.Given) -> tuple[dict[str, str], dict[str, str]]:
    """Return (tags of the instances, tags of their new volumes).

    :raises Ec2Error: tags for other resources, or too many
    """
    listed = given.get('TagSpecifications') or ()
    volumes = [each for each in listed if each.get('ResourceType') == 'volume']
    return (tags.given([each for each in listed if each not in volumes], 'instance'), tags.given(volumes, 'volume'))


def check_devices(mappings: Sequence[Mapping[str, Any]]) -> None:
    """Check block device mappings.

    :raises Ec2Error: an unsupported parameter
    """
    for mapping in mappings:
        ebs = mapping.get('Ebs')
        if others := sorted(set(ebs or ()) - _EBS):
            raise errors.unsupported(f'The parameter BlockDeviceMapping.Ebs.{others[0]} is not supported. '
                                     + neutral.REASONS.get(others[0], 'Omit it.'))
        if not ebs or mapping.get('VirtualName') or mapping.get('NoDevice') is not None:
            raise errors.unsupported('A block device mapping may have DeviceName, and Ebs with SnapshotId, '
                                     'VolumeSize, VolumeType or DeleteOnTermination.')


def of_request(given: operations.Given | protocol.Parameters) -> operations.Given:
    """Normalize the parameters of a request or template.

    A single network interface is replaced by parameters of the instance; ``_several`` handles several interfaces. Tags
    for volumes are removed if no volume is created, because Ansible always sends them.

    :raises Ec2Error: an unsupported parameter
    """
    return cast(operations.Given, _normalized({**given}))


def _normalized(found: dict[str, Any]) -> dict[str, Any]:
    if found.get('TagSpecifications') and not found.get('BlockDeviceMappings'):
        found['TagSpecifications'] = [each for each in found['TagSpecifications']
                                      if each.get('ResourceType') != 'volume']
    interfaces = found.pop('NetworkInterfaces', None)
    if not interfaces:
        return found
    if len(interfaces) > 1:
        return {**found, **_several(interfaces, found)}
    one = {name: value for name, value in interfaces[0].items() if (name, value) not in _PLAIN_INTERFACE}
    if len(one.get('PrivateIpAddresses') or ()) == 1:
        one['PrivateIpAddress'] = network_interfaces.private_address(
            one.get('PrivateIpAddress'), one['PrivateIpAddresses'])
        one.pop('PrivateIpAddresses')
    if one.keys() <= {_MADE, 'DeleteOnTermination'} and one.get(_MADE):
        if interfaces[0].get('DeleteOnTermination'):
            raise errors.unsupported('An existing network interface cannot be deleted on termination.')
        if any(found.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
            raise errors.Ec2Error('InvalidParameterCombination', 'Omit subnet, address and groups for an existing '
                                                                 'network interface.')
        return {**found, _MADE: one[_MADE]}
    if set(one) - _INTERFACE.keys():
        raise errors.unsupported(_INTERFACE_RULE)
    if any(found.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
        raise errors.Ec2Error('InvalidParameterCombination', 'Specify subnet, address and groups either in '
                                                             'NetworkInterface, or as parameters of the instance.')
    return {**found, **{_INTERFACE[name]: value for name, value in one.items()}}


def _several(interfaces: Sequence[Mapping[str, Any]], others: Mapping[str, Any]) -> dict[str, Any]:
    """Normalize several interfaces, ordered by device index. The compute API gives all new interfaces of a server the
    same security groups.

    :raises Ec2Error: an unsupported combination
    """
    if any(others.get(name) for name in (*_INTERFACE.values(), 'SecurityGroups')):
        raise errors.Ec2Error('InvalidParameterCombination', 'With several network interfaces, specify subnet, '
                                                             'address and groups in each NetworkInterface, not as '
                                                             'parameters of the instance.')
    ordered = sorted(interfaces, key=lambda each: int(each.get('DeviceIndex', 0)))
    if [each.get('DeviceIndex', 0) for each in ordered] != list(range(len(ordered))):
        raise errors.Ec2Error('InvalidParameterValue', 'Device indexes of network interfaces must be 0, 1 and so on, '
                                                       'each once.')
    if len(ordered) > MAX_INTERFACES:
        raise errors.Ec2Error('AttachmentLimitExceeded', f'An instance can have at most {MAX_INTERFACES} network '
                                                         'interfaces.')
    if any(each.get(PUBLIC) for each in ordered):
        raise errors.Ec2Error('InvalidParameterCombination', f'{PUBLIC} requires a single network interface.')
    made = [{name: value for name, value in each.items() if name not in ('DeviceIndex', PUBLIC)} for each in ordered]
    made = [_normalized({'NetworkInterfaces': [each]}) for each in made]
    groups = [each.pop('SecurityGroupIds', None) for each in made if _MADE not in each]
    if any(each != groups[0] for each in groups):
        raise errors.unsupported('The new network interfaces of an instance must have the same security groups. '
                                 'Create interfaces with other groups with CreateNetworkInterface, and specify their '
                                 'NetworkInterfaceId.')
    if any(_MADE not in each and 'SubnetId' not in each for each in made):
        raise errors.missing('NetworkInterface.SubnetId')
    return {'NetworkInterfaces': made, **({'SecurityGroupIds': groups[0]} if groups and groups[0] else {})}


def user_data(given: operations.Given) -> bytes | None:
    """Decode the user data of a request.

    :raises Ec2Error: the user data are not base64, or too long
    """
    if not given.get('UserData'):
        return None
    try:
        found = base64.b64decode(given['UserData'], validate=True)
    except ValueError:
        raise errors.Ec2Error('InvalidUserData.Malformed', 'User data must be base64.') from None
    if len(found) > MAX_USER_DATA:
        raise errors.Ec2Error('InvalidParameterValue', f'User data can have at most {MAX_USER_DATA} bytes.')
    return found
