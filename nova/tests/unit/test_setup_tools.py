"""tools/packages.py installs as pip is set to, with and without uv; tools/lib.sh does things in the background."""
import fcntl
import importlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from nova.tests.support import waiting

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
PYTHON = '''#!/bin/sh
echo "pip $*" >>{directory}/calls
case "$*" in
    *config*) echo "global.index-url='https://mirror/simple'" ;;
    *install*uv) {uv} ;;
esac
'''
UV = '''#!/bin/sh
[ "$1" = --version ] || echo "uv $* from $UV_DEFAULT_INDEX" >>{directory}/calls
[ "$1" = --version ] || exit {code}
'''

pytestmark = pytest.mark.skipif(not (TOOLS / 'packages.py').exists(), reason='tools are not part of an installed nova')


@pytest.fixture
def packages(monkeypatch):
    monkeypatch.setattr(sys, 'path', [str(TOOLS), *sys.path])
    return importlib.import_module('packages')


@pytest.mark.parametrize('settings, environ, expected', [
    ('', {}, {}),
    ("global.index-url='https://a/simple'", {}, {'UV_DEFAULT_INDEX': 'https://a/simple'}),
    ("global.index-url='https://a/simple'\n:env:.index-url='https://b/simple'", {}, {'UV_DEFAULT_INDEX': 'https://b/simple'}),
    (":env:.cert='/x'\nglobal.cert='/y'\ninstall.cert='/z'\nglobal.quiet='1'", {}, {'SSL_CERT_FILE': '/x'}),
    ("global.extra-index-url='\\nfile:///a\\nfile:///b'", {},
     {'UV_INDEX': 'file:///a file:///b', 'UV_INDEX_STRATEGY': 'unsafe-best-match'}),
    ("global.find-links='/a /b'", {}, {'UV_FIND_LINKS': '/a,/b'}),
    ("global.index-url='https://a/simple'\nglobal.extra-index-url='https://c'", {'UV_INDEX_URL': 'https://b'},
     {'UV_INDEX_URL': 'https://b'}),
    ("global.index-url='https://a/simple'", {'UV_SYSTEM_PYTHON': '1'}, {'UV_DEFAULT_INDEX': 'https://a/simple'}),
    ("wheel.no-index='true'\nglobal.retries='1'", {}, {}),
    ("global.no-index='true'", {}, None),
    ("install.require-hashes='true'", {}, None),
])
def test_uv_obeys_the_settings_of_pip(packages, settings, environ, expected):
    assert packages.uv_environ(settings, environ) == expected


def test_the_settings_are_those_that_pip_prints(packages, monkeypatch):
    pytest.importorskip('pip')
    for name in [name for name in os.environ if name.startswith('PIP_')]:
        monkeypatch.delenv(name)
    monkeypatch.setenv('PIP_CONFIG_FILE', os.devnull)
    monkeypatch.setenv('PIP_INDEX_URL', 'https://mirror.example/simple')
    environ = packages.uv_environ(packages.pip_settings(sys.executable), {})
    assert environ == {'UV_DEFAULT_INDEX': 'https://mirror.example/simple'}


def _install(packages, directory, monkeypatch, uv, code=0, packaged=False):
    """What was called for the installation of a requirement where pip can do ``uv`` with the request for uv."""
    program = directory / 'bin' / 'python'
    program.parent.mkdir()
    (directory / 'uv').write_text(UV.format(directory=directory, code=code))
    (directory / 'uv').chmod(0o755)
    program.write_text(PYTHON.format(directory=directory, uv=uv.format(directory=directory)))
    program.chmod(0o755)
    monkeypatch.setenv('PATH', '/usr/bin:/bin')
    monkeypatch.setenv('NOVA_VENV', str(directory))
    monkeypatch.setattr(packages, 'DEBIAN_MODULES', directory / 'none')
    for name in [name for name in os.environ if name.startswith('UV_')]:
        monkeypatch.delenv(name)
    packages.install(directory, ['six'], packaged)
    return [' '.join(word for word in line.split() if not word.startswith(('-', '/')))
            for line in (directory / 'calls').read_text().splitlines()]


SETTINGS = 'pip pip config list'


def test_uv_is_installed_by_pip_and_installs_packages(packages, tmp_path, monkeypatch):
    calls = _install(packages, tmp_path, monkeypatch, 'cp {directory}/uv {directory}/bin/uv')
    assert calls == [SETTINGS, 'pip pip install uv', 'uv pip install six from https://mirror/simple']


