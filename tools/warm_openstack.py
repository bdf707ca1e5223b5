#!/usr/bin/env python3
"""openstackclient with its modules loaded once: a process that forks for each command, and a command that asks it.

    tools/warm_openstack.py DIRECTORY

Runs in the client's environment and writes the command ``openstack`` into a directory, which comes first in the PATH of
a suite. Most of a command's seconds are the import of the client's libraries. Each command still is a process of its
own with its own environment, and runs the client's own ``main``.
"""
import gc
import json
import os
import pathlib
import signal
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'nova' / 'tests'))
import warm_client

COMMAND = '''#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as link:
    link.connect({path!r})
    socket.send_fds(link, [b'.'], [0, 1, 2])
    link.sendall(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode())
    link.shutdown(socket.SHUT_WR)
    sys.exit(int(link.makefile().read() or 1))
'''
BACKLOG = 32


def main(directory):
    run = warm_client.load('openstack')
    path = directory / 'socket'
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(BACKLOG)
        command = directory / 'openstack'
        command.write_text(COMMAND.format(python=sys.executable, path=str(path)))
        command.chmod(0o755)
        gc.collect()
        gc.freeze()                         # modules stay as they are in each process
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            link, _address = listening.accept()
            if os.fork() == 0:
                _command(link, run)
            link.close()


def _command(link, run):
    """In the forked process: never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _first, files, _flags, _address = socket.recv_fds(link, 1, 3)
    arguments, environ, directory = json.loads(link.makefile().read())
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environ)
    code = 1
    try:
        sys.argv[1:] = arguments
        code = run(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        link.sendall(str(code or 0).encode())
        os._exit(0)


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
