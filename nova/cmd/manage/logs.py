"""nova-manage logs: errors in log files and in the system's log."""
from __future__ import annotations

import datetime
import glob
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from oslo_config import cfg

# The level comes after time and process id in lines of nova.runtime.log and oslo.log.
_ERROR = re.compile(r'\S+ \S+ \d+ (ERROR|CRITICAL) ')
MAX_LINES = 10_000            # maximum number of lines read from the journal
_ERR, _INFO = 3, 6            # priorities of syslog
SYSLOGS = ('/var/log/syslog', '/var/log/messages')


def errors(conf: cfg.ConfigOpts) -> None:
    """Print the errors in the log files of this host, the newest first.

    If no log files are configured, print those in the systemd journal, which contains the daemons' standard error.
    """
    if not (conf.log_file or conf.log_dir):
        return _errors_of_journal()
    found = False
    for path in _files(conf):
        with open(path, encoding='utf-8', errors='replace') as file:
            lines = [(number, line.rstrip('\n')) for number, line in enumerate(file, 1) if _ERROR.match(line)]
        if lines:
            found = True
            print(f'{path}:')
            for number, line in reversed(lines):
                print(f'  Line {number}: {line}')
    if not found:
        print('No errors in logfiles!')


def _files(conf: cfg.ConfigOpts) -> list[str]:
    if conf.log_file:
        return [os.path.join(conf.log_dir or '', conf.log_file)]
    return sorted(glob.glob(os.path.join(glob.escape(conf.log_dir), '*.log')))


def _errors_of_journal() -> None:
    if not shutil.which('journalctl'):
        raise exception.InvalidInput(reason='neither log_file nor log_dir is set, and there is no journal. The '
                                            'daemons write their log to standard error.')
    found = False
    for line in _journal('--reverse', '--lines', str(MAX_LINES), '--output', 'json'):
        entry = json.loads(line)
        text = entry.get('MESSAGE')
        if isinstance(text, str) and (_ERROR.match(text) or int(entry.get('PRIORITY', _INFO)) <= _ERR):
            found = True
            moment = datetime.datetime.fromtimestamp(int(entry['__REALTIME_TIMESTAMP']) / 1e6, datetime.UTC)
            print(f'{moment:%Y-%m-%d %H:%M:%S} {entry.get("SYSLOG_IDENTIFIER")}: {text}')
    if not found:
        print(f'No errors in the newest {MAX_LINES} lines of the journal! It does not contain what daemons write to a '
              'terminal.')


def _journal(*words: str) -> list[str]:
    """Return lines of journalctl about nova daemons.

    :raises InvalidInput: journalctl fails, with its message
    """
    from nova.runtime import monitoring
    tags = [word for name in monitoring.PORTS for word in ('--identifier', name)]
    done = subprocess.run(['journalctl', '--quiet', '--no-pager', *words, *tags], capture_output=True, text=True)
    if done.returncode and done.stderr:
        raise exception.InvalidInput(reason=done.stderr.strip())
    return done.stdout.splitlines()


def syslog(conf: cfg.ConfigOpts, number: int) -> None:
    """Print the newest lines of nova daemons in the system log."""
    if number < 1:
        raise exception.InvalidInput(reason=f'{number} lines cannot be shown.')
    for path in SYSLOGS:
        if os.path.exists(path):
            with open(path, encoding='utf-8', errors='replace') as file:
                lines = [line.rstrip('\n') for line in file if 'nova' in line]
            break
    else:
        if not shutil.which('journalctl'):
            raise exception.InvalidInput(reason=f'there is neither {" nor ".join(SYSLOGS)} nor a journal.')
        lines = _journal('--output', 'short', '--lines', str(number))
    print(f'Last {number} nova syslog entries:-')
    for line in lines[-number:] or ['No nova entries in syslog!']:
        print(line)


COMMANDS = {'errors': errors, 'syslog': syslog}
OPTIONS = {syslog: {'number': {'type': int, 'nargs': '?', 'default': 10, 'help': 'number of entries (default: 10)'}}}
