"""--remote_debug-host and --remote_debug-port: refused where it would be dangerous or in vain, and a real debugpy."""
import importlib.util
import socket
import subprocess
import sys

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.runtime.diagnostics import debugger


def configured(*arguments):
    return nova_conf.new(list(arguments), files=[])


def refusal(*arguments):
    with pytest.raises(exception.InvalidInput) as caught:
        debugger.connect(configured(*arguments))
    return str(caught.value)


def test_debugger_is_off_by_default():
    assert debugger.connect(configured()) is False


@pytest.mark.parametrize('host', ['192.0.2.1', '::', '0.0.0.0', 'no-such-host.invalid'])
def test_debugger_on_a_remote_host_needs_allow_remote(host):
    assert 'allow_remote' in refusal('--remote_debug-host', host)


needs_debugpy = pytest.mark.skipif(not importlib.util.find_spec('debugpy'), reason='debugpy is not installed')


@needs_debugpy
def test_missing_debugger_is_reported_at_start():
    with socket.socket() as bound:                          # nobody listens there
        bound.bind(('127.0.0.1', 0))
        refused = refusal('--remote_debug-host', '127.0.0.1', '--remote_debug-port', str(bound.getsockname()[1]))
    assert 'No debugger listens at 127.0.0.1' in refused


ASKED = b'{"seq": 1, "type": "request", "command": "pydevdSystemInfo", "arguments": {}}'
TAKEN_S = 20


@needs_debugpy
def test_a_daemon_hands_itself_to_the_debugger():
    """A process of ours connects, and answers in the protocol of debug adapters."""
    code = ('from nova import conf; from nova.runtime.diagnostics import debugger; import sys;'
            'debugger.connect(conf.new(sys.argv[1:], files=[]))')
    with socket.create_server(('127.0.0.1', 0)) as server:
        server.settimeout(TAKEN_S)
        process = subprocess.Popen([sys.executable, '-Xfrozen_modules=off', '-c', code, '--remote_debug-host',
                                    '127.0.0.1', '--remote_debug-port', str(server.getsockname()[1])])
        try:
            server.accept()[0].close()                  # the look whether somebody listens
            connection, _address = server.accept()
            with connection:
                connection.settimeout(TAKEN_S)
                connection.sendall(b'Content-Length: %d\r\n\r\n%s' % (len(ASKED), ASKED))
                answer = b''
                while str(process.pid).encode() not in answer:
                    piece = connection.recv(65536)
                    assert piece, answer
                    answer += piece
        finally:
            process.kill()
            process.wait()
    assert answer.startswith(b'Content-Length: ') and b'pydevdSystemInfo' in answer
