"""Each rule of the APIs other than compute, in a running cloud.

With "!" a rule refuses its operation, or hides its field; with "@" the operation or field is open to a plain member.
The policy files change while the cloud runs.
"""
import json
import re

import pytest

from nova import policy
from nova.tests.support import waiting
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.service_policies_functional import ELSEWHERE
from nova.tests.support.service_policies_functional import MISSING
from nova.tests.support.service_policies_functional import NEWEST
from nova.tests.support.service_policies_functional import ROOTS
from nova.tests.support.service_policies_functional import SERVICES
from nova.tests.support.service_policies_functional import World


# ---- requests ---------------------------------------------------------------------

_ACTIONS = {'add_extraroutes': {'router': {'routes': []}}, 'remove_extraroutes': {'router': {'routes': []}},
            'add_subports': {'sub_ports': []}, 'remove_subports': {'sub_ports': []}}


# ---- tests ------------------------------------------------------------------------

@pytest.fixture(scope='module')
def world(tmp_path_factory):
    directory = tmp_path_factory.mktemp('policies')
    files = {name: directory / service.file for name, service in SERVICES.items()}
    for file in files.values():
        file.write_text('')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, 'CACHE_S', 0)                # changed files are read at once
        with cloud_fixture.running(directory / 'state', ['host1'], **{
                f'{SERVICES[name].group}__policy_file': str(file) for name, file in files.items()}) as cloud:
            made = World(cloud, files)
            yield made


def rules_of(service):
    """Rules in an order in which requests that delete come last."""
    rules = [rule for rule in SERVICES[service].rules if rule.name not in ELSEWHERE]
    return sorted(rules, key=lambda rule: bool(re.search('delete|remove|revoke', rule.name)))


@pytest.mark.parametrize('service', SERVICES)
def test_a_rule_for_nobody_refuses_exactly_its_operation(world, service):
    rules, wrong = rules_of(service), {}
    controls = [rule for rule in rules if rule.operations[0][0] == 'GET' and world.is_allowed(
        service, world.probe(service, rule))]
    for number, rule in enumerate(rules):
        control = controls[number % len(controls)]
        world.set(service, **{rule.name: '!'})
        if world.is_allowed(service, world.probe(service, rule)):
            wrong[rule.name] = world.ask(service, world.probe(service, rule)).text[:200]
        if control is not rule and control.operations[0] != rule.operations[0] and not (
                control.name in rule.name or rule.name in control.name) and not world.is_allowed(
                    service, world.probe(service, control)):
            wrong[rule.name, 'refuses'] = control.name
    world.set(service)
    assert not wrong, wrong


@pytest.mark.parametrize('service', SERVICES)
def test_a_rule_for_everybody_is_open_to_a_member(world, service):
    wrong = {}
    for rule in rules_of(service):
        # the operation that has the field, or the rule of a whole API
        whole = 'tasks_api_access' if rule.name == 'add_task' else rule.name.partition(':')[0]
        world.set(service, **{rule.name: '@'}, **({whole: '@'} if whole in SERVICES[service].guards - {
            rule.name} else {}))
        if not world.is_allowed(service, world.probe(service, rule)):
            wrong[rule.name] = world.ask(service, world.probe(service, rule)).text[:200]
    world.set(service)
    assert not wrong, wrong


def test_base_rules_of_one_api_do_not_change_another(world):
    for changed, service in SERVICES.items():
        world.set(changed, **{name: '!' for name, *_ in service.base})
        for other, path in (('image', '/v2/images'), ('identity', '/v3/auth/projects'),
                            ('block storage', '/volumes'), ('network', '/networks'), ('key manager', '/v1/secrets')):
            answer = world.admin.get(ROOTS[other] + path)
            assert other == changed or answer.status_code == 200, (changed, other, answer.text)
        world.set(changed)


