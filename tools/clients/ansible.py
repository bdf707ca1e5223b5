#!/usr/bin/env python3
"""Run the modules of Ansible's collection openstack.cloud, unmodified, against an all-in-one with the fake driver.

    tools/clients/ansible.py [--keep] [--short] [--only REGEX]

The playbook runs twice. Then each task runs twice with the state absent. The second run may not report a change. A test
is named as ``network present`` (the first run), ``network again``, ``network absent`` and ``network absent again``.
"""
import json
import re
import subprocess
import sys
import time

import common
import suites

COLLECTION = 'openstack.cloud'
RUN_S = 1800                 # seconds that a playbook may take
PROJECT, USER, ROUTER, SERVER, VOLUME = 'an-project', 'an-user', 'an-router', 'an-server', 'an-volume'
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJDrWkFpbcIrHBcIY8NR9lbzMSiJKy8gtuTwLqE9NqJm an'
# (module, arguments) in the order in which they are made; a number tells tasks of one module apart
TASKS = (
    ('auth', {}),
    ('config', {}),
    ('project', {'name': PROJECT, 'description': 'of the tests', 'domain': 'default'}),
    ('project_info', {'name': PROJECT}),
    ('identity_user', {'name': USER, 'password': 'a long password', 'email': 'an@example.com', 'domain': 'default',
                       'default_project': PROJECT, 'update_password': 'on_create'}),
    ('identity_user_info', {'name': USER}),
    ('identity_group', {'name': 'an-group', 'description': 'of the tests', 'domain_id': 'default'}),
    ('identity_group_info', {'name': 'an-group'}),
    ('group_assignment', {'group': 'an-group', 'user': USER}),
    ('identity_role', {'name': 'an-role', 'description': 'of the tests'}),
    ('identity_role_info', {'name': 'an-role'}),
    ('role_assignment', {'user': USER, 'role': 'an-role', 'project': PROJECT}),
    ('role_assignment 2', {'group': 'an-group', 'role': 'an-role', 'domain': 'default'}),
    ('identity_domain_info', {'name': 'Default'}),
    ('catalog_service', {'name': 'an-service', 'type': 'an-type', 'description': 'of the tests'}),
    ('catalog_service_info', {'name': 'an-service'}),
    ('endpoint', {'service': 'an-service', 'endpoint_interface': 'public', 'url': 'http://127.0.0.1/an',
                  'region': 'RegionOne'}),
    ('application_credential', {'name': 'an-credential', 'description': 'of the tests'}),
    ('compute_flavor', {'name': 'an-flavor', 'ram': 64, 'vcpus': 1, 'disk': 1, 'is_public': False,
                        'extra_specs': {'hw:cpu_policy': 'shared'}}),
    ('compute_flavor_info', {'name': 'an-flavor'}),
    ('compute_flavor_access', {'name': 'an-flavor', 'project': PROJECT}),
    ('compute_service_info', {}),
    ('host_aggregate', {'name': 'an-aggregate', 'metadata': {'rack': 'one'}}),
    ('keypair', {'name': 'an-key', 'public_key': KEY}),
    ('keypair_info', {'name': 'an-key'}),
    ('server_group', {'name': 'an-group', 'policy': 'soft-affinity'}),
    ('quota', {'name': PROJECT, 'instances': 5, 'cores': 10, 'volumes': 6, 'networks': 7}),
    ('image', {'name': 'an-image', 'filename': '{{ disk }}', 'disk_format': 'raw', 'container_format': 'bare',
               'properties': {'hw_disk_bus': 'virtio'}, 'tags': ['an'], 'min_disk': 1}),
    ('image_info', {'name': 'an-image'}),
    ('network', {'name': 'an-network', 'mtu': 1400}),
    ('networks_info', {'name': 'an-network'}),
    ('subnet_pool', {'name': 'an-pool', 'prefixes': ['192.168.64.0/18'], 'default_prefix_length': 26}),
    ('subnet', {'name': 'an-subnet', 'network': 'an-network', 'cidr': '192.168.51.0/24', 'gateway_ip': '192.168.51.1',
                'dns_nameservers': ['192.0.2.1'], 'allocation_pool_start': '192.168.51.10',
                'allocation_pool_end': '192.168.51.99',
                'host_routes': [{'destination': '10.9.0.0/16', 'nexthop': '192.168.51.254'}]}),
    ('subnet 2', {'name': 'an-subnet-6', 'network': 'an-network', 'cidr': 'fd00:51::/64', 'ip_version': '6',
                  'ipv6_ra_mode': 'slaac', 'ipv6_address_mode': 'slaac'}),
    ('subnets_info', {'name': 'an-subnet'}),
    ('security_group', {'name': 'an-security', 'description': 'of the tests'}),
    ('security_group_info', {'name': 'an-security'}),
    ('security_group_rule', {'security_group': 'an-security', 'protocol': 'tcp', 'port_range_min': 22,
                             'port_range_max': 22, 'remote_ip_prefix': '0.0.0.0/0'}),
    ('security_group_rule 2', {'security_group': 'an-security', 'protocol': 'udp', 'ether_type': 'IPv6',
                               'remote_group': 'an-security', 'direction': 'ingress'}),
    ('security_group_rule_info', {'security_group': 'an-security'}),
    ('port', {'name': 'an-port', 'network': 'an-network', 'security_groups': ['an-security'], 'description': 'one'}),
    ('port_info', {'name': 'an-port'}),
    ('router', {'name': ROUTER, 'network': 'public', 'interfaces': ['an-subnet']}),
    ('routers_info', {'name': ROUTER}),
    ('neutron_rbac_policy', {'object_id': '{{ shared }}', 'object_type': 'network', 'action': 'access_as_shared',
                             'target_project_id': '{{ member }}', 'project_id': '{{ owner }}'}),
    ('neutron_rbac_policies_info', {}),
    ('server', {'name': SERVER, 'image': 'an-image', 'flavor': 'm1.nano', 'key_name': 'an-key', 'auto_ip': False,
                'nics': [{'port-name': 'an-port'}], 'metadata': {'role': 'one', 'more': 'two'},
                'security_groups': ['an-security'], 'timeout': 120}),
    ('server_info', {'name': SERVER}),
    ('server_metadata', {'name': SERVER, 'metadata': {'more': 'two'}}),
    ('server_action', {'name': SERVER, 'action': 'stop'}),
    ('floating_ip', {'server': SERVER, 'network': 'public', 'reuse': True}),
    ('floating_ip_info', {}),
    ('volume', {'name': VOLUME, 'size': 1, 'description': 'of the tests', 'metadata': {'role': 'one'}}),
    ('volume_info', {'name': VOLUME}),
    ('volume_snapshot', {'name': 'an-snapshot', 'volume': VOLUME}),
    ('volume_snapshot_info', {'name': 'an-snapshot'}),
    ('volume_backup', {'name': 'an-backup', 'volume': VOLUME}),
    ('volume_backup_info', {'name': 'an-backup'}),
    ('server_volume', {'server': SERVER, 'volume': VOLUME}),
    ('volume_type', {'name': 'an-type', 'description': 'of the tests', 'is_public': False}),
    ('volume_type_info', {'name': 'an-type'}),
    ('volume_type_access', {'name': 'an-type', 'project': PROJECT}),
    ('volume_type_encryption', {'volume_type': 'an-type', 'encryption_provider': 'luks',
                                'encryption_cipher': 'aes-xts-plain64', 'encryption_control_location': 'front-end',
                                'encryption_key_size': 256}),
    ('volume_service_info', {}),
)
# more arguments of a task with the state absent
NAMED = {'floating_ip': {'floating_ip_address': '{{ address }}'}, 'neutron_rbac_policy': {'id': '{{ policy }}'}}
PHASES = ('present', 'again')
# what these tasks made has no state of its own, or goes with the resource of another task
WITHOUT_STATE = re.compile('_info$|^auth$|^config$|^server_action$')
SHORT = re.compile('^(project|keypair)( |$)')


