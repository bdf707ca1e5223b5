#!/usr/bin/env python3
"""Run Terraform with its OpenStack provider, built from the Go module, against an all-in-one with the fake driver.

    tools/clients/terraform.py [--keep] [--short] [--only REGEX] [--configuration NAME]

Each file of tools/clients/terraform is a configuration. For each one: apply, a second plan without a difference, a
change in place, a change that replaces, an import of everything into a new state, destroy. A test is named as
``network.openstack_networking_port_v2.this apply``. ``many.tf`` has 50 resources in parallel.
"""
import collections
import json
import platform
import shutil
import subprocess
import sys
import time

import common
import suites

FILES = common.HERE / 'terraform'
CONFIGURATIONS = ('compute', 'identity', 'image', 'network', 'volume')
PARALLEL = 'many'
MIRROR = 'registry.terraform.io/terraform-provider-openstack/openstack'
SETTINGS = 'provider_installation {{\n  filesystem_mirror {{\n    path = "{}"\n  }}\n}}\n'
ARCHITECTURES = {'x86_64': 'amd64', 'aarch64': 'arm64'}
COMMAND_S = 900
# phase: what the plan must do with a resource that has a change in this step
STEPS = {'change in place': ('changed', ['update']), 'replace': ('replaced', None)}
# the attribute that is the id for an import, where it is not id
IMPORTED_BY = {'openstack_networking_router_interface_v2': 'port_id'}
# resources that the provider cannot import
NOT_IMPORTED = ('openstack_blockstorage_volume_attach_v3', 'openstack_networking_portforwarding_v2')
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
    'openstack_networking_trunk_v2': ('tags',),
}


class Stack:
    """A directory with one configuration and its state.

    :ivar results: {test: suites.Result}
    """

    def __init__(self, name, directory, environ, variables):
        self.name, self.directory, self.environ, self.variables = name, directory, environ, variables
        self.results = {}
        directory.mkdir(parents=True)
        for file in ('provider.tf', f'{name}.tf'):
            shutil.copy(FILES / file, directory)
        text = (directory / f'{name}.tf').read_text() + (directory / 'provider.tf').read_text()
        (directory / 'terraform.tfvars.json').write_text(json.dumps(
            {key: value for key, value in variables.items() if f'variable "{key}"' in text}))
        self.run('init', '-no-color', check=True)

    def run(self, *words, check=False):
        """(exit code, output) of a command."""
        done = subprocess.run(['terraform', *words], cwd=self.directory, env=self.environ, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=COMMAND_S)
        with open(self.directory / 'log', 'a') as log:
            log.write(f'==== terraform {" ".join(words)}\n{done.stdout}\n')
        if check and done.returncode:
            raise RuntimeError(f'terraform {words[0]}:\n{done.stdout[-3000:]}')
        return done.returncode, done.stdout

    def errors(self, *words):
        """{address: message} of a command that prints a line of JSON for each event."""
        _code, printed = self.run(*words, '-json')
        found = collections.defaultdict(list)
        for line in printed.splitlines():
            event = json.loads(line) if line.startswith('{') else {}
            told = event.get('diagnostic', {})
            if told.get('severity') == 'error':
                found[told.get('address', '')].append(' '.join(f'{told["summary"]} {told.get("detail", "")}'.split()))
        return {address: ' '.join(texts) for address, texts in found.items()}

    def plan(self, step):
        """{address: change} of a plan, and {address: message} of what failed."""
        errors = self.errors('plan', '-input=false', '-var', f'step={step}', '-out=plan')
        if errors:
            return {}, errors
        _code, printed = self.run('show', '-json', 'plan', check=True)
        return {change['address']: change['change'] | {'importing': change['change'].get('importing')}
                for change in json.loads(printed[printed.index('{'):]).get('resource_changes', ())
                if change['mode'] == 'managed'}, {}

    def apply(self, step):
        return self.errors('apply', '-input=false', '-auto-approve', '-var', f'step={step}')

    def resources(self):
        """{address: values} of the state, data sources included."""
        _code, printed = self.run('show', '-json', check=True)
        values = json.loads(printed[printed.index('{'):]).get('values', {})
        return {each['address']: each for each in values.get('root_module', {}).get('resources', ())}

    def declared(self):
        """Addresses of resources and data sources in the configuration."""
        found = set()
        for line in (self.directory / f'{self.name}.tf').read_text().splitlines():
            if line.startswith(('resource "', 'data "')):
                kind, first, second = line.replace('"', '').split()[:3]
                found.add(f'{"data." if kind == "data" else ""}{first}.{second}')
        return found

    def record(self, address, phase, text=None, outcome=None):
        self.results[f'{self.name}.{address} {phase}'] = suites.Result(
            outcome or ('passed' if text is None else 'failed'), text or '')


def walk(stack):
    """Take a configuration through its life."""
    errors = stack.apply('first')
    present = stack.resources()
    for address in stack.declared():
        missing = None if address in present else 'A resource on which it depends failed.'
        stack.record(address, 'apply', errors.get(address, missing))
    _settled(stack, 'first', 'second plan')
    for phase, (step, wanted) in STEPS.items():
        _change(stack, phase, step, wanted)
    _import(stack)
    errors = stack.errors('destroy', '-auto-approve', '-var', 'step=replaced')
    remaining = stack.resources()
    for address in present:
        if not address.startswith('data.'):
            left = 'It is still in the state.' if address in remaining else None
            stack.record(address, 'destroy', errors.get(address, left))


