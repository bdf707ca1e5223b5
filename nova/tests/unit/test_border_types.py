"""A ratchet on types: the number of public functions that take or return Any, in each package, only goes down."""
import ast
import collections
import pathlib

import nova

ROOT = pathlib.Path(nova.__file__).parent
LEFT_OUT = ('tests', 'db/migrations')
UNTYPED = {'Any', 'typing.Any', 'object'}
CONTAINERS = {'dict', 'Mapping', 'MutableMapping'}
# {package: public functions with an untyped parameter or answer}. Lower a number when the count is lower.
LIMITS = {
    'api': 15, 'cmd': 3, 'compute': 4, 'conductor': 9, 'context': 1, 'db': 23, 'ec2': 11, 'hardware': 1,
    'identity': 6, 'image': 3, 'keymanager': 1, 'legacy_network': 1, 'manager': 2, 'network': 23, 'notify': 5,
    'objects': 4, 'rpc': 9, 'runtime': 10, 'service': 3, 'utils': 5, 'virt': 9, 'volume': 4, 'web': 20,
}


def _is_untyped(node: ast.expr | None, untyped: set[str]) -> bool:
    """Whether an annotation is Any, object, a mapping of text to Any, an alias of one, or a union with one.

    :param untyped: names of untyped annotations in this module, with those of other modules that it imports
    """
    if isinstance(node, ast.BinOp):
        return _is_untyped(node.left, untyped) or _is_untyped(node.right, untyped)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        return ast.unparse(node.value).rpartition('.')[2] in CONTAINERS and _is_untyped(node.slice.elts[-1], untyped)
    return isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in untyped


def _untyped_names(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return {module: names that it has for untyped annotations}; trees: {module: its tree}."""
    names, before = {module: set(UNTYPED) for module in trees}, -1
    imports = [(module, f'{node.module}.{each.name}', str(node.module), each) for module, tree in trees.items()
               for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names]
    while before < (before := sum(map(len, names.values()))):          # aliases of aliases
        for module, path, parent, each in imports:
            known = each.asname or each.name
            if path in names:
                names[module].update(f'{known}.{alias}' for alias in names[path] - UNTYPED if alias.isidentifier())
            elif each.name in names.get(parent, set()) - UNTYPED:
                names[module].add(known)
        for module, tree in trees.items():
            for node in tree.body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_untyped(node.value, names[module]):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    names[module].update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def untyped_functions(tree: ast.Module, untyped: set[str]) -> list[str]:
    """Return the names of public functions and methods of a module that have an untyped parameter or answer."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
                not node.name.startswith('_') or node.name == '__init__'):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(_is_untyped(each, untyped) for each in [node.returns, *(each.annotation for each in given)]):
                found.append(node.name)
    return found


def _counts() -> collections.Counter[str]:
    paths = {'.'.join(path.relative_to(ROOT.parent).with_suffix('').parts).removesuffix('.__init__'): path
             for path in sorted(ROOT.rglob('*.py')) if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT)}
    trees = {module: ast.parse(path.read_text()) for module, path in paths.items()}
    counts: collections.Counter[str] = collections.Counter()
    for module, untyped in _untyped_names(trees).items():
        counts['.'.join(module.split('.')[1:2])] += len(untyped_functions(trees[module], untyped))
    return counts


def test_untyped_public_functions_do_not_increase():
    counts = _counts()
    grown = {package: count for package, count in counts.items() if count > LIMITS.get(package, 0)}
    assert not grown, 'more public functions with Any: give the new ones types'


def test_each_kind_of_untyped_annotation_is_counted():
    trees = {'nova.rows': ast.parse('Row = dict[str, Any]\nValues: TypeAlias = Row'), 'nova.other': ast.parse(
        'from nova import rows\nfrom nova.rows import Values as V\ndef a(x: Any): ...\n'
        'def b() -> dict[str, typing.Any]: ...\ndef c(x: Mapping[str, Any] | None): ...\ndef d(*, x: object): ...\n'
        'def e(x: rows.Row): ...\ndef f(x: V): ...\ndef g(x: Row): ...\ndef h(x: int) -> dict[str, int]: ...\n'
        'def _i(x: Any): ...')}
    assert untyped_functions(trees['nova.other'], _untyped_names(trees)['nova.other']) == ['a', 'b', 'c', 'd', 'e', 'f']
