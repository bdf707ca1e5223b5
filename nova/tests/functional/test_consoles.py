"""Consoles over HTTP: from the URL of the compute API to the bytes of a guest, and what strangers try."""
import contextlib
import datetime
import logging
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import types
import urllib.parse

from oslo_db import exception as db_exc
import pytest
import requests
import sqlalchemy as sa
from websockets import exceptions as closed

from nova import conf as nova_conf
from nova import utils
from nova.console import app
from nova.console import relay
from nova.console import sessions
from nova.db.servers import console_tokens
from nova.db.tables.cell import console_auth_tokens
from nova.runtime import fairness
from nova.runtime import queues
from nova.tests import guests_consoles as guests
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests import warm_client
from nova.tests.functional import cloud as whole
from nova.tests.integration import servers
from nova.tests.support import consoles as shared_consoles
from nova.tests.support.consoles import open_socket
from nova.tests.support.consoles import redirect
from nova.tests.support.consoles import url_of

client = shared_consoles.client
cloud = shared_consoles.cloud
hypervisor = shared_consoles.hypervisor
server = shared_consoles.server


START_S = 180                      # a process on a busy machine


@pytest.fixture
def serial():
    made = guests.Hypervisor(vnc=False)
    yield made
    made.close()


def refused(url, **more):
    """The code with which a WebSocket is refused."""
    with pytest.raises(closed.InvalidStatus) as error, open_socket(url, **more):
        pass
    return error.value.response.status_code


# ---- what it is for ---------------------------------------------------------------

def test_vnc_console_relays_the_screen(cloud, client, server, hypervisor):
    _page, url, _token = url_of(cloud, client, server, hypervisor)
    with open_socket(url) as opened:
        assert opened.subprotocol == 'binary'
        screen = guests.Reader(opened)
        assert screen.read(12) == b'RFB 003.008\n'
        opened.send(b'RFB 003.008\n')
        assert screen.read(2) == b'\x01\x01', 'the browser is asked for no password'
        opened.send(b'\x01')
        assert screen.read(4) == bytes(4)
        opened.send(b'abc')
        assert screen.read(3) == b'ABC'
    assert hypervisor.seen == b'abc'


def test_serial_console_relays_text(cloud, client, server, serial):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    with open_socket(url, subprotocols=None) as opened:
        opened.send('text of a client that knows no bytes')
        assert guests.Reader(opened).until(b'BYTES') == b'TEXT OF A CLIENT THAT KNOWS NO BYTES'


def test_much_passes_in_both_directions(cloud, client, server, serial):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    sent = bytes(range(97, 123)) * 40000
    with open_socket(url) as opened:
        reader, got = guests.Reader(opened), b''
        for at in range(0, len(sent), 65536):
            opened.send(sent[at:at + 65536])
            got += reader.read(len(sent[at:at + 65536]))
    assert got == sent.upper()


def test_the_password_is_nowhere_in_the_database_and_a_wrong_one_opens_nothing(cloud, client, server, hypervisor):
    _page, url, _token = url_of(cloud, client, server, hypervisor)
    with cloud.cell_db.reader() as conn:
        rows = conn.execute(sa.select(console_auth_tokens)).all()
    assert guests.PASSWORD not in str(rows)
    _page, url, _token = url_of(cloud, client, server, hypervisor, password='anothers')
    assert refused(url) == 503


def test_console_page_has_security_headers_and_assets(cloud, client, server, hypervisor):
    page, url, _token = url_of(cloud, client, server, hypervisor)
    answer = requests.get(page)
    assert answer.status_code == 200 and answer.headers['Cache-Control'] == 'no-store'
    policy = answer.headers['Content-Security-Policy']
    assert "frame-ancestors 'self' dash.example.org" in policy and "script-src 'self';" in policy
    for path in ('pages/vnc.js', 'novnc/core/rfb.js', 'xterm/xterm.mjs', 'spice/main.js'):
        found = requests.get(urllib.parse.urljoin(page, f'assets/{path}'))
        assert (found.status_code, found.headers['Content-Type']) == (200, 'text/javascript; charset=utf-8')
        assert (found.headers['Cache-Control'], found.headers['X-Content-Type-Options']) == ('no-cache', 'nosniff')
        assert requests.get(found.url, headers={'If-None-Match': found.headers['ETag']}).status_code == 304
    for path in ('assets/pages/../../app.py', 'assets/%2e%2e/app.py', 'assets/pages/', 'other'):
        assert requests.get(urllib.parse.urljoin(page, '.') + path).status_code == 404, path
    assert requests.post(page).status_code == 405
    assert requests.get(f'{cloud.url}/console/serial', allow_redirects=False).headers['Location'] == 'serial/'
    assert 'serial.js' in requests.get(f'{cloud.url}/console/serial/?token=x').text
    assert requests.get(f'{cloud.url}/console/xvpvnc/?token=x').status_code == 410


