"""Download a file over https, or http, with limits on size, redirects, time and addresses.

A host name is resolved once and all its addresses are checked. The connection uses a checked address, so that a second
resolution cannot redirect it (DNS rebinding). Proxy settings in the environment are ignored.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import hashlib
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from typing import BinaryIO
import urllib.parse

from nova import exception
from nova.runtime.http import channel

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REDIRECTS = 5
MAX_URL_LENGTH = 4096                          # maximum characters of a URL
WAIT_S = 30                              # timeout of the connection and of each read
ANSWER_S = 60                            # timeout for the TLS handshake and all headers together
TIME_S = 4 * 3600                        # timeout of the whole download
LEAST_RATE, RATE_WINDOW_S = 16384, 60    # minimum bytes per second while this process waits, in periods of seconds
CHUNK = 1 << 20
OK, MOVED = 200, (301, 302, 303, 307, 308)
NAT64 = ipaddress.IPv6Network('64:ff9b::/96')       # the last 32 bits are an IPv4 address (RFC 6052)
DIGESTS = {'sha256': 64, 'sha512': 128}  # {algorithm: number of hexadecimal digits}


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
    :param schemes: allowed schemes of URLs; a redirect never leads from https to http
    :param own: hosts of the control plane, which are refused like addresses of this machine
    :param refusal: error message for a refused address, with the fields host and address
    """

    def __init__(self, max_size: int, allowed: Sequence[Network] = (), ca_file: str | None = None,
                 schemes: Sequence[str] = ('https',), own: Sequence[str] = (),
                 refusal: str = '{host} has address {address}, which is not public. Allow its network with '
                                '--allow-network to reach it.') -> None:
        self._max_size, self._allowed, self._schemes = max_size, tuple(allowed), tuple(schemes)
        self._own, self._refusal = tuple(own), refusal
        try:
            self._tls = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise exception.InvalidInput(f'{ca_file} has no CA certificates: {error}') from None
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def fetch(self, url: str, target: BinaryIO, wanted: Checksum) -> int:
        """Write the file to ``target``; return its size.

        :raises InvalidInput: as ``chunks``, or the file has another checksum
        """
        digest, size = hashlib.new(wanted.algorithm), 0
        for chunk in self.chunks(url):
            digest.update(chunk)
            target.write(chunk)
            size += len(chunk)
        check(_shown(url), digest.hexdigest(), wanted)
        return size

    def verify(self, url: str) -> None:
        """Check a URL without a name lookup; raises InvalidInput if ``chunks`` would refuse it."""
        _scheme, host, _port = _parsed(url, self._schemes)
        with contextlib.suppress(ValueError):
            self._check(host, ipaddress.ip_address(host))

    def chunks(self, url: str) -> Iterator[bytes]:
        """Yield the file.

        :raises InvalidInput: the URL, an address or a redirect is refused; the server does not return the file; or the
            file is too large or truncated
        """
        deadline, schemes = time.monotonic() + TIME_S, self._schemes
        for _redirect in range(REDIRECTS + 1):
            scheme, host, port = _parsed(url, schemes)
            schemes = ('https',) if scheme == 'https' else schemes
            connection = _Pinned(host, port, str(self.choose(host, port)), self._tls if scheme == 'https' else None)
            try:
                answer = _ask(connection, url)
                location = answer.getheader('Location')
                if answer.status in MOVED and location:
                    url = urllib.parse.urljoin(url, location)
                    continue
                if answer.status != OK:
                    raise exception.InvalidInput(f'{_shown(url)} returned {answer.status} {answer.reason[:80]}.')
                yield from self._read(answer, _shown(url), deadline)
                return
            except (OSError, ValueError, http.client.HTTPException) as error:      # ValueError: a redirect
                raise exception.InvalidInput(
                    f'Cannot download {_shown(url)}: {error or type(error).__name__}.') from None
            finally:
                connection.close()
        raise exception.InvalidInput(f'{_shown(url)} has more than {REDIRECTS} redirects.')

    def choose(self, host: str, port: int) -> Address:
        """Return an address of a host after checking all its addresses.

        :raises InvalidInput: the host has no address, or has an address that must not be reached
        """
        try:
            addresses = _addresses(host, port)
        except (OSError, UnicodeError) as error:
            raise exception.InvalidInput(f'{host} cannot be resolved: {error}.') from None
        for address in addresses:
            self._check(host, address)
        if not addresses:
            raise exception.InvalidInput(f'{host} has no address.')
        return addresses[0]

    def _check(self, host: str, address: Address) -> None:
        if not self._may_reach(address):
            raise exception.InvalidInput(self._refusal.format(host=host, address=address))

    def _may_reach(self, address: Address) -> bool:
        mapped = _mapped(address) if isinstance(address, ipaddress.IPv6Address) else None
        if any(address in network for network in self._allowed if network.version == address.version):
            return True
        public = address.is_global and not (address.is_multicast or address.is_reserved)
        return public and (mapped is None or self._may_reach(mapped)) and not self._is_own(address)

    def _is_own(self, address: Address) -> bool:
        """Return whether an address belongs to this machine or to a host of the control plane."""
        if _is_local(address):
            return True
        for host in self._own:
            with contextlib.suppress(OSError, UnicodeError):
                if address in _addresses(host, None):
                    return True
        return False

    def _read(self, answer: http.client.HTTPResponse, url: str, deadline: float) -> Iterator[bytes]:
        if answer.length is not None and answer.length > self._max_size:
            raise exception.InvalidInput(f'{url} has {answer.length} bytes, more than the limit of {self._max_size}.')
        expected, size = answer.length, 0
        pace, asked = channel.MinimumRate(LEAST_RATE, RATE_WINDOW_S), time.monotonic()
        while chunk := answer.read1(CHUNK):
            size += len(chunk)
            if not pace.keeps(time.monotonic() - asked, len(chunk)):
                raise exception.InvalidInput(f'{url} sends less than {LEAST_RATE} bytes per second.')
            if size > self._max_size:
                raise exception.InvalidInput(f'{url} has more bytes than the limit of {self._max_size}.')
            if time.monotonic() > deadline:
                raise exception.InvalidInput(f'{url} takes longer than {TIME_S} s.')
            yield chunk
            asked = time.monotonic()
        if expected not in (None, size):
            raise exception.InvalidInput(f'{url} ended after {size} of {expected} bytes.')


