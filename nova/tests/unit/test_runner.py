"""nova.tests.runner and nova.tests.worker, with small suites of their own."""
import datetime
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from nova.tests import plan
from nova.tests import runner
from nova.tests.support import waiting

INI = """[pytest]
addopts = -p no:schemathesis -p no:anyio -p no:hypothesispytest -p no:randomly
"""
CONFTEST = """
import os, pathlib, time
import pytest
from nova.tests import limits
HERE = pathlib.Path(__file__).parent
def note(text):
    with open(HERE / 'ran', 'a') as file:
        file.write(f'{text} {os.getpid()}\\n')
@pytest.fixture(scope='session')
def shared():
    note('begin')
    yield note
    note('end')
def pytest_configure(config):
    limits.register(config)
"""
TEST = """
import pytest
@pytest.mark.parametrize('number', range(3))
def test_it(shared, number):
    shared(f'{name}-{{number}}')
    assert not ({fails})
"""
ONCE = """
import pathlib
import pytest
@pytest.mark.parametrize('number', [1])
def test_once(number):
    file = pathlib.Path(__file__).with_name('once')
    if not file.exists():
        file.touch()
        assert not 'reason'
def test_fine():
    pass
"""
TODAY = datetime.date(2026, 5, 20)


@pytest.fixture
def run(tmp_path):
    """run(parts, name=text of test_name.py, …): a Run that has ended."""
    def begin(parts, *, minutes=2.0, soft=None, expected=None, options=(), environ=None, cores=2, during=None, **files):
        tests = tmp_path / 'tests'
        tests.mkdir()
        (tmp_path / 'pytest.ini').write_text(INI)
        (tests / 'conftest.py').write_text(CONFTEST)
        for name, text in files.items():
            (tests / f'test_{name}.py').write_text(text)
        (tmp_path / 'log').mkdir()
        found = runner.Run(parts, tmp_path / 'log', cores=cores, until=time.time() + minutes * 60, soft=soft,
                           expected=expected, options=options, tree=tmp_path,
                           environ={'PYTHONPATH': os.pathsep.join(sys.path), **(environ or {})})
        if during:
            threading.Thread(target=during, args=(found,), daemon=True).start()
        found.run()
        return found
    return begin


def _part(*names, name='part', suite='unit', stage=0, **more):
    return plan.Part(name, suite, stage, tuple(f'tests/test_{each}.py' for each in names), **more)


def _ran(directory):
    return [line.split() for line in (directory / 'tests/ran').read_text().splitlines()]


def _faults(found, passed=(), unstable=(), today=TODAY):
    return runner.verdict(found, passed, unstable, today)


def test_each_test_runs_once_in_processes_that_share_a_queue(run, tmp_path):
    found = run([_part('a', 'b', 'c', workers=1)], **{name: TEST.format(name=name, fails=False) for name in 'abc'})
    assert _faults(found) == ([], [])
    ran = _ran(tmp_path)
    names = sorted(name for name, _ in ran if '-' in name)
    assert names == [f'{name}-{number}' for name in 'abc' for number in range(3)]
    for process in {process for _, process in ran}:      # what a session shares is made once, and ends with it
        names = [name for name, other in ran if other == process]
        assert names[0] == 'begin' and names[-1] == 'end' and names.count('begin') == 1
    assert found.parts[0].count('passed') == 9 and all(result.seconds < 60 for result in found.parts[0].results)


def test_failing_test_fails_the_run_and_the_rest_continues(run, tmp_path, capsys):
    found = run([_part('broken', 'fails', 'last')], broken='import nothing_of_that_name',
                fails=TEST.format(name='fails', fails='number == 1'), last=TEST.format(name='last', fails=False))
    assert [name for name, _ in _ran(tmp_path)][-2:] == ['last-2', 'end']
    assert found.again() == set()
    assert _faults(found)[0] == ['part: tests/test_broken.py failed', 'part: tests/test_fails.py::test_it[1] failed']
    said = capsys.readouterr().out
    assert 'FAILED tests/test_fails.py::test_it[1] (part, ' in said and 'nothing_of_that_name' in said


