"""Images that lead to files of the host, or claim to be what they are not (classes A, B and C)."""
import functools
import json
from collections.abc import Iterator

from nova.tests import image_corpus
from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

_PLACES = ('file:///etc/passwd', 'http://127.0.0.1:22/', 'http://169.254.169.254/latest/meta-data/', 'rbd://a/b/c/d')


def attacks(stage) -> Iterator[Attack]:
    for name, data, disk_format, _reason in image_corpus.DANGEROUS:
        yield Attack('image', name, functools.partial(_upload, data, disk_format))
    for name, properties in _references(stage).items():
        yield Attack('image reference', f'server from an image whose {name}', functools.partial(_boot, properties))
        if 'kernel_id' in properties:                # a rebuild keeps the block devices that are there
            yield Attack('image reference', f'rebuild with an image whose {name}',
                         functools.partial(_rebuild, properties))
    for place in _PLACES:
        yield Attack('image', f'import from {place}', functools.partial(_import, place))
        yield Attack('image', f'location {place}', functools.partial(_location, place))


def _references(stage) -> dict[str, dict]:
    """{words: properties of an image} that name what the attacker may not have, or no document."""
    def mapping(**device):
        return {'block_device_mapping': json.dumps([{'boot_index': 0, 'destination_type': 'volume', **device}]),
                'bdm_v2': 'True'}
    things = stage.things
    found = {
        'ramdisk is another project\'s': {'kernel_id': stage.own['image'], 'ramdisk_id': things['image']},
        'kernel is another project\'s': {'kernel_id': things['image'], 'ramdisk_id': stage.own['image']},
        'ramdisk is nowhere': {'kernel_id': stage.own['image'], 'ramdisk_id': base.MISSING},
        'ramdisk is a path': {'kernel_id': stage.own['image'], 'ramdisk_id': '../../etc/passwd'},
        'mapping is another project\'s image': mapping(source_type='image', image_id=things['image'], volume_size=1),
        'mapping is 60,000 brackets': {'block_device_mapping': '[' * 60_000, 'bdm_v2': 'True'},
        'mapping is deep': {'block_device_mapping': '[' * 60_000 + ']' * 60_000, 'bdm_v2': 'True'},
        'mapping is no document': {'block_device_mapping': '{', 'bdm_v2': 'True'},
        'mapping is a text': {'block_device_mapping': '"a"', 'bdm_v2': 'True'},
    }
    for kind in ('volume', 'snapshot'):
        if kind in things:
            found[f'mapping is another project\'s {kind}'] = mapping(source_type=kind, **{f'{kind}_id': things[kind]})
    return found


def _hostile(stage, properties):
    """The id of an active image with these properties; None where the image service refuses them."""
    answer = stage.attacker.send('POST', 'image', '/images', {
        'name': 'hostile', 'disk_format': 'raw', 'container_format': 'bare', **properties})
    if answer.status != 201:
        return None
    image = base.document(answer)['id']
    stage.attacker.make('image', f'/images/{image}/file', None, method='PUT', data=bytes(4096),
                        headers={'Content-Type': 'application/octet-stream'})
    return image


def _boot(properties, stage):
    image = _hostile(stage, properties)
    if image is None:
        return None
    answer = stage.attacker.send('POST', 'compute', '/servers', {'server': {
        'name': 'hostile', 'imageRef': image, 'flavorRef': stage.own['flavor'], 'networks': 'none'}})
    if answer.status == 202:
        stage.attacker.send('DELETE', 'compute', f'/servers/{base.document(answer)["server"]["id"]}')
    stage.attacker.send('DELETE', 'image', f'/images/{image}')
    return base.refused(answer)


def _rebuild(properties, stage):
    image = _hostile(stage, properties)
    if image is None:
        return None
    answer = stage.attacker.send('POST', 'compute', f'/servers/{stage.own["server"]}/action', {
        'rebuild': {'imageRef': image}})
    stage.attacker.send('DELETE', 'image', f'/images/{image}')
    return base.refused(answer)


def _made(stage, disk_format='raw'):
    return stage.attacker.make('image', '/images', {
        'name': 'hostile', 'disk_format': disk_format,
        'container_format': disk_format if disk_format in ('ami', 'aki', 'ari') else 'bare'})['id']


def _upload(data, disk_format, stage):
    image = _made(stage, disk_format)
    try:
        answer = stage.attacker.send('PUT', 'image', f'/images/{image}/file', data=data,
                                     headers={'Content-Type': 'application/octet-stream'})
        status = base.document(stage.attacker.send('GET', 'image', f'/images/{image}'))['status']
        return base.flaw(answer) or ('it is active' if status == 'active' else None)
    finally:
        stage.attacker.send('DELETE', 'image', f'/images/{image}')


def _import(place, stage):
    image = _made(stage)
    try:
        return base.refused(stage.attacker.send('POST', 'image', f'/images/{image}/import', {
            'method': {'name': 'web-download', 'uri': place}}))
    finally:
        stage.attacker.send('DELETE', 'image', f'/images/{image}')


def _location(place, stage):
    image = _made(stage)
    try:
        return base.refused(stage.attacker.send(
            'PATCH', 'image', f'/images/{image}', data=b'[{"op": "add", "path": "/locations/-", "value": {"url": "%s", '
            b'"metadata": {}}}]' % place.encode(),
            headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'}))
    finally:
        stage.attacker.send('DELETE', 'image', f'/images/{image}')
