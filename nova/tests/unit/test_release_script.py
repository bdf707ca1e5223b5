"""tools/release.sh: signed checksums of the files of a release."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

TREE = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = TREE / 'tools' / 'release.sh'
KEY = 'release@example.com'


@pytest.fixture
def run():
    """A function(action, *words) that runs the script with a new key; returns (exit code, output)."""
    if not shutil.which('gpg'):
        pytest.skip('gpg is not installed')
    # The path of the agent's socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix='gpg', dir='/tmp') as home:
        environ = {**os.environ, 'GNUPGHOME': home}
        subprocess.run(['gpg', '--batch', '--quiet', '--passphrase', '', '--quick-generate-key', KEY, 'ed25519', 'sign',
                        '1d'], env=environ, check=True, capture_output=True)

        def command(*words):
            done = subprocess.run([SCRIPT, *words], env=environ, capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr
        yield command
        subprocess.run(['gpgconf', '--kill', 'gpg-agent'], env=environ, check=False)


@pytest.fixture
def signed(run, tmp_path):
    """The directory of a signed release with two files."""
    files = tmp_path / 'files'
    files.mkdir()
    for name in ('a.whl', 'b.deb'):
        (files / name).write_text(name)
    assert run('sign', files, KEY) == (0, f'{files}/SHA256SUMS.asc signs 2 files.\n')
    return files


def test_signed_files_are_verified(run, signed):
    code, output = run('verify', signed)
    assert code == 0 and output.startswith('2 files are as they were signed.\n')


@pytest.mark.parametrize('name, text, sentence', [
    ('a.whl', 'other', 'is not the signed one'), ('c.deb', 'new', 'Not signed'),
    ('SHA256SUMS', '', 'The signature of')])
def test_changed_release_is_refused(run, signed, name, text, sentence):
    (signed / name).write_text(text)
    code, output = run('verify', signed)
    assert code == 1 and sentence in output


def test_wrong_arguments_print_the_usage(run, tmp_path):
    code, output = run('sign', tmp_path)
    assert code == 2 and 'tools/release.sh build DIRECTORY' in output


@pytest.fixture
def built(tmp_path):
    """A function(address) that builds a release of a small tree with this maintainer; returns (exit code, output)."""
    tools = tmp_path / 'tree/tools'
    tools.mkdir(parents=True)
    for name in ('lib.sh', 'release.sh'):
        shutil.copy(TREE / 'tools' / name, tools)

    def build(address):
        (tools.parent / 'setup.cfg').write_text(f'[metadata]\nmaintainer_email = {address}\n')
        done = subprocess.run([tools / 'release.sh', 'build', tmp_path / 'files'], capture_output=True, text=True,
                              env={**os.environ, 'GIT_CEILING_DIRECTORIES': str(tmp_path)})
        return done.returncode, done.stderr
    return build


@pytest.mark.parametrize('address', [
    'solonova@example.org', 'a@lists.example.com', 'a@cloud.example', 'a@cloud.invalid', 'a@localhost', 'nobody', ''])
def test_release_with_a_placeholder_for_its_maintainer_is_refused(built, address):
    code, output = built(address)
    assert code == 1 and f"setup.cfg is a placeholder ('{address}'): write the address that answers users" in output


def test_release_with_an_address_of_its_maintainer_goes_on(built):
    code, output = built('cloud@counterexample.org')
    assert code != 0 and 'placeholder' not in output and 'git repository' in output
