"""Administrative servers in a whole cloud: where they are placed, and what users see of their images and volumes."""
import json
import time
import uuid

import pytest
import yaml

from nova.api.servers import category as server_category
from nova.tests.support import isolation
from nova.tests.support import waiting
from nova.tests.functional import cloud as whole

KEY = server_category.KEY
HOSTS = ['host1', 'host2', 'host3', 'host4']
FAST = {'host2', 'host3'}                     # those with a local SSD, as their aggregate says


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('categories') / 'state', HOSTS) as made:
        made.boss, made.demo = made.admin('2.90'), made.client(version='2.90')
        made.image = made.boss.upload_image(visibility='public')
        aggregate = _ok(made.boss.post('/os-aggregates', {'aggregate': {'name': 'fast'}}))['aggregate']['id']
        for host in FAST:
            _ok(made.boss.post(f'/os-aggregates/{aggregate}/action', {'add_host': {'host': host}}))
        _ok(made.boss.post(f'/os-aggregates/{aggregate}/action', {'set_metadata': {'metadata': {
            'local_ssd': 'true', 'nic_speed': '10000'}}}))
        category(made, 'storage', requirements={'local_ssd': 'true', 'nic_speed': '>= 10000'},
                 default_flavor='42', default_image=made.image)
        category(made, 'nowhere', requirements={'local_ssd': 'true', 'nic_speed': '>= 40000'})
        category(made, 'anywhere')
        made.chief = chief(made)
        yield made


def _ok(answer):
    assert answer.status_code < 300, answer.text
    return answer.json()


def category(cloud, name, **values):
    return _ok(cloud.boss.post('/os-instance-categories', {'instance_category': {'name': name, **values}}))


def chief(cloud):
    """An administrator in the project of the demo user."""
    entry = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
    role = next(role['id'] for role in _ok(cloud.boss.get('/identity/v3/roles'))['roles'] if role['name'] == 'admin')
    answer = cloud.boss.put(
        f'/identity/v3/projects/{cloud.demo.project_id}/users/{cloud.boss.user_id}/roles/{role}')
    assert answer.status_code == 204, answer.text
    project = _ok(cloud.boss.get(f'/identity/v3/projects/{cloud.demo.project_id}'))['project']['name']
    return whole.Client(cloud.url, entry['username'], entry['password'], project, '2.90')


def boot(client, wait='ACTIVE', **fields):
    made = _ok(client.post('/servers', {'server': {'name': 'vm', 'networks': 'none', **fields}}))['server']['id']
    client.wait_for(made, wait)
    return made


def home(cloud, server_id):
    return _ok(cloud.boss.get(f'/servers/{server_id}'))['server']['OS-EXT-SRV-ATTR:host']


def act(cloud, server_id, name, body=None):
    answer = cloud.boss.post(f'/servers/{server_id}/action', {name: body})
    assert answer.status_code < 300, answer.text


def remove(cloud, server_id):
    assert cloud.boss.delete(f'/servers/{server_id}').status_code == 204
    deadline = time.monotonic() + 120
    while cloud.boss.get(f'/servers/{server_id}').status_code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- placement -----------------------------------------------------------------------

def test_it_is_built_where_the_requirements_are_met(cloud):
    made = [boot(cloud.boss, **{KEY: 'storage'}) for _ in range(3)]
    assert {home(cloud, server_id) for server_id in made} <= FAST
    for server_id in made:
        remove(cloud, server_id)


def test_without_such_a_host_the_fault_says_so(cloud):
    server_id = boot(cloud.boss, 'ERROR', imageRef=cloud.image, flavorRef='42', **{KEY: 'nowhere'})
    fault = _ok(cloud.boss.get(f'/servers/{server_id}'))['server']['fault']
    assert "do not meet the requirements of the server's category" in fault['message']
    assert 'nic_speed' in fault['message'] and 'local_ssd' in fault['message']
    remove(cloud, server_id)


def test_it_moves_to_such_hosts_alone(cloud):
    server_id = boot(cloud.boss, **{KEY: 'storage'})
    first = home(cloud, server_id)
    other, = FAST - {first}
    act(cloud, server_id, 'migrate')
    cloud.boss.wait_for(server_id, 'VERIFY_RESIZE')
    assert home(cloud, server_id) == other
    act(cloud, server_id, 'confirmResize')
    cloud.boss.wait_for(server_id)
    act(cloud, server_id, 'os-migrateLive', {'host': None, 'block_migration': 'auto'})
    cloud.boss.wait_for(server_id)
    assert home(cloud, server_id) == first
    act(cloud, server_id, 'resize', {'flavorRef': '84'})
    cloud.boss.wait_for(server_id, 'VERIFY_RESIZE')
    assert home(cloud, server_id) in FAST
    act(cloud, server_id, 'confirmResize')
    cloud.boss.wait_for(server_id)
    act(cloud, server_id, 'shelve')
    cloud.boss.wait_for(server_id, 'SHELVED_OFFLOADED')
    act(cloud, server_id, 'unshelve')
    cloud.boss.wait_for(server_id)
    assert home(cloud, server_id) in FAST
    evacuated_to(cloud, server_id)
    remove(cloud, server_id)


