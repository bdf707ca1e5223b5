#!/usr/bin/env python3
"""Run the compute tests of tempest, unmodified from PyPI, against an all-in-one with the fake driver, or its scenario
tests against one with real guests of libvirt on this host.

    tools/tempest.py [--guest DIRECTORY [--networks]] [--keep] [--concurrency N] [--only REGEX] [--install DIRECTORY]

Tempest is installed into a separate environment. Failed tests are compared with tools/tempest-expected.tsv, or with
tools/tempest-guests-expected.tsv if ``--guest`` is given. A row has a test or a regular expression, and the reason. A
failure that is not in the list, or a listed test that passes, makes the exit code 1.

With ``--guest``, the directory of tools/guest-image.sh, tempest logs into the guests and looks at what they have
(``run_validation``). It needs root, libvirt, QEMU and e2fsprogs, and exclusive use of the bridges of this host.
With ``--networks``, the scenario tests of networks run too: guests in networks of projects, behind routers, with
floating addresses. The host routes their external network.
"""
import argparse
import http.client
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import local_cloud
import suites

EXPECTED = pathlib.Path(__file__).with_name('tempest-expected.tsv')
GUESTS_EXPECTED = pathlib.Path(__file__).with_name('tempest-guests-expected.tsv')
SCENARIOS_EXPECTED = pathlib.Path(__file__).with_name('tempest-network-scenarios-expected.tsv')
DIRECTORY = pathlib.Path.home() / '.cache/nova-tempest'
PACKAGES = ('tempest==47.0.0', 'python-subunit', 'junitxml')
TESTS = r'^tempest\.api\.compute'
GUEST_TESTS = r'^tempest\.scenario\.test_(minimum_basic|server_basic_ops|server_advanced_ops|volume_boot_pattern)'

CLOUD = ['[fake]', 'hosts = 2', '[network]', 'driver = fake', 'project_ranges = 0.0.0.0/0',
         '[quota]', 'instances = 50', 'cores = 100', 'ram = 204800',
         '[serial_console]', 'base_url = ws://127.0.0.1:6083/',
         '[spice]', 'html5proxy_base_url = http://127.0.0.1:6082/spice_auto.html',
         'spice_direct_proxy_base_url = http://127.0.0.1:13002/nova']

REAL_CLOUD = ['[quota]', 'instances = 50', 'cores = 100', 'ram = 204800',
              '[libvirt]', 'wait_soft_reboot_seconds = 20']
# what tempest types into a guest and the guest of tools/guest-image.sh has not
SHIMS = {'sudo': '#!/bin/sh\n[ "$1" = sh ] || [ "$1" != -E ] || shift\nexec "$@"\n',
         # blkid -L config-2 -o device
         'blkid': '#!/bin/sh\nfor disk in /dev/sr? /dev/vd? /dev/sd?; do\n  '
                  '[ "$(dd if=$disk bs=1 skip=32808 count=8 2>/dev/null)" = "$2" ] && echo $disk && exit\n'
                  'done\nexit 2\n',
         # lsblk -lb --nodeps, of which tempest reads columns
         'lsblk': '#!/bin/sh\nline() { printf "%-8s%-8s%-3s%-14s%-3s%s\\n" "$@"; }\nline NAME MAJ:MIN RM SIZE RO TYPE\n'
                  'for disk in /sys/block/[vs]d?; do\n  line ${disk##*/} $(cat $disk/dev) 0 '
                  '$(($(cat $disk/size) * 512)) 0 disk\ndone\n',
         'mkfs': '#!/bin/sh\nexec mkfs.$2 "$3"\n',
         'curl': '#!/bin/sh\n[ "$1" = -X ] && exec wget -q -O - --post-data "$4" "$5"\nexec wget -q -O - "$1"\n'}
MKFS_VFAT = '/sbin/mkfs.fat'  # of dosfstools, which the guest's image needs; the guest has the same library
REMOVE_S = 60
ROOT_AT = 25 << 20           # bytes before the root partition of that guest's disk

