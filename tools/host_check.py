"""Report problems of this machine for a cloud, each in one sentence with the remedy. Nothing is changed.

usage: host_check.py [--problems] [--driver D] [--state-path P] [--listen A] [--port N] [--guests CIDR] [--outside CIDR]

``error`` prevents an installation (exit code 1), ``warning`` spoils it, ``note`` is information. --problems prints
errors and warnings only. ``facts`` reads the machine, ``findings`` decides: tests give it recorded facts. Standard
library only.
"""
import argparse
import concurrent.futures
import dataclasses
import email.utils
import http.client
import ipaddress
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import distribution

ERROR, WARNING, NOTE = 'error', 'warning', 'note'
MEMORY_MIB, COMFORTABLE_MIB = 1024, 2048
PROGRAMS_MIB, STATE_MIB, TEMPORARY_MIB = 900, 1500, 300       # measured, with a reserve
ANSWER_S = 5                             # of a name server, and of a package server
CLOCK_S = 300                            # certificates and tokens bear so much
OUR_DEVICES = ('br-nova', 'nb', 'nx', 'nd', 'lo')
COMMAND_S = 10
UNITS = pathlib.Path(__file__).parents[1] / 'etc' / 'systemd'            # this product's; a bundle may lack them
UNIT_PLACES = ('etc/systemd/system', 'usr/local/lib/systemd/system', 'usr/lib/systemd/system', 'lib/systemd/system')
PROXIES = ('http_proxy', 'https_proxy', 'HTTPS_PROXY')


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The requested installation."""
    driver: str = 'auto'
    state_path: str = '/var/lib/nova'
    listen: str = '127.0.0.1'
    port: int = 8774
    guests: str = '10.44.0.0/24'
    outside: str = '172.24.4.0/24'


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts of the machine. Texts come from the kernel or from a command; '' if there is none."""
    root: bool
    os_release: str = ''
    python: tuple[int, int] = (3, 11)
    meminfo: str = ''
    room: list[tuple[str, int, int]] = dataclasses.field(default_factory=list)      # of _room_of
    cpuinfo: str = ''
    kvm_device: bool = False
    ipv6: bool = True
    addresses: dict[str, list[str]] = dataclasses.field(default_factory=dict)    # device: CIDRs of its routes
    port_taken: str = ''                 # the error of bind()
    ruleset: str = ''                    # nft list ruleset
    ufw: str = ''                        # ufw status
    firewalld: bool = False
    selinux: str = ''                    # of /sys/fs/selinux/enforce
    userns_by_profile: bool = False      # kernel.apparmor_restrict_unprivileged_userns
    journal: str = ''                    # of the kernel
    proxies: dict[str, str] = dataclasses.field(default_factory=dict)
    unresolved: list[str] = dataclasses.field(default_factory=list)
    clock_off_s: float | None = None     # ahead of the package server's; None: not known
    commit_time: int = 0                 # of this tree
    now: float = 0.0
    dpkg_audit: str = ''
    units: list[str] = dataclasses.field(default_factory=list)      # of this product, not written by quickstart.sh


def findings(facts, wanted):
    """Return [(ERROR, WARNING or NOTE, sentence)] in the order of the checks."""
    libvirt = wanted.driver == 'libvirt' or (wanted.driver == 'auto' and facts.root)
    found = [*_software(facts), *_room(facts), *_clock(facts), *_way_out(facts), *_port(facts, wanted)]
    if libvirt:
        found += [*_processor(facts), *_networks(facts, wanted), *_firewall(facts), *_confinement(facts)]
    return found


def _software(facts):
    os_release = distribution.parse_os_release(facts.os_release)
    if facts.python < (3, 11):
        yield ERROR, (f'python3 is {facts.python[0]}.{facts.python[1]} and 3.11 is needed: install a newer Python and '
                      'name it with NOVA_PYTHON=/path/to/python3.')
    if not facts.root:
        yield NOTE, 'Not root: servers are simulated. Run this as root for real guests.'
        return
    columns, rows = distribution.parse_table(distribution.TABLE.read_text())
    try:
        column = columns[distribution.column_of(os_release, columns, rows)]
        if column != f"{os_release.get('ID')}-{os_release.get('VERSION_ID')}":
            yield WARNING, (f'{distribution.name_of(os_release)} is not in tools/distributions.tsv: the package names '
                            f'of {column} are used.')
        elif not column.startswith('debian'):
            yield NOTE, f'Package names of {column} are from its public lists; this product was not run there.'
    except distribution.Unknown as error:
        yield ERROR, f'{error} Use Debian or Ubuntu, or simulate guests with --driver fake as an ordinary user.'
    if facts.dpkg_audit:
        yield WARNING, ('An earlier run of dpkg did not end: the installation completes it (dpkg --configure -a) '
                        'before it begins.')
    if facts.units:
        yield ERROR, (f"Units of another installation are here ({', '.join(facts.units)}), of a fleet or from "
                      'packages. Remove that installation first, or use another machine.')