def test_quotas_of_volumes_are_those_of_the_project_in_the_path(world):
    """A rule that compares the project opens no other project to a member of one."""
    own = 'project_id:%(project_id)s'
    world.set('block storage', **{f'volume_extension:quotas:{what}': own for what in ('show', 'update', 'delete')},
              **{'limits_extension:used_limits': own})
    path, body = '/volume/v3/os-quota-sets/', {'quota_set': {'volumes': 9}}
    found = {project: (world.member.put(path + project, body).status_code,
                       world.member.delete(path + project).status_code, world.member.get(path + project).status_code)
             for project in (world.member.project_id, world.admin.project_id)}
    world.set('block storage')
    assert found == {world.member.project_id: (200, 200, 200), world.admin.project_id: (403, 403, 404)}


def test_a_type_does_not_circumvent_the_rule_of_shared_volumes(world):
    shared = world.member.post('/volume/v3/volumes', {'volume': {'size': 1, 'volume_type': 'multiattach'}})
    shared = shared.json()['volume']['id']
    waiting.wait_for(lambda: world.member.get(f'/volume/v3/volumes/{shared}').json()['volume']['status'] == 'available',
                     30)
    world.set('block storage', **{'volume:multiattach': '!'})
    wanted = {'volume': {'size': 1, 'volume_type': 'multiattach'}}
    made = world.member.post('/volume/v3/volumes', wanted)
    volume = f'/volume/v3/volumes/{world.things["volume"]}'
    changed = world.member.post(f'{volume}/action', {'os-retype': {'new_type': 'multiattach'}})
    copied = world.member.post('/volume/v3/volumes', {'volume': {'source_volid': shared}})
    plain = world.member.post('/volume/v3/volumes', {'volume': {'size': 1, 'volume_type': MISSING}})
    world.set('block storage')
    for answer in (made, changed, copied):
        assert answer.status_code == 403 and 'volume:multiattach' in answer.text, answer.text
    assert plain.status_code == 404, plain.text


@pytest.mark.parametrize('rule, body', [
    ('volume:reimage_reserved', {'os-reimage': {'image_id': MISSING, 'reimage_reserved': True}}),
    ('volume_extension:volume_actions:upload_public', {'os-volume_upload_image': {
        'image_name': 'i', 'visibility': 'public'}})])
def test_a_rule_of_the_user_means_the_user_of_the_volume(world, rule, body):
    other = callers.Identity(world.admin).in_project('home', 'member')
    world.set('block storage', **{rule: 'user_id:%(user_id)s'})
    answers = [caller.request('POST', f'/volume/v3/volumes/{world.things["volume"]}/action', body,
                              headers=NEWEST) for caller in (world.member, other)]
    world.set('block storage')
    assert [f"allow {rule} " in answer.text for answer in answers] == [False, True], [each.text for each in answers]


@pytest.mark.parametrize('rule, check, method, path, body', [
    ('update_network', 'not field:networks:id={network}', 'PUT', 'networks/{network}', {'network': {'mtu': 1400}}),
    ('get_network', 'not field:networks:id={network}', 'GET', 'networks/{network}', None),
    ('create_network', 'not field:networks:name=n', 'POST', 'networks', {'network': {'name': 'n'}}),
    ('get_port', 'not field:ports:status=DOWN', 'GET', 'ports/{port}', None)])
def test_a_rule_of_an_attribute_has_the_value_of_the_resource(world, rule, check, method, path, body):
    path = '/network/v2.0/' + path.format_map(world.things)
    before = world.member.request(method, path, body)
    world.set('network', **{rule: check.format_map(world.things)})
    after = world.member.request(method, path, body)
    plural = path.split('/')[3]
    listed = world.member.get(f'/network/v2.0/{plural}?fields=id').json()[plural]
    world.set('network')
    assert before.status_code in (200, 201), before.text
    assert after.status_code == (404 if method == 'GET' else 403), after.text
    if method == 'GET':
        assert path.rpartition('/')[2] not in {row['id'] for row in listed}


