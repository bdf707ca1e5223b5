"""tools/mutation.py: which changes it makes, which modules it draws, and what counts as noticed."""
import importlib
import pathlib
import shutil
import sys
import time

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
MODULE = '''"""Text."""
LIMIT = 3
def allowed(count: int = 1, *, more: bool = True) -> bool:
    if not more:
        raise ValueError(f'{count + 1} is too many')
    LOG.info('asked %d', count + 7)
    note(count)
    return count < LIMIT and more
def note(count):
    return None
'''
TESTS = '''
from nova import small
def test_it():
    assert small.allowed(2) is True and small.allowed(3) is False
'''


@pytest.fixture
def script(monkeypatch):
    if not (TOOLS / 'mutation.py').exists():
        pytest.skip('tools/mutation.py is not part of an installed nova')
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module('mutation')
    sys.modules.pop('mutation')


def test_changes_leave_text_logs_and_annotations_alone(script):
    found = [(mutant.line, mutant.before, mutant.after) for mutant in script.mutants(MODULE)]
    assert found == [
        (2, '3', '(4)'), (3, '1', '(2)'), (3, 'True', '(False)'), (4, 'not more', '(more)'),
        (5, "raise ValueError(f'{count + 1} is too many')", 'pass'), (7, 'note(count)', 'pass'),
        (8, 'count < LIMIT and more', '(count < LIMIT or more)'), (8, 'count < LIMIT', '(count <= LIMIT)'),
        (8, 'return count < LIMIT and more', 'return None')]


def test_change_of_a_line_with_other_letters_is_at_its_place(script):
    mutant, = script.mutants("x = 'é' == y\n")
    assert mutant.text == "x = ('é' != y)\n"


def test_draw_has_the_modules_that_must_be_there_and_is_repeatable(script):
    names = [*script.ALWAYS, *(f'nova/db/d{number}.py' for number in range(20)),
             *(f'nova/scheduler/s{number}.py' for number in range(20)), *(f'nova/x{number}.py' for number in range(50))]
    found = script.draw(names, 10, 'abc')
    assert found == script.draw(names, 10, 'abc') != script.draw(names, 10, 'abd')
    assert len(set(found)) == 10 and set(script.ALWAYS) <= set(found)
    assert all(any(name.startswith(prefix) for name in found) for prefix in script.ONE_OF)


def test_modules_that_must_be_drawn_exist(script):
    assert set(script.ALWAYS) <= set(script.candidates(script.TREE))


def test_tests_of_a_module_are_those_that_import_it(script):
    found = script.importers(script.TREE, 'nova/network/ipam.py')
    assert 'nova/tests/unit/test_network_rules.py' in found and 'nova/tests/unit/test_mutation.py' not in found


def test_module_that_no_test_imports_has_the_tests_of_its_users(script, tree):
    (tree / 'nova/deep.py').write_text('X = 1\n')
    (tree / 'nova/small.py').write_text('from nova import deep\n')
    assert script.importers(tree, 'nova/deep.py') == ['nova/tests/unit/test_small.py']


@pytest.fixture
def tree(tmp_path):
    (tmp_path / 'nova/tests/unit').mkdir(parents=True)
    (tmp_path / 'pytest.ini').write_text('[pytest]\naddopts = -p no:schemathesis -p no:anyio -p no:hypothesispytest\n')
    for directory in ('nova', 'nova/tests', 'nova/tests/unit'):
        (tmp_path / directory / '__init__.py').write_text('')
    (tmp_path / 'nova/small.py').write_text(MODULE.replace("    LOG.info('asked %d', count + 7)\n", ''))
    (tmp_path / 'nova/tests/unit/test_small.py').write_text(TESTS)
    return tmp_path


def test_changes_that_no_test_notices_survive(script, tree):
    before = (tree / 'nova/small.py').read_text()
    module = script.Module(tree, 'nova/small.py', script.importers(tree, 'nova/small.py'))
    module.score(100, 'seed', time.monotonic() + 250)
    assert {mutant.before for mutant in module.survivors} == {
        "raise ValueError(f'{count + 1} is too many')", 'note(count)', '1'}
    assert module.noticed == 6 and str(module).startswith('  67%     6 of    9  nova/small.py (1 files')
    assert (tree / 'nova/small.py').read_text() == before


def test_module_without_time_is_left(script, tree):
    module = script.Module(tree, 'nova/small.py', script.importers(tree, 'nova/small.py'))
    module.score(4, 'seed', time.monotonic())
    assert module.left == 4 and '4 left for lack of time' in str(module)


def test_modules_of_two_trees_are_drawn_and_one_tree_is_measured(script, tree, tmp_path_factory, monkeypatch, capsys):
    beside = tmp_path_factory.mktemp('beside')
    (beside / 'nova').mkdir()
    for name in ('nova/both.py', 'nova/one.py'):
        (tree / name).write_text('LIMIT = 3\n' * (script.LINES + 1))
    shutil.copy(tree / 'nova/both.py', beside / 'nova')
    monkeypatch.setattr(sys, 'argv', ['mutation.py', '--tree', str(tree), '--beside', str(beside), '--seed', 'x',
                                      '--minutes', '0'])
    assert script.main() == 1
    assert capsys.readouterr().out.splitlines() == ['    -     0 of    0  nova/both.py (0 files of tests, 20 left for '
                                                    'lack of time)', '   0%     0 of    0  in all; drawn by x']