def _room(facts):
    memory = re.search(r'^MemTotal:\s+(\d+) kB', facts.meminfo, re.M)
    mib = int(memory[1]) // 1024 if memory else None
    if mib is not None and mib < MEMORY_MIB:
        yield ERROR, f'The machine has {mib} MiB of memory and {MEMORY_MIB} are needed: give it more.'
    elif mib is not None and mib < COMFORTABLE_MIB:
        yield WARNING, f'The machine has {mib} MiB of memory: the cloud takes 400, so few guests fit.'
    for places, free, needed in facts.room:
        if free < needed:
            yield ERROR, f'{free} MiB are free at {places} and {needed} are needed: free some, or make it larger.'


def needed_mib(wanted, root):
    """{directory: MiB that an installation writes there}. Without root, programs are in the state directory."""
    needed = {wanted.state_path: STATE_MIB, '/tmp': TEMPORARY_MIB}
    programs = '/opt' if root else wanted.state_path
    return {**needed, programs: needed.get(programs, 0) + PROGRAMS_MIB}


def _clock(facts):
    if facts.commit_time and facts.now < facts.commit_time:
        day = time.strftime('%Y-%m-%d', time.gmtime(facts.commit_time))
        yield ERROR, (f"The clock says {time.strftime('%Y-%m-%d', time.gmtime(facts.now))}, before this release was "
                      f'made ({day}): set it (timedatectl set-ntp true), or certificates and tokens are not valid.')
    elif facts.clock_off_s is not None and abs(facts.clock_off_s) > CLOCK_S:
        side = 'ahead of' if facts.clock_off_s > 0 else 'behind'
        yield ERROR, (f'The clock is {abs(facts.clock_off_s):.0f} s {side} the package server: set it '
                      '(timedatectl set-ntp true), or certificates and tokens are not valid.')


def _way_out(facts):
    if facts.unresolved and not facts.proxies:
        yield ERROR, (f"No name server answers for {', '.join(facts.unresolved)}, where packages come from: correct "
                      '/etc/resolv.conf, or set https_proxy.')
    for name, value in sorted(facts.proxies.items()):
        yield NOTE, (f'{name} is set ({_without_password(value)}): packages come through it; requests to the cloud '
                     'itself do not.')


def _without_password(url):
    return re.sub(r'//[^/@]*@', '//***@', url)


def _port(facts, wanted):
    if facts.port_taken:
        yield ERROR, _refused_address(wanted.listen, wanted.port, facts.port_taken)


def _refused_address(listen, port, reason):
    return f'{listen} port {port} cannot be listened on ({reason}): choose others with --listen and --port.'


def _processor(facts):
    flags = set(re.findall(r'\b(?:vmx|svm|hypervisor)\b', facts.cpuinfo))
    hardware = flags & {'vmx', 'svm'}
    if 'hypervisor' in flags and not hardware:
        yield WARNING, ('This is a virtual machine without nested virtualisation: guests are emulated, ten times '
                        'slower. Switch it on at the outer host (kvm_intel or kvm_amd, nested=1; processor '
                        'host-passthrough).')
    elif not hardware:
        yield WARNING, ('The processor has no virtualisation, or the firmware switched it off: guests are emulated, '
                        'ten times slower. Switch on VT-x or SVM in the firmware.')
    elif not facts.kvm_device:
        yield WARNING, '/dev/kvm is missing: guests are emulated, ten times slower. Load kvm_intel or kvm_amd.'
    elif 'hypervisor' in flags:
        yield NOTE, 'This is a virtual machine: guests are nested and somewhat slower than on hardware.'


def _networks(facts, wanted):
    if not facts.ipv6:
        yield NOTE, 'IPv6 is switched off: guests have IPv4 alone. Remedy: sysctl net.ipv6.conf.all.disable_ipv6=0.'
    for option, cidr in (('--guests', wanted.guests), ('--outside', wanted.outside)):
        ours = ipaddress.ip_network(cidr)
        for device, used in sorted(facts.addresses.items()):
            if device.startswith(OUR_DEVICES):
                continue
            for text in used:
                other = ipaddress.ip_network(text, strict=False)
                if other.version == ours.version and other.prefixlen and ours.overlaps(other):
                    yield ERROR, (f'{cidr}, a network of the cloud, overlaps {other} of {device} here: choose another '
                                  f'one with {option}.')
                    break


