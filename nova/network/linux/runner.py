"""Run commands of the host: argument lists, a timeout, and nova exceptions."""
from __future__ import annotations

import logging
import subprocess
from typing import Any

from nova import exception

LOG = logging.getLogger(__name__)

TIMEOUT_S = 30
ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C'}


class Runner:
    """Runs commands.

    :param prefix: arguments before every command, such as ``('ip', 'netns', 'exec', name)``
    """

    def __init__(self, prefix: tuple[str, ...] = ()) -> None:
        self.prefix = list(prefix)

    def __call__(self, *arguments: Any, stdin: Any = None, check: bool = True,
                 descriptors: tuple[int, ...] = ()) -> Any:
        """Return the standard output as text, '' if the command failed and ``check`` is off.

        :param descriptors: file descriptors to pass
        :raises NetworkPlumbingError: the command failed, timed out, or does not exist
        """
        command = [*self.prefix, *arguments]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env=ENVIRONMENT, pass_fds=descriptors)
        except FileNotFoundError:
            raise exception.NetworkPlumbingError(reason=f'{command[0]} is not installed.')
        except subprocess.TimeoutExpired:
            raise exception.NetworkPlumbingError(reason=f'{command[0]} timed out after {TIMEOUT_S} s.')
        if done.returncode:
            if not check:
                return ''
            LOG.error('%s failed (%d): %s', ' '.join(command), done.returncode, done.stderr.strip())
            raise exception.NetworkPlumbingError(reason=f'{arguments[0]} failed: {done.stderr.strip()[:300]}')
        return done.stdout
