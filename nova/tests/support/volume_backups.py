"""What tests share with nova/tests/functional/test_volume_backups.py."""
from nova.tests.support.waiting import wait_for


def ask(client, method, path, body=None, code=202, **more):
    answer = client.request(method, '/volume/v3' + path, body, **more)
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


def ready(client, path, key, status='available'):
    wait_for(lambda: ask(client, 'GET', path, code=200)[key]['status'] == status, 30, f'{path} to be {status}')
    return ask(client, 'GET', path, code=200)[key]
