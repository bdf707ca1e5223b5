"""Image signatures: verify the data of a signed image before a guest is created from it.

A signed image has four properties: signature (base64), hash method, key type and certificate id. See
https://docs.openstack.org/glance/latest/user/signature.html. Trusted certificates are ``<id>.pem`` files in a
directory of the operator, or certificates that the Key Manager service returns to the server's creator. Users who can
store certificates in Key Manager can sign any image, so these signatures prove only integrity. If a user lists
``trusted_image_certificates``, one of these must be the signer's certificate or have issued it.
"""
import base64
from collections.abc import Callable
import datetime
import functools
import logging
import os
import re
from typing import Any

from cryptography import exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric import utils
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from nova import exception
from nova.context import RequestContext
from nova.objects.image import Image

LOG = logging.getLogger(__name__)

Fetch = Callable[[Any, str], bytes]
SIGNATURE = 'img_signature'
PROPERTIES = (SIGNATURE, 'img_signature_hash_method', 'img_signature_key_type', 'img_signature_certificate_uuid')
CHUNK = 1024 * 1024
MAX_CERTIFICATE = 64 * 1024              # maximum bytes of a certificate file
_ID = re.compile(r'[0-9A-Za-z][0-9A-Za-z_-]{0,254}\Z')
HASHES: dict[str, Callable[[], hashes.HashAlgorithm]] = {
    'SHA-224': hashes.SHA224, 'SHA-256': hashes.SHA256, 'SHA-384': hashes.SHA384, 'SHA-512': hashes.SHA512}
CURVES = {'ECC_SECP384R1': 'secp384r1', 'ECC_SECP521R1': 'secp521r1', 'ECC_SECT409K1': 'sect409k1',
          'ECC_SECT409R1': 'sect409r1', 'ECC_SECT571K1': 'sect571k1', 'ECC_SECT571R1': 'sect571r1'}


def is_signed(image: Image) -> bool:
    """Return whether an image has a signature, or the user requires a signature."""
    properties = image.get('properties') or {}
    return bool(image.get('trusted_certs')) or any(name in properties for name in PROPERTIES)


class Verifier:
    """Verifier of image signatures. Without a directory and a lookup function, all signed images are refused.

    :param directory: directory of the certificates, or ''
    :param elsewhere: function without parameters that returns a lookup function or None. The lookup function has the
        parameters context and certificate id, and returns PEM or DER, or raises an error
    """

    def __init__(self, directory: str, elsewhere: Callable[[], Fetch | None] = lambda: None) -> None:
        self.directory, self._elsewhere = directory, elsewhere

    def verify(self, context: RequestContext | None, image: Image, path: str) -> None:
        """Verify the data of an image if it has a signature or the user requires a signature.

        :param context: request context of the server's creator
        :param image: {'id', 'properties'}, and 'trusted_certs', the certificate ids that the user lists, if any
        :param path: file with the data of the image
        :raises ImageUnacceptable: the signature is missing or wrong, or the signer's certificate is not trusted
        """
        properties, trusted = image.get('properties') or {}, image.get('trusted_certs')
        if not is_signed(image):
            return
        try:
            self._verify(functools.partial(self._certificate, context), properties, trusted, path)
        except _Refused as error:
            raise exception.ImageUnacceptable(image_id=image['id'], reason=str(error)) from error

    def _verify(self, find: Callable[[str], x509.Certificate], properties: dict[str, Any], trusted: list[str] | None,
                path: str) -> None:
        if not self.directory and self._elsewhere() is None:
            raise _Refused('its signature cannot be verified: this host has no certificates')
        missing = [name for name in PROPERTIES if not properties.get(name)]
        if missing:
            raise _Refused(f'it is not signed: it lacks {", ".join(missing)}')
        signature, method, key_type, certificate_id = (str(properties[name]) for name in PROPERTIES)
        if method not in HASHES:
            raise _Refused(f'its img_signature_hash_method must be one of {", ".join(HASHES)}')
        try:
            signed = base64.b64decode(signature, validate=True)
        except ValueError as error:
            raise _Refused('its img_signature is not base64') from error
        certificate = find(certificate_id)
        if trusted:
            _check_trusted(find, certificate, certificate_id, trusted)
        digest = _digest(path, HASHES[method]())
        try:
            _check(certificate.public_key(), key_type, signed, digest, HASHES[method]())
        except (exceptions.InvalidSignature, exceptions.UnsupportedAlgorithm, ValueError) as error:
            raise _Refused('its signature does not match its data') from error

    def _certificate(self, context: RequestContext | None, ident: str) -> x509.Certificate:
        """Return a certificate from the directory or the lookup function. Refuse expired or future certificates."""
        if not _ID.match(ident):
            raise _Refused('the id of its certificate is not valid')
        try:
            found = _loaded(self._content(context, ident))
        except (OSError, ValueError, exception.NotFound) as error:
            raise _Refused(f'this host has no certificate {ident}') from error
        now = datetime.datetime.now(datetime.UTC)
        if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
            raise _Refused(f'the certificate {ident} is not valid at this time')
        return found

    def _content(self, context: RequestContext | None, ident: str) -> bytes:
        fetch = self._elsewhere()
        if self.directory:
            try:
                with open(os.path.join(self.directory, f'{ident}.pem'), 'rb') as file:
                    return file.read(MAX_CERTIFICATE)
            except FileNotFoundError:
                if fetch is None:
                    raise
        if fetch is None:
            raise exception.NotFound()
        return fetch(context, ident)


