"""Processes that outlive the command that starts them: each leads a group, its number stands in a file."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

from cluster import settings

START_S, STOP_S = 90, 30


class Part:
    """One process of the fleet.

    :param name: of its number, log and row in the status
    :param command: list of arguments
    :param ready: callable, true when it serves
    :param user: that it runs as; None: this one
    :param namespace: network namespace; None: this one
    :param address: shown in the status
    :param end: signal that ends it in order
    """

    def __init__(self, name, command, ready=None, user=None, namespace=None, environment=None, address='',
                 end=signal.SIGTERM):
        self.name, self.command, self.ready, self.user = name, [str(word) for word in command], ready, user
        self.namespace, self.environment, self.address = namespace, environment or {}, address
        self.end = end

    @property
    def log(self):
        return settings.DIRECTORY / 'logs' / f'{self.name}.log'

    @property
    def _file(self):
        return settings.DIRECTORY / 'run' / self.name

    def pid(self):
        """Its number while it runs, else None."""
        with contextlib.suppress(OSError, ValueError):
            number, began = map(int, self._file.read_text().split())
            if _began(number) == began:
                return number
        return None

    def start(self):
        """Start it when it does not run, and wait until it serves; whether it was started.

        :raises RuntimeError: it ended, or does not serve in time
        """
        started = self.launch()
        deadline = time.monotonic() + START_S
        while self.ready and not self.ready():
            if self.pid() is None or time.monotonic() > deadline:
                raise RuntimeError(f'{self.name} does not serve; its log ends so:\n{self.tail()}')
            time.sleep(0.1)
        return started

    def launch(self):
        """Start it when it does not run, and wait for nothing; whether it was started."""
        if self.pid() is not None:
            return False
        words = ['ip', 'netns', 'exec', self.namespace, *self.command] if self.namespace else self.command
        self.log.parent.mkdir(exist_ok=True)
        self._file.parent.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
        with open(self.log, 'ab') as output:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                cwd=settings.DIRECTORY, env={**environment, **self.environment}, user=self.user, group=self.user,
                extra_groups=[] if self.user else None)
        self._file.write_text(f'{process.pid} {_began(process.pid)}')
        return True

    def signal(self, number):
        """Send a signal to the process and to all that it has started (a script starts the broker); whether it ran."""
        pid = self.pid()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        return True

    def kill(self):
        """SIGKILL, and wait until it is gone, as a process table has it: PostgreSQL looks there; whether it ran."""
        pid = self.pid()
        if not self.signal(signal.SIGKILL):
            return False
        deadline = time.monotonic() + STOP_S
        while pathlib.Path(f'/proc/{pid}').exists() and time.monotonic() < deadline:
            _reap(pid)
            time.sleep(0.01)
        return True

    def stop(self):
        """End it, in order if it can; whether it ran."""
        pid = self.pid()
        if not self.signal(self.end):
            return False
        deadline = time.monotonic() + STOP_S
        with contextlib.suppress(ProcessLookupError):          # its group is empty
            while time.monotonic() < deadline:
                _reap(pid)
                os.killpg(pid, 0)
                time.sleep(0.05)
            self.kill()
        return True

    def tail(self, lines=15):
        with contextlib.suppress(OSError):
            return '\n'.join(self.log.read_text(errors='replace').splitlines()[-lines:])
        return ''


def _reap(group):
    """What this process has started, and has ended, is in the process table until its exit code is read."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)


def _began(pid):
    """When a process began, in ticks since the machine did, for a number may be used again.

    None: it is gone or a zombie.
    """
    try:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    except OSError:
        return None
    return None if fields[0] == 'Z' else int(fields[19])


def run(*command, user=None, environment=None, **more):
    """A command to its end.

    :raises RuntimeError: with what it printed
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, user=user, group=user,
                          env={**clean, **(environment or {})}, cwd=settings.DIRECTORY, **more)
    if done.returncode:
        raise RuntimeError(f'{" ".join(map(str, command[:3]))}: {(done.stderr or done.stdout)[-2000:]}')
    return done.stdout