def _firewall(facts):
    remedy = 'for the bridges br-nova and nb*'
    if facts.firewalld:
        yield WARNING, (f'firewalld is active and drops what guests send: firewall-cmd --permanent --zone=trusted '
                        f'--add-interface=br-nova ({remedy}), then firewall-cmd --reload.')
    if re.search(r'^Status: active', facts.ufw, re.M):
        yield WARNING, ('ufw is active and drops what guests send: ufw allow in on br-nova; ufw route allow in on '
                        f'br-nova ({remedy}).')
    dropping = _dropping(facts.ruleset)
    if dropping and not facts.firewalld and 'Status: active' not in facts.ufw:
        yield WARNING, (f"The packet filter drops by default ({', '.join(dropping)}): accept packets there {remedy}.")


def _dropping(ruleset):
    """Return the base chains of others that drop input or forwarded packets by default, as 'table T, chain C'."""
    found, table, chain = [], '', ''
    for line in ruleset.splitlines():
        words = line.split()
        if words[:1] == ['table']:
            table = ' '.join(words[1:3])
        elif words[:1] == ['chain']:
            chain = words[1]
        elif 'policy drop' in line and re.search(r'hook (input|forward)\b', line) and not re.search(r'\bnova', table):
            found.append(f'table {table}, chain {chain}')
    return found


def _confinement(facts):
    if facts.selinux.strip() == '1':
        yield WARNING, ('SELinux is enforcing, and this product has no policy of its own for it: libvirt confines '
                        'guests, the services run unconfined. Denials are in ausearch -m avc.')
    if facts.userns_by_profile:
        yield NOTE, ('AppArmor lets programs make user namespaces by profile only: etc/apparmor/nova-bwrap is '
                     'installed for the sandbox that reads images.')
    for profile, operation, name in _denials(facts.journal):
        yield WARNING, (f'AppArmor denied {operation} of {name} to {profile}: guests or their networks may fail. '
                        f'Allow it in /etc/apparmor.d/local, or aa-complain {profile}.')


def _denials(journal):
    """Return {(profile, operation, name)} of AppArmor's denials for programs of the cloud."""
    found = {}
    for line in (line for line in journal.splitlines() if 'apparmor="DENIED"' in line):
        values = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if re.search(r'libvirt|qemu|swtpm|dnsmasq|bwrap|nova', values.get('profile', '') + values.get('comm', '')):
            name = values.get('name', values.get('comm', '?'))
            found[values.get('profile', '?'), values.get('operation', '?'), name] = True
    return list(found)


# ---- reading the machine ------------------------------------------------------------
def facts(wanted):
    """Read the Facts of this machine. Each check takes at most a few seconds and changes nothing."""
    hosts = _package_hosts()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        unresolved = pool.submit(_unresolved, hosts)
        clock = pool.submit(_clock_off, hosts)
        return Facts(
            root=os.geteuid() == 0, os_release=_text('/etc/os-release'), python=sys.version_info[:2],
            meminfo=_text('/proc/meminfo'), room=_room_of(needed_mib(wanted, os.geteuid() == 0)),
            cpuinfo=_text('/proc/cpuinfo'), kvm_device=os.path.exists('/dev/kvm'),
            ipv6=_text('/proc/sys/net/ipv6/conf/all/disable_ipv6').strip() == '0', addresses=_addresses(),
            port_taken=_port_taken(wanted), ruleset=_output('nft', 'list', 'ruleset'), ufw=_output('ufw', 'status'),
            firewalld=_output('systemctl', 'is-active', 'firewalld').strip() == 'active',
            selinux=_text('/sys/fs/selinux/enforce'),
            userns_by_profile=_text('/proc/sys/kernel/apparmor_restrict_unprivileged_userns').strip() == '1',
            journal=_output('journalctl', '--dmesg', '--no-pager', '--lines=5000'),
            proxies=_apt_proxy() | {name: os.environ[name] for name in PROXIES if os.environ.get(name)},
            commit_time=int(_output('git', '-C', str(pathlib.Path(__file__).parent), 'log', '-1', '--format=%ct') or 0),
            now=time.time(), dpkg_audit=_output('dpkg', '--audit'), units=other_units(),
            unresolved=unresolved.result(), clock_off_s=clock.result())


def _text(path):
    try:
        return pathlib.Path(path).read_text(errors='replace')
    except OSError:
        return ''


