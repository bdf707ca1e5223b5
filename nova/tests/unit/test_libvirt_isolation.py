"""What libvirt says about keeping guests apart, as the sentences that operators get."""
import pathlib
from xml.etree import ElementTree as etree

import pytest

from nova import conf as nova_conf
from nova.virt.libvirt import isolation
from nova.virt.libvirt.privileged import steps

DAC = '<secmodel><model>dac</model><doi>0</doi><baselabel type="kvm">{0}</baselabel></secmodel>'
NONE = '<secmodel><model>none</model><doi>0</doi></secmodel>'
APPARMOR = '<secmodel><model>apparmor</model><doi>0</doi></secmodel>'
SELINUX = ('<secmodel><model>selinux</model><doi>0</doi><baselabel type="kvm">system_u:system_r:svirt_t:s0</baselabel>'
           '</secmodel>')
USER = DAC.format('+64055:+111')


@pytest.mark.parametrize(('models', 'settings', 'enforces', 'said'), [
    (APPARMOR + USER, {}, True, []),
    (SELINUX + USER, {}, True, []),
    (SELINUX + USER, {}, False, ['permissive']),
    (NONE + USER, {}, True, ['neither AppArmor nor SELinux']),
    (USER, {}, True, ['(64055)']),
    ('', {}, True, ['neither AppArmor nor SELinux']),
    (APPARMOR + USER, {'security_default_confined': '0'}, True, ['security_default_confined']),
    (APPARMOR + DAC.format('+0:+0'), {}, True, ['QEMU runs as root']),
    (NONE + DAC.format('root:root'), {'seccomp_sandbox': '0'}, True,
     ['neither AppArmor', 'QEMU runs as root', 'seccomp_sandbox']),
    (APPARMOR + USER, {'security_default_confined': '1', 'seccomp_sandbox': '1'}, True, []),
])
def test_missing_isolation_mechanisms_are_reported(models, settings, enforces, said):
    capabilities = etree.fromstring(f'<capabilities><host>{models}</host></capabilities>')
    found = isolation.weaknesses(capabilities, settings, enforces)
    assert len(found) == len(said) and all(part in text for part, text in zip(said, found, strict=True)), found


def test_settings_of_qemu_conf_are_parsed(tmp_path):
    path = pathlib.Path(tmp_path / 'qemu.conf')
    path.write_text('# a comment\n#user = "x"\nuser = "root"\n  security_default_confined=0 # said\n'
                    'cgroup_controllers = [ "cpu" ]\n')
    settings = isolation.read_settings(str(path))
    assert settings['user'] == 'root' and settings['security_default_confined'].strip() == '0'
    assert set(settings) == {'user', 'security_default_confined', 'cgroup_controllers'}
    assert isolation.read_settings(str(tmp_path / 'absent')) == {}


def test_passwords_of_qemu_conf_are_not_returned(tmp_path, monkeypatch):
    path = tmp_path / 'qemu.conf'
    path.write_text('vnc_password = "XYZ12345"\nspice_password = "secret"\nspice_tls = 1\nseccomp_sandbox = 0\n')
    monkeypatch.setattr(isolation, 'QEMU_CONF', str(path))
    assert steps.LocalSteps(nova_conf.new(files=[]), str(tmp_path)).qemu_settings() == {
        'spice_tls': '1', 'seccomp_sandbox': '0'}
