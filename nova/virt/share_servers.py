"""Run programs that serve a mounted share (ceph-fuse) until the process that uses the mount has ended.

A keeper process runs with the program in the mount namespace of the process that uses the mount, and outlives that
process. The program may still buffer data of the guest, and must flush the data before the unmount. This module imports
only the standard library (see virtiofsd.py).
"""
import os
import select
import signal
import subprocess
import time
import typing

READY = b'+'
POLL_S = 0.05                            # interval in seconds of checks whether the share is mounted
FLUSH_S = 60                             # timeout in seconds for the program to flush its data
# control group roots that restrict device access: version 1, hybrid, version 2
DEVICES = ('/sys/fs/cgroup/devices', '/sys/fs/cgroup/unified', '/sys/fs/cgroup')
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def start(command: typing.Sequence[str], directory: str, seconds: float) -> None:
    """Run a program that mounts ``directory`` and serves the mount until this process ends, also after an exec.

    :param seconds: timeout of the mount
    :raises ValueError: the mount failed; standard error has the program's output
    """
    parent = os.pidfd_open(os.getpid())
    ready, ready_end = os.pipe()
    child = os.fork()
    if not child:                        # fork twice, so that the keeper is not a child of this process
        status = 1
        try:
            if not os.fork():
                os.setsid()
                _close_others(parent, ready_end)
                _leave_devices()
                _keep(command, directory, seconds, parent, ready_end)
            status = 0
        except OSError as error:
            os.write(2, f'{command[0]}: {error}\n'.encode())
        finally:
            os._exit(status)
    os.close(ready_end)
    os.close(parent)
    os.waitpid(child, 0)
    with open(ready, 'rb') as answer:
        if answer.read(1) != READY:
            raise ValueError(f'The share cannot be mounted: {command[0]} ended, or timed out after {seconds:.0f} s.')


def _keep(command: typing.Sequence[str], directory: str, seconds: float, parent: int, ready_end: int) -> None:
    deadline = time.monotonic() + seconds
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for each in _IGNORED:                # after the start, because the program must not inherit ignored signals
        signal.signal(each, signal.SIG_IGN)
    here = os.pidfd_open(program.pid)
    ends = select.poll()
    for descriptor in (parent, here):
        ends.register(descriptor, select.POLLIN)
    while not os.path.ismount(directory):
        if time.monotonic() > deadline or ends.poll(POLL_S * 1000):
            program.kill()
            program.wait()
            return
    os.write(ready_end, READY)
    os.close(ready_end)
    ends.poll()
    program.terminate()
    try:
        program.wait(FLUSH_S)
    except subprocess.TimeoutExpired:
        program.kill()


def _leave_devices() -> None:
    """Leave the control group of the guest, into which libvirt has put this process.

    Processes in the group may not open /dev/fuse, and are killed when the guest ends, before they have flushed data.
    """
    for root in DEVICES:
        try:
            group = os.open(root + '/cgroup.procs', os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            os.write(group, b'0')        # 0 means the process that writes
        finally:
            os.close(group)


def _close_others(*kept: int) -> None:
    """Close inherited descriptors, such as the socket for QEMU, except the standard streams."""
    for name in os.listdir('/proc/self/fd'):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:              # the descriptor of listdir, which is already closed
                continue
