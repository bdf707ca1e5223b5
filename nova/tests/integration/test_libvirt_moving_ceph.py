"""Servers with real guests on two hosts that share a pool of a real Ceph and no directory, as users ask over HTTP.

What is quick, the same without guests, is in test_ceph_disks.py.
"""
import base64
import json
import pathlib
import subprocess
import tempfile

import pytest

from nova import states
from nova.db.servers import instances
from nova.objects import disk_clients
from nova.tests import ceph as cephs
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.integration import moving
from nova.tests.integration import moving_cloud
from nova.tests.support import libvirt_ceph_disks as single

pytestmark = [moving.needed, long_runs.only]
ONE, TWO = 'compute1', 'compute2'
SECRET = single.SECRET
GIB = 1 << 30
OPTIONS = '''
[libvirt]
images_type = rbd
images_rbd_pool = {ceph.pool}
images_rbd_ceph_conf = {ceph.conf}
rbd_user = {ceph.user}
rbd_secret_uuid = {secret}
'''


class Fleet(moving_cloud.Fleet):
    """The hosts' own disks are in a Ceph at an address that all of them reach."""

    ceph: cephs.Ceph

    def begin(self, stack):
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix='nova-ceph-'))
        stack.callback(subprocess.run, [cephs.TOOL, 'stop', place], check=True)
        self.ceph = cephs.Ceph(pathlib.Path(place), self.cluster.settings.ADDRESS, '12G')
        super().begin(stack)

    def start(self, name, extra=''):
        self.give_secret(name)
        super().start(name, extra + OPTIONS.format(ceph=self.ceph, secret=SECRET))

    def give_secret(self, name):
        """As an operator does at each start of a libvirt: it is gone with that."""
        connection = moving.base.libvirt.open(self.cluster.hosts.uri(name))
        connection.secretDefineXML(f"<secret ephemeral='yes' private='yes'><uuid>{SECRET}</uuid>"
                                   "<usage type='ceph'><name>disks of guests</name></usage></secret>").setValue(
            base64.b64decode(self.ceph.key))
        connection.close()

    def disks(self, ident):
        return single.disks(self.ceph, type('Named', (), {'uuid': ident}))

    def recorded(self, ident):
        """The system metadata of a server."""
        with self.cloud.cell_db.reader() as conn:
            return instances.get(conn, ident)['system_metadata']

    def owner(self, ident):
        note = json.loads(self.ceph.rbd('image-meta', 'get', f'{ident}_record', 'nova'))
        return note['host'], note['successor']


@pytest.fixture(scope='module')
def fleet():
    reason = cephs.missing()
    if reason:
        pytest.skip(reason)
    with moving_cloud.fleet(kind=Fleet) as made:
        yield made
        made.restore()
        assert [name for name in made.ceph.images() if not name.startswith('image_')] == []


@pytest.fixture
def server(fleet):
    """One that runs on the first host and has something to remember."""
    made = fleet.boot(ONE, config_drive=True)['id']
    fleet.keep(ONE, made)
    yield made
    fleet.restore()
    assert fleet.disks(made) == []


def test_a_guest_runs_on_where_its_disks_are_seen_as_well(fleet, server):
    before = fleet.disks(server)
    assert before == ['disk', 'disk.config'] and fleet.owner(server) == (ONE, None)
    fleet.migrate_live(server, TWO)
    fleet.migrated(server)
    fleet.settled_at(TWO, server)
    fleet.remembers(TWO, server)
    assert fleet.disks(server) == before and fleet.owner(server) == (TWO, None)


def size(fleet, ident):
    return json.loads(fleet.ceph.rbd('info', '--format', 'json', f'{ident}_disk'))['size']


def test_a_migration_that_is_broken_off_leaves_the_guest_and_its_disks(fleet, server):
    with fleet.slow(ONE):
        fleet.migrate_live(server, TWO)
        ident = fleet.running(server)
        waiting.wait_for(lambda: fleet.owner(server) == (ONE, TWO), 20, 'the pool to know who gets the disks')
        assert fleet.admin.delete(f'/servers/{server}/migrations/{ident}').status_code == 202
        fleet.migrated(server, 'cancelled')
    fleet.settled_at(ONE, server)
    fleet.remembers(ONE, server)
    assert fleet.owner(server) == (ONE, None) and fleet.disks(server) == ['disk', 'disk.config']