def play(tasks, **variables):
    """The document of a playbook that goes on after a failure."""
    return [{'hosts': 'localhost', 'connection': 'local', 'gather_facts': False, 'vars': variables, 'tasks': [
        {'name': name, f'{COLLECTION}.{name.split()[0]}': arguments, 'ignore_errors': True}
        for name, arguments in tasks]}]


def run(cloud, directory, environ, tasks, variables):
    """{task: its result} of a playbook."""
    book = cloud.home / 'playbook.json'
    book.write_text(json.dumps(play(tasks, **variables)))
    done = subprocess.run([directory / 'ansible-playbook', '-i', 'localhost,', book], cwd=cloud.home, env=environ,
                          capture_output=True, text=True, timeout=RUN_S)
    with open(cloud.home / 'log', 'a') as log:
        log.write(done.stdout + done.stderr)
    if '{' not in done.stdout:
        raise RuntimeError(done.stderr[-3000:] + done.stdout[-3000:])
    document = json.loads(done.stdout[done.stdout.index('{'):done.stdout.rindex('}') + 1])
    return {task['task']['name']: task['hosts'].get('localhost', {})
            for each in document['plays'] for task in each['tasks']}


def outcome(result, settled):
    """The Result of a task; one that must be settled may not report a change."""
    if result.get('failed') or not result:
        return suites.Result('failed', ' '.join(str(result.get('msg') or result.get('exception') or result).split()))
    if settled and result.get('changed'):
        return suites.Result('failed', 'The second run reports a change.')
    return suites.Result('passed')


