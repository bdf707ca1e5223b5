"""The rows of every interface are the RPC methods of its manager, with the same arguments, and what clients call.

Managers with a table (``rpc.interface.Methods``) are compared with their rows whenever they are made.
"""
import importlib
import inspect
import pathlib
import pkgutil

import pytest

import nova
from nova.compute import clients
from nova.conductor import interface as conductor_interface
from nova.network import interface as network_interface

TABLES = {'compute', 'conductor'}
SERVICES = sorted(path.parent.name for path in pathlib.Path(nova.__file__).parent.glob('*/interface.py')
                  if path.parent.name != 'rpc')


def manager_of(service):
    name = f'nova.{service}.manager'
    if not any(module.name == 'manager' for module in pkgutil.iter_modules(
            importlib.import_module(f'nova.{service}').__path__)):
        pytest.fail(f'{name} is missing')
    module = importlib.import_module(name)
    return getattr(module, service.capitalize() + 'Manager')


@pytest.mark.parametrize('service', [name for name in SERVICES if name not in TABLES])
def test_rows_equal_methods(service):
    interface = importlib.import_module(f'nova.{service}.interface').INTERFACE
    manager = manager_of(service)
    if 'methods' in manager.__annotations__:            # a table, which checks itself: rpc.interface.Methods
        return
    for row in interface.methods.values():
        function = getattr(manager, row.name, None)
        assert function is not None, f'{manager.__name__} lacks {row.name}'
        names = list(inspect.signature(function).parameters)[1:]
        assert names[1:] == list(row.arguments), f'{row.name}: the row has {row.arguments}, the method {names}'
        assert names[0] == 'ctx' or names[0] == 'context'
    # the other way round: a public method with a context that has no row is unreachable, or forgotten
    for name, function in inspect.getmembers(manager, inspect.isfunction):
        names = list(inspect.signature(function).parameters)
        if not name.startswith('_') and names[1:2] in (['ctx'], ['context']):
            assert name in interface.methods, f'{manager.__name__}.{name} has no row'


@pytest.mark.parametrize('service', SERVICES)
def test_a_manager_can_be_started(service):
    assert callable(getattr(manager_of(service), 'start', None))


@pytest.mark.parametrize('protocol, interface', [(clients.Conductor, conductor_interface.INTERFACE),
                                                 (clients.Network, network_interface.INTERFACE)])
def test_what_a_compute_calls_are_rows_of_the_interface(protocol, interface):
    methods = dict(inspect.getmembers(protocol, inspect.isfunction))
    calls = {name: list(inspect.signature(function).parameters)[2:] for name, function in methods.items()
             if not name.startswith('_')}
    assert calls, protocol
    for name, arguments in calls.items():
        assert [each for each in arguments if each != 'server'] == list(interface.methods[name].arguments), name
