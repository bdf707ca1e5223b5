"""Requests of tests to the block storage API, and types of volumes."""
from nova.tests.support import waiting


def ask(client, method, path, body=None, code=200):
    answer = client.request(method, '/volume/v3' + path, body)
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


def until(client, volume, status='available'):
    def reached():
        return ask(client, 'GET', f'/volumes/{volume}')['volume']['status'] == status
    waiting.wait_for(reached, 60, f'{status} volume')


def make(admin, name, **values):
    return ask(admin, 'POST', '/types', {'volume_type': {'name': name, **values}})['volume_type']
