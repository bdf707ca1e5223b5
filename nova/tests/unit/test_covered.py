"""tools/covered.py: files that it runs, and what it prints of coverage."""
import importlib
import json
import pathlib
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
TEST = 'nova/tests/unit/test_long_runs.py'


@pytest.fixture
def script(monkeypatch):
    if not (TOOLS / 'covered.py').exists():
        pytest.skip('tools/covered.py is not part of an installed nova')
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module('covered')
    sys.modules.pop('covered')


def test_coverage_arguments_are_suites_or_files(script):
    assert script.files([TEST]) == [TEST]
    assert TEST in script.files(['unit']) and set(script.files(['unit'])) < set(script.files([]))
    with pytest.raises(SystemExit, match='nothing is neither a suite'):
        script.files(['nothing'])


def test_table_adds_modules_to_packages(script):
    rows = script.table({'nova/api/a.py': dict(zip(script.KEYS, (10, 5, 4, 1))),
                         'nova/api/b/c.py': dict(zip(script.KEYS, (10, 10, 0, 0))),
                         'nova/policy.py': dict.fromkeys(script.KEYS, 0)})
    assert [row.split() for row in rows[1:]] == [
        ['nova/api', '20', '75.0%', '4', '25.0%'], ['nova/policy.py', '0', '-', '0', '-'],
        ['in', 'all', '20', '75.0%', '4', '25.0%']]


def test_run_reports_modules_and_their_tests(script, tmp_path):
    pytest.importorskip('coverage', reason='the package coverage is not installed')
    done = subprocess.run([sys.executable, TOOLS / 'covered.py', TEST, '--report', tmp_path / 'report', '--modules',
                           tmp_path / 'modules'], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'in all' in done.stdout
    report, modules = (json.loads((tmp_path / name).read_text()) for name in ('report', 'modules'))
    assert report['nova/runtime/concurrency.py']['covered_lines'] > 10
    assert modules['nova/policy.py'] == []                         # no test of the file runs it
