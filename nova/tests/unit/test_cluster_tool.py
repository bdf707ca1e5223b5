"""Configuration that tools/cluster.sh writes."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from nova import conf as configuration

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
PROGRAM = """
import json, sys
from cluster import parts, prepare, settings
fleet = settings.save('mariadb', 2, libvirt=int(sys.argv[1]))
prepare.nova(fleet)
parts.program = lambda name: name
print(json.dumps({part.name: part.address for part in parts.nova(fleet)}))
"""

DIRECT = """
import json, os, urllib.request
import requests
from cluster import settings
os.environ.update(settings.direct(os.environ))
print(json.dumps([bool(urllib.request.proxy_bypass(settings.ADDRESS)), *(
    requests.utils.should_bypass_proxies(f'http://{host}:8774/', None)
    for host in (settings.ADDRESS, settings.compute_address(1), '192.0.2.1', 'mirror.example'))]))
"""


@pytest.fixture
def prepared(tmp_path):
    """function(computes with libvirt) -> ({part: address}, function(part) -> its configuration)"""
    def prepare(libvirt):
        done = subprocess.run([sys.executable, '-c', PROGRAM, str(libvirt)], check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, 'NOVA_CLUSTER_DIR': str(tmp_path),
                                                           'PYTHONPATH': str(TOOLS)})
        return json.loads(done.stdout), lambda part: configuration.new(files=[str(tmp_path / 'nova' / f'{part}.conf')])
    return prepare


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
@pytest.mark.parametrize('words, code', [(['status'], 0), ([], 2)])
def test_command_leaves_no_log(tmp_path, words, code):
    (tmp_path / 'venv/bin').mkdir(parents=True)
    (tmp_path / 'venv/bin/python').symlink_to('/bin/true')
    (tmp_path / 'logs').mkdir()
    done = subprocess.run([TOOLS / 'cluster.sh', *words], capture_output=True, env={
        **os.environ, 'NOVA_VENV': str(tmp_path / 'venv'), 'TMPDIR': str(tmp_path / 'logs')})
    assert (done.returncode, list((tmp_path / 'logs').iterdir())) == (code, [])


def test_urls_of_consoles_name_a_proxy_of_the_fleet(prepared):
    """They were 127.0.0.1:6080, where nothing listens."""
    addresses, conf_of = prepared(1)
    api, screen, serial = conf_of('api1'), conf_of('novncproxy'), conf_of('serialproxy')
    assert api.vnc.novncproxy_base_url == f'http://{addresses["novncproxy"]}/vnc_auto.html'
    assert api.serial_console.base_url == f'ws://{addresses["serialproxy"]}/'
    assert f'{screen.vnc.novncproxy_host}:{screen.vnc.novncproxy_port}' == addresses['novncproxy']
    assert (f'{serial.serial_console.serialproxy_host}:{serial.serial_console.serialproxy_port}'
            == addresses['serialproxy'])
    compute = conf_of('compute1')
    assert compute.vnc.server_listen == compute.serial_console.server_listen == addresses['compute1'] != '127.0.0.1'


@pytest.mark.parametrize('kept', ['', 'mirror.example'])
def test_requests_to_the_fleet_bypass_a_proxy_of_the_environment(tmp_path, kept):
    """Keystone was asked through it."""
    done = subprocess.run(
        [sys.executable, '-c', DIRECT], capture_output=True, text=True, check=True,
        env={'PATH': os.environ['PATH'], 'http_proxy': 'http://proxy.example:3128', 'NO_PROXY': kept,
             'NOVA_CLUSTER_DIR': str(tmp_path), 'PYTHONPATH': str(TOOLS)})
    assert json.loads(done.stdout) == [True, True, True, False, bool(kept)]


def test_fleet_without_real_guests_has_no_console_urls(prepared):
    addresses, conf_of = prepared(0)
    assert 'novncproxy' not in addresses and conf_of('api1').vnc.novncproxy_base_url == ''
