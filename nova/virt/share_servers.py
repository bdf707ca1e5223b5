"""Programs that serve a mounted share (ceph-fuse), and how long: until the process for which it is mounted has ended.

A keeper stays with the program, in the mount namespace of that process, and outlives it: what a guest has written may
be in the program's memory still, and is written before the mount goes. Modules of the standard library alone.
"""
from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import typing

READY = b'+'
POLL_S = 0.05                            # between two looks whether the share is mounted
FLUSH_S = 60                             # that the program has to write what it holds
# the roots of control groups that say which devices a process may open: of version 1, of both at once, of version 2
DEVICES = ('/sys/fs/cgroup/devices', '/sys/fs/cgroup/unified', '/sys/fs/cgroup')
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def start(command: typing.Sequence[str], directory: str, seconds: float) -> None:
    """Have a program mount ``directory`` and serve it as long as this process lives, whatever it becomes by exec.

    :param seconds: that it has until the directory is mounted
    :raises ValueError: it has not come to that; what it said is in the standard error output
    """
    parent = os.pidfd_open(os.getpid())
    ready, ready_end = os.pipe()
    child = os.fork()
    if not child:                        # two of them: the process's children are none of ours
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
            raise ValueError(f'The share cannot be mounted: {command[0]} has ended, or not done it in {seconds:.0f} s.')


def _keep(command: typing.Sequence[str], directory: str, seconds: float, parent: int, ready_end: int) -> None:
    deadline = time.monotonic() + seconds
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for each in _IGNORED:                # after the start: the program does not ignore them
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
    """Leave the control group of the guest, into which libvirt has put its virtiofsd: its processes may not open
    /dev/fuse, and a guest is not to end with what it wrote in the memory of a program that was killed with it."""
    for root in DEVICES:
        try:
            group = os.open(root + '/cgroup.procs', os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            os.write(group, b'0')        # who writes it
        finally:
            os.close(group)


def _close_others(*kept: int) -> None:
    """Close what was inherited, such as the socket on which QEMU is waited for, and not the standard streams."""
    for name in os.listdir('/proc/self/fd'):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:              # of the listing itself
                continue
