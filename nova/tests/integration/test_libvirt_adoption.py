"""Guests that somebody made with virsh become servers: real QEMU guests, which go on meanwhile.

Needs what test_libvirt.py does.
"""
import pathlib
import shutil
import subprocess
import tempfile
import uuid

import pytest

from nova import exception
from nova.cmd.manage import main as manage
from nova.rpc import inprocess
from nova.tests import long_runs
from nova.tests.functional import cloud as clouds
from nova.tests.support import libvirt as base
from nova.tests.support.waiting import wait_for
from nova.virt import driver as contract
from nova.virt import driver as virt
from nova.virt.libvirt.domain import identity

pytestmark = base.pytestmark
libvirt = base.libvirt
BOTH = libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_AFFECT_LIVE
DOMAIN = """<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='KiB'>131072</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='{machine}'>hvm</type><boot dev='hd'/></os><features><acpi/></features><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{disk}'/>
<target dev='vda' bus='virtio'/></disk><serial type='pty'/></devices></domain>"""


@pytest.fixture(scope='module')
def cloud():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-adoption-', dir='/var/tmp'))     # QEMU's user passes through
    directory.chmod(0o711)
    with clouds.running(directory / 'state', compute_driver='libvirt', libvirt__virt_type='qemu', shutdown_timeout=1,
                        allow_resize_to_same_host=True, conductor__reconcile_interval=1) as made:
        (directory / 'state').chmod(0o711)
        made.config = directory / 'nova.conf'
        made.config.write_text(f'[DEFAULT]\ntransport_url = {inprocess.SCHEME}:///{made.state_path}\n'
                               f'state_path = {made.state_path}\nhost = host1\n[network]\ndriver = fake\n')
        made.elsewhere, made.boss = directory / 'elsewhere', made.admin('2.79')
        made.elsewhere.mkdir(mode=0o711)
        made.image = made.boss.upload_image((base.GUEST / 'guest.qcow2').read_bytes(), disk_format='qcow2')
        yield made
    shutil.rmtree(directory)


@pytest.fixture
def connection():
    opened = libvirt.open(base.URI)
    yield opened
    opened.close()


@pytest.fixture
def stranger(cloud, connection):
    """A domain of libvirt that no server is of."""
    made, disk = str(uuid.uuid4()), cloud.elsewhere / f'{uuid.uuid4()}.qcow2'
    shutil.copyfile(base.GUEST / 'guest.qcow2', disk)
    domain = connection.defineXML(DOMAIN.format(name='by-hand-' + made[:8], uuid=made, disk=disk, machine='pc'))
    domain.create()
    yield domain, disk
    for left in connection.listAllDomains():
        if left.UUIDString() == made:
            if left.isActive():
                left.destroy()
            left.undefine()


@pytest.fixture
def adopt(cloud, capsys):
    def run(domain, *arguments):
        code = manage.main(['vm', 'adopt', domain.name(), '--project', cloud.boss.project_id, '--user',
                            cloud.boss.user_id, '--image', cloud.image, *arguments, '--config-file', str(cloud.config)])
        return code, ''.join(capsys.readouterr())
    return run


def processes(disk):
    found = subprocess.run(['pgrep', '-f', str(disk)], capture_output=True, text=True)
    return found.stdout.split()


def act(cloud, server, body, status):
    answer = cloud.boss.post(f'/servers/{server}/action', body)
    assert answer.status_code < 300, answer.text
    return cloud.boss.wait_for(server, status)