class _Refused(Exception):
    """Raised if an image must not be used. The message is the reason, as a part of a sentence."""


def _check_trusted(find: Callable[[str], x509.Certificate], certificate: x509.Certificate, ident: str,
                   trusted: list[str]) -> None:
    """Check that a certificate of ``trusted`` is the signer's certificate or has issued the signer's certificate."""
    if ident not in trusted and not any(_trusts(find, each, certificate) for each in trusted):
        raise _Refused(f'no trusted certificate has signed its certificate {ident}')


def _trusts(find: Callable[[str], x509.Certificate], ident: str, certificate: x509.Certificate) -> bool:
    """Return whether the certificate ``ident`` has issued ``certificate``; False if ``ident`` is unusable."""
    try:
        return _issued(find(ident), certificate)
    except _Refused as error:
        LOG.warning('Skipping the trusted certificate %s: %s', ident, error)
        return False


def _loaded(content: bytes) -> x509.Certificate:
    if content.lstrip().startswith(b'-----BEGIN'):
        return x509.load_pem_x509_certificate(content)
    return x509.load_der_x509_certificate(content)


def _issued(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Return whether the issuer is a certificate authority that may sign certificates and has signed this certificate.

    RFC 5280, 4.2.1.3: an issuer with the extension KeyUsage must have keyCertSign. The path length is not
    checked, because it does not limit certificates that the issuer signs directly.
    """
    try:
        extensions = issuer.extensions
        if not extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        if not all(each.value.key_cert_sign for each in extensions if isinstance(each.value, x509.KeyUsage)):
            return False
        certificate.verify_directly_issued_by(issuer)
    except (x509.ExtensionNotFound, ValueError, TypeError, exceptions.InvalidSignature):
        return False
    return True


def _digest(path: str, method: hashes.HashAlgorithm) -> bytes:
    digest = hashes.Hash(method)
    with open(path, 'rb') as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.finalize()


def _check(key: PublicKeyTypes, key_type: str, signature: bytes, digest: bytes, method: hashes.HashAlgorithm) -> None:
    """Verify a signature with a public key.

    :raises InvalidSignature: the signature does not match the digest
    """
    prehashed: Any = utils.Prehashed(method)
    if key_type == 'RSA-PSS' and isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, digest, padding.PSS(padding.MGF1(method), padding.PSS.AUTO), prehashed)
    elif key_type == 'DSA' and isinstance(key, dsa.DSAPublicKey):
        key.verify(signature, digest, prehashed)
    elif key_type in CURVES and isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == CURVES[key_type]:
        key.verify(signature, digest, ec.ECDSA(prehashed))
    else:
        raise _Refused('its img_signature_key_type differs from the key type of its certificate')
