"""TrustedFilter and an attestation service, over HTTPS."""
import concurrent.futures
import datetime
import http.server
import ipaddress
import json
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nova.tests import placement

TRUSTED = {'trust:trusted_host': 'trusted'}


class Service:
    """An attestation service that knows some hosts."""

    def __init__(self, directory):
        self.levels = {'h0': 'trusted', 'h1': 'untrusted', 'h2': 'unknown'}
        self.asked, self.status, self.body = [], 200, None
        self.certificate = directory / 'certificate.pem'
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'attestation')])
        now = datetime.datetime.now(datetime.UTC)
        certificate = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(
            key.public_key()).serial_number(1).not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
            now + datetime.timedelta(days=1)).add_extension(x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address('127.0.0.1'))]), False).sign(key, hashes.SHA256())
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = directory / 'key.pem'
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                              serialization.NoEncryption()))
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                names = json.loads(self.rfile.read(int(self.headers['Content-Length'])))['hosts']
                service.asked.append((self.path, self.headers['x-auth-blob'], names))
                answer = service.body or json.dumps({'hosts': [
                    {'host_name': name, 'trust_lvl': service.levels[name], 'vtime': '2015-01-01T00:00:00+00:00'}
                    for name in names if name in service.levels]}).encode()
                self.send_response(service.status)
                self.send_header('Content-Length', str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, private)
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    yield made
    made.close()


def filter_of(service, **options):
    return placement.only('TrustedFilter', **{
        'trusted_computing__attestation_server': '127.0.0.1', 'trusted_computing__attestation_port': service.port,
        'trusted_computing__attestation_server_ca_file': str(service.certificate),
        'trusted_computing__attestation_auth_blob': 'blob', **options})


def passing(each, extra_specs, count=4):
    table, spec = placement.hosts(*[{}] * count), placement.spec(extra_specs=extra_specs)
    facts = {each.name: each.external_facts(table, spec)} if each.needs_facts(spec) else {}
    return placement.passing(each, table, placement.request(spec=spec, facts=facts))


def test_trusted_filter_passes_hosts_of_the_requested_level(service):
    each = filter_of(service)
    assert passing(each, TRUSTED) == (['h0'], 'are not attested as trusted')
    assert passing(each, {'trust:trusted_host': 'untrusted'}) == (['h1'], 'are not attested as untrusted')
    # nobody vouches for the absence of an answer
    assert passing(each, {'trust:trusted_host': 'unknown'})[0] == []
    assert service.asked[0] == ('/OpenAttestationWebServices/V1.0/PollHosts', 'blob', ['h0', 'h1', 'h2', 'h3'])


def test_a_flavor_that_asks_for_no_level_costs_nothing(service):
    assert passing(filter_of(service), {})[0] == ['h0', 'h1', 'h2', 'h3']
    assert service.asked == []


def test_an_answer_counts_for_a_while(service):
    each = filter_of(service)
    passing(each, TRUSTED)
    passing(each, TRUSTED)
    # only what is not known is asked for again
    assert [names for _, _, names in service.asked] == [['h0', 'h1', 'h2', 'h3'], ['h3']]
    each = filter_of(service, trusted_computing__attestation_auth_timeout=1)
    passing(each, TRUSTED)
    each._levels = {name: (level, moment - 2) for name, (level, moment) in each._levels.items()}
    service.levels['h0'] = 'untrusted'
    assert passing(each, TRUSTED)[0] == []


@pytest.mark.parametrize(('status', 'body'), [
    (500, b''), (401, b'{"hosts": []}'), (200, b'no json'), (200, b'[]'), (200, b'{"hosts": [{"name": "h0"}]}'),
    (200, b'{"hosts": 5}')])
def test_invalid_attestation_answer_trusts_no_host(service, status, body):
    service.status, service.body = status, body or b'{}'
    assert passing(filter_of(service), TRUSTED) == ([], 'could not be attested')


def test_attestation_server_with_an_untrusted_certificate_is_not_asked(service):
    each = filter_of(service, trusted_computing__attestation_server_ca_file=None)
    assert passing(each, TRUSTED) == ([], 'could not be attested') and service.asked == []
    each = filter_of(service, trusted_computing__attestation_server_ca_file=None,
                     trusted_computing__attestation_insecure_ssl=True)
    assert passing(each, TRUSTED)[0] == ['h0']


class Queue:
    """A lock that counts the threads that want it."""

    def __init__(self):
        self._lock, self.arrived = threading.Lock(), threading.Semaphore(0)

    def __enter__(self):
        self.arrived.release()
        self._lock.acquire()

    def __exit__(self, *error):
        self._lock.release()


def test_request_that_waited_for_a_failed_query_does_not_repeat_it(service):
    each, service.status = filter_of(service), 500
    each._lock, poll = Queue(), each._poll

    def poll_when_all_wait(names):
        assert all(each._lock.arrived.acquire(timeout=60) for _ in range(4))
        return poll(names)
    each._poll = poll_when_all_wait
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: passing(each, TRUSTED)[0], range(4)))
    assert found == [[]] * 4 and len(service.asked) == 1
    each._poll, service.status = poll, 200
    assert passing(each, TRUSTED)[0] == ['h0']          # a later request queries the service again


def test_unavailable_attestation_server_trusts_no_host(service):
    port = service.port
    service.close()
    each = filter_of(service, trusted_computing__attestation_port=port)
    assert passing(each, TRUSTED) == ([], 'could not be attested')
    assert passing(placement.only('TrustedFilter'), TRUSTED) == ([], 'could not be attested')
