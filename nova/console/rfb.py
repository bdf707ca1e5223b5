"""VNC authentication by the proxy (RFC 6143, 7.1 and 7.2; VeNCrypt of https://github.com/rfbproto/rfbproto).

The proxy negotiates the strongest common security type with the hypervisor and sends the guest's password. The browser
is authenticated by its token, so it is offered no further security.
"""
import ssl

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import ECB

from nova.console import streams
from nova.console.relay import Greeting
from nova.console.relay import Step

VERSION = b'RFB 003.008\n'
NONE, VNC, VENCRYPT = 1, 2, 19
X509_NONE, X509_VNC = 260, 261              # VeNCrypt: TLS with a certificate, without or with a password
OK = bytes(4)
REASON = 4096                               # maximum bytes of the hypervisor's reason for a failure


def open(stream: streams.Stream, password: str | None, tls: ssl.SSLContext | None, host: str) -> None:
    """Authenticate at a hypervisor; the next message is the client's ClientInit.

    :param tls: context for TLS; if given, TLS is required
    :param host: name or address in the hypervisor's certificate
    :raises Broken: the hypervisor does not support RFB 3.8, or authentication failed
    """
    found = stream.read(len(VERSION))
    if not found.startswith(b'RFB 003.'):
        raise streams.Broken('The hypervisor does not speak VNC.')
    stream.write(VERSION)
    offered = stream.read(stream.read(1)[0])
    if not offered:
        raise streams.Broken(f'VNC is refused: {_reason(stream)}')
    if tls is not None:
        if VENCRYPT not in offered:
            raise streams.Broken('The hypervisor offers no TLS for VNC; [console] hypervisor_ca_file requires it: set '
                                 'vnc_tls = 1 in its qemu.conf.')
        stream.write(bytes([VENCRYPT]))
        chosen = _vencrypt(stream, tls, host)
    else:
        chosen = VNC if VNC in offered and password else NONE
        if chosen not in offered:
            raise streams.Broken('The hypervisor requires TLS or a VNC password that the proxy does not have: set '
                                 'hypervisor_ca_file in [console].')
        stream.write(bytes([chosen]))
    if chosen == VNC:
        if not password:
            raise streams.Broken('VNC requires a password, but none is known.')
        stream.write(response(password, stream.read(16)))
    if stream.read(4) != OK:
        raise streams.Broken(f'VNC is refused: {_reason(stream)}')


def _vencrypt(stream: streams.Stream, tls: ssl.SSLContext, host: str) -> int:
    """Start TLS; return the security type that follows, NONE or VNC."""
    stream.read(2)
    stream.write(bytes([0, 2]))
    if stream.read(1) != b'\0':
        raise streams.Broken('The hypervisor refuses version 0.2 of VeNCrypt.')
    kinds = [int.from_bytes(stream.read(4), 'big') for _ in range(stream.read(1)[0])]
    for kind, follows in ((X509_VNC, VNC), (X509_NONE, NONE)):
        if kind in kinds:
            stream.write(kind.to_bytes(4, 'big'))
            if stream.read(1) != b'\1':
                raise streams.Broken('The hypervisor refuses the VeNCrypt type that it offered.')
            stream.secure(tls, host)
            return follows
    raise streams.Broken(f'VeNCrypt without a certificate is not supported (types {kinds}).')


def response(password: str, challenge: bytes) -> bytes:
    """Compute the response to a challenge: DES with the first 8 bytes of the password, each with reversed bits."""
    key = bytes(int(f'{byte:08b}'[::-1], 2) for byte in password.encode()[:8].ljust(8, b'\0'))
    encryptor = Cipher(TripleDES(key * 3), ECB()).encryptor()        # 3DES with three equal keys is DES
    return encryptor.update(challenge) + encryptor.finalize()


def _reason(stream: streams.Stream) -> str:
    length = int.from_bytes(stream.read(4), 'big')
    return stream.read(min(length, REASON)).decode(errors='replace')


def greet() -> Greeting:
    """Security handshake with the browser.

    :raises ValueError: the browser does not support RFB 3.7 or 3.8
    """
    version = yield Step(to_client=VERSION, of_client=len(VERSION))
    if version not in (VERSION, b'RFB 003.007\n'):
        raise ValueError('unsupported RFB version')
    chosen = yield Step(to_client=bytes([1, NONE]), of_client=1)
    if chosen != bytes([NONE]):
        raise ValueError('security type that was not offered')
    return Step(to_client=OK if version == VERSION else b'')
