"""The authorities of nova-cert, looked at with the openssl command."""
from concurrent import futures
import datetime
import os
import shutil
import stat
import subprocess

from cryptography import x509
import pytest

from nova import exception
from nova.cert import authorities
from nova.cert import manager
from nova.cert import signing
from nova.conf import new

PROJECT, OTHER, USER = 'a' * 32, 'b' * 32, 'u1'
KEY = '0123456789abcdef' * 2

pytestmark = pytest.mark.skipif(not shutil.which('openssl'), reason='openssl is not installed')


@pytest.fixture(params=[False, True], ids=['one for all', 'one for each project'])
def found(request, tmp_path):
    return authorities.Authorities(tmp_path / 'CA', tmp_path / 'keys', request.param)


@pytest.fixture(autouse=True)
def small(request, monkeypatch):
    """Keys are made faster, but for the first test."""
    if 'is_one' not in request.node.name:
        monkeypatch.setattr(signing, 'AUTHORITY_BITS', 1024)
        monkeypatch.setattr(signing, 'USER_BITS', 1024)


@pytest.fixture
def clock(monkeypatch):
    """Lets the authority think that it is some days later."""
    def later(days):
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(days=days)
        monkeypatch.setattr(authorities.utils, 'utcnow', lambda: now)
    return later


def issue(found, user, project):
    """(key, certificate) as PEM."""
    made = found.issue(user, project)
    return signing.key_pem(made.key), signing.pem(made.certificate)


def openssl(*words, data=None):
    return subprocess.run(['openssl', *words], input=data, capture_output=True, timeout=30)


def verify(tmp_path, trusted, certificate, lists=None, at=None):
    """What ``openssl verify`` says: '' or its error."""
    words = []
    for name, text in (('ca', trusted), ('leaf', certificate), ('crl', lists)):
        if text is not None:
            (tmp_path / f'{name}.pem').write_text(text)
    if lists is not None:
        words += ['-crl_check_all', '-CRLfile', tmp_path / 'crl.pem']
    if at is not None:
        words += ['-attime', str(int(at))]
    done = openssl('verify', '-x509_strict', '-purpose', 'sslclient', '-CAfile', tmp_path / 'ca.pem', *words,
                   tmp_path / 'leaf.pem')
    return '' if done.returncode == 0 else done.stderr.decode()


def first(text):
    end = '-----END CERTIFICATE-----\n'
    return text.partition(end)[0] + end


def encrypted(tmp_path, certificate, text=KEY):
    """As euca-bundle-image encrypts the key of an image for a cloud."""
    (tmp_path / 'for.pem').write_text(certificate)
    done = openssl('pkeyutl', '-encrypt', '-certin', '-inkey', tmp_path / 'for.pem', '-pkeyopt',
                   'rsa_padding_mode:pkcs1', data=text.encode())
    assert done.returncode == 0, done.stderr
    return done.stdout.hex()


def test_a_certificate_of_a_user_is_one(found, tmp_path):
    key, certificate = issue(found, USER, PROJECT)
    assert verify(tmp_path, found.trusted(PROJECT), certificate, found.lists(PROJECT)) == ''
    (tmp_path / 'key.pem').write_text(key)
    public = openssl('x509', '-in', tmp_path / 'leaf.pem', '-noout', '-pubkey').stdout
    assert openssl('pkey', '-in', tmp_path / 'key.pem', '-pubout').stdout == public != b''
    subject = openssl('x509', '-in', tmp_path / 'leaf.pem', '-noout', '-subject', '-nameopt', 'RFC2253').stdout.decode()
    assert subject.strip() == f'subject=CN={USER},OU={PROJECT},O=nova'
    text = openssl('x509', '-in', tmp_path / 'leaf.pem', '-noout', '-text').stdout.decode()
    assert 'TLS Web Client Authentication' in text
    server = openssl('verify', '-purpose', 'sslserver', '-CAfile', tmp_path / 'ca.pem', tmp_path / 'leaf.pem')
    assert server.returncode != 0                                   # nobody passes for a server with it


