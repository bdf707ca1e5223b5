"""When a daemon that root starts stays root: it says why, and nothing has changed its owner."""
import os
import pwd
import stat
import subprocess
import sys

import pytest

from nova import conf as nova_conf
from nova.cmd import ordinary
from nova.tests.support import passable
from nova.volume.store import files

NOBODY, QEMU = 65534, 64055
VOLUME = '7a1f0c1e-93a5-4d5c-9c53-0d3b3a6f2e11'
CODE = '''
import sys
from nova import conf
from nova.cmd import ordinary
settings = conf.new(files=[sys.argv[1]])
user = ordinary.prepare(settings, sys.argv[2])
print(user and user.pw_name)
'''
RIGHTS = '''
import pwd
import sys
from nova import conf
from nova.cmd import all
from nova.cmd import ordinary
settings = conf.new(files=[sys.argv[1]])
ordinary.become(settings, 'nova-all', pwd.getpwnam('nobody'), all.ports(settings))
print(open('/proc/self/status').read().partition('CapEff:')[2].split()[0])
'''
NET_BIND_SERVICE = 1 << 10

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='needs root')


@pytest.fixture
def place():
    with passable.directory() as made:
        yield made


@pytest.fixture
def state(place):
    """A directory to which others may pass."""
    made = place / 'state'
    made.mkdir()
    return made


def prepared(state, text='', binary='nova-all', user='nobody'):
    """(whom it would become, what it says)."""
    return run(CODE, state, text, binary, user)


def run(code, state, text, binary='nova-all', user='nobody'):
    """(last word of the output, what it says)."""
    file = state.parent / 'nova.conf'
    file.write_text(f'[DEFAULT]\nstate_path = {state}\ncompute_driver = fake\n{text}\n[privileges]\nuser = {user}\n')
    file.chmod(0o644)
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', code, file, binary], capture_output=True, text=True,
                          cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1], done.stderr


@pytest.mark.parametrize('enabled', [True, False])
def test_low_port_of_the_object_store_can_be_listened_on_after_the_switch(state, enabled):
    with open(ordinary.FIRST_ORDINARY_PORT) as file:
        low = int(file.read()) > 443
    rights, said = run(RIGHTS, state, f'[objectstore]\nenabled = {enabled}\nport = 443')
    assert (int(rights, 16), said) == (NET_BIND_SERVICE if enabled and low else 0, '')


def test_without_a_user_nothing_changes(state):
    (state / 'lock').write_text('')
    assert prepared(state, user='') == ('None', '')
    name, said = prepared(state, user='no-such-user')
    assert name == 'None' and 'There is no user no-such-user' in said
    assert (state / 'lock').stat().st_uid == 0


def test_a_key_that_the_user_cannot_read(state):
    key = state.parent / 'key.pem'
    key.write_text('secret')
    key.chmod(0o600)
    for name in ('lock', 'driver'):
        (state / name).write_text('')
    name, said = prepared(state, f'[http]\nkey_file = {key}\n')
    assert name == 'None' and f'nova-all stays root: that user cannot read {key}.' in said
    assert (state / 'lock').stat().st_uid == state.stat().st_uid == 0


@pytest.mark.parametrize('option, file', [
    ('policy_file = site.yaml', 'site.yaml'), ('policy_dirs = policy', 'site.yaml'),
    ('policy_dirs = policy', 'site.json')])
def test_policy_file_that_the_user_cannot_read_is_named(state, option, file):
    (state.parent / 'policy').mkdir()
    for path in (state.parent / file, state.parent / 'policy' / file):
        path.write_text('{}')
        path.chmod(0o600)
    name, said = prepared(state, f'[oslo_policy]\n{option}\n')
    assert name == 'None' and file in said and 'that user cannot read' in said


def test_a_configuration_that_the_user_cannot_read(state):
    (state.parent).chmod(0o700)
    name, said = prepared(state)
    assert name == 'None' and 'cannot read' in said and 'nova.conf' in said


def test_state_directory_with_foreign_files_is_refused(state):
    for name in ('lock', 'notes'):
        (state / name).write_text('')
    name, said = prepared(state)
    assert name == 'None' and f'{state} contains files that do not belong to this cloud.' in said
    (state / 'driver').write_text('')
    state.chmod(0o1777)                  # --state-path /tmp
    name, said = prepared(state)
    assert name == 'None' and f'{state} contains files that do not belong to this cloud.' in said
    assert state.stat().st_uid == 0


