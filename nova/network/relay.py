"""Metadata relay: forwards metadata requests of guests in overlay networks to the metadata service.

A socket listens at 169.254.169.254 in the namespace of each network and router. One unprivileged process of the host,
without database access, serves all sockets. It reads a request, removes headers that a guest must not set, and adds the
network or router, the guest's address and a signature. Then it sends the request to the metadata service.

This file is also the program of that process. The process runs the file by its path, so the file cannot import nova.
"""
from __future__ import annotations

import asyncio
import collections
import encodings.idna                # noqa: F401 - imported early: the unprivileged user may lack access to its file
import hashlib
import hmac
import json
import os
import pwd
import re
import resource
import socket
import ssl
import sys
import time
import urllib.parse
from typing import Any

ADDRESS, PORT = '169.254.169.254', 80
HOST, NETWORK, ROUTER, GUEST, TIME, BODY, SIGNATURE = (f'X-Nova-Relay-{name}' for name in (
    'Host', 'Network', 'Router', 'Address', 'Time', 'Body', 'Signature'))
HOPS = 'X-Nova-Relay-Hops'  # response header: hop limit (TTL) of the response to the guest
VALID_S = 120                                 # maximum clock difference between a host and the service, seconds
SOURCE_HEADERS = {'network': NETWORK, 'router': ROUTER}          # {kind: header with the id of the network or router}

HEADERS_S, ANSWER_S, IDLE_S = 10, 60, 30
MAX_HEADERS, MAX_BODY, MAX_ANSWER = 16 << 10, 4 << 10, 4 << 20          # bytes
MAX_CONNECTIONS, MAX_ADDRESS_CONNECTIONS = 32, 8      # maximum connections of a network, and of one guest address
MAX_REQUESTS = 4                              # maximum concurrent requests of a network
MAX_TOTAL_REQUESTS = 32                       # maximum concurrent requests of all networks
MAX_CONTROL_MESSAGE = 64 << 10                # maximum bytes of a control message
# headers of guests that are forwarded; the metadata service rejects requests with X-Forwarded-For
FORWARDED_HEADERS = {'accept', 'content-type', 'user-agent', 'x-forwarded-for', 'x-aws-ec2-metadata-token',
                     'x-aws-ec2-metadata-token-ttl-seconds', 'metadata-flavor'}
_REQUEST = re.compile(rb'(GET|HEAD|PUT|POST) (/[!-~]*) (HTTP/1\.[01])\Z')
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*)\Z")


def key_of(master: bytes, host: str) -> bytes:
    """Return a host's signing key, which is invalid for other hosts."""
    return hmac.new(master, b'relay of host ' + host.encode(), hashlib.sha256).digest()


def signature(key: bytes, host: str, kind: str, ident: str, address: str, request: tuple[str, ...]) -> str:
    """Sign a request that a host's relay got from an address in a network or router.

    :param request: time in seconds since the epoch, method, unescaped path, digest of the body. An eavesdropper can
        replay the request for VALID_S, but not modify it
    """
    text = '\n'.join((host, kind, ident, address, *request))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


class Refused(Exception):
    """The relay refuses a request; the text is the status code and phrase of the response."""


class Relay:
    """The relay. Messages of the control socket set its listening sockets and its upstream."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._servers: dict[tuple[str, str], asyncio.Server] = {}
        self._upstream: tuple[str, int] = ('', 0)
        self._host, self._key = '', b''
        self._tls: ssl.SSLContext | None = None
        self.running = asyncio.Semaphore(MAX_TOTAL_REQUESTS)

    async def run(self) -> None:
        """Serve until the other end of the control socket is closed."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        messages: asyncio.Queue[Any] = asyncio.Queue()

        def readable() -> None:
            data, descriptors, _flags, _address = socket.recv_fds(self._control, MAX_CONTROL_MESSAGE, 1)
            if not data:
                loop.remove_reader(self._control)
                ended.set()
            messages.put_nowait((data, descriptors))
        loop.add_reader(self._control, readable)
        while not ended.is_set():
            data, descriptors = await messages.get()
            if data:
                await self._handle(json.loads(data), descriptors)

    async def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if 'settings' in message:
            self._host, key, address, port, authority = message['settings']
            self._key, self._upstream = bytes.fromhex(key), (address, port)
            self._tls = ssl.create_default_context(cadata=authority) if authority else None
            return
        name = tuple(message.get('serve') or message['drop'])
        known = self._servers.pop(name, None)
        if known is not None:
            known.close()
        if 'serve' in message:
            network = RelayedNetwork(self, *name)
            self._servers[name] = await asyncio.start_server(
                network.connected, sock=socket.socket(fileno=descriptors[0]), limit=MAX_HEADERS)

    async def forward(self, kind: str, ident: str, address: str, request: RelayedRequest) -> bytes:
        """Return the metadata service's answer to a guest's request."""
        now, body = str(int(time.time())), digest(request.body)
        path = urllib.parse.unquote(request.target.partition('?')[0], encoding='latin-1')
        proof = signature(self._key, self._host, kind, ident, address, (now, request.method, path, body))
        lines = [f'{request.method} {request.target} {request.version}', f'Host: {ADDRESS}', 'Connection: close',
                 f'Content-Length: {len(request.body)}', *request.headers, f'{HOST}: {self._host}',
                 f'{SOURCE_HEADERS[kind]}: {ident}', f'{GUEST}: {address}', f'{TIME}: {now}', f'{BODY}: {body}',
                 f'{SIGNATURE}: {proof}']
        reader, writer = await asyncio.open_connection(*self._upstream, ssl=self._tls)
        try:
            writer.write('\r\n'.join([*lines, '', '']).encode('ascii') + request.body)
            await writer.drain()
            found = bytearray()
            while part := await reader.read(MAX_HEADERS):
                found += part
                if len(found) > MAX_ANSWER:
                    raise Refused('502 Bad Gateway')
            if not found:                           # the service expects TLS, or disconnected early
                raise Refused('502 Bad Gateway')
            return bytes(found)
        finally:
            writer.close()