def _output(*command):
    """Return the output of a command; '' if it is missing, fails or takes too long."""
    if not shutil.which(command[0], path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin'):
        return ''
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=COMMAND_S,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ''
    return done.stdout if done.returncode == 0 else ''


def _room_of(needed):
    """[(directories on one file system, MiB free there, MiB needed there)].

    :param needed: of ``needed_mib``
    """
    found = {}
    for path, mib in needed.items():
        place = pathlib.Path(path)
        while not place.exists():
            place = place.parent
        places, needs = found.setdefault(place.stat().st_dev, ({}, []))
        places[str(place)] = shutil.disk_usage(place).free // (1 << 20)
        needs.append(mib)
    return [(' and '.join(places), min(places.values()), sum(needs)) for places, needs in found.values()]


def _addresses():
    """{device: CIDRs of its IPv4 routes}. The table of routes has those of addresses as well."""
    found = {}
    for line in _text('/proc/net/route').splitlines()[1:]:
        device, destination, _, _, _, _, _, mask = line.split()[:8]
        number, bits = (int.from_bytes(bytes.fromhex(text)[::-1], 'big') for text in (destination, mask))
        if bits:
            found.setdefault(device, []).append(f'{ipaddress.IPv4Address(number)}/{bits.bit_count()}')
    return found


def address_problem(listen, port, tried):
    """Return the sentence about an address that cannot be listened on, or None.

    :param tried: the port, or 0 to ask for the address only
    """
    reason = _port_taken(Wanted(listen=listen, port=int(tried)))
    return _refused_address(listen, port, reason) if reason else None


def _port_taken(wanted):
    family = socket.AF_INET6 if ':' in wanted.listen else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((wanted.listen, wanted.port))
    except OSError as error:
        return error.strerror or str(error)
    return ''


def _package_hosts():
    """[(host, whether plain HTTP)] of apt's sources."""
    places = [pathlib.Path('/etc/apt/sources.list'), *pathlib.Path('/etc/apt/sources.list.d').glob('*.*')]
    text = '\n'.join(_text(place) for place in places if place.suffix in ('.list', '.sources'))
    return sorted(_hosts_in(text).items())


def _hosts_in(sources):
    found = {}
    for line in sources.splitlines():
        entry = '' if line.lstrip().startswith('#') else line
        for scheme, host in re.findall(r'\b(https?)://(?:[^\s/@]*@)?([\w.-]+)', entry):
            found[host] = found.get(host, False) or scheme == 'http'
    return found


def _apt_proxy():
    found = re.search(r"proxy='(https?://.+)'", _output('apt-config', 'shell', 'proxy', 'Acquire::http::Proxy'))
    return {'Acquire::http::Proxy': found[1]} if found else {}


def _unresolved(hosts):
    def known(host):
        try:
            return bool(socket.getaddrinfo(host, 80, proto=socket.IPPROTO_TCP))
        except OSError:
            return False
    pool = concurrent.futures.ThreadPoolExecutor(max(1, len(hosts)))
    asked = {host: pool.submit(known, host) for host, _ in hosts}
    answered, _ = concurrent.futures.wait(asked.values(), ANSWER_S)
    pool.shutdown(wait=False, cancel_futures=True)
    return [host for host, future in asked.items() if future not in answered or not future.result()]


def _clock_off(hosts):
    """Return the seconds by which the clock is ahead of a package server's, or None if no server responds."""
    for host in [host for host, plain in hosts if plain][:2]:
        try:
            connection = http.client.HTTPConnection(host, timeout=ANSWER_S)
            connection.request('HEAD', '/')
            theirs = email.utils.parsedate_to_datetime(connection.getresponse().headers['Date'])
            return time.time() - theirs.timestamp()
        except (OSError, http.client.HTTPException, TypeError, ValueError):
            continue
    return None


def other_units(root='/'):
    """Return the names of this product's units that tools/quickstart.sh has not written, also of packages."""
    found, names = set(), {path.name for path in UNITS.glob('nova-*.service')}
    for place in UNIT_PLACES:
        for path in pathlib.Path(root, place).glob('nova-*.service'):
            own = path.with_name(f'{path.name}.d') / 'quickstart.conf'
            if path.is_file() and not own.exists() and (path.name in names or not names):
                found.add(path.name)
    return sorted(found)


def main():
    parser = argparse.ArgumentParser('host_check.py', allow_abbrev=False)
    parser.add_argument('--problems', action='store_true')
    for field in dataclasses.fields(Wanted):
        parser.add_argument('--' + field.name.replace('_', '-'), type=field.type, default=field.default)
    given = vars(parser.parse_args())
    problems = given.pop('problems')
    wanted = Wanted(**given)
    found = findings(facts(wanted), wanted)
    for kind, sentence in found:
        if kind != NOTE or not problems:
            print(f'{kind + ":":<9}{sentence}', file=sys.stderr if kind == ERROR else sys.stdout)
    errors = any(kind == ERROR for kind, _ in found)
    if not errors and not problems:
        print('Nothing prevents an installation.')
    sys.stdout.flush()
    os._exit(int(errors))                # a look-up that hangs is not waited for


if __name__ == '__main__':
    main()
