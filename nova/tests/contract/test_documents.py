"""README, changelog and changelog fragments: their paths are there, and their form is the one that they describe."""
import datetime
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / 'tools'))
import changes

README = (ROOT / 'README.rst').read_text()
PICTURE_BYTES, RELEASE_BYTES, FIGURES_LINES = 150_000, 10_000, 60
# Pages of the built documentation, and what an installation makes.
NOT_IN_THE_TREE = ('doc/source/reference', 'doc/build')


@pytest.fixture
def tree(tmp_path):
    """A tree with a changelog and the folder of fragments."""
    (tmp_path / 'doc/changes').mkdir(parents=True)
    (tmp_path / 'doc/changes/README.rst').write_text('The form.\n')
    (tmp_path / 'CHANGELOG.rst').write_text(
        'Changes\n=======\n\n1.0.0 (2027-01-01)\n------------------\n\nThe first one.\n')
    return tmp_path


def write(tree, name, text):
    path = tree / 'doc/changes' / name
    path.write_text(text)
    return path


def test_paths_in_the_readme_exist():
    named = {match.rstrip('.') for match in re.findall(r'(?:doc|etc|nova|tools)/[\w./-]+', README)}
    missing = [path for path in sorted(named) if not path.startswith(NOT_IN_THE_TREE) and not (ROOT / path).exists()]
    assert len(named) > 20 and not missing


def test_picture_of_the_readme_is_small():
    pictures = re.findall(r'^\.\. image:: (\S+)$', README, re.M)
    assert pictures == ['doc/source/_static/dashboard.png']
    assert (ROOT / pictures[0]).stat().st_size <= PICTURE_BYTES


def test_readme_has_no_roles_that_only_sphinx_knows():
    assert not re.findall(r':(?:doc|ref|class|func):', README)


def test_figures_are_one_short_table_of_scripts_that_exist():
    text = (ROOT / 'doc/source/admin/figures.rst').read_text()
    table = text[text.index('=== '):text.rindex('===')]
    scripts = set(re.findall(r'``([\w/.-]+\.py)', table))
    places = (ROOT, ROOT / 'tools/bench', ROOT / 'nova/tests')
    missing = [script for script in sorted(scripts) if not any((place / script).exists() for place in places)]
    assert table.count('\n') <= FIGURES_LINES and len(scripts) > 15 and not missing


def test_each_release_in_the_changelog_is_short():
    text = (ROOT / 'CHANGELOG.rst').read_text()
    assert text.startswith(changes.TITLE)
    sections = re.split(r'^(?=\d+\.\d+\S* \(.*\)\n-+\n)', text, flags=re.M)[1:]
    assert sections and all(len(section.encode()) <= RELEASE_BYTES for section in sections)


def test_fragments_have_the_form():
    assert not [problem for path in changes.fragments(ROOT / 'doc/changes') for problem in changes.problems(path)]


@pytest.mark.parametrize(('name', 'text', 'problem'), [
    ('quota.news.rst', 'Text.\n', 'the name must be'),
    ('Quota.fix.rst', 'Text.\n', 'the name must be'),
    ('quota.fix.rst', 'No period\n', 'must end with a period'),
    ('quota.fix.rst', 'Two newlines.\n\n', 'must end with a period'),
    ('quota.fix.rst', '* A list.\n', 'one paragraph'),
    ('quota.fix.rst', 'Title\n=====\n', 'one paragraph'),
    ('quota.fix.rst', 'One.\n\nTwo.\n', 'one paragraph'),
    ('quota.fix.rst', 'A block::\n  code.\n', 'one paragraph'),
    ('quota.fix.rst', 'word ' * 26 + 'end.\n', 'a sentence has 27 words'),
    ('quota.fix.rst', 'It is. ' * 100 + 'End.\n', 'characters; at most 500')])
def test_deviation_of_a_fragment_is_named(tree, name, text, problem):
    assert any(problem in found for found in changes.problems(write(tree, name, text)))


def test_release_moves_fragments_into_the_changelog(tree):
    write(tree, 'volume-summary.feature.rst', '``GET /volumes/summary`` shows number\nand size of volumes.\n')
    write(tree, 'quota.feature.rst', 'Projects have a quota of shares.\n')
    write(tree, 'pins.upgrade.rst', 'Upgrade conductors first.\n')
    changes.release(tree, '1.1.0', datetime.date(2027, 3, 1))
    text = (tree / 'CHANGELOG.rst').read_text()
    assert text == (
        'Changes\n=======\n\n1.1.0 (2027-03-01)\n------------------\n\n'
        'Before you upgrade:\n\n* Upgrade conductors first.\n\n'
        'New:\n\n* Projects have a quota of shares.\n* ``GET /volumes/summary`` shows number and size of volumes.\n\n'
        '1.0.0 (2027-01-01)\n------------------\n\nThe first one.\n')
    assert [path.name for path in (tree / 'doc/changes').iterdir()] == ['README.rst']


def test_release_dates_the_section_that_was_begun_by_hand(tree):
    (tree / 'CHANGELOG.rst').write_text(
        'Changes\n=======\n\n1.0.0 (not released)\n--------------------\n\nThe first one.\n')
    write(tree, 'quota.feature.rst', 'Projects have a quota of shares.\n')
    changes.release(tree, '1.0.0', datetime.date(2027, 1, 1))
    assert (tree / 'CHANGELOG.rst').read_text() == (
        'Changes\n=======\n\n1.0.0 (2027-01-01)\n------------------\n\n'
        'New:\n\n* Projects have a quota of shares.\n\nThe first one.\n')


def test_release_refuses_a_version_that_the_changelog_has(tree):
    before = (tree / 'CHANGELOG.rst').read_text()
    fragment = write(tree, 'quota.feature.rst', 'Projects have a quota of shares.\n')
    with pytest.raises(ValueError, match='has a section of 1.0.0 already'):
        changes.release(tree, '1.0.0', datetime.date(2027, 3, 1))
    assert fragment.exists() and (tree / 'CHANGELOG.rst').read_text() == before


def test_release_refuses_a_wrong_fragment_and_changes_nothing(tree):
    before = (tree / 'CHANGELOG.rst').read_text()
    wrong = write(tree, 'quota.fix.rst', 'No period\n')
    with pytest.raises(ValueError, match='must end with a period'):
        changes.release(tree, '1.1.0', datetime.date(2027, 3, 1))
    assert wrong.exists() and (tree / 'CHANGELOG.rst').read_text() == before


def test_release_without_fragments_is_refused(tree):
    with pytest.raises(ValueError, match='has no fragment'):
        changes.release(tree, '1.1.0', datetime.date(2027, 3, 1))
