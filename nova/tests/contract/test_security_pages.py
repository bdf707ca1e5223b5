"""The security guide and the threat model name files, options and alerts that exist."""
import pathlib
import re

import pytest

from nova.web import sizes

TREE = pathlib.Path(__file__).resolve().parents[3]
SOURCE = TREE / 'doc' / 'source'
PAGES = ('admin/security.rst', 'contributor/threat-model.rst')
TEST = re.compile(r'(?:nova/tests/)?((?:unit|functional|contract|integration|perf|attacks)/[\w/]+\.py)')
FILE = re.compile(r'``((?:nova|etc|tools)/[\w./*-]+)')

pytestmark = pytest.mark.skipif(not SOURCE.exists(), reason='the documentation is not part of an installed nova')


def page(name: str) -> str:
    return (SOURCE / name).read_text()


@pytest.mark.parametrize('name', PAGES)
def test_files_of_the_security_pages_exist(name):
    text = page(name)
    named = {f'nova/tests/{path}' for path in TEST.findall(text)} | set(FILE.findall(text))
    assert len(named) > 3
    assert [path for path in sorted(named) if not list(TREE.glob(path))] == []


def test_each_class_has_tests():
    """A row of the table has a letter, the class, and files in which there is a test or an attack."""
    table = page('contributor/threat-model.rst').partition('\nClasses of vulnerability')[2]
    rows = dict(re.findall(r'^   \* - ([A-Z])\n((?:     .*\n)+)', table, re.M))
    assert sorted(rows) == list('ABCDEFGHIJKLMNOPQRS')
    for letter, row in rows.items():
        paths = TEST.findall(row)
        assert paths, letter
        for path in paths:
            assert re.search(r'def (?:test_|attacks\b)', (TREE / 'nova' / 'tests' / path).read_text()), (letter, path)


@pytest.mark.parametrize('name', PAGES)
def test_options_are_those_of_the_sample(name):
    sample = (TREE / 'etc' / 'nova' / 'nova.conf.sample').read_text()
    known = {(group, option) for group, text in re.findall(r'^\[(\w+)\]\n(.*?)(?=^\[|\Z)', sample, re.M | re.S)
             for option in re.findall(r'^#(\w+) = ?', text, re.M)}
    named = set(re.findall(r'``\[(\w+)\]\s+(\w+)', page(name)))
    assert len(named) > 2
    assert named - known == set()


def test_document_sizes_are_those_of_the_code():
    sentence = page('admin/security.rst').partition('* Documents that callers extend')[2].partition('\n* ')[0]
    assert [int(number) << {'K': 10, 'M': 20}[unit] for number, unit in re.findall(r'(\d+) ([KM])iB', sentence)] == [
        sizes.IMAGE, sizes.METADATA, sizes.SPECS, sizes.RESOURCE, sizes.PAGE]


def test_alerts_of_the_security_pages_exist():
    alerts = set(re.findall(r'alert: (\w+)', (TREE / 'etc' / 'nova' / 'prometheus-alerts.yaml').read_text()))
    named = set(re.findall(r'``(Nova[A-Z]\w+)``', page('admin/security.rst')))
    assert named and named <= alerts
