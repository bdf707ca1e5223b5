"""What tests share with nova/tests/integration/test_libvirt_walk.py."""
import subprocess

from nova.tests.support import libvirt as base


def _remove_guests(path):
    """Those below a directory that a failed test has left."""
    for name in subprocess.check_output(['virsh', '-c', base.URI, 'list', '--all', '--name'], text=True).split():
        found = subprocess.run(['virsh', '-c', base.URI, 'dumpxml', name], text=True, capture_output=True)
        if str(path) in found.stdout:
            subprocess.run(['virsh', '-c', base.URI, 'destroy', name], capture_output=True)
            subprocess.run(['virsh', '-c', base.URI, 'undefine', name, '--managed-save'], capture_output=True)
