"""What tests share with nova/tests/unit/test_libvirt_xml.py."""
from nova.virt.libvirt import xml

UUID = '6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f50'


def guest(**values):
    disks = [xml.Disk('/i/disk', 'qcow2', 'vda', cache='none', backing_file='/i/_base/x.raw', backing_format='raw'),
             xml.Disk('/i/disk.config', 'raw', 'vdb', readonly=True)]
    return xml.Guest.of({
        'uuid': UUID, 'name': 'instance-' + UUID, 'owner': '/i', 'virt_type': 'qemu', 'vcpus': 2, 'memory_mb': 512,
        'console_log': '/i/console.log', 'disks': disks, 'facts': {'name': 'x', 'flavor': 'm1'}, **values})


class FakeStorage:
    directory = '/i'

    def path(self, uuid, name):
        return f'/i/{uuid}/{name}'
