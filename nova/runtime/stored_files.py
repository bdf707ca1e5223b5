"""Conversion of stored files of the tree before the first release.

Each row of ROWS names files and a function that returns their new content. A file that changes is first copied to the
directory COPIES of the state directory. An interrupted conversion is repeated.

To rename or rewrite a stored file: change the code that uses it, and add a row to ROWS. A change of content alone needs
no row where the reader accepts records of version 1 (see the module of the record).

Names of stored values in databases are in ``nova.db.conversion``. After the first release nothing is added here.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
import dataclasses
import logging
import os
import pathlib
import stat

from oslo_config.cfg import ConfigOpts

from nova.runtime import directories
from nova.runtime import durable_files
from nova.runtime import host_identity

LOG = logging.getLogger(__name__)

COPIES = 'before-conversion'             # below the state path: the files as they were, in the same directories


def _unchanged(content: bytes) -> bytes:
    return content


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """Files that the conversion rewrites or renames.

    pattern    glob below ``directory``
    convert    function(content) -> new content; it returns content that is converted already unchanged
    name       new name of the file in its directory; '': it keeps its name
    directory  function(configuration) -> absolute directory; by default the state path
    """

    pattern: str
    convert: Callable[[bytes], bytes] = _unchanged
    name: str = ''
    directory: Callable[[ConfigOpts], str] = host_identity.state_path


ROWS: tuple[StoredFile, ...] = ()


def convert(conf: ConfigOpts, rows: Iterable[StoredFile] | None = None) -> list[pathlib.Path]:
    """Convert the stored files of this host; return those that were changed. Repeated calls change nothing.

    :param rows: ROWS unless given
    """
    copies = pathlib.Path(os.path.abspath(host_identity.state_path(conf))) / COPIES
    changed = []
    for row in ROWS if rows is None else rows:
        root = pathlib.Path(os.path.abspath(row.directory(conf)))
        for path in sorted(root.glob(row.pattern)):
            if copies in path.parents or path.is_symlink() or not path.is_file():
                continue
            content = path.read_bytes()
            converted, place = row.convert(content), path.with_name(row.name or path.name)
            if converted == content and place == path:
                continue
            copy = copies / path.relative_to(path.anchor)
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = durable_files.owner_of(path)
            durable_files.create(copy, content, owner=owner)         # a copy that exists is of the original content
            durable_files.replace(place, converted, stat.S_IMODE(path.stat().st_mode), owner)
            if place != path:
                path.unlink()
                directories.sync(path.parent)
            changed.append(path)
            LOG.info('Converted the stored file %s', path)
    return changed
