"""What tests share with nova/tests/functional/test_pci_cloud.py."""
import collections

import pytest

from nova.tests.functional import cloud as fixture
from nova.tests.support import pci as devices

ALIASES = ['{"name": "gpu", "vendor_id": "10de", "product_id": "20b0", "numa_policy": "preferred"}',
           '{"name": "vf", "device_type": "type-VF"}']


@pytest.fixture
def cloud(tmp_path):
    with fixture.running(tmp_path, ['host1', 'host2'], pci__alias=ALIASES, **devices.options()) as made:
        yield made
        assert made.services[0].manager.claim_check.audit() == []


class Clients:
    """An administrator, who makes flavors, and a user."""

    def __init__(self, cloud):
        self.cloud, self.admin, self.user = cloud, cloud.admin(), cloud.client()
        self.image = self.user.upload_image()

    def flavor(self, name, **specs):
        made = self.admin.post('/flavors', {'flavor': {'name': name, 'id': name, 'ram': 64, 'vcpus': 1, 'disk': 1}})
        assert made.status_code == 200, made.text
        if specs:
            answer = self.admin.post(f'/flavors/{name}/os-extra_specs', {'extra_specs': {
                key.replace('__', ':'): value for key, value in specs.items()}})
            assert answer.status_code == 200, answer.text
        return name

    def asked(self, flavor, **fields):
        return self.user.post('/servers', {'server': {'name': 'a', 'imageRef': self.image, 'flavorRef': flavor,
                                                      'networks': 'none', **fields}}, version='2.37')

    def boot(self, flavor, status='ACTIVE'):
        answer = self.asked(flavor)
        assert answer.status_code == 202, answer.text
        return self.user.wait_for(answer.json()['server']['id'], status)

    def act(self, server, status, **action):
        answer = self.user.post(f'/servers/{server["id"]}/action', action)
        assert answer.status_code in (202, 204), answer.text
        return self.user.wait_for(server['id'], status)

    def devices(self):
        """{server: number of its devices}, as the rows have them."""
        return collections.Counter(row['instance_uuid'] for row in devices.stored(self.cloud.cell_db)
                                   if row['instance_uuid'])
