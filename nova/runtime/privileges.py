"""Privilege separation: a helper process keeps its privileges and runs listed operations; the daemon drops privileges.

    helper = Helper({'bridge.make': make})      # {operation: function that checks its keyword arguments}
    helper.fork()                               # before this process starts a thread
    become(account, [paths])                    # from here on, this process is unprivileged
    helper.call('bridge.make', name='br0')

The processes exchange JSON of limited length over socket pairs, so the unprivileged process can send data but no code.
ADR 0015 explains why oslo.privsep is not used.
"""
from __future__ import annotations

import contextlib
import ctypes
import grp
import json
import logging
import os
import pwd
import queue
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time
import typing

from nova import exception
from nova.json_types import JsonObject
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

Operations = typing.Mapping[str, typing.Callable[..., object]]       # {name: function with a JSON result}

MAX_BYTES = 64 << 20                    # maximum length of a request or a reply
LENGTH = struct.Struct('>Q')
ENDED = 'its privileged part has ended'
STOP_S = 5                               # seconds that running operations may take after the other process has ended
PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 8, 24, 38    # prctl(2)
CAPABILITY_VERSION = 0x20080522
# Numbers of capabilities in linux/capability.h.
CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SETPCAP = 0, 1, 3, 5, 6, 7, 8
NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SYS_MODULE, SYS_ADMIN = 10, 12, 13, 16, 21


class Helper:
    """The privileged process, as the daemon sees it: its connections and its operations.

    :param operations: {name: function(**arguments) -> JSON-able value}; a function checks its arguments and raises
        ``failure`` or ValueError for invalid arguments
    :param failure: class of the errors that ``call`` raises; constructed with keyword arguments such as ``reason``
    :param callers: maximum number of concurrent operations
    :param capabilities: function that returns the numbers of the capabilities to keep, called in the helper; None: all
    :param name: name in the health report of the process
    """

    def __init__(self, operations: Operations,
                 failure: typing.Callable[..., exception.NovaException] = exception.NetworkPlumbingError,
                 callers: int = 1, capabilities: typing.Callable[[], typing.Collection[int]] | None = None,
                 name: str = 'privileged part') -> None:
        self._operations, self._failure, self._name = operations, failure, name
        self._callers, self._capabilities = callers, capabilities
        self._links: queue.LifoQueue[socket.socket | None] = queue.LifoQueue()     # None: the helper has ended
        self._ended = self._cut = False
        self.pid: int | None = None

    def fork(self, others: typing.Iterable[Helper] = ()) -> None:
        """Start the privileged process, which ends when the parent dies or closes the socket pairs.

        :param others: Helpers with a running process; the new process closes its copies of their sockets
        """
        pairs = [socket.socketpair() for _ in range(self._callers)]
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                for ours, _theirs in pairs:
                    ours.close()
                for other in others:
                    other.stop()
                if self._capabilities is not None:
                    limit(self._capabilities())
                _serve([theirs for _ours, theirs in pairs], self._operations)
                code = 0
            finally:
                os._exit(code)           # do not run the parent's exit handlers
        for ours, theirs in pairs:
            theirs.close()
            self._links.put(ours)

    def call(self, operation: str, **arguments: object) -> typing.Any:
        """Run an operation and return its result. The type of the result is not checked.

        :raises NovaException: a ``failure``: the operation failed or was refused, or the helper has ended
        """
        try:
            request = _packed({'operation': operation, 'arguments': arguments})
        except ValueError as error:
            raise self._failure(reason=str(error)) from None
        link, answer = self._links.get(), None
        try:
            if link is None:
                raise self._failure(reason=ENDED)
            link.sendall(request)
            answer = _receive(link)
        except (OSError, EOFError):
            raise self._failure(reason=ENDED) from None
        finally:
            if answer is None and link is not None:      # close: the next caller would get the late reply
                link.close()
                link, self._cut = None, True
            self._links.put(link)
        said = answer.get('error')
        if isinstance(said, dict):
            raise self._failure(**said)
        return answer['result']

    def alive(self) -> dict[str, tuple[bool, JsonObject]]:
        """Return the helper's health, see nova.runtime.health. Without the helper the daemon must be restarted."""
        if not self._ended and self.pid is not None:
            try:
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            except ChildProcessError:
                self._ended = True
        gone = self._ended or self._cut
        return {self._name: (not gone, {'error': ENDED} if gone else {'process': self.pid})}

    def start(self) -> None:
        """Do nothing: ``fork`` has started the helper."""

    def stop(self, timeout: float = 0) -> None:
        """End the helper after its running operations, or after ``timeout`` (at least STOP_S)."""
        self._cut = True
        deadline = time.monotonic() + max(timeout, STOP_S)
        for _ in range(self._callers):
            try:
                link = self._links.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if link is not None:
                link.close()
        self._links.put(None)            # tells waiting and later callers that the helper has ended


def _serve(links: list[socket.socket], operations: Operations) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)        # the parent handles signals; this process ends after the parent
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True,
                        format='%(asctime)s %(process)d %(levelname)s %(name)s [privileged] %(message)s')
    first, *others = links
    threads = [threading.Thread(target=_serve_one, args=(link, operations), daemon=True) for link in others]
    for thread in threads:
        thread.start()
    _serve_one(first, operations)
    deadline = time.monotonic() + STOP_S
    for thread in threads:               # idle threads have ended; wait for running operations
        concurrency.join(thread, max(0, deadline - time.monotonic()))


def _serve_one(link: socket.socket, operations: Operations) -> None:
    while True:
        try:
            request = _receive(link)
        except (OSError, EOFError, ValueError):
            return
        with contextlib.suppress(OSError):               # if the parent has ended, the next read fails
            link.sendall(_answer(operations, request))


