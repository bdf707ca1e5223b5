"""Parts of tools/quickstart.sh upgrade and tools/changes.py that need no cloud."""
import importlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from nova import version

TOOLS = pathlib.Path(__file__).parents[3] / 'tools'


@pytest.fixture
def tools(monkeypatch):
    """Import a module of tools/ by its name."""
    monkeypatch.setattr(sys, 'path', [str(TOOLS), *sys.path])
    return importlib.import_module


@pytest.mark.parametrize('first, second, older', [
    ('1.0.0', '1.1.0', True), ('1.1.0', '1.0.0', False), ('1.0.0', '1.0.0', False), ('1.9.0', '1.10.0', True),
    ('1.1.0rc1', '1.1.0', True), ('1.1.0', '1.1.0rc1', False), ('1.0.0', '1.1.0.dev3', True)])
def test_candidate_comes_before_its_release(first, second, older):
    done = subprocess.run(['bash', '-c', f'. {TOOLS}/upgrade.sh; is_older {first} {second}'])
    assert (done.returncode == 0) == older


def test_downtime_is_the_longest_time_between_two_answers(tools):
    seconds, answers = iter([0, 1, 1, 2, 2, 9, 9, 10, 10, 10]), iter([None, None, OSError, None, None])

    def ask():
        answer = next(answers)
        if answer:
            raise answer
    meter = tools('downtime').Meter(ask, lambda: next(seconds))
    for _ in range(5):
        meter.probe()
    assert meter.seconds == 7


def test_release_of_another_version_than_that_of_the_code_is_refused(tools, capsys):
    assert tools('changes').main(['release', '99.0.0', '2027-03-01']) == 1
    assert capsys.readouterr().err == f'nova/version.py has version {version.VERSION}: set it to 99.0.0 first\n'


@pytest.fixture
def installed(tmp_path):
    """installed(words): tools/quickstart.sh beside the settings of a cloud; exit code and text."""
    own = tmp_path / ('state-quickstart' if os.getuid() == 0 else 'state')
    own.mkdir()
    (own / 'settings').write_text('driver=fake\nlisten=127.0.0.1\nport=8774\nguests=10.44.0.0/24\n'
                                  'outside=172.24.4.0/24\n')

    def run(*words):
        done = subprocess.run([TOOLS / 'quickstart.sh', *words, '--state-path', tmp_path / 'state'], text=True,
                              capture_output=True, timeout=60, env={**os.environ, 'NOVA_VENV': str(tmp_path / 'venv')})
        return done.returncode, done.stdout + done.stderr
    return run


@pytest.mark.parametrize('words, kept', [('--port 8775', '8774'), ('--driver libvirt', 'fake'),
                                         ('--listen 192.0.2.1', '127.0.0.1')])
def test_upgrade_refuses_options_of_an_installation(installed, words, kept):
    code, text = installed('upgrade', *words.split())
    assert code == 1 and f"{words.split()[0]} is not an option of upgrade; the cloud keeps '{kept}'." in text


def test_upgrade_takes_the_options_that_the_cloud_has(installed):
    code, text = installed('upgrade', '--port', '8774', '--driver', 'fake')
    assert code == 1 and 'not an option' not in text and 'NOVA_VENV' in text


@pytest.mark.parametrize('before, given, after', [
    ('', {'https_proxy': 'new'}, 'https_proxy=new'),
    ('https_proxy=old', {}, 'https_proxy=old'),
    ('https_proxy=old', {'https_proxy': 'new'}, 'https_proxy=new'),
    ('https_proxy=old\nHTTPS_PROXY=old', {'HTTPS_PROXY': 'new'}, 'HTTPS_PROXY=new'),
    ('https_proxy=old', {'https_proxy': ''}, 'https_proxy='),
    ('https_proxy=a b\nHTTPS_PROXY=c', {'NOVA_PYTHON': '/x', 'UV_CACHE_DIR': '/y'},
     'HTTPS_PROXY=c\nNOVA_PYTHON=/x\nhttps_proxy=a b')])
def test_environment_of_an_earlier_run_holds_until_the_caller_sets_another(tmp_path, before, given, after):
    """The first installation's proxy was put over that of an upgrade, and a run without a proxy forgot it."""
    (tmp_path / 'environment').write_text(before and before + '\n')
    cut = ''.join(f'eval "$(sed -n "/^{name}()/,/^}}/p" {TOOLS}/quickstart.sh)"; '
                  for name in ('keep_environment', 'save_environment'))
    subprocess.run(['bash', '-c', f'set -euo pipefail; own={tmp_path}; {cut} keep_environment; save_environment'],
                   check=True, env={'PATH': os.defpath, **given})
    assert sorted((tmp_path / 'environment').read_text().splitlines()) == after.splitlines()


def test_start_is_left_to_the_installed_release(tmp_path):
    site, program = tmp_path / 'venv/lib/python3.11/site-packages/nova', tmp_path / 'source/tools/quickstart.sh'
    site.mkdir(parents=True)
    (site / 'version.py').write_text("VERSION = '0.0.1'\n")
    script = (f'. {TOOLS}/lib.sh; . {TOOLS}/upgrade.sh; venv={tmp_path}/venv source={tmp_path}/source action=start; '
              'refuse_other_release start --state-path "/a b"')
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True)
    assert done.returncode == 1 and 'Release 0.0.1 is installed' in done.stderr
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, 'start|--state-path|/a b|')
    done = subprocess.run(['bash', '-c', script.replace('=start', '=install')], capture_output=True, text=True)
    assert done.returncode == 1