def test_keys_are_private(found, tmp_path):
    issue(found, USER, PROJECT)
    keys = list((tmp_path / 'keys').rglob('*.key'))
    assert keys and {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    directories = {tmp_path / 'CA', tmp_path / 'keys', *(path.parent for path in keys)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directories} == {0o700}
    assert not list((tmp_path / 'CA').rglob('*.key'))               # those of users are kept nowhere
    assert not any('PRIVATE' in path.read_text() for path in (tmp_path / 'CA').rglob('*.pem'))


def test_projects_with_their_own_trust_no_other(tmp_path):
    found = authorities.Authorities(tmp_path / 'CA', tmp_path / 'CA' / 'private', True)
    _key, certificate = issue(found, USER, PROJECT)
    assert verify(tmp_path, found.trusted(PROJECT), certificate) == ''
    assert 'unable to get local issuer' in verify(tmp_path, found.trusted(OTHER), certificate)
    # an authority of a project signs users alone, not other authorities
    text = openssl('x509', '-in', tmp_path / 'CA' / 'projects' / PROJECT / 'ca.pem', '-noout', '-text').stdout.decode()
    assert 'CA:TRUE, pathlen:0' in text
    assert f'OU={PROJECT}' in text.replace(' = ', '=')                # OpenSSL prints OU=… since 3.2


def test_revoked_certificates_are_in_the_revocation_list(found, tmp_path):
    mine, his, elsewhere = (issue(found, *who)[1] for who in ((USER, PROJECT), ('u2', PROJECT), (USER, OTHER)))
    assert found.revoke(PROJECT, USER) == 1 and found.revoke(PROJECT, USER) == 0
    trusted, lists = found.trusted(PROJECT), found.lists(PROJECT)
    assert 'certificate revoked' in verify(tmp_path, trusted, mine, lists)
    assert verify(tmp_path, trusted, his, lists) == ''
    assert verify(tmp_path, found.trusted(OTHER), elsewhere, found.lists(OTHER)) == ''
    serial = found.issued(PROJECT, 'u2')[0].certificate.serial_number
    assert found.revoke(serial=serial) == 1 and found.revoke(user_id=USER) == 1
    assert 'certificate revoked' in verify(tmp_path, trusted, his, found.lists(PROJECT))
    assert all(row.revoked_at for row in found.issued())
    assert 'certificate revoked' in verify(tmp_path, trusted, mine, found.lists(PROJECT))      # it stays


def test_a_rotation_leaves_what_was_there(found, tmp_path):
    """What the authority before has signed is good, can be revoked, and what was encrypted for it can be read."""
    _key, old = issue(found, USER, PROJECT)
    before = found.trusted(PROJECT)
    secret = encrypted(tmp_path, first(before))
    project = PROJECT if (tmp_path / 'CA' / 'projects').exists() else None
    found.rotate(project)
    after = found.trusted(PROJECT)
    _key, new_one = issue(found, USER, PROJECT)
    assert first(after) != first(before) and first(before) in after
    assert verify(tmp_path, after, old, found.lists(PROJECT)) == verify(tmp_path, after, new_one,
                                                                        found.lists(PROJECT)) == ''
    assert found.decrypt(PROJECT, secret) == found.decrypt(PROJECT, encrypted(tmp_path, first(after))) == KEY
    assert found.revoke(PROJECT, USER) == 2
    assert all('revoked' in verify(tmp_path, after, each, found.lists(PROJECT)) for each in (old, new_one))


def test_a_stolen_key_is_forgotten(found, tmp_path):
    _key, old = issue(found, USER, PROJECT)
    secret, before = encrypted(tmp_path, first(found.trusted(PROJECT))), set((tmp_path / 'keys').rglob('*.key'))
    project = PROJECT if (tmp_path / 'CA' / 'projects').exists() else None
    found.rotate(project, forget=True)
    assert found.issued() == []
    if project:
        _key, meanwhile = issue(found, USER, PROJECT)
        found.rotate(forget=True)                                   # that of the project ends with the one above it
        assert found.issued() == [] and verify(tmp_path, found.trusted(PROJECT), meanwhile) != ''
    _key, new_one = issue(found, USER, PROJECT)
    assert verify(tmp_path, found.trusted(PROJECT), new_one, found.lists(PROJECT)) == ''
    assert verify(tmp_path, found.trusted(PROJECT), old) != ''
    assert not before & set((tmp_path / 'keys').rglob('*.key'))
    with pytest.raises(exception.InvalidInput, match='not encrypted for'):
        found.decrypt(PROJECT, secret)


def test_only_its_own_texts_are_decrypted(found, tmp_path):
    trusted = found.trusted(PROJECT)
    assert found.decrypt(PROJECT, encrypted(tmp_path, first(trusted))) == KEY
    (tmp_path / 'strange').mkdir()
    stranger = authorities.Authorities(tmp_path / 'strange' / 'CA', tmp_path / 'strange' / 'k', False)
    secret = encrypted(tmp_path, first(trusted))
    for text in (encrypted(tmp_path, first(stranger.trusted(PROJECT))), encrypted(tmp_path, first(trusted), 'short'),
                 encrypted(tmp_path, first(trusted), 'not printable \n\0 at all'), secret[:-2], '', 'xyz', 'é',
                 '00' * 513, secret[:-2] + ('00' if secret[-2:] != '00' else '01')):
        with pytest.raises(exception.InvalidInput):
            found.decrypt(PROJECT, text)


def test_another_project_reads_nothing(tmp_path):
    found = authorities.Authorities(tmp_path / 'CA', tmp_path / 'k', True)
    secret = encrypted(tmp_path, first(found.trusted(PROJECT)))
    with pytest.raises(exception.InvalidInput):
        found.decrypt(OTHER, secret)


def test_a_user_has_so_many(found, monkeypatch, clock):
    monkeypatch.setattr(authorities, 'CERTIFICATES', 2)
    for _ in range(2):
        issue(found, USER, PROJECT)
    with pytest.raises(exception.QuotaExceeded, match='already used 2 of 2 certificates'):
        issue(found, USER, PROJECT)
    issue(found, 'u2', PROJECT)
    issue(found, USER, OTHER)
    clock(signing.USER_DAYS + 1)                                    # those that have ended do not count
    issue(found, USER, PROJECT)
    assert len(found.issued(PROJECT, USER)) == 1


def test_a_vpn_instance_has_one_for_servers(found, tmp_path, monkeypatch):
    """And always gets one: those of instances that are gone make room."""
    monkeypatch.setattr(authorities, 'CERTIFICATES', 3)
    made = [found.issue_vpn(PROJECT) for _ in range(5)][-1]
    assert len(found.issued(PROJECT, signing.VPN)) == 3
    (tmp_path / 'ca.pem').write_text(found.trusted(PROJECT))
    (tmp_path / 'leaf.pem').write_text(signing.pem(made.certificate))
    for purpose, good in (('sslserver', True), ('sslclient', False)):
        done = openssl('verify', '-purpose', purpose, '-CAfile', tmp_path / 'ca.pem', tmp_path / 'leaf.pem')
        assert (done.returncode == 0) == good, done.stderr
    (tmp_path / 'leaf.pem').write_text(issue(found, USER, PROJECT)[1])
    assert openssl('verify', '-purpose', 'sslserver', '-CAfile', tmp_path / 'ca.pem', tmp_path / 'leaf.pem').returncode


def test_only_signatures_with_valid_user_keys_of_the_project_are_valid(found, tmp_path, monkeypatch):
    """A user of the project, with a key whose certificate is not revoked, also after a rotation; no VPN instance."""
    def sign(key, digest=bytes(20)):
        (tmp_path / 'key').write_text(key)
        return openssl('pkeyutl', '-sign', '-inkey', tmp_path / 'key', '-pkeyopt', 'digest:sha1', data=digest
                       ).stdout.hex()
    key, certificate = issue(found, USER, PROJECT)
    signature, digest = sign(key), bytes(20).hex()
    assert found.has_signed(PROJECT, digest, signature)
    found.rotate()
    assert found.has_signed(PROJECT, digest, signature)
    assert not found.has_signed(OTHER, digest, signature)
    assert not found.has_signed(PROJECT, 'ff' * 20, signature)
    assert not found.has_signed(PROJECT, digest, sign(issue(found, USER, OTHER)[0]))
    assert not found.has_signed(PROJECT, digest, sign(signing.key_pem(found.issue_vpn(PROJECT).key)))
    for wrong in ('', '00', 'ff' * 256, 'ff' * 512):
        assert not found.has_signed(PROJECT, digest, wrong)
    for wrong in ('x', '0', 'ff' * 513):
        with pytest.raises(exception.InvalidInput):
            found.has_signed(PROJECT, digest, wrong)
    with pytest.raises(exception.InvalidInput):
        found.has_signed('../..', digest, signature)
    assert not found.has_signed(PROJECT, '00', signature)
    made, = (row for row in found.issued(PROJECT, USER) if signing.pem(row.certificate) == certificate)
    for seconds, valid in ((-1, True), (0, False)):
        with monkeypatch.context() as patch:
            patch.setattr(authorities.utils, 'utcnow', lambda late=seconds: made.ends_at
                          + datetime.timedelta(seconds=late))
            assert found.has_signed(PROJECT, digest, signature) is valid
    found.revoke(PROJECT, USER)
    assert not found.has_signed(PROJECT, digest, signature)


def test_lists_and_authorities_are_renewed_before_they_expire(found, tmp_path, clock):
    """Lists are signed again, authorities follow each other, and nothing outlives who signed it."""
    _key, old = issue(found, USER, PROJECT)
    lists, trusted = found.lists(PROJECT), found.trusted(PROJECT)
    found.revoke(PROJECT, USER)
    clock(signing.LIST_DAYS / 2 - 1)
    revoked = found.lists(PROJECT)
    assert revoked != lists and found.trusted(PROJECT) == trusted
    clock(signing.LIST_DAYS / 2 + 1)
    now = authorities.utils.utcnow().replace(tzinfo=datetime.UTC).timestamp() + 60
    assert found.lists(PROJECT) != revoked
    assert 'revoked' in verify(tmp_path, found.trusted(PROJECT), old, found.lists(PROJECT), now)
    clock(signing.USER_DAYS + 30)
    (tmp_path / 'crl.pem').write_text(found.lists(PROJECT))
    shown = openssl('crl', '-in', tmp_path / 'crl.pem', '-noout', '-text').stdout.decode()
    assert 'No Revoked Certificates' in shown                       # it has ended: the list need not have it
    clock(signing.AUTHORITY_DAYS - signing.MIN_REMAINING_DAYS + 1)
    later = found.trusted(PROJECT)
    assert first(later) != first(trusted) and first(trusted) in later
    _key, made = issue(found, USER, PROJECT)
    ends = max(row.ends_at for row in found.issued(PROJECT, USER)).replace(tzinfo=datetime.UTC).timestamp()
    assert verify(tmp_path, later, made, at=ends - 60) == ''


def test_revocation_list_is_valid_for_a_verifier_with_a_slow_clock(found, tmp_path):
    """The certificate was valid, and its list was not."""
    _key, made = issue(found, USER, PROJECT)
    found.revoke(PROJECT, USER)
    slow = authorities.utils.utcnow().replace(tzinfo=datetime.UTC).timestamp() - 1800
    reason = verify(tmp_path, found.trusted(PROJECT), made, found.lists(PROJECT), slow)
    assert 'revoked' in reason and 'not yet valid' not in reason


def test_parallel_requests_use_one_authority_and_lose_no_revocation(found):
    """Of several that begin with nothing all have certificates of one authority, and no revocation is lost."""
    who = [(f'u{number}', PROJECT) for number in range(6)]
    with futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda each: found.issue(*each), who))
        assert list(pool.map(lambda each: found.revoke(PROJECT, each[0]), who[:5])) == [1] * 5
    trusted = x509.load_pem_x509_certificates(found.trusted(PROJECT).encode())
    assert len(trusted) == len(found._line(PROJECT))
    for each in made:
        each.certificate.verify_directly_issued_by(trusted[0])
    assert sorted(row.user_id for row in found.issued(PROJECT) if row.revoked_at) == [user for user, _ in who[:5]]


