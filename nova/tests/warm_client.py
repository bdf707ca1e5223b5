"""The clients openstack, nova and aws with their modules loaded once: a process that forks for each command.

Most of a command's seconds are the import of the client's libraries. Each command still is a process of its own, with
its own environment, and runs the client's own ``main``. It looks more often than it would by itself whether what it
waits for has come: seconds lie between two looks of a ``--wait``. Which packages are installed is read once as well, of
which the client tells in its help alone: that is a third of a command.
"""
import atexit
import contextlib
import functools
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 180            # that a command may take
PAUSE_S = 0.5            # the longest of its sleeps; some waits end after so many of them


@functools.cache
def client(program='openstack', interpreter=sys.executable):
    """The one of this process: of ``openstack``, ``nova`` or ``aws``.

    :param interpreter: path of the Python that the program is installed for
    """
    made = Client(program, interpreter)
    atexit.register(made.close)
    return made


class Client:
    """The parent's side: as ``subprocess.run(['openstack', …])``."""

    def __init__(self, program, interpreter=sys.executable):
        self._process = subprocess.Popen([interpreter, '-W', 'ignore', __file__, program], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)

    def run(self, arguments, environ, directory=None):
        """(exit code, what was printed) of a command in a directory; None: this one."""
        with tempfile.NamedTemporaryFile() as printed:
            command = arguments, environ, printed.name, str(directory or os.getcwd())
            self._process.stdin.write(json.dumps(command) + '\n')
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer, 'the client ended by itself'
            return int(answer), pathlib.Path(printed.name).read_text()

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)               # on a busy machine
        self._process.stdout.close()


def load(program):
    """Everything that a command imports; its ``main``."""
    import importlib.metadata

    sys.argv[0] = program               # the name that usage texts have
    importlib.metadata.packages_distributions = functools.cache(importlib.metadata.packages_distributions)
    importlib.metadata.packages_distributions()
    if program == 'nova':
        importlib.import_module('novaclient.v2.shell')
        return importlib.import_module('novaclient.shell').main
    if program == 'aws':
        for name in ('handlers', 'customizations.s3.s3', 'customizations.s3.subcommands'):
            importlib.import_module(f'awscli.{name}')
        clidriver, places = importlib.import_module('awscli.clidriver'), os.environ['AWS_DATA_PATH']

        def main(_arguments):
            os.environ['AWS_DATA_PATH'] = places           # of its own files, which it has set at its import
            return clidriver.main()
        return main
    from openstackclient import shell
    points = importlib.metadata.entry_points()
    for group in points.groups:
        if group.startswith(('openstack.', 'cliff.', 'keystoneauth1.')):
            for point in points.select(group=group):
                with contextlib.suppress(Exception):    # a plugin that is not for here: the command would say so
                    point.load()
    return shell.main


def _command(main, arguments, environ, printed, directory):
    """In the forked process: never returns."""
    signal.alarm(SECONDS)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environ)
    with open(printed, 'w') as out, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    code, sleep = 1, time.sleep
    time.sleep = lambda seconds: sleep(min(seconds, PAUSE_S))
    try:
        sys.argv[1:] = arguments
        code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _serve():
    main, answers = load(sys.argv[1]), os.fdopen(os.dup(1), 'w')
    gc.collect()
    gc.freeze()                         # modules stay as they are in each process
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _command(main, *json.loads(line))
        _, status = os.waitpid(pid, 0)
        answers.write(f'{os.waitstatus_to_exitcode(status)}\n')
        answers.flush()
    os._exit(0)                         # what it has loaded takes seconds to be taken down


if __name__ == '__main__':
    _serve()
