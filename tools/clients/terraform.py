#!/usr/bin/env python3
"""Run Terraform with its OpenStack provider, built from the Go module, against an all-in-one with the fake driver.

    tools/clients/terraform.py [--keep] [--short] [--only REGEX] [--configuration NAME]

Each file of tools/clients/terraform is a configuration. For each one: apply, a second plan without a difference, a
change in place, a change that replaces, an import of everything into a new state, destroy. A test is named as
``network.openstack_networking_port_v2.this apply``. ``many.tf`` has 50 resources in parallel.
"""
import platform
import shutil
import sys
import time

import common
import plans

FILES = common.HERE / 'terraform'
CONFIGURATIONS = ('compute', 'identity', 'image', 'network', 'volume')
PARALLEL = 'many'
MIRROR = 'registry.terraform.io/terraform-provider-openstack/openstack'
ARCHITECTURES = {'x86_64': 'amd64', 'aarch64': 'arm64'}
# attributes that the provider does not read at an import, whatever the cloud answers
NOT_READ = {
    'openstack_blockstorage_volume_v3': ('enable_online_resize', 'image_id', 'scheduler_hints', 'volume_retype_policy'),
    'openstack_compute_instance_v2': ('block_device', 'config_drive', 'force_delete', 'key_pair', 'network',
                                      'scheduler_hints', 'stop_before_destroy', 'tags', 'user_data'),
    'openstack_identity_user_v3': ('password',),
    'openstack_images_image_v2': ('local_file_path', 'image_cache_path', 'tags'),
    'openstack_networking_floatingip_v2': ('tags',),
    'openstack_networking_network_v2': ('tags',),
    'openstack_networking_port_secgroup_associate_v2': ('enforce', 'security_group_ids'),
    'openstack_networking_port_v2': ('fixed_ip', 'no_fixed_ip', 'no_security_groups', 'security_group_ids', 'tags'),
    'openstack_networking_qos_policy_v2': ('tags',),
    'openstack_networking_router_v2': ('tags',),
    'openstack_networking_secgroup_v2': ('delete_default_rules', 'tags'),
    'openstack_networking_subnet_v2': ('prefix_length', 'tags'),
    'openstack_networking_subnetpool_v2': ('tags',),
}
PROVIDER = plans.Provider({'openstack_networking_router_interface_v2': '{port_id}'}, (
    'openstack_blockstorage_volume_attach_v3', 'openstack_networking_portforwarding_v2',
    'openstack_networking_trunk_v2'), NOT_READ)


def many(stack):
    """Seconds of the apply and the destruction of 50 resources."""
    begin = time.perf_counter()
    errors = stack.errors('apply', '-input=false', '-auto-approve', '-parallelism=50', '-var', 'step=first')
    applied = time.perf_counter()
    present = stack.resources()
    for address in present:
        stack.record(address, 'apply')
    for address, text in errors.items():
        stack.record(address, 'apply', text)
    plans.settled(stack, 'first', 'second plan')
    planned = time.perf_counter()
    errors = stack.errors('destroy', '-auto-approve', '-parallelism=50', '-var', 'step=first')
    remaining = stack.resources()
    for address in present:
        stack.record(address, 'destroy', errors.get(address, 'still there' if address in remaining else None))
    print(f'{len(present)} resources in parallel: apply {applied - begin:.1f} s, second plan '
          f'{planned - applied:.1f} s, destroy {time.perf_counter() - planned:.1f} s', flush=True)


def provider(cached):
    """The directory of a filesystem mirror with the provider."""
    pin, = common.pins('terraform', 'go')
    binary = common.built('terraform-provider-openstack', pin, lambda path: common.compile_go(
        common.source(pin), 'build', '-o', path, '.'), cached)
    return mirror(binary, binary.parent)


def mirror(binary, directory):
    """A filesystem mirror in a directory, with a copy of the provider."""
    pin, = common.pins('terraform', 'go')
    number = pin.version.removeprefix('v')
    place = (directory / 'mirror' / MIRROR / number / f'linux_{ARCHITECTURES[platform.machine()]}'
             / f'terraform-provider-openstack_v{number}')
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(binary, place)
    return directory / 'mirror'


def main():
    parser = common.parser(__doc__)
    parser.add_argument('--configuration', choices=[*CONFIGURATIONS, PARALLEL], help='only this one')
    given = parser.parse_args()
    common.require('terraform')
    providers = provider(given.cached)
    names = [given.configuration] if given.configuration else ['image'] if given.short else [*CONFIGURATIONS, PARALLEL]
    begin, results = time.perf_counter(), {}
    with common.Cloud(keep=given.keep) as cloud:
        settings = cloud.home / 'terraform.rc'
        settings.write_text(plans.SETTINGS.format(providers))
        environ = cloud.environ(TF_CLI_CONFIG_FILE=str(settings), CHECKPOINT_DISABLE='1', TF_IN_AUTOMATION='1',
                                OS_DOMAIN_NAME='Default')
        values = variables(cloud)
        for name in names:
            started = time.perf_counter()
            stack = plans.Stack(name, cloud.home / name, [FILES / 'provider.tf', FILES / f'{name}.tf'], PROVIDER,
                                environ, values)
            (many if name == PARALLEL else plans.walk)(stack)
            results.update(stack.results)
            failed = sum(result.outcome == 'failed' for result in stack.results.values())
            print(f'{name}: {len(stack.results)} steps, {failed} failed, {time.perf_counter() - started:.0f} s',
                  flush=True)
    return common.figures('terraform', results, time.perf_counter() - begin, not given.configuration and
                          not given.short)


def variables(cloud):
    """Values of the configurations' variables."""
    local = cloud.local
    projects = local.json('GET', cloud.path('identity', '/v3', '/projects'), service='identity')['projects']
    volume = local.json('POST', '/volumes', {'volume': {'size': 1, 'name': 'source'}}, service='block-storage')
    common.wait(lambda: local.json('GET', f'/volumes/{volume["volume"]["id"]}', service='block-storage')
                ['volume']['status'] == 'available')
    local.json('POST', '/snapshots', {'snapshot': {'volume_id': volume['volume']['id'], 'name': 'tf-snapshot'}},
               service='block-storage')
    other = cloud.home / 'other.raw'
    other.write_bytes(b'\0' * 2 * common.MEBIBYTE)
    return {
        'image': cloud.ids['image'], 'public': cloud.ids['public'], 'snapshot': 'tf-snapshot',
        'file': str(cloud.home / 'disk.raw'), 'other_file': str(other),
        'member_password': local.account('nova-demo')[1],
        'member_project': next(project['id'] for project in projects if project['name'] == 'demo'),
        'hypervisor': local.json('GET', '/os-hypervisors')['hypervisors'][0]['hypervisor_hostname']}


if __name__ == '__main__':
    sys.exit(common.run(main))