def evacuated_to(cloud, server_id):
    source = home(cloud, server_id)
    other, = FAST - {source}
    service, = [row['id'] for row in _ok(cloud.boss.get(f'/os-services?host={source}&binary=nova-compute'))['services']]
    _ok(cloud.boss.put(f'/os-services/{service}', {'forced_down': True}))
    try:
        act(cloud, server_id, 'evacuate', {})
        deadline = time.monotonic() + 120
        while home(cloud, server_id) == source:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert home(cloud, server_id) == other
    finally:
        _ok(cloud.boss.put(f'/os-services/{service}', {'forced_down': False}))
    cloud.boss.wait_for(server_id)


def test_a_changed_requirement_holds_for_the_next_placement(cloud):
    server_id = boot(cloud.boss, imageRef=cloud.image, flavorRef='42', **{KEY: 'anywhere'}, host='host1')
    assert home(cloud, server_id) == 'host1'
    _ok(cloud.boss.put('/os-instance-categories/anywhere', {'instance_category': {
        'requirements': {'local_ssd': 'true'}}}))
    assert home(cloud, server_id) == 'host1'                  # it stays until it is moved
    act(cloud, server_id, 'migrate')
    cloud.boss.wait_for(server_id, 'VERIFY_RESIZE')
    assert home(cloud, server_id) in FAST
    remove(cloud, server_id)


def test_regular_servers_go_anywhere(cloud):
    made = [boot(cloud.demo, imageRef=cloud.boss.upload_image(visibility='public', name='r'), flavorRef='42')]
    made += [boot(cloud.demo, imageRef=_ok(cloud.boss.get(f'/servers/{made[0]}'))['server']['image']['id'],
                  flavorRef='42') for _ in range(5)]
    assert {home(cloud, server_id) for server_id in made} - FAST
    for server_id in made:
        remove(cloud, server_id)


# ---- images and volumes of administrative servers ----------------------------------------

def test_the_image_service_hides_registered_images_from_users(cloud):
    def ids(client):
        return {image['id'] for image in _ok(client.get('/image/v2/images'))['images']}
    assert cloud.image in ids(cloud.boss) and cloud.image not in ids(cloud.demo)
    for path in ('', '/file', '/members', '/tasks'):
        assert cloud.demo.get(f'/image/v2/images/{cloud.image}{path}').status_code == 404, path
    assert cloud.boss.get(f'/image/v2/images/{cloud.image}').status_code == 200
    answer = cloud.demo.post('/servers', {'server': {
        'name': 'vm', 'networks': 'none', 'imageRef': cloud.image, 'flavorRef': '42'}})
    assert answer.status_code == 400 and f'Image {cloud.image} could not be found.' in answer.text


def test_volumes_of_administrative_servers_are_hidden_from_users(cloud):
    demo, chief = cloud.demo, cloud.chief
    prefix = f'/volume/v3/{demo.project_id}'
    volumes = [isolation.one(demo, f'{prefix}/volumes', 'volume', size=1, name=name)['id'] for name in ('one', 'two')]
    snapshot = isolation.one(demo, f'{prefix}/snapshots', 'snapshot', volume_id=volumes[1])['id']
    server_id = boot(chief, **{KEY: 'storage'})
    assert _ok(chief.get(f'/servers/{server_id}'))['server']['tenant_id'] == demo.project_id

    def seen(client, kind='volumes', detail=''):
        return {row['id'] for row in _ok(client.get(f'{prefix}/{kind}{detail}'))[kind]}
    assert seen(demo) == set(volumes) and seen(demo, 'snapshots') == {snapshot}
    _ok(chief.post(f'/servers/{server_id}/os-volume_attachments', {'volumeAttachment': {'volumeId': volumes[1]}}))
    deadline = time.monotonic() + 120
    while _ok(chief.get(f'{prefix}/volumes/{volumes[1]}'))['volume']['status'] != 'in-use':
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for detail in ('', '/detail'):
        assert seen(demo, detail=detail) == {volumes[0]} and seen(chief, detail=detail) == set(volumes)
    assert seen(demo, 'snapshots') == set() and seen(chief, 'snapshots') == {snapshot}
    assert _ok(demo.get(f'{prefix}/attachments'))['attachments'] == []
    attachment, = [row['id'] for row in _ok(chief.get(f'{prefix}/attachments'))['attachments']]
    for method, path, body in (
            ('GET', f'/volumes/{volumes[1]}', None), ('DELETE', f'/volumes/{volumes[1]}', None),
            ('PUT', f'/volumes/{volumes[1]}', {'volume': {'name': 'n'}}),
            ('GET', f'/snapshots/{snapshot}', None), ('DELETE', f'/snapshots/{snapshot}', None),
            ('GET', f'/attachments/{attachment}', None),
            ('POST', '/snapshots', {'snapshot': {'volume_id': volumes[1], 'force': True}}),
            ('POST', '/volumes', {'volume': {'source_volid': volumes[1], 'size': 1}}),
            ('POST', '/volumes', {'volume': {'snapshot_id': snapshot, 'size': 1}})):
        answer = demo.request(method, prefix + path, body)
        assert answer.status_code == 404, (method, path, answer.text)
    assert demo.get('/servers/' + server_id).status_code == 404
    assert demo.get(f'/servers/{server_id}/os-volume_attachments').status_code == 404
    remove(cloud, server_id)
    assert seen(demo) == set(volumes) and seen(demo, 'snapshots') == {snapshot}


