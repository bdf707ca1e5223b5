"""Users' files in a disk by a real guestfish, which starts a machine for it: 10 s, and 20 s more the first time.

Needs libguestfs-tools and a kernel that it finds: in /boot, or named by SUPERMIN_KERNEL and SUPERMIN_MODULES.
"""
import glob
import os
import re
import shutil
import subprocess

import pytest

from nova import exception
from nova.virt.libvirt.local_disks import injection
from nova.virt.libvirt import xml

able = shutil.which('guestfish') and shutil.which('mke2fs') and shutil.which('qemu-img') and (
    glob.glob('/boot/vmlinuz-*') or 'SUPERMIN_KERNEL' in os.environ)


@pytest.mark.skipif(not able, reason='needs libguestfs-tools, a kernel in /boot, e2fsprogs and qemu-utils')
def test_files_are_in_the_disk(tmp_path):
    """A link that leads out of the file system leads nowhere: the machine that mounts it has no other."""
    base, disk = tmp_path / 'base', tmp_path / 'disk'
    (tmp_path / 'root' / 'etc').mkdir(parents=True)
    (tmp_path / 'root' / 'out').symlink_to(tmp_path)
    (tmp_path / 'root' / 'etc' / 'x').write_text('before')
    (tmp_path / 'root' / 'etc' / 'network').mkdir()
    subprocess.run(['mke2fs', '-q', '-t', 'ext4', '-d', str(tmp_path / 'root'), str(base), '16M'], check=True)
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'raw', '-b', str(base), str(disk)], check=True)
    made = xml.Disk(str(disk), 'qcow2', 'vda')
    injection.write(made, [('/etc/x', b'one'), ('new/y', b'\0two')], injection.WHOLE, 'auto lo')
    with pytest.raises(exception.VirtError):
        injection.write(made, [('/out/z', b'1')], injection.WHOLE)
    assert not (tmp_path / 'z').exists()
    subprocess.run(['qemu-img', 'convert', '-O', 'raw', str(disk), str(tmp_path / 'flat')], check=True)
    read = [subprocess.run(['debugfs', '-R', f'cat {name}', str(tmp_path / 'flat')], capture_output=True).stdout
            for name in ('/etc/x', '/new/y', '/etc/network/interfaces')]
    assert read == [b'one', b'\0two', b'auto lo']

    def look(request):
        return subprocess.run(['debugfs', '-R', request, str(tmp_path / 'flat')], capture_output=True, text=True).stdout
    assert re.search(r'Mode:\s+0440', look('stat /etc/x')) and re.search(r'User:\s+0\s+Group:\s+0', look('stat /etc/x'))
    kept, = re.findall(r'x\.bak\.\d{10}\.\d{4}', look('ls /etc'))
    assert look(f'cat /etc/{kept}') == 'before'
