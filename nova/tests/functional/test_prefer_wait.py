"""Prefer: wait=SECONDS: answers that come when the task has ended; return=representation: what was made."""
import threading
import time

import pytest

from nova.api import prefer_wait
from nova.api.servers import representation
from nova.tests.support import waiting
from nova.tests.functional import cells_cloud
from nova.tests.functional import cloud as whole


@pytest.fixture
def running(tmp_path):
    with whole.running(tmp_path, fake__delays={'spawn': '0.4', 'power_off': '0.4', 'destroy': '0.4'},
                       http__threads=16) as cloud:
        yield cloud


def create(client, image, prefer='wait=20', **fields):
    return client.post('/servers', {'server': {
        'name': 'waited', 'imageRef': image, 'flavorRef': '42', **fields}},
        headers={'Prefer': prefer} if prefer else {})


def status(client, server_id):
    return client.get(f'/servers/{server_id}').json()['server']['status']


def test_the_answer_comes_when_the_task_has_ended(running):
    client = running.client()
    image = client.upload_image()
    answer = create(client, image)
    assert answer.status_code == 202 and answer.headers['Preference-Applied'] == 'wait=20'
    server_id = answer.json()['server']['id']
    assert status(client, server_id) == 'ACTIVE'
    began = time.monotonic()
    stopped = client.post(f'/servers/{server_id}/action', {'os-stop': None}, headers={'Prefer': 'wait=20'})
    assert stopped.status_code == 202 and status(client, server_id) == 'SHUTOFF'
    gone = client.delete(f'/servers/{server_id}', headers={'Prefer': 'respond-async, wait=20'})
    assert gone.status_code == 204 and gone.headers['Preference-Applied'] == 'wait=20'
    assert client.get(f'/servers/{server_id}').status_code == 404
    assert 0.4 < time.monotonic() - began < 20


def test_the_time_that_the_client_gives_is_the_most(running):
    client = running.client()
    began = time.monotonic()
    answer = create(client, client.upload_image(), 'wait=0')
    assert answer.headers['Preference-Applied'] == 'wait=0' and time.monotonic() - began < 19
    assert answer.json()['server']['id']


@pytest.mark.parametrize('prefer', [None, 'respond-async', 'wait=many', 'wait=-1', 'await=3', 'wait=9999999999',
                                    'other; wait=20'])
def test_invalid_wait_preference_is_ignored(running, prefer):
    client = running.client()
    answer = create(client, client.upload_image(), prefer)
    assert answer.status_code == 202 and 'Preference-Applied' not in answer.headers


def test_a_wait_has_a_bound(running):
    client = running.client()
    answer = create(client, client.upload_image(), 'wait=100000000')
    assert answer.headers['Preference-Applied'] == f'wait={prefer_wait.MAX_WAIT_S}'


def test_a_refusal_comes_at_once(running):
    answer = running.client().post('/servers/8a3f5d1e-0000-4000-8000-000000000000/action', {'os-stop': None},
                                   headers={'Prefer': 'wait=20'})
    assert answer.status_code == 404 and 'Preference-Applied' not in answer.headers


