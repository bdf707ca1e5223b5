"""Conversion of files that development versions before the first release stored.

Each row of ROWS names files and a function that returns their new content. Before a file is changed, it is copied to
the directory COPIES of the state directory. An interrupted conversion is repeated.

To rename or rewrite a stored file: change the code that uses it, and add a row to ROWS. No row is necessary if the
path stays and the code can still read version 1 of the record (versioned_records.py).

``nova.db.conversion`` renames columns and stored values of databases. After the first release, ROWS gets no new row.
"""
from collections.abc import Callable, Iterable, Mapping
import dataclasses
import json
import logging
import os
import pathlib
import stat

from oslo_config.cfg import ConfigOpts

from nova.json_types import Json
from nova.runtime import directories
from nova.runtime import durable_files
from nova.runtime import host_identity
from nova.runtime import state_directory

LOG = logging.getLogger(__name__)

COPIES = 'before-conversion'             # directory in the state path for the original files, with their absolute paths


def _unchanged(content: bytes) -> bytes:
    return content


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """Files that the conversion rewrites or renames.

    pattern    glob below ``directory``
    convert    function(content) -> new content; returns already converted content unchanged
    name       new name of the file in its directory; '': the file keeps its name. * stands for the text that matches *
               in the pattern
    directory  function(configuration) -> absolute directory; by default the state path
    """

    pattern: str
    convert: Callable[[bytes], bytes] = _unchanged
    name: str = ''
    directory: Callable[[ConfigOpts], str] = host_identity.state_path

    def place(self, path: pathlib.Path) -> pathlib.Path:
        """Return the new path of a file."""
        prefix, _, suffix = self.pattern.rpartition('/')[2].partition('*')
        matched = path.name.removeprefix(prefix).removesuffix(suffix)
        return path.with_name(matched.join(self.name.split('*')) or path.name)


def _rename_fields(fields: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Return a function that renames fields of a JSON object.

    :param fields: {path: new name}, for example {'volumes.source.below': 'backing_files'}. Each part of
        the path except the last is the key of an object or of a list of objects
    """
    def convert(content: bytes) -> bytes:
        try:
            before = json.loads(content)
        except ValueError:                   # not JSON: the code that reads the record reports the error
            return content
        record = before
        for path, name in fields.items():
            record = _with_renamed_field(record, path.split('.'), name)
        return content if record == before else json.dumps(record, indent=1).encode()

    return convert


def _with_renamed_field(value: Json, path: list[str], name: str) -> Json:
    if isinstance(value, list):
        return [_with_renamed_field(each, path, name) for each in value]
    if not isinstance(value, dict):
        return value
    if len(path) == 1:
        return {name if key == path[0] else key: each for key, each in value.items()}
    return {key: _with_renamed_field(each, path[1:], name) if key == path[0] else each for key, each in value.items()}


def _guests(conf: ConfigOpts) -> str:
    """Return the directory with the files of libvirt's guests."""
    return os.path.join(host_identity.state_path(conf), state_directory.INSTANCES)


def _fake_driver(conf: ConfigOpts) -> str:
    """Return the state directory of the fake driver or, if it is not configured, a path that no file matches."""
    return str(conf.fake.state_dir) or os.path.join(host_identity.state_path(conf), 'no-directory')


ROWS: tuple[StoredFile, ...] = (
    StoredFile('guest-records/*/*.json', _rename_fields({'left': 'has_left', 'done': 'completed_tasks'})),
    StoredFile('*/guest.json', _rename_fields(
        {'taken_from': 'previous_host', 'moved_from': 'source_directory', 'hostdevs.held': 'claimed_by_move',
         'rescued.late': 'hot_plugged', 'volumes.source.below': 'backing_files'}), directory=_guests),
    StoredFile('*/lent', name='in-migration', directory=_guests),
    StoredFile('*/arriving.json', name='transfer.json', directory=_guests),
    StoredFile('*/leaving.*.json', name='post-copy.*.json', directory=_guests),
    StoredFile('*.arriving', name='*.incoming', directory=_fake_driver),
    StoredFile('volumes/exports/*/host.json', _rename_fields({'ends_at': 'certificate_expires_at'})),
)


def convert(conf: ConfigOpts, rows: Iterable[StoredFile] | None = None) -> list[pathlib.Path]:
    """Convert the stored files of this host; return those that were changed. Repeated calls change nothing.

    :param rows: None: ROWS
    """
    copies = pathlib.Path(os.path.abspath(host_identity.state_path(conf))) / COPIES
    changed = []
    for row in ROWS if rows is None else rows:
        root = pathlib.Path(os.path.abspath(row.directory(conf)))
        for path in sorted(root.glob(row.pattern)):
            if copies in path.parents or path.is_symlink() or not path.is_file():
                continue
            content = path.read_bytes()
            converted, place = row.convert(content), row.place(path)
            if converted == content and place == path:
                continue
            copy = copies / path.relative_to(path.anchor)
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = durable_files.owner_of(path)
            durable_files.create(copy, content, owner=owner)         # an existing copy has the original content
            durable_files.replace(place, converted, stat.S_IMODE(path.stat().st_mode), owner)
            if place != path:
                path.unlink()
                directories.sync(path.parent)
            changed.append(path)
            LOG.info('Converted the stored file %s', path)
    return changed
