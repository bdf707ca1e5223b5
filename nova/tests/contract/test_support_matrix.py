"""The support matrix of the documentation says of each driver what its capabilities say, and names tests that are."""
import pathlib
import re
import sys

import pytest

from nova import conf
from nova.tests.contract import driver_contract
from nova.virt import driver
from nova.virt import fake
from nova.virt.ironic import driver as ironic_driver

EXTENSION = pathlib.Path(__file__).parents[3] / 'doc' / 'ext'

pytestmark = pytest.mark.skipif(not EXTENSION.exists(), reason='the documentation is not part of an installed nova')


@pytest.fixture(scope='module')
def support():
    sys.path.insert(0, str(EXTENSION))
    try:
        import reference_support
    finally:
        sys.path.remove(str(EXTENSION))
    return reference_support


def test_every_feature_has_one_row(support):
    assert sorted(row[2] for row in support.ROWS if row[2]) == sorted(map(driver.name_of, driver.FEATURES))


def test_tests_of_the_support_matrix_exist(support):
    named = [row[3] for row in support.ROWS if row[3]]
    assert len(named) > 15
    assert [name for name in named if not hasattr(driver_contract.DriverContract, name)] == []


TESTS = pathlib.Path(__file__).parents[1]


def test_guest_features_name_existing_tests(support):
    named = [test.split('::') for _what, _status, _able, test in support.GUESTS if test]
    assert len(named) > 20
    assert [name for path, name in named if f'def {name}(' not in (TESTS / path).read_text()] == []
    assert all(able <= set(support.DRIVERS) and (able or not test) for _what, _status, able, test in support.GUESTS)
    text = '\n'.join(support.page())
    assert all(f'* - {what}\n' in text for what, *_rest in support.GUESTS)


def test_guest_features_without_an_integration_test_give_a_reason(support):
    """A row that a unit test shows looked like one that real guests show."""
    reasons = {what for what, _why, _instead in support.UNTRIED}
    unseen = {what for what, _status, able, test in support.GUESTS if able and not test.startswith('integration/')}
    known = {row[0] for row in (*support.ROWS, *support.GUESTS)}
    assert unseen <= reasons <= known
    assert all(why and instead for _what, why, instead in support.UNTRIED)


def marks(support, column):
    """{what: word of a driver} of the first table of the page."""
    page = '\n'.join(support.page()).partition('What guests have')[0]
    rows = re.findall(r'^   \* - (.+(?:\n     .*)*)', page, re.M)
    cells = [[cell.strip() for cell in re.split(r'\n     - ', row)] for row in rows]
    number = cells[0].index(column)
    return {row[0]: row[number] for row in cells[1:]}


def test_every_kind_of_storage_has_a_row_and_its_test_is_there(support):
    tests = EXTENSION.parents[1] / 'nova' / 'tests'
    for what, _name, state, test, words in support.STORAGE:
        assert test or state == support.NONE and words, what
        if test:
            file, _colons, name = test.partition('::')
            assert re.search(rf'^(def|class) {re.escape(name)}\b', (tests / file).read_text(), re.M), test
    pytest.importorskip('libvirt', reason='libvirt-python is not installed')
    from nova.virt.libvirt.volumes import connectors
    named = {row[1] for row in support.STORAGE}
    assert {*connectors.OURS, 'qcow2', 'raw', 'rbd'} <= named


def _capabilities(kind):
    return kind(conf.new(files=[]), 'a-host', images=None).capabilities()


def _expected(support, capabilities):
    return {row[0]: 'yes' if row[2] is None or capabilities[row[2]] else 'no' for row in support.ROWS}


def test_the_page_says_what_the_fake_driver_does(support):
    found = marks(support, 'fake')
    assert found == _expected(support, _capabilities(fake.FakeDriver))


def test_the_page_says_what_the_libvirt_driver_does(support):
    pytest.importorskip('libvirt', reason='libvirt-python is not installed')
    from nova.virt.libvirt import driver as libvirt_driver
    found = marks(support, 'libvirt')
    assert found == _expected(support, _capabilities(libvirt_driver.LibvirtDriver))
    assert found['Rescue a server'] == 'yes' and set(found.values()) <= {'yes', 'no'}


def test_the_page_says_what_the_ironic_driver_does(support):
    expected = _expected(support, _capabilities(ironic_driver.IronicDriver))
    assert marks(support, 'ironic') == {**expected, **dict.fromkeys(support.WITHOUT['ironic'], 'no')}


def test_a_driver_whose_library_is_missing_is_not_said_to_do_anything(support, monkeypatch):
    monkeypatch.setitem(support.DRIVERS, 'libvirt', 'no_such_package.Driver')
    assert set(marks(support, 'libvirt').values()) == {'unknown: its library is not installed'}
