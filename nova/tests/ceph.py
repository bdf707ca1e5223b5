"""A real Ceph of one node for tests, by tools/ceph.sh. Tests with it are skipped where Ceph is not installed."""
import configparser
import os
import pathlib
import subprocess
import tempfile

import pytest

from nova.tests import ports

TOOL = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'ceph.sh'
USER = 'nova'
START_S, COMMAND_S = 120, 60


def missing(files: bool = False) -> str | None:
    """Why there is no Ceph here, as a sentence.

    :param files: with a file system
    """
    if not TOOL.exists():
        return 'tools/ceph.sh is not part of an installed nova'
    if os.geteuid() != 0:
        return 'Ceph needs root'
    program = subprocess.run([TOOL, 'missing'], check=True, capture_output=True, text=True,
                             env=_environment(files)).stdout.strip()
    return f'Ceph is not installed: there is no {program}' if program else None


def _environment(files: bool) -> dict[str, str]:
    return {**os.environ, 'FILES': 'yes' if files else ''}


class Ceph:
    """A started Ceph.

    :param directory: an empty one, or that of a Ceph that was stopped
    :param address: where it listens
    :param size: at most so much is stored
    :param files: with the file system "shares"
    """

    def __init__(self, directory: pathlib.Path, address: str = '127.0.0.1', size: str = '2G',
                 files: bool = False) -> None:
        self._files = files
        self.directory, self.pool, self.user, self.address, self._size = directory, 'vms', USER, address, size
        self._port = ports.free(ports.CEPH, needed=2)           # of the monitors
        self.start()

    @property
    def conf(self) -> pathlib.Path:
        """The configuration file of its clients."""
        return self.directory / 'ceph.conf'

    @property
    def key(self) -> str:
        """The key of ``user``, in base64."""
        keyring = configparser.ConfigParser()
        keyring.read_string((self.directory / f'ceph.client.{self.user}.keyring').read_text().replace('\t', ''))
        return keyring[f'client.{self.user}']['key']

    @property
    def monitor(self) -> tuple[str, int]:
        """Address and port of the monitor as block storages tell them: that of the first version of its protocol."""
        return self.address, self._port + 1

    def start(self) -> None:
        self._tool('start')

    def stop(self) -> None:
        self._tool('stop')

    def rbd(self, *arguments: str | os.PathLike[str], pool: str | None = None,
            timeout: float = COMMAND_S) -> str:
        """What the program rbd prints, as ``user``, in ``pool`` unless told."""
        command = ['rbd', '-c', self.conf, '-n', f'client.{self.user}', '-p', pool or self.pool, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout).stdout

    def images(self) -> list[str]:
        """Names of the images in the pool."""
        return self.rbd('ls').split()

    def _tool(self, action: str) -> None:
        environment = {**_environment(self._files), 'PORT': str(self._port), 'POOL': self.pool, 'SIZE': self._size,
                       'ADDRESS': self.address}
        done = subprocess.run([TOOL, action, self.directory], env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, timeout=START_S)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope='module')
def ceph():
    """A Ceph that the tests of a module share."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix='nova-ceph-') as directory:
        made = None
        try:
            made = Ceph(pathlib.Path(directory))
            yield made
        finally:
            subprocess.run([TOOL, 'stop', directory], check=made is not None)
