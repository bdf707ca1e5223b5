"""A ratchet on types: the number of public functions that take or return Any, in each package, only goes down."""
import ast
import collections
import pathlib

import nova

ROOT = pathlib.Path(nova.__file__).parent
LEFT_OUT = ('tests', 'db/migrations')
UNTYPED = {'Any', 'object'}
CONTAINERS = {'dict', 'Mapping', 'MutableMapping'}
# {package: public functions with an untyped parameter or answer}. Lower a number when the count is lower.
LIMITS = {
    'api': 251, 'cert': 1, 'cloud': 6, 'cmd': 18, 'compute': 46, 'conductor': 40, 'console': 1, 'context': 2, 'db':
    92, 'differences': 1, 'disk_files': 2, 'ec2': 181, 'exception': 1, 'hardware': 18, 'identity': 60, 'image': 30,
    'keymanager': 10, 'legacy_network': 1, 'manager': 2, 'network': 73, 'notify': 16, 'objects': 18, 'objectstore':
    10, 'policies': 1, 'rpc': 15, 'runtime': 26, 'scheduler': 44, 'service': 3, 'utils': 6, 'virt': 166, 'volume':
    17, 'vpn': 2, 'web': 24,
}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, 'id', '')


def _is_untyped(node: ast.expr | None, aliases: set[str]) -> bool:
    """Whether an annotation is Any, object, a mapping of text to Any, an alias of one, or a union with one."""
    if isinstance(node, ast.BinOp):
        return _is_untyped(node.left, aliases) or _is_untyped(node.right, aliases)
    if isinstance(node, ast.Subscript) and _name(node.value) in CONTAINERS and isinstance(node.slice, ast.Tuple):
        return _is_untyped(node.slice.elts[-1], aliases)
    return node is not None and _name(node) in UNTYPED | aliases


def _aliases(tree: ast.Module) -> set[str]:
    """Names that a module gives to untyped annotations."""
    return {target.id for node in tree.body if isinstance(node, ast.Assign) and _is_untyped(node.value, set())
            for target in node.targets if isinstance(target, ast.Name)}


def untyped_functions(tree: ast.Module, aliases: set[str]) -> list[str]:
    """Return the names of public functions and methods of a module that have an untyped parameter or answer."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
                not node.name.startswith('_') or node.name == '__init__'):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(_is_untyped(each, aliases) for each in [node.returns, *(each.annotation for each in given)]):
                found.append(node.name)
    return found


def _counts() -> collections.Counter[str]:
    trees = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in sorted(ROOT.rglob('*.py'))
             if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT)}
    aliases = set().union(*map(_aliases, trees.values()))
    counts: collections.Counter[str] = collections.Counter()
    for path, tree in trees.items():
        counts[path.parts[0].removesuffix('.py')] += len(untyped_functions(tree, aliases))
    return counts


def test_untyped_public_functions_do_not_increase():
    counts = _counts()
    grown = {package: count for package, count in counts.items() if count > LIMITS.get(package, 0)}
    assert not grown, 'more public functions with Any: give the new ones types'


def test_each_kind_of_untyped_annotation_is_counted():
    tree = ast.parse('\n'.join((
        'Row = dict[str, Any]', 'def a(x: Any): ...', 'def b() -> dict[str, typing.Any]: ...',
        'def c(x: Mapping[str, Any] | None): ...', 'def d(*, x: object): ...', 'def e(x: rows.Row): ...',
        'def f(x: int) -> dict[str, int]: ...', 'def _g(x: Any): ...')))
    assert untyped_functions(tree, _aliases(tree)) == ['a', 'b', 'c', 'd', 'e']
