#!/usr/bin/env python3
"""Run tests with the oldest or the newest versions of all dependencies that the requirements allow.

usage: tools/proofs/dependencies.py oldest|newest [--keep DIRECTORY] [paths or arguments of pytest]

``oldest`` installs the lower bound of each requirement of requirements.txt and setup.cfg; it needs uv. ``newest``
installs what a fresh installation chooses. The virtual environment is created in TMPDIR, or in DIRECTORY, which is used
again. The default tests are nova/tests/unit and nova/tests/contract.

Prints the installed version of each requirement and what pytest prints. The exit code is that of pytest; 3 means that
the requirements, or their lower bounds, cannot be installed together.
"""
from __future__ import annotations

import argparse
import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / 'tools'))

import packages

EXTRAS = ('libvirt', 'memcache', 'mysql', 'objectstore', 'postgresql', 'screenshots', 'test')
TESTS = ('nova/tests/unit', 'nova/tests/contract')
COPIED = ('nova', 'etc', 'tools', 'setup.py', 'setup.cfg', 'requirements.txt', 'README.rst')
CANNOT_INSTALL = 3
BOUND = re.compile(r'([A-Za-z0-9._-]+)>=([0-9][A-Za-z0-9.]*)')


def requirements(tree: pathlib.Path) -> dict[str, str]:
    """Return {distribution: lower bound} of the requirements and of the extras that tests need.

    :raises ValueError: a requirement has no lower bound
    """
    setup = configparser.ConfigParser()
    setup.read(tree / 'setup.cfg')
    extras = '\n'.join(setup['options.extras_require'][name] for name in EXTRAS)
    found: dict[str, str] = {}
    for line in f'{(tree / "requirements.txt").read_text()}\n{extras}'.splitlines():
        if not line.strip():
            continue
        match = BOUND.fullmatch(line.strip())
        if match is None:
            raise ValueError(f'{line.strip()} has no lower bound')
        if found.setdefault(match[1], match[2]) != match[2]:
            raise ValueError(f'{match[1]} has two lower bounds')
    return found


def install(directory: pathlib.Path, oldest: bool) -> None:
    """Create the virtual environment.

    :raises subprocess.CalledProcessError: there is no set of versions that fits
    """
    with tempfile.TemporaryDirectory() as scratch:
        for name in COPIED:
            copy = shutil.copytree if (TREE / name).is_dir() else shutil.copy
            copy(TREE / name, pathlib.Path(scratch, name))
        os.environ['UV_RESOLUTION'] = 'lowest-direct' if oldest else 'highest'
        packages.install(directory, [f'{scratch}[{",".join(EXTRAS)}]'])


def versions(directory: pathlib.Path) -> dict[str, str]:
    """Return {distribution: installed version} of the requirements."""
    script = ('import importlib.metadata as m, sys\n'
              'for name in sys.argv[1:]: print(name, m.version(name))')
    done = subprocess.run([directory / 'bin' / 'python', '-c', script, *requirements(TREE)], check=True,
                          capture_output=True, text=True)
    return dict(line.split() for line in done.stdout.splitlines())


def wrong_bounds(installed: dict[str, str]) -> list[str]:
    """Return the requirements whose lower bound cannot be installed together with the others."""
    return [f'{name}>={bound} was not installed, but {installed[name]}: raise the bound'
            for name, bound in requirements(TREE).items()
            if _numbers(installed[name]) != _numbers(bound)]


def _numbers(version: str) -> list[str]:
    """Return the parts of a version without zeros at the end: 1.18 and 1.18.0 are equal."""
    parts = version.split('.')
    while parts and parts[-1] == '0':
        parts.pop()
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('bound', choices=('oldest', 'newest'))
    parser.add_argument('--keep', metavar='DIRECTORY', type=pathlib.Path,
                        help='directory of the environment, which stays and is used again')
    given, arguments = parser.parse_known_args()
    directory = given.keep or pathlib.Path(tempfile.mkdtemp(prefix=f'dependencies-{given.bound}-'))
    try:
        if not (directory / 'installed').exists():
            try:
                install(directory, given.bound == 'oldest')
            except subprocess.CalledProcessError:
                return CANNOT_INSTALL
            (directory / 'installed').touch()
        for name, version in versions(directory).items():
            print(f'{name:28} {version}', flush=True)
        if given.bound == 'oldest' and (wrong := wrong_bounds(versions(directory))):
            print('\n'.join(wrong))
            return CANNOT_INSTALL
        environ = {**os.environ, 'PYTHONPATH': str(TREE), 'NOVA_VENV': str(directory),
                   'PATH': f'{directory / "bin"}:{os.environ["PATH"]}'}
        return subprocess.run([directory / 'bin' / 'python', '-m', 'pytest', '-q', *(arguments or TESTS)], cwd=TREE,
                              env=environ).returncode
    finally:
        if given.keep is None:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
