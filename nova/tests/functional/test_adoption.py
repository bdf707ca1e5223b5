"""nova-manage vm adopt beside a cloud of fake hosts; libvirt's own test driver has the guests that it looks at."""
import uuid

import pytest

from nova import states
from nova.cmd.manage import adoption
from nova.cmd.manage import main as manage
from nova.rpc import inprocess
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds

pytest.importorskip('libvirt', reason='libvirt-python is not installed')

DOMAIN = """<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>512</memory><vcpu>2</vcpu>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os><devices>
<disk type='file' device='disk'><driver type='raw'/><source file='{disk}'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
<interface type='user'><mac address='52:54:00:11:22:33'/><model type='e1000'/></interface>{more}</devices></domain>"""


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp('adoption')
    with clouds.running(directory / 'state', hosts=['host1', 'host2'], conductor__reconcile_interval=1) as made:
        config = directory / 'nova.conf'
        config.write_text(f'[DEFAULT]\ntransport_url = {inprocess.SCHEME}:///{made.state_path}\n'
                          f'state_path = {made.state_path}\nhost = host1\n[network]\ndriver = fake\n')
        made.config, made.boss, made.directory = config, made.admin('2.104'), directory
        made.image = made.boss.upload_image()
        yield made


@pytest.fixture
def adopt(cloud, capsys):
    def run(guest, *arguments, more=''):
        disk, node = cloud.directory / 'data.img', cloud.directory / 'node.xml'
        disk.write_bytes(b'\0' * 4096)
        node.write_text('<node>' + DOMAIN.format(name='old', uuid=guest, disk=disk, more=more) + '</node>')
        code = manage.main(['vm', 'adopt', guest, '--project', cloud.boss.project_id, '--user', cloud.boss.user_id,
                            '--image', cloud.image, '--connection', f'test://{node}', *arguments,
                            '--config-file', str(cloud.config)])
        return code, ''.join(capsys.readouterr())
    return run


def stranger(cloud, state=states.RUNNING, host='host1'):
    made = str(uuid.uuid4())
    compute = next(part.manager for part in cloud.services if part.binary == 'nova-compute' and part.host == host)
    compute.driver.machine.foreign_guests[made] = state
    return made


def test_it_is_shown_and_then_done(cloud, adopt):
    guest = stranger(cloud)
    code, said = adopt(guest)
    assert code == 3 and 'Nothing was changed' in said and 'adopted-2-512-1' in said and 'data.img' in said
    assert 'cdrom sda' in said and '52:54:00:11:22:33' in said
    assert cloud.boss.get(f'/servers/{guest}').status_code == 404
    code, said = adopt(guest, '--yes', '--name', 'mine')
    assert (code, said.splitlines()[-1]) == (0, f'Server {guest} is active.'), said
    server = cloud.boss.wait_for(guest)
    assert (server['name'], server['OS-EXT-SRV-ATTR:host'], server['addresses']) == ('mine', 'host1', {})
    assert (server['flavor']['vcpus'], server['flavor']['ram'], server['user_id']) == (2, 512, cloud.boss.user_id)
    for action, status in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
        assert cloud.boss.post(f'/servers/{guest}/action', {action: None}).status_code == 202
        cloud.boss.wait_for(guest, status)
    assert 'a server with this uuid exists or existed' in adopt(guest, '--yes')[1]
    cloud.boss.delete(f'/servers/{guest}')
    cloud.boss.wait_for(guest, 'DELETED')


def test_one_that_is_off_stays_off(cloud, adopt):
    guest = stranger(cloud, states.SHUTDOWN)
    code, said = adopt(guest, '--yes')
    assert (code, said.splitlines()[-1]) == (0, f'Server {guest} is stopped.'), said
    assert cloud.boss.wait_for(guest, 'SHUTOFF')['OS-EXT-STS:power_state'] == 4


@pytest.mark.parametrize('more, why', [
    ("<hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>", 'device of'),
    ("<disk type='block'><source dev='/dev/x'/><target dev='vdb' bus='virtio'/></disk>", 'vdb is no file')])
def test_unsupported_guest_is_not_adopted(cloud, adopt, more, why):
    guest = stranger(cloud)
    code, said = adopt(guest, '--yes', more=more)
    assert code == 1 and why in said and cloud.boss.get(f'/servers/{guest}').status_code == 404


def test_a_wrong_flavor_image_or_host_is_refused(cloud, adopt):
    guest = stranger(cloud)
    assert adopt(guest, '--yes', '--image', str(uuid.uuid4()))[0] == 1
    assert 'can adopt guests' in adopt(guest, '--yes', '--host', 'elsewhere')[1]
    assert cloud.boss.get(f'/servers/{guest}').status_code == 404


def test_a_guest_that_is_not_there_ends_in_an_error_and_its_delete(cloud, adopt):
    guest = str(uuid.uuid4())
    code, said = adopt(guest, '--yes')
    assert code == 1 and 'is error' in said
    assert cloud.boss.wait_for(guest, 'ERROR')['OS-EXT-SRV-ATTR:host'] is None
    assert cloud.boss.delete(f'/servers/{guest}').status_code == 204
    waiting.wait_for(lambda: cloud.boss.get(f'/servers/{guest}').status_code == 404, 30, 'the end')


def test_an_adoption_that_takes_long_has_its_own_exit_code(cloud, adopt, monkeypatch):
    """It was that of a failure."""
    guest = stranger(cloud)
    with monkeypatch.context() as short:
        short.setattr(adoption, 'WAIT_S', 0)
        code, said = adopt(guest, '--yes')
    assert code == 4 and 'The adoption continues without this command.' in said
    assert adoption._await(cloud.cells, guest) == 0
    assert cloud.boss.wait_for(guest)['OS-EXT-SRV-ATTR:host'] == 'host1'


def test_a_client_cannot_ask_for_it(cloud):
    """What the command says in the environ comes from no header."""
    guest = stranger(cloud)
    made = cloud.boss.request('POST', '/servers', {'server': {
        'name': 'x', 'imageRef': cloud.image, 'flavorRef': '42', 'networks': 'none'}},
        headers={'nova.adopts': guest, 'Nova-Adopts': guest}).json()['server']
    assert made['id'] != guest
    cloud.boss.wait_for(made['id'])
    cloud.boss.delete(f'/servers/{made["id"]}')
