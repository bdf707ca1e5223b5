"""Images of the image service, as EC2 shows them."""
from __future__ import annotations

import operator
from typing import Any

from nova.api.ec2 import filters
from nova.api.ec2 import ids
from nova.api.ec2 import operations
from nova.api.ec2 import protocol
from nova.api.ec2 import tags
from nova.api.ec2.images import imports
from nova.api.ec2.images import registration
from nova.api.ec2.images import snapshot_images
from nova.api.servers import devices
from nova.hardware import disks

STATES = {'active': 'available', 'queued': 'pending', 'saving': 'pending', 'importing': 'pending',
          'uploading': 'pending', 'deactivated': 'disabled', 'killed': 'failed'}
ARCHITECTURES = {value: name for name, value in registration.ARCHITECTURES.items()}


def _image(image: dict[str, Any], names: dict[Any, Any], kept: dict[str, Any]) -> dict[str, Any]:
    state, reason = imports.state_of(image)
    kind = {'aki': 'kernel', 'ari': 'ramdisk'}.get(image.get('container_format') or '', 'machine')
    root = devices.root_device({'properties': image}) if kind == 'machine' else None
    owner, architecture = image.get('owner'), image.get('architecture') or image.get('hw_architecture')
    return {
        'ImageId': names[image['id']], 'Name': image.get('name'), 'Description': image.get('description'),
        'State': state or STATES.get(image['status'], 'error'),
        'StateReason': {'Code': 'Import', 'Message': reason} if reason else None,
        'Public': image['visibility'] == 'public',
        'OwnerId': owner, 'ImageLocation': image.get(imports.LOCATION) or f'{owner}/{image.get("name")}',
        'Architecture': ARCHITECTURES.get(architecture or '', architecture),
        'CreationDate': protocol.time(image['created_at']), 'ImageType': kind,
        'KernelId': ids.image_as('aki', names.get(image.get('kernel_id'))),
        'RamdiskId': ids.image_as('ari', names.get(image.get('ramdisk_id'))),
        'RootDeviceType': 'ebs' if image.get(disks.MAPPING) not in (None, '', '[]') else 'instance-store',
        'RootDeviceName': root, 'VirtualizationType': 'hvm', 'Tags': kept[image['id']],
        'BlockDeviceMappings': snapshot_images.shown(image),
    }


FILTERS: dict[str, filters.Values] = {
    **{name: operator.itemgetter(field) for name, field in {
        'name': 'Name', 'description': 'Description', 'state': 'State', 'is-public': 'Public', 'owner-id': 'OwnerId',
        'architecture': 'Architecture', 'image-type': 'ImageType', 'manifest-location': 'ImageLocation',
        'root-device-type': 'RootDeviceType', 'virtualization-type': 'VirtualizationType',
        'creation-date': 'CreationDate'}.items()},
    **{name: ids.forms_of_image(field) for name, field in {
        'image-id': 'ImageId', 'kernel-id': 'KernelId', 'ramdisk-id': 'RamdiskId'}.items()}}


def describe_images(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    images = req.pages('image', '/images', 'images')
    names = req.ids.shown('ami', {value for image in images for value in (
        image['id'], image.get('kernel_id'), image.get('ramdisk_id')) if value})
    kept = tags.of(req, 'ami', [image['id'] for image in images])
    shown = [_image(image, names, kept) for image in images]
    shown = filters.choose(shown, 'ImageId', [
        str(ids.image_as('ami', wanted)) for wanted in given.get('ImageIds') or ()], 'ami')
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


OPERATIONS = [
    operations.row('DescribeImages', describe_images, 'ImageIds Owners ExecutableUsers' + operations.PAGED,
                   'IncludeDeprecated IncludeDisabled'),
]
