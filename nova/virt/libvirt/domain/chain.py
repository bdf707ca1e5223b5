"""Volumes that are backing chains of qcow2 files: read and check the headers, and plan merges.

The guest writes only to the active file. For a snapshot, a file-based storage (Cinder's NFS driver) creates an overlay
on the active file. From then on, the overlay is the active file. The header of a file names its backing file and the
format: https://github.com/qemu/qemu/blob/master/docs/interop/qcow2.txt. Block Storage and QEMU write the headers. This
module accepts only backing files in the same directory and with an explicit format.
"""
import json
import os
import stat
import struct
import subprocess
import tempfile
import typing

from nova import exception
from nova.hardware import disks as words
from nova.json_types import Json

QCOW2, RAW = words.QCOW2, words.RAW
MAX_FILES = 64                           # maximum files in a chain
HEADER_BYTES = 65536                     # bytes read from a file: one cluster of the default size
READ_S = 30                              # timeout in seconds to read one header over the network
_MAGIC = b'QFI\xfb'
_FORMAT, _END = 0xE2792ACA, 0            # types of header extensions: format of the backing file, end of the list
_EXTERNAL_DATA = 1 << 2                  # bit of the incompatible features: external data file

File = tuple[str, str]                   # name, format
Read = typing.Callable[[str], bytes]     # function(name in the volume's directory) -> first HEADER_BYTES of the file


def refused(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='follow the files of the volume', reason=reason)


def check_name(name: Json) -> str:
    """Check a file name.

    :raises VirtError: the name may refer to a file in another directory
    """
    if not isinstance(name, str) or not words.FILE_NAME.match(name):
        raise refused(f'{name!r:.80} is not {words.FILE_NAME_RULE}')
    return name


def below(header: bytes, directory: str | None = None) -> File | None:
    """Return the backing file of a qcow2 file, or None if it has none.

    :param header: first bytes of the file
    :param directory: directory of all files; the header may have the name of the backing file with this directory
    :raises VirtError: the file is not a qcow2 file, or its backing file is not permitted
    """
    if len(header) < 72 or header[:4] != _MAGIC:
        raise refused('one of its files is not qcow2')
    version, offset, length = struct.unpack('>IQI', header[4:20])
    encrypted, = struct.unpack('>I', header[32:36])
    if version not in (2, 3) or encrypted:
        raise refused('one of its files is encrypted, or has an unknown version of qcow2')
    start = 72
    if version == 3:
        features, = struct.unpack('>Q', header[72:80])
        if features & _EXTERNAL_DATA:
            raise refused('one of its files has its data in another file')
        start, = struct.unpack('>I', header[100:104])
    if not offset:
        return None
    if not 0 < length <= 1023 or offset + length > len(header):
        raise refused('one of its files has a damaged header')
    name = header[offset:offset + length].decode(errors='replace')
    if directory and os.path.dirname(name) == directory:
        name = os.path.basename(name)
    form = _extensions(header, start).get(_FORMAT, b'').decode(errors='replace')
    if form not in (QCOW2, RAW):
        # without an explicit format QEMU would detect the format from the data, which the guest controls
        raise refused(f'the header of a file names the format {form!r:.20} for its backing file, not qcow2 or raw')
    return check_name(name), form


