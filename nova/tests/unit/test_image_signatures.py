"""Signed images: what is verified with real keys, and what is refused."""
import types

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa
import pytest

from nova import exception
from nova.runtime import certificates
from nova.tests.support.image_signatures import DATA
from nova.tests.support.image_signatures import DAY
from nova.tests.support.image_signatures import NOW
from nova.tests.support.image_signatures import certificate
from nova.tests.support.image_signatures import image
from nova.virt import image_signatures
from nova.virt.libvirt.local_disks import image_cache


@pytest.fixture(scope='module')
def keys(tmp_path_factory):
    """Keys of all kinds, with a directory of certificates: an authority, what it has issued, and strangers."""
    directory = tmp_path_factory.mktemp('certificates')
    made = types.SimpleNamespace(
        directory=directory, authority=ec.generate_private_key(ec.SECP384R1()),
        rsa=rsa.generate_private_key(65537, 2048), dsa=dsa.generate_private_key(2048),
        ec=ec.generate_private_key(ec.SECP384R1()), stranger=ec.generate_private_key(ec.SECP384R1()))
    issuer = certificate(directory, 'authority', made.authority, authority=True)
    for name in ('rsa', 'dsa', 'ec'):
        certificate(directory, name, getattr(made, name), issuer, made.authority)
    certificate(directory, 'stranger', made.stranger)
    certificate(directory, 'no-authority', made.authority, subject='authority')
    for name, usage in (('certificate-authority', certificates.usage(key_cert_sign=True)),
                        ('crl-authority', certificates.usage(crl_sign=True, digital_signature=True))):
        certificate(directory, name, made.authority, authority=True, usage=usage, subject='authority')
    certificate(directory, 'old', made.ec, until=NOW - DAY)
    return made


def test_certificates_from_elsewhere_are_found_after_those_of_the_directory(keys, tmp_path):
    (tmp_path / 'data').write_bytes(DATA)
    asked = []
    (tmp_path / 'empty').mkdir()
    pem = x509.load_pem_x509_certificate((keys.directory / 'ec.pem').read_bytes())
    stored = {'here': pem.public_bytes(serialization.Encoding.PEM), 'der': pem.public_bytes(serialization.Encoding.DER),
              'broken': b'x'}

    def fetch(context, ident):
        asked.append((context, ident))
        if ident not in stored:
            raise exception.NotFound()
        return stored[ident]
    for directory in ('', str(tmp_path / 'empty'), str(keys.directory)):
        found = image_signatures.Verifier(directory, lambda: fetch)
        for ident in ('here', 'der'):
            found.verify('a context', image(keys.ec, ident, 'ECC_SECP384R1'), str(tmp_path / 'data'))
            assert asked.pop() == ('a context', ident)
        for ident in ('broken', 'missing'):
            with pytest.raises(exception.ImageUnacceptable, match=f'no certificate {ident}'):
                found.verify(None, image(keys.ec, ident, 'ECC_SECP384R1'), str(tmp_path / 'data'))
        asked.clear()
    found.verify(None, image(keys.ec, 'ec', 'ECC_SECP384R1'), str(tmp_path / 'data'))
    assert asked == []


@pytest.fixture
def verify(keys, tmp_path):
    file = tmp_path / 'data'
    file.write_bytes(DATA)
    return lambda given: image_signatures.Verifier(str(keys.directory)).verify(None, given, str(file))


@pytest.mark.parametrize('name, key_type, method', [
    ('rsa', 'RSA-PSS', 'SHA-256'), ('rsa', 'RSA-PSS', 'SHA-512'), ('dsa', 'DSA', 'SHA-224'),
    ('ec', 'ECC_SECP384R1', 'SHA-384')])
def test_valid_image_signature_is_accepted(keys, verify, name, key_type, method):
    verify(image(getattr(keys, name), name, key_type, method))


def test_without_a_signature_nothing_is_verified(verify):
    verify({'id': 'x', 'properties': {}})


@pytest.mark.parametrize('trusted', [['ec'], ['authority'], ['certificate-authority'], ['stranger', 'authority'],
                                     ['missing', 'old', '../ec', 'authority']])
def test_signature_of_a_trusted_certificate_is_accepted(keys, verify, trusted):
    verify(image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=trusted))


FORGED = {
    'other data': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', data=DATA + b'!'), 'does not match its data'),
    'another key': (lambda keys: image(keys.stranger, 'ec', 'ECC_SECP384R1'), 'does not match its data'),
    'another type': (lambda keys: image(keys.ec, 'ec', 'RSA-PSS'), 'key_type'),
    'no type': (lambda keys: image(keys.ec, 'ec', 'none'), 'key_type'),
    'another method': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', img_signature_hash_method='MD5'),
                       'hash_method'),
    'not base64': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', img_signature='?'), 'base64'),
    'unknown certificate': (lambda keys: image(keys.ec, 'nobody', 'ECC_SECP384R1'), 'no certificate nobody'),
    'a path': (lambda keys: image(keys.ec, '../certificates0/ec', 'ECC_SECP384R1'), 'not valid'),
    'expired': (lambda keys: image(keys.ec, 'old', 'ECC_SECP384R1'), 'not valid at this time'),
    'half signed': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', img_signature=''), 'it lacks img_signature'),
    'not trusted': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=['stranger']), 'no trusted certificate'),
    'trusted by nobody known': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=['missing', 'old']),
                                'no trusted certificate'),
    'issued by no authority': (lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=['no-authority']),
                               'no trusted certificate'),
    'issued by an authority of revocation lists': (
        lambda keys: image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=['crl-authority']), 'no trusted certificate'),
    'unsigned, and trust is asked for': (lambda keys: {'id': 'x', 'properties': {}, 'trusted_certs': ['ec']},
                                         'not signed'),
}


@pytest.mark.parametrize('case', FORGED)
def test_forged_image_signature_is_refused(keys, verify, case):
    made, sentence = FORGED[case]
    with pytest.raises(exception.ImageUnacceptable, match=sentence):
        verify(made(keys))


def test_a_host_without_certificates_uses_no_signed_image(keys, tmp_path):
    with pytest.raises(exception.ImageUnacceptable, match='no certificates'):
        image_signatures.Verifier('').verify(None, image(keys.ec, 'ec', 'ECC_SECP384R1'), str(tmp_path))


class Source:
    def __init__(self, data):
        self.data, self.downloads = data, 0

    def download(self, _context, _image_id, path, _moved=None):
        self.downloads += 1
        with open(path, 'wb') as file:
            file.write(self.data)


class Tool:
    def info(self, _path, _format):
        return {}


def test_the_cache_keeps_no_forged_image_and_verifies_again_for_the_next_server(keys, tmp_path):
    source = Source(DATA)
    cache = image_cache.ImageCache(str(tmp_path), source, Tool(), None, 60,
                                  image_signatures.Verifier(str(keys.directory)).verify)
    with pytest.raises(exception.ImageUnacceptable):
        cache.fetch(None, image(keys.ec, 'ec', 'ECC_SECP384R1', data=b'other'))
    assert [path for path in tmp_path.iterdir() if path.suffix != '.lock'] == []
    cache.fetch(None, image(keys.ec, 'ec', 'ECC_SECP384R1'))
    assert source.downloads == 2
    with pytest.raises(exception.ImageUnacceptable, match='no trusted certificate'):
        cache.fetch(None, image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=['stranger']))
    cache.fetch(None, image(keys.ec, 'ec', 'ECC_SECP384R1', trusted=['authority']))
    assert source.downloads == 2
