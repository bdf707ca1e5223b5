#!/usr/bin/env python3
"""Run tempest's tests of the Networking API, and neutron-tempest-plugin's of trunks and address scopes, unmodified from
PyPI, against an all-in-one with the fake driver.

    tools/tempest_networks.py [--keep] [--concurrency N] [--only REGEX] [--install DIRECTORY]

Projects make networks between hosts there, and there is a network to the outside. What does not pass is compared with
tools/tempest-networks-expected.tsv (a test or a regular expression, and why): a failure that is not in that list, or a
listed test that passes, makes the exit code 1. Tests of extensions that the service does not name are skipped: tempest
gets the names.
"""
import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import local_cloud
import suites
import tempest

EXPECTED = pathlib.Path(__file__).with_name('tempest-networks-expected.tsv')
DIRECTORY = tempest.DIRECTORY.with_name('nova-tempest-networks')
PACKAGES = (*tempest.PACKAGES, 'neutron-tempest-plugin==3.3.0')
TESTS = (r'^(tempest\.api\.network'
         r'|neutron_tempest_plugin\.api\.(test_(trunk|address_scopes)|admin\.test_shared_address_scopes))')
CLOUD = ['[network]', 'driver = fake', 'physical_networks = wire:br-wire', 'vlan_ranges = wire:100:199']
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
cinder = false
swift = false
horizon = false
[network]
project_networks_reachable = true
public_network_id = {public}
floating_network_name = public
[network-feature-enabled]
ipv6 = true
floating_ips = true
api_extensions = {extensions}
[neutron_plugin_options]
provider_vlans = wire
available_type_drivers = flat,vlan,vxlan
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
    given.timeout, given.output = None, None
    directory = suites.install(given.install, PACKAGES)
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-tempest.'))
    cloud = local_cloud.LocalCloud('fake', CLOUD)
    try:
        print(f'The cloud serves after {cloud.start():.1f} s; logs are in {home} and {cloud.state}.', flush=True)
        configure(cloud, home)
        results = tempest.run(directory, home, given)
    finally:
        cloud.close(keep=given.keep)
    return suites.report(results, EXPECTED, complete=given.only == TESTS)


def configure(cloud, home):
    """A network to the outside, and tempest's configuration."""
    public = ask(cloud, 'POST', 'networks', {'network': {'name': 'public', 'router:external': True}})['network']['id']
    ask(cloud, 'POST', 'subnets', {'subnet': {'network_id': public, 'cidr': '172.24.4.0/24', 'ip_version': 4,
                                              'enable_dhcp': False}})
    known = sorted(each['alias'] for each in ask(cloud, 'GET', 'extensions')['extensions'])
    text = (cloud.state / 'clouds.yaml').read_text()
    region = re.search(r'region_name:\s*(\S+)', text)
    (home / 'tempest.conf').write_text(CONFIG.format(
        home=home, url=f'http://127.0.0.1:{cloud.port}', region=region[1] if region else 'RegionOne', public=public,
        password=re.search(r'password:\s*[\'"]?([^\s\'"]+)', text)[1], extensions=','.join(known)))


def ask(cloud, method, path, body=None):
    """The answer of the Networking API."""
    prefix = '' if cloud.endpoints['network'].rstrip('/').endswith('/v2.0') else '/v2.0'
    return cloud.json(method, f'{prefix}/{path}', body, service='network')


if __name__ == '__main__':
    sys.exit(main())