def test_folder_of_a_package_has_copies_of_files_instead_of_links_to_the_cache(packages, tmp_path, monkeypatch):
    calls = _install(packages, tmp_path, monkeypatch, 'cp {directory}/uv {directory}/bin/uv', packaged=True)
    assert calls[-1] == 'uv pip install copy six from https://mirror/simple'


def test_pip_installs_where_uv_cannot_be_had(packages, tmp_path, monkeypatch, capfd):
    calls = _install(packages, tmp_path, monkeypatch, 'exit 1')
    assert calls == [SETTINGS, 'pip pip install uv', 'pip pip install six']
    assert capfd.readouterr().out == 'uv cannot be had: pip installs the packages.\n'


def test_pip_installs_where_uv_fails(packages, tmp_path, monkeypatch, capfd):
    calls = _install(packages, tmp_path, monkeypatch, 'cp {directory}/uv {directory}/bin/uv', code=2)
    assert calls[-2:] == ['uv pip install six from https://mirror/simple', 'pip pip install six']
    assert capfd.readouterr().out == 'uv has failed: pip installs the packages.\n'


def test_compiled_modules_of_the_distribution_are_linked(packages, tmp_path):
    debian, site = tmp_path / 'debian', tmp_path / 'site'
    (debian / 'libvirt_python-9.0.0.egg-info').mkdir(parents=True)
    for name in ('libvirt.py', 'libvirtmod.cpython-311-x86_64-linux-gnu.so', 'other.py'):
        (debian / name).write_text(name)
    site.mkdir()
    for _ in range(2):                                       # again is no fault
        packages.link_compiled(debian, site)
    assert sorted(path.name for path in site.iterdir() if path.is_symlink()) == [
        'libvirt.py', 'libvirtmod.cpython-311-x86_64-linux-gnu.so']
    metadata = site / 'libvirt_python-9.0.0.egg-info'
    assert metadata.is_dir() and not metadata.is_symlink()


def test_an_own_build_is_kept(packages, tmp_path):
    debian, site = tmp_path / 'debian', tmp_path / 'site'
    (debian / 'libvirt_python-9.0.0.egg-info').mkdir(parents=True)
    (debian / 'libvirt.py').write_text('')
    (site / 'libvirt_python-12.8.0.dist-info').mkdir(parents=True)
    packages.link_compiled(debian, site)
    assert [path.name for path in site.iterdir()] == ['libvirt_python-12.8.0.dist-info']


