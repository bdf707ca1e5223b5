"""What a proxy in front of the API says is believed when the configuration says so, from the proxies that it names."""
import socket

import pytest
import requests
import yaml

from nova import conf as nova_conf
from nova import exception
from nova.api import proxy_headers
from nova.identity.embedded import ratelimit
from nova.objectstore import part
from nova.tests.functional import base
from nova.tests.functional import cloud as cloud_fixture
from nova.web import paste_registry
from nova.web import pipeline

DIRECT = 'http://cloud.test:8774'
PROXIES = ['192.0.2.7', '10.0.0.0/8', '2001:db8:9::/64']       # the first one is where the fixture's requests are from
FORWARDED = [
    # headers, where links then point
    ({'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'api.example.org'}, 'https://api.example.org'),
    ({'X-Forwarded-Proto': 'https'}, 'https://cloud.test:8774'),
    # a client's own words stand left of what the proxy has written
    ({'X-Forwarded-Proto': 'http, https', 'X-Forwarded-Host': 'evil.example, api.example.org',
      'X-Forwarded-For': '10.0.0.1, 203.0.113.5'}, 'https://api.example.org'),
    # two proxies
    ({'X-Forwarded-Proto': 'https, http', 'X-Forwarded-Host': 'a.example.org, b',
      'X-Forwarded-For': '203.0.113.5, 10.0.0.1'}, 'https://a.example.org'),
    ({'X-Forwarded-Proto': 'javascript'}, DIRECT),
    ({'X-Forwarded-Host': 'evil.example/x?'}, DIRECT),
    ({'X-Forwarded-Prefix': '/nova/'}, DIRECT + '/nova'),
    ({'X-Forwarded-Prefix': '//evil.example'}, DIRECT),
    ({'Forwarded': 'for=192.0.2.60;proto=https;host="api.example.org:99", for=10.0.0.1;proto=http'},
     'https://api.example.org:99'),
    ({'Forwarded': 'for=192.0.2.60;proto=https;host="api.example.org"', 'X-Forwarded-Host': 'other.example.org',
      'X-Forwarded-For': '198.51.100.1'}, DIRECT),
    ({'Forwarded': ';;=,'}, DIRECT),
    ({'Forwarded': 'host="evil.example'}, DIRECT),
    ({}, DIRECT),
]


@pytest.mark.parametrize('headers, expected', FORWARDED)
@pytest.mark.parametrize('proxies, believed', [(PROXIES, True), (['192.0.2.8'], True), ([], False)])
def test_links_follow_trusted_proxy_headers(tmp_path, headers, expected, proxies, believed):
    fixture = base.ApiFixture(tmp_path, oslo_middleware__enable_proxy_headers_parsing=believed,
                              http__trusted_proxies=proxies)
    filter_ = proxy_headers.factory({'api_services': paste_registry.register(fixture.services)})
    links = base.Client(filter_(fixture.application), project=None).get('/', headers=headers).json['version']['links']
    assert next(link['href'] for link in links if link['rel'] == 'self') == (
        f'{expected if proxies == PROXIES else DIRECT}/v2.1/')
    fixture.close()


ADDRESSES = [
    # peer, headers, who is then taken for the client
    ('10.0.0.1', {'X-Forwarded-For': '198.51.100.7'}, '198.51.100.7'),
    ('10.0.0.1', {'X-Forwarded-For': '192.0.2.99, 198.51.100.7'}, '198.51.100.7'),
    ('10.0.0.1', {'X-Forwarded-For': '192.0.2.99, 198.51.100.7, 10.3.3.3'}, '198.51.100.7'),
    ('10.0.0.1', {'X-Forwarded-For': '10.0.0.3, 10.0.0.2'}, '10.0.0.3'),
    ('10.0.0.1', {'X-Forwarded-For': '198.51.100.7:5443'}, '198.51.100.7'),
    ('10.0.0.1', {'X-Forwarded-For': '198.51.100.7, unknown'}, '10.0.0.1'),
    ('10.0.0.1', {'X-Forwarded-For': ''}, '10.0.0.1'),
    ('::ffff:10.0.0.1', {'X-Forwarded-For': '::ffff:198.51.100.7'}, '198.51.100.7'),
    ('2001:db8:9::1', {'X-Forwarded-For': '2001:DB8:1:0::5'}, '2001:db8:1::5'),
    ('198.51.100.7', {'X-Forwarded-For': '10.0.0.1'}, '198.51.100.7'),
    ('::ffff:198.51.100.7', {'Forwarded': 'for=10.0.0.1'}, '198.51.100.7'),
    ('10.0.0.1', {'Forwarded': 'For="198.51.100.7"'}, '198.51.100.7'),
    ('10.0.0.1', {'Forwarded': 'for=192.0.2.99, for="[2001:db8:1::5]:99";proto=https;by=_x'}, '2001:db8:1::5'),
    ('10.0.0.1', {'Forwarded': 'for="192.0.2.99, for=192.0.2.98", for=198.51.100.7'}, '198.51.100.7'),
    ('10.0.0.1', {'Forwarded': 'for=198.51.100.7', 'X-Forwarded-For': '198.51.100.7'}, '198.51.100.7'),
    ('10.0.0.1', {'Forwarded': 'for=192.0.2.99', 'X-Forwarded-For': '198.51.100.7'}, '10.0.0.1'),
    ('10.0.0.1', {'Forwarded': 'for=_hidden'}, '10.0.0.1'),
    ('unix:', {'X-Forwarded-For': '198.51.100.7'}, 'unix:'),
]


@pytest.mark.parametrize('peer, headers, client', ADDRESSES)
def test_client_address_is_read_from_trusted_proxies_only(peer, headers, client):
    seen = []
    conf = nova_conf.new(files=[], oslo_middleware__enable_proxy_headers_parsing=True, http__trusted_proxies=PROXIES)
    inner = pipeline.prepend(proxy_headers.ProxyHeaders(proxy_headers.trusted(conf)).read,
                            lambda environ, _start: seen.append(environ['REMOTE_ADDR']))
    outer = pipeline.prepend(proxy_headers.ProxyHeaders(proxy_headers.trusted(conf)).read, inner)      # once is enough
    outer({'REMOTE_ADDR': peer, **{
        f'HTTP_{name.upper().replace("-", "_")}': value for name, value in headers.items()}}, None)
    assert seen == [client]


@pytest.mark.parametrize('proxies', [[], ['somewhere'], ['10.0.0.1/8'], ['0.0.0.0/0'], ['::/0']])
def test_proxy_header_parsing_requires_trusted_proxies(tmp_path, proxies):
    with pytest.raises(exception.InvalidInput, match='trusted_proxies'), cloud_fixture.running(
            tmp_path, oslo_middleware__enable_proxy_headers_parsing=True, http__trusted_proxies=proxies):
        pass


# ---- every face of the all-in-one, over real connections

def logins(cloud, password, number, address='127.0.0.1', **headers):
    """The codes of so many logins from an address of this host."""
    port = int(cloud.url.rpartition(':')[2])
    codes = []
    for _ in range(number):
        with socket.create_connection(('127.0.0.1', port), 10, (address, 0)) as sock:
            body = requests.Request('POST', f'http://127.0.0.1:{port}/identity/v3/auth/tokens', json={'auth': {
                'identity': {'methods': ['password'], 'password': {'user': {
                    'name': 'demo', 'password': password, 'domain': {'id': 'default'}}}}}}).prepare()
            lines = [f'{name.replace("_", "-")}: {value}' for name, value in {
                'Host': 'x', 'Connection': 'close', 'Content-Length': len(body.body), **headers}.items()]
            sock.sendall(b'\r\n'.join([b'POST /identity/v3/auth/tokens HTTP/1.1', *(
                line.encode() for line in lines), b'', body.body]))
            codes.append(int(sock.makefile('rb').readline().split()[1]))
    return codes


def stop_delays(cloud):
    """Stop the clock of the delays after failed logins: none ends, however slow the machine is."""
    options = cloud.conf.identity
    cloud.identity.checks.delays = ratelimit.LoginDelays(options.max_login_failures, options.login_failure_window,
                                                         lambda: 1000.0)


def password_of(cloud):
    return yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-demo']['auth']['password']


def test_ipv4_clients_of_an_ipv6_socket_are_not_one(tmp_path):
    """All of them were ::/64: ten wrong passwords of one locked out the right one of another."""
    if not socket.has_dualstack_ipv6():
        pytest.skip('There is no IPv6 here.')
    with cloud_fixture.running(tmp_path, http__listen='::', http__tls='off',
                               identity__max_login_failures=3) as cloud:
        stop_delays(cloud)
        assert logins(cloud, 'wrong', 4) == [401, 401, 401, 429]
        assert logins(cloud, password_of(cloud), 1, '127.0.0.2') == [201]


def test_the_port_of_the_object_store_knows_clients_behind_a_proxy():
    """Wrong signatures through the proxy delayed the owner of the access key, too."""
    seen = []

    def application(environ, start_response):
        seen.append((environ['REMOTE_ADDR'], environ['wsgi.url_scheme'], environ['HTTP_HOST']))
        start_response('200 OK', [('Content-Length', '0')])
        return []
    server = part.server(nova_conf.new(
        files=[], objectstore__listen='127.0.0.1', objectstore__port=0, http__trusted_proxies=['127.0.0.8'],
        oslo_middleware__enable_proxy_headers_parsing=True), application, 2, None)
    server.start()
    try:
        for source in ('127.0.0.8', '127.0.0.9'):
            with socket.create_connection(('127.0.0.1', server.port), 10, (source, 0)) as sock:
                sock.sendall(b'GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.7\r\n'
                             b'X-Forwarded-Proto: https\r\nX-Forwarded-Host: s3.example.org\r\n\r\n')
                assert sock.recv(1000)
    finally:
        server.stop(5)
    assert seen == [('198.51.100.7', 'https', 's3.example.org'), ('127.0.0.9', 'http', 'x')]


def test_the_identity_face_knows_clients_behind_a_proxy(tmp_path):
    with cloud_fixture.running(tmp_path, identity__max_login_failures=3, http__trusted_proxies=['127.0.0.8'],
                               oslo_middleware__enable_proxy_headers_parsing=True) as cloud:
        stop_delays(cloud)
        right = password_of(cloud)
        codes = [code for password, number in (('wrong', 4), (right, 1)) for code in logins(
            cloud, password, number, '127.0.0.8', X_Forwarded_For='198.51.100.7')]
        assert codes == [401, 401, 401, 429, 429]
        assert logins(cloud, right, 1, '127.0.0.8', X_Forwarded_For='198.51.100.7, 198.51.100.8') == [201]
        # who is no proxy stays who it is, whatever it says
        lies = [logins(cloud, 'wrong', 1, '127.0.0.9', X_Forwarded_For=f'198.51.100.{number}')
                for number in range(9, 13)]
        assert lies == [[401], [401], [401], [429]]