def test_a_test_that_fails_and_then_passes_fails_the_run_unless_it_is_listed(run):
    found = run([_part('once')], once=ONCE)
    name = 'tests/test_once.py::test_once[1]'
    assert found.again() == {name}
    assert _faults(found, {name})[0] == [f'part: {name} failed beside others and passed alone: mend what it shows']
    row = plan.Unstable('tests/test_once.py::test_once', TODAY - datetime.timedelta(14), 'a pause of a second')
    faults, told = _faults(found, {name}, [row])
    assert faults == [] and told == [f'{name} failed beside others and passed alone: unstable since 2026-05-06: '
                                     'a pause of a second']
    assert _faults(found, (), [row])[0] == [f'part: {name} failed']                 # alone it fails, too
    old = row._replace(date=TODAY - datetime.timedelta(15))
    assert _faults(found, {name}, [old])[0]


def test_options_apply_to_each_process(run):
    found = run([_part('a', 'b')], options=['-k', 'a.py'],
                a=TEST.format(name='a', fails=False), b=TEST.format(name='b', fails=True))
    assert _faults(found)[0] == [] and found.parts[0].count('passed') == 3


def test_a_process_that_dies_is_blamed_on_its_test_and_another_has_the_rest(run):
    dies = 'import os\ndef test_dies():\n    os._exit(9)\n'
    found = run([_part('dies', 'rest')], dies=dies, rest=TEST.format(name='rest', fails=False))
    assert _faults(found)[0] == ['part: part has ended with code 9', 'part: tests/test_dies.py::test_dies failed']
    assert found.parts[0].count('passed') == 3


HANGS = """
import faulthandler, time
def test_hangs():
    faulthandler.dump_traceback_later(0.5, exit=True)
    time.sleep(60)
def test_later():
    pass
"""


def test_a_process_that_hangs_and_is_ended_fails_the_run_beside_a_forgiven_failure(run):
    """Its exit code is 1, as that of a process with a failed test."""
    found = run([_part('once', 'hangs')], once=ONCE, hangs=HANGS)
    forgiven = plan.Unstable('tests/test_once.py::test_once', TODAY, 'a pause of a second')
    faults, _ = _faults(found, {'tests/test_once.py::test_once[1]'}, [forgiven])
    assert sorted(faults) == ['part: part has ended with code 1', 'part: tests/test_hangs.py::test_hangs failed']


def test_a_process_that_ends_early_with_a_usual_code_fails_the_run(run):
    found = run([_part('leaves')], leaves='import os\ndef test_leaves():\n    os._exit(0)\n')
    assert _faults(found)[0] == ['part: part has ended with code 0', 'part: tests/test_leaves.py::test_leaves failed']


def test_processes_that_die_again_and_again_end_their_part(run):
    dies = 'import os\nos._exit(9)\n'
    names = [f'd{number}' for number in range(6)]
    found = run([_part(*names)], **dict.fromkeys(names, dies))
    assert found.parts[0].faults[-1] == '6 files have not run'
    assert [fault.partition(' ')[2] for fault in found.parts[0].faults[:-1]] == ['has ended with code 9'] * 4


def test_threads_that_are_left_hold_no_process(run):
    """Those of a cloud that has ended waited two minutes and longer for answers."""
    found = run([_part('left')], left='import threading\ndef test_it():\n'
                '    threading.Thread(target=threading.Event().wait, args=(600,)).start()\n')
    assert _faults(found)[0] == [] and found.parts[0].count('passed') == 1


def test_overdue_test_is_named_with_its_stack_and_ended(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, 'GRACE_S', 2)
    hangs = """
import pathlib, subprocess, time
def test_of_all():
    child = subprocess.Popen(['bash', '-c', 'trap "" TERM; while :; do sleep 0.1; done'])
    pathlib.Path(__file__).with_name('child').write_text(str(child.pid))
    time.sleep(600)
"""
    def be_over(found):
        waiting.wait_for((tmp_path / 'tests/child').exists, 100, 'the test')
        found._until = time.time() + 1
    found = run([_part('hangs'), _part('never', name='later', stage=1)], hangs=hangs, during=be_over,
                never=TEST.format(name='never', fails=False))
    said = capsys.readouterr().out
    assert found.overdue and 'part tests/test_hangs.py::test_of_all' in said and 'in test_of_all' in said
    faults = _faults(found)[0]
    assert faults[0] == 'part: has not ended' and faults[-1] == 'later: has not begun'
    child = int((tmp_path / 'tests/child').read_text())
    waiting.wait_for(lambda: not runner.alive(child), 30, 'the end of what the test has begun')


def test_processes_of_others_get_no_signal(tmp_path):
    """The number of a process that has ended is given to another one."""
    began = subprocess.run(['sh', '-c', 'sleep 60 >/dev/null 2>&1 & echo $!'], capture_output=True, check=True,
                           text=True)
    other = int(began.stdout)
    try:
        found = runner.Run([], tmp_path, cores=1, until=0)
        (tmp_path / 'running' / str(other)).write_text('0 part tests/test_a.py::test_it\n')
        assert found._stacks() == '' and runner.alive(other)
    finally:
        os.kill(other, signal.SIGKILL)


