"""TLS of the connections to hypervisors: what came before it is not trusted, and what comes with its start is read."""
import socket
import ssl
import threading
import time

import pytest

from nova import conf as nova_conf
from nova.console import streams
from nova.runtime import certificates

CHALLENGE = bytes(range(16))
HOST = '127.0.0.1'


def serve(sock, context, data):
    """Accept TLS, and send data in one piece with the last message of the handshake."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, sent, server_side=True)
    while piece := sock.recv(65536):
        received.write(piece)
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            sock.sendall(sent.read())
            continue
        tls.write(data)
        sock.sendall(sent.read())
        return


@pytest.fixture
def connection(tmp_path):
    """(a Stream, the socket of the hypervisor, function that starts TLS)."""
    authority = certificates.Authority(tmp_path)
    server = certificates.server_context(authority.pair('hypervisor', [HOST]))
    server.maximum_version = ssl.TLSVersion.TLSv1_2          # there the server's message is the last one
    client = streams.context(nova_conf.new([], console__hypervisor_ca_file=str(authority.trusted)))
    ours, theirs = socket.socketpair()
    made = streams.Stream(ours, time.monotonic() + 30)
    thread = threading.Thread(target=serve, args=(theirs, server, CHALLENGE + b'screen'))
    thread.start()
    yield made, theirs, lambda: made.secure(client, HOST)
    made.close()
    thread.join()
    theirs.close()


def test_data_before_the_tls_handshake_ends_the_connection(connection):
    stream, hypervisor, start_tls = connection
    hypervisor.sendall(b'\1' + bytes(20))                    # an attacker in between adds the 20 bytes
    assert stream.read(1) == b'\1'
    with pytest.raises(streams.Broken, match='Unencrypted data arrived before the TLS handshake'):
        start_tls()


def test_data_that_comes_with_the_end_of_the_handshake_is_read(connection):
    stream, _hypervisor, start_tls = connection
    start_tls()
    assert stream.read(len(CHALLENGE)) == CHALLENGE
    stream.flow()
    assert stream.has_more and stream.receive() == b'screen'
    assert stream.receive() is None
