"""Volumes of Cinder on Ceph in a fleet, by the commands of its users: nothing is lost on the way from host to host.

NOVA_TEST_CEPH_FLEET names the directory of a fleet that runs, made by
``NOVA_CLUSTER_DIR=… tools/cluster.sh up --ceph --libvirt 2 --computes 2``.
"""
import json
import os
import pathlib
import re
import sys
import types
import uuid

import pytest

from nova.tests.support import waiting
from nova.tests import warm_client

FLEET = os.environ.get('NOVA_TEST_CEPH_FLEET')
pytestmark = pytest.mark.skipif(not FLEET or os.geteuid() != 0,
                                reason='needs root, and a fleet that NOVA_TEST_CEPH_FLEET names')
TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
BIN = pathlib.Path(sys.executable).parent
HOSTS = ('compute1', 'compute2')


@pytest.fixture(scope='module')
def fleet():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('NOVA_CLUSTER_DIR', FLEET)
        patch.syspath_prepend(str(TOOLS))
        from cluster import ceph
        from cluster import hosts
        from cluster import parts
        from cluster import settings
        made = settings.load()
        if not made.ceph or len(made.libvirt_names) < 2:
            pytest.skip('the fleet has no Ceph, or not two computes with libvirt')
        yield types.SimpleNamespace(settings=settings, hosts=hosts, ceph=ceph, passwords=made.passwords,
                                    parts={part.name: part for part in parts.all_of(made)})


@pytest.fixture(scope='module')
def openstack(fleet):
    environ = {'PATH': f'{BIN}:{os.environ["PATH"]}', 'HOME': FLEET, 'LANG': 'C.UTF-8', 'OS_USERNAME': 'admin',
               'OS_AUTH_URL': fleet.settings.url('keystone', '/v3'), 'OS_PROJECT_NAME': 'admin',
               'OS_PASSWORD': fleet.passwords['admin'], 'OS_USER_DOMAIN_NAME': 'Default',
               'OS_PROJECT_DOMAIN_NAME': 'Default', 'OS_VOLUME_API_VERSION': '3.66'}

    def openstack(command):
        ended, printed = warm_client.client().run(command.split(), environ)
        assert ended == 0, f'openstack {command}:\n{printed}'
        return printed.strip()
    return openstack


def becomes(openstack, kind, name, status):
    def now():
        found = openstack(f'{kind} show {name} -c status -f value')
        assert found == status or 'error' not in found.lower(), f'{name} is {found}'
        return found == status
    waiting.wait_for(now, 90, f'{name} to be {status}', 0.5)


def gone(openstack, volume):
    def now():
        rows = json.loads(openstack('volume list -f json'))
        found = [each['Status'] for each in rows if volume in (each['ID'], each['Name'])]
        assert 'error' not in str(found), found
        return not found
    waiting.wait_for(now, 90, f'{volume} to go', 0.5)


def booted(openstack, server):
    waiting.wait_for(lambda: 'guest ready:' in openstack(f'console log show {server}'), 180, 'the guest', 2)


