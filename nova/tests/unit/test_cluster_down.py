"""What tools/cluster.sh ends besides the parts of the fleet."""
import pathlib
import subprocess
import sys

import nova

TOOLS = pathlib.Path(nova.__file__).parents[1] / 'tools'
SLEEPS = ('-c', 'import time; time.sleep(120)')


def test_dhcp_servers_of_the_fleet_end_with_it(tmp_path, monkeypatch):
    """Those in the namespaces of networks and routers outlived ``down --purge``."""
    monkeypatch.setenv('NOVA_CLUSTER_DIR', str(tmp_path / 'fleet'))
    monkeypatch.syspath_prepend(str(TOOLS))
    for name in [name for name in sys.modules if name.partition('.')[0] == 'cluster']:
        monkeypatch.delitem(sys.modules, name)
    from cluster import hosts

    def server(directory, program='dnsmasq'):
        return subprocess.Popen([program, *SLEEPS, f'--pid-file={directory}/networks/1/pid'], executable=sys.executable)
    own, other_fleets, other = server(tmp_path / 'fleet'), server(tmp_path / 'fleet2'), server(tmp_path / 'fleet', 'x')
    try:
        hosts.end_dhcp_servers()
        assert own.wait(10) != 0
        assert other_fleets.poll() is None and other.poll() is None
    finally:
        for each in (own, other_fleets, other):
            each.kill()
            each.wait()
