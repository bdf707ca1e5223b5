"""The plugin of the openstack client against a cloud with simulated guests."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(TREE / 'tools'))
import local_cloud

CALL_S = 120


@pytest.fixture(scope='module')
def openstack(tmp_path_factory):
    """``openstack(*words)`` -> (exit code, JSON document or text, standard error), as the administrator."""
    installed = tmp_path_factory.mktemp('plugin')
    source = installed / 'source'
    subprocess.run(['cp', '-r', TREE / 'tools/osc_plugin', source], check=True)
    subprocess.run([sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--no-build-isolation',
                    '--no-index', '--target', installed / 'site', source], check=True, timeout=CALL_S)
    cloud = local_cloud.LocalCloud('fake')
    environ = {**os.environ, 'OS_CLOUD': 'nova-admin', 'OS_CLIENT_CONFIG_FILE': str(cloud.state / 'clouds.yaml'),
               'PYTHONPATH': os.pathsep.join([str(installed / 'site'), str(TREE)])}

    def call(*words):
        done = subprocess.run([pathlib.Path(sys.executable).parent / 'openstack', *words], env=environ, text=True,
                              capture_output=True, timeout=CALL_S)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = done.stdout
        return done.returncode, found, done.stderr
    try:
        cloud.start()
        assert call('image', 'create', '--container-format', 'bare', '--disk-format', 'raw', '--file', __file__,
                    'guest')[0] == 0
        yield call
    finally:
        cloud.close()


def test_placement_is_explained(openstack):
    code, _, refusal = openstack('server', 'placement', 'explain')
    assert code == 1 and 'Give --server, --file, or --flavor' in refusal
    assert openstack('server', 'placement', 'explain', '--flavor', 'm1.tiny', '--image', 'missing')[0] == 1
    code, rows, _ = openstack('server', 'placement', 'explain', '--flavor', 'm1.tiny', '--image', 'guest', '-f', 'json')
    assert code == 0 and rows[-1]['filter'] == 'choice' and rows[-1]['reason'] == 'nova'


def test_categories_are_managed_by_openstackclient(openstack):
    code, made, _ = openstack('instance', 'category', 'create', 'storage', '--require', 'ssd=true', '-f', 'json')
    assert code == 0 and made['requirements'] == {'ssd': 'true'}
    _, changed, _ = openstack('instance', 'category', 'set', 'storage', '--description', 'Disks', '-f', 'json')
    assert changed['description'] == 'Disks' and changed['id'] == made['id']
    _, rows, _ = openstack('instance', 'category', 'list', '-f', 'json')
    assert [row['name'] for row in rows] == ['regular', 'vpn', 'storage']
    assert openstack('instance', 'category', 'delete', 'storage')[0] == 0
    assert openstack('instance', 'category', 'purge', made['id'])[0] == 0
    code, _, refusal = openstack('instance', 'category', 'show', 'storage')
    assert code == 1 and 'storage' in refusal


def test_policy_groups_are_managed_by_openstackclient(openstack):
    code, made, _ = openstack('server', 'policy', 'group', 'create', 'db', '--policy', 'anti-affinity', '--policy',
                              'host-capabilities', '--property', 'capabilities:hypervisor_type=fake', '-f', 'json')
    assert code == 0 and made['policies'] == ['anti-affinity', 'host-capabilities']
    _, changed, _ = openstack('server', 'policy', 'group', 'set', made['id'], '--policy', 'affinity', '-f', 'json')
    assert changed['policies'] == ['affinity'] and changed['name'] == 'db'
    _, rows, _ = openstack('server', 'policy', 'group', 'list', '-f', 'json')
    assert [row['id'] for row in rows] == [made['id']]
    assert openstack('server', 'policy', 'group', 'delete', made['id'])[0] == 0
    code, _, refusal = openstack('server', 'policy', 'group', 'show', made['id'])
    assert code == 1 and '404' in refusal


def test_host_maintenance_is_managed_by_openstackclient(openstack):
    _, rows, _ = openstack('compute', 'service', 'list', '--service', 'nova-compute', '-f', 'json')
    host = rows[0]['Host']
    assert openstack('aggregate', 'create', 'pool')[0] == openstack('aggregate', 'add', 'host', 'pool', host)[0] == 0
    code, started, _ = openstack('host', 'maintenance', 'start', '--aggregate', 'pool', host, '-f', 'json')
    assert code == 0 and started['host'] == host and started['status'] in ('draining', 'maintenance')
    _, rows, _ = openstack('host', 'maintenance', 'list', '--aggregate', 'pool', '-f', 'json')
    assert [row['host'] for row in rows] == [host]
    code, stopped, _ = openstack('host', 'maintenance', 'stop', '--aggregate', 'pool', host, '-f', 'json')
    assert code == 0 and stopped['status'] in ('rebalancing', 'ended')
    assert openstack('host', 'maintenance', 'show', '--aggregate', 'pool', host, '-f', 'json')[1]['host'] == host


def test_audit_events_and_metrics_are_shown_by_openstackclient(openstack):
    assert openstack('keypair', 'create', 'mine')[0] == 0
    _, rows, _ = openstack('compute', 'audit', 'list', '--action', 'os_compute_api:os-keypairs:create', '-f', 'json')
    assert [(row['target_id'], row['outcome'], row['code']) for row in rows] == [('mine', 'accepted', 201)]
    _, rows, _ = openstack('compute', 'metrics', 'show', '--name', 'nova_api_requests', '-f', 'json')
    assert any(row['labels'].get('route') == '/os-keypairs' and row['value'] >= 1 for row in rows)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        watching = pool.submit(openstack, 'compute', 'event', 'watch', '--seconds', '20')
        made = openstack('server', 'create', '--flavor', 'm1.tiny', '--image', 'guest', '--nic', 'none', '--wait',
                         'web')
        assert made[0] == 0, made
        while not watching.done():       # the stream tells what happens after it has begun, whenever that is
            assert openstack('server', 'reboot', '--hard', '--wait', 'web')[0] == 0
    code, lines, _ = watching.result()
    assert code == 0 and 'ACTIVE      web' in lines
    _, rows, _ = openstack('server', 'metrics', 'show', '--totals', 'web', '-f', 'json')
    assert {'cpu_seconds', 'network_receive_bytes'} <= {row['name'] for row in rows}
    _, rows, _ = openstack('server', 'metrics', 'show', '--step', '120', 'web', '-f', 'json')
    assert all({'time', 'cpu', 'memory_bytes'} <= row.keys() for row in rows)
    code, _, refusal = openstack('server', 'metrics', 'show', '--since', '2020-01-01T00:00:00Z', 'web')
    assert code == 1 and '900: 604800 s' in refusal
