"""Older releases, for tests.

    <VERSION>.json  interface rows, fields of objects and payloads, columns of tables of a release, frozen when it is
                    tagged; tools/freeze_versions.py writes the file of this release after each change
    records.json    formats of the records on disks, in all versions
    tree.py         code of a release, where the history of the repository has it
    rows.json       rows of a cloud of the tree before the first release, written by rows.py
    stored.py       databases made of these rows
    records.json    formats of records on disks in all versions, see records.py
"""
import json
import pathlib

DIRECTORY = pathlib.Path(__file__).parent


def read(version):
    """The frozen manifest of a VERSION: what ``manifest.current()`` gave."""
    return json.loads((DIRECTORY / f'{version}.json').read_text())
