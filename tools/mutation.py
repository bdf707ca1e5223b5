#!/usr/bin/env python3
"""Changes modules at one place at a time and counts the changes that the tests notice.

usage: tools/mutation.py [--modules 10] [--mutants 20] [--minutes 60] [--seed TEXT] [--files 12] [--covered FILE]
                         [--tree DIRECTORY] [--beside DIRECTORY] [MODULE.py ...]

Without names, modules of more than 150 lines are drawn by the hash of the commit (--seed): nova/network/ipam.py,
nova/policy.py, one of nova/db, one of nova/scheduler, and others of all. A change is one comparison, operator,
constant, returned value or call. It is made in a copy of the tree, and the tests of the module run until one fails:
those that import it (at most --files), or that --covered names (tools/covered.py writes that file). --tree measures
another tree of this product, and --beside draws among the modules that one more tree has: before and after a change.

Prints changes, noticed ones and the score of each module, and each change that nothing noticed. A change may be
equivalent to what was there: 100 % is not the goal. Exits with 0, or with 1 when a module has no tests.
"""
import argparse
import ast
import collections.abc
import copy
import functools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import typing

TREE = pathlib.Path(__file__).resolve().parents[1]
LINES = 150
ALWAYS = ('nova/network/ipam.py', 'nova/policy.py')
ONE_OF = ('nova/db/', 'nova/scheduler/')
SUITES = ('unit', 'contract', 'functional')
LEFT_OUT = ('nova/tests/', 'nova/db/migrations/')
LIMIT_S = 900                           # of the tests of a module, unchanged

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}


class Mutant(typing.NamedTuple):
    line: int
    before: str
    after: str
    text: str                           # of the whole module


def mutants(source: str) -> list[Mutant]:
    """Each change of a module, in the order of its lines."""
    tree = ast.parse(source)
    raw = source.encode()
    starts = [0]
    for line in raw.split(b'\n'):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for node, changed in _changes(tree):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        after = ast.unparse(changed)
        if isinstance(changed, ast.expr):
            after = f'({after})'
        text = (raw[:begin] + after.encode() + raw[end:]).decode()
        ast.parse(text)
        found.append(Mutant(node.lineno, raw[begin:end].decode(), after, text))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.after))


def _changes(tree: ast.Module) -> collections.abc.Iterator[tuple[typing.Any, ast.AST]]:
    for node in _looked_at(tree):
        changed = copy.deepcopy(node)
        match node, changed:
            case ast.Compare(ops=[operator]), ast.Compare() if type(operator) in OPERATORS:
                changed.ops = [OPERATORS[type(operator)]()]
            case (ast.BoolOp(op=operator), ast.BoolOp()) | (ast.BinOp(op=operator), ast.BinOp()) \
                    if type(operator) in OPERATORS:
                changed.op = OPERATORS[type(operator)]()
            case ast.UnaryOp(op=ast.Not(), operand=operand), _:
                changed = operand
            case ast.Constant(value=bool(value)), ast.Constant():
                changed.value = not value
            case ast.Constant(value=int(value)), ast.Constant():
                changed.value = value + 1
            case ast.Return(value=ast.expr()), ast.Return() if not _is_none(node.value):
                changed.value = ast.Constant(None)
            case ast.Expr(value=ast.Call()), _:
                changed = ast.Pass()
            case ast.Raise(), _:
                changed = ast.Pass()
            case _:
                continue
        yield node, changed


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _looked_at(node: ast.AST) -> collections.abc.Iterator[ast.AST]:
    """Nodes below one, without text, annotations, logs and what formats text."""
    for name, value in ast.iter_fields(node):
        if name in ('annotation', 'returns', 'decorator_list', 'type_params'):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_log(child):
                continue
            yield child
            yield from _looked_at(child)


def _is_log(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id='LOG')))):
            return True
    return False


def candidates(tree: pathlib.Path) -> list[str]:
    """Modules of more than LINES lines."""
    names = sorted(path.relative_to(tree).as_posix() for path in (tree / 'nova').rglob('*.py'))
    return [name for name in names
            if not name.startswith(LEFT_OUT) and (tree / name).read_text().count('\n') > LINES]


def draw(names: collections.abc.Sequence[str], count: int, seed: str) -> list[str]:
    chance = random.Random(seed)
    found = [name for name in ALWAYS if name in names]
    for prefix in ONE_OF:
        if some := [name for name in names if name.startswith(prefix) and name not in found]:
            found.append(chance.choice(some))
    rest = [name for name in names if name not in found]
    found += chance.sample(rest, min(max(count - len(found), 0), len(rest)))
    return sorted(found[:count])


