"""What another project has, named in a body or as a marker of a list: answered as what does not exist.

References are the rows of REFERENCES, and so are markers: a new kind of either is a new row.
"""
import pytest

from nova.tests.functional import callers
from nova.tests.functional.callers_cloud import *      # noqa: F403
from nova.tests.support import isolation

one = isolation.one


def _server(**fields):
    return {'server': {'name': 'thief', 'imageRef': '{mine_image}', 'flavorRef': '42', 'networks': 'none', **fields}}


def _device(**fields):
    return _server(imageRef='', block_device_mapping_v2=[{
        'boot_index': 0, 'destination_type': 'volume', 'delete_on_termination': False, **fields}])


MINE = '/servers/{mine}'
ACTION = MINE + '/action'
RULE = {'direction': 'ingress', 'protocol': 'tcp'}
# (what it refers to, method, path, body, version): the reference is {ref}
REFERENCES = [
    *(('image', *row) for row in (
        ('POST', '/servers', _server(imageRef='{ref}'), None),
        ('POST', '/servers', _device(source_type='image', uuid='{ref}', volume_size=1), None),
        ('POST', ACTION, {'rebuild': {'imageRef': '{ref}'}}, None),
        ('POST', ACTION, {'rescue': {'rescue_image_ref': '{ref}'}}, None),
        ('POST', '/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': '{ref}'}}, None))),
    ('snapshot', 'POST', '/servers', _server(imageRef='{ref}'), None),
    *((kind, *row) for kind in ('free_volume', 'volume') for row in (
        ('POST', '/servers', _device(source_type='volume', uuid='{ref}'), None),
        ('POST', '/servers', _server(block_device_mapping=[{'volume_id': '{ref}', 'device_name': 'vdb'}]), None),
        ('POST', MINE + '/os-volume_attachments', {'volumeAttachment': {'volumeId': '{ref}'}}, None),
        ('PUT', MINE + '/os-volume_attachments/{mine_volume}', {'volumeAttachment': {'volumeId': '{ref}'}}, None),
        ('POST', '/volume/v3/volumes', {'volume': {'size': 1, 'source_volid': '{ref}'}}, None),
        ('POST', '/volume/v3/snapshots', {'snapshot': {'volume_id': '{ref}'}}, None),
        ('POST', '/volume/v3/attachments', {'attachment': {'volume_uuid': '{ref}', 'instance_uuid': '{mine}'}}, None))),
    ('volume_snapshot', 'POST', '/servers', _device(source_type='snapshot', uuid='{ref}'), None),
    ('volume_snapshot', 'POST', '/volume/v3/volumes', {'volume': {'size': 1, 'snapshot_id': '{ref}'}}, None),
    *((kind, *row) for kind in ('port', 'server_port') for row in (
        ('POST', '/servers', _server(networks=[{'port': '{ref}'}]), None),
        ('POST', MINE + '/os-interface', {'interfaceAttachment': {'port_id': '{ref}'}}, None))),
    ('private_network', 'POST', '/servers', _server(networks=[{'uuid': '{ref}'}]), None),
    ('private_network', 'POST', MINE + '/os-interface', {'interfaceAttachment': {'net_id': '{ref}'}}, None),
    ('private_network', 'POST', ACTION, {'addFixedIp': {'networkId': '{ref}'}}, '2.43'),
    ('private_network', 'POST', '/network/v2.0/ports', {'port': {'network_id': '{ref}'}}, None),
    ('private_network', 'POST', '/network/v2.0/subnets',
     {'subnet': {'network_id': '{ref}', 'cidr': '10.55.0.0/24', 'ip_version': 4}}, None),
    ('private_subnet', 'POST', '/network/v2.0/ports',
     {'port': {'network_id': '{network}', 'fixed_ips': [{'subnet_id': '{ref}'}]}}, None),
    *(('group', *row) for row in (
        ('POST', '/servers', _server(networks='auto', security_groups=[{'name': '{ref}'}]), None),
        ('POST', ACTION, {'addSecurityGroup': {'name': '{ref}'}}, None),
        ('POST', ACTION, {'removeSecurityGroup': {'name': '{ref}'}}, None),
        ('POST', '/network/v2.0/ports', {'port': {'network_id': '{network}', 'security_groups': ['{ref}']}}, None),
        ('PUT', '/network/v2.0/ports/{mine_port}', {'port': {'security_groups': ['{ref}']}}, None),
        ('POST', '/network/v2.0/security-group-rules', {'security_group_rule': {
            **RULE, 'security_group_id': '{ref}'}}, None),
        ('POST', '/network/v2.0/security-group-rules', {'security_group_rule': {
            **RULE, 'security_group_id': '{mine_group}', 'remote_group_id': '{ref}'}}, None),
        ('POST', '/os-security-group-rules', {'security_group_rule': {
            'parent_group_id': '{ref}', 'ip_protocol': 'tcp', 'from_port': 1, 'to_port': 2}}, '2.35'),
        ('POST', '/os-security-group-rules', {'security_group_rule': {
            'parent_group_id': '{mine_group}', 'group_id': '{ref}', 'ip_protocol': 'tcp', 'from_port': 1,
            'to_port': 2}}, '2.35'))),
    ('key', 'POST', '/servers', _server(key_name='{ref}'), None),
    ('key', 'POST', ACTION, {'rebuild': {'imageRef': '{mine_image}', 'key_name': '{ref}'}}, None),
    ('flavor', 'POST', '/servers', _server(flavorRef='{ref}'), None),
    ('flavor', 'POST', ACTION, {'resize': {'flavorRef': '{ref}'}}, None),
    ('server_group', 'POST', '/servers', {**_server(), 'os:scheduler_hints': {'group': '{ref}'}}, None),
    *(('server', 'POST', '/servers', {**_server(), 'os:scheduler_hints': {hint: value}}, None)
      for hint in ('same_host', 'different_host') for value in ('{ref}', ['{ref}'])),
    ('server', 'POST', '/servers/action', {'os-bulk-action': {'action': {'os-stop': None}, 'ids': ['{ref}']}}, None),
    ('server', 'POST', '/servers/action', {'os-bulk-action': {'action': {'delete': None}, 'ids': ['{ref}']}}, None),
    ('server', 'POST', '/network/v2.0/ports', {'port': {'network_id': '{network}', 'device_id': '{ref}'}}, None),
    ('server', 'PUT', '/network/v2.0/ports/{mine_port}', {'port': {'device_id': '{ref}'}}, None),
    ('server', 'POST', '/volume/v3/attachments', {'attachment': {
        'volume_uuid': '{mine_volume}', 'instance_uuid': '{ref}'}}, None),
    ('project', 'POST', '/network/v2.0/ports', {'port': {'network_id': '{network}', 'project_id': '{ref}'}}, None),
    ('project', 'POST', '/network/v2.0/security-groups', {'security_group': {
        'name': 'x', 'tenant_id': '{ref}'}}, None),
    ('project', 'POST', '/image/v2/images', {'name': 'x', 'owner': '{ref}'}, None),
    ('project', 'POST', '/v3.0/{mine_project}/groups', {'group': {
        'name': 'x', 'tenant_id': '{ref}', 'policies': ['affinity']}}, None),
]


