"""The format of backups: what was changed, cut off or made by somebody else is refused before it is used."""
import io
import json
import os
import stat

import pytest

from nova import exception
from nova.runtime import backup_file
from nova.runtime import passphrases

PASSPHRASE = 'correct horse battery'
MEMBERS = {'databases/api/flavors/000000': b'rows', 'files/keys/token.keys': b'k' * 70, 'images/a': b'\0' * 3_000_000,
           'empty': b''}


def made(passphrase=None, members=None):
    file = io.BytesIO()
    writer = backup_file.Writer(file, passphrase)
    for name, data in (MEMBERS if members is None else members).items():
        writer.add(name, data)
    writer.finish({'release': 1})
    return file.getvalue()


def read(data, passphrase=PASSPHRASE):
    reader = backup_file.Reader(io.BytesIO(data), lambda: passphrase)
    return {name: b''.join(pieces) for name, _size, pieces in reader.members()}, reader


@pytest.mark.parametrize('passphrase', [None, PASSPHRASE])
def test_backup_members_are_read_back_as_written(passphrase):
    found, reader = read(made(passphrase))
    assert found == MEMBERS and reader.encrypted == (passphrase is not None)
    assert reader.manifest['release'] == 1
    assert [member['name'] for member in reader.manifest['members']] == list(MEMBERS)


def test_an_encrypted_file_shows_neither_names_nor_data():
    data = made(PASSPHRASE)
    assert b'token.keys' not in data and b'k' * 20 not in data and b'token.keys' in made()


def test_a_wrong_passphrase_is_refused():
    with pytest.raises(backup_file.Damaged, match='the passphrase is wrong'):
        read(made(PASSPHRASE), PASSPHRASE + '!')


@pytest.mark.parametrize('passphrase', [None, PASSPHRASE])
def test_a_file_that_was_changed_anywhere_is_refused(passphrase, monkeypatch):
    monkeypatch.setattr(backup_file, 'SCRYPT_N', backup_file.SCRYPT_N_RANGE[0])
    whole = made(passphrase, {'files/driver': b'fake', 'configuration/0/nova.conf': b'[DEFAULT]'})
    for place in range(0, len(whole), 23 if passphrase else 1):          # a key takes a moment
        changed = bytearray(whole)
        changed[place] ^= 1
        with pytest.raises(backup_file.Damaged):
            read(bytes(changed))


@pytest.mark.parametrize('passphrase', [None, PASSPHRASE])
def test_a_file_that_was_cut_off_or_goes_on_is_refused(passphrase, monkeypatch):
    monkeypatch.setattr(backup_file, 'SCRYPT_N', backup_file.SCRYPT_N_RANGE[0])
    whole = made(passphrase)
    for length in (0, 5, 30, 60, 150, 190, 1_000_000, 1_048_576, 2_000_000, len(whole) - 1):
        with pytest.raises(backup_file.Damaged):
            read(whole[:length])
    with pytest.raises(backup_file.Damaged, match='data after its end'):
        read(whole + b'x')


@pytest.mark.parametrize('passphrase', [None, PASSPHRASE])
def test_chunks_in_another_order_are_refused(passphrase):
    whole = made(passphrase)
    begin = whole.index(b'\n', len(backup_file.MAGIC)) + 1
    size = 5 + backup_file.CHUNK + backup_file.TAG_BYTES[passphrase is not None]
    first, second, rest = whole[begin:begin + size], whole[begin + size:begin + 2 * size], whole[begin + 2 * size:]
    assert read(whole[:begin] + first + second + rest)[0] == MEMBERS
    with pytest.raises(backup_file.Damaged):
        read(whole[:begin] + second + first + rest)


NAMES = ['../etc/passwd', '/etc/passwd', 'files/../../x', 'files/.ssh/x', 'files//x', 'files/', 'files/a\0b', 'a\\b/..',
         'files/x\n', '', '.', '..', 'x' * 600, 'a/' * 9 + 'a', None, 5]


@pytest.mark.parametrize('name', NAMES)
def test_a_name_that_leads_elsewhere_is_refused(name, monkeypatch):
    if name != '':
        with pytest.raises(exception.InvalidInput):
            backup_file.Writer(io.BytesIO()).add(name, b'x')
    monkeypatch.setattr(backup_file, 'is_name', lambda _name: True)
    data = made(members={name: b'x'})
    monkeypatch.undo()
    with pytest.raises(backup_file.Damaged, match='an invalid member'):
        read(data)


def test_backup_header_cannot_demand_unbounded_key_derivation():
    """A file of a stranger would make the reader take gigabytes for its key."""
    whole = made(PASSPHRASE)
    line = whole[len(backup_file.MAGIC):].split(b'\n', 1)[0]
    words = json.loads(line)
    for change in ({'n': 1 << 30}, {'n': 3}, {'n': '65536'}, {'n': 2.0}, {'r': 1 << 20}, {'p': 1000}, {'salt': ''},
                   {'kdf': 'none'}, {'salt': 5}):
        other = json.dumps({**words, 'encryption': {**words['encryption'], **change}}).encode()
        with pytest.raises(backup_file.Damaged, match='does not support its encryption'):
            read(whole.replace(line, other))
    for other in (b'{"format": 2}', b'{}', b'[]', b'5', b'[' * 3000, b'x' * 9000):
        with pytest.raises(backup_file.Damaged):
            read(whole.replace(line, other))


def test_the_file_is_private_and_complete_or_not_there(tmp_path):
    path = tmp_path / 'backup'
    old = os.umask(0)
    try:
        backup_file.write_whole(str(path), lambda file: file.write(b'one'))
    finally:
        os.umask(old)
    assert path.read_bytes() == b'one' and stat.S_IMODE(path.stat().st_mode) == 0o600

    def fail(file):
        file.write(b'half')
        raise OSError(28, 'No space left on device')
    with pytest.raises(OSError):
        backup_file.write_whole(str(path), fail)
    assert path.read_bytes() == b'one' and list(tmp_path.iterdir()) == [path]


def test_a_member_that_changes_while_it_is_copied_fails_the_backup():
    for pieces in ((b'1234',), (b'123456',)):
        with pytest.raises(exception.InvalidInput, match='changed while it was copied'):
            backup_file.Writer(io.BytesIO()).add_stream('images/x', 5, pieces)


def test_passphrases_come_from_files_of_their_owner_and_are_long(tmp_path, monkeypatch):
    path = tmp_path / 'passphrase'
    path.write_text(PASSPHRASE + '\nmore\n')
    path.chmod(0o644)
    with pytest.raises(exception.InvalidInput, match='Users other than its owner'):
        passphrases.read_file(str(path))
    path.chmod(0o600)
    assert passphrases.read_file(str(path)) == PASSPHRASE
    path.write_text('short\n')
    with pytest.raises(exception.InvalidInput, match='5 characters'):
        passphrases.read_file(str(path))
    with pytest.raises(exception.InvalidInput, match='No such file'):
        passphrases.read_file(str(tmp_path / 'missing'))
    monkeypatch.setenv(passphrases.VARIABLE, PASSPHRASE + '2')
    assert passphrases.configured(None) == PASSPHRASE + '2'
    monkeypatch.delenv(passphrases.VARIABLE)
    assert passphrases.configured(None) is None
    monkeypatch.setattr('sys.stdin', io.StringIO(PASSPHRASE))
    with pytest.raises(exception.InvalidInput, match='--passphrase-file'):
        passphrases.prompt(twice=False)
