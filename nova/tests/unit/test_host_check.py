"""tools/host_check.py: what prevents or spoils an installation, from facts that machines have printed."""
import dataclasses
import importlib
import pathlib
import socket
import sys
import time

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nID=debian\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.2 LTS"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n'
MINT = 'PRETTY_NAME="Linux Mint 22"\nID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n' \
    'UBUNTU_CODENAME=noble\n'
FEDORA = 'PRETTY_NAME="Fedora Linux 42"\nID=fedora\nVERSION_ID=42\n'
HARDWARE = 'flags\t\t: fpu vme de pse tsc msr pae vmx smx est\n'
NESTED = 'flags\t\t: fpu vme de pse tsc msr pae vmx hypervisor lahf_lm\n'
GUEST = 'flags\t\t: fpu vme de pse tsc msr pae hypervisor lahf_lm\n'
# journalctl --dmesg of an Ubuntu 24.04, shortened
DENIED = '''\
kernel: audit: type=1400 audit(1732000000.123:77): apparmor="DENIED" operation="userns_create" class="namespace" \
info="Userns create restricted - failed to find unprivileged_userns profile" error=-13 \
profile="unconfined" pid=4242 comm="bwrap" requested="userns_create" denied="userns_create"
kernel: audit: type=1400 audit(1732000001.456:78): apparmor="DENIED" operation="open" profile="libvirt-1f0c" \
name="/srv/images/base.qcow2" pid=999 comm="qemu-system-x86" requested_mask="r" denied_mask="r" fsuid=64055 ouid=0
kernel: audit: type=1400 audit(1732000002.789:79): apparmor="DENIED" operation="open" profile="snap.firefox.firefox" \
name="/etc/fstab" pid=5 comm="firefox" requested_mask="r" denied_mask="r"
'''
UFW_RULES = '''\
table ip filter {
	chain INPUT {
		type filter hook input priority filter; policy drop;
		counter packets 0 bytes 0 jump ufw-before-input
	}
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
}
table bridge nova_br_nova {
	chain forward {
		type filter hook forward priority 0; policy drop;
	}
}
'''

pytestmark = pytest.mark.skipif(not (TOOLS / 'host_check.py').exists(),
                                reason='tools are not part of an installed nova')


@pytest.fixture
def check(monkeypatch):
    monkeypatch.setattr(sys, 'path', [str(TOOLS), *sys.path])
    return importlib.import_module('host_check')


@pytest.fixture
def good(check):
    """Facts of a machine without any finding."""
    return check.Facts(
        root=True, os_release=DEBIAN, python=(3, 13), meminfo='MemTotal:       16307852 kB\n',
        room=[('/opt and /var/lib', 9000, 2400), ('/tmp', 9000, 300)], cpuinfo=HARDWARE, kvm_device=True,
        addresses={'eth0': ['192.0.2.0/24']}, now=time.time(), commit_time=1_700_000_000, clock_off_s=0.4)


def test_a_good_machine_has_no_finding(check, good):
    assert check.findings(good, check.Wanted()) == []


@pytest.mark.parametrize('kind, word, changed', [
    ('error', '3.11 is needed', {'python': (3, 10)}),
    ('error', 'Fedora Linux 42', {'os_release': FEDORA}),
    ('warning', 'ubuntu-24.04', {'os_release': MINT}),
    ('note', 'not run there', {'os_release': UBUNTU}),
    ('warning', 'dpkg --configure -a', {'dpkg_audit': 'The following packages are only half configured\n libc6\n'}),
    ('error', 'nova-compute.service', {'units': ['nova-compute.service']}),
    ('error', 'MiB of memory', {'meminfo': 'MemTotal:         983040 kB\n'}),
    ('warning', 'few guests fit', {'meminfo': 'MemTotal:        1572864 kB\n'}),
    ('error', '700 MiB are free at /var/lib and 1500 are needed', {'room': [('/var/lib', 700, 1500)]}),
    ('warning', 'firmware', {'cpuinfo': 'flags\t\t: fpu vme\n'}),
    ('warning', 'nested virtualisation', {'cpuinfo': GUEST, 'kvm_device': False}),
    ('warning', '/dev/kvm is missing', {'kvm_device': False}),
    ('note', 'guests are nested', {'cpuinfo': NESTED}),
    ('note', 'IPv6 is switched off', {'ipv6': False}),
    ('warning', 'firewalld', {'firewalld': True}),
    ('warning', 'ufw', {'ufw': 'Status: active\n', 'ruleset': UFW_RULES}),
    ('warning', 'table ip filter, chain INPUT, table ip filter, chain FORWARD)', {'ruleset': UFW_RULES}),
    ('error', 'Address already in use', {'port_taken': 'Address already in use'}),
    ('error', 'name server', {'unresolved': ['packages.example']}),
    ('error', 'before this release was made', {'now': 1_000_000_000}),
    ('error', '3600 s ahead of', {'clock_off_s': 3600.0}),
    ('error', '400 s behind', {'clock_off_s': -400.0}),
    ('warning', 'SELinux is enforcing', {'selinux': '1\n'}),
    ('note', 'nova-bwrap', {'userns_by_profile': True}),
    ('error', '10.44.0.0/24, a network of the cloud, overlaps 10.0.0.0/8 of tun0',
     {'addresses': {'tun0': ['10.0.0.0/8']}}),
    ('error', '172.24.4.0/24, a network of the cloud, overlaps 172.24.0.0/16 of docker0',
     {'addresses': {'docker0': ['172.24.0.0/16']}}),
])
def test_a_problem_is_one_sentence_with_the_remedy(check, good, kind, word, changed):
    found = check.findings(dataclasses.replace(good, **changed), check.Wanted())
    assert len(found) == 1, found
    assert found[0][0] == kind and word in found[0][1]


