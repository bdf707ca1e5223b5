"""Shared code of the scripts that run foreign test suites against a cloud: environments, clouds, expected failures."""
import collections
import csv
import os
import re
import shutil
import typing
import xml.etree.ElementTree

import packages

class Result(typing.NamedTuple):
    """Result of a test.

    :ivar outcome: passed, failed or skipped
    :ivar text: why, where it did not pass
    """

    outcome: str
    text: str = ''
    seconds: float = 0.0


SOMETIMES = 'Sometimes: '    # begin of a reason: the outcome of the test depends on time
STAMP = 'installed'          # file that names what an environment was made of


def install(directory, requirements):
    """Create a virtual environment with exactly these requirements; return its bin directory."""
    if not is_installed(directory, requirements):
        print(f'Installing {", ".join(requirements)} into {directory} …', flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        packages.install(directory, requirements)
        (directory / STAMP).write_text('\n'.join(requirements))
    return directory / 'bin'


def is_installed(directory, requirements):
    """Return whether an environment has the result of ``install``."""
    stamp = directory / STAMP
    return stamp.exists() and stamp.read_text() == '\n'.join(requirements)


def environ(directory, **more):
    """Return the environment variables of a suite: its commands first, without settings of the caller's cloud."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
    return {**kept, 'PATH': f'{directory}:{kept["PATH"]}', 'PYTHONWARNINGS': 'ignore', **more}


def junit(text):
    """Return {test: Result} of a JUnit report."""
    results = {}
    for case in xml.etree.ElementTree.fromstring(text).iter('testcase'):
        name = re.sub(r'\[.*\]', '', f'{case.get("classname")}.{case.get("name")}'.lstrip('.'))
        outcome, detail = 'passed', ''
        for child in case:
            kind = {'failure': 'failed', 'error': 'failed', 'skipped': 'skipped'}.get(child.tag)
            if kind:
                outcome, detail = kind, child.text or child.get('message') or ''
        results[name] = Result(outcome, detail, float(case.get('time') or 0))
    return results


def report(results, list_file, complete, client=None):
    """Print the results and compare them with a list of (regular expression, reason); return the exit code.

    A reason that begins with SOMETIMES allows a test to pass.

    :param complete: all tests were run: a row of the list that names none of them is wrong, too
    :param client: the list is one of several clients, whose names are its first column
    """
    with open(list_file, newline='') as file:
        expected = [row for row in csv.reader(file, delimiter='\t') if row and not row[0].startswith('#')]
    if client is not None:
        expected = [row[1:] for row in expected if row[0] == client]
    counts = collections.Counter(result[0] for result in results.values())
    print(f'\n{len(results)} tests: ' + ', '.join(f'{counts[name]} {name}' for name in ('passed', 'failed', 'skipped')))
    wrong, used, reasons = 0, set(), {row[0]: row[1] for row in expected}
    for name, (outcome, text, *_seconds) in sorted(results.items()):
        rows = [row[0] for row in expected if re.search(row[0], name)]
        used.update(rows)
        if outcome == 'failed' and not rows:
            wrong += 1
            print(f'not expected to fail: {name}\n    {last_line(text)}')
        elif outcome == 'passed' and rows and not reasons[rows[0]].startswith(SOMETIMES):
            wrong += 1
            print(f'expected to fail, and passes: {name}')
    for row in expected:
        if complete and row[0] not in used:
            wrong += 1
            print(f'in the list, and not a test: {row[0]}')
    if not results:
        print('No test was run.')
    return 1 if wrong or not results else 0


def last_line(text):
    """Return the last line of a traceback."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ''
