"""EC2 operations on single attributes of instances."""
from collections.abc import Callable
from typing import Any

from nova.api.metadata import tokens
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2.instances import launches
from nova.ec2.instances import metadata_options
from nova.ec2.instances import power
from nova.ec2.instances import run_parameters
from nova.ec2.instances import states
from nova.ec2.instances import types
from nova.ec2.instances import views
from nova.ec2.networks import interfaces
from nova.ec2.networks import network_interfaces
from nova.ec2.server import Server
from nova.json_types import JsonDocument



def _of_view(attribute: str, field: str) -> Callable[[operations.Request, Server], dict[str, Any]]:
    """Return a function for ATTRIBUTES that shows an attribute as DescribeInstances shows the field."""
    return lambda req, server: {attribute: {'Value': views.Instances(req, [server]).one(server)[field]}}


def _groups(req: operations.Request, server: Server) -> list[dict[str, Any]]:
    found = req.call('compute', 'GET', f'/servers/{server["id"]}/os-security-groups')['security_groups']
    return [{'GroupId': req.ids.one('sg', group['id']), 'GroupName': group['name']} for group in found]


# {attribute: function(request, server) -> part of the response}
ATTRIBUTES: dict[str, Any] = {
    'instanceType': lambda req, server: {'InstanceType': {'Value': server['flavor'].get('original_name')}},
    'userData': lambda req, server: {'UserData': {'Value': server.get('OS-EXT-SRV-ATTR:user_data')}},
    'disableApiTermination': lambda req, server: {'DisableApiTermination': {'Value': server['locked']}},
    'rootDeviceName': lambda req, server: {'RootDeviceName': {'Value': views.root_of(server)}},
    'instanceCategory': lambda req, server: {protocol.CATEGORY: {'Value': views.category_of(server)}},
    'instanceInitiatedShutdownBehavior': lambda req, server: {'InstanceInitiatedShutdownBehavior': {'Value': 'stop'}},
    'ebsOptimized': lambda req, server: {'EbsOptimized': {'Value': False}},
    'enclaveOptions': lambda req, server: {'EnclaveOptions': {'Enabled': False}},
    'disableApiStop': lambda req, server: {'DisableApiStop': {'Value': server['locked']}},
    'sourceDestCheck': lambda req, server: {'SourceDestCheck': {'Value': True}},
    'enaSupport': lambda req, server: {}, 'sriovNetSupport': lambda req, server: {},
    'kernel': _of_view('KernelId', 'KernelId'), 'ramdisk': _of_view('RamdiskId', 'RamdiskId'),
    'groupSet': lambda req, server: {'Groups': _groups(req, server)},
    'blockDeviceMapping': lambda req, server: {
        'BlockDeviceMappings': views.Instances(req, [server]).one(server)['BlockDeviceMappings']},
}


def describe_instance_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    if given['Attribute'] not in ATTRIBUTES:
        raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not supported.')
    server = views.one_of(req, given)
    return {'InstanceId': req.ids.one('i', server['id']), **ATTRIBUTES[given['Attribute']](req, server)}


# ---- changes

def _unprotect(req: operations.Request, server: Server, wanted: bool) -> None:
    """Refuse to protect an instance from termination: a lock of the compute API would block all other actions too."""
    if wanted:
        raise errors.unsupported(run_parameters.UNPROTECTED)
    if server['locked']:
        raise errors.Ec2Error('OperationNotPermitted', 'The server is locked in the compute API.')


def _resize(req: operations.Request, server: Server, wanted: str) -> None:
    """Resize a stopped instance and confirm the resize. If the resize takes long, StartInstances confirms it."""
    flavor = types.flavor_of(req, wanted)
    if server['OS-EXT-STS:vm_state'] != 'stopped' or states.state_of(server) != 'stopped':
        raise errors.Ec2Error('IncorrectInstanceState', "The instance is not in the 'stopped' state, or is suspended, "
                                                        'paused or shelved in the compute API.')
    if server['flavor'].get('original_name') == wanted:
        return
    power.act(req, server, 'resize', {'flavorRef': flavor}, wait=True)
    found = req.call('compute', 'GET', f'/servers/{server["id"]}')['server']
    if found['OS-EXT-STS:vm_state'] == 'resized':
        power.confirm_resize(req, found)
    elif found['OS-EXT-STS:task_state'] is None:
        raise errors.Ec2Error('InsufficientInstanceCapacity', f'Cannot resize the instance to the type '
                                                              f'{wanted}; it is unchanged.', 500)


def _regroup(req: operations.Request, server: Server, wanted: list[str]) -> None:
    """Replace the security groups of the first interface."""
    groups = [req.find('sg', shown, 'network', '/security-groups/{}')['security_group']['id'] for shown in wanted]
    ports = interfaces.ports_of(req, [server['id']]).get(server['id'])
    if not ports:
        raise errors.Ec2Error('IncorrectState', 'The instance has no network interface.')
    if len(ports) > 1:
        raise network_interfaces.ambiguous(req.ids.one('i', server['id']))
    launches.check_groups(req, wanted, (ports[0]['fixed_ips'] or [{}])[0].get('subnet_id', ''))
    req.call('network', 'PUT', f'/ports/{ports[0]["id"]}', {'port': {'security_groups': groups}})