class RelayedRequest:
    """One request of a guest, without the headers that guests must not set.

    :raises Refused: invalid request
    """

    def __init__(self, head: bytes) -> None:
        line, *lines = head.removesuffix(b'\r\n\r\n').split(b'\r\n')
        matched = _REQUEST.match(line)
        if not matched:
            raise Refused('400 Bad Request')
        self.method, self.target, self.version = (part.decode('ascii') for part in matched.groups())
        self.headers, self.length, self.body = [], 0, b''
        for each in lines:
            header = _HEADER.match(each)
            if not header:
                raise Refused('400 Bad Request')
            name, value = (part.decode('ascii').strip() for part in header.groups())
            if name.lower() == 'transfer-encoding':
                raise Refused('411 Length Required')
            if name.lower() == 'content-length':
                self._has_length(value)
            elif name.lower() in FORWARDED_HEADERS:
                self.headers.append(f'{name}: {value}')

    def _has_length(self, value: str) -> None:
        if self.length or not re.fullmatch('[0-9]{1,9}', value):
            raise Refused('400 Bad Request')
        self.length = int(value)
        if self.length > MAX_BODY:
            raise Refused('413 Request Entity Too Large')


class RelayedNetwork:
    """Serves the guests of one network or router, and limits their connections and requests."""

    def __init__(self, relay: Relay, kind: str, ident: str) -> None:
        self._relay, self._kind, self._ident = relay, kind, ident
        self._running = asyncio.Semaphore(MAX_REQUESTS)
        self._open: collections.Counter[str] = collections.Counter()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request on a connection."""
        address = writer.get_extra_info('peername')[0]
        if self._open[address] >= MAX_ADDRESS_CONNECTIONS or self._open.total() >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open[address] += 1
        try:
            answer, hops = split_hop_limit(await self._answer(reader, address))
            if hops is not None:  # the TTL applies to the whole connection, which has only one response
                writer.get_extra_info('socket').setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
            writer.write(answer)
            async with asyncio.timeout(IDLE_S):
                await writer.drain()
                writer.write_eof()
                await reader.read(MAX_BODY)         # wait until the guest has read the answer and closes
        except (OSError, TimeoutError):
            pass                                    # the guest disconnected
        finally:
            self._open[address] -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, address: str) -> bytes:
        try:
            async with asyncio.timeout(HEADERS_S):
                request = RelayedRequest(await reader.readuntil(b'\r\n\r\n'))
                request.body = await reader.readexactly(request.length)
            async with self._running, self._relay.running, asyncio.timeout(ANSWER_S):
                return await self._relay.forward(self._kind, self._ident, address, request)
        except Refused as error:
            return refusal(str(error))
        except asyncio.LimitOverrunError:
            return refusal('431 Request Header Fields Too Large')
        except asyncio.IncompleteReadError:
            return b''
        except TimeoutError:
            return refusal('504 Gateway Timeout')
        except OSError:
            return refusal('503 Service Unavailable')


def split_hop_limit(answer: bytes) -> tuple[bytes, int | None]:
    """Return (answer without the header HOPS, its value or None for the default TTL)."""
    head, end, body = answer.partition(b'\r\n\r\n')
    lines, name = head.split(b'\r\n'), HOPS.lower().encode() + b':'
    kept = [line for line in lines if not line.lower().startswith(name)]
    values = [int(line[len(name):]) for line in lines if line.lower().startswith(name)]
    return b'\r\n'.join(kept) + end + body, min(values, default=None)


def refusal(status: str) -> bytes:
    return (f'HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(status) + 1}\r\n'
            f'Connection: close\r\n\r\n{status}\n').encode()


def main(descriptor: int, user: str) -> None:
    """Switch to the user and serve until the control socket is closed.

    :param descriptor: control socket, a Unix socket of packets
    """
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
        os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    control = socket.socket(fileno=descriptor)
    control.setblocking(False)
    asyncio.run(Relay(control).run())


if __name__ == '__main__':
    main(int(sys.argv[1]), sys.argv[2])
