"""What the releases spoke: ``<VERSION>.json`` has the interface rows and the objects' fields of one, frozen.

``1.json`` is that of the first release and never changes again; the file of VERSION is written anew by
``tools/freeze_versions.py`` whenever a row of this release changes, until it is tagged.

The code of a release itself, where the tests run in a clone that has its commit: ``tree.exported()``.
"""
import json
import pathlib

DIRECTORY = pathlib.Path(__file__).parent


def read(version):
    """The frozen manifest of a VERSION: {'interfaces': {topic: …}, 'objects': {name: …}}."""
    return json.loads((DIRECTORY / f'{version}.json').read_text())
