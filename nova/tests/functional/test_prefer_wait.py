"""Prefer: wait=SECONDS: answers that come when the task has ended."""
import threading
import time

import pytest

from nova.api import waits
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


@pytest.mark.parametrize('prefer', [None, 'respond-async', 'wait=many', 'wait=-1', 'await=3', 'wait=9999999999'])
def test_what_is_no_wait_is_no_wait(running, prefer):
    client = running.client()
    answer = create(client, client.upload_image(), prefer)
    assert answer.status_code == 202 and 'Preference-Applied' not in answer.headers


def test_a_wait_has_a_bound(running):
    client = running.client()
    answer = create(client, client.upload_image(), 'wait=100000000')
    assert answer.headers['Preference-Applied'] == f'wait={waits.MOST_S}'


def test_a_refusal_comes_at_once(running):
    answer = running.client().post('/servers/8a3f5d1e-0000-4000-8000-000000000000/action', {'os-stop': None},
                                   headers={'Prefer': 'wait=20'})
    assert answer.status_code == 404 and 'Preference-Applied' not in answer.headers


def test_one_project_has_half_of_the_waits_and_others_are_served(running):
    client, admin = running.client(), running.admin()          # 16 threads: 4 waits, 2 of one project
    image = client.upload_image()
    answers = []

    def one():
        answers.append(create(running.client(), image).headers.get('Preference-Applied'))
    threads = [threading.Thread(target=one) for _ in range(8)]
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
        time.sleep(1)
        began = time.monotonic()
    thread.join(30)
    assert answers[0].status_code == 202 and time.monotonic() - began < 20


def test_a_server_is_followed_into_the_cell_of_its_host(tmp_path):
    with cells_cloud.running(tmp_path) as cloud:
        client = cloud.client()
        answer = create(client, client.upload_image(data=b'\0' * 4096))
        server_id = answer.json()['server']['id']
        assert answer.headers['Preference-Applied'] == 'wait=20' and status(client, server_id) == 'ACTIVE'
        assert client.delete(f'/servers/{server_id}', headers={'Prefer': 'wait=20'}).status_code == 204
        assert client.get(f'/servers/{server_id}').status_code == 404