def test_console_requests_follow_the_microversion(cloud, server):
    """Until 2.5 an action each, from 2.6 on one resource; what is not served is refused with a sentence."""
    old, new = cloud.client(version='2.5'), cloud.client(version='2.99')
    for name, kind, code in (
            ('os-getVNCConsole', 'novnc', 200), ('os-getVNCConsole', 'xvpvnc', 400),
            ('os-getSPICEConsole', 'spice-html5', 400), ('os-getSerialConsole', 'serial', 200),
            ('os-getRDPConsole', 'rdp-html5', 400)):
        answer = old.post(f'/servers/{server}/action', {name: {'type': kind}})
        assert answer.status_code == code, (name, answer.text)
        assert code != 200 or answer.json()['console']['type'] == kind
        assert new.post(f'/servers/{server}/action', {name: {'type': kind}}).status_code == 404
    def create(protocol, kind, version='2.99'):
        return new.post(f'/servers/{server}/remote-consoles', {'remote_console': {'protocol': protocol, 'type': kind}},
                        version=version)
    url = create('serial', 'serial').json()['remote_console']['url']
    assert url.startswith(cloud.url.replace('http', 'ws') + '/console/serial/?token=')
    options = {('spice', 'html5proxy_base_url'): 'http://s.example/spice_auto.html',
               ('spice', 'spice_direct_proxy_base_url'): 'http://d.example/', ('mks', 'mksproxy_base_url'): 'http://m.example/'}
    for (group, name), value in options.items():
        cloud.conf.set_override(name, value, group=group)
    try:
        assert create('spice', 'spice-html5').json()['remote_console']['url'].startswith('http://s.example/spice_auto')
        assert create('mks', 'webmks').json()['remote_console']['url'].startswith('http://m.example/?token=')
        assert create('mks', 'webmks', '2.7').status_code == 400
        assert create('spice', 'spice-direct').status_code == 400, 'its proxy has no password of the guest'
        assert create('spice', 'spice-direct', '2.98').status_code == 400
    finally:
        for group, name in options:
            cloud.conf.clear_override(name, group=group)


@pytest.mark.parametrize('option, start', [('--novnc', '/console/novnc/vnc_auto.html?path=%3Ftoken%3D'),
                                           ('--serial', '/console/serial/?token=')])
def test_openstackclient_shows_the_console_url(cloud, server, option, start):
    code, printed = warm_client.client().run(
        ['console', 'url', 'show', option, server, '-f', 'value', '-c', 'url'],
        {**os.environ, 'OS_CLIENT_CONFIG_FILE': str(cloud.clouds_yaml), 'OS_CLOUD': 'nova-demo'})
    assert code == 0, printed
    assert printed.split('://')[1].startswith(cloud.url.split('://')[1] + start)


# ---- tokens --------------------------------------------------------------------------

def test_invalid_console_tokens_are_refused(cloud, client, server, hypervisor, serial):
    _page, url, token = url_of(cloud, client, server, hypervisor)
    plain = url.partition('?')[0]
    for query in ('', '?token=', '?token=nonsense', f'?token={token}&token={token}', f'?token={token}x',
                  '?token=' + 'x' * 9999, '?' + 'a=b&' * 100, '?token=%00', '?token=%ff'):
        assert refused(plain + query) == 404, query
    other = plain.replace('/novnc/vnc_auto.html', '/serial/')
    assert refused(f'{other}?token={token}') == 404, 'a token of a screen opens no serial port'


def test_a_token_and_its_sessions_end_with_the_servers_stop(cloud, client, server, serial, monkeypatch):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    with open_socket(url) as opened:
        opened.send(b'x')
        assert opened.recv(10) == b'X'
        assert client.post(f'/servers/{server}/action', {'os-stop': None}).status_code == 202
        client.wait_for(server, 'SHUTOFF')
        with pytest.raises(closed.ConnectionClosed) as end:
            opened.recv(sessions.CHECK_INTERVAL_S + 20)
        assert end.value.rcvd.code == relay.GOING_AWAY and 'stopped' in end.value.rcvd.reason
    assert refused(url) == 404
    client.post(f'/servers/{server}/action', {'os-start': None})
    client.wait_for(server)


