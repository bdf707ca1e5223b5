"""Real answers against the public facts, at every version at which an operation's fields change."""
import pytest

from nova import context
from nova.image.embedded.images import EmbeddedImages
from nova.image.embedded import service as embedded
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import cloud_rows

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test'


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    """A deployment with one of everything that the operations below show."""
    directory = tmp_path_factory.mktemp('api')
    fixture = base.ApiFixture(directory)
    fixture.services.images = EmbeddedImages(embedded.Store(fixture.api_db, str(directory / 'images')))
    with fixture.cell_db.writer() as conn:
        fixture.service_id = cloud_rows.service(conn, 'host1')
        cloud_rows.service(conn, 'spare')
        cloud_rows.service(conn, 'ctl', 'nova-conductor', 'internal', last_seen_at=None)
        fixture.node_id = cloud_rows.node(conn, 'host1', uptime='up')
        cloud_rows.server(conn, 'host1')
    admin = fixture.admin()
    for flavor_id, public in (('a', True), ('p', False)):
        admin.post('/flavors', {'flavor': {'id': flavor_id, 'name': flavor_id, 'ram': 1, 'vcpus': 1, 'disk': 1,
                                           'os-flavor-access:is_public': public}})
        admin.post(f'/flavors/{flavor_id}/os-extra_specs', {'extra_specs': {'k': 'v'}})
    admin.post('/flavors/p/action', {'addTenantAccess': {'tenant': 't'}})
    for name in ('one', 'two'):
        admin.post('/os-keypairs', {'keypair': {'name': name, 'public_key': KEY}})
    caller = context.RequestContext(user_id='u', project_id=base.PROJECT, roles=['admin'], overwrite=False)
    server = '11111111-2222-3333-4444-555555555555'
    for name in ('one', 'two'):
        fixture.image_id = fixture.services.images.create(caller, {
            'name': name, 'disk_format': 'raw', 'container_format': 'bare',
            'properties': {'instance_uuid': server, 'auto_disk_config': 'true'}})['id']
    yield fixture
    fixture.close()


_COUNTER = iter(range(10 ** 6))


def _by_id(api, version):
    return {'node': api.node_id if version >= 53 else '1', 'image': api.image_id,
            'service': api.service_id if version >= 53 else 'disable'}


def _flavor(api, version):
    name = f'n{next(_COUNTER)}'
    return {'flavor': {'name': name, 'ram': 1, 'vcpus': 1, 'disk': 1}}


def _keypair(api, version):
    return {'keypair': {'name': f'n{next(_COUNTER)}', **({'public_key': KEY} if version >= 92 else {})}}


def _service(api, version):
    return {'status': 'disabled'} if version >= 53 else {'host': 'host1', 'binary': 'nova-compute'}


def _quotas(key):
    return lambda api, version: {key: {'instances': 9}}


