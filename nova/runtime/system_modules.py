"""Load the distribution's libvirt module in a virtual environment without access to the system's packages.

PyPI has this module only as source, which needs a compiler. Debian builds the module for Debian's Python, and a virtual
environment of the same Python version can load it. Other packages in the same directory stay invisible.
"""
from collections.abc import Sequence
import importlib.abc
import importlib.machinery
import os
import sys
import types

DIRECTORY = '/usr/lib/python3/dist-packages'
# {module: compiled module that it needs}
NEEDS = {'libvirt': 'libvirtmod', 'libvirt_lxc': 'libvirtmod_lxc', 'libvirt_qemu': 'libvirtmod_qemu',
         'libvirtmod': 'libvirtmod', 'libvirtmod_lxc': 'libvirtmod_lxc', 'libvirtmod_qemu': 'libvirtmod_qemu'}


class Finder(importlib.abc.MetaPathFinder):
    """Import finder for the modules in NEEDS. It is the last finder, so modules of the environment have precedence.

    :param directory: directory of the distribution's modules
    """

    def __init__(self, directory: str = DIRECTORY) -> None:
        self._directory = directory

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None,
                  ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module in NEEDS, or None for other modules.

        :raises ModuleNotFoundError: the module is missing; the text names the command that installs it
        """
        compiled = NEEDS.get(fullname)
        if compiled is None:
            return None
        if importlib.machinery.PathFinder.find_spec(compiled, [self._directory]) is not None:
            return importlib.machinery.PathFinder.find_spec(fullname, [self._directory])
        raise ModuleNotFoundError(f"No module named '{fullname}': {self._remedy(compiled)}", name=fullname)

    def _remedy(self, compiled: str) -> str:
        installed = os.path.isdir(self._directory) and any(
            file.partition('.')[0] == compiled for file in os.listdir(self._directory))
        if installed:
            return (f'the one in {self._directory} is not built for Python {sys.version_info[0]}.{sys.version_info[1]} '
                    'of this environment; create the environment with /usr/bin/python3')
        return 'run apt install python3-libvirt'


def use() -> None:
    """Let this process import the libvirt modules of the distribution. Modules of the environment have precedence."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
