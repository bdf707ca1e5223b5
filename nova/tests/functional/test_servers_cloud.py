"""One server's life through all services of a cloud, over HTTP, with the fake driver."""
import pytest

from nova.tests.functional import cloud
from nova.tests.support import waiting


@pytest.fixture(scope='module')
def user(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('life')) as running:
        yield running.client()


@pytest.fixture(scope='module')
def image_id(user):
    return user.upload_image()


def flavor(user):
    return user.get('/flavors').json()['flavors'][0]['id']


def test_server_passes_through_its_actions_and_states(user, image_id):
    server_id = user.boot(image_id, flavor=flavor(user))['id']
    assert user.wait_for(server_id)['addresses']
    for body, status in (
            ({'os-stop': None}, 'SHUTOFF'), ({'os-start': None}, 'ACTIVE'), ({'pause': None}, 'PAUSED'),
            ({'unpause': None}, 'ACTIVE'), ({'suspend': None}, 'SUSPENDED'), ({'resume': None}, 'ACTIVE'),
            ({'reboot': {'type': 'SOFT'}}, 'ACTIVE'), ({'reboot': {'type': 'HARD'}}, 'ACTIVE'),
            ({'createImage': {'name': 'copy'}}, 'ACTIVE'), ({'rebuild': {'imageRef': image_id}}, 'ACTIVE')):
        answer = user.post(f'/servers/{server_id}/action', body)
        assert answer.status_code == 202, answer.text
        user.wait_for(server_id, status)
    console = user.post(f'/servers/{server_id}/action', {'os-getConsoleOutput': {'length': 1}})
    assert console.json()['output'].count('\n') == 0 and console.json()['output']
    actions = user.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions']
    assert [action['action'] for action in actions] == [
        'rebuild', 'createImage', 'reboot', 'reboot', 'resume', 'suspend', 'unpause', 'pause', 'start',
        'stop', 'create']
    assert {action['message'] for action in actions} == {None}
    assert user.delete(f'/servers/{server_id}').status_code == 204
    user.wait_for(server_id, 'DELETED')
    deleted = user.get('/servers/detail?changes-since=2026-01-01T00:00:00Z').json()['servers']
    assert [server['status'] for server in deleted if server['id'] == server_id] == ['DELETED']


def test_a_refused_rebuild_keeps_what_the_guest_was_made_with(user, image_id):
    wrong = user.upload_image(img_hv_type='kvm')                       # the fake driver's hosts have another one
    for name in ('first', 'second'):
        assert user.post('/os-keypairs', {'keypair': {'name': name}}).status_code == 200
    server_id = user.boot(image_id, flavor=flavor(user), key_name='first', user_data='QQ==', version='2.63',
                          networks='none', trusted_image_certificates=['old'])['id']
    user.wait_for(server_id)

    def rebuild(image, status):
        answer = user.post(f'/servers/{server_id}/action', {'rebuild': {
            'imageRef': image, 'key_name': 'second', 'user_data': 'Qg==', 'trusted_image_certificates': ['new'],
            'metadata': {'a': 'b'}}}, version='2.63')
        assert answer.status_code == 202, answer.text

        def ended():
            action = user.get(f'/servers/{server_id}/os-instance-actions', version='2.63').json()['instanceActions'][0]
            shown = user.get(f'/servers/{server_id}', version='2.63').json()['server']
            return shown['OS-EXT-STS:task_state'] is None and action['message'] == status and shown
        shown = waiting.wait_for(ended)
        return shown['image']['id'], shown['key_name'], shown['trusted_image_certificates']
    assert rebuild(wrong, 'Error') == (image_id, 'first', ['old'])
    assert rebuild(image_id, None) == (image_id, 'second', ['new'])


def test_several_servers_of_one_request_are_built(user, image_id):
    user.boot(image_id, 'many', flavor=flavor(user), min_count=3)
    servers = user.get('/servers?name=^many-').json()['servers']
    assert len(servers) == 3
    addresses = {user.wait_for(server['id'])['addresses']['private'][0]['addr'] for server in servers}
    assert len(addresses) == 3


def test_no_answer_has_a_password_that_guests_do_not_get(tmp_path):
    with cloud.running(tmp_path, api__enable_instance_password=False) as running:
        user = running.client()
        image = user.upload_image()
        made = user.boot(image, flavor=flavor(user))
        assert 'adminPass' not in made
        user.wait_for(made['id'])
        for body, after in (({'rescue': {'adminPass': 'given'}}, 'RESCUE'), ({'unrescue': None}, 'ACTIVE'),
                            ({'rebuild': {'imageRef': image}}, 'ACTIVE')):
            answer = user.post(f'/servers/{made["id"]}/action', body)
            assert answer.status_code in (200, 202) and 'adminPass' not in answer.text
            user.wait_for(made['id'], after)