# operation, path (the parts of _by_id filled in), body or what makes it
OPERATIONS = [
    ('GET /', '/', None),
    ('GET /versions/{}', '/versions/v2.1', None),
    ('GET /extensions', '/extensions', None),
    ('GET /extensions/{}', '/extensions/os-keypairs', None),
    ('GET /flavors', '/flavors?limit=1&is_public=None', None),
    ('GET /flavors/detail', '/flavors/detail?limit=1&is_public=None', None),
    ('GET /flavors/{}', '/flavors/a', None),
    ('POST /flavors', '/flavors', _flavor),
    ('PUT /flavors/{}', '/flavors/a', lambda api, version: {'flavor': {'description': 'd'}}),
    ('POST /flavors/{}/action addTenantAccess', '/flavors/p/action',
     lambda api, version: {'addTenantAccess': {'tenant': f't{next(_COUNTER)}'}}),
    ('GET /flavors/{}/os-flavor-access', '/flavors/p/os-flavor-access', None),
    ('GET /flavors/{}/os-extra_specs', '/flavors/a/os-extra_specs', None),
    ('GET /flavors/{}/os-extra_specs/{}', '/flavors/a/os-extra_specs/k', None),
    ('POST /flavors/{}/os-extra_specs', '/flavors/a/os-extra_specs',
     lambda api, version: {'extra_specs': {'j': 'v'}}),
    ('PUT /flavors/{}/os-extra_specs/{}', '/flavors/a/os-extra_specs/k', lambda api, version: {'k': 'w'}),
    ('GET /os-keypairs', '/os-keypairs', None),
    ('GET /os-keypairs/{}', '/os-keypairs/one', None),
    ('POST /os-keypairs', '/os-keypairs', _keypair),
    ('GET /limits', '/limits', None),
    ('GET /os-quota-sets/{}', '/os-quota-sets/p', None),
    ('GET /os-quota-sets/{}/detail', '/os-quota-sets/p/detail', None),
    ('GET /os-quota-sets/{}/defaults', '/os-quota-sets/p/defaults', None),
    ('PUT /os-quota-sets/{}', '/os-quota-sets/p', _quotas('quota_set')),
    ('GET /os-quota-class-sets/{}', '/os-quota-class-sets/default', None),
    ('PUT /os-quota-class-sets/{}', '/os-quota-class-sets/default', _quotas('quota_class_set')),
    ('GET /os-services', '/os-services', None),
    ('PUT /os-services/{}', '/os-services/{service}', _service),
    ('GET /os-availability-zone', '/os-availability-zone', None),
    ('GET /os-availability-zone/detail', '/os-availability-zone/detail', None),
    ('GET /os-hypervisors', '/os-hypervisors', None),
    ('GET /os-hypervisors/detail', '/os-hypervisors/detail', None),
    ('GET /os-hypervisors/{}', '/os-hypervisors/{node}', None),
    ('GET /os-hypervisors/statistics', '/os-hypervisors/statistics', None),
    ('GET /os-hypervisors/{}/search', '/os-hypervisors/host/search', None),
    ('GET /os-hypervisors/{}/servers', '/os-hypervisors/host/servers', None),
    ('GET /os-hypervisors/{}/uptime', '/os-hypervisors/{node}/uptime', None),
    ('GET /images', '/images?limit=1', None),
    ('GET /images/detail', '/images/detail?limit=1', None),
    ('GET /images/{}', '/images/{image}', None),
    ('GET /images/{}/metadata', '/images/{image}/metadata', None),
    ('POST /images/{}/metadata', '/images/{image}/metadata', lambda api, version: {'metadata': {'k': 'v'}}),
]


def _cases():
    for operation, path, body in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        row = facts.routes()[method, pattern, ''.join(action)]
        since, until = max(facts.minor(row['min']), 1), facts.minor(row['max'])
        for version in facts.boundaries(operation, 'response', since, until):
            yield pytest.param(operation, path, body, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('operation,path,body,version', _cases())
def test_responses_have_the_documented_fields(api, operation, path, body, version):
    answer = api.admin().request(operation.split(' ')[0], path.format(**_by_id(api, version)),
                                 body and body(api, version), version=f'2.{version}')
    assert answer.status in (200, 201), answer.body
    assert facts.differences(operation, version, answer.json) == []


def test_comparison_with_documented_fields_finds_a_difference():
    good = {'keypair': {'name': 'a', 'fingerprint': 'f', 'public_key': 'k', 'id': 1, 'user_id': 'u',
                        'created_at': '2026-01-01T00:00:00Z', 'updated_at': None, 'deleted': False,
                        'deleted_at': None}}
    operation = 'GET /os-keypairs/{}'
    assert facts.differences(operation, 1, good) == []
    assert facts.differences(operation, 2, good) == ['keypair.type is missing']
    assert facts.differences(operation, 1, {'keypair': {**good['keypair'], 'type': 'ssh'}}) == [
        'keypair.type is unexpected']
    assert 'keypair.id is' in facts.differences(operation, 1, {'keypair': {**good['keypair'], 'id': 'x'}})[0]
