"""Images of the image service, and instance types: flavors of the compute API."""
from __future__ import annotations

from collections.abc import Sequence
import operator
from typing import Any
import urllib.parse

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import imports
from nova.api.ec2 import operations
from nova.api.ec2 import registration
from nova.api.ec2 import tags

STATES = {'active': 'available', 'queued': 'pending', 'saving': 'pending', 'importing': 'pending',
          'uploading': 'pending', 'deactivated': 'disabled', 'killed': 'failed'}
ARCHITECTURES = {value: name for name, value in registration.ARCHITECTURES.items()}


def _image(image: dict[str, Any], names: dict[Any, Any], kept: dict[str, Any]) -> dict[str, Any]:
    kernel = names.get(image.get('kernel_id'))
    state, reason = imports.state_of(image)
    owner, architecture = image.get('owner'), image.get('architecture') or image.get('hw_architecture')
    return {
        'ImageId': names[image['id']], 'Name': image.get('name'), 'Description': image.get('description'),
        'State': state or STATES.get(image['status'], 'error'),
        'StateReason': {'Code': 'Import', 'Message': reason} if reason else None,
        'Public': image['visibility'] == 'public',
        'OwnerId': owner, 'ImageLocation': image.get(imports.LOCATION) or f'{owner}/{image.get("name")}',
        'Architecture': ARCHITECTURES.get(architecture or '', architecture), 'CreationDate': image['created_at'],
        'ImageType': {'aki': 'kernel', 'ari': 'ramdisk'}.get(image.get('container_format') or '', 'machine'),
        'KernelId': kernel, 'RamdiskId': names.get(image.get('ramdisk_id')),
        'RootDeviceType': 'ebs' if image.get('block_device_mapping') not in (None, '', '[]') else 'instance-store',
        'RootDeviceName': image.get('root_device_name'), 'VirtualizationType': 'hvm', 'Tags': kept[image['id']],
    }


FILTERS: dict[str, filters.Values] = {
    name: operator.itemgetter(field) for name, field in {
        'image-id': 'ImageId', 'name': 'Name', 'description': 'Description', 'state': 'State', 'is-public': 'Public',
        'owner-id': 'OwnerId', 'architecture': 'Architecture', 'image-type': 'ImageType', 'kernel-id': 'KernelId',
        'ramdisk-id': 'RamdiskId', 'manifest-location': 'ImageLocation', 'root-device-type': 'RootDeviceType',
        'virtualization-type': 'VirtualizationType', 'creation-date': 'CreationDate'}.items()}