def test_a_session_goes_with_a_server_that_moves_while_it_runs(tmp_path, serial):
    """Its client connects again with the same token, which is good for that long; what nobody uses ends."""
    with whole.running(tmp_path / 'state', ['host1', 'host2']) as cloud:
        client, admin = cloud.client(version='2.99'), cloud.admin(version='2.30')
        server = client.boot(client.upload_image(), networks='none')['id']
        client.wait_for(server)
        _page, url, token = url_of(cloud, client, server, serial, 'serial')
        _page, unused, _token = url_of(cloud, client, server, serial, 'serial')
        with open_socket(url) as opened:
            opened.send(b'x')
            assert opened.recv(10) == b'X'
            with cloud.cell_db.writer() as conn:
                before = console_tokens.get(conn, token)
                soon = utils.utcnow() + datetime.timedelta(seconds=30)
                conn.execute(sa.update(console_auth_tokens).values(expires_at=soon))
            other, = {'host1', 'host2'} - {before['instance_host']}
            assert admin.post(f'/servers/{server}/action', {'os-migrateLive': {
                'host': other, 'block_migration': 'auto'}}).status_code == 202
            waiting.wait_for(lambda: client.get(f'/servers/{server}').json()['server']['status'] == 'ACTIVE' and (
                cloud.cell_db.run(lambda conn: conn.execute(sa.select(console_auth_tokens.c.instance_host)).all())
                == [(other,)]), 30, 'the token to follow')
        assert refused(unused) == 404
        with cloud.cell_db.reader() as conn:
            row = console_tokens.get(conn, token)
        assert row['port'] != serial.port and row['session_expires_at'] is None
        assert row['expires_at'] > soon + datetime.timedelta(seconds=console_tokens.RECONNECT_TIME_S - 60)
        redirect(cloud, token, serial, None)
        with open_socket(url) as opened:
            opened.send(b'y')
            assert opened.recv(10) == b'Y'


def test_a_session_outlives_its_token_unless_the_operator_says_no(cloud, client, server, serial):
    _page, url, token = url_of(cloud, client, server, serial, 'serial')
    with open_socket(url) as opened:
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.update(console_auth_tokens).values(expires_at=sa.text("'2020-01-01 00:00:00.000000'")))
        cloud.services[0].manager.expiry.expire_console_tokens()
        time.sleep(sessions.CHECK_INTERVAL_S + 1)
        opened.send(b'x')
        assert opened.recv(10) == b'X'
    assert refused(url) == 404


def test_a_session_ends_with_its_project(cloud, client, server, serial):
    admin = cloud.admin()
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    path = f'/identity/v3/projects/{client.project_id}'
    try:
        with open_socket(url) as opened:
            assert admin.request('PATCH', path, {'project': {'enabled': False}}).status_code == 200
            with pytest.raises(closed.ConnectionClosed) as end:
                opened.recv(sessions.CHECK_INTERVAL_S + 20)
        assert 'project' in end.value.rcvd.reason
    finally:
        admin.request('PATCH', path, {'project': {'enabled': True}})


def test_a_session_ends_with_the_token_of_its_user(cloud, server, serial):
    user, other = cloud.client(version='2.99'), cloud.client(version='2.99')
    _page, url, token = url_of(cloud, user, server, serial, 'serial')
    _page, kept, _token = url_of(cloud, other, server, serial, 'serial')
    with cloud.cell_db.reader() as conn:
        row = console_tokens.get(conn, token)
    assert row['user_token_expires_at'] >= row['expires_at'] and row['user_token_id'] not in (None, user.token)
    with open_socket(url) as opened, open_socket(kept) as stays:
        answer = user.request('DELETE', '/identity/v3/auth/tokens', headers={'X-Subject-Token': user.token})
        assert answer.status_code == 204
        with pytest.raises(closed.ConnectionClosed) as end:
            opened.recv(sessions.CHECK_INTERVAL_S + 20)
        stays.send(b'x')
        assert stays.recv(10) == b'X', 'another login of the same user'
    assert 'logged out' in end.value.rcvd.reason
    assert refused(url) == 404 and row['user_claims'] and user.token not in row['user_claims']


