"""What tests share with nova/tests/unit/test_libvirt_remote.py."""
import os
import shutil

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not (shutil.which('bwrap') and shutil.which('qemu-img')),
                                reason='needs root, bubblewrap and qemu-img')
