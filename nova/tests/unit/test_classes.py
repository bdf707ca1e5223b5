"""How large classes may be, and that features of drivers are what the contract says: ADR 0022."""
import importlib
import inspect
import pkgutil
import types

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
import nova
from nova import conf as configuration
from nova.virt import driver as contract
from nova.virt.fake import driver as fake
from nova.virt.ironic import driver as ironic
from nova.virt.libvirt import driver as libvirt
from nova.virt.libvirt.containers import driver as containers

METHODS, BASES = 40, 3
# Not imported: the green server needs a patched process, and the migrations have no classes.
LEFT_OUT = ('nova.tests', 'nova.db.migrations', 'nova.runtime.http.green')


def _modules():
    for found in pkgutil.walk_packages(nova.__path__, 'nova.'):
        if not found.name.startswith(LEFT_OUT):
            yield importlib.import_module(found.name)


def _classes():
    return [value for module in _modules() for value in vars(module).values()
            if inspect.isclass(value) and value.__module__ == module.__name__]


def _methods(cls):
    """Names of the methods and properties that our code defines for a class, those of its bases included."""
    found = set()
    for each in cls.__mro__:
        for name, value in vars(each).items():
            function = getattr(value, 'fget', None) or getattr(value, '__func__', value)
            if isinstance(function, types.FunctionType) and function.__module__.startswith('nova.'):
                found.add(name)
    return found


def test_no_class_is_large():
    large = {f'{cls.__module__}.{cls.__name__}': (len(_methods(cls)), len(cls.__bases__)) for cls in _classes()
             if len(_methods(cls)) > METHODS or len(cls.__bases__) > BASES}
    assert not large


@pytest.fixture(params=[libvirt.LibvirtDriver, containers.ContainerDriver, fake.FakeDriver, ironic.IronicDriver],
                ids=lambda cls: cls.__name__)
def driver(request, tmp_path):
    """A driver before init_host: it has all its features, and no hypervisor."""
    conf = configuration.new(files=[], state_path=str(tmp_path), libvirt__uid_maps=['0:100000:65536'],
                             libvirt__gid_maps=['0:100000:65536'])
    return request.param(conf, 'a-host', None)


def _parameters(function):
    """[(name, whether it has a default)] of the parameters that callers of the contract name or count."""
    return [(each.name, each.default is not each.empty) for each in inspect.signature(function).parameters.values()
            if each.name != 'self']


def test_registered_features_have_the_methods_of_the_contract(driver):
    assert driver.features
    for feature, implementation in driver.features.items():
        assert feature in contract.FEATURES
        for name, declared in vars(feature).items():
            if inspect.isfunction(declared) and not name.startswith('_'):
                made = getattr(implementation, name, None)
                assert made is not None, (feature, name)
                assert _parameters(made)[:len(_parameters(declared))] == _parameters(declared), (feature, name)


def test_features_inherit_nothing_of_the_driver(driver):
    for feature, implementation in driver.features.items():
        assert not isinstance(implementation, contract.ComputeDriver), feature
