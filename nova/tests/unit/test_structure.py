"""Rules on the structure of the code: no circle of modules, classes of a bounded size, few functions with Any."""
import ast
import functools
import graphlib
import pathlib

import nova

ROOT = pathlib.Path(nova.__file__).parent
LEFT_OUT = ('tests', 'db/migrations')
MAX_METHODS = 40                 # inherited ones included
MAX_BASES = 3
MAX_ANY_PERCENT = 2


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