def test_a_rule_that_excludes_shared_networks_hides_their_subnets(world):
    """Both for the owner of the network and without regard to it the rule would pass."""
    root, admin = '/network/v2.0', world.admin
    network = world._one(admin, f'{root}/networks', 'network', shared=True, **{'provider:network_type': 'vxlan'})
    subnet = world._one(admin, f'{root}/subnets', 'subnet', network_id=network, cidr='10.78.0.0/24', ip_version=4)
    path = f'{root}/subnets/{subnet}'
    before = world.member.get(path).status_code
    world.set('network', get_subnet='rule:network_owner or not rule:shared')
    after = world.member.get(path).status_code
    listed = [row['id'] for row in world.member.get(f'{root}/subnets').json()['subnets']]
    world.set('network')
    assert admin.delete(f'{root}/networks/{network}').status_code == 204
    assert (before, after) == (200, 404)
    assert world.things['subnet'] in listed and subnet not in listed


@pytest.mark.parametrize('rule, method, path, body', [
    ('volume:get_all', 'GET', '/os-volumes', None),
    ('volume:get', 'GET', '/os-volumes/{volume}', None),
    ('volume:create', 'POST', '/os-volumes', {'volume': {'size': 1}}),
    ('volume:get_snapshot', 'GET', '/os-snapshots/{snapshot}', None),
    ('volume:create_snapshot', 'POST', '/os-snapshots', {'snapshot': {'volume_id': '{volume}'}})])
def test_rules_of_volumes_apply_to_users_of_the_compute_api(world, rule, method, path, body):
    """The compute API passes the default, which is for services; a rule of the policy file refuses its users, too."""
    body = body and json.loads(re.sub(r'\{(volume)\}', lambda match: world.things[match[1]], json.dumps(body)))
    path = path.format_map(world.things)
    world.set('block storage', **{rule: '!'})
    refused = world.member.request(method, path, body)
    world.set('block storage')
    assert refused.status_code == 403 and f'allow {rule} ' in refused.text, refused.text
    allowed = world.member.request(method, path, body)
    assert allowed.status_code in (200, 202), allowed.text


def server_of(world):
    """The id of a server of the member, made once, with a port in a network that other tests do not change."""
    member, root, things = world.member, '/network/v2.0', world.things
    if 'own_network' not in things:
        things['own_network'] = world._one(member, f'{root}/networks', 'network', name='own')
        subnet = world._one(member, f'{root}/subnets', 'subnet', network_id=things['own_network'], ip_version=4,
                            cidr='10.79.0.0/24', allocation_pools=[{'start': '10.79.0.100', 'end': '10.79.0.254'}])
        router = world._one(member, f'{root}/routers', 'router', external_gateway_info={
            'network_id': things['outside']})
        answer = member.put(f'{root}/routers/{router}/add_router_interface', {'subnet_id': subnet})
        assert answer.status_code == 200, answer.text
    if 'server' not in things:
        things['server'] = member.boot(member.upload_image(), networks=[{'uuid': things['own_network']}])['id']
        member.wait_for(things['server'])
    return world.things['server']


@pytest.mark.parametrize('rule, detaches', [
    ('volume:attachment_create', False), ('volume:attachment_update', False), ('volume:attachment_complete', False),
    ('volume_extension:volume_actions:begin_detaching', True), ('volume:attachment_delete', True)])
def test_rules_of_attachments_apply_to_users_of_the_compute_api(world, rule, detaches):
    """A refused request leaves the volume as it was."""
    member, volume, path = world.member, world.things['volume'], f'/servers/{server_of(world)}/os-volume_attachments'

    def attach():
        return member.post(path, {'volumeAttachment': {'volumeId': volume}})

    def detach():
        return member.delete(f'{path}/{volume}')

    def wait_for(status):
        waiting.wait_for(lambda: member.get(f'/volume/v3/volumes/{volume}').json()['volume']['status'] == status, 30,
                         status)
    if detaches:
        assert attach().status_code == 200
        wait_for('in-use')
    world.set('block storage', **{rule: '!'})
    refused = detach() if detaches else attach()
    world.set('block storage')
    assert refused.status_code == 403 and f'allow {rule} ' in refused.text, refused.text
    wait_for('in-use' if detaches else 'available')
    if not detaches:
        assert attach().status_code == 200
        wait_for('in-use')
    assert detach().status_code == 202
    wait_for('available')                    # the server's device goes a moment later
    waiting.wait_for(lambda: not member.get(path).json()['volumeAttachments'], 30, 'the device to go')