@pytest.mark.parametrize('lost', ['admin', 'member', 'credential'])
def test_a_session_ends_with_the_access_of_its_user(cloud, server, serial, lost):
    """Roles that were removed, and the application credential of the token that was deleted."""
    admin, owner = cloud.admin(version='2.99'), cloud.client(version='2.99')
    user = admin.post('/identity/v3/users', {'user': {'name': f'loses-{lost}', 'password': 'secret-of-it-1'}}).json()[
        'user']['id']
    roles = {role['name']: role['id'] for role in admin.get('/identity/v3/roles').json()['roles']}
    path = f'/identity/v3/projects/{owner.project_id}/users/{user}/roles/'
    for name in {lost, 'member'} & set(roles):
        assert admin.put(path + roles[name]).status_code == 204
    project = admin.get(f'/identity/v3/projects/{owner.project_id}').json()['project']['name']
    caller = whole.Client(cloud.url, f'loses-{lost}', 'secret-of-it-1', project, '2.99')
    credential = None
    if lost == 'credential':
        made = caller.post(f'/identity/v3/users/{user}/application_credentials', {'application_credential': {
            'name': 'c'}}).json()['application_credential']
        credential = f'/identity/v3/users/{user}/application_credentials/{made["id"]}'
        answer = caller.post('/identity/v3/auth/tokens', {'auth': {'identity': {
            'methods': ['application_credential'], 'application_credential': {
                'id': made['id'], 'secret': made['secret']}}}})
        caller.token, own = answer.headers['X-Subject-Token'], caller.token
    _page, url, _token = url_of(cloud, caller, server, serial, 'serial')
    with open_socket(url) as opened:
        opened.send(b'x')
        assert opened.recv(10) == b'X'
        answer = admin.delete(path + roles[lost]) if credential is None else caller.request(
            'DELETE', credential, headers={'X-Auth-Token': own})
        assert answer.status_code == 204, answer.text
        with pytest.raises(closed.ConnectionClosed) as end:
            opened.recv(sessions.CHECK_INTERVAL_S + 20)
    assert 'lost access' in end.value.rcvd.reason
    assert refused(url) == 404


def test_a_console_is_good_no_longer_than_the_token_of_its_user(cloud):
    now = utils.utcnow()
    with cloud.cell_db.writer() as conn:
        console_tokens.insert(conn, 'short', 600, {
            'instance_uuid': 'x', 'console_type': 'serial', 'instance_host': 'h', 'port': 1,
            'user_token_expires_at': now + datetime.timedelta(seconds=5)})
        query = sa.select(console_auth_tokens.c.expires_at).filter_by(instance_uuid='x')
        assert conn.execute(query).scalar() == now + datetime.timedelta(seconds=5)


def test_a_token_that_opens_once(cloud, client, server, serial):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    cloud.conf.set_override('single_use', True, group='consoleauth')
    try:
        with open_socket(url):
            assert refused(url) == 404
    finally:
        cloud.conf.clear_override('single_use', group='consoleauth')


@pytest.mark.parametrize('name', ['get', 'take'])
def test_a_console_cannot_be_opened_while_the_database_is_unavailable(cloud, client, server, serial, monkeypatch, name):
    """The user read that the token was invalid, or an internal error."""
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')

    def fails(*arguments):
        raise db_exc.DBConnectionError()
    with monkeypatch.context() as patch:
        patch.setattr(console_tokens, name, fails)
        assert refused(url) == 503
    with open_socket(url):
        pass


def test_a_console_that_does_not_answer_leaves_a_token_that_opens_once(cloud, client, server, serial):
    """The token was used up: the user was told to try again, and could not."""
    _page, url, token = url_of(cloud, client, server, serial, 'serial')

    def lead_to(port):
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.update(console_auth_tokens).where(
                console_auth_tokens.c.token_hash == console_tokens.get(conn, token)['token_hash']).values(port=port))
    cloud.conf.set_override('single_use', True, group='consoleauth')
    try:
        with socket.socket() as deaf:
            deaf.bind(('127.0.0.1', 0))
            lead_to(deaf.getsockname()[1])
            assert refused(url) == 503
        lead_to(serial.port)
        with open_socket(url) as opened:
            opened.send(b'x')
            assert opened.recv(10) == b'X'
        assert refused(url) == 404
    finally:
        cloud.conf.clear_override('single_use', group='consoleauth')


