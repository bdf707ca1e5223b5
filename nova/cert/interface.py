"""RPC methods of the certificate service.

Certificates, keys and revocation lists are PEM text. Ids are those of the Identity service, at most 64 characters.
"""
from nova.rpc.interface import Interface, Method

TIMEOUT = 20        # seconds; the creation of a key takes at most one second, but calls wait for each other

INTERFACE = Interface(
    'cert', '1.1',
    Method('fetch_ca', ('project_id',), call=True, timeout=TIMEOUT,
           doc="Return the certificates of a project's authority, the newest first, followed by those of its parents. "
               'Users of the project trust them, and encrypt with them the texts that decrypt_text decrypts.'),
    Method('fetch_crl', ('project_id',), call=True, timeout=TIMEOUT,
           doc='Return the revocation lists of the authorities in fetch_ca; each is renewed after half of its '
               'validity.'),
    Method('generate_x509_cert', ('user_id', 'project_id'), call=True, timeout=TIMEOUT, at_once=1,
           doc="Create a key pair of a user in a project: {'private_key', 'certificate', 'serial': 40 hexadecimal "
               'digits}. The private key is not stored. Keys are created one by one: each takes a CPU second. '
               'Raises QuotaExceeded.'),
    Method('revoke_certs', ('user_id', 'project_id'), call=True, timeout=TIMEOUT,
           doc='Revoke the valid certificates of a user, a project, or a user in a project; None matches all. '
               'Return their number.'),
    Method('decrypt_text', ('project_id', 'text'), call=True, timeout=TIMEOUT,
           doc="Decrypt text (hexadecimal; RSA, PKCS #1 v1.5) that was encrypted for the project's authority, "
               'such as the key of a bundled image. Raises InvalidInput.'),
    Method('generate_vpn_cert', ('project_id',), call=True, since='1.1', timeout=TIMEOUT, at_once=1,
           doc='Create a key pair with a server certificate for the VPN instance of a project. Return a dict like '
               'generate_x509_cert.'),
    Method('verify_signature', ('project_id', 'digest', 'signature'), call=True, since='1.1', timeout=TIMEOUT,
           at_once=1,
           doc='Return whether a user of the project signed a digest (RSA, SHA-1; both hexadecimal) with a key '
               'whose certificate is not revoked.'),
)
