"""VNC's security (RFC 6143, 7.1 and 7.2; VeNCrypt of https://github.com/rfbproto/rfbproto): done by the proxy.

With the hypervisor the proxy agrees on the strongest security that both have, and gives the guest's password. The
browser is who it is by its token already: it is offered no further security.
"""
from __future__ import annotations

import ssl

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import ECB

from nova.console import streams
from nova.console.relay import Greeting
from nova.console.relay import Step

VERSION = b'RFB 003.008\n'
NONE, VNC, VENCRYPT = 1, 2, 19
X509_NONE, X509_VNC = 260, 261              # of VeNCrypt: TLS with the hypervisor's certificate, then a password
OK = bytes(4)
REASON = 4096                               # bytes of a refusal's reason that are read


def open(stream: streams.Stream, password: str | None, tls: ssl.SSLContext | None, host: str) -> None:
    """Pass a hypervisor's security; the guest's ClientInit comes next.

    :param tls: with which TLS is spoken; it must be, where it is given
    :param host: name or address in the hypervisor's certificate
    :raises Broken: it does not speak RFB 3.8, or lets us in by nothing that we have
    """
    found = stream.read(len(VERSION))
    if not found.startswith(b'RFB 003.'):
        raise streams.Broken('That is no VNC.')
    stream.write(VERSION)
    offered = stream.read(stream.read(1)[0])
    if not offered:
        raise streams.Broken(f'VNC is refused: {_reason(stream)}')
    if tls is not None:
        if VENCRYPT not in offered:
            raise streams.Broken('The hypervisor offers no TLS for VNC, and [console] hypervisor_ca_file wants it: set '
                                 'vnc_tls = 1 in its qemu.conf.')
        stream.write(bytes([VENCRYPT]))
        chosen = _vencrypt(stream, tls, host)
    else:
        chosen = VNC if VNC in offered and password else NONE
        if chosen not in offered:
            raise streams.Broken('The hypervisor asks for TLS or a password of VNC that the proxy has not: set '
                                 'hypervisor_ca_file in [console].')
        stream.write(bytes([chosen]))
    if chosen == VNC:
        if not password:
            raise streams.Broken('VNC wants a password, and none is known.')
        stream.write(response(password, stream.read(16)))
    if stream.read(4) != OK:
        raise streams.Broken(f'VNC is refused: {_reason(stream)}')


def _vencrypt(stream: streams.Stream, tls: ssl.SSLContext, host: str) -> int:
    """TLS; NONE or VNC, which follows."""
    stream.read(2)
    stream.write(bytes([0, 2]))
    if stream.read(1) != b'\0':
        raise streams.Broken('The hypervisor refuses version 0.2 of VeNCrypt.')
    kinds = [int.from_bytes(stream.read(4), 'big') for _ in range(stream.read(1)[0])]
    for kind, follows in ((X509_VNC, VNC), (X509_NONE, NONE)):
        if kind in kinds:
            stream.write(kind.to_bytes(4, 'big'))
            if stream.read(1) != b'\1':
                raise streams.Broken('The hypervisor refuses its own kind of VeNCrypt.')
            stream.secure(tls, host)
            return follows
    raise streams.Broken(f'VeNCrypt without a certificate is not taken (kinds {kinds}).')


def response(password: str, challenge: bytes) -> bytes:
    """What answers a challenge: DES with the password's first 8 bytes as the key, the bits of each in reverse."""
    key = bytes(int(f'{byte:08b}'[::-1], 2) for byte in password.encode()[:8].ljust(8, b'\0'))
    encryptor = Cipher(TripleDES(key * 3), ECB()).encryptor()        # three times the same key is plain DES
    return encryptor.update(challenge) + encryptor.finalize()


def _reason(stream: streams.Stream) -> str:
    length = int.from_bytes(stream.read(4), 'big')
    return stream.read(min(length, REASON)).decode(errors='replace')


def greet() -> Greeting:
    """The security of the browser's side.

    :raises ValueError: the browser does not speak RFB 3.7 or 3.8
    """
    version = yield Step(to_client=VERSION, of_client=len(VERSION))
    if version not in (VERSION, b'RFB 003.007\n'):
        raise ValueError('a version of RFB that is not known')
    chosen = yield Step(to_client=bytes([1, NONE]), of_client=1)
    if chosen != bytes([NONE]):
        raise ValueError('a kind of security that was not offered')
    return Step(to_client=OK if version == VERSION else b'')