def test_denials_of_apparmor_name_what_the_cloud_uses(check, good):
    found = [sentence for _, sentence in check.findings(dataclasses.replace(good, journal=DENIED), check.Wanted())]
    assert len(found) == 2
    assert 'userns_create of bwrap' in found[0] and 'open of /srv/images/base.qcow2 to libvirt-1f0c' in found[1]


def test_passwords_of_proxies_are_not_printed(check, good):
    facts = dataclasses.replace(good, proxies={'https_proxy': 'http://me:secret@proxy.example:3128'})
    found = check.findings(facts, check.Wanted())
    assert [kind for kind, _ in found] == ['note']
    assert 'secret' not in found[0][1] and '***@proxy.example' in found[0][1]


def test_hosts_of_package_sources_are_found_without_credentials(check):
    text = ('deb https://me:secret@private.example/debian trixie main\n# deb http://old.example/ x\n'
            'URIs: http://packages.example/debian\n')
    assert check._hosts_in(text) == {'private.example': False, 'packages.example': True}


def test_a_proxy_resolves_names_itself(check, good):
    facts = dataclasses.replace(good, unresolved=['packages.example'], proxies={'https_proxy': 'http://proxy.example:3128'})
    assert [kind for kind, _ in check.findings(facts, check.Wanted())] == ['note']


def test_simulated_guests_need_no_processor_and_no_networks(check, good):
    facts = dataclasses.replace(good, root=False, cpuinfo='', addresses={'tun0': ['10.0.0.0/8']}, firewalld=True)
    assert [kind for kind, _ in check.findings(facts, check.Wanted())] == ['note']


def test_other_ranges_and_own_bridges_do_not_overlap(check, good):
    facts = dataclasses.replace(good, addresses={'tun0': ['10.0.0.0/8'], 'br-nova': ['172.24.4.0/24']})
    assert check.findings(facts, check.Wanted(guests='192.168.77.0/24')) == []


def test_a_port_that_is_taken_is_found(check):
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        wanted = check.Wanted(driver='fake', port=other.getsockname()[1])
        assert check._port_taken(wanted) == 'Address already in use'
    assert check._port_taken(check.Wanted(port=0)) == ''


@pytest.mark.parametrize('place', ['etc', 'usr/local/lib', 'usr/lib', 'lib'])
def test_units_of_another_installation_are_found(check, tmp_path, place):
    """Those of packages were not: an installation on a host of a fleet took its state directory."""
    own, other = tmp_path / 'etc/systemd/system', tmp_path / place / 'systemd/system'
    (own / 'nova-all.service.d').mkdir(parents=True)
    other.mkdir(parents=True, exist_ok=True)
    for file in (own / 'nova-all.service', own / 'nova-all.service.d/quickstart.conf', other / 'ssh.service'):
        file.touch()
    assert check.other_units(tmp_path) == []
    (other / 'nova-compute.service').touch()
    assert check.other_units(tmp_path) == ['nova-compute.service']


