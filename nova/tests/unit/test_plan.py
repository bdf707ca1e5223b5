"""nova.tests.plan: every file has its part, and its rules for lists of tests."""
import ast
import datetime
import re

import pytest

from nova.tests import plan

TODAY = datetime.date(2026, 5, 20)


def test_every_file_of_tests_is_in_a_part():
    found = {path.relative_to(plan.TREE).as_posix() for path in plan.HERE.glob('*/test_*.py')}
    parts = plan.parts(plan.SUITES)
    assert {file for part in parts for file in part.files} == found
    real = [file for part in parts if part.suite == 'integration' for file in part.files]
    assert len(real) == len(set(real))


def test_expected_seconds_are_those_of_the_file_or_of_its_long_tests(tmp_path):
    took, listed = tmp_path / 'durations.tsv', tmp_path / 'long.tsv'
    took.write_text('a.py\t20.0\t1.0\nb.py\t20.0\t1.0\n')
    listed.write_text('a.py::test_one\t15\tslow\na.py::test_two\t15\tslow\nc.py\t5\tslow\n')
    assert plan.expected(took, plan.long_tests(listed)) == {'a.py': 30, 'b.py': 20, 'c.py': 5}


def test_suites_select_parts_of_the_test_plan():
    assert {part.suite for part in plan.parts(['unit'])} == {'unit'}
    assert [part.name for part in plan.parts(['functional'])] == ['functional', 'functional, green']
    assert 'bill of materials' in [part.name for part in plan.parts(plan.SUITES, bill=True)]


def test_every_pattern_of_thread_models_fits_a_file():
    names = [path.name for path in (plan.HERE / 'functional').glob('test_*.py')]
    patterns = (*plan.BOTH, *plan.MODELS_OWN, *plan.THREADLESS)
    assert [pattern for pattern in patterns if not any(plan.fits(name, [pattern]) for name in names)] == []
    assert set(plan.MODELS_OWN) <= set(plan.BOTH) and not set(plan.BOTH) & set(plan.THREADLESS)


@pytest.mark.parametrize('file, part', [
    ('test_libvirt_live_migration.py', 'namespaces'), ('test_libvirt_killed_moves.py', 'namespaces'),
    ('test_libvirt_killed_actions.py', 'moving'), ('test_libvirt.py', 'host'), ('test_network_linux.py', 'bridges'),
    ('test_databases.py', 'databases'), ('test_rabbitmq.py', 'brokers')])
def test_real_parts_are_shared_within_one_part(file, part):
    assert plan._integration([f'nova/tests/integration/{file}'])[0][0] == part


@pytest.mark.parametrize('listed', ['a/test_x.py', 'a/test_x.py::test_it', 'a/test_x.py::test_it[1::2]'])
def test_test_is_listed_by_its_file_function_or_parameters(listed):
    assert plan.is_listed('a/test_x.py::test_it[1::2]', {listed})


@pytest.mark.parametrize('name, listed', [
    ('a/test_x.py::test_its', 'a/test_x.py::test_it'), ('a/test_x.py::test_it[2]', 'a/test_x.py::test_it[1]'),
    ('a/test_y.py::test_it', 'a/test_x.py')])
def test_other_tests_are_not_listed(name, listed):
    assert not plan.is_listed(name, {listed})


def test_class_lists_its_tests():
    assert plan.is_listed('a/test_x.py::TestThem::test_it[1]', {'a/test_x.py::TestThem'})


def test_file_lists_its_tests_for_long_runs_alone():
    assert plan.is_listed('a/test_x.py::test_it[1]', {'a/test_x.py::only'}, only=True)
    assert not plan.is_listed('a/test_x.py::test_it[1]', {'a/test_x.py::only'})
    assert not plan.is_listed('a/test_y.py::test_it', {'a/test_x.py::only'}, only=True)