@pytest.fixture(scope='module')
def thieves(identity):
    """{name: Caller} of a third project, in which little counts against its quotas so far."""
    return {role: identity.in_project('third', role) for role in ('member', 'manager')} | identity.delegated('third')


@pytest.fixture(scope='module')
def base(identity, thieves, things):
    """What the third project has besides servers: {name: id}."""
    member, admin = thieves['member'], identity.admin
    network = one(admin, '/network/v2.0/networks', 'network', name='mine', project_id=member.project_id)['id']
    one(admin, '/network/v2.0/subnets', 'subnet', network_id=network, cidr='10.78.0.0/24', ip_version=4)
    subnet, = member.get(f'/network/v2.0/subnets?network_id={things["network"]}').json()['subnets']
    default, = member.get('/network/v2.0/security-groups?name=default').json()['security_groups']
    one(admin, '/flavors', 'flavor', id='mine', name='mine', ram=64, vcpus=1, disk=1,
        **{'os-flavor-access:is_public': False})
    given = admin.post('/flavors/mine/action', {'addTenantAccess': {'tenant': member.project_id}})
    assert given.status_code == 200, given.text
    return {'mine_image': member.upload_image(name='mine'), 'network': things['network'],
            'mine_project': member.project_id, 'mine_network': network, 'subnet': subnet['id'],
            'default_group': default['id'],
            'mine_group': one(member, '/network/v2.0/security-groups', 'security_group', name='mine')['id'],
            'mine_key': one(member, '/os-keypairs', 'keypair', name='mine', type='ssh',
                            public_key=isolation.PUBLIC_KEY)['name'],
            'mine_server_group': one(member, '/os-server-groups', 'server_group', name='mine', policy='affinity')['id']}