def _shell(text, directory, *before):
    done = subprocess.run([*before, 'bash', '-c', f'set -euo pipefail; . {TOOLS}/lib.sh; log={directory}/log; {text}'],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_step_waits_for_what_runs_in_the_background(tmp_path):
    code, out, _ = _shell('meanwhile x echo output; step "Something" outcome x; echo "${#meanwhile[@]}"', tmp_path)
    assert (code, out.split()[0], out.split()[-1]) == (0, 'Something', '0')
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [('log', 'output\n')]


def test_process_started_by_a_step_does_not_hold_the_script_lock(tmp_path):
    text = (f'exec 9>{tmp_path}/lock; flock 9; starts() {{ sleep 30 & echo $! >{tmp_path}/pid; }}; '
            f'step "Something" starts; meanwhile x sleep 30; echo "${{meanwhile[x]}}" >>{tmp_path}/pid')
    assert _shell(text, tmp_path)[0] == 0
    try:
        subprocess.run(['flock', '--timeout', '5', tmp_path / 'lock', 'true'], check=True)
    finally:
        subprocess.run(['kill', *(tmp_path / 'pid').read_text().split()], check=True)


@pytest.mark.parametrize('printed, sentence', [
    ('cp: error writing x: No space left on device', 'A file system is full: free some room (df -h).'),
    ("E: Failed to fetch x  Temporary failure resolving 'packages.example'", 'No name server answers'),
    ('E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (unattended-upgr)', 'wait until it '
                                                                                                     'has ended'),
    ('invalid peer certificate: certificate not yet valid', 'set the clock'),
    ('E: Unable to locate package libfoo', 'apt does not know a package'),
    ('guest image: apt knows no package linux-image-x; run apt-get update', 'apt does not know a package'),
])
def test_a_failed_step_names_a_known_cause_and_the_remedy(printed, sentence, tmp_path):
    (tmp_path / 'printed').write_text(printed + '\n')
    code, _, err = _shell(f'fails() {{ cat {tmp_path}/printed; return 1; }}; step "Something" fails', tmp_path)
    assert code == 1 and sentence in err and err.rstrip().endswith('Then run the same command again: it continues.')


def test_a_failed_step_without_a_known_cause_guesses_none(tmp_path):
    code, _, err = _shell('fails() { echo reason; return 1; }; step "Something" fails', tmp_path)
    assert code == 1 and err.rstrip().endswith(f'all of its output is in {tmp_path}/log')


def test_a_step_fails_with_what_runs_in_the_background(tmp_path):
    code, _, err = _shell('meanwhile x bash -c "echo reason; exit 3"; step "Something" outcome x', tmp_path)
    assert code == 1 and 'reason' in err and "'Something' failed" in err


@pytest.mark.skipif(os.geteuid() != 0, reason='says which number the next process gets')
@pytest.mark.parametrize('command, ended', [('true', 0), ('fails', 7)])
def test_exit_code_survives_reuse_of_the_process_id(tmp_path, command, ended):
    """Bash forgets a child whose number another one gets: the bill of materials had failed after 27 minutes.

    Its numbers are its own, since other tests would get numbers again that processes had a moment ago.
    """
    code, out, err = _shell(
        f'fails() {{ return {ended}; }}; meanwhile x {command}; '
        'number=${meanwhile[x]}; while kill -0 $number 2>/dev/null; do sleep 0.01; done; '
        'echo $((number - 1)) >/proc/sys/kernel/ns_last_pid; '
        'sleep 0 & [ $! = $number ] || echo another; wait $!; '
        'outcome x || exit $?', tmp_path, 'unshare', '--pid', '--fork', '--kill-child')
    assert (code, out, err) == (ended, '', '')


def test_a_restrictive_umask_of_the_caller_changes_no_mode(tmp_path):
    code, _, err = _shell(f'step "Something" mkdir {tmp_path}/made; touch {tmp_path}/made/file', tmp_path)
    done = subprocess.run(['bash', '-c', f'umask 077; . {TOOLS}/lib.sh; mkdir {tmp_path}/other'], check=True)
    assert (code, err, done.returncode) == (0, '', 0)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ('made', 'made/file', 'other')]
    assert modes == [0o755, 0o644, 0o755]


@pytest.mark.parametrize('umask', ['077', '022'])
def test_libvirt_of_a_host_has_the_umask_that_its_emulators_need(tmp_path, umask):
    """/run/libvirt/qemu was 0700, and no guest with a TPM started."""
    if os.geteuid() != 0:
        pytest.skip('needs root')
    for name in ('run', 'etc', 'lib', 'log', 'cache'):
        (tmp_path / name).mkdir()
    for place in ('/etc/libvirt', '/var/lib/libvirt', '/var/log/libvirt', '/var/cache/libvirt'):
        if not os.path.isdir(place):
            pytest.skip('libvirt is not installed')
    subprocess.run(['bash', '-c', f'umask {umask}; exec unshare -m {TOOLS}/cluster/host.sh {tmp_path} mkdir /run/qemu'],
                   check=True)
    assert (tmp_path / 'run' / 'qemu').stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize('script', ['lib.sh', 'guest_packages.sh'])
def test_output_of_programs_is_english_whatever_the_language_of_the_caller(script):
    """apt-cache translated "Depends", so the installation found no kernel for the guest image."""
    done = subprocess.run(['bash', '-c', f'. {TOOLS}/{script}; bash -c \'echo $LC_ALL ${{LANGUAGE-none}}\''], text=True,
                          capture_output=True, env={**os.environ, 'LANG': 'de_DE.UTF-8', 'LANGUAGE': 'de'})
    assert (done.stdout, done.stderr) == ('C.UTF-8 none\n', '')


def test_libraries_of_a_package_are_found_in_any_language(tmp_path):
    (tmp_path / 'apt-cache').write_text('#!/bin/sh\n[ "$LC_ALL" = C.UTF-8 ] && [ -z "$LANGUAGE" ] && word=Depends\n'
                                        'echo "  ${word:-Hängt ab von}: libx"\n')
    (tmp_path / 'apt-cache').chmod(0o755)
    done = subprocess.run(['bash', '-c', f'. {TOOLS}/guest_packages.sh; library_packages a'], capture_output=True,
                          text=True, env={'PATH': f'{tmp_path}:/usr/bin:/bin', 'LANG': 'de_DE.UTF-8', 'LANGUAGE': 'de'})
    assert (done.stdout, done.stderr) == ('libx\n', '')


