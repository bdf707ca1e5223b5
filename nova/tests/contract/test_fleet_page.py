"""doc/source/admin/fleet-faults.rst names every fault of tools/faults.py, and no other."""
import importlib
import pathlib
import re
import sys

import pytest

TREE = pathlib.Path(__file__).resolve().parents[3]


def test_fleet_page_lists_the_faults_in_order(monkeypatch):
    if not (TREE / 'tools' / 'faults.py').exists():
        pytest.skip('tools/faults.py is not part of an installed nova')
    monkeypatch.setattr(sys, 'path', [str(TREE / 'tools'), *sys.path])
    faults = importlib.import_module('faults').FAULTS
    page = (TREE / 'doc' / 'source' / 'admin' / 'fleet-faults.rst').read_text()
    assert re.findall(r'^``([^`]+)``  ', page.partition('\nFault  ')[2], re.M) == list(faults)
