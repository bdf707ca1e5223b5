"""A nova-compute that can be told to die right before the n-th thing that it does to the world.

    NOVA_DIES_IN=DIRECTORY python -m nova.tests.integration.dying_compute --config-file FILE

What it does to the world: it changes a guest through libvirt, changes files of guests, runs a program, asks its
privileged process, or sends a message. While DIRECTORY has a file ``at`` with a number, each of these is a line in
``steps`` there, and before the one with that number the process ends by SIGKILL: 1 dies before anything was done, and
0 never.
"""
from __future__ import annotations

import functools
import os
import pathlib
import signal
import sys
import threading
from typing import Any

import libvirt

from nova.cmd import compute
from nova.runtime import concurrency

PLACE = pathlib.Path(os.environ.get('NOVA_DIES_IN') or '/nonexistent')
AT, STEPS, LAST = 'at', 'steps', 'last'
# methods of libvirt's objects that change something
CHANGES = {
    'virConnect': ('defineXML', 'secretDefineXML'),
    'virSecret': ('setValue', 'undefine'),
    'virDomain': ('create', 'createWithFlags', 'destroy', 'undefineFlags', 'shutdown', 'suspend', 'resume',
                  'managedSave', 'managedSaveDefineXML', 'managedSaveRemove', 'attachDeviceFlags', 'detachDeviceFlags',
                  'updateDeviceFlags', 'backupBegin', 'abortJob', 'blockCopy', 'blockJobAbort',
                  'setMetadata', 'setVcpusFlags', 'blockResize', 'fsFreeze', 'fsThaw'),
}
# of Python's audit events: the argument that is a path
FILES = {'os.rename': 1, 'os.remove': 0, 'os.mkdir': 0, 'os.rmdir': 0, 'os.truncate': 0, 'os.link': 1}
GUESTS = '/instances/'
# shutil.rmtree names what it removes relative to an open directory, which is the second argument
IN_A_TREE = ('os.remove', 'os.rmdir')
# what the privileged process only reads
READS = ('console', 'qemu_settings')
# what is sent all the time, whatever happens to servers
BEATS = ('heartbeat', 'register_service', 'report_service', 'report_nodes', 'report_host', 'report_power_states',
         'host_state', 'object_backport', 'audit_instance_usage', 'notify', 'server_states',
         'report_guests')


class Counter:
    def __init__(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._inside = threading.local()

    def step(self, name: str) -> None:
        """Write down what comes next, or die before it."""
        if os.getpid() != self._pid or getattr(self._inside, 'now', False):
            return
        self._inside.now = True
        try:
            with self._lock:
                self._step(name)
        finally:
            self._inside.now = False

    def _step(self, name: str) -> None:
        try:
            at = (PLACE / AT).read_text()
        except FileNotFoundError:
            return
        with open(PLACE / STEPS, 'a+') as steps:
            steps.write(name + '\n')
            steps.seek(0)
            number = len(steps.readlines())
        if at.strip() == str(number):
            (PLACE / LAST).write_text(name)
            (PLACE / AT).unlink()            # the next one lives
            os.kill(self._pid, signal.SIGKILL)


def counted(counter: Counter, name: str, function: Any) -> Any:
    @functools.wraps(function)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        counter.step(name)
        return function(*args, **kwargs)
    return stepped


def watch(counter: Counter) -> None:
    """Have every step counted from now on."""
    for kind, names in CHANGES.items():
        of = getattr(libvirt, kind)
        for name in names:
            setattr(of, name, counted(counter, f'libvirt {name}', getattr(of, name)))

    from nova.rpc import bus                 # the thread model has been chosen
    from nova.runtime import privileges
    send, call = bus.Client._send, privileges.Helper.call

    def sent(self: bus.Client, method: Any, *args: Any, **kwargs: Any) -> Any:
        if method.name not in BEATS:
            counter.step(f'send {method.name}')
        return send(self, method, *args, **kwargs)

    def called(self: privileges.Helper, operation: str, **arguments: Any) -> Any:
        if operation not in READS:
            counter.step(f'ask for {operation}')
        return call(self, operation, **arguments)
    bus.Client._send, privileges.Helper.call = sent, called              # type: ignore[method-assign]

    def happened(event: str, args: tuple[Any, ...]) -> None:
        if event == 'subprocess.Popen':
            words = [os.path.basename(str(word)) for word in args[1][:2]]
            counter.step('run ' + ' '.join(words))
        elif event in FILES and (GUESTS in str(args[FILES[event]]) or event in IN_A_TREE and args[1] != -1):
            counter.step(f'{event} {os.path.basename(str(args[FILES[event]]))}')
    sys.addaudithook(happened)


def main() -> int:
    concurrency.setup()
    watch(Counter())
    return compute.main()


if __name__ == '__main__':
    sys.exit(main())