def named(cloud, network_id):
    """Return what the API has named: the floating address, and the policy that shares a network."""
    cloud.local.forget_connection()
    addresses, policies = (cloud.local.json('GET', cloud.path('network', '/v2.0', path), service='network')[key]
                           for path, key in (('/floatingips', 'floatingips'),
                                             (f'/rbac-policies?object_id={network_id}', 'rbac_policies')))
    return {'address': addresses[0]['floating_ip_address'] if addresses else '',
            'policy': policies[0]['id'] if policies else ''}


def main():
    given = common.parser(__doc__).parse_args()
    directory = common.environment('ansible', given.cached)
    tasks = [task for task in TASKS if re.search(given.only, task[0]) and (not given.short or SHORT.search(task[0]))]
    begin, results = time.perf_counter(), {}
    with common.Cloud(keep=given.keep) as cloud:
        local = cloud.local
        projects = local.json('GET', cloud.path('identity', '/v3', '/projects'), service='identity')['projects']
        variables = {
            'disk': str(cloud.home / 'disk.raw'), 'ansible_python_interpreter': str(directory / 'python'),
            'member': next(project['id'] for project in projects if project['name'] == 'demo'),
            'owner': next(project['id'] for project in projects if project['name'] == 'admin'),
            'shared': cloud.network('networks', {'network': {'name': 'an-shared'}})['network']['id']}
        environ = cloud.environ(
            OS_USER_DOMAIN_ID='default', OS_PROJECT_DOMAIN_ID='default', ANSIBLE_STDOUT_CALLBACK='ansible.posix.json',
            ANSIBLE_LOCALHOST_WARNING='false', ANSIBLE_NOCOLOR='1', PATH=f'{directory}:/usr/bin:/bin')
        # the second absence follows at once: later the resource to which a task refers is gone, too
        leaving = [(f'{name}{again}', {**arguments, **NAMED.get(name, {}), 'state': 'absent'})
                   for name, arguments in reversed(tasks) if not WITHOUT_STATE.search(name.split()[0])
                   for again in (' absent', ' absent again')]
        for phase, several in (
                *((word, [(f'{name} {word}', arguments) for name, arguments in tasks]) for word in PHASES),
                ('absent', leaving)):
            started = time.perf_counter()
            if phase == 'absent':
                variables.update(named(cloud, variables['shared']))
            found = run(cloud, directory, environ, several, variables)
            outcomes = {name: outcome(result, name.endswith('again')) for name, result in found.items()}
            results.update(outcomes)
            print(f'{phase}: {len(outcomes)} tasks, '
                  f'{sum(each.outcome == "failed" for each in outcomes.values())} failed, '
                  f'{time.perf_counter() - started:.0f} s', flush=True)
    return common.figures('ansible', results, time.perf_counter() - begin, not given.only and not given.short)


if __name__ == '__main__':
    sys.exit(common.run(main))
