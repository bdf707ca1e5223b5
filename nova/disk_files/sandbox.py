"""Sandbox for programs that process untrusted data: bubblewrap (access only to named files), seccomp and limits.

    bwrap      private namespaces: no network, no other processes, a file system of /usr and the named files
    user       USER, or OTHER_USER if USER does not exist; if this process is not root, its own user
    seccomp    SYSTEM_CALLS; all other calls return ENOSYS, as in a kernel that lacks these calls
    prlimit    address space, CPU time, size of a file, number of files, no core dump

Reasons for bubblewrap: ADR 0015.
"""
import contextlib
import dataclasses
import errno
import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import typing
from collections.abc import Iterator, Sequence

from nova import exception
from nova.runtime import disk_space

USER = 'nova-image'                      # created by etc/systemd/nova.sysusers
OTHER_USER = 'nobody'
SECRET = '/secret'                       # path of the secret in the sandbox
TOOLS = {'bwrap': 'bubblewrap', 'prlimit': 'util-linux', 'setpriv': 'util-linux'}       # program: Debian package
MAX_OUTPUT_BYTES = 4 << 20               # maximum bytes read from a program's output
MAX_FILES = 64                           # maximum number of open files
LARGEST_FILE = 1 << 62                   # upper bound of a computed file size limit: prlimit takes numbers of 64 bits

# Ways to create the namespaces, preferred first. 'user': the user of the sandbox creates them in a user namespace, so
# that no program in the sandbox is ever root. This requires unprivileged user namespaces, and that the user may pass
# through the directories of the files. 'root': root creates them, then drops its privileges.
WAYS = ('user', 'root')
UNTRIED = 'untried'                      # no test yet: the test needs a file, but the file system is full

# System calls of qemu-img, the C library and setpriv. The list excludes calls that reach other processes, the network,
# mounts, keys, namespaces or rarely used parts of the kernel.
SYSTEM_CALLS = (
    # files
    'access', 'close', 'close_range', 'copy_file_range', 'dup', 'dup2', 'dup3', 'faccessat', 'faccessat2', 'fadvise64',
    'fallocate', 'fcntl', 'fdatasync', 'flock', 'fstat', 'fstatfs', 'fsync', 'ftruncate', 'getcwd', 'getdents64',
    'lseek', 'lstat', 'newfstatat', 'open', 'openat', 'pread64', 'preadv', 'preadv2', 'pwrite64', 'pwritev', 'pwritev2',
    'read', 'readlink', 'readlinkat', 'readv', 'stat', 'statfs', 'statx', 'sync_file_range', 'umask', 'uname', 'write',
    'writev',
    # memory
    'brk', 'get_mempolicy', 'madvise', 'mmap', 'mprotect', 'mremap', 'munmap', 'set_mempolicy',
    # threads, time and waiting
    # getrusage: QEMU measures the duration of a key derivation
    'arch_prctl', 'clock_getres', 'clock_gettime', 'clock_nanosleep', 'epoll_create1', 'epoll_ctl', 'epoll_pwait',
    'epoll_wait', 'eventfd2', 'exit', 'exit_group', 'futex', 'get_robust_list', 'getrandom', 'getrusage', 'gettid',
    'gettimeofday', 'membarrier', 'nanosleep', 'pause', 'pipe', 'pipe2', 'poll', 'ppoll', 'prlimit64', 'pselect6',
    'restart_syscall', 'rseq', 'rt_sigaction', 'rt_sigpending', 'rt_sigprocmask', 'rt_sigreturn', 'rt_sigsuspend',
    'rt_sigtimedwait', 'sched_getaffinity', 'sched_yield', 'select', 'set_robust_list', 'set_tid_address',
    'sigaltstack', 'signalfd4',
    'tgkill', 'time', 'timer_create', 'timer_delete', 'timer_settime', 'timerfd_create', 'timerfd_settime',
    # needed by bubblewrap to wait, and by setpriv to drop privileges
    'capget', 'capset', 'execve', 'getegid', 'geteuid', 'getgid', 'getgroups', 'getpid', 'getppid', 'getresgid',
    'getresuid', 'getuid', 'prctl', 'setgroups', 'setresgid', 'setresuid', 'wait4')
CLONE_THREAD = 0x00010000                # flag of clone(2): create a thread, not a process
SANDBOX = ('--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--unshare-cgroup-try',
           '--die-with-parent', '--new-session', '--clearenv', '--setenv', 'PATH', '/usr/bin:/bin',
           '--setenv', 'LC_ALL', 'C', '--ro-bind', '/usr', '/usr', '--dir', '/dev',
           '--dev-bind', '/dev/null', '/dev/null')