def _extensions(header: bytes, start: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while start + 8 <= len(header):
        kind, length = struct.unpack('>II', header[start:start + 8])
        if kind == _END or length > len(header):
            break
        found[kind] = header[start + 8:start + 8 + length]
        start += 8 + (length + 7) // 8 * 8
    return found


def follow(name: str, read: Read, directory: str | None = None) -> list[File]:
    """Return the backing files of a qcow2 file, its direct backing file first.

    :raises VirtError: the chain has too many files, a cycle, or a backing file that is not permitted
    """
    found: list[File] = []
    top, form = name, QCOW2
    while form == QCOW2:
        next_one = below(read(top), directory)
        if next_one is None:
            break
        found.append(next_one)
        top, form = next_one
        if top in (name, *(each[0] for each in found[:-1])) or len(found) >= MAX_FILES:
            raise refused(f'its backing chain has a cycle, or more than {MAX_FILES} files')
    return found


def read_file(path: str) -> bytes:
    """Return the first bytes of a regular file of this host.

    :raises VirtError: there is no such regular file
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, 'rb') as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise refused(f'{os.path.basename(path)} is not a regular file')
            return file.read(HEADER_BYTES)
    except OSError as error:
        raise refused(f'{os.path.basename(path)}: {error.strerror}') from error


def read_nfs(host: str, path: str) -> bytes:
    """Return the first bytes of a file of an NFS server; qemu-img reads the file as raw data.

    :raises VirtError: the file cannot be read
    """
    with tempfile.NamedTemporaryFile(prefix='nova-header-') as file:
        _qemu_img(path, 'dd', '-U', '-f', RAW, '-O', RAW, f'bs={HEADER_BYTES}', 'count=1',
                  f'if={_nfs(host, path, RAW)}', f'of={file.name}')
        with open(file.name, 'rb') as made:
            return made.read(HEADER_BYTES)


def name_below_nfs(host: str, path: str, name: str, form: str) -> None:
    """Set the backing file in the header of a qcow2 file of an NFS server. QEMU must not have opened the file.

    :raises VirtError: the header cannot be written
    """
    _qemu_img(path, 'rebase', '-u', '-q', '-f', QCOW2, '-b', name, '-F', form, _nfs(host, path, QCOW2))


def _nfs(host: str, path: str, form: str) -> str:
    return 'json:' + json.dumps({'driver': form, 'file': {
        'driver': 'nfs', 'server': {'type': 'inet', 'host': host}, 'path': path}})


def _qemu_img(path: str, *arguments: str) -> None:
    try:
        done = subprocess.run(['qemu-img', *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=READ_S)
    except subprocess.TimeoutExpired:
        raise refused(f'its storage did not answer for {os.path.basename(path)} within {READ_S} seconds') from None
    if done.returncode:
        raise refused(f'{os.path.basename(path)} cannot be read or written')


def size(header: bytes) -> int:
    """Return the virtual size of a qcow2 file in bytes."""
    return int(struct.unpack('>Q', header[24:32])[0])


class Merge(typing.NamedTuple):
    """Merge of files of a volume. ``top`` and ``base`` are indexes of files; 0 is the active file.

    commit   True: merge the files ``top`` to ``base - 1`` into ``base``, which replaces ``top`` in the chain. False:
             merge the files between the active file and ``base`` into the active file
    base     None: merge all backing files into the active file
    after    files of the volume after the merge
    """

    commit: bool
    top: int
    base: int | None
    after: list[File]

    @property
    def named(self) -> tuple[int, int] | None:
        """Return (index of a file, index of its new backing file), or None if the merge changes no backing file."""
        if self.base is None or self.commit and self.top == 0:
            return None
        return (self.top - 1 if self.commit else 0), self.base


def plan(files: list[File], merged: str | None, target: str | None) -> Merge | None:
    """Return the merge for a request to delete a snapshot.

    :param merged: file_to_merge of the request, or None. Without a target, this file becomes the backing file of the
        active file. If ``merged`` and ``target`` are None, all backing files are merged
    :param target: merge_target_file of the request, or None
    :returns: None if an earlier request has completed the merge
    :raises VirtError: the volume has no such file, or the merged file is not above the target
    """
    names = [name for name, _form in files]
    for name in (merged, target):
        if name is not None and check_name(name) not in names:
            raise refused(f'it has no file {name}')
    if target is None:
        base = names.index(merged) if merged is not None else None
        if base == 0:
            raise refused('the active file cannot be its own backing file')
        if base == 1 or base is None and len(files) == 1:
            return None                  # an earlier request has completed the merge
        return Merge(False, 0, base, [files[0], *(files[base:] if base is not None else ())])
    if merged is None:
        raise refused('a request with merge_target_file needs file_to_merge')
    top, base = names.index(merged), names.index(target)
    if base <= top:
        raise refused(f'{target} is not a backing file of {merged}')
    return Merge(True, top, base, [*files[:top], *files[base:]])