def test_session_ends_when_its_token_expires(cloud, client, server, serial):
    cloud.conf.set_override('enforce_session_timeout', True, group='consoleauth')
    try:
        _page, url, _token = url_of(cloud, client, server, serial, 'serial')
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.update(console_auth_tokens).values(
                expires_at=utils.utcnow() + datetime.timedelta(seconds=2)))
        with open_socket(url) as opened, pytest.raises(closed.ConnectionClosed) as end:
            opened.recv(10)
        assert 'session timeout' in end.value.rcvd.reason
    finally:
        cloud.conf.clear_override('enforce_session_timeout', group='consoleauth')


# ---- strangers ------------------------------------------------------------------------

@pytest.mark.parametrize('origin, code', [
    ('https://evil.example.org', 403), ('null', 403), ('https://dash.example.org.evil.net', 403),
    ('https://dash.example.org@evil.net', 403), ('file://', 403), ('http://[::::]', 403),
    ('https://dash.example.org', 101), ('https://dash.example.org:8443', 101), ('own', 101)])
def test_websocket_of_another_origin_is_refused(cloud, client, server, serial, origin, code):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    if origin == 'own':
        origin = 'http://' + urllib.parse.urlsplit(url).netloc
    if code == 101:
        with open_socket(url, origin=origin) as opened:
            opened.send(b'x')
            assert opened.recv(10) == b'X'
    else:
        assert refused(url, origin=origin) == code


def raw(cloud, path, *headers, host=None, body=b''):
    """A WebSocket's request as bytes; (the socket, the answer's first line)."""
    netloc = urllib.parse.urlsplit(cloud.url).netloc
    sock = socket.create_connection(netloc.rsplit(':', 1), 10)
    lines = [f'GET {path} HTTP/1.1', f'Host: {netloc if host is None else host}', *headers]
    sock.sendall(('\r\n'.join(lines) + '\r\n\r\n').encode() + body)
    answer = b''
    while b'\r\n\r\n' not in answer:
        answer += sock.recv(65536)
    return sock, answer.split(b'\r\n')[0].decode(), answer


UPGRADE = ('Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
           'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==')


@pytest.mark.parametrize('changed, code', [
    ({2: 'Sec-WebSocket-Version: 8'}, 400), ({3: 'Sec-WebSocket-Key: x'}, 400), ({0: 'Connection: close'}, 426),
    ({1: 'Upgrade: h2c'}, 426), ({0: 'Connection: Upgrade\r\nContent-Length: 3'}, 400)])
def test_requests_without_websocket_upgrade_are_refused(cloud, client, server, serial, changed, code):
    _page, url, token = url_of(cloud, client, server, serial, 'serial')
    sock, line, _answer = raw(cloud, f'/console/serial/?token={token}',
                              *(changed.get(number, header) for number, header in enumerate(UPGRADE)), body=b'abc')
    sock.close()
    assert line.split()[1] == str(code)
    assert not serial.clients, 'nobody was asked'


@pytest.mark.parametrize('host', ['evil.example.org', 'localhost.evil.org', '', '[::::]', '[1.2]:80'])
def test_unknown_host_header_is_refused(cloud, client, server, serial, host):
    _page, url, token = url_of(cloud, client, server, serial, 'serial')
    sock, line, _answer = raw(cloud, f'/console/serial/?token={token}', *UPGRADE, host=host)
    sock.close()
    assert line.split()[1] == '400'


def test_allowed_origins_may_be_ipv6_addresses():
    """They were compared with their brackets, and hosts without."""
    conf = nova_conf.new(files=[], console__allowed_origins=['[2001:db8::7]:8443', '[2001:DB8::8]', 'a.example.org:80'])
    application, found = app.Application(conf, 'vnc', None, app.assets(), 'http://console.example.org:6080/'), []

    def status(host, **more):
        application({'REQUEST_METHOD': 'GET', 'PATH_INFO': '/vnc_auto.html', 'HTTP_HOST': host, 'SERVER_NAME': '::',
                     **more}, lambda line, _headers: found.append(line))
        return found[-1][:3]
    for host in ('[2001:db8::7]:8443', '[2001:db8::7]', '[2001:db8::8]', 'a.example.org', 'console.example.org:6080'):
        assert status(host) == '200', host
    assert status('[2001:db8::9]') == '400'
    for origin, code in (('[2001:db8::7]:8443', '501'), ('[2001:db8::8]', '501'), ('[2001:db8::8]:9000', '501'),
                         ('a.example.org:80', '501'), ('[2001:db8::7]', '403'), ('[2001:db8::7]:9000', '403'),
                         ('a.example.org:81', '403'), ('[2001:db8::9]', '403')):
        assert status('localhost', HTTP_UPGRADE='websocket', HTTP_ORIGIN=f'https://{origin}') == code, origin


