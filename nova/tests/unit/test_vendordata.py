"""Vendor data that other services give: what is asked, what is taken, and for how long."""
import contextlib
import json
import socketserver
import threading
import time
from http import server

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.api.metadata import vendordata
from nova.tests.support import metadata as test_metadata
from nova.tests.support import metadata_tokens as test_metadata_tokens

start = test_metadata_tokens.start


class Targets(socketserver.ThreadingMixIn, server.HTTPServer):
    """Services at the paths of ANSWERS; ``asked`` has what they were sent."""

    daemon_threads = True

    def __init__(self):
        self.asked = []
        super().__init__(('127.0.0.1', 0), _Handler)

    def url(self, name):
        return f'{name}@http://127.0.0.1:{self.server_port}/{name}'


class _Handler(server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.server.asked.append((self.path, json.loads(body)))
        with contextlib.suppress(OSError):
            getattr(self, 'answer_' + self.path[1:])()

    def do_GET(self):
        self.server.asked.append((self.path, None))
        self._send(b'{"stolen": 1}')

    def _send(self, body, code=200, **headers):
        self.send_response(code)
        for name, value in {'Content-Length': str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer_good(self):
        self._send(b'{"join": "domain"}')

    def answer_broken(self):
        self._send(b'{')

    def answer_deep(self):
        self._send(b'[' * 500 + b']' * 500)

    def answer_refusing(self):
        self._send(b'{}', 403)

    def answer_redirecting(self):
        self._send(b'{}', 302, Location='/elsewhere')

    def answer_huge(self):
        self._send(b'"' + b'x' * vendordata.MAX_BYTES + b'"')

    def answer_silent(self):
        time.sleep(60)

    def answer_dripping(self):
        self._send(b'', **{'Content-Length': '1000'})
        for _ in range(300):
            self.wfile.write(b' ')
            time.sleep(0.2)


BAD = ('broken', 'deep', 'refusing', 'redirecting', 'huge', 'silent', 'dripping')


@pytest.fixture(scope='module')
def services():
    made = Targets()
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def options(services, *names, **more):
    return {'api__vendordata_dynamic_targets': [services.url(name) for name in names],
            'api__vendordata_dynamic_connect_timeout': 1, 'api__vendordata_dynamic_read_timeout': 1, **more}


def test_a_guest_reads_what_the_targets_answer(services, start):
    service = start(**options(services, 'good', 'refusing', 'redirecting', api__vendordata_dynamic_connect_timeout=30,
                              api__vendordata_dynamic_read_timeout=30))
    services.asked.clear()
    answer = service.ask('/openstack/latest/vendor_data2.json')
    assert answer.json() == {'good': {'join': 'domain'}, 'refusing': {}, 'redirecting': {}}
    row = service.rows[0]
    assert services.asked[0] == ('/good', {
        'project-id': row['project_id'], 'instance-id': row['uuid'], 'image-id': row['image_id'],
        'user-data': row['user_data'], 'hostname': row['hostname'], 'metadata': row['metadata'], 'boot-roles': ''})
    assert [path for path, _body in services.asked] == ['/good', '/refusing', '/redirecting']
    assert service.ask('/openstack/latest/vendor_data.json').json() == {}
    assert service.ask('/openstack/latest/meta_data.json').status_code == 200
    assert len(services.asked) == 3


@pytest.mark.parametrize('name', BAD)
def test_failing_vendordata_service_yields_an_empty_value_in_bounded_time(services, name):
    instance = test_metadata.make_instance()
    began = time.monotonic()
    made = vendordata.VendorData(nova_conf.new(files=[], **options(services, name)))
    assert json.loads(made.document(instance)) == {name: {}}
    assert time.monotonic() - began < 30
    fatal = options(services, 'good', name, api__vendordata_dynamic_failure_fatal=True)
    with pytest.raises(exception.Unavailable):
        vendordata.VendorData(nova_conf.new(files=[], **fatal)).document(instance)


def test_a_target_that_hangs_leaves_threads_for_others(services):
    made = vendordata.VendorData(nova_conf.new(files=[], **options(services, 'silent')))
    instance, codes = test_metadata.make_instance(), []

    def ask():
        try:
            made.document(instance)
            codes.append(200)
        except exception.TooManyRequests:
            codes.append(429)
    threads = [threading.Thread(target=ask) for _ in range(vendordata.MAX_CONCURRENT + 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] * vendordata.MAX_CONCURRENT + [429] * 4


@pytest.mark.parametrize('line', [
    'name', '@http://h', 'a@ftp://u:s3cret@h', 'a@file:///etc/passwd', 'a@http://', 'a@http:u:s3cret@h',
    'a@http://u:s3cret@h:99999', 'a@http://u:s3cret/x@h', 'a@http://u:s3cret@[::1'])
def test_invalid_vendordata_target_is_refused_without_its_password(line):
    with pytest.raises(exception.InvalidInput, match='line 2 is not NAME@URL') as caught:
        vendordata.VendorData(nova_conf.new(files=[], api__vendordata_dynamic_targets=['first@http://h/', line]))
    assert 's3cret' not in str(caught.value)
    assert not vendordata.VendorData(nova_conf.new(files=[]))