@pytest.mark.parametrize('rule', ['volume:reimage', 'volume:reimage_reserved'])
def test_a_rebuild_with_another_image_needs_the_rules_of_its_root_volume(world, rule):
    member = world.member
    server = member.post('/servers', {'server': {
        'name': 's', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [{
            'boot_index': 0, 'source_type': 'image', 'uuid': member.upload_image(), 'destination_type': 'volume',
            'volume_size': 1, 'delete_on_termination': True}]}}, version='2.93').json()['server']['id']
    member.wait_for(server)
    rebuild = {'rebuild': {'imageRef': member.upload_image()}}
    world.set('block storage', **{rule: '!'})
    refused = member.post(f'/servers/{server}/action', rebuild, version='2.93')
    world.set('block storage')
    assert refused.status_code == 403 and f'allow {rule} ' in refused.text, refused.text
    assert member.post(f'/servers/{server}/action', rebuild, version='2.93').status_code == 202
    member.wait_for(server)


def test_a_server_needs_the_right_to_download_its_image(world):
    member, image = world.member, world.member.upload_image()
    root = {'boot_index': 0, 'source_type': 'image', 'uuid': image, 'destination_type': 'volume', 'volume_size': 1}
    server = {'name': 's', 'flavorRef': '42', 'networks': 'none'}
    world.set('image', download_image='!')
    answers = [member.post(path, body, version='2.37') for path, body in (
        ('/servers', {'server': {**server, 'imageRef': image}}),
        ('/servers', {'server': {**server, 'block_device_mapping_v2': [root]}}),
        (f'/servers/{server_of(world)}/action', {'rebuild': {'imageRef': image}}),
        (f'/servers/{server_of(world)}/action', {'rescue': {'rescue_image_ref': image}}),
        ('/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': image}}))]
    world.set('image')
    assert [answer.status_code for answer in answers] == [403] * 5, [answer.text for answer in answers]
    assert all('allow download_image ' in answer.text for answer in answers), [answer.text for answer in answers]
    assert member.post('/servers', {'server': {**server, 'imageRef': image}}, version='2.37').status_code == 202


_NEW_SERVER = {'name': 's', 'flavorRef': '42', 'imageRef': '{boot_image}'}
_NEW_RULE = {'parent_group_id': '{own_group}', 'ip_protocol': 'tcp', 'from_port': 7, 'to_port': 7,
             'cidr': '0.0.0.0/0'}
# rules, request of the compute API; the last ones use what others made. The fixed addresses lie outside the pool, from
# which other ports take random ones.
NETWORK_RULES = (
    ('create_port', 'POST', '/servers', {'server': {**_NEW_SERVER, 'networks': [{'uuid': '{own_network}'}]}}),
    *((rule, 'POST', '/servers', {'server': {**_NEW_SERVER, 'networks': [
        {'uuid': '{own_network}', 'fixed_ip': address}]}}) for rule, address in (
            ('create_port:fixed_ips', '10.79.0.77'), ('create_port:fixed_ips:ip_address', '10.79.0.78'))),
    ('create_port', 'POST', '/servers/{server}/os-interface', {'interfaceAttachment': {'net_id': '{own_network}'}}),
    *((rule, 'POST', '/servers/{server}/action', {'addFixedIp': {'networkId': '{own_network}'}})
      for rule in ('update_port', 'update_port:fixed_ips')),
    ('update_port', 'POST', '/servers/{server}/action', {'addSecurityGroup': {'name': '{own_group}'}}),
    ('update_port', 'POST', '/servers/{server}/action', {'removeSecurityGroup': {'name': '{own_group}'}}),
    ('create_security_group', 'POST', '/os-security-groups', {'security_group': {'name': 'n', 'description': ''}}),
    ('update_security_group', 'PUT', '/os-security-groups/{own_group}', {
        'security_group': {'name': 'n', 'description': ''}}),
    ('create_security_group_rule', 'POST', '/os-security-group-rules', {'security_group_rule': _NEW_RULE}),
    ('delete_security_group_rule', 'DELETE', '/os-security-group-rules/{own_rule}', None),
    ('create_floatingip', 'POST', '/os-floating-ips', {'pool': 'o'}),
    ('update_floatingip', 'POST', '/servers/{server}/action', {'addFloatingIp': {'address': '{floating_address}'}}),
    ('update_floatingip', 'POST', '/servers/{server}/action', {'removeFloatingIp': {
        'address': '{floating_address}'}}),
    ('delete_floatingip', 'DELETE', '/os-floating-ips/{own_floatingip}', None),
    ('delete_port', 'DELETE', '/servers/{server}/os-interface/{server_port}', None),
    ('delete_port', 'DELETE', '/servers/{server}', None))


