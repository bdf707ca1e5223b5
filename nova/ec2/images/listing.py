"""Images of the image service, as EC2 shows them."""
from collections.abc import Collection
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import ids
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2.images import imports
from nova.ec2.images import registration
from nova.ec2.images import snapshot_images
from nova.json_types import JsonDocument

STATES = {'active': 'available', 'queued': 'pending', 'saving': 'pending', 'importing': 'pending',
          'uploading': 'pending', 'deactivated': 'disabled', 'killed': 'failed'}
FORMATS = frozenset(registration.FORMATS.values())  # container formats of images that were registered from bundles
ARCHITECTURES = {value: name for name, value in registration.ARCHITECTURES.items()}


def architecture_of(image: dict[str, Any]) -> str | None:
    """Return EC2's name of the architecture in an image's properties."""
    found = image.get('architecture') or image.get('hw_architecture') or ''
    return ARCHITECTURES.get(found, found) or None


def systems(req: operations.Request, uuids: Collection[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return {UUID: (architecture, type of the operating system)} of images.

    Values that the image service shows to the caller are cached for all callers, because they seldom change. If the
    caller cannot see an image, both values are None, and are not cached, because another caller may see it.
    """
    known = req.ids.systems
    missing = [uuid for uuid in uuids if uuid not in known]
    if missing:
        try:
            rows = {row['id']: row for row in req.pages('image', '/images', 'images')} if len(
                missing) > operations.MAX_SINGLE_READS else {uuid: _read(req, uuid) for uuid in missing}
        except errors.NoService:
            rows = {}
        added = {uuid: (architecture_of(row), row.get('os_type')) for uuid in missing if (row := rows.get(uuid))}
        req.ids.systems = {**(known if len(known) < ids.MAX_CACHED else {}), **added}
        known = {**known, **added}
    return {uuid: known.get(uuid, (None, None)) for uuid in uuids}


def _read(req: operations.Request, uuid: str) -> dict[str, Any]:
    try:
        return dict(req.call('image', 'GET', f'/images/{uuid}'))
    except errors.ServiceRefused:                # the image was deleted or is not shared, or the service is busy
        return {}


def _image(image: dict[str, Any], names: dict[Any, Any], kept: dict[str, Any]) -> dict[str, Any]:
    state, reason = imports.state_of(image)
    kind = {'aki': 'kernel', 'ari': 'ramdisk'}.get(image.get('container_format') or '', 'machine')
    windows = image.get('os_type') == 'windows'
    modes = {value: name for name, value in snapshot_images.BOOT_MODES.items()}
    return {
        'ImageId': names[image['id']], 'Name': image.get('name'), 'Description': image.get('description'),
        'State': state or STATES.get(image['status'], 'error'),
        'StateReason': {'Code': 'Import', 'Message': reason} if reason else None,
        'Public': image['visibility'] == 'public',
        'OwnerId': image.get('owner'),
        'ImageLocation': image.get(imports.LOCATION) or f'{image.get("owner")}/{image.get("name")}',
        'Architecture': architecture_of(image) or 'x86_64', 'BootMode': modes.get(image.get('hw_firmware_type') or ''),
        'CreationDate': protocol.time(image['created_at']), 'ImageType': kind, 'Hypervisor': 'xen',
        'EnaSupport': image.get(snapshot_images.ENA) == 'true', 'SriovNetSupport': image.get(snapshot_images.SRIOV),
        'Platform': 'windows' if windows else None, 'PlatformDetails': 'Windows' if windows else 'Linux/UNIX',
        'UsageOperation': 'RunInstances',
        'KernelId': ids.image_as('aki', names.get(image.get('kernel_id'))),
        'RamdiskId': ids.image_as('ari', names.get(image.get('ramdisk_id'))),
        # a bundled image is not shown as ebs: clients would then map a root volume, which cannot be created from it
        'RootDeviceType': 'instance-store' if image.get('container_format') in FORMATS else 'ebs',
        'RootDeviceName': snapshot_images.root_of(image) if kind == 'machine' else None, 'VirtualizationType': 'hvm',
        'Tags': kept[image['id']], 'ProductCodes': [], 'BlockDeviceMappings': snapshot_images.shown(image),
    }


FILTERS: dict[str, filters.Values] = {
    'name': 'Name', 'description': 'Description', 'state': 'State', 'is-public': 'Public', 'owner-id': 'OwnerId',
    'architecture': 'Architecture', 'image-type': 'ImageType', 'manifest-location': 'ImageLocation',
    'root-device-type': 'RootDeviceType', 'virtualization-type': 'VirtualizationType', 'creation-date': 'CreationDate',
    'block-device-mapping.delete-on-termination': 'BlockDeviceMappings.Ebs.DeleteOnTermination',
    'block-device-mapping.device-name': 'BlockDeviceMappings.DeviceName',
    'block-device-mapping.snapshot-id': 'BlockDeviceMappings.Ebs.SnapshotId',
    'block-device-mapping.volume-size': 'BlockDeviceMappings.Ebs.VolumeSize',
    'block-device-mapping.volume-type': 'BlockDeviceMappings.Ebs.VolumeType',
    'block-device-mapping.encrypted': 'BlockDeviceMappings.Ebs.Encrypted', 'boot-mode': 'BootMode',
    'ena-support': 'EnaSupport', 'hypervisor': 'Hypervisor', 'platform': 'Platform',
    'root-device-name': 'RootDeviceName', 'state-reason-code': 'StateReason.Code',
    'state-reason-message': 'StateReason.Message', 'sriov-net-support': 'SriovNetSupport',
    **filters.fixed('false', 'free-tier-eligible'), **filters.fixed('true', 'image-allowed'),
    **filters.unset(
        'image-watermark.source-image-creation-time image-watermark.source-image-id '
        'image-watermark.source-image-region image-watermark.watermark-creation-time image-watermark.watermark-key '
        'instance-type-specification.supported-instance-type instance-type-specification.unsupported-instance-type '
        'owner-alias product-code product-code.type public-ssm-parameter-name '
        'scan-result.critical-fix-available-since scan-result.finding-scan-date scan-result.high-fix-available-since '
        'scan-result.highest-finding-severity-label scan-result.informational-fix-available-since '
        'scan-result.low-fix-available-since scan-result.medium-fix-available-since source-image-id '
        'source-image-region source-instance-id'),
    **{name: ids.forms_of_image(field) for name, field in {
        'image-id': 'ImageId', 'kernel-id': 'KernelId', 'ramdisk-id': 'RamdiskId'}.items()}}


def describe_images(req: operations.Request, given: operations.Given) -> JsonDocument:
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
    return filters.answer('Images', shown, given, 'ImageId', FILTERS)


OPERATIONS = [
    operations.row('DescribeImages', describe_images, 'ImageIds Owners ExecutableUsers' + operations.PAGED,
                   'IncludeDeprecated IncludeDisabled'),
]
