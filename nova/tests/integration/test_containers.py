"""The driver for containers with real ones: the contract of all drivers, and what only real containers show.

Needs root, libvirt-daemon-driver-lxc, a static busybox, and a libvirtd of its own (tools/libvirt-lxc.sh).
"""
import gzip
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import tempfile
import uuid
from xml.etree import ElementTree as etree

import pytest

from nova import conf as configuration
from nova import exception
from nova.image import inspector
from nova.tests.contract import driver_contract
from nova.tests.functional import cloud as clouds
from nova.virt import driver

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.containers import driver as containers
from nova.virt.libvirt.containers import guests
from nova.virt.libvirt.privileged import remote

TOOL = pathlib.Path(__file__).parents[3] / 'tools' / 'libvirt-lxc.sh'
DRIVERS = list(pathlib.Path('/usr/lib').glob('*/libvirt/connection-driver/libvirt_driver_lxc.so'))
BUSYBOX = pathlib.Path('/bin/busybox')
IMAGE_ID = str(uuid.UUID(int=1))
NOBODY = 65534
FIRST = 1000000000                       # the container's root, for the host: the default of uid_maps
COMMANDS = ('sh', 'cat', 'sleep', 'ip', 'id', 'ls', 'head', 'tr', 'stat')
# words of tests of the contract
LACKING = ('suspend', 'snapshot', 'resize', 'sent_is_none', 'rescue', 'password', 'rest_and', 'crash_dump',
           'diagnostics', 'console_is')
INIT = b'''#!/bin/sh
trap 'exit 0' TERM
echo "I am process $$, $(id -u) of $(tr -s ' ' < /proc/self/uid_map)"
ls -l /var/lib/cloud/seed/config_drive/openstack/latest 2>/dev/null
cat /var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json 2>/dev/null
if [ -e /etc/verbose ]; then i=0; while [ $i -lt 3000 ]; do echo "$i $(cat /etc/verbose)"; i=$((i+1)); done; fi
ip link set eth0 up 2>/dev/null
echo "# ready"
while [ ! -e /halt ]; do
  if [ -e /write ]; then busybox dd if=/dev/zero of=/written bs=1M count=4 conv=fsync; busybox rm -f /write; fi
  sleep 1 & wait $!
done
'''

make_instance, wait_for = driver_contract.make_instance, driver_contract.wait_for
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not DRIVERS or not BUSYBOX.exists() or not TOOL.exists() or not shutil.which('tini'),
    reason="needs root, libvirt's driver for LXC, busybox-static, tini and the tree's tools")


