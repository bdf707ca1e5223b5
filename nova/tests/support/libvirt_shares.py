"""What tests share with nova/tests/integration/test_libvirt_shares.py."""
import re
import subprocess

from nova.tests.support import libvirt as base

rig, instance = base.rig, base.instance


def answered(rig, instance, line, pattern):
    rig.type(instance, line)
    return base.wait_for(lambda: re.search(pattern, rig.console(instance)), base.BOOT_SECONDS, f'{pattern!r}')


def started(rig, instance):
    rig.driver.power_on(None, instance, [])
    base.wait_for(lambda: base.PROMPT in rig.console(instance), base.BOOT_SECONDS, 'the guest to boot')


def serving(instance):
    """The processes that serve shares of this guest."""
    return subprocess.run(['pgrep', '-f', f'source=.*{instance.uuid}'], stdout=subprocess.PIPE).stdout