def _addresses(host: str, port: int | None) -> list[Address]:
    """Resolve a host name; raises OSError or UnicodeError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [ipaddress.ip_address(str(entry[4][0]).partition('%')[0]) for entry in found]


def _mapped(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address to which a gateway translates an IPv6 address, or None."""
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xffffffff)
    return address.ipv4_mapped or address.sixtofour


def _is_local(address: Address) -> bool:
    """Return whether an address belongs to this machine.

    To reach a local address, the kernel selects the same address as source. Connecting a UDP socket sends no packet.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ipaddress.ip_address(str(probe.getsockname()[0]).partition('%')[0]) == address
    except OSError:                      # no route
        return False


def _ask(connection: _Pinned, url: str) -> http.client.HTTPResponse:
    parts = urllib.parse.urlsplit(url)
    path = urllib.parse.urlunsplit(('', '', parts.path or '/', parts.query, ''))
    timer = threading.Timer(ANSWER_S, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request('GET', path, headers={
            'Host': parts.netloc, 'Accept-Encoding': 'identity', 'User-Agent': 'nova'})
        answer = connection.getresponse()
    finally:
        timer.cancel()
    if connection.is_cut:                # the parser accepts the headers as complete, although cut() has truncated them
        raise TimeoutError(f'no response within {ANSWER_S} s')
    return answer


def _shown(url: str) -> str:
    """Return a URL without its query, which may contain a signature."""
    scheme, place, path, _query, _fragment = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((scheme, place, path, '', ''))


def check(name: str, found: str, wanted: Checksum) -> None:
    """Compare a checksum; raise InvalidInput if it differs."""
    if found != wanted.value:
        raise exception.InvalidInput(f'{name} has the {wanted.algorithm} checksum {found}, expected {wanted.value}.')


def _parsed(url: str, schemes: Sequence[str]) -> tuple[str, str, int]:
    """Return (scheme, host, port) of a URL.

    :raises InvalidInput: not an allowed URL
    """
    printable = len(url) <= MAX_URL_LENGTH and url.isascii() and url.isprintable() and ' ' not in url
    try:
        parts = urllib.parse.urlsplit(url)
        scheme, port, host = parts.scheme, parts.port, parts.hostname if '@' not in parts.netloc else None
    except ValueError:
        scheme, port, host = '', None, None
    if scheme not in schemes or not host or not printable:
        # the query may contain a signature, and the text before an @ a password, however the URL is malformed
        shown = 'This' if '@' in url else repr(re.split('[?#]', url, maxsplit=1)[0][:200])
        raise exception.InvalidInput(f'{shown} is not an {" or ".join(schemes)} URL without user name.')
    return scheme, host, port or (443 if scheme == 'https' else 80)


class _Pinned(http.client.HTTPConnection):
    """A connection to a fixed address. With TLS, the server's certificate must be valid for the host name."""

    def __init__(self, host: str, port: int, address: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(host, port, timeout=WAIT_S)
        self._address, self._tls, self.is_cut = address, tls, False

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), WAIT_S)
        if self._tls:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        """End the connection from another thread; the thread that reads gets the end of the stream."""
        self.is_cut = True
        if self.sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)      # of the class: TLS sends nothing
