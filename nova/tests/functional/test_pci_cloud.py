"""PCI devices through HTTP, on a whole cloud of the fake driver."""
import json

import pytest

from nova import exception
from nova.db.servers import instances
from nova.objects import pci
from nova.tests.functional import cloud as fixture
from nova.tests.support import pci as devices
from nova.tests.support import pci_cloud
from nova.tests.support.pci_cloud import ALIASES
from nova.tests.support.pci_cloud import Clients

cloud = pci_cloud.cloud


@pytest.fixture
def clients(cloud):
    return Clients(cloud)


def test_server_beyond_the_devices_gets_a_fault_with_the_reason(clients):
    clients.flavor('gpu', pci_passthrough__alias='gpu:1')
    servers = [clients.boot('gpu') for _ in range(4)]
    assert clients.devices() == {server['id']: 1 for server in servers}
    refused = clients.boot('gpu', 'ERROR')
    assert refused['fault']['message'] == (
        'No valid host was found. 2 hosts: 2 have too few free PCI devices (gpu:1).')
    assert clients.user.delete(f'/servers/{servers[0]["id"]}').status_code == 204
    clients.user.wait_for(servers[0]['id'], 'DELETED')
    assert clients.boot('gpu')['status'] == 'ACTIVE'


def test_virtual_gpus_are_counted_and_exclude_the_whole_card(tmp_path):
    """A card that is divided: its parts are counted and claimed, and while one is in use nobody gets the whole."""
    parts = [{'address': f'{devices.GPUS[0]["address"]}2a0{number}', 'vendor_id': '10de', 'product_id': '20b0',
              'dev_type': 'type-MD', 'parent_addr': devices.GPUS[0]['address']} for number in range(3)]
    with fixture.running(tmp_path, ['host1'], pci__alias=ALIASES,
                         **devices.options([devices.GPUS[0], *parts])) as cloud:
        clients = Clients(cloud)
        clients.flavor('part', resources__VGPU='1')
        clients.flavor('parts', resources__VGPU='2')
        clients.flavor('whole', pci_passthrough__alias='gpu:1')
        two = clients.boot('parts')
        assert clients.devices() == {two['id']: 2}
        clients.boot('whole', 'ERROR')
        clients.boot('part')
        refused = clients.boot('part', 'ERROR')
        assert 'too few free PCI devices (VGPU:1)' in refused['fault']['message']
        clients.act(two, 'VERIFY_RESIZE', resize={'flavorRef': clients.flavor('none')})
        clients.act(two, 'ACTIVE', confirmResize=None)
        assert clients.boot('part')['status'] == 'ACTIVE'


@pytest.mark.parametrize('end, left', [('confirmResize', 2), ('revertResize', 1)])
def test_resize_claims_and_releases_devices(clients, end, left):
    clients.flavor('gpu', pci_passthrough__alias='gpu:1')
    clients.flavor('gpus', pci_passthrough__alias='gpu:2')
    server = clients.boot('gpu')
    clients.act(server, 'VERIFY_RESIZE', resize={'flavorRef': 'gpus'})
    assert clients.devices() == {server['id']: 3}
    clients.act(server, 'ACTIVE', **{end: None})
    assert clients.devices() == {server['id']: left}


def test_stored_pci_requests_are_not_shown(clients):
    clients.flavor('gpu', pci_passthrough__alias='gpu:1')
    server = clients.boot('gpu')
    shown = clients.admin.get(f'/servers/{server["id"]}', version='2.104').json()['server']
    assert shown['flavor']['extra_specs'] == {'pci_passthrough:alias': 'gpu:1'}
    assert 'pci_requests' not in json.dumps(shown)


@pytest.mark.parametrize('specs, word', [
    ({'pci_passthrough__alias': 'fpga:1'}, 'fpga'), ({'pci_passthrough__alias': 'gpu'}, 'name:count'),
    ({'pci_passthrough__alias': 'gpu:0'}, 'name:count'), ({'pci_passthrough__alias': 'gpu:1,fpga:1'}, 'fpga'),
    ({'hw__pci_numa_affinity_policy': 'near'}, 'pci_numa_affinity_policy'),
    ({'pci_passthrough__alias': 'gpu:1', 'hw__pci_numa_affinity_policy': 'near'}, 'pci_numa_affinity_policy')])
def test_invalid_pci_requests_of_a_flavor_return_400(clients, specs, word):
    clients.flavor('bad', **specs)
    clients.flavor('plain')
    refused = clients.asked('bad')
    assert refused.status_code == 400 and word in refused.json()['badRequest']['message']
    server = clients.boot('plain')
    refused = clients.user.post(f'/servers/{server["id"]}/action', {'resize': {'flavorRef': 'bad'}})
    assert refused.status_code == 400 and word in refused.json()['badRequest']['message']
    assert clients.user.wait_for(server['id'])['status'] == 'ACTIVE'


def test_a_mistake_in_the_names_fails_the_start(tmp_path):
    with pytest.raises(exception.InvalidInput, match='alias: there is no key vendor'):
        fixture.Cloud(tmp_path, pci__alias=['{"name": "gpu", "vendor": "10de"}']).start()


def test_contradictory_pci_policies_return_400(clients):
    clients.image = clients.user.upload_image(hw_pci_numa_affinity_policy='required')
    clients.flavor('near', pci_passthrough__alias='gpu:1', hw__pci_numa_affinity_policy='legacy')
    refused = clients.asked('near')
    assert refused.status_code == 400 and 'pci_numa_affinity_policy' in refused.text
    clients.flavor('gpu', pci_passthrough__alias='gpu:1')
    server = clients.boot('gpu')
    with clients.cloud.cell_db.reader() as conn:
        asked, = pci.requested(instances.get(conn, server['id'])['flavor'])
    assert asked.numa_policy == 'required'


def test_live_migration_is_refused(clients):
    clients.flavor('gpu', pci_passthrough__alias='gpu:1')
    server = clients.boot('gpu')
    path, body = f'/servers/{server["id"]}/action', {'os-migrateLive': {'host': None, 'block_migration': 'auto'}}
    refused = clients.admin.post(path, body, version='2.25')
    assert refused.status_code == 400 and 'PCI devices' in refused.json()['badRequest']['message']
    assert clients.admin.post(path, body, version='2.34').status_code == 202
    assert clients.user.wait_for(server['id'])['status'] == 'ACTIVE'
    assert clients.devices() == {server['id']: 1}


def test_aliases_with_a_mistake_are_said_at_the_start(tmp_path):
    wrong = ['{"name": "a,b"}']
    with pytest.raises(exception.InvalidInput, match='alias'), fixture.running(tmp_path, pci__alias=wrong):
        pass
