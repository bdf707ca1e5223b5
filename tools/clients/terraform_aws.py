#!/usr/bin/env python3
"""Run Terraform with its AWS provider, where both are installed, against the EC2 API of a cloud with the fake driver.

    tools/clients/terraform_aws.py [--plugins DIRECTORY] [--keep]

The steps are those of ``terraform.py``, the configuration is ``terraform_aws/main.tf``. The cloud is an all-in-one in
this process. The provider comes from a directory with the layout of a Terraform mirror. A test is named as
``aws.aws_instance.walk apply``.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import common
import plans

sys.path.insert(0, str(common.HERE.parents[1]))

import ec2_walk

from nova.tests.functional import cloud as whole

MIRRORS = ('~/.terraform.d/plugins', '/usr/local/share/terraform/plugins', '/opt/tf-plugins')
PROVIDER = plans.Provider({
    'aws_key_pair': '{key_name}', 'aws_placement_group': '{name}',
    'aws_route': '{route_table_id}_{destination_cidr_block}',
    'aws_route_table_association': '{subnet_id}/{route_table_id}', 'aws_vpc_dhcp_options_association': '{vpc_id}',
    'aws_volume_attachment': '{device_name}:{volume_id}:{instance_id}', 'aws_ec2_tag': '{resource_id},{key}',
    'aws_ami_launch_permission': '{account_id}/{image_id}', 'aws_network_interface_attachment': '{attachment_id}',
}, ('aws_main_route_table_association', 'aws_ami_from_instance', 'aws_security_group_rule'), {
    'aws_key_pair': ('public_key',), 'aws_security_group': ('revoke_rules_on_delete',),
    'aws_instance': ('user_data', 'user_data_replace_on_change', 'volume_tags'),
    'aws_instance.templated': ('launch_template',), 'aws_instance.interface': ('launch_template',),
    'aws_ami': ('manage_ebs_snapshots',), 'aws_subnet.placed': ('tags', 'tags_all'),
    'aws_ami_launch_permission.walk': ('image_id',),        # of a resource that is not imported
})


def mirror(given):
    """The directory of a mirror with the provider.

    :raises Missing: there is none
    """
    pin, = common.pins('terraform_aws', 'terraform')
    for directory in [given] if given else MIRRORS:
        found = pathlib.Path(directory).expanduser()
        if (found / 'registry.terraform.io' / pin.package / pin.version).exists():
            return found
    raise common.Missing(f'{pin.package} {pin.version} is not in {given or ", ".join(MIRRORS)}')


def variables(cloud, home):
    """Values of the configuration's variables, with two new SSH keys."""
    for kind in ('rsa', 'ed25519'):
        subprocess.run(['ssh-keygen', '-q', '-t', kind, '-N', '', '-f', home / kind], check=True)
    keys = [(home / f'{kind}.pub').read_text().strip() for kind in ('rsa', 'ed25519')]
    return {'endpoint': cloud.url + '/services/Cloud', 'image': 'small', 'public_key': keys[0], 'other_key': keys[1]}


def stack(cloud, home, plugins):
    """The configuration, with keys of the project demo."""
    client = cloud.client()
    client.upload_image(b'\0' * 1024, name='small')
    ec2_walk.networks(cloud.admin(), client)
    pair = client.post(f'/identity/v3/users/{client.user_id}/credentials/OS-EC2', {
        'tenant_id': client.project_id}).json()['credential']
    settings = home / 'terraform.rc'
    settings.write_text(plans.SETTINGS.format(plugins))
    kept = {name: value for name, value in os.environ.items() if not re.match('AWS_|TF_', name)}
    return plans.Stack('aws', home / 'aws', [common.HERE / 'terraform_aws' / 'main.tf'], PROVIDER, {
        **kept, 'AWS_ACCESS_KEY_ID': pair['access'], 'AWS_SECRET_ACCESS_KEY': pair['secret'], 'HOME': str(home),
        'AWS_EC2_METADATA_DISABLED': 'true', 'CHECKPOINT_DISABLE': '1', 'TF_IN_AUTOMATION': '1',
        'TF_CLI_CONFIG_FILE': str(settings)}, variables(cloud, home))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('--plugins', help='mirror with the provider')
    parser.add_argument('--keep', action='store_true', help='leave the configuration, its log and the state')
    given = parser.parse_args()
    common.require('terraform')
    plugins, begin = mirror(given.plugins), time.perf_counter()
    home = pathlib.Path(tempfile.mkdtemp(prefix='nova-terraform.'))
    try:
        with whole.running(home / 'cloud', ['host1', 'host2']) as cloud:
            made = stack(cloud, home, plugins)
            plans.walk(made)
    finally:
        if given.keep:
            print(f'The log is in {home / "aws"}.', flush=True)
        else:
            shutil.rmtree(home, ignore_errors=True)
    return common.figures('terraform_aws', made.results, time.perf_counter() - begin, True)


if __name__ == '__main__':
    sys.exit(common.run(main))
