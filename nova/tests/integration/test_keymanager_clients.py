"""Clients of the Key Manager API, unmodified, on a cloud with the fake driver.

python-barbicanclient comes from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
tools/clients/gophercloud.py runs the tests of gophercloud.
"""
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from nova.tests import long_runs
from nova.tests.functional import cloud as fixture
from nova.tests.support import automation_clients as automation

SCRIPT = '''
import sys
from barbicanclient import client
from keystoneauth1 import session
from keystoneauth1.identity import v3
url, user, password, project = sys.argv[1:]
auth = v3.Password(auth_url=url + '/identity/v3', username=user, password=password, project_name=project,
                   user_domain_id='default', project_domain_id='default')
barbican = client.Client(session=session.Session(auth=auth))
secret = barbican.secrets.create(name='words', payload='correct horse', secret_type='passphrase')
ref = secret.store()
assert barbican.secrets.get(ref).payload == 'correct horse'
binary = barbican.secrets.create(name='bytes', payload=bytes(range(256)), algorithm='aes', bit_length=256, mode='cbc')
binary.store()
assert barbican.secrets.get(binary.secret_ref).payload == bytes(range(256))
assert [each.name for each in barbican.secrets.list(algorithm='aes', bits=256)] == ['bytes']
later = barbican.secrets.create(name='later')
later.store()
later = barbican.secrets.get(later.secret_ref)
later.payload = 'now'
later.update()
assert barbican.secrets.get(later.secret_ref).payload == 'now'
acl = barbican.acls.create(entity_ref=ref, users=['8d1f'], project_access=False)
acl.submit()
assert barbican.acls.get(ref).read.users == ['8d1f'] and not barbican.acls.get(ref).read.project_access
barbican.acls.get(ref).remove()
barbican.secrets.register_consumer(ref, 'image', 'image', '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00')
assert barbican.secrets.get(ref).consumers == [
    {'service': 'image', 'resource_type': 'image', 'resource_id': '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00'}]
barbican.secrets.remove_consumer(ref, 'image', 'image', '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00')
box = barbican.containers.create(name='box', secrets={'words': secret})
box.store()
found = barbican.containers.get(box.container_ref)
assert found.secrets['words'].payload == 'correct horse'
barbican.containers.register_consumer(box.container_ref, 'c', 'https://c')
assert barbican.containers.get(box.container_ref).consumers == [{'name': 'c', 'URL': 'https://c'}]
barbican.containers.remove_consumer(box.container_ref, 'c', 'https://c')
key = barbican.orders.create_key(name='key', algorithm='aes', bit_length=256, mode='cbc')
key.submit()
assert len(barbican.secrets.get(barbican.orders.get(key.order_ref).secret_ref).payload) == 32
pair = barbican.orders.create_asymmetric(name='pair', algorithm='rsa', bit_length=2048)
pair.submit()
rsa = barbican.containers.get(barbican.orders.get(pair.order_ref).container_ref)
assert rsa.private_key.payload.startswith(b'-----BEGIN PRIVATE KEY')
assert {each.name for each in barbican.orders.list()} == {'key', 'pair'}
for each in (key, pair):
    barbican.orders.delete(each.order_ref)
for each in barbican.containers.list():
    barbican.containers.delete(each.container_ref)
for each in barbican.secrets.list():
    barbican.secrets.delete(each.secret_ref)
print(len(barbican.secrets.list()), len(barbican.containers.list()), len(barbican.orders.list()))
'''
PLAN = '''
terraform {
  required_providers { openstack = { source = "terraform-provider-openstack/openstack" } }
}
resource "openstack_keymanager_secret_v1" "password" {
  name                 = "password"
  payload              = "correct horse"
  payload_content_type = "text/plain"
  secret_type          = "passphrase"
  expiration           = "2049-01-01T00:00:00Z"
  metadata             = { stage = "%(stage)s" }
  acl {
    read {
      project_access = false
      users          = ["8d1f"]
    }
  }
}
resource "openstack_keymanager_secret_v1" "key" {
  name                     = "key"
  algorithm                = "aes"
  bit_length               = 256
  mode                     = "cbc"
  payload                  = base64encode("0123456789abcdef0123456789abcdef")
  payload_content_type     = "application/octet-stream"
  payload_content_encoding = "base64"
  secret_type              = "symmetric"
}
resource "openstack_keymanager_container_v1" "box" {
  name = "box"
  type = "generic"
  secret_refs {
    name       = "password"
    secret_ref = openstack_keymanager_secret_v1.password.secret_ref
  }
}
resource "openstack_keymanager_order_v1" "key" {
  type = "key"
  meta {
    name       = "ordered"
    algorithm  = "aes"
    bit_length = 256
    mode       = "cbc"
  }
}
data "openstack_keymanager_secret_v1" "key" {
  name       = openstack_keymanager_secret_v1.key.name
  algorithm  = "aes"
  bit_length = 256
}
data "openstack_keymanager_container_v1" "box" {
  name = openstack_keymanager_container_v1.box.name
}
output "found" {
  value = [data.openstack_keymanager_secret_v1.key.payload,
           length(data.openstack_keymanager_container_v1.box.secret_refs)]
  sensitive = true
}
'''

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with fixture.running(tmp_path_factory.mktemp('cloud'), ['host1']) as made:
        yield made


