"""How large classes may be, and what features of drivers may use: ADR 0075."""
import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
import types

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
import nova
from nova.virt import driver as contract
from nova.virt.fake import driver as fake
from nova.virt.ironic import driver as ironic
from nova.virt.libvirt import driver as libvirt
from nova.virt.libvirt.containers import driver as containers

METHODS, BASES = 40, 3
DRIVERS = (libvirt.LibvirtDriver, containers.ContainerDriver, fake.FakeDriver, ironic.IronicDriver)
# Not imported: the green server needs a patched process, and the migrations have no classes.
LEFT_OUT = ('nova.tests', 'nova.db.migrations', 'nova.runtime.http.green')


def _modules():
    for found in pkgutil.walk_packages(nova.__path__, 'nova.'):
        if not found.name.startswith(LEFT_OUT):
            yield importlib.import_module(found.name)


def _classes():
    return [value for module in _modules() for value in vars(module).values()
            if inspect.isclass(value) and value.__module__ == module.__name__]


def _ours(cls):
    return [each for each in cls.__mro__ if each.__module__.startswith('nova.')]


def _methods(cls):
    """Names of the methods and properties that our code defines for a class; none that a library generates."""
    found = set()
    for each in _ours(cls):
        for name, value in vars(each).items():
            function = getattr(value, 'fget', None) or getattr(value, '__func__', value)
            if isinstance(function, types.FunctionType) and function.__module__.startswith('nova.'):
                found.add(name)
    return found


def test_no_class_is_large():
    """Drivers inherit a contract and its features; the tests below say what these may be."""
    large = {f'{cls.__module__}.{cls.__name__}': (len(_methods(cls)), len(cls.__bases__)) for cls in _classes()
             if not issubclass(cls, contract.ComputeDriver) and not issubclass(cls, contract.FEATURES)
             and (len(_methods(cls)) > METHODS or len(cls.__bases__) > BASES)}
    assert not large


def _features(driver):
    return [each for each in _ours(driver)[1:] if each is not contract.ComputeDriver and each not in contract.FEATURES]


@functools.cache
def _attributes(cls):
    """The uses of attributes of ``self`` in the source of a class."""
    return [node for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls))))
            if isinstance(node, ast.Attribute) and getattr(node.value, 'id', '') == 'self']


@functools.cache
def _stored(cls):
    """The names that a class, or one above it, gives to ``self``."""
    return {node.attr for each in _ours(cls) for node in _attributes(each) if isinstance(node.ctx, ast.Store)}


@pytest.mark.parametrize('driver', DRIVERS, ids=lambda driver: driver.__name__)
def test_a_feature_uses_what_it_defines_or_declares(driver):
    """A mixin has an annotation for each attribute of the driver, or of another mixin, that it uses."""
    for feature in _features(driver):
        known = _stored(feature).union(*(vars(each) | inspect.get_annotations(each) for each in _ours(feature)))
        assert not {node.attr for node in _attributes(feature)} - known, feature


@pytest.mark.parametrize('driver', DRIVERS, ids=lambda driver: driver.__name__)
def test_a_feature_declares_public_attributes_that_the_driver_has(driver):
    """What is private stays with the class that defines it: features get such functions as Hands."""
    for feature in _features(driver):
        declared = {name for name in inspect.get_annotations(feature) if name not in vars(feature)}
        assert not [name for name in declared if name.startswith('_')], feature
        assert not [name for name in declared if not hasattr(driver, name) and name not in _stored(driver)], feature


@pytest.mark.parametrize('driver', DRIVERS, ids=lambda driver: driver.__name__)
def test_no_two_features_define_one_name(driver):
    """The order of the bases decides nothing: only a class above defines what one below it defines again."""
    places = {}
    for each in _ours(driver)[1:]:
        for name, value in vars(each).items():
            if isinstance(value, (types.FunctionType, property, staticmethod, classmethod)):
                places.setdefault(name, []).append(each)
    for name, owners in places.items():
        first = owners[0]
        assert all(issubclass(first, each) or each in contract.FEATURES for each in owners), (name, owners)
