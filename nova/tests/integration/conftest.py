"""Which integration tests may run side by side: files may, but for those that share the one libvirt of this machine, or
its bridges and packet filter.
"""
import pathlib

import pytest

ON_THE_HOST = ('test_clients', 'test_crash', 'test_libvirt', 'test_libvirt_numa', 'test_libvirt_pci',
               'test_libvirt_resize', 'test_network_linux')


@pytest.hookimpl(tryfirst=True)           # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """pytest-xdist's ``--dist loadgroup`` gives all tests of a group to one process, in their order."""
    for item in items:
        name = pathlib.Path(item.path).stem
        item.add_marker(pytest.mark.xdist_group('host' if name in ON_THE_HOST else name))
