"""The finder of the distribution's libvirt module."""
import importlib.machinery
import sys

import pytest

from nova.cloud import drivers
from nova.runtime import system_modules


def test_module_of_the_distribution_is_found_without_the_packages_beside_it(tmp_path):
    for name in ('libvirt', 'libvirtmod', 'other'):
        (tmp_path / f'{name}.py').touch()
    finder = system_modules.Finder(str(tmp_path))
    spec = finder.find_spec('libvirt', None)
    assert spec.origin == str(tmp_path / 'libvirt.py')
    assert finder.find_spec('other', None) is None


def test_missing_module_names_the_command_that_installs_it(tmp_path):
    with pytest.raises(ModuleNotFoundError) as error:
        system_modules.Finder(str(tmp_path / 'none')).find_spec('libvirt', None)
    assert str(error.value) == "No module named 'libvirt': run apt install python3-libvirt"
    assert error.value.name == 'libvirt'


def test_module_of_another_python_names_the_python_to_use(tmp_path):
    (tmp_path / 'libvirt.py').touch()
    (tmp_path / 'libvirtmod.cpython-30-x86_64-linux-gnu.so').touch()
    with pytest.raises(ModuleNotFoundError, match='create the environment with /usr/bin/python3'):
        system_modules.Finder(str(tmp_path)).find_spec('libvirt', None)


def test_all_in_one_prints_why_libvirt_is_not_usable(tmp_path, monkeypatch):
    monkeypatch.setattr(drivers.os, 'geteuid', lambda: 0)
    monkeypatch.delitem(sys.modules, 'libvirt', raising=False)
    monkeypatch.setattr(sys, 'meta_path', [importlib.machinery.BuiltinImporter,
                                           system_modules.Finder(str(tmp_path))])
    assert drivers.unusable(None) == "No module named 'libvirt': run apt install python3-libvirt."


def test_finder_is_added_once(monkeypatch):
    monkeypatch.setattr(sys, 'meta_path', [*sys.meta_path])
    system_modules.use()
    system_modules.use()
    assert sum(isinstance(finder, system_modules.Finder) for finder in sys.meta_path) == 1