def test_turns_take_about_the_same_time_and_keep_a_file_together():
    rows = [plan.Long(f'a/test_{number}.py::test_{each}', number, 'slow')
            for number in range(1, 9) for each in range(2)]
    found = plan.turns(rows, 3)
    assert sorted(sum(found, [])) == sorted(rows)
    assert sum(len({row.file for row in part}) for part in found) == 8
    sums = [sum(row.seconds for row in part) for part in found]
    assert max(sums) - min(sums) <= 4
    assert plan.turns(list(reversed(rows)), 3) == found


def test_large_rows_of_a_file_are_in_parts_of_their_own():
    rows = [plan.Long(f'a/test_x.py::test_{name}', seconds, 'slow')
            for name, seconds in (('a', plan.LARGE_S), ('b', plan.LARGE_S), ('c', 20), ('d', 20))]
    assert sorted(len(part) for part in plan.turns(rows, 3)) == [1, 1, 2]


MARK = re.compile(r'\blong_runs\.(only|rest\()')


def _definitions(path):
    """[(name, whether it has the mark)] of what a file defines."""
    text = path.read_text()
    for node in ast.parse(text).body if MARK.search(text) else ():
        names = [target.id for target in getattr(node, 'targets', []) if isinstance(target, ast.Name)]
        parts = [node, *getattr(node, 'decorator_list', [])]
        has = any(MARK.search(ast.unparse(each)) for each in parts)
        yield (*names, getattr(node, 'name', ''))[0], has


def _marked(path, lent):
    """Names of a file's tests with the mark `only`: FILE::test, or FILE for what a fixture or the module gives it to.

    :param lent: what shared modules give the mark by: [(module, name)]
    """
    text, file = path.read_text(), path.relative_to(plan.TREE).as_posix()
    found = {f'{file}::{name}' if name.startswith('test_') else file for name, has in _definitions(path) if has}
    for module, name in lent:
        imported = re.search(rf'support import {module}(?: as (\w+))?$', text, re.M)
        if imported and f'{imported[1] or module}.{name}' in text:
            found.add(file)
    return found


def test_every_test_for_long_runs_is_in_a_part_or_a_proof_that_a_person_starts():
    names = {row.name for row in plan.long_tests()}
    lent = [(path.stem, name) for path in (plan.HERE / 'support').glob('*.py')
            for name, has in _definitions(path) if has]
    marked = {name for path in plan.HERE.glob('*/test_*.py') if path.parent.name != 'unit'
              for name in _marked(path, lent)}
    unreached = {name for name in marked if not plan.is_listed(name, names, only=True) and
                 not any(row.startswith(f'{name}[') for row in names)}
    assert {name.partition('::')[0] for name in unreached} == set(plan.PROOFS)
    stale = {row for row in names if row.endswith('::only')
             and not any(name.partition('::')[0] == row.partition('::')[0] for name in marked)}
    assert stale == set()


def test_proofs_that_a_person_starts_are_documented():
    text = (plan.TREE / 'doc/source/contributor/testing.rst').read_text()
    for file, script in plan.PROOFS.items():
        assert (plan.TREE / script).is_file() and f'``{script}' in text and file.rpartition('/')[2] in text


def test_unstable_tests_are_few_young_and_have_reasons():
    row = plan.Unstable('a/test_x.py::test_it', TODAY, 'reads a clock')
    assert plan.faults_of_unstable([row] * 10, TODAY) == []
    assert plan.faults_of_unstable([row] * 11, TODAY) == ['11 tests are listed; 10 are the most.']
    assert 'since 2026-05-05' in plan.faults_of_unstable([row._replace(date=datetime.date(2026, 5, 5))], TODAY)[0]
    assert plan.faults_of_unstable([row._replace(reason=' ')], TODAY) == ['a/test_x.py::test_it has no reason.']


def test_recorded_files_are_there():
    assert plan.durations() and [file for file in plan.durations() if not (plan.TREE / file).is_file()] == []