def own_resources(world):
    """{name: id} of resources of the compute API that other tests do not delete."""
    member, root = world.member, '/network/v2.0'
    group = world._one(member, f'{root}/security-groups', 'security_group', name='own')
    rule = world._one(member, f'{root}/security-group-rules', 'security_group_rule', security_group_id=group,
                      direction='ingress')
    floating = member.post(f'{root}/floatingips', {'floatingip': {'floating_network_id': world.things['outside']}})
    ports = member.get(f'/servers/{server_of(world)}/os-interface').json()['interfaceAttachments']
    return {'own_group': group, 'own_rule': rule, 'own_floatingip': floating.json()['floatingip']['id'],
            'floating_address': floating.json()['floatingip']['floating_ip_address'],
            'server_port': ports[0]['port_id'], 'boot_image': member.upload_image()}


def test_rules_of_networks_apply_to_users_of_the_compute_api(world):
    member, things = world.member, own_resources(world) | world.things
    for rule, method, path, body in NETWORK_RULES:
        body = body and json.loads(re.sub(r'\{([a-z_]+)\}', lambda match: things[match[1]], json.dumps(body)))
        path = path.format_map(things)
        world.set('network', **{rule: '!'})
        refused = member.request(method, path, body, version='2.35')
        world.set('network')
        assert refused.status_code == 403 and f'allow {rule} ' in refused.text, (rule, path, body, refused.text)
        allowed = member.request(method, path, body, version='2.35')
        assert allowed.status_code in (200, 202, 204), (rule, path, body, allowed.text)
        waiting.wait_for(lambda: (server := member.get(f'/servers/{things["server"]}').json().get('server')) is None
                         or server['OS-EXT-STS:task_state'] is None, 30, 'the task to end')
    member.wait_for(world.things.pop('server'), 'DELETED')


@pytest.mark.parametrize('rule, path', [
    ('get_network', '/os-networks/{own_network}'), ('get_security_group', '/os-security-groups/{own_group}'),
    ('get_floatingip', '/os-floating-ips/{own_floatingip}'),
    ('get_port', '/servers/{server}/os-interface/{server_port}')])
def test_what_a_rule_of_networks_hides_is_missing_in_the_compute_api(world, rule, path):
    member, things = world.member, own_resources(world) | world.things
    path = path.format_map(things)
    one, many = path.rpartition('/')[2], path.rpartition('/')[0]
    world.set('network', **{rule: '!'})
    shown, listed = member.get(path, version='2.35'), member.get(many, version='2.35')
    boot = {'name': 's', 'flavorRef': '42', 'imageRef': things['boot_image'], 'networks': [
        {'uuid': things['own_network']}]}
    if rule == 'get_security_group':
        boot['security_groups'] = [{'name': things['own_group']}]
    booted = member.post('/servers', {'server': boot})
    world.set('network')
    assert (shown.status_code, listed.status_code) == (404, 200), (shown.text, listed.text)
    assert one not in listed.text
    assert booted.status_code == (400 if rule in ('get_network', 'get_security_group') else 202), booted.text
    assert member.get(path, version='2.35').status_code == 200
    assert one in member.get(many, version='2.35').text


