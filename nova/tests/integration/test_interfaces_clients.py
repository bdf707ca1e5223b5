"""Ports, security groups and usage with the unmodified clients."""
import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from nova.tests import long_runs
from nova.tests import warm_client
from nova.tests.functional import cloud

BIN = os.path.dirname(sys.executable)
NOVA = shutil.which('nova', path=BIN)


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('clients')) as made:
        user, admin = made.client(), made.admin()
        user.wait_for(user.boot(user.upload_image(), 'web')['id'])
        network = admin.post('/network/v2.0/networks', {'network': {
            'name': 'second', 'project_id': user.project_id}}).json()['network']['id']
        admin.post('/network/v2.0/subnets', {'subnet': {
            'network_id': network, 'ip_version': 4, 'cidr': '10.88.0.0/24'}})
        user.post('/network/v2.0/ports', {'port': {'network_id': network, 'name': 'mine'}})
        user.post('/network/v2.0/security-groups', {'security_group': {'name': 'web'}})
        yield made


def environment(running):
    own = {key: value for key, value in os.environ.items() if not key.startswith('OS_')}
    return own | {'OS_CLIENT_CONFIG_FILE': str(running.clouds_yaml), 'PYTHONWARNINGS': 'ignore'}


def run(running, command, name='nova-demo'):
    """What openstack prints; as JSON where it can."""
    code, printed = warm_client.client().run(command.split(), environment(running) | {'OS_CLOUD': name})
    assert code == 0, printed
    return json.loads(printed) if command.endswith('-f json') else printed


def nova(running, command, name='nova-demo'):
    """What the older client prints."""
    auth = yaml.safe_load(running.clouds_yaml.read_text())['clouds'][name]['auth']
    own = environment(running) | {f'OS_{key.upper()}': str(value) for key, value in auth.items()}
    done = subprocess.run([NOVA, *command.split()], env=own, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_openstackclient_manages_interfaces_and_usage(running):
    run(running, 'server add network web second')
    run(running, 'server add port web mine --tag nic')
    run(running, 'server add security group web web')
    shown = run(running, 'server show web -f json')
    assert len(shown['addresses']['second']) == 2
    assert [group['name'] for group in shown['security_groups']] == ['default', 'web']
    run(running, 'server remove port web mine')
    run(running, 'server remove network web second')
    run(running, 'server remove security group web web')
    shown = run(running, 'server show web -f json')
    assert list(shown['addresses']) == ['private']
    assert [group['name'] for group in shown['security_groups']] == ['default']
    assert [server['name'] for server in run(running, 'usage show -f json')['Servers']] == ['web']
    listed, = run(running, 'usage list -f json', 'nova-admin')
    assert listed['Project'] == running.client().project_id
    assert [server['name'] for server in listed['Servers']] == ['web']


@long_runs.only
@pytest.mark.skipif(NOVA is None, reason='python-novaclient is not installed')
def test_novaclient_lists_interfaces_and_usage(running):
    assert 'ACTIVE' in nova(running, 'interface-list web')
    assert 'Servers' in nova(running, 'usage')
    assert running.client().project_id in nova(running, 'usage-list', 'nova-admin')
    assert 'hosts done' in nova(running, 'instance-usage-audit-log', 'nova-admin')