def test_resize_to_another_host_can_be_reverted_and_confirmed(fleet, server):
    made = fleet.admin.post('/flavors', {'flavor': {'name': 'grown', 'id': 'grown', 'vcpus': 1, 'ram': 128, 'disk': 2,
                                                    'OS-FLV-EXT-DATA:ephemeral': 1, 'swap': 8}}, version='2.1')
    assert made.status_code in (200, 409), made.text
    for end in ('revertResize', 'confirmResize'):
        fleet.act(server, 'resize', {'flavorRef': 'grown'})
        fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
        fleet.settled_at(TWO, server, kept=[ONE])
        fleet.booted_on(TWO, server)
        fleet.remembers(TWO, server, memory=False)
        assert fleet.disks(server) == ['disk', 'disk.config', 'disk.ephemeral0', 'disk.swap']
        assert fleet.owner(server) == (TWO, None) and size(fleet, server) == 2 * GIB
        fleet.tell(TWO, server, f'echo lost-{end} >/root/kept; sync; echo {end}-$((40+2))', f'{end}-42')
        if end == 'revertResize':
            fleet.act(server, end)
            fleet.migrated(server, 'reverted')
            fleet.settled_at(ONE, server)
            fleet.booted_on(ONE, server)
            fleet.remembers(ONE, server, memory=False)
            assert fleet.disks(server) == ['disk', 'disk.config'] and size(fleet, server) == GIB
            assert fleet.owner(server) == (ONE, None)
    fleet.act(server, 'confirmResize', code=204)
    fleet.migrated(server, 'confirmed')
    fleet.settled_at(TWO, server)
    assert fleet.ceph.rbd('snap', 'ls', f'{server}_disk') == '' and size(fleet, server) == 2 * GIB


def test_server_deleted_before_a_migration_is_confirmed_leaves_nothing(fleet, server):
    fleet.act(server, 'migrate', {'host': TWO})
    fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
    fleet.settled_at(TWO, server, kept=[ONE])
    fleet.booted_on(TWO, server)
    fleet.remembers(TWO, server, memory=False)
    fleet.delete(server)
    assert fleet.disks(server) == []


def test_an_evacuation_finds_the_disk_and_the_dead_host_takes_nothing(fleet, server):
    data = fleet.admin.post('/volume/v3/volumes', {'volume': {'name': 'data', 'size': 1}}).json()['volume']['id']
    path = f'/volume/v3/volumes/{data}'

    def is_now(status):
        waiting.wait_for(lambda: fleet.admin.get(path).json()['volume']['status'] == status, 60, f'it to be {status}')
    is_now('available')
    answer = fleet.admin.post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': data}})
    assert answer.status_code == 200, answer.text
    is_now('in-use')
    fleet.tell(ONE, server, '[ -b /dev/vdc ] && echo data-$((40+2)) >/dev/vdc; sync; head -n1 /dev/vdc', 'data-42')
    known = disk_clients.read(fleet.recorded(server))
    assert known.host == ONE and list(known.images) == [f'{fleet.ceph.pool}/{server}_disk']
    fleet.switch_off(ONE)
    fleet.evacuate(server, TWO)
    after = disk_clients.read(fleet.recorded(server))
    assert after.host == TWO and not {*known.images.popitem()[1]} & {*after.images.popitem()[1]}
    fleet.booted_on(TWO, server)
    fleet.remembers(TWO, server, memory=False)
    fleet.tell(TWO, server, 'head -n1 /dev/vdc', 'data-42')
    assert fleet.owner(server) == (TWO, None) and fleet.exported() == {TWO: 1}
    fleet.switch_on(ONE)
    fleet.migrated(server)
    fleet.settled_at(TWO, server)
    fleet.act(server, 'os-stop')
    fleet.user_server(server, 'SHUTOFF')
    fleet.settled_at(TWO, server, states.SHUTDOWN)
    assert fleet.disks(server) == ['disk', 'disk.config']
