"""Download a file over https with limits on size, redirects, time and addresses.

A host name is resolved once and all its addresses are checked. The connection uses a checked address, so that a second
resolution cannot redirect it (DNS rebinding). Proxy settings in the environment are ignored.
"""
from collections.abc import Sequence
import dataclasses
import hashlib
import http.client
import ipaddress
import socket
import ssl
import time
from typing import BinaryIO
import urllib.parse

from nova import exception

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REDIRECTS = 5
MAX_URL_LENGTH = 4096                          # characters
WAIT_S = 30                              # timeout of the connection and of each read
TIME_S = 4 * 3600                        # timeout of the whole download
CHUNK = 1 << 20
OK, MOVED = 200, (301, 302, 303, 307, 308)
DIGESTS = {'sha256': 64, 'sha512': 128}  # algorithm: hexadecimal digits


@dataclasses.dataclass(frozen=True)
class Checksum:
    """Expected checksum of a file."""

    algorithm: str
    value: str


def checksum(text: str) -> Checksum:
    """Parse ``sha256:HEX`` or ``sha512:HEX``.

    :raises InvalidInput:
    """
    algorithm, _, value = text.strip().lower().partition(':')
    if DIGESTS.get(algorithm) != len(value) or not set(value) <= set('0123456789abcdef'):
        raise exception.InvalidInput(f'The checksum {text[:140]!r} is neither sha256: with 64 hexadecimal digits nor '
                                     'sha512: with 128.')
    return Checksum(algorithm, value)


class Fetcher:
    """Downloads files.

    :param max_size: maximum size of a file in bytes
    :param allowed: networks that may be reached although they are not public
    :param ca_file: file with CA certificates in PEM format, or None for the system's certificates
    """

    def __init__(self, max_size: int, allowed: Sequence[Network] = (), ca_file: str | None = None) -> None:
        self._max_size, self._allowed = max_size, tuple(allowed)
        try:
            self._tls = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise exception.InvalidInput(f'{ca_file} has no CA certificates: {error}') from None
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def fetch(self, url: str, target: BinaryIO, wanted: Checksum) -> int:
        """Write the file to ``target``; return its size.

        :raises InvalidInput: the URL, an address or a redirect is refused; the server does not return the file; or the
            file is too large, truncated, or has another checksum
        """
        deadline = time.monotonic() + TIME_S
        for _redirect in range(REDIRECTS + 1):
            connection = self._connected(url)
            try:
                answer = self._ask(connection, url)
                location = answer.getheader('Location')
                if answer.status in MOVED and location:
                    url = urllib.parse.urljoin(url, location)
                    continue
                if answer.status != OK:
                    raise exception.InvalidInput(f'{url} returned {answer.status} {answer.reason[:80]}.')
                return self._copy(answer, url, target, wanted, deadline)
            except (OSError, http.client.HTTPException) as error:
                raise exception.InvalidInput(f'Cannot download {url}: {error or type(error).__name__}.') from None
            finally:
                connection.close()
        raise exception.InvalidInput(f'{url} has more than {REDIRECTS} redirects.')

    def _connected(self, url: str) -> http.client.HTTPSConnection:
        host, port = _parsed(url)
        address = self.choose(host, port)
        return _Pinned(host, port, str(address), self._tls)

    def choose(self, host: str, port: int) -> Address:
        """Return an address of a host after checking all its addresses.

        :raises InvalidInput: the host has no address, or has an address that must not be reached
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as error:
            raise exception.InvalidInput(f'{host} cannot be resolved: {error}.') from None
        addresses = [ipaddress.ip_address(str(entry[4][0]).partition('%')[0]) for entry in found]
        for address in addresses:
            if not self._may_reach(address):
                raise exception.InvalidInput(f'{host} has address {address}, which is not public. Allow its network '
                                             'with --allow-network to reach it.')
        if not addresses:
            raise exception.InvalidInput(f'{host} has no address.')
        return addresses[0]

    def _may_reach(self, address: Address) -> bool:
        mapped = address.ipv4_mapped or address.sixtofour if isinstance(address, ipaddress.IPv6Address) else None
        if any(address in network for network in self._allowed if network.version == address.version):
            return True
        public = address.is_global and not (address.is_multicast or address.is_reserved)
        return public and (mapped is None or self._may_reach(mapped))

    def _ask(self, connection: http.client.HTTPSConnection, url: str) -> http.client.HTTPResponse:
        parts = urllib.parse.urlsplit(url)
        path = urllib.parse.urlunsplit(('', '', parts.path or '/', parts.query, ''))
        connection.request('GET', path, headers={'Accept-Encoding': 'identity', 'User-Agent': 'nova-manage'})
        return connection.getresponse()

    def _copy(self, answer: http.client.HTTPResponse, url: str, target: BinaryIO, wanted: Checksum,
              deadline: float) -> int:
        if answer.length is not None and answer.length > self._max_size:
            raise exception.InvalidInput(f'{url} has {answer.length} bytes, more than the limit of {self._max_size}.')
        expected, digest, size = answer.length, hashlib.new(wanted.algorithm), 0
        while chunk := answer.read1(CHUNK):
            size += len(chunk)
            if size > self._max_size:
                raise exception.InvalidInput(f'{url} has more bytes than the limit of {self._max_size}.')
            if time.monotonic() > deadline:
                raise exception.InvalidInput(f'{url} takes longer than {TIME_S} s.')
            digest.update(chunk)
            target.write(chunk)
        if expected not in (None, size):
            raise exception.InvalidInput(f'{url} ended after {size} of {expected} bytes.')
        check(url, digest.hexdigest(), wanted)
        return size


def check(name: str, found: str, wanted: Checksum) -> None:
    """Compare a checksum; raise InvalidInput if it differs."""
    if found != wanted.value:
        raise exception.InvalidInput(f'{name} has the {wanted.algorithm} checksum {found}, expected {wanted.value}.')


def _parsed(url: str) -> tuple[str, int]:
    """Return (host, port) of a URL.

    :raises InvalidInput: not an allowed URL
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port or 443
    except ValueError:
        parts, host, port = None, None, 443
    printable = len(url) <= MAX_URL_LENGTH and url.isascii() and url.isprintable() and ' ' not in url
    if parts is None or parts.scheme != 'https' or not host or not printable or '@' in parts.netloc:
        raise exception.InvalidInput(f'{url[:200]!r} is not an https URL without user name.')
    return host, port


class _Pinned(http.client.HTTPSConnection):
    """A connection to a fixed address that checks the certificate of the host name."""

    def __init__(self, host: str, port: int, address: str, tls: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=WAIT_S, context=tls)
        self._address, self._tls = address, tls

    def connect(self) -> None:
        sock = socket.create_connection((self._address, self.port), WAIT_S)
        try:
            self.sock = self._tls.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise
