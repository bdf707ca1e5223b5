"""nova-manage logs: what went wrong, out of log files and the system's log."""
import glob
import os
import re
import shutil
import subprocess

# The level stands behind time and process id, as nova.runtime.log and oslo.log write lines.
_ERROR = re.compile(r'\S+ \S+ \d+ (ERROR|CRITICAL) ')
SYSLOGS = ('/var/log/syslog', '/var/log/messages')


def errors(conf):
    """Print the errors in the log files of this host, the newest first."""
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


def _files(conf):
    from nova import exception
    if conf.log_file:
        return [os.path.join(conf.log_dir or '', conf.log_file)]
    if conf.log_dir:
        return sorted(glob.glob(os.path.join(glob.escape(conf.log_dir), '*.log')))
    raise exception.InvalidInput(reason='neither log_file nor log_dir is set; under systemd, '
                                        'journalctl --priority err has the errors.')


def syslog(conf, number):
    """Print the newest lines that daemons of ours have written to the system's log."""
    from nova import exception
    from nova.runtime import monitoring
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
        tags = [word for name in monitoring.PORTS for word in ('--identifier', name)]
        words = ['journalctl', '--quiet', '--no-pager', '--output', 'short', '--lines', str(number), *tags]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode and done.stderr:
            raise exception.InvalidInput(reason=done.stderr.strip())
        lines = done.stdout.splitlines()
    print(f'Last {number} nova syslog entries:-')
    for line in lines[-number:] or ['No nova entries in syslog!']:
        print(line)


COMMANDS = {'errors': errors, 'syslog': syslog}
OPTIONS = {syslog: {'number': {'type': int, 'nargs': '?', 'default': 10, 'help': 'how many; 10 unless given'}}}