LINKS = ('/bin', '/lib', '/lib32', '/lib64', '/sbin')
LEAVE_ROOT = ('--cap-drop', 'ALL', '--cap-add', 'CAP_SETUID', '--cap-add', 'CAP_SETGID', '--cap-add', 'CAP_SETPCAP')


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of one run."""

    memory: int                          # bytes of address space
    cpu_s: int
    time_s: float                        # elapsed time
    file_bytes: int                      # size of the largest file that the program may write

    def __post_init__(self) -> None:
        object.__setattr__(self, 'file_bytes', min(max(self.file_bytes, MAX_OUTPUT_BYTES), LARGEST_FILE))


@dataclasses.dataclass(frozen=True)
class Done:
    status: int
    output: bytes                        # at most MAX_OUTPUT_BYTES, like errors
    errors: bytes


class Sandbox:
    """Runs programs in a sandbox.

    :param enabled: False runs programs only with the limits, as this process's user
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._way: str | None = None
        self._filter = b''
        self.user = _user() if os.geteuid() == 0 and enabled else None

    def run(self, command: list[str], limits: Limits, reads: Sequence[str] = (),
            writes: Sequence[str] = (), secret: bytes | None = None) -> Done:
        """Run a program to its end.

        :param command: SECRET in an argument is the path at which the program reads ``secret``
        :param reads: absolute paths of readable files
        :param writes: paths of files to read and write; created if missing
        :raises TimeoutExpired: of subprocess; the program was killed
        :raises VirtError: there is no sandbox on this host
        """
        if self._enabled and self._way is None and self.choose(os.path.dirname((*writes, *reads)[0])) == UNTRIED:
            raise exception.InsufficientStorage()
        with contextlib.ExitStack() as stack:
            for path in reads:
                self._lend(path)
            for path in writes:
                stack.enter_context(self._handed_over(path))
            return self._run(self._way, command, limits, reads, writes, secret)

    def reaches(self, path: str) -> bool:
        """Return whether the sandbox's user may pass through the directories of a file."""
        if self.user is None or self._way == 'root':
            return True
        return all(_may_pass(os.stat(directory), self.user) for directory in ('/', *_above(path)))

    def choose(self, directory: str) -> str:
        """Determine the isolation on this host, by a test with a file in ``directory``.

        :returns: one of WAYS, 'none' if the sandbox is disabled, or UNTRIED
        :raises VirtError: none of WAYS works; the message has the reason
        """
        if not self._enabled:
            return 'none'
        missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
        if missing:
            raise _refusal(f'it needs the Debian package {" and ".join(missing)}')
        try:
            self._filter = self._filter or _filter()
        except ImportError:
            raise _refusal('it needs the Python package pyseccomp') from None
        except RuntimeError as error:
            raise _refusal(f'it needs the Debian package libseccomp2 ({error})') from error
        reasons = []
        for way in WAYS if self.user else WAYS[:1]:
            try:
                reason = self._tried(way, directory)
            except OSError as error:
                if error.errno not in disk_space.FULL:
                    raise
                return UNTRIED                   # the first run of a program repeats the test
            if not reason:
                self._way = way
                return way
            reasons.append(f'{way}: {reason}')
        raise _refusal('; '.join(reasons))

    def _tried(self, way: str, directory: str) -> str:
        """Test one of WAYS; return the reason of its failure, or an empty string."""
        with tempfile.NamedTemporaryFile(prefix='.sandbox-', dir=directory) as file:
            with self._handed_over(file.name):
                # open the file for writing, but write nothing, because the file system may be full
                done = self._run(way, ['sh', '-c', f': >"{file.name}" && echo tried'],
                                 Limits(memory=1 << 30, cpu_s=10, time_s=30, file_bytes=0), writes=[file.name])
            if done.status == 0 and done.output == b'tried\n':
                return ''
            return done.errors.decode(errors='replace').strip()[-200:] or f'bwrap ended with {done.status}'

    def _run(self, way: str | None, command: list[str], limits: Limits, reads: Sequence[str] = (),
             writes: Sequence[str] = (), secret: bytes | None = None) -> Done:
        program = shutil.which(command[0]) or command[0]
        words = ['prlimit', f'--as={limits.memory}', f'--cpu={limits.cpu_s}', f'--fsize={limits.file_bytes}',
                 f'--nofile={MAX_FILES}', '--core=0', '--']
        with contextlib.ExitStack() as stack:
            descriptors: tuple[int, ...] = ()
            kept = None
            if secret is not None:       # use a memory file, because other processes can see arguments
                kept = stack.enter_context(_holding(secret))
                descriptors = (kept,)
            if way is not None:
                rules = stack.enter_context(_holding(self._filter))
                descriptors += (rules,)
                words += self._words(way, program, reads, writes, rules, kept)
            elif kept is not None:
                command = [word.replace(SECRET, f'/dev/fd/{kept}') for word in command]
            output, errors = (stack.enter_context(_memory(MAX_OUTPUT_BYTES)) for _ in range(2))
            environment = {'PATH': os.environ.get('PATH', os.defpath), 'LC_ALL': 'C'}
            done = subprocess.run([*words, program, *command[1:]], stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=errors, timeout=limits.time_s, env=environment, pass_fds=descriptors,
                                  cwd='/')
            return Done(done.returncode, *(_said(file) for file in (output, errors)))

    def _words(self, way: str, program: str, reads: Sequence[str], writes: Sequence[str], descriptor: int,
               secret: int | None = None) -> list[str]:
        """Return the command prefix that runs a program in the sandbox."""
        leave = []
        if self.user is not None:
            leave = ['setpriv', f'--reuid={self.user.pw_uid}', f'--regid={self.user.pw_gid}', '--clear-groups',
                     '--inh-caps=-all', '--bounding-set=-all', '--no-new-privs', '--']
        words = [*(leave if way == 'user' else ()), 'bwrap', *SANDBOX,
                 *(('--unshare-user',) if way == 'user' else LEAVE_ROOT)]
        for link in LINKS:
            if os.path.islink(link):
                words += ['--symlink', os.readlink(link), link]
            elif os.path.isdir(link):
                words += ['--ro-bind', link, link]
        files = [(path, '--ro-bind') for path in reads] + [(path, '--bind') for path in writes]
        if not os.path.realpath(program).startswith('/usr/'):
            files.append((program, '--ro-bind'))
        for path, bind in files:
            for directory in _above(path):
                words += ['--dir', directory]
            words += [bind, path, path]
        if secret is not None:
            words += ['--file', str(secret), SECRET]
        return [*words, '--chdir', '/', '--seccomp', str(descriptor), '--', *(leave if way == 'root' else ())]

    # ---- ownership of the files ---------------------------------------------------

    def _lend(self, path: str) -> None:
        """Grant the sandbox's user read access through the group, unless others may read the file."""
        if self.user is None:
            return
        with opened(path, os.O_RDONLY) as descriptor:
            status = os.fstat(descriptor)
            if status.st_mode & 0o004:
                return
            if status.st_gid != self.user.pw_gid:
                os.fchown(descriptor, -1, self.user.pw_gid)
            if not status.st_mode & 0o040:           # the file was created with a umask of 077
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode) | 0o040)

    @contextlib.contextmanager
    def _handed_over(self, path: str) -> Iterator[None]:
        """Give a file to the sandbox's user while the program runs."""
        with opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
            status = os.fstat(descriptor)
            if self.user is not None:
                os.fchown(descriptor, self.user.pw_uid, self.user.pw_gid)
            try:
                yield
            finally:
                if self.user is not None:
                    os.fchown(descriptor, status.st_uid, status.st_gid)


