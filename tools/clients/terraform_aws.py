#!/usr/bin/env python3
"""Apply a configuration with Terraform's AWS provider to the EC2 API of a cloud.

    tools/clients/terraform_aws.py [--plugins DIRECTORY] [--keep DIRECTORY] [--check]

Steps: apply, plan without a difference, changes in place, changes that replace, import into an empty state, destroy.
The configuration is ``terraform_aws/main.tf``. The cloud is an all-in-one in this process with the fake driver. The
provider comes from a directory with the layout of a Terraform mirror; without one ``terraform init`` downloads it.

The output is one line for each resource and step that failed, then the number of results. Results in
``terraform-aws-expected.tsv`` (resource, step, reason) are expected failures. The exit code is 1 if another one failed,
or if an expected failure passed.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path[:0] = [str(TREE), str(TREE / 'tools')]

import ec2_walk

from nova.tests.functional import cloud as whole

MIRRORS = ('~/.terraform.d/plugins', '/usr/local/share/terraform/plugins', '/opt/tf-plugins')
EXPECTED = HERE / 'terraform-aws-expected.tsv'
STEPS = ('first', 'changed', 'replaced')
TIMEOUT_S = 900                # seconds of one command
# resource type: ID for an import, from the attributes in the state; default: id
IMPORT_IDS = {
    'aws_key_pair': '{key_name}', 'aws_placement_group': '{name}',
    'aws_route': '{route_table_id}_{destination_cidr_block}',
    'aws_route_table_association': '{subnet_id}/{route_table_id}', 'aws_vpc_dhcp_options_association': '{vpc_id}',
    'aws_volume_attachment': '{device_name}:{volume_id}:{instance_id}', 'aws_ec2_tag': '{resource_id},{key}',
    'aws_ami_launch_permission': '{account_id}/{image_id}',
}
# resources that the provider cannot import
NOT_IMPORTED = ('aws_main_route_table_association', 'aws_ami_from_instance', 'aws_security_group_rule')
# attributes that the provider cannot read: an import differs from the configuration in them
UNREAD = {
    'aws_key_pair': 'public_key', 'aws_instance': 'user_data user_data_replace_on_change volume_tags launch_template',
    'aws_ami': 'manage_ebs_snapshots', 'aws_volume_attachment': '', 'aws_security_group': 'revoke_rules_on_delete'}


def mirror(given):
    """Return the directory of a mirror with the provider, or None."""
    for directory in [given] if given else MIRRORS:
        found = pathlib.Path(directory).expanduser()
        if list(found.glob('registry.terraform.io/hashicorp/aws/*')):
            return found
    return None


class Terraform:
    """Terraform in a directory of its own.

    :ivar results: {(resource, step): reason, '' if it passed}
    """

    def __init__(self, home, plugins, environ, variables):
        self.home, self.environ, self.results = home, environ, {}
        (home / 'terraform.tfvars.json').write_text(json.dumps(variables))
        shutil.copy(HERE / 'terraform_aws' / 'main.tf', home)
        self.run('init', '-input=false', *([f'-plugin-dir={plugins}'] if plugins else []), check=True)

    def run(self, *command, check=False):
        done = subprocess.run(['terraform', command[0], '-no-color', *command[1:]], cwd=self.home, env=self.environ,
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        for line in re.findall('panic: .*|github.com/hashicorp/terraform-provider-aws/internal/service.*',
                               done.stdout + done.stderr)[:4]:
            print('       ' + line)                  # the provider failed, not an operation
        if check and done.returncode:
            raise RuntimeError(f'terraform {command[0]} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}')
        return done

    def report(self, step, addresses, failures):
        for address in addresses:
            self.results.setdefault((address, step), '')
        for address, reason in failures.items():
            self.results[address, step] = self.results.get((address, step)) or reason

    def apply(self, step, destroy=False):
        """Apply the configuration; return the addresses of the changed resources by action."""
        begin = time.monotonic()
        done = self.run('apply', '-json', '-auto-approve', '-input=false', '-var', f'step={step}',
                        *(['-destroy'] if destroy else []))
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
        touched, failures = {}, {}
        for event in events:
            hook = event.get('hook') or {}
            address = (hook.get('resource') or {}).get('addr')
            if event['type'] == 'apply_complete':
                touched.setdefault(hook['action'], []).append(address)
            elif event['type'] == 'apply_errored':
                failures.setdefault(address, 'failed')
            elif event['type'] == 'diagnostic' and event['diagnostic']['severity'] == 'error':
                found = event['diagnostic']
                failures[found.get('address') or 'terraform'] = ' '.join(
                    f'{found["summary"]} {found.get("detail") or ""}'.split())
        name = 'destroy' if destroy else step
        self.report(name, {each for some in touched.values() for each in some}, failures)
        print(f'{name}: {", ".join(f"{len(some)} {action}" for action, some in sorted(touched.items())) or "nothing"}, '
              f'{len(failures)} failed, {time.monotonic() - begin:.0f} s', flush=True)
        return touched

    def differences(self, step, name, *more, unread=False):
        """Plan again: each resource that would change is a failure.

        :param unread: ignore the attributes that the provider cannot read
        """
        done = self.run('plan', '-input=false', '-out=plan', '-var', f'step={step}', *more)
        if done.returncode:
            self.report(name, [], {'terraform': ' '.join(done.stderr.split())[:1500]})
            return
        plan = json.loads(self.run('show', '-json', 'plan', check=True).stdout)
        failures, seen = {}, []
        for row in plan.get('resource_changes', ()):
            change = row['change']
            if row['mode'] != 'managed':
                continue
            seen.append(row['address'])
            before, after = change.get('before') or {}, change.get('after') or {}
            keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key)
                          or change.get('after_unknown', {}).get(key) is True)
            if unread:
                keys = [key for key in keys if key not in UNREAD.get(row['type'], '').split() and before.get(key)]
            if change['actions'] != ['no-op'] and (keys or not unread):
                failures[row['address']] = f'{"/".join(change["actions"])}: ' + ', '.join(
                    f'{key} {before.get(key)!r:.80} -> {after.get(key)!r:.80}' for key in keys)
        self.report(name, seen, failures)
        print(f'{name}: {len(seen)} resources, {len(failures)} differ', flush=True)

    def import_all(self):
        """Import all resources into an empty state and compare them with the configuration."""
        state = json.loads(self.run('show', '-json', check=True).stdout)
        blocks = []
        for row in state['values']['root_module'].get('resources', ()):
            if row['mode'] == 'managed' and row['type'] not in NOT_IMPORTED:
                ident = IMPORT_IDS.get(row['type'], '{id}').format(**row['values'])
                blocks.append(f'import {{\n  to = {row["address"]}\n  id = "{ident}"\n}}\n')
        kept = self.home / 'terraform.tfstate'
        shutil.move(kept, self.home / 'kept.tfstate')
        (self.home / 'imports.tf').write_text('\n'.join(blocks))
        self.differences(STEPS[-1], 'import', unread=True)
        (self.home / 'imports.tf').unlink()
        for (address, step), reason in list(self.results.items()):
            if step == 'import' and reason.startswith('create') and address.split('.')[0] in NOT_IMPORTED:
                del self.results[address, step]
        shutil.move(self.home / 'kept.tfstate', kept)


def walk(terraform):
    terraform.apply('first')
    terraform.differences('first', 'plan after first')
    for step in STEPS[1:]:
        terraform.apply(step)
        terraform.differences(step, f'plan after {step}')
    terraform.import_all()
    terraform.apply(STEPS[-1], destroy=True)


def judge(results):
    """Print the failures; return the exit code."""
    with open(EXPECTED, newline='') as lines:
        expected = {(row[0], row[1]): row[2] for row in csv.reader(lines, delimiter='\t') if row and row[0][0] != '#'}
    failed = {key: reason for key, reason in results.items() if reason}
    for (address, step), reason in sorted(failed.items()):
        kind = 'EXPECTED' if (address, step) in expected else 'FAILED'
        print(f'{kind} {address} ({step}): {reason}')
    better = [key for key in expected if key not in failed and key in results]
    for address, step in better:
        print(f'PASSED although expected to fail: {address} ({step})')
    print(f'{len(results) - len(failed)} of {len(results)} results passed, '
          f'{len(failed.keys() & expected.keys())} expected failures')
    return 1 if failed.keys() - expected.keys() or better else 0


def variables(cloud, home):
    """Return the variables of the configuration, with two new SSH keys."""
    for kind in ('rsa', 'ed25519'):
        subprocess.run(['ssh-keygen', '-q', '-t', kind, '-N', '', '-f', home / kind], check=True)
    keys = [(home / f'{kind}.pub').read_text().strip() for kind in ('rsa', 'ed25519')]
    return {'endpoint': cloud.url + '/services/Cloud', 'image': 'small', 'public_key': keys[0], 'other_key': keys[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--plugins', help='mirror with the provider')
    parser.add_argument('--keep', type=pathlib.Path, help='new directory for the configuration and the state')
    parser.add_argument('--check', action='store_true', help='only tell whether terraform and a mirror are installed')
    given = parser.parse_args()
    missing = 'terraform' if shutil.which('terraform') is None else None if mirror(given.plugins) else 'hashicorp/aws'
    if missing and given.check or missing == 'terraform':
        print(f'{missing} is not installed')
        return 2
    if given.check:
        return 0
    with tempfile.TemporaryDirectory(prefix='nova-terraform.') as made:
        home = given.keep or pathlib.Path(made)
        home.mkdir(exist_ok=True)
        with whole.running(home / 'cloud', ['host1', 'host2']) as cloud:
            client = cloud.client()
            client.upload_image(b'\0' * 1024, name='small')
            ec2_walk.networks(cloud.admin(), client)
            pair = client.post(f'/identity/v3/users/{client.user_id}/credentials/OS-EC2', {
                'tenant_id': client.project_id}).json()['credential']
            kept = {name: value for name, value in os.environ.items() if not re.match('AWS_|TF_', name)}
            terraform = Terraform(home, mirror(given.plugins), {
                **kept, 'AWS_ACCESS_KEY_ID': pair['access'], 'AWS_SECRET_ACCESS_KEY': pair['secret'],
                'AWS_EC2_METADATA_DISABLED': 'true', 'CHECKPOINT_DISABLE': '1', 'HOME': str(home)},
                variables(cloud, home))
            walk(terraform)
    return judge(terraform.results)


if __name__ == '__main__':
    sys.exit(main())