def frame(opcode, data, fin=0x80, masked=0x80, rsv=0):
    length = bytes([masked | len(data)]) if len(data) < 126 else bytes([masked | 127]) + len(data).to_bytes(8, 'big')
    return bytes([fin | rsv | opcode]) + length + (bytes(4) if masked else b'') + data


@pytest.mark.parametrize('data', [
    frame(2, b'x', masked=0), frame(2, b'x', rsv=0x40), frame(3, b'x'), frame(0, b'x'), frame(9, b'x' * 200),
    bytes([0x82, 0xff]) + (1 << 62).to_bytes(8, 'big') + bytes(4), frame(2, b'x', fin=0) + frame(2, b'y'),
    frame(8, b'\x00'), frame(9, b'', fin=0)], ids=range(9))
def test_frames_that_are_none_end_the_session_and_reach_no_guest(cloud, client, server, serial, data):
    _page, url, token = url_of(cloud, client, server, serial, 'serial')
    sock, line, _answer = raw(cloud, f'/console/serial/?token={token}', *UPGRADE)
    assert line.split()[1] == '101'
    sock.sendall(data)
    sock.settimeout(10)
    said = b''
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            said += piece
    sock.close()
    assert said[:1] == b'\x88' and int.from_bytes(said[2:4], 'big') in (1002, 1007, 1009), said
    assert b'y' not in serial.seen
    waiting.wait_for(lambda: not len(cloud.consoles), 10, 'the session to end')


def test_too_long_console_message_closes_the_session(cloud, client, server, serial):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    with open_socket(url) as opened, pytest.raises(closed.ConnectionClosed) as end:
        opened.send(b'x' * (relay.FRAME + 1))
        opened.recv(10)
    assert end.value.rcvd is None or end.value.rcvd.code == 1009
    assert not serial.seen


def test_bytes_that_come_with_the_request_are_the_guests(cloud, client, server, serial):
    _page, _url, token = url_of(cloud, client, server, serial, 'serial')
    netloc = urllib.parse.urlsplit(cloud.url).netloc
    with socket.create_connection(netloc.rsplit(':', 1), 10) as sock:
        sock.sendall(('\r\n'.join([f'GET /console/serial/?token={token} HTTP/1.1', f'Host: {netloc}', *UPGRADE])
                      + '\r\n\r\n').encode() + frame(2, b'early'))
        answer = b''
        while not answer.endswith(b'EARLY'):
            piece = sock.recv(65536)
            assert piece, answer
            answer += piece


def test_sessions_of_one_token_are_limited(cloud, client, server, serial):
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    with contextlib.ExitStack() as stack:
        for _ in range(sessions.MAX_PER_TOKEN):
            stack.enter_context(open_socket(url))
        assert refused(url) == 429
    waiting.wait_for(lambda: not len(cloud.consoles), 10, 'the session to end')
    with open_socket(url):
        pass


def test_a_trusted_proxy_may_have_the_sessions_of_many_clients(cloud, client, server, serial, tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, 'MAX_PER_CLIENT', 1)
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    with open_socket(url):
        assert refused(url) == 429
    waiting.wait_for(lambda: not len(cloud.consoles), 10, 'the session to end')
    with whole.running(tmp_path, http__trusted_proxies=['127.0.0.0/8']) as trusting:
        caller = trusting.client(version='2.99')
        other = caller.boot(caller.upload_image(), networks='none')['id']
        caller.wait_for(other)
        _page, url, _token = url_of(trusting, caller, other, serial, 'serial')
        with open_socket(url), open_socket(url):
            pass


def test_one_project_leaves_sessions_to_the_others(cloud, client, server, serial, monkeypatch):
    monkeypatch.setattr(cloud.consoles, '_shares', fairness.ConcurrencyLimit(queues.CONSOLES, 3))
    _page, url, _token = url_of(cloud, client, server, serial, 'serial')
    _page, other, _token = url_of(cloud, cloud.admin(version='2.99'), server, serial, 'serial')
    with open_socket(url), open_socket(url):
        assert refused(url) == 429
        with open_socket(other):
            assert refused(other) == 429
    waiting.wait_for(lambda: not len(cloud.consoles), 10, 'the sessions to end')
    with open_socket(url):
        pass
    waiting.wait_for(lambda: not len(cloud.consoles), 10, 'the session to end')


