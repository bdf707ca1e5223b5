"""What the releases spoke: ``<VERSION>.json`` has the interface rows, the fields of objects and payloads, and the
columns of tables of one, frozen. ``records.json`` has the formats of records on disks in all versions.

``1.json`` is that of the first release and never changes again; the file of VERSION is written anew by
``tools/freeze_versions.py`` whenever a row of this release changes, until it is tagged.

The code of a release itself, where the tests run in a clone that has its commit: ``tree.exported()``.
"""
import json
import pathlib

DIRECTORY = pathlib.Path(__file__).parent


def read(version):
    """The frozen manifest of a VERSION: what ``manifest.current()`` gave."""
    return json.loads((DIRECTORY / f'{version}.json').read_text())
