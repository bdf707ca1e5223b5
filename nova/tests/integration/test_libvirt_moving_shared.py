"""Servers with real guests on three hosts that share the directory of guests, as their users ask over HTTP."""
import pytest

from nova import states
from nova.tests import long_runs
from nova.tests.integration import moving
from nova.tests.integration import moving_cloud

pytestmark = moving.needed
ONE, TWO, THREE = 'compute1', 'compute2', 'compute3'


@pytest.fixture(scope='module')
def fleet():
    with moving_cloud.fleet(3, share='shared') as made:
        yield made
        made.restore()


@long_runs.only
def test_the_disk_stays_and_the_guest_goes_round(fleet):
    server = fleet.boot(ONE, config_drive=True)['id']
    fleet.keep(ONE, server)
    disk = fleet.places[ONE] / 'instances' / server / 'disk'
    with open(disk, 'rb') as before:                     # its number is not used again
        for name in (TWO, THREE):
            fleet.migrate_live(server, name)
            fleet.migrated(server)
            fleet.settled_at(name, server)
            fleet.remembers(name, server)
        fleet.act(server, 'migrate', {'host': ONE})
        fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
        fleet.settled_at(ONE, server)
        fleet.act(server, 'revertResize')
        fleet.migrated(server, 'reverted')
        fleet.settled_at(THREE, server)
        assert moving.os.path.sameopenfile(before.fileno(), open(disk, 'rb').fileno())
        fleet.booted_on(THREE, server)
        # evacuated with its disk, while its host is off; nobody has two guests when that is back
        fleet.switch_off(THREE)
        fleet.evacuate(server, TWO)
        assert fleet.admin.get(f'/servers/{server}').json()['server']['OS-EXT-SRV-ATTR:host'] == THREE    # no fence
        fleet.evacuate(server, TWO, accepted_risk='two-writers')
        assert moving.os.path.sameopenfile(before.fileno(), open(disk, 'rb').fileno())
    fleet.booted_on(TWO, server)
    fleet.remembers(TWO, server, memory=False)
    fleet.switch_on(THREE)
    fleet.migrated(server)
    fleet.settled_at(TWO, server)
    fleet.act(server, 'os-stop')
    fleet.user_server(server, 'SHUTOFF')
    fleet.settled_at(TWO, server, states.SHUTDOWN)
    assert disk.exists()