@pytest.mark.parametrize('starts, killed', [(['1', '1'], True), (['1', '2'], False)])
def test_a_number_that_another_process_has_got_is_not_killed(tmp_path, monkeypatch, starts, killed):
    own, begun, looks, sent = os.getpid(), iter([[[os.getpid()]], []]), iter(starts), []
    monkeypatch.setattr(runner, 'descendants', lambda _pid: next(begun))
    monkeypatch.setattr(runner, '_start', lambda _pid: next(looks))
    monkeypatch.setattr(runner, '_send', lambda pids, number: sent.append((list(pids), number)))
    runner.Run([], tmp_path, cores=1, until=0).end()
    assert sent == [([], signal.SIGTERM), ([own] if killed else [], signal.SIGKILL)]


def test_run_that_is_stopped_ends_what_runs(run, tmp_path):
    def stop(found):
        waiting.wait_for((tmp_path / 'tests/at-it').exists, 60, 'the test')
        found.stop(signal.SIGTERM, None)
    found = run([_part('hangs')], during=stop,
                hangs='import pathlib, time\ndef test_it():\n    pathlib.Path(__file__).with_name("at-it").touch()\n'
                      '    time.sleep(600)\n')
    assert found.stopped and _faults(found)[0] == ['part: has not ended']


def test_what_runs_now_and_then_is_shown(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, 'EVERY_S', 1)
    run([_part('waits')], waits='import time\ndef test_it():\n    time.sleep(4)\n')
    assert '  part tests/test_waits.py::test_it' in capsys.readouterr().out


def _command(name, script, suite='pep8', stage=0, **more):
    return plan.Part(name, suite, stage, command=('sh', '-c', script), **more)


def test_stages_needs_and_parts_that_run_alone_wait(run, tmp_path):
    say = 'echo {0} begin >>order; sleep 0.7; echo {0} end >>order'
    test = 'import time\ndef test_it():\n    file = open("order", "a")\n' \
           '    print("{0} begin", file=file, flush=True)\n' \
           '    time.sleep(0.7)\n    print("{0} end", file=file, flush=True)\n'
    found = run([_command('tool', say.format('tool'), load=0.1), _part('first', name='first'),
                 _part('alone', name='alone', stage=1, alone=True),
                 _part('beside', name='beside', stage=1), _part('needs', name='needs', stage=2, needs=('slow',)),
                 _command('slow', say.format('slow'), stage=2)],
                **{name: test.format(name) for name in ('first', 'alone', 'beside', 'needs')})
    assert _faults(found) == ([], [])
    order = (tmp_path / 'order').read_text().splitlines()
    assert order.index('alone begin') > max(order.index('first end'), order.index('tool end'))
    assert order.index('alone end') == order.index('alone begin') + 1
    assert order.index('needs begin') > order.index('slow end') > order.index('beside end')


def test_failed_command_fails_the_run_and_shows_its_output(run, capsys):
    found = run([_command('style', 'echo this is wrong; exit 2'), _command('bill', 'exit 3', codes=(0, 3))])
    assert _faults(found)[0] == ['style: style has ended with code 2']
    assert 'this is wrong' in capsys.readouterr().out


class _Running(runner.Process):
    def __init__(self, part):
        super().__init__(part, part.name, None, 0.0)


@pytest.mark.parametrize('cores, load, most', [(2, 0.5, 4), (2, 0.4, 5), (4, 1.0, 4), (1, 3.0, 1)])
def test_processes_beside_each_other_keep_no_more_than_the_cores_busy(tmp_path, cores, load, most):
    part = plan.Part('unit', 'unit', 0, ('a',), workers=100, load=load)
    found = runner.Run([part], tmp_path, cores=cores, until=0)
    while found._has_room(part):
        found._processes.append(_Running(part))
    assert len(found._processes) == most


def test_parts_of_integration_are_one_more_than_the_cores(tmp_path):
    part = plan.Part('host', 'integration', 0, ('a',), load=0.01)
    other = plan.Part('functional', 'functional', 0, ('a',), load=0.01)
    found = runner.Run([part, other], tmp_path, cores=2, until=0)
    found._processes = [_Running(part)] * 3
    assert not found._has_room(part) and found._has_room(other)
    found._processes += [_Running(other)] * 2
    assert not found._has_room(other)
    found._processes = [_Running(other)] * 4
    assert found._has_room(other) and found._has_room(part)