def test_state_files_of_root_are_given_to_the_user(state):
    for name in ('driver', 'lock', 'api.sqlite', 'clouds.yaml', 'other'):
        (state / name).write_text('x')
    (state / 'keys').mkdir()
    (state / 'keys' / 'token.keys').write_text('x')
    name, said = prepared(state)
    if 'cannot read' in said:
        pytest.skip(f'{sys.executable}: {said}')         # below a home directory
    assert (name, said) == ('nobody', '')
    paths = [state, *(state / name for name in ('driver', 'lock', 'api.sqlite', 'clouds.yaml', 'keys')),
             state / 'keys' / 'token.keys']
    assert {path.stat().st_uid for path in paths} == {NOBODY}
    assert (state / 'other').stat().st_uid == 0


@pytest.mark.parametrize('names', [['lock'], ['lock', 'tls', 'nova_api.sqlite', 'nova_api.sqlite-wal', 'clouds.yaml']])
def test_state_path_of_a_failed_first_start_is_given_to_the_user(state, names):
    for name in names:
        (state / name).write_text('')
    name, said = prepared(state)
    if 'cannot read' in said:
        pytest.skip(f'{sys.executable}: {said}')         # below a home directory
    assert (name, said) == ('nobody', '')
    assert {path.stat().st_uid for path in (state, *(state / name for name in names))} == {NOBODY}


def test_volumes_backups_and_objects_of_root_are_given_to_the_user(tmp_path):
    """nova-all did not start any more, because it could not list the volumes."""
    given = [tmp_path / name / VOLUME for name in ('state/volumes', 'state/volumes/snapshots', 'backups', 'objects')]
    for path in given:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('x')
    conf = nova_conf.new(files=[], state_path=str(tmp_path / 'state'), compute_driver='fake',
                         volume__backup_directory=str(tmp_path / 'backups'),
                         objectstore__path=str(tmp_path / 'objects'))
    ordinary._give_state(conf, 'nova-all', tmp_path / 'state', pwd.getpwnam('nobody'))
    assert {path.stat().st_uid for path in (*given, *(path.parent for path in given))} == {NOBODY}


def test_a_directory_of_backups_with_other_files_stays_roots(tmp_path):
    (tmp_path / 'state').mkdir()
    (tmp_path / 'backups').mkdir()
    for name in (VOLUME, 'etc.tar'):
        (tmp_path / 'backups' / name).write_text('x')
    conf = nova_conf.new(files=[], state_path=str(tmp_path / 'state'), compute_driver='fake',
                         volume__backup_directory=str(tmp_path / 'backups'))
    ordinary._give_state(conf, 'nova-all', tmp_path / 'state', pwd.getpwnam('nobody'))
    assert {path.stat().st_uid for path in tmp_path.glob('backups/*')} == {0}


def test_user_can_write_volumes_that_qemu_owns(place):
    """Also those that it gets later: libvirt gives the file of an attached volume to QEMU's user."""
    volumes, secret = place / 'volumes', place / 'secret'
    attached, snapshot, key = volumes / VOLUME, volumes / 'snapshots' / VOLUME, volumes / 'exports' / 'server-key.pem'
    for path in (attached, snapshot, key, secret):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('x')
        path.chmod(0o600)
    os.chown(attached, QEMU, QEMU)
    (volumes / 'other').symlink_to(secret)
    for _ in range(2):
        files.let_use(str(volumes), pwd.getpwnam('nobody'))
    assert attached.stat().st_uid == QEMU
    assert [writes(path) for path in (attached, snapshot, secret)] == [True, True, False]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and not writes(key)
    (place / 'link').symlink_to(volumes)
    (volumes / 'new').write_text('x')
    for name in ('link', 'absent'):
        files.let_use(str(place / name), pwd.getpwnam('nobody'))
    assert not writes(volumes / 'new')


def writes(path):
    """Whether nobody can open a file for writing."""
    return subprocess.run(['test', '-w', path], user=NOBODY, group=NOBODY, extra_groups=[]).returncode == 0
