"""The code of an older tree, for tests that run it as processes.

It is exported from the repository's history. Tests that need it are skipped in a clone without history (a shallow one,
a source archive), with the reason.
"""
import configparser
import contextlib
import functools
import os
import pathlib
import subprocess
import sys

from nova.tests.support import waiting

PREVIOUS = ''             # tag of the release before this one, for rolling upgrades; '': this is the first one
# last commit whose databases nova.db.conversion converts
BEFORE = '8f59c7c58e7f8b10ceadd4d452ec9a10fc88eb7d'
ROOT = pathlib.Path(__file__).parents[3]
_GIT = ('git', '-c', 'safe.directory=*', '-C', ROOT)


@functools.cache
def commit(name=PREVIOUS):
    """Return the full name of a commit, None where there is none in the history."""
    if not name:
        return None
    try:
        done = subprocess.run([*_GIT, 'rev-parse', '--verify', '--quiet', name + '^{commit}'],
                              capture_output=True, text=True)
    except FileNotFoundError:
        return None                      # there is no git here
    return done.stdout.strip() if done.returncode == 0 else None


def exported(directory, name=PREVIOUS):
    """Write the source tree of a commit to a directory and return it; None where there is no such commit."""
    if commit(name) is None:
        return None
    archive = subprocess.run([*_GIT, 'archive', commit(name), 'nova', 'etc', 'setup.cfg'], check=True,
                             capture_output=True).stdout
    # not tarfile: Python before 3.11.4 has no filter for what is extracted
    subprocess.run(['tar', '--extract', '--directory', directory], input=archive, check=True)
    _describe(pathlib.Path(directory))
    return pathlib.Path(directory)


def _describe(directory):
    """Write the metadata of a tree's distribution, whose version its programs look up by the name of that time."""
    config = configparser.ConfigParser()
    config.read(directory / 'setup.cfg')
    name, version = config['metadata']['name'], config['metadata']['version']
    info = directory / f'{name}-{version}.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')


@contextlib.contextmanager
def nova_all(source, config, driver):
    """Run nova-all of a source tree with a configuration file, until the end of the block; its output is a file."""
    log = pathlib.Path(config).with_suffix('.log')
    with open(log, 'w') as output:
        process = subprocess.Popen([*command('nova-all', source), '--config-file', str(config), '--driver', driver],
                                   stdout=output, stderr=output, env=environment(), cwd=source)
    try:
        waiting.wait_for(lambda: 'export OS_CLIENT_CONFIG_FILE' in log.read_text() or process.poll() is not None, 300,
                         'the cloud')
        assert process.poll() is None, log.read_text()[-3000:]
        yield
    except BaseException:
        print(log.read_text()[-5000:])
        raise
    finally:
        process.terminate()
        process.wait(120)


def command(binary, tree=None):
    """The command line of a daemon or tool (``nova-conductor``, ``nova-manage``) of a source tree; None: this one."""
    module = 'nova.cmd.' + binary.removeprefix('nova-')
    return [sys.executable, '-W', 'ignore', '-c', 'import sys; sys.path[:0] = [sys.argv.pop(1)]\n'
            f'from {module} import main; sys.argv[0] = "{binary}"; '
            'sys.exit(getattr(main, "main", main)())', str(tree or ROOT)]      # a module where the command is a package


def environment():
    """For such a process: nothing of this one's deployment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(('OS_', 'PYTHONPATH'))}