def describe_images(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    images = req.pages('image', '/images', 'images')
    names = req.ids.shown('ami', {value for image in images for value in (
        image['id'], image.get('kernel_id'), image.get('ramdisk_id')) if value})
    kept = tags.of(req, 'ami', [image['id'] for image in images])
    shown = [_image(image, names, kept) for image in images]
    shown = filters.choose(shown, 'ImageId', given.get('ImageIds'), 'ami')
    owners = given.get('Owners')
    if owners:
        wanted = {req.project_id if owner == 'self' else owner for owner in owners}
        shown = [image for image in shown if image['OwnerId'] in wanted]
    users = given.get('ExecutableUsers')
    if users:
        shown = [image for image in shown if image['Public'] and 'all' in users
                 or 'self' in users and not image['Public'] and image['OwnerId'] != req.project_id]
    page, token = filters.page(filters.apply(shown, given.get('Filters'), FILTERS), given, 'ImageId')
    return {'Images': page, 'NextToken': token}


def create_image(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    uuid = req.ids.uuid('i', given['InstanceId'])
    metadata = {'description': given['Description']} if given.get('Description') else {}
    try:
        made = req.call('compute', 'POST', f'/servers/{uuid}/action', {'createImage': {
            'name': given['Name'], 'metadata': metadata}})
    except errors.ServiceRefused as refused:
        if refused.status == 404:
            raise errors.not_found('i', given['InstanceId']) from None
        raise
    tags.put(req, 'ami', made['image_id'], tags.given(given.get('TagSpecifications'), 'image'))
    return {'ImageId': req.ids.one('ami', made['image_id'])}


def _visible(req: operations.Request, shown: str) -> dict[str, Any]:
    return req.find('ami', shown, 'image', '/images/{}')


def deregister_image(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    req.call('image', 'DELETE', f'/images/{_visible(req, given["ImageId"])["id"]}')
    return {}


def _members(req: operations.Request, uuid: str) -> list[str]:
    return [member['member_id'] for member in req.call('image', 'GET', f'/images/{uuid}/members')['members']]


def describe_image_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    image, attribute = _visible(req, given['ImageId']), given['Attribute']
    answer: dict[str, Any] = {'ImageId': given['ImageId']}
    if attribute == 'description':
        answer['Description'] = {'Value': image.get('description')}
    elif attribute == 'launchPermission':
        members = _members(req, image['id']) if image['visibility'] == 'shared' else ()
        shared = [{'UserId': member} for member in members]
        answer['LaunchPermissions'] = [{'Group': 'all'}] if image['visibility'] == 'public' else shared
    elif attribute == 'productCodes':
        answer['ProductCodes'] = []                                    # nothing is sold here
    else:
        raise errors.unsupported(f'The attribute {attribute[:64]!r} is not known here.')
    return answer


def modify_image_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Launch permissions: members of the image; the group ``all`` makes it public, which takes an administrator."""
    uuid, change = _visible(req, given['ImageId'])['id'], given.get('LaunchPermission') or {}
    for kind, add in (('Add', True), ('Remove', False)):
        for permission in change.get(kind) or ():
            if permission.get('Group') == 'all':
                _patch(req, uuid, 'public' if add else 'shared')
            elif permission.get('UserId') and add:
                _patch(req, uuid, 'shared')
                req.call('image', 'POST', f'/images/{uuid}/members', {'member': permission['UserId']})
            elif permission.get('UserId'):
                req.call('image', 'DELETE', f'/images/{uuid}/members/{_quoted(permission["UserId"])}')
            else:
                raise errors.unsupported('A launch permission has a UserId, or the Group all.')
    return {}


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe='')


def _patch(req: operations.Request, uuid: str, visibility: str) -> None:
    if req.call('image', 'GET', f'/images/{uuid}')['visibility'] != visibility:
        req.call('image', 'PATCH', f'/images/{uuid}', [{'op': 'replace', 'path': '/visibility', 'value': visibility}],
                 headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'})


# ---- instance types

def _type(flavor: dict[str, Any]) -> dict[str, Any]:
    return {'InstanceType': flavor['name'], 'CurrentGeneration': True, 'BareMetal': False,
            'SupportedVirtualizationTypes': ['hvm'], 'VCpuInfo': {'DefaultVCpus': flavor['vcpus']},
            'MemoryInfo': {'SizeInMiB': flavor['ram']}, 'InstanceStorageSupported': flavor['disk'] > 0,
            'InstanceStorageInfo': {'TotalSizeInGB': flavor['disk']} if flavor['disk'] else None}


def describe_instance_types(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    flavors = req.pages('compute', '/flavors/detail', 'flavors')
    shown = [_type(flavor) for flavor in flavors]
    wanted: Sequence[str] = given.get('InstanceTypes') or ()
    for name in wanted:
        if name not in {row['InstanceType'] for row in shown}:
            raise errors.Ec2Error('InvalidInstanceType', f'The instance type {name[:255]!r} does not exist.')
    if wanted:
        shown = [row for row in shown if row['InstanceType'] in wanted]
    shown = filters.apply(shown, given.get('Filters'), {
        'instance-type': lambda row: row['InstanceType'], 'bare-metal': lambda row: False,
        'current-generation': lambda row: True, 'vcpu-info.default-vcpus': lambda row: row['VCpuInfo']['DefaultVCpus'],
        'memory-info.size-in-mib': lambda row: row['MemoryInfo']['SizeInMiB']})
    page, token = filters.page(shown, given, 'InstanceType')
    return {'InstanceTypes': page, 'NextToken': token}


OPERATIONS = [
    operations.row('DescribeImages', describe_images, 'ImageIds Owners ExecutableUsers' + operations.PAGED,
                   'IncludeDeprecated IncludeDisabled'),
    operations.row('CreateImage', create_image, 'InstanceId Name Description TagSpecifications', 'NoReboot'),
    operations.row('DeregisterImage', deregister_image, 'ImageId'),
    operations.row('DescribeImageAttribute', describe_image_attribute, 'ImageId Attribute'),
    operations.row('ModifyImageAttribute', modify_image_attribute, 'ImageId Attribute LaunchPermission'),
    operations.row('DescribeInstanceTypes', describe_instance_types, 'InstanceTypes' + operations.PAGED),
]
