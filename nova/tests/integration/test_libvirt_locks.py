"""Disks are locked by virtlockd as well as by QEMU; the needs are those of moving.py, and libvirt's virtlockd.

A QEMU that does not look at its own locks, as one of another host does whose storage knows none, is refused by libvirt.
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.integration import moving
from nova.tests.support import libvirt as base

pytestmark = [moving.needed, pytest.mark.skipif(not shutil.which('virtlockd'), reason='virtlockd is not installed')]
ONE, TWO = 'compute1', 'compute2'
BLIND_QEMU = r"""#!/bin/bash
arguments=()
for word in "$@"; do arguments+=("${word//\"driver\":\"file\"/\"driver\":\"file\",\"locking\":\"off\"}"); done
exec qemu-system-x86_64 "${arguments[@]}"
"""


@pytest.fixture(scope='module')
def fleet():
    """Two hosts with one directory of guests, whose libvirts ask a virtlockd each."""
    with contextlib.ExitStack() as stack:
        def lock(made):
            for name in made.names:
                place = made.cluster.hosts.directory(name)
                with (place / 'etc' / 'qemu.conf').open('a') as file:
                    file.write('lock_manager = "lockd"\n')
                (place / 'etc' / 'qemu-lockd.conf').write_text('auto_disk_leases = 1\nrequire_lease_for_disks = 1\n')
                (place / 'etc' / 'virtlockd.conf').write_text('')
                words = made.cluster.hosts.in_namespace(name, 'setpriv', '--pdeathsig', 'KILL', 'virtlockd')
                process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL)
                stack.callback(process.wait)
                stack.callback(process.kill)
                socket = place / 'run' / 'libvirt' / 'virtlockd-sock'
                waiting.wait_for(socket.exists, 20, 'virtlockd to listen')
        with moving.hosts(prepare=lock, share='shared') as made:
            yield made


@long_runs.only
def test_a_disk_that_a_guest_has_is_refused_to_a_qemu_that_sees_no_lock(fleet):
    instance = fleet.spawn(ONE)
    blind = pathlib.Path(fleet.directory / 'blind-qemu')
    blind.write_text(BLIND_QEMU)
    blind.chmod(0o755)
    text = fleet.virsh(ONE, 'dumpxml', '--inactive', instance.uuid)
    text = re.sub(r'<emulator>.*?</emulator>', f'<emulator>{blind}</emulator>', text)
    text = re.sub(r'<serial.*?</serial>|<console.*?</console>|<log .*?/>', '', text, flags=re.DOTALL)
    (fleet.directory / 'second.xml').write_text(text)
    with pytest.raises(RuntimeError, match='Lockspace resource'):
        fleet.virsh(TWO, 'create', str(fleet.directory / 'second.xml'))
    assert instance.uuid in fleet.guests()[ONE] and fleet.guests()[TWO] == {}
    fleet.drivers[ONE].power_off(instance)
    fleet.virsh(TWO, 'create', str(fleet.directory / 'second.xml'))          # nobody has it: it was the lock
    with pytest.raises(Exception, match='Lockspace resource'):
        fleet.drivers[ONE].power_on(None, instance, [])
    fleet.virsh(TWO, 'destroy', instance.uuid)
    fleet.drivers[ONE].power_on(None, instance, [])
    assert fleet.drivers[ONE].power_state(instance) == base.states.RUNNING
    fleet.clear()
    assert os.listdir(fleet.directory / 'shared' / 'instances') == ['_base']