# (method, path, body) of requests that name a server, a port or a volume in their body or path
NAMING = [
    *(('POST', '/servers', {'server': {'name': 'n', 'flavorRef': '42', 'imageRef': '{image}', **more}}) for more in (
        {'networks': [{'port': '{port}'}]},
        {'networks': 'none', 'block_device_mapping_v2': [
            {'source_type': 'volume', 'destination_type': 'volume', 'uuid': '{volume}', 'boot_index': -1}]},
        {'networks': 'none', 'block_device_mapping_v2': [
            {'source_type': 'snapshot', 'destination_type': 'volume', 'uuid': '{snapshot}', 'boot_index': -1}]},
        {'networks': 'none', 'os:scheduler_hints': {'same_host': ['{server}']}},
        {'networks': 'none', 'os:scheduler_hints': {'different_host': ['{server}']}})),
    ('POST', '/servers/{own}/os-interface', {'interfaceAttachment': {'port_id': '{port}'}}),
    ('DELETE', '/servers/{own}/os-interface/{port}', None),
    ('POST', '/servers/{own}/os-volume_attachments', {'volumeAttachment': {'volumeId': '{volume}'}}),
    ('PUT', '/servers/{own}/os-volume_attachments/{own_volume}', {'volumeAttachment': {'volumeId': '{volume}'}}),
    ('DELETE', '/servers/{own}/os-volume_attachments/{volume}', None),
    ('POST', '/network/v2.0/floatingips', {'floatingip': {'floating_network_id': '{public}', 'port_id': '{port}'}}),
    ('PUT', '/network/v2.0/floatingips/{floating}', {'floatingip': {'port_id': '{port}'}}),
    ('POST', '/network/v2.0/floatingips/{floating}/port_forwardings', {'port_forwarding': {
        'protocol': 'tcp', 'external_port': 22, 'internal_port': 22, 'internal_port_id': '{port}'}}),
    ('PUT', '/network/v2.0/routers/{router}/add_router_interface', {'port_id': '{port}'}),
    ('PUT', '/network/v2.0/routers/{router}/remove_router_interface', {'port_id': '{port}'}),
    ('POST', '/volume/v3/{project}/snapshots', {'snapshot': {'volume_id': '{volume}'}}),
    ('POST', '/volume/v3/{project}/backups', {'backup': {'volume_id': '{volume}'}}),
    ('POST', '/volume/v3/{project}/os-volume-transfer', {'transfer': {'volume_id': '{volume}'}}),
    ('POST', '/volume/v3/{project}/attachments', {'attachment': {'volume_uuid': '{volume}', 'instance_uuid': '{own}'}}),
    ('POST', '/volume/v3/{project}/volumes/{volume}/action', {'os-extend': {'new_size': 2}}),
    *((method, '/compute/v2.1/os-volumes/{volume}', None) for method in ('GET', 'DELETE')),
    *((method, '/compute/v2.1/os-snapshots/{snapshot}', None) for method in ('GET', 'DELETE')),
    ('POST', '/compute/v2.1/os-snapshots', {'snapshot': {'volume_id': '{volume}'}}),
]


