"""Certificates that a deployment makes for itself."""
import datetime
import socket
import ssl
import stat
import threading

from cryptography import x509
import pytest

from nova import exception
from nova.runtime import certificates

HOSTS = ['cloud.example.org', '127.0.0.1', '::1']


class Clock:
    """The time, which a test moves."""

    def __init__(self):
        self.now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)

    def __call__(self):
        return self.now

    def pass_days(self, days):
        self.now += datetime.timedelta(days=days)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def authority(tmp_path, clock):
    return certificates.Authority(tmp_path / 'tls', clock)


def greeting(context, pair, trusted, host):
    """What a client that trusts a file reads from a server with a pair."""
    ours, theirs = socket.socketpair()

    def serve():
        try:
            with context.wrap_socket(ours, server_side=True) as connection:
                connection.sendall(b'hello')
        except ssl.SSLError:
            ours.close()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client = ssl.create_default_context(cafile=trusted)
        client.verify_flags |= ssl.VERIFY_X509_STRICT              # as Python 3.13 and later set it
        with client.wrap_socket(theirs, server_hostname=host) as connection:
            return connection.recv(5)
    finally:
        theirs.close()
        thread.join()


def handshake(server, client, authority):
    """Whether both take the other's certificate, with which each proves who it is."""
    contexts = [ssl.create_default_context(purpose, cafile=authority.trusted)
                for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH)]
    for context, pair in zip(contexts, (server, client)):
        certificates.load(context, pair)
        context.verify_mode = ssl.CERT_REQUIRED
    ours, theirs = socket.socketpair()
    taken = []

    def serve():
        try:
            with contexts[0].wrap_socket(ours, server_side=True) as connection:
                connection.sendall(b'hello')
                taken.append(True)
        except (ssl.SSLError, OSError):
            ours.close()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with contexts[1].wrap_socket(theirs, server_hostname=HOSTS[0]) as connection:
            said = connection.recv(5)
    except (ssl.SSLError, OSError):
        said = b''
    finally:
        theirs.close()
        thread.join()
    return said == b'hello' and taken == [True]


def test_a_certificate_is_for_a_server_or_for_a_client(authority):
    """The key of a listener opened servers that know their clients by certificates, as a broker does."""
    server = authority.pair('api', HOSTS)
    client = authority.pair('host', HOSTS, use=certificates.CLIENT)
    assert handshake(server, client, authority)
    assert not handshake(server, server, authority) and not handshake(client, client, authority)
    assert {row.name: row.uses for row in authority.status() if row.hosts} == {
        'api': (certificates.SERVER,), 'host': (certificates.CLIENT,)}


def test_a_certificate_of_an_earlier_release_for_both_is_replaced(authority, monkeypatch):
    real = x509.ExtendedKeyUsage
    with monkeypatch.context() as patch:
        patch.setattr(x509, 'ExtendedKeyUsage', lambda _uses: real([certificates.SERVER, certificates.CLIENT]))
        before = authority.renew('api', HOSTS).certificate.read_bytes()
    assert authority.status()[-1].uses == (certificates.SERVER, certificates.CLIENT)
    assert authority.pair('api', HOSTS).certificate.read_bytes() != before
    assert authority.status()[-1].uses == (certificates.SERVER,)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize('host', HOSTS)
def test_clients_that_trust_the_authority_trust_the_server(authority, host):
    pair = authority.pair('api', HOSTS)
    assert greeting(certificates.server_context(pair), pair, authority.trusted, host) == b'hello'


def test_another_host_is_not_the_server(authority):
    pair = authority.pair('api', HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError):
        greeting(certificates.server_context(pair), pair, authority.trusted, 'evil.example.org')


def test_another_deployments_authority_is_not_trusted(authority, tmp_path):
    other = certificates.Authority(tmp_path / 'other')
    other.pair('api', HOSTS)
    pair = authority.pair('api', HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError):
        greeting(certificates.server_context(pair), pair, other.trusted, HOSTS[0])


def test_keys_are_private_and_what_clients_trust_is_not(authority):
    pair = authority.pair('api', HOSTS)
    assert [mode(path) for path in (pair.key, authority.directory / 'ca.key')] == [0o600, 0o600]
    assert [mode(path) for path in (pair.certificate, authority.trusted)] == [0o644, 0o644]