def _keep_volumes(req: operations.Request, server: Server, wanted: list[dict[str, Any]]) -> None:
    """Set whether volumes are deleted with the instance."""
    path = f'/servers/{server["id"]}/os-volume_attachments'
    held = {row['device']: row['volumeId'] for row in req.call('compute', 'GET', path)['volumeAttachments']}
    changes: dict[str, bool] = {}
    for mapping in wanted:
        ebs, volume = mapping.get('Ebs') or {}, held.get(mapping.get('DeviceName'))
        if set(mapping) - {'DeviceName', 'Ebs'} or 'DeleteOnTermination' not in ebs or set(ebs) - {
                'DeleteOnTermination', 'VolumeId'}:
            raise errors.unsupported('A block device mapping must have DeviceName, and Ebs with DeleteOnTermination.')
        if volume is None or ebs.get('VolumeId') and req.uuid('vol', ebs['VolumeId']) != volume:
            raise errors.Ec2Error('InvalidInstanceAttributeValue', f'The volume is not at {mapping.get("DeviceName")}.')
        changes[volume] = ebs['DeleteOnTermination']
    for volume, deleted in changes.items():
        req.call('compute', 'PUT', f'{path}/{volume}', {'volumeAttachment': {
            'volumeId': volume, 'delete_on_termination': deleted}})


def _refuse(why: str) -> Callable[[operations.Request, Server, Any], None]:
    def refuse(req: operations.Request, server: Server, wanted: protocol.Value) -> None:
        raise errors.unsupported(why)
    return refuse


def _nothing_but(name: str, only: bool | str) -> Callable[[operations.Request, Server, Any], None]:
    def check(req: operations.Request, server: Server, wanted: protocol.Value) -> None:
        if wanted != only:
            raise errors.unsupported(f'The only supported value of the attribute {name} is {str(only).lower()}'
                                     '.')
    return check


# {parameter: function(request, server, value) that applies it}
CHANGES: dict[str, Callable[[operations.Request, Server, Any], None]] = {
    'DisableApiTermination': _unprotect, 'InstanceType': _resize, 'Groups': _regroup,
    'BlockDeviceMappings': _keep_volumes, 'EbsOptimized': _nothing_but('EbsOptimized', False),
    'SourceDestCheck': _nothing_but('SourceDestCheck', True),
    'InstanceInitiatedShutdownBehavior': _nothing_but('InstanceInitiatedShutdownBehavior', 'stop'),
    'UserData': _refuse('User data of an instance cannot be modified: the compute API only changes them in a rebuild '
                        'of the server, which recreates its disk.'),
    'DisableApiStop': _unprotect,
    **dict.fromkeys(('Kernel', 'Ramdisk'), _refuse('Kernel and ramdisk are determined by the image.')),
    **dict.fromkeys(('EnaSupport', 'SriovNetSupport'), _refuse('Network devices are determined by the image.'))}
# {attribute with a single text value: parameter that sets it}
_TEXTS = {'instanceType': 'InstanceType', 'instanceInitiatedShutdownBehavior': 'InstanceInitiatedShutdownBehavior',
          'disableApiTermination': 'DisableApiTermination', 'ebsOptimized': 'EbsOptimized',
          'userData': 'UserData', 'kernel': 'Kernel', 'ramdisk': 'Ramdisk', 'disableApiStop': 'DisableApiStop'}


def modify_instance_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    wanted: dict[str, Any] = {name: value for name, value in given.items() if name in CHANGES}
    if given.get('Attribute') or given.get('Value'):
        name, value = _TEXTS.get(given.get('Attribute') or ''), given.get('Value')
        if name is None or value is None:
            raise errors.unsupported(f'The attribute {str(given.get("Attribute"))[:64]!r} cannot be set with Value.')
        is_truth = name in ('DisableApiTermination', 'DisableApiStop', 'EbsOptimized')
        wanted[name] = {'Value': value.lower() == 'true' if is_truth else value}
    if len(wanted) != 1:
        raise errors.Ec2Error('InvalidParameterCombination', 'A request can modify only one attribute.')
    (name, value), = wanted.items()
    if isinstance(value, dict):
        if 'Value' not in value:
            raise errors.missing(f'{name}.Value')
        value = value['Value']
    CHANGES[name](req, views.one_of(req, given), value)
    return {}


def modify_instance_metadata_options(req: operations.Request, given: operations.Given) -> JsonDocument:
    wanted: dict[str, Any] = {name: value for name, value in given.items() if name != 'InstanceId'}
    metadata_options.check(wanted)
    server = views.one_of(req, given)
    metadata, path = dict(server['metadata']), f'/servers/{server["id"]}/metadata'
    items = metadata_options.items(req, wanted)
    if items.items() - metadata.items():
        req.call('compute', 'POST', path, {'metadata': items})
    if wanted.get('HttpTokens') == 'optional' and metadata.pop(tokens.PROPERTY, None) is not None:
        req.call('compute', 'DELETE', f'{path}/{tokens.PROPERTY}')
    return {'InstanceId': req.ids.one('i', server['id']),
            'InstanceMetadataOptions': metadata_options.shown({**metadata, **items})}


OPERATIONS = [
    operations.row('DescribeInstanceAttribute', describe_instance_attribute, 'InstanceId Attribute'),
    operations.row('ModifyInstanceAttribute', modify_instance_attribute,
                   f'InstanceId Attribute Value {" ".join(CHANGES)}'),
    operations.row('ModifyInstanceMetadataOptions', modify_instance_metadata_options,
                   f'InstanceId {metadata_options.TAKES}'),
]