def test_a_guest_keeps_its_volumes_from_host_to_host(fleet, openstack):
    name = 'test-' + uuid.uuid4().hex[:8]
    data, snap, copy, other_root = f'{name}-data', f'{name}-snap', f'{name}-copy', f'{name}-image'
    openstack(f'server create --flavor real.nano --image guest --boot-from-volume 1 --nic none --wait {name}')
    shown = json.loads(openstack(f'server show {name} -f json'))
    server, (root,) = shown['id'], [each['id'] for each in shown['volumes_attached']]
    # a clone of the image that Glance has in Ceph: nobody has copied it
    openstack(f'volume create --image guest --size 1 {other_root}')
    becomes(openstack, 'volume', other_root, 'available')
    image = openstack('image show guest -c id -f value')
    for volume in (root, openstack(f'volume show {other_root} -c id -f value')):
        assert fleet.ceph.run('rbd', '-c', fleet.ceph.CONF, '-p', fleet.ceph.VOLUMES, 'info', f'volume-{volume}').count(
            f'parent: {fleet.ceph.IMAGES}/{image}@snap') == 1
    booted(openstack, name)
    openstack(f'volume create --size 1 {data}')
    becomes(openstack, 'volume', data, 'available')
    openstack(f'server add volume {name} {data}')
    becomes(openstack, 'volume', data, 'in-use')
    host = openstack(f'server show {name} -c OS-EXT-SRV-ATTR:host -f value')

    def reads():
        """Requests of the guest's system, which looks for partitions on a disk that it sees for the first time."""
        return int(re.search(r'rd_req (\d+)', fleet.hosts.virsh(host, 'domblkstat', server, 'vdb'))[1])
    waiting.wait_for(reads, 60, 'the guest to read the disk', 0.5)
    openstack(f'volume snapshot create --volume {data} {snap}')
    becomes(openstack, 'volume snapshot', snap, 'available')
    openstack(f'volume set --size 2 {data}')

    def size(host):
        return fleet.hosts.virsh(host, 'domblkinfo', server, 'vdb').split()[1]
    waiting.wait_for(lambda: size(host) == str(2 << 30), 60, 'the guest to have the new size', 0.5)
    openstack(f'server migrate --live-migration --wait {name}')
    other = openstack(f'server show {name} -c OS-EXT-SRV-ATTR:host -f value')
    assert {host, other} == set(HOSTS) and fleet.hosts.guests(other)[server] == 1
    assert server not in fleet.hosts.guests(host) and size(other) == str(2 << 30)
    attachments = json.loads(openstack('volume attachment list -f json'))
    assert [each['Status'] for each in attachments if each['Server ID'] == server] == ['attached', 'attached']
    openstack(f'server remove volume {name} {data}')
    becomes(openstack, 'volume', data, 'available')
    openstack(f'volume create --snapshot {snap} {copy}')
    becomes(openstack, 'volume', copy, 'available')
    openstack(f'server delete --wait {name}')
    becomes(openstack, 'volume', root, 'available')
    for each in (copy, other_root, root, data):          # Ceph keeps what others were made of
        openstack(f'volume delete --cascade {each}')
        gone(openstack, each)


def watchers(fleet, pool, image):
    """Addresses of the clients that have an image open."""
    text = fleet.ceph.run('rbd', '-c', fleet.ceph.CONF, '-p', pool, 'status', '--format', 'json', image)
    return {each['address'] for each in json.loads(text)['watchers']}


def test_the_guest_of_a_host_that_is_thought_dead_writes_nothing_more(fleet, openstack):
    """Only its nova-compute is: QEMU runs on there while the server is taken to the other host."""
    name = 'test-' + uuid.uuid4().hex[:8]
    openstack(f'server create --flavor real.nano --image guest --nic none --host compute1 --wait {name} '
              '--os-compute-api-version 2.95')
    openstack(f'volume create --size 1 {name}')
    becomes(openstack, 'volume', name, 'available')
    openstack(f'server add volume {name} {name}')
    becomes(openstack, 'volume', name, 'in-use')
    server = openstack(f'server show {name} -c id -f value')
    volume = openstack(f'volume show {name} -c id -f value')
    images = (fleet.ceph.DISKS, f'{server}_disk'), (fleet.ceph.VOLUMES, f'volume-{volume}')
    before = set().union(*(watchers(fleet, *each) for each in images))
    assert len(before) == 2
    fleet.parts['compute1'].kill()
    openstack('compute service set --down compute1 nova-compute')
    try:
        openstack(f'server evacuate --host compute2 {name} --os-compute-api-version 2.67')
        waiting.wait_for(lambda: openstack(f'server migration list --server {name} -f value -c Status') == 'done', 90,
                         'the evacuation', 1)          # completed is for when the first host is back
        assert fleet.hosts.guests('compute1')[server] == fleet.hosts.guests('compute2')[server] == 1
        shut_out = fleet.ceph.run('ceph', '-c', fleet.ceph.CONF, 'osd', 'blocklist', 'ls')
        assert all(address in shut_out for address in before)
        after = set().union(*(watchers(fleet, *each) for each in images))
        assert len(after) == 2 and not before & after
    finally:
        openstack('compute service set --up compute1 nova-compute')
        fleet.parts['compute1'].start()
    waiting.wait_for(lambda: server not in fleet.hosts.guests('compute1'), 60, 'the first host to remove its guest')
    openstack(f'server delete --wait {name}')
    becomes(openstack, 'volume', name, 'available')
    openstack(f'volume delete {name}')
    gone(openstack, name)
