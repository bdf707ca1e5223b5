"""The real code of the release before this one, for tests that run it as processes of its own.

It is exported from the repository's history. A clone without history (a shallow one, a source archive) has only the
frozen rows and fields: tests that need processes are skipped there, with the reason, and those that go by the frozen
interface run everywhere.
"""
import functools
import io
import os
import pathlib
import subprocess
import sys
import tarfile

PREVIOUS = '4f1dd8b67df8e4d6ab7a9bc0178e80e6cc59c479'     # or the tag of the previous release
ROOT = pathlib.Path(__file__).parents[3]
_GIT = ('git', '-c', 'safe.directory=*', '-C', ROOT)


@functools.cache
def commit(name=PREVIOUS):
    """The full name of its commit, None where the history does not reach it."""
    try:
        done = subprocess.run([*_GIT, 'rev-parse', '--verify', '--quiet', name + '^{commit}'],
                              capture_output=True, text=True)
    except FileNotFoundError:
        return None                      # there is no git here
    return done.stdout.strip() if done.returncode == 0 else None


def exported(directory, name=PREVIOUS):
    """Its source tree below a directory; None where there is none."""
    if commit(name) is None:
        return None
    archive = subprocess.run([*_GIT, 'archive', commit(name), 'nova', 'etc', 'setup.cfg'], check=True,
                             capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(directory, filter='data')
    return pathlib.Path(directory)


def command(binary, tree=None):
    """The command line of a daemon or tool (``nova-conductor``, ``nova-manage``) of a source tree; None: this one."""
    module = 'nova.cmd.' + binary.removeprefix('nova-')
    return [sys.executable, '-W', 'ignore', '-c', 'import sys; sys.path[:0] = [sys.argv.pop(1)]\n'
            f'from {module} import main; sys.argv[0] = "{binary}"; '
            'sys.exit(getattr(main, "main", main)())', str(tree or ROOT)]      # a module where the command is a package


def environment():
    """For such a process: nothing of this one's deployment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(('OS_', 'PYTHONPATH'))}