def test_a_running_guest_becomes_a_server(cloud, adopt, stranger, connection):
    domain, disk = stranger
    server, before = domain.UUIDString(), processes(disk)
    code, said = adopt(domain)
    assert code == 3 and str(disk) in said
    assert cloud.boss.get(f'/servers/{server}').status_code == 404
    code, said = adopt(domain, '--yes')
    assert code == 0, said
    assert cloud.boss.wait_for(server)['name'] == domain.name()
    assert processes(disk) == before and len(before) == 1, 'the guest went on'
    act(cloud, server, {'pause': None}, 'PAUSED')
    act(cloud, server, {'unpause': None}, 'ACTIVE')
    assert processes(disk) == before
    act(cloud, server, {'os-stop': None}, 'SHUTOFF')
    act(cloud, server, {'os-start': None}, 'ACTIVE')
    assert connection.lookupByUUIDString(server).name() == domain.name()

    def log():
        return cloud.boss.post(f'/servers/{server}/action', {'os-getConsoleOutput': {}}).json()['output']
    wait_for(lambda: '/ #' in log(), base.BOOT_SECONDS, 'the guest to boot from its disk')
    act(cloud, server, {'reboot': {'type': 'HARD'}}, 'ACTIVE')
    assert cloud.boss.post(f'/servers/{server}/remote-consoles', {
        'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}, version='2.79').status_code == 200
    cloud.boss.post(f'/servers/{server}/action', {'createImage': {'name': 'kept'}})
    wait_for(lambda: [each['status'] for each in cloud.boss.get('/image/v2/images?name=kept').json()['images']]
             == ['active'], 60, 'the snapshot')
    cloud.boss.wait_for(server)
    assert disk.exists()
    cloud.boss.delete(f'/servers/{server}')
    cloud.boss.wait_for(server, 'DELETED')
    assert not disk.exists()
    wait_for(lambda: not processes(disk), 10, 'the guest to end')
    assert server not in [each.UUIDString() for each in connection.listAllDomains()]
    assert not list(pathlib.Path(cloud.state_path).glob(f'**/{server}*'))


@long_runs.only
def test_a_resize_brings_the_disks_in(cloud, adopt, stranger):
    domain, disk = stranger
    domain.destroy()
    server = domain.UUIDString()
    code, said = adopt(domain, '--yes')
    assert (code, said.splitlines()[-1]) == (0, f'Server {server} is stopped.'), said
    wait_for(lambda: not processes(disk), 10, 'the guest to end')
    cloud.boss.post('/flavors', {'flavor': {'id': 'wider', 'name': 'wider', 'ram': 192, 'vcpus': 1, 'disk': 2}})
    act(cloud, server, {'resize': {'flavorRef': 'wider'}}, 'VERIFY_RESIZE')
    assert disk.exists()
    act(cloud, server, {'revertResize': None}, 'SHUTOFF')
    act(cloud, server, {'os-start': None}, 'ACTIVE')
    assert len(processes(disk)) == 1, 'it is back on the disk that it came with'
    act(cloud, server, {'os-stop': None}, 'SHUTOFF')
    act(cloud, server, {'resize': {'flavorRef': 'wider'}}, 'VERIFY_RESIZE')
    assert cloud.boss.post(f'/servers/{server}/action', {'confirmResize': None}).status_code == 204
    cloud.boss.wait_for(server, 'SHUTOFF')
    assert not disk.exists()
    own = pathlib.Path(cloud.state_path) / 'instances' / server / 'disk'
    assert own.exists()
    act(cloud, server, {'os-start': None}, 'ACTIVE')
    cloud.boss.delete(f'/servers/{server}')
    cloud.boss.wait_for(server, 'DELETED')


def test_refused_adoption_leaves_the_guest_untouched(cloud, adopt, stranger, connection):
    """The host refuses at the end of the way, too: neither the refusal nor a delete touches the guest."""
    domain, disk = stranger
    server, before, text = domain.UUIDString(), processes(disk), domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    code, said = adopt(domain, '--yes', '--flavor', '1')
    assert code == 1 and 'is error' in said and 'it has 128 MiB of memory' in said
    assert cloud.boss.delete(f'/servers/{server}').status_code == 204
    wait_for(lambda: cloud.boss.get(f'/servers/{server}').status_code == 404, 30, 'the end')
    assert processes(disk) == before and disk.exists()
    assert domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == text
    assert 'exists or existed' in adopt(domain)[1]


def test_a_guest_that_is_not_ours_is_left_alone(cloud, stranger):
    """Whatever an undo or a delete wants: neither the guest of nobody, nor that of another deployment."""
    domain, disk = stranger
    instance, before = base.make_instance(uuid=domain.UUIDString()), processes(disk)
    driver = next(part.manager for part in cloud.services if part.binary == 'nova-compute').driver
    driver.destroy(None, instance, [])
    theirs, element = identity.OWNER_NAMESPACE, identity.owner('/another/deployment')
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, element, 'owner', theirs, BOTH)
    driver.features[contract.Adoption].let_go(instance)
    assert '/another/deployment' in domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, theirs,
                                                    libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    with pytest.raises(exception.BuildFailed, match='belongs to a deployment'):
        driver.features[contract.Adoption].adopt(None, instance, virt.SpawnRequest(image={'id': cloud.image},
                                                                                   network_info=[]))
    assert processes(disk) == before and disk.exists() and driver.storage.load(instance.uuid) is None


def test_an_adoption_goes_on_after_a_restart(cloud, stranger):
    """Killed between the record and the mark the guest is nobody's; the same again makes it ours."""
    domain, disk = stranger
    instance, before = base.make_instance(uuid=domain.UUIDString()), processes(disk)
    driver = next(part.manager for part in cloud.services if part.binary == 'nova-compute').driver
    request = virt.SpawnRequest(image={'id': cloud.image, 'properties': {}}, network_info=[])
    driver.features[contract.Adoption].adopt(None, instance, request)
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, None, identity.OWNER_NAMESPACE, BOTH)
    assert instance.uuid not in driver.guests()
    driver.features[contract.Adoption].adopt(None, instance, request)
    assert instance.uuid in driver.guests() and processes(disk) == before
    driver.features[contract.Adoption].let_go(instance)
    assert instance.uuid not in driver.guests() and processes(disk) == before and disk.exists()
    assert not driver.storage.exists(instance.uuid)


def test_an_overlay_is_refused(cloud, adopt, connection):
    below, above = cloud.elsewhere / 'below.qcow2', cloud.elsewhere / 'above.qcow2'
    shutil.copyfile(base.GUEST / 'guest.qcow2', below)
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'qcow2', '-b', str(below), str(above)], check=True)
    domain = connection.defineXML(DOMAIN.format(name='overlay', uuid=uuid.uuid4(), disk=above, machine='pc'))
    try:
        code, said = adopt(domain, '--yes')
        assert code == 1 and 'it has a backing file' in said
    finally:
        domain.undefine()
