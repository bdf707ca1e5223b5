"""tools/test_watch.py, beside a run of tests that does not end."""
import pathlib
import subprocess
import sys

import pytest

from nova.tests import waiting

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
WATCH = TOOLS / 'test_watch.py'
pytestmark = pytest.mark.skipif(not WATCH.exists(), reason='tools/test_watch.py is not part of an installed nova')
# a script that begins a process, which is deaf to SIGTERM, waits for it and begins one more
SCRIPT = '''
bash -c "trap 'echo asked >{0}/asked' TERM; while :; do sleep 0.1; done" & echo $! >{0}/first
wait $!; sleep 600 & wait $!; echo ended >{0}/ended
'''
WATCHED = f"""
import sys
sys.path.insert(0, {str(TOOLS)!r})
import test_watch
test_watch.GRACE_S = 2
test_watch.main()
"""
TEST = '''
import faulthandler, os, signal, sys, time
directory = sys.argv[1]
faulthandler.register(signal.SIGUSR2, open(f'{directory}/{os.getpid()}.stacks', 'w'))
def test_of_all():
    open(f'{directory}/{os.getpid()}', 'w').write(f'{time.time() - 100:.0f} brokers test_x.py::test_of_all')
    time.sleep(600)
test_of_all()
'''


def _gone(pid):
    try:
        return pathlib.Path('/proc', str(pid), 'stat').read_text().rpartition(')')[2].split()[0] == 'Z'
    except OSError:
        return True


@pytest.fixture
def run(tmp_path):
    (tmp_path / 'log.running').mkdir()
    script = subprocess.Popen(['bash', '-c', SCRIPT.format(tmp_path)])
    test = subprocess.Popen([sys.executable, '-c', TEST, tmp_path / 'log.running'])
    waiting.wait_for(lambda: (tmp_path / 'first').exists() and (tmp_path / 'log.running' / str(test.pid)).exists(), 60,
                     'both processes')
    yield script, test
    for process in script, test:
        process.kill()
        process.wait(timeout=60)


def _watch(tmp_path, pid, *options):
    return subprocess.Popen([sys.executable, '-c', WATCHED, tmp_path / 'log', str(pid), *options], text=True,
                            stdout=subprocess.PIPE)


def test_what_takes_too_long_is_named_and_ended(tmp_path, run):
    script, test = run
    out = _watch(tmp_path, script.pid, '--minutes', '0.02').communicate(timeout=100)[0]
    assert '0.02 minutes are over' in out and (tmp_path / 'log.overdue').exists()
    line = next(line for line in out.splitlines() if line.endswith('brokers test_x.py::test_of_all'))
    assert 100 <= int(line.split()[0]) < 1000
    assert 'in test_of_all' in out
    assert (tmp_path / 'asked').read_text() == 'asked\n'
    assert _gone((tmp_path / 'first').read_text().strip())
    assert _gone(script.pid)


def test_it_says_now_and_then_what_runs_and_ends_with_the_script(tmp_path, run):
    script, test = run
    watch = _watch(tmp_path, script.pid, '--minutes', '75', '--every', '1')
    assert 'runs:' in watch.stdout.readline()
    assert watch.stdout.readline().endswith('brokers test_x.py::test_of_all\n')
    first = (tmp_path / 'first').read_text().strip()
    subprocess.run(['kill', '-9', str(script.pid), first], check=True)
    assert watch.communicate(timeout=60) and watch.returncode == 0
    assert not (tmp_path / 'log.overdue').exists()
