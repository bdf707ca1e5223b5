"""RegisterImage: an image of snapshots (``of_snapshots``), or of a bundle in the object store, as euca-upload-bundle
and ec2-upload-bundle leave it there.

The manifest is read while the client waits, so that it hears of what is wrong with it; the parts by ``imports``.
"""
from __future__ import annotations

from collections.abc import Callable
import re
from typing import Any, TypeVar
import urllib.parse

from nova import exception
from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.api.ec2.images import imports
from nova.api.ec2.images import of_snapshots
from nova.cert import manifests

_LOCATION = re.compile(r'([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([^\x00-\x1f\x7f\ud800-\udfff]{1,1024})')
T = TypeVar('T')
TRUE = 'true'                   # in place of the id of a kernel: the image is one (euca-bundle-image --kernel true)
FORMATS = {'machine': 'ami', 'kernel': 'aki', 'ramdisk': 'ari'}
# Architectures as EC2 names them, and as the image and compute services do
ARCHITECTURES = {'x86_64': 'x86_64', 'i386': 'i686', 'arm64': 'aarch64'}


def register_image(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given.get('VirtualizationType') not in (None, 'hvm'):
        raise errors.unsupported('Guests are virtualized by hardware (hvm) alone.')
    if given.get('BlockDeviceMappings') and not given.get('ImageLocation'):
        if given.get('KernelId') or given.get('RamdiskId'):
            raise errors.unsupported('What boots from a volume has its kernel there.')
        if not given.get('Name'):
            raise errors.missing('Name')
        architecture = given.get('Architecture')
        return {'ImageId': of_snapshots.register(req, given, architecture and _architecture(architecture))}
    if given.get('BlockDeviceMappings'):
        raise errors.Ec2Error('InvalidParameterCombination', 'An image is of a bundle, or of snapshots.')
    bucket, key = _place(given)
    if req.bundles is None:
        raise errors.unsupported('This cloud opens no bundles: it has no certificate service.')
    manifest = _manifest(req, bucket, key)
    if not 0 < manifest.size <= req.bundles.limit:
        raise _refused(f'an image of {manifest.size} bytes is too large: {req.bundles.limit} at most, or empty.')
    if not _certified(req.bundles.signed, req.project_id, manifest.signed.hex(), manifest.signature):
        raise _refused('no user of your project has signed it with a certificate of this cloud that is not revoked.')
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
    """The path of an object, below the object store."""
    return f'/{bucket}/{urllib.parse.quote(key, safe="/-_.~")}'


def _architecture(name: str) -> str:
    if name not in ARCHITECTURES:
        raise errors.invalid('Architecture', name)
    return ARCHITECTURES[name]


def _place(given: operations.Given) -> tuple[str, str]:
    """(bucket, key) of the manifest. A key is no path: what a client or a proxy would take for one is refused."""
    location = given.get('ImageLocation')
    if not location:
        raise errors.missing('ImageLocation')
    found = _LOCATION.fullmatch(location)
    if not found or any(step in ('', '.', '..') for step in found[2].split('/')):
        raise errors.invalid('ImageLocation', location)
    return found[1], found[2]


def _refused(reason: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidManifest', f'The manifest of the image cannot be used: {reason}')


def _manifest(req: operations.Request, bucket: str, key: str) -> manifests.Manifest:
    try:
        return manifests.parse(b''.join(req.caller.read('object', path_of(bucket, key), manifests.MAX_BYTES)))
    except errors.ServiceRefused as refused:
        if refused.status != 404:
            raise
        raise _refused('your project has no such object in the object store.') from None
    except exception.InvalidInput as error:
        raise errors.Ec2Error('InvalidManifest', error.message) from None


def _certified(ask: Callable[..., T], *question: str) -> T:
    """What the certificate service answers.

    :raises Ec2Error: it refuses the manifest, or is away
    """
    try:
        return ask(*question)
    except exception.InvalidInput as error:
        raise errors.Ec2Error('InvalidManifest', error.message) from None
    except exception.NovaException:
        raise errors.Ec2Error('Unavailable', 'The certificate service does not answer.', 503) from None


def _document(req: operations.Request, given: operations.Given, manifest: manifests.Manifest, bucket: str,
              key: str) -> dict[str, Any]:
    """The image that is to be made, without its data."""
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
                   'RootDeviceName VirtualizationType TagSpecifications BlockDeviceMappings'),
]
