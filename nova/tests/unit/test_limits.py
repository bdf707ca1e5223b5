"""A test that hangs ends alone, on both thread models and in a process of pytest-xdist."""
import os
import subprocess
import sys

import pytest

CONFTEST = """
from nova.runtime import concurrency
concurrency.setup()
from nova.tests import limits
limits.AGAIN_S, limits.LAST_S, limits.WAIT, limits.TESTS = 1, {last}, 0.3, {tests!r}
def pytest_configure(config):
    limits.register(config)
"""
TESTS = """
import signal, subprocess, threading, time
import pytest
pytestmark = pytest.mark.timeout(1)
@pytest.fixture
def in_setup():
    threading.Event().wait()
@pytest.fixture
def in_teardown():
    yield
    threading.Event().wait()
def test_call():
    threading.Thread(target=threading.Event().wait, args=(20,), name='helper', daemon=True).start()
    threading.Event().wait()
def test_setup(in_setup):
    pass
def test_failed_before_its_teardown(in_teardown):
    assert not 'reason'
def test_clean_up():
    try:
        threading.Event().wait()
    finally:
        threading.Event().wait()
@pytest.mark.timeout(20)
def test_program():
    subprocess.run(['sleep', '20'])
def test_busy():
    while True:
        pass
@pytest.mark.timeout(20)
def test_after():
    pass
"""
DEAF = """
import signal, time
import pytest
@pytest.mark.timeout(1)
def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(20)
"""
SAYS = """
import os, shutil, signal
def test_one():
    shutil.copy(f'{running}/{{os.getpid()}}', '{seen}')
    os.kill(os.getpid(), signal.SIGUSR2)
"""
RUNS = {'native': ('native',), 'green': ('eventlet',), 'xdist': ('native', '-n', '1')}
PLUGINS = '-p no:cacheprovider -p no:schemathesis -p no:anyio -p no:hypothesispytest'.split()
LATE = 'Failed: It takes'
ENDS = [f'FAILED test_call - {LATE}', f'ERROR test_setup - {LATE}', f'FAILED test_clean_up - {LATE}',
        'FAILED test_failed_before_its_teardown - AssertionError', f'ERROR test_failed_before_its_teardown - {LATE}',
        'FAILED test_program - subprocess.TimeoutExp', f'FAILED test_busy - {LATE}', 'PASSED test_after']


def _begin(directory, text, model, *options, **more):
    directory.mkdir()
    (directory / 'conftest.py').write_text(CONFTEST.format(tests=str(directory), last=2 if text is DEAF else 60))
    (directory / 'test_them.py').write_text(text)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(('NOVA_TEST_', 'PYTEST_'))}
    environ |= {'NOVA_THREAD_MODEL': model, 'PYTHONPATH': os.pathsep.join(sys.path), 'COLUMNS': '200', **more}
    return subprocess.Popen(
        [sys.executable, '-W', 'ignore', '-m', 'pytest', '-q', '-rA', *PLUGINS, *options, 'test_them.py'],
        cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope='module')
def printed(tmp_path_factory):
    """What each run has printed, and its code; they run side by side."""
    directory = tmp_path_factory.mktemp('limits')
    running = {name: _begin(directory / name, TESTS, *run) for name, run in RUNS.items()}
    running['deaf'] = _begin(directory / 'deaf', DEAF, 'native')
    return {name: (process.communicate(timeout=120)[0], process.returncode) for name, process in running.items()}


@pytest.mark.parametrize('run', RUNS)
def test_hanging_test_ends_without_ending_the_others(printed, run):
    text, code = printed[run]
    assert code == 1
    lines = text.replace('test_them.py::', '').splitlines()
    for end in ENDS:
        assert any(line.startswith(end) for line in lines), (end, text)
    assert "in test_call\n    threading.Event().wait()" in text
    assert run == 'green' or '~~~ thread helper' in text


def test_a_process_that_no_alarm_reaches_ends_with_its_stacks(printed):
    text, code = printed['deaf']
    assert code == 1 and 'Timeout (0:00:03)!' in text and 'in test_deaf' in text


def test_running_test_and_stacks_are_written_to_files(tmp_path):
    (tmp_path / 'running').mkdir()
    text = SAYS.format(running=tmp_path / 'running', seen=tmp_path / 'seen')
    process = _begin(tmp_path / 'it', text, 'native', NOVA_TEST_RUNNING=f'{tmp_path}/running', NOVA_TEST_PART='a-part')
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0, text
    began, part, name = (tmp_path / 'seen').read_text().split()
    assert int(began) > 0 and (part, name) == ('a-part', 'test_them.py::test_one')
    assert 'in test_one' in (tmp_path / 'running' / f'{process.pid}.stacks').read_text()
