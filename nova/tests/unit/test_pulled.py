"""Processes that run the files of one list (nova.tests.pulled), and the files that tools/test.sh begins with."""
import os
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]
CONFTEST = """
import os, pathlib
import pytest
def note(text):
    with open(pathlib.Path(__file__).with_name('ran'), 'a') as file:
        file.write(f'{text} {os.getpid()}\\n')
@pytest.fixture(scope='session')
def shared():
    note('begin')
    yield note
    note('end')
"""
TEST = """
import pytest
@pytest.mark.parametrize('number', range(3))
def test_it(shared, number):
    shared(f'%s-{number}')
    assert not %s
"""


def _run(directory, count, *options):
    """Exit codes of so many processes."""
    environ = {**os.environ, 'NOVA_TEST_FILES': str(directory / 'list'), 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1'}
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'nova.tests.pulled', '-p', 'no:cacheprovider',
               '-c', os.devnull, '--rootdir', directory, *options, directory / 'tests']
    processes = [subprocess.Popen(command, env=environ, cwd=directory, stdout=subprocess.PIPE, text=True)
                 for _ in range(count)]
    said = [process.communicate(timeout=120)[0] for process in processes]
    return sorted(process.returncode for process in processes), '\n'.join(said)


def _tree(directory, **files):
    (directory / 'tests').mkdir()
    (directory / 'tests/conftest.py').write_text(CONFTEST)
    for name, text in files.items():
        (directory / f'tests/test_{name}.py').write_text(text)
    (directory / 'list').write_text(''.join(f'tests/test_{name}.py\n' for name in files))


def _ran(directory):
    return [line.split() for line in (directory / 'tests/ran').read_text().splitlines()]


def test_each_test_runs_once(tmp_path):
    _tree(tmp_path, **{name: TEST % (name, 'shared is None') for name in ('a', 'b', 'c')})
    assert _run(tmp_path, 2)[0] in ([0, 0], [0, 5])                     # 5: the other one was faster
    ran = _ran(tmp_path)
    tests = sorted(name for name, _ in ran if '-' in name)
    assert tests == [f'{name}-{number}' for name in 'abc' for number in range(3)]
    # what a session shares is made once a process, and ends with it
    for process in {process for _, process in ran}:
        names = [name for name, other in ran if other == process]
        assert names[0] == 'begin' and names[-1] == 'end' and names.count('begin') == 1
    assert (tmp_path / 'list').read_text() == ''


def test_what_fails_fails_the_run_and_the_rest_goes_on(tmp_path):
    _tree(tmp_path, broken='import nothing_of_that_name', fails=TEST % ('fails', 'number == 1'),
          last=TEST % ('last', 'False'))
    codes, said = _run(tmp_path, 1)
    assert codes == [1] and '1 error' in said and '1 failed, 5 passed' in said
    assert [name for name, _ in _ran(tmp_path)][-2:] == ['last-2', 'end']


def test_options_hold(tmp_path):
    _tree(tmp_path, a=TEST % ('a', 'number == 0'), b=TEST % ('b', 'False'))
    codes, said = _run(tmp_path, 1, '-x', '-k', 'a')
    assert codes == [1] and '1 failed' in said and 'passed' not in said
    (tmp_path / 'list').write_text('tests/test_b.py\n')
    codes, said = _run(tmp_path, 1, '-k', 'a.py')
    assert codes == [5] and '3 deselected' in said


def test_the_longest_files_are_there():
    names = (TREE / 'nova/tests/longest.txt').read_text().splitlines()
    assert names and len(set(names)) == len(names)
    assert [name for name in names if not (TREE / name).exists()] == []


def test_threads_that_are_left_hold_no_process(tmp_path):
    """Those of a cloud that has ended waited two minutes and longer for answers."""
    _tree(tmp_path, left="""
import threading
def test_it():
    threading.Thread(target=threading.Event().wait, args=(600,)).start()
""")
    codes, said = _run(tmp_path, 1)
    assert codes == [0] and '1 passed' in said


def test_files_that_take_turns_are_there_and_each_has_one():
    names = (TREE / 'nova/tests/turns.txt').read_text().splitlines()
    assert len(names) == len(set(names)) and all((TREE / name).is_file() for name in names)
    text = (TREE / 'tools/test.sh').read_text()
    turns = re.search(r'^turns=(\d)$', text, re.M)[1]
    function = re.search(r'^have_turn\(\) .*$', text, re.M)[0]
    found = [subprocess.run(['bash', '-c', f'turns={turns}; turn={turn}; {function}; have_turn "$@"', 'bash', *names],
                            capture_output=True, text=True, check=True).stdout.split()
             for turn in (*range(int(turns)), 'all')]
    assert found[-1] == names and sorted(name for some in found[:-1] for name in some) == sorted(names)
    assert all(found[:-1])
