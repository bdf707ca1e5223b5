"""What tests share with nova/tests/integration/test_libvirt.py."""
import os
import socket
import pathlib
import shutil
import subprocess
import tempfile
import time
import tty
import uuid
from xml.etree import ElementTree as etree

import pytest

from nova import conf as configuration
from nova import states
from nova.image import inspector
from nova.tests.contract import driver_contract
from nova.virt import driver as contract

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')

from nova.virt.libvirt import driver as libvirt_driver

URI = 'qemu:///system'
GUEST = pathlib.Path(os.environ.get('NOVA_TEST_GUEST_DIR') or '/nonexistent')
DISK_ID, ROOT_ID, KERNEL_ID, RAMDISK_ID, SIGNED_ID = (str(uuid.UUID(int=number)) for number in range(1, 6))
BOOT_SECONDS = 300                       # emulated, on a busy machine
PROMPT = b'/ # '

make_instance, wait_for = driver_contract.make_instance, driver_contract.wait_for


def _missing():
    if os.geteuid() != 0:
        return 'needs root'
    if not (GUEST / 'guest.qcow2').exists():
        return 'NOVA_TEST_GUEST_DIR does not name a directory with the guest image'
    try:
        libvirt.open(URI).close()
    except libvirt.libvirtError as error:
        return f'libvirt does not answer: {error}'
    return None


_REASON = _missing()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))


class Images:
    """An ImageSource over the files of the guest image."""

    rows = {DISK_ID: ('qcow2', 'guest.qcow2'), ROOT_ID: ('ami', 'guest-root.img'),
            KERNEL_ID: ('aki', 'guest-kernel'), RAMDISK_ID: ('ari', 'guest-ramdisk'),
            SIGNED_ID: ('ari', 'guest-ramdisk-signed')}

    def __init__(self, delay=0):
        self.downloads, self.uploads, self.delay = [], {}, delay
        self.store, self.adopted = None, {}      # nova.image.embedded.files.Files, and what it has taken

    def show(self, _context, image_id):
        return {'id': image_id, 'disk_format': self.rows[image_id][0], 'properties': {}}

    def download(self, _context, image_id, path, _moved=None):
        self.downloads.append(image_id)
        time.sleep(self.delay)
        shutil.copyfile(GUEST / self.rows[image_id][1], path)

    def upload(self, _context, image_id, path, disk_format, moved=None, give=False):
        self.uploads[image_id] = (pathlib.Path(path).read_bytes(), disk_format)
        if give and self.store is not None:
            self.adopted[image_id] = self.store.adopt(image_id, path, disk_format, 2 ** 40, image_id)


def inspect(path, declared):
    inspector.verify(inspector.inspect_file(path), declared)


def make_driver(state_path, images, **options):
    conf = configuration.new(files=[], state_path=str(state_path), libvirt__wait_soft_reboot_seconds=2, **options)
    return libvirt_driver.LibvirtDriver(conf, 'a-host', images, inspect)


class Rig:
    boot_seconds = BOOT_SECONDS

    def __init__(self, state_path):
        self.images, self.events = Images(), []
        self.uploads = self.images.uploads
        self.image, self.bridge = self.images.show(None, DISK_ID), None
        self.driver = make_driver(state_path, self.images)
        self.driver.init_host()
        self.driver.watch(lambda *event: self.events.append(event))
        self.instances = pathlib.Path(self.driver.storage.directory)

    def leftovers(self, uuid):
        connection = libvirt.open(URI)
        found = [domain.name() for domain in connection.listAllDomains() if domain.UUIDString() == uuid]
        connection.close()
        for directory in (self.instances, '/var/lib/libvirt/qemu/save', '/run/libvirt/qemu'):
            found += [str(path) for path in pathlib.Path(directory).glob(f'*{uuid}*')]
        return found

    def console(self, instance):
        return self.driver.console_output(instance)

    def booted(self, instance):
        wait_for(lambda: PROMPT in self.console(instance), BOOT_SECONDS, 'the guest to boot')

    def booted_again(self, instance, start):
        """Call ``start()`` and wait for the prompt of the system that it starts: the console keeps what earlier ones
        have said; how much that is.
        """
        shown = self.console(instance)
        start()
        wait_for(lambda: self.console(instance).count(PROMPT) > shown.count(PROMPT), BOOT_SECONDS,
                 'the guest to boot again')
        return len(shown)

    def type(self, instance, line):
        """Type a line at the guest's serial console."""
        fd = _serial_port(instance.uuid)
        shown = len(self.console(instance)) + len(line) + len(PROMPT)
        os.write(fd, line.encode() + b'\n')
        # QEMU looks once a second whether somebody has opened it; the guest shows what it is told, and its next prompt
        wait_for(lambda: len(self.console(instance)) > shown or self.driver.power_state(instance) != states.RUNNING,
                 BOOT_SECONDS, 'the line to arrive')
        os.close(fd)

    def vif(self):
        """A VIF on a bridge that ``remove_bridge`` removes."""
        if self.bridge is None:
            self.bridge = 'lv' + uuid.uuid4().hex[:8]
            subprocess.run(['ip', 'link', 'add', self.bridge, 'type', 'bridge'], check=True)
        number = uuid.uuid4().hex
        return {'id': 'fa:16:3e:%s:%s:%s' % (number[:2], number[2:4], number[4:6]), 'type': 'bridge',
                'devname': 'tap' + number[:11], 'address': 'fa:16:3e:%s:%s:%s' % (number[:2], number[2:4], number[4:6]),
                'network': {'bridge': self.bridge, 'mtu': 1450, 'subnets': []}}

    def remove_bridge(self):
        if self.bridge is not None:
            subprocess.run(['ip', 'link', 'del', self.bridge], check=True)

    def ports(self, instance):
        """MAC addresses, which are the ids here, of the definition; a running guest has the same."""
        connection = libvirt.open(URI)
        domain = connection.lookupByUUIDString(instance.uuid)
        texts = [domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)] + [domain.XMLDesc(0)] * domain.isActive()
        connection.close()
        found = [[mac.get('address') for mac in etree.fromstring(text).findall('./devices/interface/mac')]
                 for text in texts]
        assert found[0] == found[-1]
        return found[0]

    def halt(self, instance):
        self.booted(instance)
        self.type(instance, 'poweroff -f')


def _serial_port(guest):
    """A file descriptor of a guest's serial port: a terminal, or a socket where users have serial consoles."""
    text = subprocess.check_output(['virsh', '-c', URI, 'dumpxml', guest], text=True)
    port = etree.fromstring(text).find('./devices/serial')
    path = port.find('source').get('path')
    if port.get('type') == 'unix':
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        return connected.detach()
    fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(fd)
    return fd


@pytest.fixture(scope='module')
def state_path():
    """A directory that QEMU's user may pass through."""
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-libvirt-', dir='/var/tmp'))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope='module')
def module_rig(state_path):
    made = Rig(state_path)
    yield made
    for found in made.driver.guests():
        made.driver.destroy(None, make_instance(uuid=found), [])
    made.driver.stop()
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
    rig.driver.spawn(None, instance, contract.SpawnRequest(**{'image': rig.image, 'network_info': [], **values}))