def _may_pass(directory: os.stat_result, user: pwd.struct_passwd) -> bool:
    if directory.st_uid == user.pw_uid:
        return bool(directory.st_mode & 0o100)
    return bool(directory.st_mode & (0o010 if directory.st_gid == user.pw_gid else 0o001))


def _refusal(reason: str) -> exception.VirtError:
    return exception.VirtError(
        operation='run qemu-img in a sandbox',
        reason=f'{reason}. With [libvirt] sandbox_qemu_img = false there is no sandbox, and an image that '
               'exploits qemu-img controls this host')


def _user() -> pwd.struct_passwd:
    """Return the user of sandboxed programs."""
    for name in (USER, OTHER_USER):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise _refusal(f'there is no user {USER}')


def _filter() -> bytes:
    """Return the seccomp filter as BPF.

    :raises RuntimeError: libseccomp is not installed
    :raises ImportError: its Python module is not installed
    """
    import pyseccomp                     # imported here, because the import needs the library
    made = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.ENOSYS))
    for name in SYSTEM_CALLS:
        with contextlib.suppress(RuntimeError, OSError):             # calls that this architecture does not have
            made.add_rule(pyseccomp.ALLOW, name)
    made.add_rule(pyseccomp.ALLOW, 'clone', pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_THREAD, CLONE_THREAD))
    with _memory() as descriptor, open(descriptor, 'r+b', closefd=False) as file:
        made.export_bpf(file)
        file.seek(0)
        return file.read()


def _above(path: str) -> list[str]:
    """Return the parent directories of a path, outermost first, for --dir.

    Only root can access directories that bwrap creates without --dir.
    """
    found: list[str] = []
    while (path := os.path.dirname(path)) != '/':
        found.insert(0, path)
    return found


@contextlib.contextmanager
def opened(path: str, flags: int) -> typing.Iterator[int]:
    """Yield the descriptor of a regular file that has no second hard link.

    This process may be root and the directory may belong to another user, so symbolic links in the path are refused.
    :param path: absolute path without symbolic links
    :raises OSError: the file is missing, not a regular file, or has a second hard link
    """
    *directories, name = os.fspath(path).strip('/').split('/')
    above = os.open('/', os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for directory in directories:
            below = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
            above = below
        descriptor = os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o640, dir_fd=above)
    finally:
        os.close(above)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise OSError(errno.EPERM, 'it is not a regular file, or has a second hard link')
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _memory(size: int | None = None) -> Iterator[int]:
    """Yield a memory file of at most ``size`` bytes, so that output fills neither this process's memory nor a disk."""
    descriptor = os.memfd_create('sandbox', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        if size is not None:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _holding(content: bytes) -> Iterator[int]:
    """Yield a memory file with this content, positioned at its beginning."""
    with _memory() as descriptor:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor


def _said(descriptor: int) -> bytes:
    length = os.lseek(descriptor, 0, os.SEEK_CUR)
    return os.pread(descriptor, min(length, MAX_OUTPUT_BYTES), 0)
