"""What tests share with nova/tests/perf/test_http_flood.py."""
import json

import pytest

from nova.cloud import assembly
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.perf import http_flood


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('flood'), metadata__request_rate=10000) as made:
        yield made


def place(url):
    host, _, port = url.removeprefix('http://').partition(':')
    return host, int(port)


def requests_of(demo):
    """What honest clients ask for, one of each face."""
    with_token = {'X-Auth-Token': demo.token}
    return [('GET', '/compute/v2.1/servers', with_token, None, 200),
            ('GET', '/healthcheck', {}, None, 200),
            ('GET', '/identity/v3', {}, None, 200),
            ('GET', '/compute/v2.1/flavors/detail', with_token, None, 200),
            ('POST', '/identity/v3/auth/tokens', {'Content-Type': 'application/json'}, json.dumps({'auth': {
                'identity': {'methods': ['token'], 'token': {'id': demo.token}}}}), 201),
            ('GET', '/image/v2/images', with_token, None, 200)]


def flood(cloud, **sizes):
    """Honest clients of every face beside hostile connections."""
    demo = cloud.client()
    image = demo.upload_image(b'\0' * (8 << 20))
    head = f' HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {demo.token}\r\n\r\n'
    host, port = place(cloud.url)
    return http_flood.compare(
        host, port, requests_of(demo),
        ['/identity/v3/auth/tokens', '/compute/v2.1/servers', '/image/v2/images/x/file'],
        [f'GET /image/v2/images/{image}/file{head}', f'GET /compute/v2.1/flavors/detail{head}' * 50], **sizes)


def flood_metadata(cloud, **sizes):
    """The same of guests, with the server that a host has for them."""
    server = assembly.metadata_server(cloud.conf, cloud.api_db, cloud.cells, '127.0.0.1', 0)
    server.start()
    try:
        path = '/openstack/latest/meta_data.json'
        return http_flood.compare('127.0.0.1', server.port, [('GET', '/', {}, None, 200)], [path],
                                  [f'GET {path} HTTP/1.1\r\nHost: x\r\n\r\n'], **sizes)
    finally:
        server.stop(1)
