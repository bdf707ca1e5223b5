"""RegisterImage: registers an image from snapshots (``snapshot_images``), or from a bundle in the object store, as
uploaded by euca-upload-bundle and ec2-upload-bundle.

The manifest is read synchronously, so that its errors are reported; ``imports`` reads the parts.
"""
from collections.abc import Callable, Mapping
import re
from typing import Any, TypeVar
import urllib.parse

from nova import exception
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.bundles import manifests
from nova.ec2.images import imports
from nova.ec2.images import snapshot_images
from nova.json_types import JsonDocument

_LOCATION = re.compile(r'([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([^\x00-\x1f\x7f\ud800-\udfff]{1,1024})')
T = TypeVar('T')
TRUE = 'true'                   # value of KernelId if the image is a kernel (euca-bundle-image --kernel true)
FORMATS = {'machine': 'ami', 'kernel': 'aki', 'ramdisk': 'ari'}
# {architecture in EC2: architecture in the image and compute services}
ARCHITECTURES = {'x86_64': 'x86_64', 'i386': 'i686', 'arm64': 'aarch64'}


def register_image(req: operations.Request, given: operations.Given) -> JsonDocument:
    if given.get('VirtualizationType') not in (None, 'hvm'):
        raise errors.unsupported('The only supported VirtualizationType is hvm.')
    if given.get('BlockDeviceMappings') and not given.get('ImageLocation'):
        if given.get('KernelId') or given.get('RamdiskId'):
            raise errors.unsupported('KernelId and RamdiskId are not supported for images that boot from snapshots.')
        if not given.get('Name'):
            raise errors.missing('Name')
        architecture = given.get('Architecture')
        return {'ImageId': snapshot_images.register(req, given, architecture and _architecture(architecture))}
    if given.get('BlockDeviceMappings'):
        raise errors.Ec2Error('InvalidParameterCombination', 'Specify either ImageLocation or BlockDeviceMappings.')
    values: Mapping[str, object] = given
    if others := [name for name in ('BootMode', 'EnaSupport', 'SriovNetSupport') if values.get(name)]:
        raise errors.unsupported(f'{others[0]} is not supported for bundles.')
    bucket, key = _place(given)
    if req.bundles is None:
        raise errors.unsupported('Bundles are not supported: this cloud has no certificate service.')
    manifest = _manifest(req, bucket, key)
    if not 0 < manifest.size <= req.bundles.limit:
        raise _refused(f'the image has {manifest.size} bytes; it must have 1 to {req.bundles.limit} bytes.')
    if not _certified(req.bundles.signed, req.project_id, manifest.signed.hex(), manifest.signature):
        raise _refused('it is not signed with a valid certificate of this cloud by a user of your project.')
    secrets = [_certified(req.bundles.decrypt, req.project_id, text)
               for text in (manifest.encrypted_key, manifest.encrypted_iv)]
    document = _document(req, given, manifest, bucket, key)
    named = tags.given(given.get('TagSpecifications'), 'image')

    def make() -> str:
        made = str(req.call('image', 'POST', '/images', document)['id'])
        tags.put(req, 'ami', made, named)
        return made
    pieces = imports.pieces_of(req.caller, bucket, key[:key.rfind('/') + 1], manifest, secrets[0], secrets[1],
                               req.bundles.limit, path_of)
    return {'ImageId': req.ids.one('ami', req.bundles.imports.start(req.caller, manifest.size, make, pieces))}


def path_of(bucket: str, key: str) -> str:
    """Return the path of an object in the object store."""
    return f'/{bucket}/{urllib.parse.quote(key, safe="/-_.~")}'


def _architecture(name: str) -> str:
    if name not in ARCHITECTURES:
        raise errors.invalid('Architecture', name)
    return ARCHITECTURES[name]


def _place(given: operations.Given) -> tuple[str, str]:
    """Return (bucket, key) of the manifest. Keys with "//" or ".." are refused: clients may normalize them."""
    location = given.get('ImageLocation')
    if not location:
        raise errors.missing('ImageLocation')
    found = _LOCATION.fullmatch(location)
    if not found or any(step in ('', '.', '..') for step in found[2].split('/')):
        raise errors.invalid('ImageLocation', location)
    return found[1], found[2]


def _refused(reason: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidManifest', f'The manifest of the image is invalid: {reason}')


def _manifest(req: operations.Request, bucket: str, key: str) -> manifests.Manifest:
    try:
        return manifests.parse(b''.join(req.caller.read('object', path_of(bucket, key), manifests.MAX_BYTES)))
    except errors.ServiceRefused as refused:
        if refused.status != 404:
            raise
        raise _refused('the object does not exist in your project.') from None
    except exception.InvalidInput as error:
        raise errors.Ec2Error('InvalidManifest', error.message) from None


def _certified(ask: Callable[..., T], *question: str) -> T:
    """Call the certificate service.

    :raises Ec2Error: the service refuses the manifest, or is unavailable
    """
    try:
        return ask(*question)
    except exception.InvalidInput as error:
        raise errors.Ec2Error('InvalidManifest', error.message) from None
    except exception.NovaException:
        raise errors.Ec2Error('Unavailable', 'The certificate service does not respond.', 503) from None


def _document(req: operations.Request, given: operations.Given, manifest: manifests.Manifest, bucket: str,
              key: str) -> dict[str, Any]:
    """Build the document of the image."""
    kind = 'kernel' if manifest.kernel_id == TRUE else 'ramdisk' if manifest.ramdisk_id == TRUE else manifest.image_type
    if kind not in FORMATS:
        raise _refused('its type is not machine, kernel or ramdisk.')
    architecture = _architecture(given['Architecture']) if given.get('Architecture') else ARCHITECTURES.get(
        manifest.architecture)
    if architecture is None:
        raise _refused(f'the architecture {manifest.architecture[:32]!r} is not one of {", ".join(ARCHITECTURES)}.')
    parts = {}
    if kind == 'machine':
        for name, shown in (('kernel_id', given.get('KernelId') or manifest.kernel_id),
                            ('ramdisk_id', given.get('RamdiskId') or manifest.ramdisk_id)):
            if shown:
                parts[name] = req.find('ami', shown, 'image', '/images/{}')['id']
    form = FORMATS[kind] if kind != 'machine' or parts else None
    named = {'root_device_name': given.get('RootDeviceName'), 'description': given.get('Description')}
    return {'name': given.get('Name') or manifest.name, 'disk_format': form or 'raw',
            'container_format': form or 'bare', 'architecture': architecture, **parts,
            **{name: value for name, value in named.items() if value},
            imports.LOCATION: f'{bucket}/{key}', imports.STATE: 'pending', imports.PROGRESS: '0'}


OPERATIONS = [
    operations.row('RegisterImage', register_image, 'ImageLocation Name Description Architecture KernelId RamdiskId '
                   'RootDeviceName VirtualizationType TagSpecifications BlockDeviceMappings BootMode EnaSupport '
                   'SriovNetSupport'),
]
