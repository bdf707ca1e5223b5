"""What tests share with nova/tests/functional/test_consoles.py."""
import urllib.parse

import pytest
import sqlalchemy as sa
from websockets.sync import client as websocket

from nova.db.servers import console_tokens
from nova.db.tables.cell import console_auth_tokens
from nova.tests import guests_consoles as guests
from nova.tests.functional import cloud as whole

TYPES = {'novnc': 'vnc', 'serial': 'serial'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('consoles'), console__allowed_origins=['dash.example.org']) as cloud:
        yield cloud


@pytest.fixture(scope='module')
def client(cloud):
    return cloud.client(version='2.99')


@pytest.fixture(scope='module')
def server(client):
    made = client.boot(client.upload_image(), networks='none')['id']
    client.wait_for(made)
    return made


@pytest.fixture
def hypervisor():
    made = guests.Hypervisor()
    yield made
    made.close()


def url_of(cloud, client, server, hypervisor, kind='novnc', password=guests.PASSWORD):
    """(URL of the page, URL of the WebSocket) of a console that leads to a Hypervisor."""
    cloud.hypervisor_password = password
    answer = client.post(f'/servers/{server}/remote-consoles', {'remote_console': {
        'protocol': TYPES[kind], 'type': kind}})
    assert answer.status_code == 200, answer.text
    url = answer.json()['remote_console']['url']
    token = urllib.parse.unquote(url).rpartition('token=')[2]
    redirect(cloud, token, hypervisor, password if kind == 'novnc' else None)
    parts = urllib.parse.urlsplit(url)
    return url, urllib.parse.urlunsplit(('ws', parts.netloc, parts.path, f'token={token}', '')), token


def redirect(cloud, token, hypervisor, password):
    """Let a token lead to a Hypervisor instead of the fake driver's port."""
    with cloud.cell_db.writer() as conn:
        row = console_tokens.get(conn, token)
        conn.execute(sa.delete(console_auth_tokens).where(console_auth_tokens.c.token_hash == row['token_hash']))
        keep = ('instance_uuid', 'console_type', 'instance_host', 'project_id', 'user_id',
                'user_token_id', 'user_token_expires_at', 'user_claims')
        console_tokens.insert(conn, token, 600, {**{name: row[name] for name in keep}, 'host': '127.0.0.1',
                                                 'port': hypervisor.port}, password)


def open_socket(url, **more):
    return websocket.connect(url, **{'subprotocols': ['binary'], 'compression': None, 'proxy': None, **more})
