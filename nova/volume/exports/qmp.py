"""QMP client of a QEMU program: https://qemu.readthedocs.io/en/v7.2/interop/qmp-spec.html."""
from __future__ import annotations

import json
import os
import socket
import time
import types
import typing

TIMEOUT_S = 20               # timeout of one command; the commands used take milliseconds
BUSY_S = 0.01
MAX_ANSWER_BYTES = 4 << 20         # of one answer


class Failed(Exception):
    """The program refused a command; ``kind`` is the QMP error class."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Monitor:
    """A connection to the QMP socket (monitor) of a program; a context manager.

    :param directory: directory of the socket. The socket's path may be too long for a socket address
    :raises OSError: nothing answers there
    """

    def __init__(self, directory: str, name: str, timeout: float = TIMEOUT_S) -> None:
        self._left, self._timeout = b'', timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._connect(f'/proc/self/fd/{place}/{name}', time.monotonic() + timeout)
            self._read(time.monotonic() + timeout)                       # greeting
            self.run('qmp_capabilities')
        except BaseException:
            self._socket.close()
            raise
        finally:
            os.close(place)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: types.TracebackType | None) -> None:
        self._socket.close()

    def run(self, command: str, **arguments: typing.Any) -> typing.Any:
        """Run a command and return its result.

        :param arguments: names with '_' for '-'
        :raises Failed: the program refused the command
        :raises OSError: there is no answer
        """
        named = {name.replace('_', '-'): value for name, value in arguments.items()}
        self._socket.sendall(json.dumps({'execute': command, 'arguments': named}).encode() + b'\n')
        deadline = time.monotonic() + self._timeout
        while True:
            answer = self._read(deadline)
            if 'error' in answer:
                raise Failed(answer['error'].get('class', ''), answer['error'].get('desc', ''))
            if 'return' in answer:                                       # messages without these keys are events
                return answer['return']

    def _connect(self, path: str, deadline: float) -> None:
        while True:
            try:
                self._socket.connect(path)
                return
            except BlockingIOError:                                      # the monitor still serves the previous client
                if time.monotonic() > deadline:
                    raise TimeoutError('the monitor is busy') from None
                time.sleep(BUSY_S)

    def _read(self, deadline: float) -> dict[str, typing.Any]:
        while b'\n' not in self._left:
            if time.monotonic() > deadline or len(self._left) > MAX_ANSWER_BYTES:
                raise TimeoutError('no answer of the monitor')
            more = self._socket.recv(65536)
            if not more:
                raise ConnectionResetError('the monitor closed the connection')
            self._left += more
        line, _, self._left = self._left.partition(b'\n')
        found = json.loads(line)
        return found if isinstance(found, dict) else {}
