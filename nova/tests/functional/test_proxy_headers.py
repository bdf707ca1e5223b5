"""What a proxy in front of the API says is believed when the configuration says so, and only then."""
import pytest

from nova.api import app
from nova.api import proxy_headers
from nova.tests.functional import base

DIRECT = 'http://cloud.test:8774'
FORWARDED = [
    # headers, where links then point
    ({'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'api.example.org'}, 'https://api.example.org'),
    ({'X-Forwarded-Proto': 'https'}, 'https://cloud.test:8774'),
    ({'X-Forwarded-Proto': 'https, http', 'X-Forwarded-Host': 'a.example.org, b'}, 'https://a.example.org'),
    ({'X-Forwarded-Proto': 'javascript'}, DIRECT),
    ({'X-Forwarded-Prefix': '/nova/'}, DIRECT + '/nova'),
    ({'Forwarded': 'for=192.0.2.60;proto=https;host="api.example.org:99", for=10.0.0.1;proto=http',
      'X-Forwarded-Host': 'other.example.org'}, 'https://api.example.org:99'),
    ({'Forwarded': ';;=,'}, DIRECT),
    ({}, DIRECT),
]


@pytest.mark.parametrize('headers, expected', FORWARDED)
@pytest.mark.parametrize('believed', [True, False])
def test_links(tmp_path, headers, expected, believed):
    fixture = base.ApiFixture(tmp_path, oslo_middleware__enable_proxy_headers_parsing=believed)
    filter_ = proxy_headers.factory({'api_services': app.offer(fixture.services)})
    links = base.Client(filter_(fixture.application), project=None).get('/', headers=headers).json['version']['links']
    assert next(link['href'] for link in links if link['rel'] == 'self') == (
        f'{expected if believed else DIRECT}/v2.1/')
    fixture.close()


@pytest.mark.parametrize('headers', [
    {'X-Forwarded-For': '198.51.100.7, 10.0.0.1'}, {'Forwarded': 'For="198.51.100.7"'}])
def test_the_address_of_the_client(headers):
    seen = []
    application = proxy_headers.ProxyHeaders(lambda environ, _start: seen.append(environ['REMOTE_ADDR']))
    application({'REMOTE_ADDR': '10.0.0.1', **{
        f'HTTP_{name.upper().replace("-", "_")}': value for name, value in headers.items()}}, None)
    assert seen == ['198.51.100.7']


def test_nothing_is_called_where_nothing_is_believed(tmp_path):
    fixture = base.ApiFixture(tmp_path)
    filter_ = proxy_headers.factory({'api_services': app.offer(fixture.services)})
    assert filter_(fixture.application) is fixture.application
    fixture.close()
