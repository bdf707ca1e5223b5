"""Debian's cloud-init, unpacked beside the tests: the configuration that it writes from the documents of a guest."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest

PYTHON = '/usr/bin/python3'          # of the distribution, for which its packages are made
RENDERERS = {'netplan': 'etc/netplan/*.yaml', 'networkd': 'etc/systemd/network/*.network',
             'eni': 'etc/network/interfaces*'}
_RENDER = '''
import importlib, json, os, sys
from cloudinit.net import network_state
from cloudinit.sources.helpers import openstack
given, root, name = json.load(sys.stdin), sys.argv[1], sys.argv[2]
openstack.net.get_ib_hwaddrs_by_interface = dict
config = openstack.convert_net_json(given['document'], known_macs=given['names'])
state = network_state.parse_net_config_data(config)
module = importlib.import_module('cloudinit.net.' + name)
options = {'netplan_path': 'etc/netplan/50.yaml', 'postcmds': False} if name == 'netplan' else {}
module.Renderer(options).render_network_state(state, target=root)
'''


def unpacked(directory: pathlib.Path) -> pathlib.Path:
    """The Python modules of cloud-init and of what it needs; the test is skipped where they cannot be had."""
    if not os.path.exists(PYTHON) or shutil.which('apt-get') is None:
        pytest.skip('not Debian: cloud-init is taken from its packages')
    shown = subprocess.run(['apt-cache', 'depends', 'cloud-init'], capture_output=True, text=True)
    packages = ['cloud-init', *re.findall(r'Depends: (python3-[a-z0-9]+)', shown.stdout), 'python3-json-pointer',
                'python3-markupsafe']
    fetched = subprocess.run(['apt-get', '-o', 'APT::Sandbox::User=root', '-qq', 'download', *packages], cwd=directory,
                             capture_output=True, text=True)
    if fetched.returncode:
        pytest.skip(f'cloud-init cannot be downloaded: {fetched.stderr.strip()[-200:]}')
    for package in directory.glob('*.deb'):
        subprocess.run(['dpkg-deb', '-x', package, directory / 'root'], check=True)
    return directory / 'root' / 'usr' / 'lib' / 'python3' / 'dist-packages'


def written(modules: pathlib.Path, target: pathlib.Path, renderer: str, document: dict[str, Any],
            names: dict[str, str]) -> str:
    """The configuration that cloud-init writes from a network_data.json.

    :param names: {MAC address: name of the guest's interface}
    """
    subprocess.run([PYTHON, '-c', _RENDER, target, renderer], check=True, text=True, env={'PYTHONPATH': str(modules)},
                   input=json.dumps({'document': document, 'names': names}))
    return '\n'.join(path.read_text() for path in sorted(target.glob(RENDERERS[renderer])))
