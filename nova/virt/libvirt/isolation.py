"""Check by libvirt's capabilities and qemu.conf how well guests are isolated from a compromised QEMU.

AppArmor or SELinux (sVirt) confines each guest to its own files by a unique label. Without labels all QEMU
processes run as the same user, who may write to all disks. https://libvirt.org/drvqemu.html describes the drivers.
"""
import contextlib
import re
from xml.etree import ElementTree as etree

LABELS = {'apparmor': 'AppArmor', 'selinux': 'SELinux'}              # secmodels with a label for each guest
QEMU_CONF = '/etc/libvirt/qemu.conf'
# Settings of qemu.conf that this service uses. LocalSteps.qemu_settings returns only these settings, not the passwords.
SETTINGS = ('security_default_confined', 'seccomp_sandbox', 'spice_tls', 'chardev_tls', 'migrate_tls_x509_cert_dir',
            'default_tls_x509_cert_dir')
SELINUX_ENFORCES = '/sys/fs/selinux/enforce'
_SETTING = re.compile(r'\s*(\w+)\s*=\s*"?([^"#\n]*)')
_IDS = re.compile(r'\+?(\w+):\+?(\w+)\Z')


def weaknesses(capabilities: etree.Element, settings: dict[str, str], selinux_enforces: bool) -> list[str]:
    """Return sentences on missing isolation between guests, or [] if none is missing.

    :param capabilities: root element of libvirt's capabilities
    :param settings: settings of qemu.conf, as returned by ``read_settings``
    :param selinux_enforces: whether SELinux is in enforcing mode
    """
    found = []
    models = {model.findtext('model'): model for model in capabilities.findall('./host/secmodel')}
    present = [LABELS[name] for name in models if name in LABELS]
    user, _group = _ids(models.get('dac'))
    if not present:
        found.append('libvirt has neither AppArmor nor SELinux: a guest that takes over its QEMU reads and writes the '
                     'disks of all other guests, because all QEMU processes run as the same user'
                     f'{f" ({user})" if user else ""}.')
    elif settings.get('security_default_confined', '1').strip() == '0':
        found.append(f'security_default_confined = 0 in {QEMU_CONF}: guests run without the label of {present[0]}.')
    elif 'selinux' in models and not selinux_enforces:
        found.append('SELinux is permissive: it logs the access of a guest to others, but does not prevent it.')
    if user in ('0', 'root'):
        found.append(f'QEMU runs as root (user in {QEMU_CONF}): a guest that takes it over controls this host.')
    if 'seccomp_sandbox' in settings and settings['seccomp_sandbox'].strip() == '0':
        found.append(f'seccomp_sandbox = 0 in {QEMU_CONF}: QEMU may make every system call.')
    return found


def of_this_host(capabilities: etree.Element, settings: dict[str, str]) -> list[str]:
    """Return the ``weaknesses`` of this host."""
    enforces = True
    with contextlib.suppress(OSError), open(SELINUX_ENFORCES) as file:
        enforces = file.read().strip() != '0'
    return weaknesses(capabilities, settings, enforces)


def read_settings(path: str) -> dict[str, str]:
    """Return {name: value} of a libvirt configuration file; empty if it is missing or unreadable."""
    with contextlib.suppress(OSError), open(path) as file:
        return {match[1]: match[2] for match in map(_SETTING.match, file) if match}
    return {}


def _ids(model: etree.Element | None) -> tuple[str, str]:
    """Return the default (user, group) of guests as text; empty if libvirt does not report them."""
    label = model.findtext('baselabel') if model is not None else None
    match = _IDS.match((label or '').strip())
    return (match[1], match[2]) if match else ('', '')