@pytest.mark.parametrize('ident', ['', '.', '..', '../x', 'a/b', '*', 'a' * 65, 'a\0', 'a.b', None, 7])
def test_ids_are_no_paths(found, ident):
    for ask in (lambda: found.issue(USER, ident), lambda: found.issue(ident, PROJECT), lambda: found.trusted(ident),
                lambda: found.lists(ident), lambda: found.decrypt(ident, '00'), lambda: found.revoke(ident, '*'),
                lambda: found.revoke(ident, 'a/b'), lambda: found.issued('*', ident)):
        with pytest.raises(exception.InvalidInput, match='not a valid ID|must be'):
            ask()
    assert not list(found.path.rglob('*.pem'))


def test_damaged_authority_files_return_503_with_the_reason(found, tmp_path):
    issue(found, USER, PROJECT)
    for path in (tmp_path / 'keys').rglob('*.key'):
        path.write_text('no key')
    with pytest.raises(exception.Unavailable, match='is not the key of the authority'):
        issue(found, USER, PROJECT)
    for path in (tmp_path / 'CA').rglob('ca.pem'):
        path.write_text('no certificate')
    with pytest.raises(exception.Unavailable, match='has no certificate'):
        found.trusted(PROJECT)
    (tmp_path / 'file').write_text('')
    broken = authorities.Authorities(tmp_path / 'file' / 'CA', tmp_path / 'k', False)
    with pytest.raises(exception.Unavailable, match='Cannot use .* for certificates'):
        broken.trusted(PROJECT)
    with pytest.raises(exception.Unavailable, match='Cannot use .* for certificates'):
        manager.CertManager(broken).start()


def test_names_of_the_options_in_older_files(tmp_path):
    (tmp_path / 'nova.conf').write_text('[DEFAULT]\nuse_project_ca = true\n'
                                        f'ca_path = {tmp_path}/a\nkeys_path = {tmp_path}/b\n')
    found = authorities.of(new(files=[str(tmp_path / 'nova.conf')]))
    issue(found, USER, PROJECT)
    assert (tmp_path / 'a' / 'projects' / PROJECT).is_dir() and list((tmp_path / 'b').rglob('*.key'))
    plain = authorities.of(new(files=[], state_path=str(tmp_path / 'state')))
    plain.trusted(PROJECT)
    assert os.listdir(tmp_path / 'state' / 'CA' / 'private') == ['root']
