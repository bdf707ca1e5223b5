"""Consoles as a hypervisor has them, and clients of consoles: small, for tests."""
import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

from nova.console import rfb

PASSWORD = 'secret12'


class Hypervisor:
    """Listens on a port of loopback: VNC with a password (RFB 3.8), or a serial port that echoes in capitals.

    :ivar seen: bytes that the guest got
    """

    def __init__(self, vnc=True, password=PASSWORD):
        self._vnc, self._password = vnc, password
        self.seen, self.clients = b'', []
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        self._closing = False
        self._listener.settimeout(0.1)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                client, _peer = self._listener.accept()
                client.settimeout(None)
                self.clients.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with contextlib.suppress(OSError), client:
            if self._vnc and not self._security(client):
                return
            while data := client.recv(65536):
                self.seen += data
                client.sendall(data.upper())

    def _security(self, client):
        client.sendall(rfb.VERSION)
        assert read(client, 12) == rfb.VERSION
        client.sendall(bytes([1, rfb.VNC]))
        assert read(client, 1) == bytes([rfb.VNC])
        challenge = os.urandom(16)
        client.sendall(challenge)
        if read(client, 16) != rfb.response(self._password, challenge):
            client.sendall((1).to_bytes(4, 'big') + (5).to_bytes(4, 'big') + b'wrong')
            return False
        client.sendall(rfb.OK)
        return True

    def end(self):
        """All connections of now."""
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self.clients.clear()

    def close(self):
        self._closing = True
        self._thread.join()                              # else a green thread waits on a number that is another's
        self._listener.close()
        self.end()


def read(sock, size):
    data = b''
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError('the end came early')
        data += piece
    return data


class Reader:
    """Reads so many bytes of a WebSocket, as of a stream."""

    def __init__(self, socket):
        self.socket, self._data = socket, b''

    def read(self, size, timeout=10):
        while len(self._data) < size:
            self._data += self.socket.recv(timeout)
        found, self._data = self._data[:size], self._data[size:]
        return found

    def until(self, wanted, timeout=10):
        """All up to some bytes."""
        while wanted not in self._data:
            self._data += self.socket.recv(timeout)
        end = self._data.index(wanted) + len(wanted)
        found, self._data = self._data[:end], self._data[end:]
        return found


class Screen(Reader):
    """A VNC client over a WebSocket, as far as it must be: it types, and reads the picture in raw colours.

    :ivar size: (width, height)
    """

    def begin(self):
        assert self.read(12) == rfb.VERSION
        self.socket.send(rfb.VERSION)
        assert self.read(2) == bytes([1, rfb.NONE])
        self.socket.send(bytes([rfb.NONE]))
        assert self.read(4) == rfb.OK
        self.socket.send(b'\x01')                # shared
        head = self.read(24)
        self.size = int.from_bytes(head[:2], 'big'), int.from_bytes(head[2:4], 'big')
        self.name = self.read(int.from_bytes(head[20:24], 'big')).decode()
        self.socket.send(bytes([2, 0, 0, 1]) + (0).to_bytes(4, 'big'))      # raw alone
        return self

    def key(self, symbol):
        for down in (1, 0):
            self.socket.send(bytes([4, down, 0, 0]) + symbol.to_bytes(4, 'big'))

    def type(self, text):
        for letter in text:
            self.key(0xff0d if letter == '\n' else ord(letter))

    def picture(self):
        """All bytes of the screen."""
        width, height = self.size
        self.socket.send(bytes([3, 0]) + bytes(4) + width.to_bytes(2, 'big') + height.to_bytes(2, 'big'))
        while True:
            kind = self.read(1)[0]
            if kind == 0:
                break
            if kind == 2:                        # bell
                continue
            raise AssertionError(f'message {kind}')
        self.read(1)
        pieces = []
        for _ in range(int.from_bytes(self.read(2), 'big')):
            _x, _y, wide, high = (int.from_bytes(self.read(2), 'big') for _ in range(4))
            assert self.read(4) == bytes(4)
            pieces.append(self.read(wide * high * 4))
        return b''.join(pieces)


class Terminal:
    """nova-manage in a terminal of its own."""

    def __init__(self, *arguments):
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [os.path.join(os.path.dirname(sys.executable), 'nova-manage'), *map(str, arguments)], stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self._seen = b''

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def write(self, data):
        os.write(self._master, data)

    def resize(self, rows, columns):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self._process.send_signal(signal.SIGWINCH)      # it has no controlling terminal that would say so

    def until(self, wanted, seconds=60):
        """All that is shown up to some bytes."""
        deadline = time.monotonic() + seconds
        while wanted not in self._seen:
            assert time.monotonic() < deadline, self._seen
            if select.select([self._master], [], [], 1)[0]:
                try:
                    self._seen += os.read(self._master, 65536)
                except OSError:                          # it has ended
                    assert wanted in self._seen, self._seen
        end = self._seen.index(wanted) + len(wanted)
        found, self._seen = self._seen[:end], self._seen[end:]
        return found

    def wait(self):
        return self._process.wait(30)
