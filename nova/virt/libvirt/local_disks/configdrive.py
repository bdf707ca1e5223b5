"""The config drive: an ISO 9660 image with the volume id that guests look for."""
import io
import re
from collections.abc import Mapping

import pycdlib

VOLUME_ID = 'config-2'
MAX_BYTES = 64 * 1024 * 1024
MAX_NAME = 64                            # Joliet's limit for one part of a path
_PART = re.compile(r'[^/\0]{1,%d}\Z' % MAX_NAME)


def write(path: str, files: Mapping[str, bytes]) -> None:
    """Write a config drive to ``path``.

    :param files: {path in the drive, relative, with slashes: bytes}
    :raises ValueError: a path leads out of the drive or the total is over 64 MiB
    """
    if sum(len(data) for data in files.values()) > MAX_BYTES:
        raise ValueError(f'the config drive is larger than {MAX_BYTES} bytes')
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=1, rock_ridge='1.09', joliet=3, sys_ident='LINUX', vol_ident=VOLUME_ID)
    directories: dict[tuple[str, ...], str] = {(): ''}
    for number, (name, data) in enumerate(sorted(files.items())):
        parts = _parts(name)
        for depth in range(1, len(parts)):
            _directory(iso, directories, parts[:depth])
        parent = parts[:-1]
        # The ISO 9660 names are only numbers, because guests read the Rock Ridge or Joliet names.
        iso.add_fp(io.BytesIO(data), len(data), f'{directories[parent]}/F{number:06}.;1',
                   rr_name=parts[-1], joliet_path='/' + '/'.join(parts))
    iso.write(path)
    iso.close()


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(name.split('/'))
    if not all(_PART.match(part) and part not in ('.', '..') for part in parts):
        raise ValueError(f'{name!r} is no path in a config drive')
    return parts


def _directory(iso: pycdlib.PyCdlib, directories: dict[tuple[str, ...], str], parts: tuple[str, ...]) -> None:
    if parts in directories:
        return
    path = f'{directories[parts[:-1]]}/D{len(directories):06}'
    iso.add_directory(path, rr_name=parts[-1], joliet_path='/' + '/'.join(parts))
    directories[parts] = path