def importers(tree: pathlib.Path, module: str) -> list[str]:
    """Files of tests that import a module, unit tests first; else those of the modules that import it."""
    tests = [path for suite in SUITES for path in sorted((tree / 'nova/tests' / suite).glob('test_*.py'))]
    found = [path for path in tests if _name(module) in _imported(path)]
    if not found:
        users = {_name(path.relative_to(tree).as_posix()) for path in sorted((tree / 'nova').rglob('*.py'))
                 if tree / 'nova/tests' not in path.parents and _name(module) in _imported(path)}
        found = [path for path in tests if users & _imported(path)]
    return [path.relative_to(tree).as_posix() for path in found]


def _name(module: str) -> str:
    return module.removesuffix('.py').removesuffix('/__init__').replace('/', '.')


@functools.cache
def _imported(path: pathlib.Path) -> frozenset[str]:
    """Names of modules, or of what a module has."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f'{node.module}.{each.name}' for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return frozenset(found)


class Module:
    """One module in a copy of the tree."""

    def __init__(self, tree: pathlib.Path, name: str, tests: list[str], python: str = sys.executable) -> None:
        self.name, self.tests = name, tests
        self.noticed = 0
        self.survivors: list[Mutant] = []
        self.left = 0
        self._tree, self._python = tree, python
        self._path = tree / name
        self._source = self._path.read_text()

    def score(self, count: int, seed: str, until: float) -> None:
        """Make so many changes, as long as there is time."""
        all_of_them = mutants(self._source)
        chosen = random.Random(f'{seed} {self.name}').sample(all_of_them, min(count, len(all_of_them)))
        began = time.monotonic()
        if self.tests and not self._passes(self.tests, LIMIT_S):
            self.tests = [test for test in self.tests if self._passes([test], LIMIT_S)]     # others prove nothing
        took = time.monotonic() - began
        for number, mutant in enumerate(sorted(chosen)):
            if time.monotonic() + took >= until or not self.tests:
                self.left = len(chosen) - number
                break
            self._path.write_text(mutant.text)
            try:
                if self._passes(self.tests, 3 * took + 20):
                    self.survivors.append(mutant)
                else:
                    self.noticed += 1
            finally:
                self._path.write_text(self._source)

    def _passes(self, tests: collections.abc.Sequence[str], seconds: float) -> bool:
        environ = {name: value for name, value in os.environ.items() if not name.startswith('NOVA_TEST_')}
        command = [self._python, '-W', 'ignore', '-m', 'pytest', '-q', '-x', '-n', '0', '-p', 'no:cacheprovider',
                   *tests]
        with subprocess.Popen(command, cwd=self._tree, env={**environ, 'PYTHONPATH': str(self._tree),
                                                            'PYTHONDONTWRITEBYTECODE': '1'},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                return process.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)

    def __str__(self) -> str:
        made = self.noticed + len(self.survivors)
        score = f'{self.noticed / made:5.0%}' if made else '    -'
        left = f', {self.left} left for lack of time' if self.left else ''
        return f'{score}  {self.noticed:4} of {made:4}  {self.name} ({len(self.tests)} files of tests{left})'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', metavar='MODULE.py')
    parser.add_argument('--modules', type=int, default=10)
    parser.add_argument('--mutants', type=int, default=20, help='changes of each module')
    parser.add_argument('--minutes', type=float, default=60)
    parser.add_argument('--seed', help="the commit's hash by default")
    parser.add_argument('--files', type=int, default=12, help='of tests of a module, the first ones')
    parser.add_argument('--covered', type=pathlib.Path, help='a JSON document: files of tests by module')
    parser.add_argument('--tree', type=pathlib.Path, default=TREE, help='the tree that is measured')
    parser.add_argument('--beside', type=pathlib.Path, help='a tree that has the drawn modules, too')
    given = parser.parse_args()
    seed = given.seed or subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=TREE, capture_output=True, text=True,
                                        check=True).stdout.strip()
    others = set(candidates(given.beside or given.tree))
    names = given.names or draw([name for name in candidates(given.tree) if name in others], given.modules, seed)
    covered = json.loads(given.covered.read_text()) if given.covered else {}
    until = time.monotonic() + given.minutes * 60
    done = []
    with tempfile.TemporaryDirectory(prefix='mutation-') as directory:
        tree = pathlib.Path(directory, 'tree')
        shutil.copytree(given.tree, tree, ignore=shutil.ignore_patterns('.git', '__pycache__', '.venv', '*.egg-info'),
                        symlinks=True)
        for number, name in enumerate(names):
            module = Module(tree, name, (covered.get(name) or importers(tree, name))[:given.files])
            share = (until - time.monotonic()) / (len(names) - number)        # what one leaves, the others have
            module.score(given.mutants, seed, time.monotonic() + share)
            done.append(module)
            print(module, flush=True)
            for mutant in module.survivors:
                print(f'           {name}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}', flush=True)
    noticed, made = sum(each.noticed for each in done), sum(each.noticed + len(each.survivors) for each in done)
    print(f'{noticed / made if made else 0:5.0%}  {noticed:4} of {made:4}  in all; drawn by {seed}')
    return int(not all(each.tests for each in done))


if __name__ == '__main__':
    sys.exit(main())