NETWORK_TESTS = r'^tempest\.scenario\.test_(network_(basic_ops|advanced_server_ops|v6)|security_groups_basic_ops)'
OUTSIDE = '172.24.4.0/24'
# what replaces lines of CONFIG where tests make networks of their own
NETWORKS = {'create_isolated_networks = false': 'create_isolated_networks = true',
            'fixed_network_name = private\n': '',
            'project_networks_reachable = true':
                'project_networks_reachable = false\npublic_network_id = {outside}\nfloating_network_name = public\n'
                'project_network_cidr = 10.100.0.0/16\nbuild_interval = 1\nbuild_timeout = 240',
            'ipv6 = false': 'ipv6 = true\nipv6_subnet_attributes = true',
            'floating_ips = false': 'floating_ips = true\nport_admin_state_change = true\nport_security = true',
            'img_container_format = bare': 'img_container_format = bare\ndhcp_client = udhcpc',
            'connect_method = fixed': 'connect_method = floating',
            'network_for_ssh = private\n': ''}

FILTERS = ('ComputeFilter', 'AvailabilityZoneFilter', 'ComputeCapabilitiesFilter', 'ImagePropertiesFilter',
           'SameHostFilter', 'DifferentHostFilter', 'ServerGroupAntiAffinityFilter', 'ServerGroupAffinityFilter')

