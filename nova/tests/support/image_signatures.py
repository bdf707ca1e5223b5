"""What tests share with nova/tests/unit/test_image_signatures.py."""
import base64
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa

from nova.virt import image_signatures

DATA = b'the data of an image' * 1000
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def certificate(directory, ident, key, issuer=None, issuer_key=None, authority=False, until=NOW + DAY, usage=None,
                subject=None):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject or ident)])
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(issuer.subject if issuer else name)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 2 * DAY).not_valid_after(until)
            .add_extension(x509.BasicConstraints(authority, 0 if authority else None), critical=True))
    if usage is not None:
        made = made.add_extension(usage, critical=True)
    made = made.sign(issuer_key or key, hashes.SHA256())
    (directory / f'{ident}.pem').write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made


def image(key, ident, key_type, method='SHA-256', data=DATA, trusted=None, **properties):
    algorithm = image_signatures.HASHES[method]()
    if isinstance(key, rsa.RSAPrivateKey):
        signed = key.sign(data, padding.PSS(padding.MGF1(algorithm), padding.PSS.MAX_LENGTH), algorithm)
    elif isinstance(key, dsa.DSAPrivateKey):
        signed = key.sign(data, algorithm)
    else:
        signed = key.sign(data, ec.ECDSA(algorithm))
    return {'id': 'an-image', 'disk_format': 'raw', 'trusted_certs': trusted, 'properties': {
        'img_signature': base64.b64encode(signed).decode(), 'img_signature_hash_method': method,
        'img_signature_key_type': key_type, 'img_signature_certificate_uuid': ident, **properties}}