def _settled(stack, step, phase, only=None):
    """Record whether a plan of what was just applied has no difference."""
    changes, errors = stack.plan(step)
    for address in stack.resources():
        if not address.startswith('data.') and (only is None or address in only):
            change = changes.get(address)
            text = errors.get(address)
            if change and change['actions'] not in (['no-op'], ['read']):
                text = f'{"/".join(change["actions"])}: {difference(change)}'
            elif text is None and errors and not changes:
                text = f'The plan failed: {next(iter(errors.values()))}'
            stack.record(address, phase, text)


def _change(stack, phase, step, wanted):
    """Apply a step; record the resources that it changes as wanted."""
    changes, errors = stack.plan(step)
    meant = {address for address, change in changes.items()
             if (change['actions'] == wanted if wanted else {'create', 'delete'} <= set(change['actions']))}
    present = stack.resources()
    errors |= stack.apply(step)
    for address in meant & present.keys():
        stack.record(address, phase, errors.get(address))
    _settled(stack, step, f'plan after {phase}', meant - errors.keys())


def _import(stack):
    """Import everything into an empty state, and compare: nothing may be different."""
    resources = {address: each for address, each in stack.resources().items() if not address.startswith('data.')}
    for address in [address for address, each in resources.items() if each['type'] in NOT_IMPORTED]:
        del resources[address]
        stack.record(address, 'import', 'The provider does not import this resource.', 'skipped')
    blocks = [f'import {{\n  to = {address}\n  id = {json.dumps(imported_id(each))}\n}}\n'
              for address, each in resources.items()]
    state, aside = stack.directory / 'terraform.tfstate', stack.directory / 'state.aside'
    state.rename(aside)
    block_file, override = stack.directory / 'imports.tf', stack.directory / 'not_read_override.tf'
    override.write_text(''.join(ignoring(address, each['type']) for address, each in resources.items()))
    # one plan for each resource that fails: a plan ends with the first unreadable one
    block_file.write_text(''.join(blocks))
    changes, errors = stack.plan('replaced')
    failed = {}
    while errors and len(failed) < len(resources):
        found = [address for address in resources if any(
            address in (told, told.partition('[')[0]) or f'"{address}"' in text for told, text in errors.items())]
        if not [address for address in found if address not in failed]:
            failed.update(dict.fromkeys(resources.keys() - failed.keys(), next(iter(errors.values()))))
            break
        failed.update({address: next((text for told, text in errors.items() if told == address or address in text), '')
                       for address in found})
        block_file.write_text(''.join(block for address, block in zip(resources, blocks) if address not in failed))
        changes, errors = stack.plan('replaced')
    for address in resources:
        change = changes.get(address)
        text = failed.get(address)
        if text is None and change and change['actions'] != ['no-op']:
            text = f'{"/".join(change["actions"])}: {difference(change)}'
        stack.record(address, 'import', text)
    block_file.unlink()
    override.unlink()
    state.unlink(missing_ok=True)
    aside.rename(state)


def imported_id(resource):
    """The id under which the provider imports a resource."""
    return resource['values'][IMPORTED_BY.get(resource['type'], 'id')]


def ignoring(address, kind):
    """A block that leaves out of a plan what the provider does not read at an import."""
    if kind not in NOT_READ:
        return ''
    return (f'resource "{kind}" "{address.partition(".")[2]}" {{\n  lifecycle {{\n'
            f'    ignore_changes = [{", ".join(NOT_READ[kind])}]\n  }}\n}}\n')


def difference(change):
    """The attributes that differ, with both values."""
    before, after = change.get('before') or {}, change.get('after') or {}
    names = [name for name in after if before.get(name) != after[name]]
    names += [name for name in change.get('after_unknown', {}) if name not in after and name != 'id']
    return ', '.join(f'{name} {json.dumps(before.get(name))} -> {json.dumps(after.get(name))}'
                     for name in names)[:400]


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
    _settled(stack, 'first', 'second plan')
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
    source = common.source(pin)
    binary = common.built('terraform-provider-openstack', pin, lambda path: common.compile_go(
        source, 'build', '-o', path, '.'), cached)
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
    if shutil.which('terraform') is None:
        raise common.Missing('terraform is not installed')
    providers = provider(given.cached)
    names = [given.configuration] if given.configuration else ['image'] if given.short else [*CONFIGURATIONS, PARALLEL]
    begin, results = time.perf_counter(), {}
    with common.Cloud(keep=given.keep) as cloud:
        settings = cloud.home / 'terraform.rc'
        settings.write_text(SETTINGS.format(providers))
        environ = cloud.environ(TF_CLI_CONFIG_FILE=str(settings), CHECKPOINT_DISABLE='1', TF_IN_AUTOMATION='1',
                                OS_DOMAIN_NAME='Default')
        values = variables(cloud)
        for name in names:
            started = time.perf_counter()
            stack = Stack(name, cloud.home / name, environ, values)
            (many if name == PARALLEL else walk)(stack)
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