def test_unit_of_a_package_counts_beside_one_of_the_installation(check, tmp_path):
    for place in ('etc/systemd/system/nova-all.service.d', 'usr/lib/systemd/system'):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / 'etc/systemd/system/nova-all.service.d/quickstart.conf').touch()
    (tmp_path / 'usr/lib/systemd/system/nova-all.service').touch()
    assert check.other_units(tmp_path) == ['nova-all.service']


def test_facts_of_this_machine_are_read(check):
    facts = check.facts(check.Wanted(port=0))
    assert facts.python == sys.version_info[:2] and 'MemTotal' in facts.meminfo and facts.room


@pytest.mark.parametrize('root, needed', [
    (True, {'/opt': 900, '/srv/nova': 1500, '/tmp': 300}), (False, {'/srv/nova': 2400, '/tmp': 300})])
def test_room_is_needed_where_an_installation_writes(check, root, needed):
    assert check.needed_mib(check.Wanted(state_path='/srv/nova'), root) == needed


def test_directories_on_one_file_system_share_its_room(check, tmp_path):
    (tmp_path / 'srv').mkdir()
    (places, _free, needed), = check._room_of(dict.fromkeys(
        (str(tmp_path), str(tmp_path / 'srv'), str(tmp_path / 'none' / 'state')), 500))
    assert (places, needed) == (f'{tmp_path} and {tmp_path / "srv"}', 1500)


@pytest.fixture
def distribution(check):
    return importlib.import_module('distribution')


@pytest.mark.parametrize('text, architecture, requirement, expected', [
    (DEBIAN, 'amd64', 'spice', ['qemu-system-modules-spice']),
    (DEBIAN.replace('13', '12'), 'amd64', 'spice', ['qemu-system-common']),
    (DEBIAN, 'amd64', 'guest-kernel', ['linux-image-cloud-amd64']),
    (DEBIAN, 'arm64', 'guest-kernel', ['linux-image-cloud-arm64']),
    (UBUNTU, 'amd64', 'guest-kernel', ['linux-image-virtual']),
    (UBUNTU, 'amd64', 'browser', []),
    (DEBIAN.replace('13', '14'), 'amd64', 'python-libvirt', ['python3-libvirt']),
])
def test_a_requirement_has_packages_for_each_distribution(distribution, text, architecture, requirement, expected):
    table = distribution.TABLE.read_text()
    found = distribution.packages_for([requirement], distribution.parse_os_release(text), architecture, table)
    assert found == expected


@pytest.mark.parametrize('text, expected', [
    (UBUNTU.replace('24.04', '22.04'), 'ubuntu-24.04'), (UBUNTU.replace('24.04', '25.10'), 'ubuntu-24.04'),
    (UBUNTU.replace('24.04', '26.10'), 'ubuntu-26.04'), (MINT, 'ubuntu-24.04'),
    (MINT.replace('noble', 'resolute').replace('22', '23'), 'ubuntu-26.04'),
    (MINT.replace('noble', 'jammy').replace('22', '21'), 'ubuntu-24.04'),
    ('ID=linuxmint\nID_LIKE=debian\nVERSION_ID="6"\nDEBIAN_CODENAME=bookworm\n', 'debian-12'),
    ('ID=debian\n', 'debian-13')])
def test_an_unknown_release_has_packages_of_one_that_is_not_newer(distribution, text, expected):
    columns, rows = distribution.parse_table(distribution.TABLE.read_text())
    assert columns[distribution.column_of(distribution.parse_os_release(text), columns, rows)] == expected


def test_an_unknown_requirement_or_distribution_is_a_sentence(distribution):
    table = distribution.TABLE.read_text()
    with pytest.raises(distribution.Unknown, match="no requirement 'gcc'"):
        distribution.packages_for(['gcc'], distribution.parse_os_release(DEBIAN), 'amd64', table)
    with pytest.raises(distribution.Unknown, match='Package names of Fedora Linux 42 are unknown'):
        distribution.packages_for(['run'], distribution.parse_os_release(FEDORA), 'amd64', table)


def test_no_other_file_depends_on_a_release():
    """Only the table knows the releases of distributions."""
    allowed = {'distribution.py', 'distributions.tsv', 'debian-guest.sh'}        # the last one: the release of a guest
    for path in TOOLS.glob('*'):
        if path.is_file() and path.name not in allowed and path.suffix in ('.sh', '.py'):
            text = path.read_text()
            for word in ('bookworm', 'trixie', 'VERSION_CODENAME', 'lsb_release', 'debian_version'):
                assert word not in text, (path.name, word)