CONFIG = """
[DEFAULT]
log_dir = {home}
[oslo_concurrency]
lock_path = {home}/locks
[auth]
use_dynamic_credentials = true
create_isolated_networks = false
admin_username = admin
admin_project_name = admin
admin_password = {password}
admin_domain_name = Default
[identity]
auth_version = v3
uri_v3 = {url}/identity/v3
region = {region}
[identity-feature-enabled]
api_v3 = true
api_v2 = false
[service_available]
nova = true
glance = true
neutron = true
cinder = {volumes}
swift = false
horizon = false
[compute]
min_compute_nodes = {hosts}
image_ref = {image}
image_ref_alt = {image_alt}
flavor_ref = {flavor}
flavor_ref_alt = {flavor_alt}
build_interval = {interval}
build_timeout = 240
ready_wait = 0
min_microversion = 2.1
max_microversion = latest
fixed_network_name = private
[compute-feature-enabled]
scheduler_enabled_filters = {filters}
resize = true
cold_migration = {several}
live_migration = {several}
block_migration_for_live_migration = true
live_migrate_back_and_forth = true
shelve_migrate = true
change_password = true
console_output = true
vnc_console = true
rescue = true
stable_rescue = true
interface_attach = true
swap_volume = true
volume_backed_live_migration = true
volume_multiattach = true
personality = true
hostname_fqdn_sanitization = true
spice_console = {simulated}
serial_console = {simulated}
nova_policy_roles = admin,manager,member,reader
metadata_service = {validation}
[enforce_scope]
nova = true
[volume]
min_microversion = 3.0
max_microversion = latest
volume_type_multiattach = multiattach
build_interval = 0
build_timeout = 240
[network]
project_networks_reachable = true
[network-feature-enabled]
ipv6 = false
floating_ips = false
[scenario]
img_file = {disk}
img_disk_format = raw
img_container_format = bare
[image]
build_interval = 0
build_timeout = 240
[validation]
run_validation = {validation}
connect_method = fixed
auth_method = keypair
image_ssh_user = root
network_for_ssh = private
ping_timeout = 120
ssh_timeout = 180
ssh_key_type = ecdsa
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--keep', action='store_true', help='leave logs and results in their directory')
    parser.add_argument('--concurrency', type=int, default=2, help='workers of tempest (%(default)s)')
    parser.add_argument('--only', help=f'regular expression of the tests to run ({TESTS}; with --guest {GUEST_TESTS})')
    parser.add_argument('--guest', type=pathlib.Path, help='directory of tools/guest-image.sh: real guests of libvirt')
    parser.add_argument('--networks', action='store_true', help='scenario tests of networks, with --guest')
    parser.add_argument('--install', type=pathlib.Path, default=DIRECTORY,
                        help="directory of tempest's environment (%(default)s)")
    given = parser.parse_args()
    if given.networks and not given.guest:
        parser.error('--networks needs --guest')
    directory = suites.install(given.install, PACKAGES)
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-tempest.'))
    tests = NETWORK_TESTS if given.networks else GUEST_TESTS if given.guest else TESTS
    given.only, given.timeout, given.output = given.only or tests, None, None
    cloud = local_cloud.LocalCloud('libvirt', REAL_CLOUD) if given.guest else local_cloud.LocalCloud('fake', CLOUD)
    try:
        print(f'The cloud serves after {cloud.start():.1f} s; logs are in {home} and {cloud.state}.', flush=True)
        configure(cloud, home, given.guest, make_outside(cloud) if given.networks else None, 1 if given.guest else 2)
        results = run(directory, home, given)
    finally:
        if given.guest:
            remove_servers(cloud)
            cloud.end()
            cloud.remove_network()
        cloud.close(keep=given.keep)
    expected = SCENARIOS_EXPECTED if given.networks else GUESTS_EXPECTED if given.guest else EXPECTED
    return suites.report(results, expected, complete=given.only == tests)


def remove_servers(cloud):
    """Remove the guests that tests have left, because guests survive their cloud."""
    deadline = time.monotonic() + REMOVE_S
    while time.monotonic() < deadline:
        try:
            left = cloud.json('GET', '/servers?all_tenants=1')['servers']
            for server in left:
                cloud.call('DELETE', f'/servers/{server["id"]}')
            if not left:
                return
        except (OSError, http.client.HTTPException, RuntimeError):      # a connection that was left alone for long
            pass
        time.sleep(1)
    print('Guests of this run are left on this host: virsh list --all', file=sys.stderr)


def guest_disk(directory, disk):
    """Create the raw disk of the test guest with the commands that tempest uses in guests."""
    subprocess.run(['qemu-img', 'convert', '-O', 'raw', directory / 'guest.qcow2', disk], check=True)
    steps = ['mkdir /mnt', f'write {MKFS_VFAT} /sbin/mkfs.vfat', 'set_inode_field /sbin/mkfs.vfat mode 0100755']
    for name, text in SHIMS.items():
        shim = disk.with_name(name)
        shim.write_text(text)
        steps += [f'write {shim} /sbin/{name}', f'set_inode_field /sbin/{name} mode 0100755']
    subprocess.run(['debugfs', '-w', '-f', '-', f'{disk}?offset={ROOT_AT}'], input='\n'.join(steps), text=True,
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_outside(cloud, wire=None):
    """Create an external network and return its id.

    :param wire: the physical network that leads there; None: a bridge of the host
    """
    physical = {'provider:physical_network': wire, 'provider:network_type': 'flat'} if wire else {}
    network = cloud.json('POST', '/v2.0/networks', {'network': {'name': 'public', 'router:external': True, **physical}},
                         service='network')['network']['id']
    cloud.json('POST', '/v2.0/subnets', {'subnet': {'network_id': network, 'cidr': OUTSIDE, 'ip_version': 4,
                                                    'enable_dhcp': False}}, service='network')
    return network


def configure(cloud, home, guest, outside, hosts, more=''):
    """Create the images and flavors that tempest expects, and its configuration.

    :param guest: directory of the real guest; None: guests are simulated
    :param outside: id of the network to the outside where tests make networks of their own; None: they do not
    :param more: lines at the end of it
    """
    disk = home / 'disk.raw'
    if guest:
        guest_disk(guest, disk)
    else:
        disk.write_bytes(b'\0' * 1048576)
    images = [cloud.add_image(name, disk, 'raw') for name in ('tempest', 'tempest-alt')]
    flavors = []
    for name, memory, gigabytes in (('tempest', 96 if guest else 64, 1), ('tempest-alt', 128, 2)):
        made = cloud.json('POST', '/flavors', {'flavor': {
            'name': name, 'ram': memory, 'vcpus': 1, 'disk': gigabytes}})
        flavors.append(made['flavor']['id'])
    text = (cloud.state / 'clouds.yaml').read_text()
    region = re.search(r'region_name:\s*(\S+)', text)
    template = CONFIG
    for line, other in NETWORKS.items() if outside else ():
        template = template.replace(line, other)
    (home / 'tempest.conf').write_text(template.format(
        outside=outside,
        home=home, url=f'http://127.0.0.1:{cloud.port}', region=region[1] if region else 'RegionOne',
        password=re.search(r'password:\s*[\'"]?([^\s\'"]+)', text)[1], image=images[0], image_alt=images[1],
        flavor=flavors[0], flavor_alt=flavors[1], filters=','.join(FILTERS), hosts=hosts,
        simulated=str(not guest).lower(), disk=disk, several=str(hosts > 1).lower(),
        validation=str(bool(guest)).lower(), interval=1 if guest else 0,
        volumes=str(any('volume' in name or name == 'block-storage' for name in cloud.endpoints)).lower()) + more)


def run(directory, home, given, without=()):
    """Run tempest and return {test: suites.Result}. It is empty if the run was killed; then only the output exists.

    :param given: what to run: ``only``, ``concurrency``, ``timeout`` in seconds or None, ``output`` of tempest or None
    :param without: tests that are not run
    """
    left_out = home / 'left-out'
    left_out.write_text(''.join(f'^{re.escape(name)}(\\[|$)\n' for name in sorted(without)))
    command = [directory / 'tempest', 'run', '--regex', given.only, '--concurrency', str(given.concurrency),
               *(['--exclude-list', left_out] if without else [])]
    if given.timeout:
        command = ['timeout', '-s', 'INT', '-k', '60', str(given.timeout), *command]
    place = {'env': suites.environ(directory), 'cwd': workspace(directory, home)}
    shutil.rmtree(place['cwd'] / '.stestr', ignore_errors=True)      # the results of an earlier run
    subprocess.run(command, stdout=given.output, **place)
    stream = subprocess.run([directory / 'stestr', 'last', '--subunit'], stdout=subprocess.PIPE, check=False,
                            stderr=subprocess.DEVNULL, **place).stdout
    xml_text = subprocess.run([directory / 'subunit2junitxml'], input=stream, stdout=subprocess.PIPE, check=False,
                              env=place['env']).stdout
    try:
        return suites.junit(xml_text) if stream else {}
    except xml.etree.ElementTree.ParseError:        # of a run that was killed, and did not finish its stream
        return {}


OUTCOMES = {'ok': 'passed', 'FAILED': 'failed', 'SKIPPED': 'skipped'}
LINE = re.compile(r'^\{\d+\} (\S+(?: \(\S+\))?)(?: \[([\d.]+)s\])? \.\.\. (ok|FAILED|SKIPPED)(?:: )?', re.MULTILINE)


def printed_results(text):
    """Return {test: suites.Result} from the output of tempest, for a run that was killed."""
    lines = list(LINE.finditer(text))
    ends = [line.start() for line in lines[1:]] + [len(text)]
    return {line[1]: suites.Result(OUTCOMES[line[3]], text[line.end():end], float(line[2] or 0))
            for line, end in zip(lines, ends, strict=True)}


def names(directory, home, only):
    """Return the names of the tests that match a regular expression."""
    text = subprocess.run([directory / 'tempest', 'run', '--list-tests', '--regex', only], text=True, check=True,
                          stdout=subprocess.PIPE, env=suites.environ(directory), cwd=workspace(directory, home)).stdout
    return [line.partition('[')[0] for line in text.splitlines() if line.startswith('tempest.')]


def workspace(directory, home):
    """Return the working directory of tempest with the configuration of ``configure``."""
    place = home / 'workspace'
    if not place.exists():
        subprocess.run([directory / 'tempest', 'init', '--workspace-path', home / 'workspaces.yaml', place], check=True,
                       env=suites.environ(directory), cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (home / 'tempest.conf').rename(place / 'etc' / 'tempest.conf')
    return place


if __name__ == '__main__':
    sys.exit(main())
