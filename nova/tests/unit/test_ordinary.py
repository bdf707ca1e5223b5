"""When a daemon that root starts stays root: it says why, and nothing has changed its owner."""
import os
import subprocess
import sys

import pytest

CODE = '''
import sys
from nova import conf
from nova.cmd import ordinary
settings = conf.new(files=[sys.argv[1]])
user = ordinary.prepare(settings, sys.argv[2])
print(user and user.pw_name)
'''

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='needs root')


@pytest.fixture
def state(tmp_path):
    """A directory to which others may pass."""
    for path in (tmp_path, *tmp_path.parents[:-2]):          # below /tmp
        path.chmod(path.stat().st_mode | 0o011)
    made = tmp_path / 'state'
    made.mkdir()
    return made


def prepared(state, text='', binary='nova-all', user='nobody'):
    """(whom it would become, what it says)."""
    file = state.parent / 'nova.conf'
    file.write_text(f'[DEFAULT]\nstate_path = {state}\ncompute_driver = fake\n{text}\n[privileges]\nuser = {user}\n')
    file.chmod(0o644)
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', CODE, file, binary], capture_output=True, text=True,
                          cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1], done.stderr


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


def test_a_configuration_that_the_user_cannot_read(state):
    (state.parent).chmod(0o700)
    name, said = prepared(state)
    assert name == 'None' and 'cannot read' in said and 'nova.conf' in said


def test_state_directory_with_foreign_files_is_refused(state):
    (state / 'lock').write_text('')
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
    assert {path.stat().st_uid for path in paths} == {65534}
    assert (state / 'other').stat().st_uid == 0