@pytest.mark.parametrize('rule', ['volume:create', 'volume:create_from_image'])
def test_a_server_with_a_new_volume_needs_the_rules_of_volumes(world, rule):
    server = {'name': 's', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [{
        'boot_index': 0, 'source_type': 'image', 'uuid': world.member.upload_image(), 'destination_type': 'volume',
        'volume_size': 1, 'delete_on_termination': True}]}
    world.set('block storage', **{rule: '!'})
    refused = world.member.post('/servers', {'server': server}, version='2.37')
    world.set('block storage')
    allowed = world.member.post('/servers', {'server': server}, version='2.37')
    assert (refused.status_code, allowed.status_code) == (403, 202), (refused.text, allowed.text)
    assert f'allow {rule} ' in refused.text


@pytest.mark.parametrize('create', [
    ('/os-volumes', {'volume': {'size': 1, 'volume_type': 'multiattach'}}, '2.1'),
    ('/servers', {'server': {'name': 's', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [{
        'boot_index': 0, 'source_type': 'image', 'uuid': '{image}', 'destination_type': 'volume', 'volume_size': 1,
        'volume_type': 'multiattach'}]}}, '2.67')], ids=lambda create: create[0])
def test_a_type_does_not_circumvent_the_rule_of_shared_volumes_in_the_compute_api(world, create):
    path, body, version = create
    body = json.loads(json.dumps(body).replace('{image}', world.member.upload_image()))
    world.set('block storage', **{'volume:multiattach': '!'})
    refused = world.member.post(path, body, version=version)
    world.set('block storage')
    assert refused.status_code == 403 and 'allow volume:multiattach ' in refused.text, refused.text
    allowed = world.member.post(path, body, version=version)
    assert allowed.status_code in (200, 202), allowed.text


def test_servers_with_a_root_volume_follow_the_rules_of_snapshots_and_shared_roots(world):
    """An image of the server names snapshots of its volumes; a second server would share its root volume."""
    member, devices = world.member, [{
        'boot_index': 0, 'source_type': 'image', 'uuid': world.member.upload_image(), 'destination_type': 'volume',
        'volume_size': 1, 'volume_type': 'multiattach'}]
    server = {'name': 's', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': devices}
    first = member.post('/servers', {'server': server}, version='2.67').json()['server']['id']
    (root,) = member.wait_for(first)['os-extended-volumes:volumes_attached']
    devices[0] = {'boot_index': 0, 'source_type': 'volume', 'uuid': root['id'], 'destination_type': 'volume'}
    for rule, path, body in (
            ('volume:create_snapshot', f'/servers/{first}/action', {'createImage': {'name': 'i'}}),
            ('volume:multiattach_bootable_volume', '/servers', {'server': server})):
        world.set('block storage', **{rule: '!'})
        refused = member.post(path, body, version='2.67')
        world.set('block storage')
        assert refused.status_code == 403 and f'allow {rule} ' in refused.text, (rule, refused.text)
        allowed = member.post(path, body, version='2.67')
        assert allowed.status_code == 202, allowed.text
        member.wait_for(first)


def test_an_image_that_a_rule_hides_is_missing_in_the_compute_api(world):
    image = world.member.upload_image()
    world.set('image', get_image='!')
    path = '/compute/v2.1/images'
    shown, listed = world.member.get(f'{path}/{image}'), world.member.get(path)
    booted = world.member.post('/servers', {'server': {'name': 's', 'imageRef': image, 'flavorRef': '42'}})
    source = world.member.post('/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': image}})
    world.set('image')
    assert [answer.status_code for answer in (shown, booted, source)] == [404, 400, 404], (booted.text, source.text)
    assert listed.json() == {'images': []}, listed.text
    assert image in world.member.get(path).text