def test_one_project_has_half_of_the_waits_and_others_are_served(running):
    client, admin = running.client(), running.admin('2.91')          # 16 threads: 4 waits, 2 of one project
    image, answers = client.upload_image(), []
    for service in running.services:
        if service.binary == 'nova-compute':
            service.manager.driver.delays['spawn'] = 2               # all ask before the first build ends

    def one(own):
        answers.append(create(own, image).headers.get('Preference-Applied'))
    threads = [threading.Thread(target=one, args=(running.client(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert admin.get('/servers').status_code == 200
    for thread in threads:
        thread.join(60)
    assert set(answers) == {None, 'wait=20'} and answers.count('wait=20') >= 2


def test_a_stopping_server_answers(tmp_path):
    with whole.running(tmp_path, fake__delays={'spawn': '8'}) as cloud:
        client = cloud.client()
        image, answers = client.upload_image(), []
        thread = threading.Thread(target=lambda: answers.append(create(client, image, 'wait=30')))
        thread.start()
        waiting.wait_for(lambda: client.get('/servers').json()['servers'], 30, 'the server')
        limit = waiting.Limit(20)
    thread.join(30)
    assert answers[0].status_code == 202 and not limit.is_over()


def test_a_server_is_followed_into_the_cell_of_its_host(tmp_path):
    with cells_cloud.running(tmp_path) as cloud:
        client = cloud.client()
        answer = create(client, client.upload_image(data=b'\0' * 4096))
        server_id = answer.json()['server']['id']
        assert answer.headers['Preference-Applied'] == 'wait=20' and status(client, server_id) == 'ACTIVE'
        assert client.delete(f'/servers/{server_id}', headers={'Prefer': 'wait=20'}).status_code == 204
        assert client.get(f'/servers/{server_id}').status_code == 404


SHOWN = 'return=representation'
BUILDING = {'status': 'BUILD', 'OS-EXT-STS:task_state': 'scheduling', 'OS-EXT-STS:vm_state': 'building',
            'OS-EXT-STS:power_state': 0, 'OS-SRV-USG:launched_at': None}
MOVING = {'updated', 'hostId', 'progress', 'addresses', 'OS-EXT-AZ:availability_zone', *BUILDING}


def test_return_representation_shows_the_server_as_a_get_does(running):
    image = running.client().upload_image()
    for version in ('2.1', '2.46', '2.91', '2.103'):
        client = running.client(version=version)
        fields = {'metadata': {'role': 'web'}, 'user_data': 'aGVsbG8=', 'networks': 'none'} if version != '2.1' else {}
        answer = create(client, image, SHOWN, **fields)
        made = answer.json()['server']
        got = client.get(f'/servers/{made["id"]}').json()['server']
        assert answer.headers['Preference-Applied'] == SHOWN and answer.headers['Location'] == made['links'][0]['href']
        assert made.pop('adminPass') and {name: made[name] for name in BUILDING} == BUILDING
        # the groups that the request has chosen; a server without a port has none
        assert made.keys() == got.keys() | ({'security_groups'} if 'networks' in fields else set())
        assert {key: value for key, value in made.items() if key not in MOVING and key in got} == {
            key: value for key, value in got.items() if key not in MOVING}
    for prefer in ('other, return=representation', 'return="representation"; detail=all'):
        assert 'status' in create(client, image, prefer, networks='none').json()['server']
    # a parameter of another preference is none (RFC 7240, section 2)
    for prefer in ('return=minimal', 'return=representations', 'xreturn=representation',
                   'other; return=representation'):
        assert 'status' not in create(client, image, prefer, networks='none').json()['server']


def test_all_servers_of_a_reservation_are_shown(running):
    client, admin = running.client(), running.admin('2.91')
    answer = create(client, client.upload_image(), f'{SHOWN}, wait=0', min_count=3, max_count=3,
                    return_reservation_id=True)
    assert answer.headers['Preference-Applied'] == SHOWN            # wait is for one server
    made = answer.json()
    assert [server['name'] for server in made['servers']] == ['waited-1', 'waited-2', 'waited-3']
    assert 'OS-EXT-SRV-ATTR:host' not in made['servers'][0]
    assert {admin.get(f'/servers/{server["id"]}').json()['server']['OS-EXT-SRV-ATTR:reservation_id']
            for server in made['servers']} == {made['reservation_id']}


def test_failing_representation_does_not_fail_the_creation(running, monkeypatch):
    """The request failed while its servers were stored, and their build had not begun: a client made them again."""
    client, built = running.client(), []

    class Broken:
        @property
        def BLANK(self):
            waiting.wait_for(lambda: [row['status'] for row in client.get('/servers/detail').json()['servers']]
                             == ['ACTIVE'], 30, 'the server')
            built.append(True)
            raise ZeroDivisionError
    image = client.upload_image()
    monkeypatch.setattr(representation, 'instances', Broken())
    answer = create(client, image, SHOWN)
    assert answer.status_code == 202 and 'Preference-Applied' not in answer.headers and built
    assert 'status' not in answer.json()['server'] and status(client, answer.json()['server']['id']) == 'ACTIVE'


def test_representation_is_omitted_if_the_caller_may_not_show_servers(tmp_path):
    (tmp_path / 'policy.yaml').write_text('"os_compute_api:servers:show": "role:admin"\n')
    with whole.running(tmp_path, oslo_policy__policy_file=str(tmp_path / 'policy.yaml')) as cloud:
        client = cloud.client()
        image = client.upload_image()
        answer = create(client, image, SHOWN)
        assert 'status' not in answer.json()['server'] and 'Preference-Applied' not in answer.headers
        assert create(cloud.admin(), image, SHOWN).json()['server']['status'] == 'BUILD'
