"""GET /os-permissions: what members, readers and administrators are denied, over HTTP."""
import pytest

from nova import policies
from nova.tests.functional import callers
from nova.tests.functional import cloud as clouds


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('permissions'), ['host1']) as made:
        yield made


def denied(client):
    return {row['service']: set(row['denied']) for row in client.get('/os-permissions').json()['permissions']}


def test_members_are_denied_what_only_administrators_may_do(cloud):
    found = denied(cloud.client())
    assert found.keys() == {service.name for service in policies.SERVICES}
    assert {'os_compute_api:os-flavor-manage:create', 'nova:metrics:show'} <= found['compute']
    assert not {'os_compute_api:servers:create', 'nova:permissions:index'} & found['compute']
    assert 'create_network:router:external' in found['network'] and 'create_network' not in found['network']
    assert 'identity:create_user' in found['identity'] and 'volume:create' not in found['block storage']


def test_readers_are_denied_every_change(cloud):
    identity = callers.Identity(cloud.admin())
    project = identity.project('read-only')
    name, password, _user = identity.user(f'/projects/{project}', 'reader')
    found = denied(clouds.Client(cloud.url, name, password, 'read-only'))
    assert {'os_compute_api:servers:create', 'os_compute_api:os-keypairs:create'} & found['compute'] == {
        'os_compute_api:servers:create'}, 'key pairs belong to the user'
    assert {'create_network', 'create_router', 'update_floatingip'} <= found['network']
    assert {'volume:create', 'backup:create'} <= found['block storage'] and 'add_image' in found['image']


def test_administrators_are_denied_no_operation_of_compute(cloud):
    found = denied(cloud.admin())
    assert not {'os_compute_api:servers:create', 'os_compute_api:os-flavor-manage:create'} & found['compute']


def test_the_parameter_list_is_closed(cloud):
    assert cloud.client().get('/os-permissions?rule=x').status_code == 400
