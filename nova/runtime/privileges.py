"""A process in two parts: one keeps its rights and does what a table lists; the other gives them up and does the rest.

    helper = Helper({'bridge.make': make})      # operation: function of keyword arguments that checks each of them
    helper.fork()                               # before the first thread
    become(account, [paths])                    # this process is an ordinary user from here on
    helper.call('bridge.make', name='br0')

What goes between them is JSON of bounded length over a socket pair, so that nothing that the ordinary part sends
becomes code. Why not oslo.privsep: doc/source/adr/0015-privileges.rst.
"""
import contextlib
import ctypes
import grp
import json
import logging
import os
import pwd
import signal
import socket
import stat
import struct
import sys
import threading
import typing

from nova import exception

LOG = logging.getLogger(__name__)

MOST_BYTES = 64 << 20                    # of a request or an answer
LENGTH = struct.Struct('>Q')
ENDED = 'its privileged part has ended'
PR_SET_NO_NEW_PRIVS = 38                 # prctl(2)


class Helper:
    """The privileged part, and the way to it.

    :param operations: {name: function(**arguments) -> what JSON can hold}; a function checks what it is given and
        raises NetworkPlumbingError or ValueError for what it does not do
    """

    def __init__(self, operations: dict[str, typing.Callable[..., typing.Any]]) -> None:
        self._operations = operations
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._ended = False
        self.pid: int | None = None

    def fork(self) -> None:
        """Make the privileged part; it ends when our end of the socket is closed, also by our death."""
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                ours.close()
                _serve(theirs, self._operations)
                code = 0
            finally:
                os._exit(code)           # nothing of what the parent had planned for its own end
        theirs.close()
        self._socket = ours

    def call(self, operation: str, **arguments: typing.Any) -> typing.Any:
        """Have an operation done; what it returns.

        :raises NetworkPlumbingError: it failed, was refused, or nobody is there to do it
        """
        with self._lock:
            if self._socket is None:
                raise exception.NetworkPlumbingError(reason=ENDED)
            try:
                _send(self._socket, {'operation': operation, 'arguments': arguments})
                answer = _receive(self._socket)
            except (OSError, EOFError):
                self._socket.close()
                self._socket = None
                raise exception.NetworkPlumbingError(reason=ENDED) from None
        if 'error' in answer:
            raise exception.NetworkPlumbingError(reason=answer['error'])
        return answer['result']

    def alive(self) -> dict:
        """See nova.runtime.health: without it the daemon is of no use and has to be started again."""
        if not self._ended:
            try:
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            except ChildProcessError:
                self._ended = True
        gone = self._ended or self._socket is None
        return {'privileged part': (not gone, {'error': ENDED} if gone else {'process': self.pid})}

    def start(self) -> None:
        """It is a part of a Process, and has begun before it."""

    def stop(self, timeout: float = 0) -> None:
        """Let it end, when what it does is done."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None


def _serve(link, operations):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)            # the other part hears them; we end with it
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True,
                        format='%(asctime)s %(process)d %(levelname)s %(name)s [privileged] %(message)s')
    while True:
        try:
            request = _receive(link)
        except (OSError, EOFError, ValueError):
            return
        _send(link, _answer(operations, request))


def _answer(operations, request):
    try:
        name, arguments = request['operation'], request['arguments']
        if name not in operations or not isinstance(arguments, dict):
            raise ValueError('there is no such operation')
        return {'result': operations[name](**arguments)}
    except exception.NetworkPlumbingError as error:
        return {'error': error.kwargs['reason']}
    except (ValueError, TypeError, KeyError) as error:
        LOG.error('A request was refused: %s', error)
        return {'error': f'the privileged part refuses it: {error}'[:500]}
    except Exception as error:
        LOG.exception('An operation failed.')
        return {'error': f'{type(error).__name__} in the privileged part'}


def _send(link, value):
    data = json.dumps(value).encode()
    if len(data) > MOST_BYTES:
        raise exception.NetworkPlumbingError(reason=f'the request is over {MOST_BYTES} bytes')
    link.sendall(LENGTH.pack(len(data)) + data)


def _receive(link):
    length, = LENGTH.unpack(_exactly(link, LENGTH.size))
    if length > MOST_BYTES:
        raise EOFError
    return json.loads(_exactly(link, length))


def _exactly(link, length):
    parts = bytearray()
    while len(parts) < length:
        part = link.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


# ---- the ordinary part ------------------------------------------------------------------

def account(name: str) -> pwd.struct_passwd | None:
    """The user whom a daemon becomes; None when it stays who it is: not root, no name, no such user."""
    if os.geteuid() or not name:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name)
    print(f'There is no user {name}: this process stays root. etc/systemd/nova.sysusers makes it; [privileges] user '
          'names another.', file=sys.stderr)
    return None


def become(user: pwd.struct_passwd, paths: typing.Iterable[str] = (), groups: typing.Iterable[str] = ()) -> None:
    """Be an ordinary user for ever: no capability is left, and no program can give one.

    :param paths: files that root made as this daemon, handed over if they are there
    :param groups: names of further groups, those that exist
    """
    for path in paths:
        _hand_over(path, user)
    more = []
    for name in groups:
        with contextlib.suppress(KeyError):
            more.append(grp.getgrnam(name).gr_gid)
    os.setgroups(sorted({*os.getgrouplist(user.pw_name, user.pw_gid), *more}))
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)              # the kernel takes all capabilities with it
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), 'no_new_privs')
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)


def _hand_over(path, user):
    """Give one file of root to the user, who owns its directory and may have put anything there: only a plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == 0:
            os.fchown(descriptor, user.pw_uid, user.pw_gid)
    finally:
        os.close(descriptor)
