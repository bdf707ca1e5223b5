"""The programs of the Debian packages, on a machine whose Python is another one than that of the package."""
import pathlib
import subprocess
import sys

import pytest

LAUNCHER = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'packaging' / 'launch'


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
