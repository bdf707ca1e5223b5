"""RPC methods of the certificate service.

Certificates, keys and revocation lists are PEM text. Ids are those of the Identity service, at most 64 characters.
"""
from nova.rpc.interface import Interface, Method

TIMEOUT = 20        # seconds: a key takes one at most, and who waits is a request of a user

INTERFACE = Interface(
    'cert', '1.1',
    # -> what users of the project trust and encrypt for: its authority, the newest first, then those above it
    Method('fetch_ca', ('project_id',), call=True, timeout=TIMEOUT),
    # -> revocation lists of all these authorities, renewed when half of their time is over
    Method('fetch_crl', ('project_id',), call=True, timeout=TIMEOUT),
    # -> {'private_key', 'certificate', 'serial': 40 hexadecimal digits}: a new pair of a user in a project; the key is
    # kept nowhere. One at a time: it is a second of a processor. Raises QuotaExceeded
    Method('generate_x509_cert', ('user_id', 'project_id'), call=True, timeout=TIMEOUT, at_once=1),
    # certificates that have not ended, of a user, of a project, or of a user in a project; None: any -> how many
    Method('revoke_certs', ('user_id', 'project_id'), call=True, timeout=TIMEOUT),
    # text: hexadecimal, what was encrypted (RSA, PKCS #1 v1.5) for the project's authority, as keys of bundled images
    # are -> the text that was; raises InvalidInput
    Method('decrypt_text', ('project_id', 'text'), call=True, timeout=TIMEOUT),
    # -> as of generate_x509_cert, of the VPN instance of a project, which is a server for the project's users
    Method('generate_vpn_cert', ('project_id',), call=True, since='1.1', timeout=TIMEOUT, at_once=1),
    # digest, signature: hexadecimal -> whether a user of the project has signed it (RSA, SHA-1), with a key whose
    # certificate is not revoked
    Method('verify_signature', ('project_id', 'digest', 'signature'), call=True, since='1.1', timeout=TIMEOUT,
           at_once=1),
)