def archive(files=()):
    """A system as a tar archive: busybox, an init of a few lines, and files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w:gz') as made:
        for name, content, mode in (('bin/busybox', BUSYBOX.read_bytes(), 0o755), ('sbin/init', INIT, 0o755), *files):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            made.addfile(member, io.BytesIO(content))
        for name in COMMANDS:
            member = tarfile.TarInfo(f'bin/{name}')
            member.type, member.linkname = tarfile.SYMTYPE, 'busybox'
            made.addfile(member)
    return data.getvalue()


class Images:
    def __init__(self):
        self.data = archive()

    def show(self, _context, image_id):
        return {'id': image_id, 'disk_format': 'raw', 'properties': {}}

    def download(self, _context, image_id, path, _moved=None):
        pathlib.Path(path).write_bytes(self.data)


def _inspect(path, declared):
    inspector.verify(inspector.inspect_file(path), declared)


class Rig:
    boot_seconds = 30
    uploads = ()

    def __init__(self, state_path, uri):
        self.uri, self.images, self.events, self.bridge = uri, Images(), [], None
        self.image = self.images.show(None, IMAGE_ID)
        conf = configuration.new(files=[], state_path=str(state_path), libvirt__wait_soft_reboot_seconds=5,
                                 libvirt__virt_type='lxc', libvirt__lxc_connection_uri=uri)
        # what the driver may not do by itself another process does, with few of root's rights
        self.helper = remote.helper(conf, storage.instances_directory(str(state_path)), NOBODY)
        self.helper.fork()
        self.driver = containers.ContainerDriver(conf, 'a-host', self.images, _inspect, self.helper)
        self.driver.init_host()
        self.driver.watch(lambda *event: self.events.append(event))
        self.instances = pathlib.Path(self.driver.storage.directory)

    def described(self, instance):
        connection = libvirt.open(self.uri)
        domain = connection.lookupByUUIDString(instance.uuid)
        texts = [domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)] + [domain.XMLDesc(0)] * domain.isActive()
        connection.close()
        return [etree.fromstring(text) for text in texts]

    def leftovers(self, found):
        connection = libvirt.open(self.uri)
        names = [domain.name() for domain in connection.listAllDomains() if domain.UUIDString() == found]
        connection.close()
        return names + [str(path) for path in self.instances.glob(f'*{found}*')]

    def booted(self, instance):
        wait_for(lambda: b'# ready' in self.driver.console_output(instance), 30, 'the container to be ready')

    def halt(self, instance):
        self.booted(instance)
        (self.root(instance) / 'halt').touch()

    def root(self, instance):
        return self.instances / instance.uuid / 'root'

    def vif(self):
        if self.bridge is None:
            self.bridge = 'lc' + uuid.uuid4().hex[:8]
            subprocess.run(['ip', 'link', 'add', self.bridge, 'type', 'bridge'], check=True)
        number = uuid.uuid4().hex
        mac = 'fa:16:3e:%s:%s:%s' % (number[:2], number[2:4], number[4:6])
        return {'id': mac, 'type': 'bridge', 'devname': 'tap' + number[:11], 'address': mac,
                'network': {'bridge': self.bridge, 'mtu': 1450, 'subnets': []}}

    def ports(self, instance):
        found = [[mac.get('address') for mac in root.findall('./devices/interface/mac')]
                 for root in self.described(instance)]
        assert found[0] == found[-1]
        return found[0]

    def remove_bridge(self):
        if self.bridge is not None:
            subprocess.run(['ip', 'link', 'del', self.bridge], check=True)


@pytest.fixture(scope='module')
def place():
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-lxc-', dir='/var/tmp'))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope='module')
def uri(place):
    daemon = subprocess.Popen([str(TOOL), str(place)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    address = f'lxc+unix:///system?socket={place}/libvirt-sock'
    libvirt.registerErrorHandler(lambda *_: None, None)

    def answers():
        assert daemon.poll() is None
        try:
            libvirt.open(address).close()
        except libvirt.libvirtError:
            return False
        return True
    wait_for(answers, 30, 'libvirtd to answer')
    yield address
    daemon.terminate()
    daemon.wait(30)


@pytest.fixture(scope='module')
def module_rig(place, uri):
    made = Rig(place, uri)
    yield made
    for found in made.driver.guests():
        made.driver.destroy(None, make_instance(uuid=found), [])
    made.driver.stop()
    made.helper.stop()
    os.waitpid(made.helper.pid, 0)
    made.remove_bridge()


@pytest.fixture
def rig(module_rig):
    module_rig.events.clear()
    return module_rig


@pytest.fixture
def instance(rig):
    made = make_instance()
    yield made
    rig.driver.destroy(None, made, [])


def spawn(rig, instance, **values):
    rig.driver.spawn(None, instance, driver.SpawnRequest(**{'image': rig.image, 'network_info': [], **values}))


class TestContract(driver_contract.DriverContract):
    @pytest.fixture(autouse=True)
    def what_containers_have(self, request):
        """Skip the others before a container is made for them."""
        if any(word in request.node.name for word in LACKING):
            pytest.skip('the driver has no such feature')


def test_a_container_is_an_ordinary_user_and_finds_what_a_config_drive_has(rig, instance):
    document = json.dumps({'uuid': instance.uuid}).encode()
    spawn(rig, instance, config_drive={'openstack/latest/meta_data.json': document})
    rig.booted(instance)
    said = rig.driver.console_output(instance)
    assert b'I am process 1, 0 of  0 1000000000 65536' in said and document in said
    assert b'-rw-------' in said
    assert {path.lstat().st_uid for path in rig.root(instance).rglob('*')} == {FIRST}
    assert not (rig.instances / instance.uuid / 'disk.seed').exists()


def test_files_of_users_are_unpacked_after_the_image(rig, instance):
    spawn(rig, instance, injected_files=[('/etc/from-the-user', b'1'), ('etc/verbose', b'x')])
    assert [(rig.root(instance) / 'etc' / name).read_bytes() for name in ('from-the-user', 'verbose')] == [b'1', b'x']


def test_the_kernel_bounds_what_a_container_uses(rig, instance):
    instance.vcpus = 2
    spawn(rig, instance)
    rig.booted(instance)
    root, = {etree.tostring(found.find('cputune')) for found in rig.described(instance)}
    tuning = etree.fromstring(root)
    assert [tuning.findtext(name) for name in ('shares', 'period', 'quota')] == [
        '200' if pathlib.Path(guests.UNIFIED).exists() else '2048', '100000', '200000']
    own = subprocess.run(['pgrep', '-U', str(FIRST)], capture_output=True, text=True, check=True)
    groups = pathlib.Path(f'/proc/{own.stdout.split()[0]}/cgroup').read_text().splitlines()
    name = next(line.split(':')[2] for line in groups if ':memory:' in line or line.startswith('0::'))
    bounds = [pathlib.Path(f'/sys/fs/cgroup/memory{name}/memory.limit_in_bytes'),
              pathlib.Path(f'/sys/fs/cgroup{name}/memory.max')]
    assert [int(path.read_text()) for path in bounds if path.exists()] == [128 << 20]


def test_counters_of_a_container_grow_with_its_disk_and_network(rig, instance):
    vif = rig.vif()
    spawn(rig, instance, network_info=[vif])
    rig.booted(instance)
    subprocess.run(['ip', 'link', 'set', rig.bridge, 'up'], check=True)

    def now():
        return rig.driver.usage.guests()[instance.uuid]
    before = now()
    assert before.memory_bytes > 0 and before.cpu_ns > 0
    # broadcasts of the host are what the container receives, not what it sends
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sending:
        sending.bind((rig.bridge, 0))

        def after_frames():
            for _number in range(10):
                sending.send(b'\xff' * 6 + b'\x02' + bytes(5) + b'\x88\xb5' + bytes(1000))
            found = now()
            return found.network_receive_packets >= before.network_receive_packets + 10 and found
        after = wait_for(after_frames, 20, 'the frames to be counted')
    assert after.network_receive_bytes >= before.network_receive_bytes + 10 * 1000
    assert after.network_transmit_bytes < before.network_transmit_bytes + 10 * 1000
    (rig.root(instance) / 'write').touch()
    wait_for(lambda: not (rig.root(instance) / 'write').exists(), 20, 'the file to be written')
    if now().disk_write_bytes is None:
        pytest.skip('the kernel does not count the disk operations of a control group')
    assert now().disk_write_bytes - (before.disk_write_bytes or 0) >= 4 << 20


def test_a_container_has_its_ports_and_no_other_network(rig, instance):
    vif = rig.vif()
    spawn(rig, instance, network_info=[vif])
    assert rig.ports(instance) == [vif['id']]
    listed = subprocess.check_output(['ip', '-o', 'link', 'show', 'master', rig.bridge], text=True)
    assert vif['devname'] in listed


def test_a_container_that_prints_without_end_does_not_stand_still(rig, instance):
    """libvirt reads nothing of a console: after 40 KB a container stood still."""
    rig.images.data, kept = archive([('etc/verbose', b'x' * 100, 0o644)]), rig.images.data
    try:
        spawn(rig, instance, image=rig.images.show(None, str(uuid.UUID(int=2))))
    finally:
        rig.images.data = kept
    rig.booted(instance)
    assert b'2999 xxx' in rig.driver.console_output(instance)


@pytest.mark.parametrize('data, said', [
    (b'\0' * 4096, '/sbin/init'), (b'no archive', 'not a valid tar'), (archive()[:2000], 'not a valid tar')])
def test_image_without_a_root_file_system_is_refused(rig, instance, data, said):
    rig.images.data, kept = data, rig.images.data
    try:
        with pytest.raises(exception.BuildFailed, match=said):
            spawn(rig, instance, image=rig.images.show(None, str(uuid.uuid4())))
    finally:
        rig.images.data = kept
    assert rig.leftovers(instance.uuid) == []


@pytest.mark.parametrize('values, request_values, said', [
    ({'ephemeral_gb': 1}, {}, 'no ephemeral'), ({}, {'image': None}, 'no volumes'),
    ({}, {'block_devices': [{'destination_type': 'volume'}]}, 'no volumes'),
    ({'flavor': {'extra_specs': {'quota:disk_read_bytes_sec': '5'}}}, {}, 'do not support quota_disk_read'),
    ({}, {'network_info': [{'type': 'ovs'}]}, 'bridges of the embedded')])
def test_unsupported_container_features_are_refused_with_the_reason(rig, values, request_values, said):
    with pytest.raises(exception.BuildFailed, match=said):
        spawn(rig, make_instance(**values), **request_values)


# ---- through the API ----------------------------------------------------------------------

@pytest.fixture(scope='module')
def cloud(place, uri):
    state = place / 'state'
    state.mkdir()
    state.chmod(0o711)
    with clouds.running(state, compute_driver='libvirt', libvirt__virt_type='lxc', libvirt__lxc_connection_uri=uri,
                        shutdown_timeout=1) as made:
        yield made
        client = made.admin('2.90')
        for server in client.get('/servers?all_tenants=1').json()['servers']:        # of a test that has failed
            client.delete('/servers/' + server['id'])
            client.wait_for(server['id'], 'DELETED')


def create(client, image, until='ACTIVE'):
    answer = client.post('/servers', {'server': {'name': 'contained', 'imageRef': image, 'flavorRef': '42',
                                                 'networks': 'none'}})
    assert answer.status_code == 202, answer.text
    return client.wait_for(answer.json()['server']['id'], until)


def act(client, server, body):
    return client.post(f'/servers/{server}/action', body)


def test_a_container_is_a_server(cloud):
    client = cloud.client(version='2.90')
    image = client.upload_image(archive(), 'system', disk_format='raw', hypervisor_type='lxc', hw_vm_mode='exe')
    server = create(client, image)['id']
    console = wait_for(lambda: act(client, server, {'os-getConsoleOutput': {}}).json()['output'], 20, 'the console')
    assert 'I am process 1' in console
    for action, state in (('pause', 'PAUSED'), ('unpause', 'ACTIVE'), ('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
        assert act(client, server, {action: None}).status_code == 202
        client.wait_for(server, state)
    refused = [act(client, server, body).status_code for body in (
        {'suspend': None}, {'createImage': {'name': 'x'}}, {'rescue': {}}, {'resize': {'flavorRef': '1'}})]
    assert set(refused) <= {409, 501}, refused
    assert client.get(f'/servers/{server}').json()['server']['status'] == 'ACTIVE'
    node, = cloud.admin('2.53').get('/os-hypervisors/detail').json()['hypervisors']
    assert node['hypervisor_type'] == 'LXC'
    assert client.delete(f'/servers/{server}').status_code == 204
    client.wait_for(server, 'DELETED')


def test_an_image_of_machines_does_not_come_to_a_host_of_containers(cloud):
    client = cloud.client(version='2.90')
    image = client.upload_image(gzip.decompress(archive()), 'machine', disk_format='raw', hypervisor_type='qemu')
    server = create(client, image, 'ERROR')
    assert 'No valid host' in server['fault']['message'] or 'hypervisor' in server['fault']['message']
    client.delete(f'/servers/{server["id"]}')
