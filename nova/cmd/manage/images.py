"""nova-manage image: import files of this host into the Image service, Glance or the embedded one."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.cmd.command_line import flag
from nova.cmd.manage import known_projects

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.image.api import Images

_OWNER = {'metavar': 'OWNER', 'help': f'project that owns the image: {known_projects.HELP}'}
_FILE = {'metavar': 'PATH', 'help': 'a file'}
_KINDS = {'machine': 'ami', 'kernel': 'aki', 'ramdisk': 'ari'}      # {name in the Bexar format: disk format}


def image_register(conf: cfg.ConfigOpts, path: str, owner: str | None, disk_format: str | None,
                   container_format: str | None, name: str | None, kernel_id: str | None, ramdisk_id: str | None,
                   private: bool) -> None:
    """Register a disk image. Without --disk-format, the format is detected from the file."""
    kinds = {'kernel_id': kernel_id, 'ramdisk_id': ramdisk_id}
    properties = {name: value for name, value in kinds.items() if value}
    register(store(conf), path, project(conf, owner), disk_format or ('ami' if properties else _format_of(path)),
             container_format, name, properties, private)


def kernel_register(conf: cfg.ConfigOpts, path: str, owner: str | None, name: str | None, private: bool) -> None:
    """Register a kernel (aki)."""
    register(store(conf), path, project(conf, owner), 'aki', None, name, {}, private)


def ramdisk_register(conf: cfg.ConfigOpts, path: str, owner: str | None, name: str | None, private: bool) -> None:
    """Register a ramdisk (ari)."""
    register(store(conf), path, project(conf, owner), 'ari', None, name, {}, private)


def all_register(conf: cfg.ConfigOpts, image: str, kernel: str, ramdisk: str, owner: str | None, private: bool) -> None:
    """Register a kernel, a ramdisk, and the image (ami) that boots with them."""
    images, owner = store(conf), project(conf, owner)
    properties = {'kernel_id': register(images, kernel, owner, 'aki', None, None, {}, private),
                  'ramdisk_id': register(images, ramdisk, owner, 'ari', None, None, {}, private)}
    register(images, image, owner, 'ami', None, None, properties, private)


def convert(conf: cfg.ConfigOpts, directory: str) -> None:
    """Register the images of a directory of the Bexar format: */info.json next to a file named image."""
    images = store(conf)
    ids: dict[str, str] = {}
    found = [_bexar(path) for path in sorted(pathlib.Path(directory).glob('*/info.json'))]
    if not found:
        raise exception.InvalidInput(reason=f'{directory} has no */info.json.')
    owners = {owner: project(conf, owner) for owner in {info['owner'] for info in found}}
    # Register kernels and ramdisks first, because their new ids replace their old ids in the machine images.
    for info in sorted(found, key=lambda info: info['kind'] == 'ami'):
        kinds = {'kernel_id': info['kernel'], 'ramdisk_id': info['ramdisk']}
        properties = {name: ids.get(old, old) for name, old in kinds.items() if old and old != 'true'}
        if info['architecture']:
            properties['architecture'] = info['architecture']
        ids[info['old']] = register(images, info['path'], owners[info['owner']], info['kind'], None, info['name'],
                                    properties, not info['public'])


def _bexar(path: pathlib.Path) -> dict[str, Any]:
    """Return the content of an info.json file under the keys that ``convert`` uses.

    :raises InvalidInput: the file does not have this format
    """
    try:
        info = json.loads(path.read_text(encoding='utf-8'))
        kind = _KINDS[info.get('imageType') or info.get('type') or 'machine']
        return {'kind': kind, 'old': info['imageId'], 'owner': info.get('imageOwnerId'),
                'name': info.get('displayName') or info.get('imageLocation') or info['imageId'],
                'public': info.get('isPublic') in (True, 'True', 'true'), 'architecture': info.get('architecture'),
                'kernel': info.get('kernelId'), 'ramdisk': info.get('ramdiskId'), 'path': str(path.parent / 'image')}
    except (ValueError, KeyError, AttributeError) as error:
        raise exception.InvalidInput(reason=f'{path} is not a description of an image: {error!r}') from None


def project(conf: cfg.ConfigOpts, owner: str | None) -> str | None:
    """Return the id of the owner's project, which must exist, or None without an owner."""
    return known_projects.look_up(conf, owner) if owner else None


def store(conf: cfg.ConfigOpts) -> Images:
    """Return the image service of this deployment."""
    from nova.cloud import assembly
    if conf.image.backend != 'embedded':
        return assembly.remote_images(conf)
    api_db, _cells = assembly.checked_databases(conf)
    return assembly.images(conf, api_db)


def _format_of(path: str) -> str:
    from nova.image import inspector
    found = inspector.inspect_file(path).format
    return found if found in inspector.ACCEPTS else 'raw'


def register(images: Images, path: str, owner: str | None, disk_format: str, container_format: str | None,
             name: str | None, properties: dict[str, str], private: bool, min_disk: int = 0,
             min_ram: int = 0) -> str:
    """Register an image, print its id and return it; a failed upload leaves no image.

    :param min_disk: GiB
    :param min_ram: MiB
    """
    from nova import context
    ctx = context.admin_context()
    os.stat(path)
    image = images.create(ctx, {
        'name': name or os.path.basename(path), 'visibility': 'private' if private else 'public',
        'disk_format': disk_format, 'container_format': container_format or (
            disk_format if disk_format in _KINDS.values() else 'bare'),
        **({'owner': owner} if owner else {}), 'min_disk': min_disk, 'min_ram': min_ram, 'properties': properties})
    try:
        images.upload(ctx, image['id'], path, disk_format, container_format)
    except BaseException:
        images.delete(ctx, image['id'])
        raise
    print(f"{disk_format} {path} was stored as image {image['id']}.")
    return image['id']


COMMANDS = {'image_register': image_register, 'kernel_register': kernel_register,
            'ramdisk_register': ramdisk_register, 'all_register': all_register, 'convert': convert}
_NAME = {'help': 'name of the image (default: the name of the file)'}
_PRIVATE = flag('make the image visible to the project of the owner only (default: public)')
_ONE = {'path': _FILE, 'owner': _OWNER, '--name': _NAME, '--private': _PRIVATE}
OPTIONS = {
    image_register: {
        **_ONE, '--disk-format': {'help': 'format of the file, such as qcow2 or raw (default: detected)'},
        '--container-format': {'help': 'container format (default: bare, or the disk format for ami, aki and ari)'},
        '--kernel-id': {'metavar': 'ID', 'help': 'id of the kernel image'},
        '--ramdisk-id': {'metavar': 'ID', 'help': 'id of the ramdisk image'}},
    kernel_register: _ONE,
    ramdisk_register: _ONE,
    all_register: {name: _FILE for name in ('image', 'kernel', 'ramdisk')} | {'owner': _OWNER, '--private': _PRIVATE},
    convert: {'directory': {'metavar': 'DIRECTORY', 'help': 'directory that contains one directory per image'}},
}
