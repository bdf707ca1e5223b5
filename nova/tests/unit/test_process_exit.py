"""Ends of processes: a successor can use the addresses at once."""
import pathlib
import signal
import socket
import subprocess
import sys
import time

from nova.network.linux import dhcp
from nova.runtime import process_exit

LISTEN = ('import signal, socket, sys, time\n'
          'signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == "stubborn" else signal.SIG_DFL)\n'
          'listener = socket.create_server(("127.77.0.1", 0))\n'
          'print(listener.getsockname()[1], flush=True)\n'
          'time.sleep(60)\n')


def _listener(*words):
    process = subprocess.Popen([sys.executable, '-c', LISTEN, *words], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_the_port_of_an_ended_process_is_free():
    process, port = _listener('ordinary')
    assert process_exit.end(process.pid, signal.SIGTERM, 30)
    socket.create_server(('127.77.0.1', port), reuse_port=False).close()
    assert process_exit.end(process.pid, signal.SIGTERM, 30)             # a zombie
    assert process.wait() == -signal.SIGTERM
    assert process_exit.end(int(pathlib.Path('/proc/sys/kernel/pid_max').read_text()), signal.SIGTERM, 30)  # none


def test_a_process_that_ignores_the_signal_is_reported_in_time():
    process, _port = _listener('stubborn')
    before = time.monotonic()
    assert not process_exit.end(process.pid, signal.SIGTERM, 0.3)
    assert 0.3 <= time.monotonic() - before < 10 and process.poll() is None
    assert process_exit.end(process.pid, signal.SIGKILL, 30)
    process.wait()


def test_a_dhcp_server_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(dhcp, 'STOP_S', 0.3)
    server = dhcp.Dnsmasq(None, 'br-a', tmp_path)
    process, _port = _listener('stubborn', f'--pid-file={server.pid_file}')
    server.pid_file.write_text(str(process.pid))
    assert server.pid() == process.pid
    server.stop()
    assert process.wait(30) == -signal.SIGKILL and server.pid() is None
