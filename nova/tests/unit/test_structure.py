"""Rules on the structure of the code: no circle of modules, classes of a bounded size, few functions with Any.

The number of public functions that take or return Any, in each package, only goes down.
"""
import ast
import collections
import functools
import graphlib
import pathlib

import nova

ROOT = pathlib.Path(nova.__file__).parent
LEFT_OUT = ('tests', 'db/migrations')
MAX_METHODS = 40                 # inherited ones included
MAX_BASES = 3
MAX_ANY_PERCENT = 2
UNTYPED = {'Any', 'typing.Any', 'object'}
CONTAINERS = {'dict', 'Mapping', 'MutableMapping'}
# {package: public functions with an untyped parameter or answer}. Lower a number when the count is lower.
LIMITS = {
    'api': 15, 'cmd': 3, 'compute': 4, 'conductor': 9, 'context': 1, 'db': 23, 'ec2': 11, 'hardware': 1,
    'identity': 6, 'image': 3, 'keymanager': 1, 'legacy_network': 1, 'manager': 2, 'network': 23, 'notify': 5,
    'objects': 4, 'rpc': 9, 'runtime': 10, 'service': 3, 'utils': 5, 'virt': 9, 'volume': 4, 'web': 20,
}


@functools.cache
def modules():
    """{name of a module: its syntax tree}."""
    found = {}
    for path in sorted(ROOT.rglob('*.py')):
        place = path.relative_to(ROOT)
        if not place.as_posix().startswith(LEFT_OUT):
            found['.'.join(('nova', *place.with_suffix('').parts)).removesuffix('.__init__')] = ast.parse(
                path.read_text())
    return found


def imported(tree, known):
    """Names of the known modules that a tree imports, for types and inside of functions as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            names = [f'{node.module}.{alias.name}' for alias in node.names]
            yield from (name if name in known else node.module for name in names
                        if name in known or node.module in known)


def circle(trees):
    """A circle of modules that import each other, None if there is none. A package's own modules may import it."""
    graph = {name: {other for other in imported(tree, trees) if not name.startswith(other + '.') and other != name}
             for name, tree in trees.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_modules_have_no_import_cycle():
    assert circle(modules()) is None


def test_import_cycle_is_detected():
    trees = {name: ast.parse(text) for name, text in {
        'nova.a': 'from nova import b', 'nova.b': 'if TYPE_CHECKING:\n    from nova.c import C',
        'nova.c': 'def f():\n    import nova.a', 'nova.d': 'from nova.a import A'}.items()}
    assert {'nova.a', 'nova.b', 'nova.c'} == set(circle(trees))
    trees['nova.c'] = ast.parse('')
    assert circle(trees) is None


def classes():
    """{name of a class: [(module, class)]}; a name may stand for several."""
    found = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append((name, node))
    return found


def test_classes_are_small():
    """A base of the same name as several classes counts with the largest of them."""
    known = classes()

    @functools.cache
    def methods(name, seen=()):
        found = set()
        for _module, node in known.get(name, ()):
            own = {each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
            for base in node.bases:
                of_base = ast.unparse(base).partition('[')[0].rpartition('.')[2]
                if of_base not in (*seen, name):
                    own |= methods(of_base, (*seen, name))
            found = max(found, own, key=len)
        return frozenset(found)
    large = {name: len(methods(name)) for name in known if len(methods(name)) > MAX_METHODS}
    many = {name: len(node.bases) for name, held in known.items() for _module, node in held
            if len(node.bases) > MAX_BASES}
    assert (large, many) == ({}, {})


def test_few_functions_have_a_bare_any():
    functions = [node for tree in modules().values() for node in ast.walk(tree)
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    bare = [node.name for node in functions if any(
        hint is not None and ast.unparse(hint).rpartition('.')[2] == 'Any' for hint in (
            node.returns, *(each.annotation for each in (*node.args.posonlyargs, *node.args.args,
                                                          *node.args.kwonlyargs))))]
    assert len(functions) > 1000 and 100 * len(bare) <= MAX_ANY_PERCENT * len(functions), bare


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


def test_untyped_public_functions_do_not_increase():
    trees, counts = modules(), collections.Counter()
    for module, untyped in _untyped_names(trees).items():
        counts['.'.join(module.split('.')[1:2])] += len(untyped_functions(trees[module], untyped))
    grown = {package: count for package, count in counts.items() if count > LIMITS.get(package, 0)}
    assert not grown, 'more public functions with Any: give the new ones types'


def test_each_kind_of_untyped_annotation_is_counted():
    trees = {'nova.rows': ast.parse('Row = dict[str, Any]\nValues: TypeAlias = Row'), 'nova.other': ast.parse(
        'from nova import rows\nfrom nova.rows import Values as V\ndef a(x: Any): ...\n'
        'def b() -> dict[str, typing.Any]: ...\ndef c(x: Mapping[str, Any] | None): ...\ndef d(*, x: object): ...\n'
        'def e(x: rows.Row): ...\ndef f(x: V): ...\ndef g(x: Row): ...\ndef h(x: int) -> dict[str, int]: ...\n'
        'def _i(x: Any): ...')}
    assert untyped_functions(trees['nova.other'], _untyped_names(trees)['nova.other']) == ['a', 'b', 'c', 'd', 'e', 'f']
