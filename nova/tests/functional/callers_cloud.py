"""A cloud with something of everything in one project, and callers of every kind around it: fixtures of tests."""
import pytest

from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import isolation

MISSING, VERSION, one = isolation.MISSING, isolation.VERSION, isolation.one
# names and numbers; what else there is has a uuid
NOT_UUIDS = {'key': 'missing-key', 'metadata_key': 'missing', 'tag': 'missing', 'migration': '999999',
             'request': 'req-' + MISSING, 'project': '0' * 32, 'flavor': 'missing'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('callers'), ['host1', 'host2'], quota__instances=-1,
                               quota__cores=-1, quota__ram=-1, quota__server_groups=-1) as made:
        yield made


@pytest.fixture(scope='module')
def identity(cloud):
    return callers.Identity(cloud.admin(VERSION), VERSION)


@pytest.fixture(scope='module')
def owner(identity):
    return identity.in_project('canary-project', 'member')


@pytest.fixture(scope='module')
def others(identity):
    """{name: Caller} of another project."""
    return {role: identity.in_project('other', role) for role in ('reader', 'member', 'manager', 'service')} | (
        identity.delegated('other'))


@pytest.fixture(scope='module')
def nowhere(identity):
    return identity.without_project()


@pytest.fixture(scope='module')
def things(identity, owner):
    """Of everything that a project can have one: {name: id}."""
    admin, made = identity.admin, isolation.make_things(owner)
    project = owner.project_id
    network = one(admin, '/network/v2.0/networks', 'network', name='canary-network', project_id=project)['id']
    subnet = one(admin, '/network/v2.0/subnets', 'subnet', network_id=network, cidr='10.77.0.0/24', ip_version=4,
                 project_id=project)['id']
    routed = _routed(admin, owner, network, subnet)
    one(admin, '/flavors', 'flavor', id='private', name='canary-flavor', ram=128, vcpus=1, disk=1,
        **{'os-flavor-access:is_public': False})
    given = admin.post('/flavors/private/action', {'addTenantAccess': {'tenant': project}})
    assert given.status_code == 200, given.text
    moved = owner.boot(made['image'], name='canary-moved', networks='none')['id']
    owner.wait_for(moved)
    assert admin.post(f'/servers/{moved}/action', {'migrate': None}).status_code == 202
    owner.wait_for(moved, 'VERIFY_RESIZE')
    defined = admin.post('/image/v2/metadefs/namespaces', {
        'namespace': 'canary-definitions', 'visibility': 'private', 'owner': project})
    assert defined.status_code == 201, defined.text
    move, = admin.get(f'/os-migrations?instance_uuid={moved}').json()['migrations']
    return {**made, **routed, 'private_network': network, 'private_subnet': subnet, 'flavor': 'private', 'moved': moved,
            'migration': move['id'], 'move': move['uuid'], 'metadata_key': 'key', 'tag': 'tag',
            'namespace': 'canary-definitions',
            'server_group': one(owner, '/os-server-groups', 'server_group', name='canary-servers',
                                policy='anti-affinity')['id'],
            'attachment': owner.get('/volume/v3/attachments').json()['attachments'][0]['id'], **_handed(owner)}


def _handed(owner):
    """A volume that waits for another project, and a backup of one."""
    found = {}
    for name, path, key in (('backup', '/volume/v3/backups', 'backup'),
                            ('transfer', '/volume/v3/volume-transfers', 'transfer')):
        volume = one(owner, '/volume/v3/volumes', 'volume', name=f'canary-{name}', size=1)['id']
        found[name] = one(owner, path, key, name=f'canary-{name}', volume_id=volume)['id']
    return found


def _routed(admin, owner, network, subnet):
    """A router, a floating address with a forwarded port, a share and a pool of subnets, by the owner."""
    outside = one(admin, '/network/v2.0/networks', 'network', name='outside', **{'router:external': True})['id']
    one(admin, '/network/v2.0/subnets', 'subnet', network_id=outside, cidr='172.24.9.0/24', ip_version=4)
    router = one(owner, '/network/v2.0/routers', 'router', name='canary-router',
                 external_gateway_info={'network_id': outside})['id']
    joined = owner.put(f'/network/v2.0/routers/{router}/add_router_interface', {'subnet_id': subnet})
    assert joined.status_code == 200, joined.text
    port = one(owner, '/network/v2.0/ports', 'port', name='canary-routed', network_id=network)['id']
    floating = one(owner, '/network/v2.0/floatingips', 'floatingip', floating_network_id=outside)['id']
    forwarding = one(owner, f'/network/v2.0/floatingips/{floating}/port_forwardings', 'port_forwarding',
                     protocol='tcp', external_port=80, internal_port=80, internal_port_id=port)['id']
    share = one(owner, '/network/v2.0/rbac-policies', 'rbac_policy', object_type='network', object_id=network,
                action='access_as_shared', target_tenant='nobody')['id']
    pool = one(owner, '/network/v2.0/subnetpools', 'subnetpool', name='canary', prefixes=['10.97.0.0/16'])['id']
    scope = one(owner, '/network/v2.0/address-scopes', 'address_scope', name='canary', ip_version=4)['id']
    ranges = one(owner, '/network/v2.0/address-groups', 'address_group', name='canary',
                 addresses=['192.0.2.0/24'])['id']
    parent = one(owner, '/network/v2.0/ports', 'port', name='canary-parent', network_id=network)['id']
    trunk = one(owner, '/network/v2.0/trunks', 'trunk', name='canary', port_id=parent)['id']
    return {'trunk': trunk, 'address_group': ranges, 'address_scope': scope, 'router': router, 'floating_ip': floating,
            'port_forwarding': forwarding, 'share': share, 'subnet_pool': pool}


@pytest.fixture(scope='module')
def missing(things):
    return {name: NOT_UUIDS.get(name, MISSING) for name in things}
