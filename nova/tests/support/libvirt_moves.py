"""What tests share with nova/tests/unit/test_libvirt_moves.py."""
import json
import types

from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import storage

UUID, OTHER = '8a8f0f7e-55c2-4b2c-9d5e-0f4a4a1f0c11', '9b8f0f7e-55c2-4b2c-9d5e-0f4a4a1f0c12'


def store(path, host):
    path.mkdir(exist_ok=True)
    made = storage.Storage(str(path), None, types.SimpleNamespace(), host=host)
    made.prepare()
    return made


def record(stored):
    directory = stored.directory
    return xml.Guest.of(dict(
        uuid=UUID, name='instance-1', owner=directory, virt_type='qemu', vcpus=1, memory_mb=64, kernel='/old/kernel',
        console_log=f'{directory}/{UUID}/console.log', interfaces=[xml.Interface('52:54:00:0:0:1', 'br-a', 'tap-a')],
        disks=[xml.Disk(f'{directory}/{UUID}/disk', 'qcow2', 'vda', backing_file=f'{directory}/_base/img.qcow2',
                        backing_format='qcow2'),
               xml.Disk(f'{directory}/{UUID}/disk.config', 'raw', 'vdb', readonly=True)]))


def sent(stored):
    """As it comes over the wire."""
    values = {**json.loads(json.dumps(record(stored).to_record()))}
    for disk in values['disks']:
        disk['size'] = 1 << 20
    return values


VIF = {'type': 'bridge', 'address': '52:54:00:0:0:1', 'devname': 'tap-b', 'network': {'bridge': 'br-b', 'mtu': 1400}}
