"""Lists of tests: those that an ordinary run leaves out, and those whose failure is forgiven when they pass alone."""
import ast
import datetime
import subprocess

import pytest

from nova.tests import plan


def _defined(file):
    """Names of tests of a file, with those of classes before '::'."""
    found = set()
    for node in ast.parse((plan.TREE / file).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {node.name, *(f'{node.name}::{method}' for method in methods)}
    return found


def _missing(names):
    """Names of no file or test; what a class inherits is taken for granted."""
    found = []
    for name in names:
        file, _, test = name.partition('::')
        test = '' if test == 'only' else test.partition('[')[0]
        if not (plan.TREE / file).is_file() or test and not {test, test.partition('::')[0]} & _defined(file):
            found.append(name)
    return found


@pytest.mark.parametrize('rows', [plan.long_tests(), plan.unstable_tests()], ids=['long', 'unstable'])
def test_listed_tests_exist_once_and_have_reasons(rows):
    names = [row.name for row in rows]
    assert _missing(names) == [] and len(names) == len(set(names))
    assert [row.name for row in rows if not row.reason.strip()] == []
    assert names == sorted(names)


def test_name_without_a_test_is_reported():
    name = 'nova/tests/contract/test_test_lists.py::test_name_without_a_test_is_reported'
    wrong = [f'{name}_x', 'nova/tests/unit/test_nothing.py']
    assert _missing([name, *wrong]) == wrong


def test_unstable_tests_are_few_and_younger_than_14_days():
    """At the time of the commit, so that a commit is always judged in the same way."""
    done = subprocess.run(['git', 'log', '-1', '--format=%cs'], cwd=plan.TREE, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        pytest.skip('this tree has no commits')
    assert plan.faults_of_unstable(plan.unstable_tests(), datetime.date.fromisoformat(done.stdout.strip())) == []


def test_every_turn_of_long_tests_fits_into_the_time_of_ci():
    """Three parts run beside each other, and each file may be one of the long ones."""
    for rows in plan.turns(plan.long_tests()):
        assert sum(row.seconds for row in rows) / 3 < 40 * 60