def auth_of(cloud, name):
    return yaml.safe_load(cloud.clouds_yaml.read_text())['clouds'][name]['auth']


def test_barbicanclient_works_with_the_key_manager(cloud):
    python = pathlib.Path(os.environ.get('NOVA_TEST_KEYSTONE', '/nonexistent')) / 'bin' / 'python'
    if not python.exists():
        pytest.skip('NOVA_TEST_KEYSTONE names no environment with python-barbicanclient')
    auth = auth_of(cloud, 'nova-demo')
    done = subprocess.run([python, '-W', 'ignore', '-c', SCRIPT, cloud.url, *(auth[name] for name in (
        'username', 'password', 'project_name'))], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, '0 0 0\n'), done.stderr


@long_runs.only
@pytest.mark.skipif(shutil.which('terraform') is None, reason='terraform is not installed')
def test_terraform_plans_of_the_key_manager_settle(cloud, tmp_path):
    """Each resource is applied, planned again without a difference, changed in place, and destroyed."""
    settings = automation.mirrored(tmp_path)
    place, auth = tmp_path / 'plan', auth_of(cloud, 'nova-demo')
    place.mkdir()
    environ = {**os.environ, 'TF_CLI_CONFIG_FILE': str(settings), 'CHECKPOINT_DISABLE': '1', 'TF_IN_AUTOMATION': '1',
               'OS_AUTH_URL': cloud.url + '/identity/v3', 'OS_USERNAME': auth['username'],
               'OS_PASSWORD': auth['password'], 'OS_PROJECT_NAME': auth['project_name'], 'OS_DOMAIN_ID': 'default',
               'OS_REGION_NAME': 'RegionOne'}

    def run(*arguments, code=0):
        done = subprocess.run(['terraform', *arguments, '-no-color'], cwd=place, env=environ, capture_output=True,
                              text=True, timeout=600, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout
    (place / 'main.tf').write_text(PLAN % {'stage': 'one'})
    run('init')
    assert '4 added, 0 changed, 0 destroyed' in run('apply', '-auto-approve')
    run('plan', '-detailed-exitcode')
    (place / 'main.tf').write_text(PLAN % {'stage': 'two'})
    assert '0 added, 1 changed, 0 destroyed' in run('apply', '-auto-approve')
    run('plan', '-detailed-exitcode')
    assert '4 destroyed' in run('destroy', '-auto-approve')
    client = cloud.client()
    assert client.get('/key-manager/v1/containers').json()['total'] == 0
