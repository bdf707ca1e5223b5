"""The units of etc/systemd: one a daemon, valid, and closed as far as what it does allows."""
import configparser
import pathlib
import re
import shutil
import subprocess

import pytest
from nova.tests.support.systemd import DAEMONS


TREE = pathlib.Path(__file__).resolve().parents[3]
UNITS = TREE / 'etc' / 'systemd'
GUESTS = {'nova-network', 'nova-compute', 'nova-all'}          # they begin as root
# bubblewrap calls openat2(2), which RestrictSUIDSGID= refuses
SANDBOXES = {'nova-volume', 'nova-compute', 'nova-all'}
OUTLIVED = {'nova-network', 'nova-all', 'nova-volume'}         # what they have started goes on: DHCP servers, exports

pytestmark = pytest.mark.skipif(not UNITS.exists(), reason='units are not part of an installed nova')


class _Unit(configparser.RawConfigParser):
    def __init__(self, path):
        super().__init__(strict=False)
        self.optionxform = str
        self.read(path)


def test_every_daemon_has_a_unit():
    assert {path.stem for path in UNITS.glob('*.service')} == set(DAEMONS)
    setup = _Unit(TREE / 'setup.cfg')
    scripts = dict(line.split(' = ') for line in setup['options.entry_points']['console_scripts'].split('\n') if line)
    assert set(DAEMONS) <= set(scripts)


@pytest.mark.parametrize('name', DAEMONS)
def test_a_unit_says_what_a_daemon_needs(name):
    service = _Unit(UNITS / f'{name}.service')['Service']
    assert service['ExecStart'].split()[-1] == name
    wanted = {'Type': 'notify', 'WatchdogSec': '60', 'NoNewPrivileges': 'true', 'ProtectSystem': 'strict',
              'Restart': 'on-failure', 'UMask': '0077', 'ProtectHome': 'true',
              'RestrictSUIDSGID': None if name in SANDBOXES else 'true',
              'ProtectKernelModules': 'true'}
    assert {key: service.get(key) for key in wanted} == wanted
    # A unit's StateDirectory= gives all that is there to its user: systemd.exec(5).
    assert service.get('StateDirectory') == (None if name in GUESTS else 'nova')
    assert name not in GUESTS or service['ReadWritePaths'].split()[:2] == ['/var/lib/nova', '/var/log/nova']
    assert service.get('KillMode', 'control-group') == ('process' if name in OUTLIVED else 'control-group')
    assert service.get('User', 'root') == ('root' if name in GUESTS else 'nova')


@pytest.mark.skipif(not shutil.which('systemd-analyze'), reason='systemd-analyze is not installed')
@pytest.mark.parametrize('name', DAEMONS)
def test_systemd_finds_nothing_wrong_and_little_open(name, tmp_path):
    unit = tmp_path / f'{name}.service'
    shutil.copy(UNITS / unit.name, unit)
    done = subprocess.run(['systemd-analyze', 'verify', '--man=no', unit], capture_output=True, text=True)
    if 'Failed to' in done.stderr and done.returncode:
        pytest.skip(done.stderr.strip())                       # there is no place for it to run here
    assert (done.returncode, done.stderr) == (0, '')
    done = subprocess.run(['systemd-analyze', 'security', '--offline=true', unit], capture_output=True, text=True)
    found = re.search(r'Overall exposure level for \S+: ([\d.]+)', done.stdout)
    assert found and float(found[1]) <= DAEMONS[name], done.stdout


def test_files_with_passwords_are_for_root_and_the_daemons():
    lines = [line.split() for line in (UNITS / 'nova.tmpfiles').read_text().splitlines() if line and line[0] != '#']
    modes = {line[1]: line[2:5] for line in lines}
    assert modes['/etc/nova'] == ['0750', 'root', 'nova'] and modes['/etc/nova/nova.conf'] == ['0640', 'root', 'nova']
    assert (UNITS / 'nova.sysusers').read_text().splitlines()[1].split()[:2] == ['u', 'nova']