def test_interrupted_step_tells_of_the_return_and_leaves_no_ticker(tmp_path):
    script = (f'set -euo pipefail; . {TOOLS}/lib.sh; . {TOOLS}/upgrade.sh; log={tmp_path}/log base={tmp_path} new=2; '
              'switched=no was_running=no meter= installed_version=0.0.1; return_on_failure; '
              f'slow() {{ echo $ticker >{tmp_path}/ticker; kill -INT $$; sleep 0.1; }}; step Slow slow')
    # A shell in the background ignores SIGINT, and what it starts cannot trap it.
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True, timeout=8,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert done.returncode == 130 and done.stdout.endswith(' interrupted\n')
    assert 'Release 0.0.1 is installed as before; no data were lost.' in done.stderr
    ticker = int((tmp_path / 'ticker').read_text())
    assert not pathlib.Path('/proc', str(ticker)).exists()


# Stand-ins for what tools/upgrade.sh calls: each writes its name, and the one of $1 fails.
PARTS = '''
set -euo pipefail
. tools/lib.sh; . tools/upgrade.sh
cd {place}
mkdir 1 2
log=$PWD/log base=$PWD old=1 new=2 root=yes systemd=yes was_running=yes switched=no meter=
files=("$PWD"/{{users,guests,directories,unit}})
unit=$PWD/unit up=yes
mkdir unit.d; touch users directories unit       # without guests: a cloud with simulated ones
installed_version=0.0.1
part() {{ echo "$*" >>calls; [ "$1" != "{failing}" ]; }}
install_units() {{ part units "${{@##*/2/}}"; }}
stop_cloud() {{ part stop && up=no; }}
link_programs() {{ part programs; }}
systemctl() {{ part "$1"; case $1 in stop) up=no ;; start) up=yes ;; esac; }}
running() {{ [ $up = yes ]; }}
serving() {{ part asks && running; }}
show_log() {{ :; }}
return_on_failure
step Change switch
trap - EXIT
'''


@pytest.mark.parametrize('failing, calls', [
    ('', 'units venv|stop|reset-failed|start|programs|asks|asks'),
    ('units', 'units venv|daemon-reload|asks|asks'),            # the installed release has served all the time
    ('stop', 'units venv|stop|stop|daemon-reload|reset-failed|start|asks|asks'),
])
def test_units_are_made_while_the_installed_release_serves(tmp_path, failing, calls):
    done = subprocess.run(['bash', '-c', PARTS.format(place=tmp_path, failing=failing)], capture_output=True, text=True,
                          timeout=20, cwd=TOOLS.parent)
    assert (tmp_path / 'calls').read_text().splitlines() == calls.split('|')
    assert done.returncode == (1 if failing else 0), done.stderr
    assert ('0.0.1 serves as before' in done.stderr) == bool(failing)


def test_release_that_an_interrupted_upgrade_left_is_removed(tmp_path):
    for name in ('1', '2', '10', 'cache', '3a'):
        (tmp_path / name).mkdir()
    (tmp_path / 'current').symlink_to('10')
    subprocess.run(['bash', '-c', f'set -euo pipefail; . {TOOLS}/upgrade.sh; base={tmp_path} new=10; remove_former'],
                   check=True)
    assert {path.name for path in tmp_path.iterdir()} == {'10', 'cache', '3a', 'current'}


@pytest.mark.parametrize('python, modules, known', [
    ('python3.11', 'python3.11', True), ('python3.13', 'python3.11', False), ('python3', 'python3.11', True)])
def test_python_of_an_environment_is_started_only_if_its_name_does_not_tell(tmp_path, python, modules, known):
    venv, program = tmp_path / 'venv', tmp_path / python
    (venv / 'bin').mkdir(parents=True)
    (venv / 'lib' / modules / 'site-packages').mkdir(parents=True)
    (venv / 'nova.stamp').write_text('1')
    program.write_text(f'#!/bin/sh\necho started\nexit {0 if known else 1}\n')
    program.chmod(0o755)
    (venv / 'bin/python').symlink_to(program)
    check = subprocess.run(['bash', '-c', f'. {TOOLS}/lib.sh; venv_check {venv} "exec echo anew"'],
                           capture_output=True, text=True, check=True).stdout

    def run():
        return subprocess.run(['sh', '-c', check], capture_output=True, text=True).stdout
    assert run() == ('' if python == modules else 'started\n' if known else 'started\nanew\n')
    (venv / 'nova.stamp').unlink()
    assert run() == 'anew\n'


def test_file_that_is_neither_wheel_nor_bundle_is_refused(tmp_path):
    done = subprocess.run([TOOLS / 'quickstart.sh', 'upgrade', tmp_path / 'a.zip'], capture_output=True, text=True)
    assert done.returncode == 2 and 'is not an option or action of this command' in done.stderr