def _boot(member, base):
    server = member.boot(base['mine_image'], name='mine', networks=[{'uuid': base['network']}])['id']
    member.wait_for(server)
    return server


def _volume(member, base):
    return one(member, '/volume/v3/volumes', 'volume', size=1, name='mine')['id']


def _port(member, base):
    return one(member, '/network/v2.0/ports', 'port', network_id=base['network'])['id']


def _snapshot(member, base):
    return one(member, '/volume/v3/snapshots', 'snapshot', volume_id=_volume(member, base), name='mine')['id']


# What a member has himself of a kind: the name in ``base``, or what makes a new one.
OWN = {'image': 'mine_image', 'snapshot': 'mine_image', 'free_volume': _volume, 'volume': _volume,
       'volume_snapshot': _snapshot, 'port': _port, 'server_port': _port, 'private_network': 'mine_network',
       'private_subnet': 'subnet', 'group': 'mine_group', 'key': 'mine_key', 'flavor': lambda member, base: 'mine',
       'server_group': 'mine_server_group', 'server': _boot, 'project': 'mine_project'}
# what the server has, where the action is about that
OWN_OF_ACTIONS = {'addFixedIp': 'network', 'removeSecurityGroup': 'default_group'}
# Other hosts than that of a server: only administrators see where one goes.
UNSEEN = 'different_host'


@pytest.fixture
def mine(thieves, base, row):
    """What a member of the third project has, to refer from: new for each row, since some change it."""
    member, made = thieves['member'], dict(base)
    for name, make in (('mine', _boot), ('mine_volume', _volume), ('mine_port', _port)):
        if '{%s}' % name in str(row):
            made[name] = make(member, base)
    if 'os-volume_attachments/{mine_volume}' in row[2]:
        path = f'/servers/{made["mine"]}/os-volume_attachments'
        assert member.post(path, {'volumeAttachment': {'volumeId': made['mine_volume']}}).status_code == 200
        isolation.waiting.wait_for(lambda: member.get(f'/volume/v3/volumes/{made["mine_volume"]}').json()['volume'][
            'status'] == 'in-use', 20, 'the volume to be attached')
    yield made
    for server in member.get('/servers').json()['servers']:
        member.delete(f'/servers/{server["id"]}')
    isolation.waiting.wait_for(lambda: not member.get('/servers').json()['servers'], 30, 'the servers to be gone')
    for path, noun in (('/network/v2.0/ports', 'ports'), ('/volume/v3/snapshots', 'snapshots'),
                       ('/volume/v3/volumes', 'volumes')):
        for found in member.get(path).json()[noun]:
            member.delete(f'{path}/{found["id"]}')


