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
from nova.rpc.interface import Methods

SERVICES = sorted(path.parent.name for path in pathlib.Path(nova.__file__).parent.glob('*/interface.py')
                  if path.parent.name != 'rpc')


def manager_of(service):
    name = f'nova.{service}.manager'
    if not any(module.name == 'manager' for module in pkgutil.iter_modules(
            importlib.import_module(f'nova.{service}').__path__)):
        pytest.fail(f'{name} is missing')
    module = importlib.import_module(name)
    return getattr(module, service.capitalize() + 'Manager')


@pytest.mark.parametrize('service', SERVICES)
def test_a_manager_is_a_table_that_can_be_started(service):
    """``rpc.interface.Methods`` compares the table with the interface when the manager is made."""
    manager = manager_of(service)
    assert callable(manager.start) and manager.__annotations__['methods'] in (Methods, 'Methods')


@pytest.mark.parametrize('protocol, interface', [(clients.Conductor, conductor_interface.INTERFACE),
                                                 (clients.Network, network_interface.INTERFACE)])
def test_calls_of_a_compute_protocol_match_rows_of_the_interface(protocol, interface):
    methods = dict(inspect.getmembers(protocol, inspect.isfunction))
    calls = {name: list(inspect.signature(function).parameters)[2:] for name, function in methods.items()
             if not name.startswith('_')}
    assert calls, protocol
    for name, arguments in calls.items():
        assert [each for each in arguments if each != 'server'] == list(interface.methods[name].arguments), name