def test_a_good_certificate_stays(authority, clock):
    before = authority.pair('api', HOSTS).certificate.read_bytes()
    clock.pass_days(certificates.DAYS - certificates.RENEWAL_DAYS - 1)
    assert authority.pair('api', HOSTS).certificate.read_bytes() == before


def test_one_that_ends_soon_is_renewed(authority, clock):
    before = authority.pair('api', HOSTS).certificate.read_bytes()
    clock.pass_days(certificates.DAYS - certificates.RENEWAL_DAYS + 1)
    pair = authority.pair('api', HOSTS)
    assert pair.certificate.read_bytes() != before
    assert authority.status()[1].ends_at > clock() + datetime.timedelta(days=certificates.DAYS - 1)


def test_another_address_makes_another_certificate(authority):
    authority.pair('api', HOSTS)
    pair = authority.pair('api', [*HOSTS, '192.0.2.7'])
    assert authority.status()[1].hosts == (*HOSTS, '192.0.2.7')
    assert greeting(certificates.server_context(pair), pair, authority.trusted, '192.0.2.7') == b'hello'


def test_a_key_of_another_certificate_is_replaced(authority):
    """A process that was killed between the two files leaves this behind."""
    pair = authority.pair('api', HOSTS)
    other = authority.pair('other', HOSTS)
    pair.key.write_bytes(other.key.read_bytes())
    with pytest.raises(exception.InvalidInput):
        certificates.server_context(pair)
    certificates.server_context(authority.pair('api', HOSTS))


def test_renewed_files_are_used_without_a_new_listener(authority):
    pair = authority.pair('api', HOSTS)
    context = certificates.server_context(pair)
    certificates.load(context, authority.renew('api', ['new.example.org']))
    assert greeting(context, pair, authority.trusted, 'new.example.org') == b'hello'


def test_the_authority_before_stays_trusted(authority, tmp_path):
    pair = authority.pair('api', HOSTS)
    old = authority.trusted.read_bytes()
    context = certificates.server_context(pair)
    authority.renew_authority()
    assert greeting(context, pair, authority.trusted, HOSTS[0]) == b'hello'     # renewed at its next use only
    renewed = authority.pair('api', HOSTS)
    certificates.load(context, renewed)
    assert greeting(context, renewed, authority.trusted, HOSTS[0]) == b'hello'
    (tmp_path / 'old.pem').write_bytes(old)
    with pytest.raises(ssl.SSLCertVerificationError):
        greeting(context, renewed, tmp_path / 'old.pem', HOSTS[0])


def test_authority_near_its_expiry_signs_no_certificate(authority, clock):
    authority.pair('api', HOSTS)
    clock.pass_days(certificates.AUTHORITY_DAYS - certificates.AUTHORITY_RENEWAL_DAYS + 1)
    authority.pair('api', HOSTS)
    names = [row.name for row in authority.status()]
    assert names == ['ca', 'ca', 'api']
    assert authority.status()[2].ends_at < authority.status()[0].ends_at


@pytest.mark.parametrize('name', ['ca', '', '../api', 'a/b', 'a' * 65, '.hidden'])
def test_certificate_names_must_be_file_names(authority, name):
    with pytest.raises(exception.InvalidInput):
        authority.pair(name, HOSTS)


@pytest.mark.parametrize('hosts', [[], ['two words'], ['a' * 64 + '.org'], ['x\0y'], ['-a.org'], [''], ['a..b']])
def test_invalid_host_names_are_refused(authority, hosts):
    with pytest.raises(exception.InvalidInput):
        authority.pair('api', hosts)


def test_two_processes_make_one_authority(tmp_path):
    """Both are at the lock at the same time; the second one finds what the first one made."""
    made = []

    def make():
        made.append(certificates.Authority(tmp_path).pair('api', HOSTS).certificate)
    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert [row.name for row in certificates.Authority(tmp_path).status()] == ['ca', 'api']


def test_unusable_certificate_files_are_refused(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(exception.InvalidInput, match='cannot hold certificates'):
        certificates.Authority(tmp_path / 'file').pair('api', HOSTS)
    with pytest.raises(exception.InvalidInput, match='cannot be read'):
        certificates.server_context(certificates.Pair(tmp_path / 'no.pem', tmp_path / 'no.key'))
