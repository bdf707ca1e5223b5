"""Decisions (ADRs): each has its parts, and every reference in the tree leads to one."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[3]
FOLDER = ROOT / 'doc/source/adr'
DECISIONS = sorted(FOLDER.glob('[0-9]*.rst'))
PARTS = ('Context', 'Options', 'Decision', 'Consequences')
WORDS = 900
REFERENCE = re.compile(r'\bADRs? (\d{4})\b|\badr/(\d{4}[a-z0-9-]*)')
FILE = re.compile(r'``((?:nova|tools|etc|doc)/[\w./-]+)')

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason='the documentation is not part of an installed nova')


@pytest.mark.parametrize('path', DECISIONS, ids=lambda path: path.stem[:4])
def test_decision_has_its_parts(path):
    text = path.read_text()
    assert re.match(rf'{path.stem[:4]}: [A-Z][a-z]+ .*\n=+\n\n:Status: \w+\n:Date: \d{{4}}-\d\d-\d\d', text)
    assert tuple(re.findall(r'^(.+)\n-{3,}$', text, re.M)) == PARTS
    assert len(text.split()) <= WORDS


@pytest.mark.parametrize('path', DECISIONS, ids=lambda path: path.stem[:4])
def test_files_in_a_decision_exist(path):
    named = {match.rstrip('.') for match in FILE.findall(path.read_text())}
    assert not [file for file in sorted(named) if not (ROOT / file).exists()]


def test_each_number_is_one_decision_and_in_the_index():
    index = (FOLDER / 'index.rst').read_text()
    numbers = [path.stem[:4] for path in DECISIONS]
    assert len(set(numbers)) == len(numbers) > 20
    assert not [path.stem for path in DECISIONS if f':doc:`{path.stem}`' not in index]


def test_references_lead_to_a_decision():
    """A number or a file name, in code, documents and scripts. The index lists numbers before release 1.0."""
    listed = subprocess.run(['git', 'grep', '-nIE', r'ADRs? [0-9]{4}|adr/[0-9]{4}', '--', ':!doc/source/adr/index.rst'],
                            cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    if not listed:
        pytest.skip('the tree is not a repository of git')
    known = {path.stem for path in DECISIONS} | {path.stem[:4] for path in DECISIONS}
    wrong = [line for line in listed for number, name in REFERENCE.findall(line) if (number or name) not in known]
    assert not wrong
