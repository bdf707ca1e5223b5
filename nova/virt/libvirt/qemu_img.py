"""qemu-img with bounds: memory, processor time, and a clock; the format is always given, never probed."""
import json
import os
import re
import subprocess

from nova import exception

GIB = 1024 ** 3
MEMORY = 2 * GIB                         # address space, bytes
INFO_CPU_SECONDS = 10
INFO_TIMEOUT = 30


class QemuImg:
    """:param timeout: seconds for one copy or conversion."""

    def __init__(self, timeout):
        self._timeout = timeout

    def info(self, path, disk_format):
        """What ``qemu-img info`` says, as a dict. Only for files whose header was checked before.

        :raises VirtError: it is not of that format, or reading it takes more than it may
        """
        output = self._run('read the disk', ['info', '--output=json', '-U', '-f', disk_format, path],
                           cpu=INFO_CPU_SECONDS, timeout=INFO_TIMEOUT)
        return json.loads(output)

    def create(self, path, disk_format, size, backing_file=None, backing_format=None):
        """Make a disk of ``size`` bytes, on a backing file if one is given."""
        backing = ['-b', backing_file, '-F', backing_format] if backing_file else []
        self._run('create a disk', ['create', '-q', '-f', disk_format, *backing, path, str(size)])

    def resize(self, path, disk_format, size):
        """Make a disk that no guest uses ``size`` bytes large."""
        self._run('resize a disk', ['resize', '-q', '-f', disk_format, path, str(size)])

    def convert(self, path, disk_format, target, target_format):
        """Copy a disk that no guest writes to, with all that is below it, into a new file."""
        self._run('copy a disk', ['convert', '-q', '-f', disk_format, '-O', target_format, path, target])

    def _run(self, operation, arguments, cpu=None, timeout=None):
        timeout = timeout or self._timeout
        command = ['prlimit', f'--as={MEMORY}', f'--cpu={cpu or timeout}', '--', 'qemu-img', *arguments]
        environment = {'PATH': os.environ.get('PATH', os.defpath), 'LC_ALL': 'C'}
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                                  env=environment)
        except subprocess.TimeoutExpired:
            raise exception.VirtError(operation=operation, reason=f'it took more than {timeout} seconds') from None
        if done.returncode:
            raise exception.VirtError(operation=operation, reason=_reason(done))
        return done.stdout


def _reason(done):
    """One line of what it said, without the directories of this host."""
    lines = done.stderr.decode(errors='replace').strip().splitlines()
    text = lines[-1][:200] if lines else f'qemu-img ended with {done.returncode}'
    return re.sub(r'/[^\s\'",:]*/', '', text)
