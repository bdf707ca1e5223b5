"""Child process controlled over a socket: start, watch, stop."""
import json
import logging
import socket
import subprocess
import sys

from nova.json_types import JsonObject
from nova.network.linux import runner

LOG = logging.getLogger(__name__)


class ControlledProcess:
    """A Python program that gets the descriptor of a message socket (SOCK_SEQPACKET) as its first argument.

    The program exits when the socket is closed.

    :param run: a Runner of the host
    :param name: name in log messages
    :param command: arguments of Python: flags, and the file of the program
    :param arguments: arguments of the program after the descriptor
    """

    def __init__(self, run: runner.Runner, name: str, command: tuple[str, ...],
                 arguments: tuple[str, ...] = ()) -> None:
        self._run, self._name, self._command, self._arguments = run, name, command, arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None               # None before start() and after stop()

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def ended(self) -> int | None:
        """Return the exit code of a process that exited without ``stop``, else None."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the process; first stop the process of an earlier call."""
        self.stop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*self._run.prefix, sys.executable, *self._command, str(theirs.fileno()), *self._arguments],
                pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=runner.ENVIRONMENT, cwd='/')
        self.control = ours

    def stop(self) -> None:
        """Close the socket and wait for the exit. Kill the process after the timeout."""
        if self.control is not None:
            self.control.close()
        if self._process is not None:
            try:
                self._process.wait(runner.TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self.control = None

    def send(self, message: JsonObject) -> bool:
        """Send a message and return whether it was sent; the next refresh restarts a process that exited."""
        if self.control is None:
            return False
        try:
            self.control.sendall(json.dumps(message).encode())
            return True
        except OSError as error:
            LOG.warning('The %s did not get a message: %s', self._name, error)
            return False
