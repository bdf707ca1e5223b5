"""What several files of tests need is in nova/tests/support: no test file imports another one."""
import ast
import collections
import re

import pytest

from nova.tests import plan

# Files that run tests of another file once more, with other fixtures.
RUN_AGAIN = {
    'nova/tests/functional/test_network_databases.py': 'nova.tests.unit.test_network_manager',
    'nova/tests/integration/test_disk_keys_databases.py': 'nova.tests.functional.test_disk_keys',
    'nova/tests/integration/test_ec2_databases.py': 'nova.tests.functional.test_ec2',
    'nova/tests/integration/test_live_races.py': 'nova.tests.functional.test_core_evacuation',
    'nova/tests/integration/test_placement_service.py': 'nova.tests.functional.test_neutron_requests',
    'nova/tests/unit/test_libvirt_graphics.py': 'nova.tests.unit.test_libvirt_xml',
}
# Helpers that look at more than a condition while they wait: the log of a process, which also may have ended.
WAITING = {'nova/tests/integration/test_operator_daemons.py', 'nova/tests/integration/test_reload_and_stop.py',
           'nova/tests/integration/test_systemd.py', 'nova/tests/functional/test_metrics.py'}


def _files():
    return sorted(plan.HERE.rglob('test_*.py'))


def _imported(tree):
    """Dotted names of test files that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith('nova.tests'):
            for each in node.names:
                for name in (node.module, f'{node.module}.{each.name}'):
                    if name.rpartition('.')[2].startswith('test_'):
                        yield name
                        break
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if re.match(r'nova\.tests\..*\.test_', each.name))


def _polls(tree):
    """Functions of a module that poll a condition themselves until a time is over."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith('test') and not node.decorator_list:
            text, name = ast.unparse(node), node.name.strip('_')
            if 'deadline' in text and 'time.sleep' in text and name.startswith(('wait', 'until', 'eventually')):
                yield node.name


@pytest.mark.parametrize('text, found', [
    ('from nova.tests.unit import test_rpc as rpc', ['nova.tests.unit.test_rpc']),
    ('from nova.tests.unit.test_rpc import ECHO', ['nova.tests.unit.test_rpc']),
    ('def it():\n    import nova.tests.unit.test_rpc', ['nova.tests.unit.test_rpc']),
    ('from nova.tests.support import rpc\nfrom nova.tests.support.rpc import test_client', [])])
def test_imports_of_test_files_are_found(text, found):
    names = [name for name in _imported(ast.parse(text)) if '.support.' not in name]
    assert names == found


def test_no_test_file_imports_another():
    found = collections.defaultdict(set)
    for path in _files():
        name = path.relative_to(plan.TREE).as_posix()
        own = '.'.join(path.relative_to(plan.TREE).with_suffix('').parts)
        for imported in _imported(ast.parse(path.read_text())):
            if '.support.' not in imported and imported not in (own, RUN_AGAIN.get(name)):
                found[name].add(imported)
    assert dict(found) == {}, 'move what they share into nova/tests/support'


def test_waiting_is_that_of_support():
    found = {path.relative_to(plan.TREE).as_posix(): names for path in _files()
             if (names := list(_polls(ast.parse(path.read_text()))))}
    assert {name: names for name, names in found.items() if name not in WAITING} == {}, \
        'use nova.tests.support.waiting.wait_for'
    assert set(found) == WAITING