def test_a_compute_host_cannot_lead_the_proxy_to_what_only_the_proxy_reaches(cloud, client, server, serial):
    """A host that was taken over names loopback, a low port, or a socket of its choice."""
    for values in ({'instance_host': 'elsewhere'}, {'port': 22}, {'internal_access_path': '/run/docker.sock'}):
        _page, url, token = url_of(cloud, client, server, serial, 'serial')
        cell, row = cloud.consoles._found('serial', token)
        facts = sessions.Facts({**row, **values}, cell, '127.0.0.1', '127.0.0.1')
        with pytest.raises(Exception, match='does not answer'):
            cloud.consoles._way('serial', facts, None)
    assert not serial.clients


# ---- a terminal ---------------------------------------------------------------------------

@pytest.mark.parametrize('server_id, sentence', long_runs.rest([
    ('3b1ad3ac-0000-0000-0000-000000000000', b'could not be found'), ('nonsense', b'could not be found'),
    (None, b'The console of this server does not answer.')]))
def test_console_command_reports_a_missing_console(cloud, server, server_id, sentence):
    with guests.Terminal('vm', 'console', server_id or server, '--state-path', cloud.state_path) as terminal:
        terminal.until(sentence)
        assert terminal.wait() == 1


def test_a_terminal_leaves_with_the_escape(monkeypatch):
    """Bytes of keys come in pieces of any size; what stands before the escape still reaches the guest."""
    from nova.cmd.manage import consoles
    for pieces in ([b'ab\x1d\x1dc\x1d.'], [b'ab', b'\x1d', b'\x1d', b'c\x1d', b'.']):
        sent = []
        keys, typist = os.pipe()
        screen, over, resized = os.open(os.devnull, os.O_WRONLY), os.pipe()[0], os.pipe()[0]
        for piece in pieces:
            os.write(typist, piece)
        consoles._pass_keys(types.SimpleNamespace(send=sent.append), keys, screen, over, resized)
        assert b''.join(sent) == b'ab\x1dc'


def test_size_of_a_window_that_changes_during_a_send_is_sent_afterwards():
    from nova.cmd.manage import consoles
    keys, typist = os.pipe()
    sent = []

    class Socket:
        sending = False
        closed = threading.Event()

        def __iter__(self):
            self.closed.wait()
            return iter(())

        def send(self, data):
            assert not self.sending, 'a signal handler sends: the lock of the socket is held'
            self.sending = True
            if data == b'ls\r':
                signal.raise_signal(signal.SIGWINCH)
            else:
                os.write(typist, b'\x1d.')
            sent.append(data)
            self.sending = False
    master, screen = pty.openpty()
    termios.tcsetwinsize(screen, (33, 111))
    os.write(typist, b'ls\r')
    try:
        consoles._work(Socket(), keys, screen, follow_window=True)
    finally:
        Socket.closed.set()
        os.close(master)
        os.close(screen)
    assert sent == [b'ls\r', b'stty rows 33 cols 111\r']


# ---- the end --------------------------------------------------------------------------

def test_a_guest_that_goes_away_ends_the_session_with_a_reason(cloud, client, server, serial, caplog):
    _page, url, token = url_of(cloud, client, server, serial, 'serial')
    caplog.set_level(logging.INFO, 'nova.console.audit')
    with open_socket(url) as opened:
        opened.send(b'12345')
        opened.recv(10)
        serial.end()
        with pytest.raises(closed.ConnectionClosed) as end:
            opened.recv(10)
    assert end.value.rcvd.code == relay.GOING_AWAY
    waiting.wait_for(lambda: 'Console session' in caplog.text, 10, 'the audit')
    line, = [record.getMessage() for record in caplog.records if record.name == 'nova.console.audit']
    for part in (f'user={client.user_id}', f'project={client.project_id}', f'server={server}', 'type=serial',
                 'from=127.0.0.1', 'received=5 sent=5', 'end=the guest ended the connection'):
        assert part in line
    assert token not in caplog.text


# ---- daemons, and TLS ------------------------------------------------------------------

