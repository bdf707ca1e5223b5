#!/usr/bin/env python3
"""Measures which lines and branches of nova the tests run, and which files of tests run which module.

usage: tools/covered.py [--report FILE] [--modules FILE] [--processes 2] [--minutes 120] [unit ... | FILE.py ...]

Needs the package coverage in the environment of the tests. Runs unit, contract and functional tests on native threads,
without the list of long tests. Prints lines and branches by package; --report writes them by module as JSON, --modules
the files of tests of each module, which tools/mutation.py --covered reads.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[1]
SUITES = ('unit', 'contract', 'functional')
KEYS = ('num_statements', 'covered_lines', 'num_branches', 'covered_branches')
SETTINGS = """[run]
branch = true
parallel = true
source = nova
omit = nova/tests/*
data_file = {data}
relative_files = true
"""
PLUGIN = '''"""Each file of tests is a context of its own."""
import coverage


def pytest_runtest_setup(item):
    measured, name = coverage.Coverage.current(), item.nodeid.partition('::')[0]
    if measured is not None and name != getattr(item.session, 'nova_context', None):
        item.session.nova_context = name
        measured.switch_context(name)


def pytest_unconfigure():
    # nova.tests.worker ends the process itself
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.stop()
        measured.save()
'''


def files(words: list[str]) -> list[str]:
    found = []
    for word in words or SUITES:
        if word in SUITES:
            found += sorted(str(path.relative_to(TREE)) for path in (TREE / 'nova/tests' / word).glob('test_*.py'))
        elif (TREE / word).is_file():
            found.append(word)
        else:
            raise SystemExit(f'{word} is neither a suite ({", ".join(SUITES)}) nor a file.')
    return found


def run(names: list[str], directory: pathlib.Path, processes: int, seconds: float) -> bool:
    """Whether all tests passed; the data is combined."""
    (directory / 'coveragerc').write_text(SETTINGS.format(data=directory / 'data'))
    (directory / 'nova_contexts.py').write_text(PLUGIN)
    (directory / 'queue').write_text(''.join(f'{name}\n' for name in names))
    environ = {**os.environ, 'NOVA_TEST_QUEUE': str(directory / 'queue'), 'NOVA_TEST_SELECT': 'ordinary',
               'PYTHONPATH': os.pathsep.join([str(directory), str(TREE)])}
    command = [sys.executable, '-W', 'ignore', '-m', 'coverage', 'run', f'--rcfile={directory / "coveragerc"}', '-m',
               'pytest', '-q', '-p', 'nova.tests.worker', '-p', 'nova_contexts', '-p', 'no:cacheprovider',
               *sorted({name.rpartition('/')[0] for name in names})]
    running = [subprocess.Popen(command, cwd=TREE, env=environ) for _ in range(processes)]
    codes = []
    for process in running:
        try:
            codes.append(process.wait(seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            codes.append(process.wait())
    _coverage(directory, 'combine', '-q')
    return not set(codes) - {0, 5}


def figures(directory: pathlib.Path) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Lines and branches of each module, and the files of tests that run it: those that run most of it first."""
    out = directory / 'report.json'
    _coverage(directory, 'json', '-q', '--show-contexts', '-o', str(out))
    by_module, tests = {}, {}
    for name, found in json.loads(out.read_text())['files'].items():
        summary = found['summary']
        by_module[name] = {key: summary[key] for key in KEYS}
        lines = found.get('contexts', {}).values()
        counted = collections.Counter(context for contexts in lines for context in contexts if context)
        tests[name] = [test for test, _ in counted.most_common()]
    return by_module, tests


def _coverage(directory: pathlib.Path, command: str, *words: str) -> None:
    settings = f'--rcfile={directory / "coveragerc"}'
    subprocess.run([sys.executable, '-m', 'coverage', command, settings, *words], cwd=TREE, check=True)


def table(by_module: dict[str, dict[str, int]]) -> list[str]:
    sums: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name, found in by_module.items():
        package = '/'.join(name.split('/')[:2])
        for key in (package, 'in all'):
            sums[key].update(found)
    rows = [f'{"":32} {"lines":>8} {"run":>6} {"branches":>9} {"run":>6}']
    for key in sorted(sums, key=lambda key: (key == 'in all', key)):
        lines, run_lines, branches, run_branches = (sums[key][each] for each in KEYS)
        rows.append(f'{key:32} {lines:8} {_share(run_lines, lines):>6} {branches:9} '
                    f'{_share(run_branches, branches):>6}')
    return rows


def _share(part: int, whole: int) -> str:
    return f'{part / whole:.1%}' if whole else '-'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('words', nargs='*', metavar='SUITE|FILE.py')
    parser.add_argument('--report', type=pathlib.Path)
    parser.add_argument('--modules', type=pathlib.Path)
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1)
    parser.add_argument('--minutes', type=float, default=120)
    given = parser.parse_args()
    if subprocess.run([sys.executable, '-c', 'import coverage'], stderr=subprocess.DEVNULL).returncode:
        raise SystemExit(f'The package coverage is missing: {sys.executable} -m pip install coverage')
    names = files(given.words)
    with tempfile.TemporaryDirectory(prefix='covered-') as name:
        directory = pathlib.Path(name)
        passed = run(names, directory, min(given.processes, len(names)), given.minutes * 60)
        by_module, tests = figures(directory)
    print(*table(by_module), sep='\n')
    for path, found in ((given.report, by_module), (given.modules, tests)):
        if path:
            path.write_text(json.dumps(found, indent=1, sort_keys=True) + '\n')
    if not passed:
        print('Some tests failed: what they would have run may be missing.')
    return int(not passed)


if __name__ == '__main__':
    sys.exit(main())
