"""What tools/cluster.sh ends besides the parts of the fleet."""
import pathlib
import subprocess
import sys

import pytest

import nova

TOOLS = pathlib.Path(nova.__file__).parents[1] / 'tools'
SLEEPS = ('-c', 'import time; time.sleep(120)')


@pytest.fixture
def fleet_directory(tmp_path, monkeypatch):
    """The directory of the fleet for modules of tools/cluster that a test imports."""
    monkeypatch.setenv('NOVA_CLUSTER_DIR', str(tmp_path / 'fleet'))
    monkeypatch.syspath_prepend(str(TOOLS))
    for name in [name for name in sys.modules if name.partition('.')[0] == 'cluster']:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / 'fleet'


def test_data_of_a_directory_without_a_fleet_stay(fleet_directory):
    """A wrong NOVA_CLUSTER_DIR was emptied."""
    from cluster import __main__ as command
    from cluster import settings
    for name in ('openstack', 'mariadb'):
        (fleet_directory / name).mkdir(parents=True)
    with pytest.raises(SystemExit, match='no fleet.json: no data are removed'):
        command._purge(settings.load())
    assert {path.name for path in fleet_directory.iterdir()} == {'openstack', 'mariadb'}
    command._purge(settings.save('mariadb', 1))
    assert [path.name for path in fleet_directory.iterdir()] == ['openstack']


def test_dhcp_servers_of_the_fleet_end_with_it(tmp_path, fleet_directory):
    """Those in the namespaces of networks and routers outlived ``down --purge``."""
    from cluster import hosts

    def server(directory, program='dnsmasq'):
        return subprocess.Popen([program, *SLEEPS, f'--pid-file={directory}/networks/1/pid'], executable=sys.executable)
    own, other_fleets, other = server(fleet_directory), server(tmp_path / 'fleet2'), server(fleet_directory, 'x')
    try:
        hosts.end_dhcp_servers()
        assert own.wait(10) != 0
        assert other_fleets.poll() is None and other.poll() is None
    finally:
        for each in (own, other_fleets, other):
            each.kill()
            each.wait()
