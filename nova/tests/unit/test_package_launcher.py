"""The programs of the Debian packages, on a machine with another Python than theirs, and a script of a package."""
import os
import pathlib
import subprocess
import sys

import pytest

PACKAGING = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'packaging'
LAUNCHER, DEBIAN = PACKAGING / 'launch', PACKAGING / 'debian'


@pytest.fixture
def launch(tmp_path):
    """A function(Python of the package) that runs the launcher as nova-all; returns (exit code, stdout, stderr)."""
    def run(python):
        folder, program = tmp_path / 'folder', tmp_path / 'nova-all'
        for name in ('bin', 'programs'):
            (folder / name).mkdir(parents=True)
        (folder / 'bin/python3').symlink_to(sys.executable)
        (folder / 'programs/nova-all').write_text('import sys; print(sys.argv[1:])')
        text = LAUNCHER.read_text().replace('/usr/lib/solonova', str(folder)).replace('@PYTHON@', python)
        program.write_text(text.replace('@VERSION@', '1.0.0+deb12').replace('@DEBIAN@', '12'))
        done = subprocess.run([sys.executable, '-IS', program, '--port', '1'], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr
    return run


def test_launcher_runs_the_program(launch):
    assert launch('%d.%d' % sys.version_info[:2]) == (0, "['--port', '1']\n", '')


def test_launcher_names_the_packages_of_this_release_after_an_upgrade_of_the_machine(launch):
    code, _output, error = launch('3.9')
    assert code == 1
    assert error.startswith('nova-all: solonova-common 1.0.0+deb12 is for Debian 12 with Python 3.9, and this machine')
    assert 'Install the packages solonova-common, solonova-compute and solonova of version 1.0.0+deb' in error


STAND_IN = '#!/bin/sh\necho "${0##*/} $*" >>"$CALLS"\n'


@pytest.mark.parametrize('arguments, runs, synced', [
    (['configure', '1.0.0'], True, True), (['configure', '1.0.0'], False, False),
    (['configure', ''], True, False), (['abort-upgrade', '1.0.0'], True, False)])
def test_package_expands_the_schema_before_it_restarts_a_daemon_that_runs(tmp_path, arguments, runs, synced):
    script = (DEBIAN / 'solonova.postinst').read_text().replace('#DEBHELPER#', 'systemctl restart nova-all')
    for name in ('systemctl', 'runuser'):
        (tmp_path / name).write_text(STAND_IN + ('' if runs else '[ "$1" != is-active ]\n'))
        (tmp_path / name).chmod(0o755)
    (tmp_path / 'driver').touch()
    script = script.replace('/run/systemd/system', str(tmp_path)).replace('-e /var/lib/nova', f'-e {tmp_path}')
    subprocess.run(['sh', '-c', script, 'postinst', *arguments], check=True, env={
        'PATH': f'{tmp_path}:{os.environ["PATH"]}', 'CALLS': str(tmp_path / 'calls')})
    calls = [call for call in (tmp_path / 'calls').read_text().splitlines() if 'is-active' not in call]
    assert calls == ([f'runuser -u nova -- nova-manage {database} sync --state-path /var/lib/nova'
                      for database in ('api_db', 'db')] if synced else []) + ['systemctl restart nova-all']