def _answer(operations: Operations, request: JsonObject) -> bytes:
    try:
        name, arguments = request['operation'], request['arguments']
        if not isinstance(name, str) or name not in operations or not isinstance(arguments, dict):
            raise ValueError('there is no such operation')
        return _packed({'result': operations[name](**arguments)})
    except exception.NovaException as error:
        said = {'reason': str(error), **{name: str(value) for name, value in error.kwargs.items()}}
    except (ValueError, TypeError, KeyError) as error:
        LOG.error('A request was refused: %s', error)
        said = {'reason': f'the privileged part refuses it: {error}'[:500]}
    except Exception as error:
        LOG.exception('An operation failed.')
        said = {'reason': f'{type(error).__name__} in the privileged part'}
    return _packed({'error': said})


def _packed(value: object) -> bytes:
    data = json.dumps(value).encode()
    if len(data) > MAX_BYTES:
        raise ValueError(f'it is over {MAX_BYTES} bytes')
    return LENGTH.pack(len(data)) + data


def _receive(link: socket.socket) -> JsonObject:
    length, = LENGTH.unpack(_exactly(link, LENGTH.size))
    if length > MAX_BYTES:
        raise EOFError
    document: JsonObject = json.loads(_exactly(link, length))
    return document


def _exactly(link: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = link.recv(min(length - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


# ---- capabilities: capabilities(7) -----------------------------------------------------

class _Header(ctypes.Structure):
    _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [('effective', ctypes.c_uint32), ('permitted', ctypes.c_uint32), ('inheritable', ctypes.c_uint32)]


def limit(capabilities: typing.Collection[int]) -> None:
    """Drop all capabilities except these, for this process and the programs that it runs.

    :raises OSError: the kernel refuses
    """
    for number in range(64):
        if number not in capabilities and _libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0):
            break  # no further capability exists; or the call is not permitted, and only ``_keep`` drops capabilities
    _keep(capabilities)
    _gain_nothing()


def _keep(capabilities: typing.Collection[int]) -> None:
    """Drop all capabilities of this process except these."""
    header, sets = _Header(CAPABILITY_VERSION, 0), (_Sets * 2)()
    _checked(_libc().capget(ctypes.byref(header), sets), 'capget')
    for word, each in enumerate(sets):
        wanted = sum(1 << (number % 32) for number in capabilities if number // 32 == word)
        each.effective = each.permitted = each.permitted & wanted
        each.inheritable = 0
    _checked(_libc().capset(ctypes.byref(header), sets), 'capset')


def _gain_nothing() -> None:
    _checked(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 'no_new_privs')


def _checked(status: int, what: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), what)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# ---- the unprivileged process ------------------------------------------------------------------

def account(name: str) -> pwd.struct_passwd | None:
    """Return the user for a daemon, or None if the daemon does not run as root or the user is unset or missing."""
    if os.geteuid() or not name:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(name)
    print(f'There is no user {name}, so this process stays root. etc/systemd/nova.sysusers creates the user; '
          '[privileges] user selects another one.', file=sys.stderr)
    return None


def try_as(user: pwd.struct_passwd, groups: typing.Iterable[str], attempt: typing.Callable[[], str | None]) -> str:
    """Run ``attempt`` in a child process as ``user``; return its error text, or '' for success."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(user, groups=groups)
            said = attempt() or ''
        except BaseException as error:
            said = f'{type(error).__name__}: {error}'
        try:
            os.write(writer, said.encode(errors='replace')[:select.PIPE_BUF])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, 'rb') as file:
        said = file.read().decode(errors='replace')
    os.waitpid(pid, 0)
    return said


def become(user: pwd.struct_passwd, paths: typing.Iterable[str] = (), groups: typing.Iterable[str] = (),
           capabilities: typing.Collection[int] = ()) -> None:
    """Become an unprivileged user permanently; programs that the process runs cannot regain a capability.

    :param paths: files and directories to give to the user if root owns them: an earlier run as root created them
    :param groups: names of additional groups; missing ones are ignored
    :param capabilities: numbers of the capabilities to keep; programs that the process runs do not get them
    """
    for path in paths:
        hand_over(path, user)
    more = []
    for name in groups:
        with contextlib.suppress(KeyError):
            more.append(grp.getgrnam(name).gr_gid)
    os.setgroups(sorted({*os.getgrouplist(user.pw_name, user.pw_gid), *more}))
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    if capabilities:
        _checked(_libc().prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 'keepcaps')
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)    # with KEEPCAPS the kernel drops no capability here
    _keep(capabilities)                                    # also drops inheritable capabilities, which systemd 257 sets
    _gain_nothing()
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)


# ---- files of root ----------------------------------------------------------------

def hand_over(path: str, user: pwd.struct_passwd) -> None:
    """Change the owner of a file, or of a directory and its files, to a user if the present owner is root.

    Links are not followed, because the user may have created them.
    """
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            for _directory, _names, names, descriptor in os.fwalk(path):
                _give(descriptor, user)
                for name in names:
                    with plain_file(name, descriptor) as file:
                        if file is not None:
                            _give(file, user)
        else:
            with plain_file(path) as file:
                if file is not None:
                    _give(file, user)


@contextlib.contextmanager
def plain_file(name: str, directory: int | None = None) -> typing.Iterator[int | None]:
    """Yield the descriptor of a regular file with a single hard link; None for any other path.

    :param directory: descriptor of the directory of the file
    """
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        yield None
        return
    try:
        status = os.fstat(descriptor)
        yield descriptor if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else None
    finally:
        os.close(descriptor)


def _give(descriptor: int, user: pwd.struct_passwd) -> None:
    if os.fstat(descriptor).st_uid == 0:
        os.fchown(descriptor, user.pw_uid, user.pw_gid)