def test_guest_image_without_a_kernel_refreshes_lists_and_says_what_is_missing(tmp_path):
    programs = {'apt-cache': 'echo "E: No packages found" >&2; exit 100', 'apt-get': f'echo "$@" >>{tmp_path}/asked',
                'python3': 'echo linux-image-x'}
    for name in ('busybox', 'mke2fs', 'mcopy', 'mkfs.vfat', 'cpio', 'syslinux', 'sfdisk', 'depmod', 'qemu-img',
                 'dpkg-deb', *programs):
        (tmp_path / name).write_text(f'#!/bin/sh\n{programs.get(name, "exit 1")}\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([TOOLS / 'guest-image.sh', tmp_path / 'guest'], capture_output=True, text=True,
                          env={'PATH': f'{tmp_path}:/usr/bin:/bin', 'TMPDIR': str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.endswith('guest image: apt knows no package linux-image-x; run apt-get update\n')
    assert os.geteuid() != 0 or (tmp_path / 'asked').read_text().split()[-1] == 'update'


def test_programs_of_the_administrator_are_found_after_su():
    done = subprocess.run(['bash', '-c', f'. {TOOLS}/lib.sh; command -v useradd usermod userdel'], capture_output=True,
                          text=True, env={'PATH': '/usr/bin:/bin'})
    assert (len(done.stdout.split()), done.stderr) == (3, '')


def _function(script, name):
    """The text of a function of a script in tools/."""
    return f'eval "$(sed -n "/^{name}()/,/^}}/p" {TOOLS}/{script})"; '


@pytest.mark.parametrize('group, code, said', [
    ('nova', 0, 'nova --gid=nova\nnova-image --user-group\nlibvirt\n'), ('nova', 9, 'nova --gid=nova\n'),
    ('other', 0, 'nova --user-group\nnova-image --user-group\nlibvirt\n')])
def test_user_gets_an_existing_group_and_counts_as_made_only_if_it_was(tmp_path, group, code, said):
    """userdel keeps a group with other members, and the next installation ended without a reason."""
    ended, _, err = _shell(_function('quickstart.sh', 'make_users') + (
        f'own={tmp_path} driver=libvirt; getent() {{ [ "$*" = "group {group}" ]; }}; usermod() {{ echo $3; }}; '
        f'useradd() {{ echo ${{@: -1}} $2; return {code}; }}; step Users make_users'), tmp_path)
    assert (tmp_path / 'log').read_text() == said
    assert (ended, (tmp_path / 'users').exists()) == ((0, True) if code == 0 else (1, False)), err


@pytest.mark.parametrize('name', ['no_proxy', 'NO_PROXY'])
def test_hosts_that_bypass_the_proxy_hold_for_later_runs(tmp_path, name):
    """The proxy and an internal package index held without them, so the proxy was asked for that index."""
    kept = ['UV_DEFAULT_INDEX=https://pypi.internal/simple', 'all_proxy=http://proxy.example:3128',
            'https_proxy=http://proxy.example:3128', 'REQUESTS_CA_BUNDLE=/etc/ca.pem']
    functions = ''.join(_function('quickstart.sh', function)
                        for function in ('keep_environment', 'bypass_proxies', 'save_environment'))
    text = (f'own={tmp_path} listen=192.0.2.5; {functions} keep_environment; bypass_proxies; save_environment; '
            'echo $no_proxy $NO_PROXY')
    bypassing = 'pypi.internal,127.0.0.1,localhost,192.0.2.5'
    for given, expected in (([*kept, f'{name}=pypi.internal'], bypassing), ([], bypassing),
                            ([f'{name}='], '127.0.0.1,localhost,192.0.2.5')):
        code, out, err = _shell(text, tmp_path, 'env', '-i', 'PATH=/usr/bin:/bin', *given)
        assert (code, out, err) == (0, f'{expected} {expected}\n', '')
        assert sorted((tmp_path / 'environment').read_text().splitlines()) == sorted(
            kept + (['no_proxy=pypi.internal'] if expected == bypassing else []))


@pytest.mark.parametrize('driver, made', [('fake', False), ('libvirt', True)])
def test_user_joins_the_group_of_libvirt_only_for_real_guests(tmp_path, driver, made):
    code, _, err = _shell(_function('quickstart.sh', 'install_units') + (
        f'tree={TOOLS.parent} source= driver={driver} state=/s listen=l port=1; '
        f'venv={tmp_path}/venv unit={tmp_path}/unit '
        f'files=({tmp_path}/users {tmp_path}/guests {tmp_path}/tmpfiles); systemctl() {{ :; }}; '
        'systemd-tmpfiles() { :; }; systemd-sysusers() { [ -e "$1" ]; }; install_units'), tmp_path)
    assert (code, err, (tmp_path / 'guests').exists()) == (0, '', made)
    assert (tmp_path / 'users').exists() and (tmp_path / 'unit').exists()


@pytest.mark.parametrize('name, ended', [('other', False), ('libvirtd', True)])
def test_libvirt_of_a_host_is_ended_and_no_other_process_with_its_number(tmp_path, name, ended):
    process = subprocess.Popen([name, '-c', 'input()'], executable=sys.executable, stdin=subprocess.PIPE)
    try:
        (tmp_path / 'libvirtd.pid').write_text(f'{process.pid}\n')
        subprocess.run([TOOLS / 'libvirt-host.sh', 'stop'], check=True, env={**os.environ, 'RUN': str(tmp_path)})
        process.communicate(b'\n')
        assert (process.returncode, list(tmp_path.iterdir())) == (-signal.SIGTERM if ended else 0, [])
    finally:
        process.kill()
        process.wait()


def test_user_that_was_not_deleted_fails_the_step(tmp_path):
    (tmp_path / 'users').write_text('nova\nnova-image\n')
    code, _, err = _shell(f'. {TOOLS}/removal.sh; own={tmp_path}; getent() {{ true; }}; '
                          'userdel() { [ $1 != nova ]; }; step Users remove_users', tmp_path)
    assert code == 1 and "'Users' failed" in err


def _remove(tmp_path, text):
    """Run a part of tools/removal.sh for root's cloud in tmp_path, in a mount namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip('needs root')
    (tmp_path / 'state/images').mkdir(parents=True, exist_ok=True)
    (tmp_path / 'own').mkdir(exist_ok=True)
    done = subprocess.run(['unshare', '-m', 'bash', '-c', f'set -euo pipefail; . {TOOLS}/lib.sh; . {TOOLS}/removal.sh; '
                           f'cd {tmp_path}; own=$PWD/own state=$PWD/state root=yes systemd=no data=yes '
                           f'driver=libvirt; {text}'],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_data_on_file_systems_that_are_mounted_below_the_state_are_kept(tmp_path):
    code, out, err = _remove(
        tmp_path, 'mount -t tmpfs x state/images; touch state/images/file; (remove_cloud) || true; ls state/images')
    assert (code, out) == (0, 'file\n'), err
    assert f'File systems are mounted below {tmp_path}/state: {tmp_path}/state/images. Unmount them first' in err


def test_nothing_is_removed_beside_another_installation(tmp_path):
    """Guests of a fleet were ended and their disks deleted."""
    code, out, err = _remove(
        tmp_path, 'other_units() { echo nova-compute.service; }; running() { false; }; remove_cloud')
    assert (code, out) == (1, '') and 'Units of another installation are here (nova-compute.service)' in err
    assert (tmp_path / 'state/images').exists() and (tmp_path / 'own').exists()


def test_running_cloud_of_a_package_is_not_that_of_the_installation(tmp_path):
    text = _function('quickstart.sh', 'running') + (
        f'systemd=yes unit={tmp_path}/nova-all.service; systemctl() {{ true; }}; running && echo yes || echo no')
    assert _shell(text, tmp_path)[1] == 'no\n'
    (tmp_path / 'nova-all.service.d').mkdir()
    (tmp_path / 'nova-all.service.d/quickstart.conf').touch()
    assert _shell(text, tmp_path)[1] == 'yes\n'


@pytest.mark.parametrize('root', ['yes', 'no'])
def test_data_that_a_removal_has_kept_are_removed_later(tmp_path, root):
    """Without root the first removal deleted the mark of the installation, so its passwords stayed."""
    (tmp_path / 'state').mkdir()
    for name in ('quickstart.log', 'settings', 'nova_api.sqlite', 'clouds.yaml'):
        (tmp_path / 'state' / name).touch()
    common = (f'root={root}; [ $root = yes ] || own=$state; base=$PWD/programs; running() {{ false; }}; '
              'other_units() { :; }; end_guests() { :; }; remove_devices() { :; }; remove_files() { :; }; ')
    code, out, err = _remove(tmp_path, common + 'data=no; remove_cloud')
    assert (code, err) == (0, '') and 'remove --data deletes them' in out
    assert {'nova_api.sqlite', 'clouds.yaml'} <= {path.name for path in (tmp_path / 'state').iterdir()}
    code, out, err = _remove(tmp_path, common + 'data=yes; remove_cloud')
    assert (code, err) == (0, '') and 'The cloud and its data are removed.' in out
    assert [path.name for path in tmp_path.iterdir() if root == 'yes' or path.name != 'own'] == []


@pytest.mark.parametrize('driver, missing, calls, left', [
    ('libvirt', '', {'virsh', 'nova-manage network teardown'}, False), ('fake', '', set(), False),
    ('fake', 'environment', set(), False), ('libvirt', 'libvirtd', {'nova-manage network teardown'}, False),
    ('libvirt', 'environment', {'virsh'}, True)])
def test_removal_of_simulated_guests_touches_no_network_and_no_libvirt(tmp_path, driver, missing, calls, left):
    """Bridges of another cloud were removed, and without nft, a libvirt or a Python the cloud stayed."""
    (tmp_path / 'bin').mkdir()
    for name in {'virsh', 'libvirtd', 'nova-manage'} - {missing}:
        broken = missing == 'environment' and name == 'nova-manage'
        (tmp_path / 'bin' / name).write_text('#!/none/python\n' if broken else f'#!/bin/sh\necho {name} "$@" >>calls\n')
        (tmp_path / 'bin' / name).chmod(0o755)
    code, out, err = _remove(
        tmp_path, f'driver={driver} venv=$PWD PATH=$PWD/bin:/usr/bin:/bin; running() {{ false; }}; '
                  'other_units() { :; }; remove_files() { :; }; remove_cloud')
    assert (code, err, 'packet filters stay' in out) == (0, '', left)
    made = (tmp_path / 'calls').read_text().splitlines() if (tmp_path / 'calls').exists() else []
    assert {'virsh' if call.startswith('virsh') else call for call in made if '--version' not in call} == calls


def test_data_go_where_the_state_is_a_mount_point(tmp_path):
    code, out, err = _remove(
        tmp_path, 'mount -t tmpfs x state; mkdir state/.a; touch state/.a/b; remove_data; ls -A state')
    assert (code, out, err) == (0, '', '')
    assert not (tmp_path / 'own').exists()
    code, out, err = _remove(tmp_path, 'touch state/a; remove_data')
    assert (code, out, err, list(tmp_path.iterdir())) == (0, '', '', [])
    assert _remove(tmp_path, 'rm -r state; remove_data')[0] == 0


def test_tpms_of_guests_go_with_the_data(tmp_path):
    one, other = '7a1f0c1e-93a5-4d5c-9c53-0d3b3a6f2e11', '7a1f0c1e-93a5-4d5c-9c53-0d3b3a6f2e12'
    for place in (f'swtpm/{one}/tpm2', f'swtpm/{other}/tpm2', f'state/instances/{one}', 'state/instances/_base'):
        (tmp_path / place).mkdir(parents=True)
    code, _, err = _remove(tmp_path, 'TPMS=$PWD/swtpm; remove_tpms; rm -r state/instances; remove_tpms')
    assert (code, err, os.listdir(tmp_path / 'swtpm')) == (0, '', [other])


def test_packages_are_installed_without_questions(tmp_path):
    """The log hid a question of an interrupted dpkg about a changed file, which waited for an answer."""
    code, _, err = _shell(
        f'noted() {{ echo "$* $DEBIAN_FRONTEND $(cat)" >>{tmp_path}/calls; }}; packages_present() {{ false; }}; '
        'lists=new; '
        'dpkg() { [ "$1" = --audit ] && echo x || noted dpkg "$@"; }; apt-get() { noted apt-get "$@"; }; '
        'step Packages install_packages one <<<answer', tmp_path)
    dpkg, apt = (tmp_path / 'calls').read_text().splitlines()
    assert (code, err, dpkg) == (0, '', 'dpkg --force-confdef --force-confold --configure -a noninteractive ')
    assert apt.endswith(' install one noninteractive ') and ' -o DPkg::Options::=--force-confold ' in apt


@pytest.mark.skipif(not shutil.which('dpkg-query'), reason='needs dpkg')
@pytest.mark.parametrize('names, present', [
    ('two', True), ('two one', True), ('one one', True), ('two:i386', True), ('two removed', False),
    ('two unknown', False), ('unknown', False)])
def test_package_of_two_architectures_counts_once(tmp_path, names, present):
    """With one, all packages were never present, or a missing one was not installed."""
    rows = [('two', 'amd64', 'install ok installed'), ('two', 'i386', 'install ok installed'),
            ('one', 'amd64', 'install ok installed'), ('removed', 'amd64', 'deinstall ok config-files')]
    (tmp_path / 'status').write_text('\n'.join(
        f'Package: {name}\nStatus: {status}\nMaintainer: x\nArchitecture: {architecture}\nMulti-Arch: same\n'
        f'Version: 1\nDescription: x\n' for name, architecture, status in rows))
    (tmp_path / 'arch').write_text('amd64\ni386\n')
    code, _, err = _shell(f'export DPKG_ADMINDIR={tmp_path}; packages_present {names} && echo yes', tmp_path)
    assert (code == 0, err) == (present, '')


def test_log_that_the_message_of_a_failed_step_names_stays(tmp_path):
    """The ticker of a step that fails at once ran the trap of the script, too, and deleted the log before that."""
    trap = 'trap end_log EXIT; touch $log; step'
    assert _shell(f'{trap} Good true; exit 3', tmp_path)[0] == 3 and list(tmp_path.iterdir()) == []
    code, _, err = _shell(f'{trap} Bad false', tmp_path)
    assert code == 1 and f'all of its output is in {tmp_path}/log' in err and (tmp_path / 'log').exists()


def _source(tmp_path, python_version='3.11'):
    """What a make_venv with a source needs: a tree, a Python that makes nothing, and calls that are noted."""
    tree = tmp_path / 'tree'
    for name in ('nova', 'etc', 'tools'):
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name / 'file').write_text(name)
    for name in ('setup.py', 'setup.cfg', 'requirements.txt', 'README.rst'):
        (tree / name).write_text(name)
    (tmp_path / 'python').write_text(f'''#!/bin/sh
case "$1" in
    -c) echo {python_version} ;;
    *) echo made >>{tmp_path}/calls; mkdir -p {tmp_path}/venv/lib/python{python_version} ;;
esac
''')
    (tmp_path / 'python').chmod(0o755)
    return (f'tree={tree}; venv={tmp_path}/venv; source={tmp_path}/source; python={tmp_path}/python; '
            'make_venv libvirt one')


def test_an_environment_is_made_once_for_a_tree_and_a_python(tmp_path):
    for _ in range(2):
        assert _shell(_source(tmp_path), tmp_path)[0] == 0
    assert (tmp_path / 'calls').read_text() == 'made\n' and (tmp_path / 'source/nova/file').exists()
    (tmp_path / 'venv/old').touch()
    assert _shell(_source(tmp_path, '3.13'), tmp_path)[0] == 0
    assert (tmp_path / 'calls').read_text() == 'made\n' * 2 and not (tmp_path / 'venv/old').exists()


def test_an_environment_that_was_not_completed_is_made_anew(tmp_path):
    _shell(_source(tmp_path), tmp_path)
    (tmp_path / 'venv/nova.stamp').unlink()
    (tmp_path / 'venv/half').touch()
    assert _shell(_source(tmp_path), tmp_path)[0] == 0
    assert not (tmp_path / 'venv/half').exists()


def test_a_script_that_fails_ends_what_runs_in_the_background(tmp_path):
    code, _, _ = _shell(f'trap end_meanwhile EXIT; meanwhile x bash -c "echo \\$\\$ >{tmp_path}/pid; sleep 50"; '
                        f'until [ -s {tmp_path}/pid ]; do :; done; fail no', tmp_path)
    assert code == 1
    status = pathlib.Path('/proc') / (tmp_path / 'pid').read_text().strip() / 'status'
    waiting.wait_for(lambda: not status.exists() or 'Z (zombie)' in status.read_text(), 20, 'its end')


def _quickstart(directory, *words):
    return subprocess.run([TOOLS / 'quickstart.sh', '--state-path', directory / 'state', *words], capture_output=True,
                          text=True)


@pytest.mark.parametrize('words, expected', [
    ('--port 99999', "--port is '99999'; choose 1 to 65535."),
    ('--port x', "--port is 'x'; choose 1 to 65535."),
    ('--driver xen', "--driver is 'xen'; choose auto, libvirt or fake."),
    ('--guests 10.0.0.1/24', '--guests: 10.0.0.1/24 has host bits set.'),
    ('--outside fd00::/64', "--outside: Expected 4 octets in 'fd00::'."),
    ('--listen example.org', "--listen: 'example.org' does not appear to be an IPv4 or IPv6 address."),
    ('instal', "'instal' is not an option or action of this command."),
    ('upgrade --no-server', '--no-server is an option of install, not of upgrade.'),
    ('status -f', '-f is an option of logs, not of status.'),
    ('--data', '--data is an option of remove, not of install.'),
])
def test_quickstart_refuses_bad_options_before_it_does_anything(words, expected, tmp_path):
    done = _quickstart(tmp_path, *words.split())
    assert done.returncode in (1, 2) and expected in done.stderr + done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def settings(tmp_path):
    """The settings of an installation with simulated guests. Its lock is held, so that no test installs anything."""
    state = tmp_path / 'state'
    own = tmp_path / 'state-quickstart' if os.geteuid() == 0 else state
    for directory in {state, own}:
        directory.mkdir()
    (state / 'driver').write_text('fake')
    file = own / 'settings'
    file.write_text('driver=fake\nlisten=127.0.0.1\nport=1\nguests=10.44.0.0/24\noutside=172.24.4.0/24\n')
    with open(own / 'quickstart.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield file


@pytest.mark.parametrize('removed', [False, True])
def test_another_driver_is_refused_before_anything_is_changed(settings, tmp_path, removed):
    """The serving cloud was stopped, and started no more."""
    kept = settings.read_text()
    if removed:
        settings.unlink()
    done = _quickstart(tmp_path, '--driver', 'libvirt')
    assert done.returncode == 1 and 'belongs to a cloud with --driver fake' in done.stderr
    assert not (settings.parent / 'quickstart.log').exists()
    assert not settings.exists() if removed else settings.read_text() == kept


def test_an_address_in_use_is_refused_before_anything_is_changed(settings, tmp_path):
    kept = settings.read_text()
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        port = other.getsockname()[1]
        done = _quickstart(tmp_path, '--port', str(port))
    assert (done.returncode, done.stderr) == (
        1, f'127.0.0.1 port {port} cannot be listened on (Address already in use): choose others with --listen and '
           '--port.\n')
    assert settings.read_text() == kept and not (settings.parent / 'quickstart.log').exists()


@pytest.mark.parametrize('listen, running, code', [
    ('127.0.0.1', True, 0), ('0.0.0.0', True, 0), ('0.0.0.0', False, 1)])
def test_port_of_the_running_cloud_itself_is_free(tmp_path, listen, running, code):
    with socket.socket() as own:
        own.bind(('127.0.0.1', 0))
        own.listen()
        port = own.getsockname()[1]
        ended, _, _ = _shell(_function('quickstart.sh', 'check_address') + (
            f'setting() {{ [ $1 = port ] && echo {port} || echo 127.0.0.1; }}; '
            f'running() {{ {str(running).lower()}; }}; listen={listen} port={port}; check_address'), tmp_path)
    assert ended == code


@pytest.mark.parametrize('action, code, expected', [
    ('status', 4, 'No cloud is installed; tools/quickstart.sh installs one.'),
    ('logs', 1, 'No cloud was installed with state in'),
    ('start', 1, 'No cloud was installed with state in'),
    ('remove', 0, 'No cloud is installed with state in'),
])
def test_quickstart_actions_without_an_installation_change_nothing(action, code, expected, tmp_path):
    done = _quickstart(tmp_path, action)
    assert (done.returncode, expected in done.stderr + done.stdout) == (code, True), done
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.setattr(sys, 'path', [str(TOOLS), *sys.path])
    return importlib.import_module('steps')


def test_steps_at_the_same_time_have_a_line_each_with_its_own_time(steps, capsys):
    """The tables of a fleet took minutes on a busy machine behind one line, which did not say whose they were."""
    first = threading.Event()

    def one():
        assert first.wait(30)
        return 1

    def two():
        first.set()
        return 2
    assert steps.concurrently(('One', one), ('Two', two)) == [1, 2]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ['One', 'Two']


def test_one_of_several_steps_fails(steps, capsys):
    ended = []

    def fails():
        raise RuntimeError('no room')
    with pytest.raises(SystemExit, match="'One' failed: no room"):
        steps.concurrently(('One', fails), ('Two', ended.append, 2))
    assert ended == [2] and 'One' in capsys.readouterr().out


@pytest.mark.parametrize('option', ['--help', '-h'])
def test_quickstart_prints_its_help_without_doing_anything(option):
    done = subprocess.run([TOOLS / 'quickstart.sh', option], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('Sets up a cloud') and 'quickstart.sh upgrade' in done.stdout
    refused = subprocess.run([TOOLS / 'quickstart.sh', '--bogus'], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "'--bogus' is not an option" in refused.stderr
