"""The reading path for contributors: its files are there, and its exercises can be done on the tree as it is."""
import collections.abc
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / 'doc' / 'source' / 'contributor' / 'reading-path.rst'
EXERCISES = pathlib.Path(__file__).parent / 'exercises'
PATCHES = sorted(EXERCISES.glob('*.patch'))
# tests that follow from the rows: what of the checklists was forgotten fails here
FOLLOWING = (
    'contract/test_api_rows.py::test_newest_version_is_the_facts',
    'contract/test_api_rows.py::test_rules_have_the_documented_defaults',
    'contract/test_block_storage.py::test_every_field_is_described_and_its_column_exists',
    'contract/test_network.py::test_every_field_is_described_and_its_column_exists',
    'contract/test_coverage.py::test_unsupported_microversion_returns_406',
    'contract/test_coverage.py::test_served_operations_are_public_or_listed_as_additions',
    'contract/test_reference.py::test_the_pages_of_ec2_name_every_operation_once',
    'contract/test_scheduler_filters.py::test_every_filter_has_a_case',
    'contract/test_scheduler_weighers.py',
    'contract/test_servers_fields.py::test_server_responses_have_the_documented_fields[True-GET /servers/{}-105]',
    'contract/test_servers_states.py::test_answers_as_the_table_says[flush]',
    'contract/test_servers_states.py::test_servers_of_other_projects_return_404[flush]',
    'contract/test_support_matrix.py::test_every_feature_has_one_row',
    'contract/test_support_matrix.py::test_tests_of_the_support_matrix_exist',
    'contract/test_versions.py',
    'functional/test_ec2.py::test_every_operation_has_its_rule',
    'unit/test_fake_driver.py::TestContract',
    'unit/test_samples.py')
NOT_NEEDED = ('attacks', 'perf')


def files_of(page: str) -> list[str]:
    """The files that the page's sections are about."""
    return re.findall(r'^\d+\. ``(\S+)``$', page, re.M)


def test_the_page_names_nine_files_that_there_are() -> None:
    found = files_of(PAGE.read_text())
    assert len(found) == 9
    assert [name for name in found if not (ROOT / name).is_file()] == []


def test_names_in_the_reading_path_exist_in_their_files() -> None:
    """In a section, one word in ``backticks`` is a name of the file."""
    sections = re.split(r'^(?=\d+\. ``\S+``$)', PAGE.read_text().partition('\nExercise')[0], flags=re.M)[1:]
    for section in sections:
        name, = files_of(section)
        source = (ROOT / name).read_text()
        named = re.findall(r'``(\w+)``', section.partition('\n')[2])
        assert named and [word for word in named if not re.search(rf'\b{word}\b', source)] == [], name


@pytest.mark.parametrize('name', ['reading-path', 'checklists', 'architecture'])
def test_every_path_that_is_named_is_there(name: str) -> None:
    text = (PAGE.parent / f'{name}.rst').read_text()
    named = set(re.findall(r'``((?:nova|doc|etc|tools)/[\w./-]+)``', text))
    assert named and [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize('name', ['reading-path', 'checklists', 'architecture'])
def test_every_class_and_module_that_is_named_is_there(name: str) -> None:
    text = (PAGE.parent / f'{name}.rst').read_text()
    sources = list((ROOT / 'nova').rglob('*.py'))
    defined = {found for path in sources for found in re.findall(r'^class (\w+)', path.read_text(), re.MULTILINE)}
    assert set(re.findall(r'``([A-Z][a-z]+(?:[A-Z][a-z]+)+)``', text)) - defined == set()
    assert set(re.findall(r'``([a-z_]+\.py)``', text)) - {path.name for path in sources} == set()


def test_the_page_shows_every_patch() -> None:
    assert re.findall(r'literalinclude:: \S+/exercises/(\S+)', PAGE.read_text()) == [patch.name for patch in PATCHES]
    assert len(PATCHES) == 9


def test_a_driver_feature_changes_at_most_8_files() -> None:
    """Code, tests and documentation of a feature in two drivers."""
    patch = (EXERCISES / '4-driver-feature.patch').read_text()
    assert len(re.findall('^diff --git ', patch, re.MULTILINE)) <= 8


@pytest.fixture(scope='module')
def copy(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[pathlib.Path]:
    """A copy of what the exercises change and what shows their results."""
    made = tmp_path_factory.mktemp('exercises')
    tests = ROOT / 'nova' / 'tests'
    shutil.copytree(ROOT / 'nova', made / 'nova', ignore=lambda folder, names: [
        name for name in names if folder == str(tests) and name in NOT_NEEDED])      # with what is compiled
    for folder in ('etc/nova', 'doc/ext', 'doc/source/user'):
        shutil.copytree(ROOT / folder, made / folder)
    yield made
    shutil.rmtree(made)


@pytest.mark.timeout(900)
def test_the_exercises_can_be_done(copy: pathlib.Path) -> None:
    """Each patch applies, in their order; then the results are seen over HTTP and nothing was forgotten."""
    alone = {**os.environ, 'GIT_CEILING_DIRECTORIES': str(copy.parent)}
    for patch in PATCHES:
        applied = subprocess.run(['git', 'apply', str(patch)], cwd=copy, env=alone, capture_output=True, text=True)
        assert applied.returncode == 0, f'{patch.name} does not apply any more; make it again:\n{applied.stderr}'
    tests = copy / 'nova' / 'tests'
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', '-c', os.devnull,
               '--rootdir', str(copy), str(tests / 'contract' / 'exercises' / 'results.py'),
               *(str(tests / name) for name in FOLLOWING)]
    ran = subprocess.run(command, cwd=copy, env={**alone, 'PYTHONPATH': str(copy)}, capture_output=True, text=True,
                         timeout=800)
    assert ran.returncode == 0, ran.stdout + ran.stderr