def _refer(caller, row, mine, ref):
    """(status, text, what became of a server that was made) of one request."""
    _kind, method, path, body, version = row
    path = isolation.filled(path, mine)
    path = '/compute' + path if path.startswith('/v3.0') else path
    answer = caller.request(method, path, isolation.filled(body, {**mine, 'ref': ref}), version=version)
    text, ended = answer.text.replace(ref, '…'), None
    if path.endswith(('/servers', '/images', '/volumes', '/snapshots', '/ports')) and answer.status_code < 300:
        text = ''
    if path == '/servers' and answer.status_code == 202:
        server = answer.json()['server']['id']
        shown = isolation.waiting.wait_for(lambda: next((found for found in [caller.get(f'/servers/{server}').json()[
            'server']] if found['status'] in ('ACTIVE', 'ERROR')), None), 60, 'the server to be built')
        ended = shown['status'], shown.get('fault', {}).get('message')
        caller.delete(f'/servers/{server}')
    return answer.status_code, text, ended


@pytest.mark.parametrize('row', REFERENCES, ids=lambda row: f'{row[0]} in {row[1]} {row[2]} {next(iter(row[3]))}')
def test_a_reference_to_anothers_is_one_to_nothing(things, missing, mine, thieves, row):
    wrong = {}
    for who in ('member', 'manager', *callers.DELEGATED):
        theirs = _refer(thieves[who], row, mine, things[row[0]])
        nothing = _refer(thieves[who], row, mine, missing[row[0]])
        if theirs != nothing or 'canary' in theirs[1] or theirs[0] >= 500:
            wrong[who] = theirs, nothing
    assert not wrong
    # One's own is answered otherwise, so that it is the reference that is looked at; or a rule refuses all of them.
    make = OWN_OF_ACTIONS.get(next(iter(row[3])), OWN[row[0]])
    own = _refer(thieves['member'], row, mine, make(thieves['member'], mine) if callable(make) else mine[make])
    assert own != nothing or own[0] == 403 or UNSEEN in str(row), own


def test_the_references_have_done_nothing(things, owner, thieves):
    """It stands behind them: what they named is as it was, and who named it has nothing of it."""
    theirs = [things[name] for name in ('server', 'image', 'volume', 'free_volume', 'group', 'port')]
    for path in ('/servers/detail', '/network/v2.0/ports', '/volume/v3/volumes/detail', '/image/v2/images',
                 '/network/v2.0/security-groups', '/volume/v3/attachments'):
        text = thieves['member'].get(path).text
        assert 'canary' not in text and not [each for each in theirs if each in text], path
    assert owner.get(f'/servers/{things["server"]}').json()['server']['status'] == 'ACTIVE'
    assert owner.get(f'/volume/v3/volumes/{things["free_volume"]}').json()['volume']['status'] == 'available'
    assert owner.get(f'/network/v2.0/ports/{things["port"]}').json()['port']['device_id'] == ''


@pytest.mark.parametrize('path,name', [
    ('/os-simple-tenant-usage/{mine_project}?marker=', 'server'), ('/os-migrations?marker=', 'move'),
    ('/servers?marker=', 'moved'), ('/servers/detail?marker=', 'server'), ('/image/v2/images?marker=', 'image'),
    ('/volume/v3/volumes?marker=', 'volume'), ('/volume/v3/snapshots?marker=', 'volume_snapshot'),
    ('/network/v2.0/networks?limit=1&marker=', 'private_network'), ('/network/v2.0/ports?limit=1&marker=', 'port'),
    ('/network/v2.0/subnets?limit=1&marker=', 'private_subnet'), ('/flavors?marker=', 'flavor'),
    ('/network/v2.0/security-group-rules?limit=1&marker=', 'rule'), ('/os-keypairs?marker=', 'key')])
def test_a_marker_of_anothers_is_none(things, missing, base, thieves, path, name):
    path = path.format(**base)
    for who in ('manager', *callers.DELEGATED):
        theirs, nothing = (thieves[who].get(path + ref) for ref in (things[name], missing[name]))
        assert theirs.status_code == nothing.status_code, (who, theirs.text, nothing.text)
        assert theirs.text.replace(things[name], '') == nothing.text.replace(missing[name], ''), who