LISTED = """
import pytest
from nova.tests import long_runs
def test_short():
    pass
@pytest.mark.parametrize('kind', ['a', 'b'])
def test_long(kind):
    pass
@long_runs.only
def test_night():
    pass
class TestThem:
    def test_one(self):
        pass
"""


@pytest.mark.parametrize('selection, names, left_out', [
    ('ordinary', ['test_short', 'test_long[b]'], ['test_long[a]', 'test_night', 'TestThem::test_one']),
    ('long', ['test_long[a]', 'test_night', 'TestThem::test_one'], []),
    ('all', ['test_short', 'test_long[a]', 'test_long[b]', 'TestThem::test_one'], [])])
def test_list_of_long_tests_divides_them(run, tmp_path, selection, names, left_out):
    listed = tmp_path / 'long.tsv'
    listed.write_text('# name\tseconds\treason\ntests/test_it.py::test_long[a]\t10\tslow\n'
                      'tests/test_it.py::TestThem\t5\tslow\ntests/test_it.py::only\t5\tat night\n')
    found = run([_part('it')], it=LISTED, environ={'NOVA_TEST_SELECT': selection, 'NOVA_TEST_LONG_LIST': str(listed),
                                                   'NOVA_TEST_LONG': ''})
    results = found.parts[0].results
    passed = [result.name for result in results if result.outcome == 'passed']
    assert passed == [f'tests/test_it.py::{name}' for name in names]
    out = [result.name for result in results if result.outcome == 'left out']
    assert sorted(out) == sorted(f'tests/test_it.py::{name}' for name in left_out)
    if left_out:
        assert runner.share_left_out(found) == (3, 5)


def test_files_that_do_not_begin_in_time_are_left(run):
    found = run([_part('a', 'b')], soft=time.time() - 1, a=TEST.format(name='a', fails=False),
                b=TEST.format(name='b', fails=False))
    assert found.left == ['tests/test_a.py', 'tests/test_b.py'] and _faults(found)[0] == []


def test_files_that_would_not_end_in_time_do_not_begin(run, tmp_path):
    found = run([_part('a', 'b')], minutes=5, soft=time.time() + 120,
                expected={'tests/test_a.py': 300, 'tests/test_b.py': 30},
                a=TEST.format(name='a', fails=True), b=TEST.format(name='b', fails=False))
    assert found.left == ['tests/test_a.py'] and _faults(found) == ([], []) and found.parts[0].count('passed') == 3


def test_seconds_of_files_are_recorded_and_those_of_others_stay(run, tmp_path):
    found = run([_part('a')], a=TEST.format(name='a', fails=False))
    file = tmp_path / 'durations.tsv'
    file.write_text('# file\ntests/test_a.py\t500.0\t1.0\ntests/test_z.py\t9.0\t1.0\n')
    runner.record(found, file)
    took = plan.durations(file)
    assert took['tests/test_z.py'] == 9 and 0 <= took['tests/test_a.py'] < 100


def test_parts_and_their_figures_are_in_the_table(run):
    found = run([_part('a', name='a part')], a=TEST.format(name='a', fails='number == 0'))
    words = runner.table(found)[1].split()
    assert words[:2] == ['a', 'part'] and words[-4:] == ['2', '0', '1', '0']


@pytest.mark.parametrize('given, commit, turn', [
    (None, 2 * plan.TURNS, '0'), ('', plan.TURNS + 1, '1'), ('1', 0, '1'), ('all', 0, 'all')])
def test_turn_is_the_callers_or_the_commits(given, commit, turn):
    assert runner.chosen_turn(given, commit) == turn


@pytest.mark.parametrize('given', [str(plan.TURNS), 'x', '-1'])
def test_turn_that_does_not_exist_is_refused(given):
    with pytest.raises(SystemExit, match='NOVA_TEST_TURN'):
        runner.chosen_turn(given, 0)


def test_command_line_runs_a_file_of_a_suite():
    environ = {name: value for name, value in os.environ.items() if not name.startswith(('NOVA_TEST_', 'PYTEST_'))}
    done = subprocess.run([sys.executable, '-m', 'nova.tests.runner', 'unit', '--', 'nova/tests/unit/test_long_runs.py',
                           '-k', 'not nothing'],
                          cwd=plan.TREE, env={**environ, 'PYTHONPATH': os.pathsep.join(sys.path)}, capture_output=True,
                          text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith('All green.\n') and 'contract' not in done.stdout
