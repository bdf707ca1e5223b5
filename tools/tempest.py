#!/usr/bin/env python3
"""Run the compute tests of tempest, unmodified from PyPI, against an all-in-one with the fake driver.

    tools/tempest.py [--keep] [--concurrency N] [--only REGEX] [--install DIRECTORY]

Tempest gets an environment of its own. What does not pass is compared with tools/tempest-expected.tsv (a test or a
regular expression, and why): a failure that is not in that list, or a listed test that passes, makes the exit code 1.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import local_cloud
import suites

EXPECTED = pathlib.Path(__file__).with_name('tempest-expected.tsv')
DIRECTORY = pathlib.Path.home() / '.cache/nova-tempest'
PACKAGES = ('tempest==47.0.0', 'python-subunit', 'junitxml')
TESTS = r'^tempest\.api\.compute'

CLOUD = ['[fake]', 'hosts = 2', '[network]', 'driver = fake', 'project_ranges = 0.0.0.0/0',
         '[quota]', 'instances = 50', 'cores = 100', 'ram = 204800',
         '[serial_console]', 'base_url = ws://127.0.0.1:6083/',
         '[spice]', 'html5proxy_base_url = http://127.0.0.1:6082/spice_auto.html',
         'spice_direct_proxy_base_url = http://127.0.0.1:13002/nova']

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
image_ref = {image}
image_ref_alt = {image_alt}
flavor_ref = {flavor}
flavor_ref_alt = {flavor_alt}
build_interval = 0
build_timeout = 240
ready_wait = 0
min_compute_nodes = 2
min_microversion = 2.1
max_microversion = latest
fixed_network_name = private
[compute-feature-enabled]
scheduler_enabled_filters = {filters}
resize = true
cold_migration = true
live_migration = true
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
spice_console = true
serial_console = true
nova_policy_roles = admin,manager,member,reader
metadata_service = false
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
[image]
build_interval = 0
build_timeout = 240
[validation]
run_validation = false
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--keep', action='store_true', help='leave logs and results in their directory')
    parser.add_argument('--concurrency', type=int, default=2, help='workers of tempest (%(default)s)')
    parser.add_argument('--only', default=TESTS, help='regular expression of the tests to run (%(default)s)')
    parser.add_argument('--install', type=pathlib.Path, default=DIRECTORY,
                        help="directory of tempest's environment (%(default)s)")
    given = parser.parse_args()
    directory = suites.install(given.install, PACKAGES)
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-tempest.'))
    cloud = local_cloud.LocalCloud('fake', CLOUD)
    try:
        print(f'The cloud serves after {cloud.start():.1f} s; logs are in {home} and {cloud.state}.', flush=True)
        configure(cloud, home)
        results = run(directory, home, given)
    finally:
        cloud.close(keep=given.keep)
    return suites.report(results, EXPECTED, complete=given.only == TESTS)


def configure(cloud, home):
    """Images and flavors that tempest expects, and its configuration."""
    disk = home / 'disk.raw'
    disk.write_bytes(b'\0' * 1048576)
    images = [cloud.add_image(name, disk, 'raw') for name in ('tempest', 'tempest-alt')]
    flavors = []
    for name, memory, gigabytes in (('tempest', 64, 1), ('tempest-alt', 128, 2)):
        made = cloud.json('POST', '/flavors', {'flavor': {
            'name': name, 'ram': memory, 'vcpus': 1, 'disk': gigabytes}})
        flavors.append(made['flavor']['id'])
    text = (cloud.state / 'clouds.yaml').read_text()
    region = re.search(r'region_name:\s*(\S+)', text)
    (home / 'tempest.conf').write_text(CONFIG.format(
        home=home, url=f'http://127.0.0.1:{cloud.port}', region=region[1] if region else 'RegionOne',
        password=re.search(r'password:\s*[\'"]?([^\s\'"]+)', text)[1], image=images[0], image_alt=images[1],
        flavor=flavors[0], flavor_alt=flavors[1], filters=','.join(FILTERS),
        volumes=str(any('volume' in name or name == 'block-storage' for name in cloud.endpoints)).lower()))


def run(directory, home, given):
    """{test: (outcome, text)}; see suites.junit."""
    environ = suites.environ(directory)
    tempest = directory / 'tempest'
    workspace = home / 'workspace'
    subprocess.run([tempest, 'init', '--workspace-path', home / 'workspaces.yaml', workspace],
                   check=True, env=environ, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (home / 'tempest.conf').rename(workspace / 'etc' / 'tempest.conf')
    subprocess.run([tempest, 'run', '--regex', given.only, '--concurrency', str(given.concurrency)],
                   env=environ, cwd=workspace)
    stream = subprocess.run([directory / 'stestr', 'last', '--subunit'], env=environ, cwd=workspace,
                            stdout=subprocess.PIPE, check=False).stdout
    xml_text = subprocess.run([directory / 'subunit2junitxml'], input=stream, env=environ,
                              stdout=subprocess.PIPE, check=False).stdout
    return suites.junit(xml_text)


if __name__ == '__main__':
    sys.exit(main())