def test_an_administrative_server_and_its_things_are_refused_as_missing(cloud):
    """Other codes than those of a missing id told that a hidden port or volume is there."""
    demo, chief = cloud.demo, cloud.chief
    volumes = [isolation.one(demo, '/volume/v3/volumes', 'volume', size=1)['id'] for _ in range(2)]
    snapshot = isolation.one(demo, '/volume/v3/snapshots', 'snapshot', volume_id=volumes[0])['id']
    server_id = boot(chief, networks='auto', **{KEY: 'storage'})
    image = demo.upload_image()
    own = boot(demo, imageRef=image, flavorRef='42', networks='none')
    for server, volume, client in ((server_id, volumes[0], chief), (own, volumes[1], demo)):
        _ok(client.post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}}))
        waiting.wait_for(lambda: _ok(chief.get(f'/volume/v3/volumes/{volume}'))['volume']['status'] == 'in-use',
                         20, 'the volume to be attached')
    port, = _ok(cloud.boss.get(f'/network/v2.0/ports?device_id={server_id}'))['ports']
    public = _ok(cloud.boss.post('/network/v2.0/networks', {'network': {'router:external': True}}))['network']['id']
    _ok(cloud.boss.post('/network/v2.0/subnets', {'subnet': {
        'network_id': public, 'cidr': '172.24.9.0/24', 'ip_version': 4, 'enable_dhcp': False}}))
    names = {
        'own': own, 'own_volume': volumes[1], 'image': image, 'public': public, 'project': demo.project_id,
        'floating': _ok(demo.post('/network/v2.0/floatingips', {'floatingip': {
            'floating_network_id': public}}))['floatingip']['id'],
        'router': _ok(demo.post('/network/v2.0/routers', {'router': {}}))['router']['id']}
    hidden = {'server': server_id, 'port': port['id'], 'volume': volumes[0], 'snapshot': snapshot}
    missing = {name: str(uuid.uuid4()) for name in hidden}
    wrong = {}
    for method, path, body in NAMING:
        codes = {}
        for given in (hidden, missing):
            text = json.dumps([path, body])
            for name, value in {**names, **given}.items():
                text = text.replace(f'{{{name}}}', value)
            answer = demo.request(method, *json.loads(text))
            said = answer.text
            for name, value in given.items():
                said = said.replace(value, name)
            codes[given is hidden] = answer.status_code, said
            if path == '/servers' and answer.status_code == 202:
                remove(cloud, answer.json()['server']['id'])
        if codes[True] != codes[False]:
            wrong[f'{method} {path} {body}'] = codes[True], codes[False]
    assert not wrong, json.dumps(wrong, indent=1)
    told = _ok(chief.get('/os-audit?limit=1000'))['audit_records']
    assert {server_id} <= {row['target_id'] for row in told if row['user_id'] != demo.user_id}
    for query in ('', f'?target_id={server_id}', '?limit=1'):
        rows = _ok(cloud.demo.get('/os-audit' + query)) if query != '?limit=1' else {'audit_records': [
            row for row in every_page(demo, '/os-audit', 'audit_records')]}
        rows = rows['audit_records']
        named = {each for row in rows if row['user_id'] != demo.user_id for each in (
            row['target_id'], row['target_part'])}
        assert (rows or '?target_id' in query) and not named & {*hidden.values()}, query
    for server in (server_id, own):
        remove(cloud, server)


def every_page(client, path, key):
    """What a list of one item a page shows."""
    document = _ok(client.get(path + '?limit=7'))
    while True:
        yield from document[key]
        links = [link['href'] for link in document.get(f'{key}_links', ()) if link['rel'] == 'next']
        if not links:
            return
        document = _ok(client.get(links[0].removeprefix(client.url)))


def test_ports_of_it_are_not_there_for_users(cloud):
    """Neither to be seen, which would name the server, nor to be changed: its filters are not the user's."""
    server_id = boot(cloud.chief, networks='auto', **{KEY: 'storage'})
    own = boot(cloud.demo, imageRef=cloud.demo.upload_image(), flavorRef='42', networks='auto')
    port, = _ok(cloud.boss.get(f'/network/v2.0/ports?device_id={server_id}'))['ports']
    assert port['project_id'] == cloud.demo.project_id
    shown = _ok(cloud.demo.get('/network/v2.0/ports'))['ports']
    assert [each['device_id'] for each in shown] == [own]
    path = f'/network/v2.0/ports/{port["id"]}'
    codes = [cloud.demo.get(path).status_code, cloud.demo.put(path, {'port': {'security_groups': []}}).status_code,
             cloud.demo.delete(path).status_code,
             cloud.demo.get(f'/network/v2.0/ports?marker={port["id"]}').status_code]
    assert codes == [404, 404, 404, 400]
    assert _ok(cloud.boss.get(path))['port']['security_groups'] == port['security_groups']
    remove(cloud, server_id)
    assert cloud.demo.delete(f'/servers/{own}').status_code == 204