def test_serial_console_works_over_tls(tmp_path):
    """The all-in-one's own certificate; much passes, in pieces that are larger than a record."""
    import ssl
    serial = guests.Hypervisor(vnc=False)
    try:
        with whole.running(tmp_path, http__tls='on') as cloud:
            client = cloud.client(version='2.99')
            server = client.boot(client.upload_image(), networks='none')['id']
            client.wait_for(server)
            page, url, _token = url_of(cloud, client, server, serial, 'serial')
            assert page.startswith('wss://')
            sent = bytes(range(97, 123)) * 40000
            context = ssl.create_default_context(cafile=str(cloud.authority))
            with open_socket(url.replace('ws://', 'wss://'), ssl=context) as opened:
                reader, got = guests.Reader(opened), b''
                for at in range(0, len(sent), 100000):
                    opened.send(sent[at:at + 100000])
                    got += reader.read(len(sent[at:at + 100000]))
            assert got == sent.upper()
    finally:
        serial.close()


@contextlib.contextmanager
def daemon(cloud, directory, binary, **more):
    """(base URL, function that gives the log) of a daemon of a cloud's databases."""
    port = servers.free_port()
    options = {'DEFAULT': {'state_path': cloud.state_path, 'host': cloud.hosts[0]},
               'vnc': {'novncproxy_port': port, 'xvpvncproxy_port': port}, 'spice': {'html5proxy_port': port},
               'serial_console': {'serialproxy_port': port}, **more}
    (directory / 'nova.conf').write_text('\n'.join(
        f'[{group}]\n' + '\n'.join(f'{name} = {value}' for name, value in values.items())
        for group, values in options.items()))
    log = directory / 'log'
    with open(log, 'wb') as out:
        process = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), binary), '--config-file',
                                    str(directory / 'nova.conf')], stdout=out, stderr=out)
    try:
        yield f'127.0.0.1:{port}', process, log.read_text
    finally:
        process.terminate()
        assert process.wait(120) == 0, log.read_text()


def answers(netloc):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(f'http://{netloc}/', timeout=30)


def test_the_serial_proxy_as_a_daemon_lives_through_the_end_of_the_api(tmp_path, serial):
    (tmp_path / 'state').mkdir()
    (tmp_path / 'daemon').mkdir()
    with contextlib.ExitStack() as stack:
        with whole.running(tmp_path / 'state') as cloud:
            client = cloud.client(version='2.99')
            server = client.boot(client.upload_image(), networks='none')['id']
            client.wait_for(server)
            netloc, _process, log = stack.enter_context(daemon(cloud, tmp_path / 'daemon', 'nova-serialproxy'))
            _page, _url, token = url_of(cloud, client, server, serial, 'serial')
            assert 'serial.js' in waiting.wait_for(lambda: answers(netloc), START_S, 'the daemon').text
            opened = stack.enter_context(open_socket(f'ws://{netloc}/?token={token}', origin=f'http://{netloc}'))
            opened.send(b'one')
            assert guests.Reader(opened).read(3) == b'ONE'
        time.sleep(sessions.CHECK_INTERVAL_S + 1)
        opened.send(b'two')
        assert guests.Reader(opened).read(3) == b'TWO'
        opened.close()
        waiting.wait_for(lambda: 'Console session' in log(), 60, 'the audit')
        assert token not in log()


@pytest.mark.parametrize('binary, said', long_runs.rest([
    ('nova-novncproxy', 'vnc.js'), ('nova-spicehtml5proxy', 'spice.js'), ('nova-xvpvncproxy', 'novnc')]))
def test_console_daemons_serve_their_pages(cloud, tmp_path, binary, said):
    with daemon(cloud, tmp_path, binary) as (netloc, _process, _log):
        waiting.wait_for(lambda: answers(netloc) is not None, START_S, 'the daemon')
        name = 'spice_auto' if 'spice' in binary else 'vnc_auto'
        page = requests.get(f'http://{netloc}/{name}.html?path=%3Ftoken%3Dx')
        assert said in page.text
        assert page.status_code == (410 if 'xvp' in binary else 200)


@pytest.mark.parametrize('binary', long_runs.rest(['nova-console', 'nova-consoleauth']))
def test_names_of_old_deployments_run_and_say_so(cloud, tmp_path, binary):
    with daemon(cloud, tmp_path, binary) as (_netloc, process, log):
        waiting.wait_for(lambda: 'has no function' in log(), START_S, 'its sentence')
        time.sleep(1)
        assert process.poll() is None
