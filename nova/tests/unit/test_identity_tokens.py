"""The seal of a token and the keys behind it."""
import base64
import datetime
import os
import shutil
import string
import threading

import pytest

from nova import exception
from nova.identity import tokens

NOW = datetime.datetime(2026, 11, 21, 6, 30, 0, 123456)


def claims(**changes):
    values = {'user_id': 'u', 'scope': 'project', 'scope_id': 'p', 'methods': ('password',), 'issued_at': NOW,
              'expires_at': NOW + datetime.timedelta(hours=1), 'audit_ids': ('a', 'b'), 'credential_id': None}
    return tokens.Claims(**values | changes)


def test_a_token_says_what_was_sealed(tmp_path):
    ring = tokens.KeyRing(str(tmp_path))
    assert ring.open(ring.seal(claims())) == claims()
    assert ring.open(ring.seal(claims(scope=None, scope_id=None, credential_id='c'))) == claims(
        scope=None, scope_id=None, credential_id='c')


def test_a_token_is_short_enough_for_any_header(tmp_path):
    long_id = 'f' * 64
    ring = tokens.KeyRing(str(tmp_path))
    token = ring.seal(claims(user_id=long_id, scope_id=long_id, credential_id=long_id))
    assert len(token) <= 600 < tokens.MAX_LENGTH


def test_forged_truncated_and_mangled_tokens_open_to_nothing(tmp_path):
    ring = tokens.KeyRing(str(tmp_path / 'ours'))
    token = ring.seal(claims())
    raw = bytearray(base64.urlsafe_b64decode(token))
    raw[len(raw) // 2] ^= 1
    foreign = tokens.KeyRing(str(tmp_path / 'theirs')).seal(claims())
    for bad in ('', 'x', token[:-1], token[:40], token[1:], base64.urlsafe_b64encode(raw).decode(), foreign,
                token + 'A' * 2000, 'é' * 40, token.replace('g', 'é', 1), '\0'):
        assert ring.open(bad) is None, bad


def test_every_single_byte_is_protected(tmp_path):
    ring = tokens.KeyRing(str(tmp_path))
    raw = base64.urlsafe_b64decode(ring.seal(claims()))
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 0x80]) + raw[place + 1:]
        assert ring.open(base64.urlsafe_b64encode(changed).decode()) is None, place


ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + '-_'


@pytest.mark.parametrize('user_id', ['u', 'u' * 20, 'u' * 40])       # each padding that there may be
def test_a_token_has_one_form(tmp_path, user_id):
    """Decoding base64 passes over foreign characters and what follows the padding: such texts were tokens, too."""
    ring = tokens.KeyRing(str(tmp_path))
    token = ring.seal(claims(user_id=user_id))
    body = token.rstrip('=')
    others = {token + token, token + 'A', token + '=', f'"{token}"', f'{token},{token}', ' ' + token, token + '\n',
              "'" + token, token[:10] + '.' + token[10:], token[:10] + '\0' + token[10:], token.replace('=', ''),
              token.replace('-', '+').replace('_', '/') + ' '}
    # the bits of the last character that mean nothing
    others |= {body[:-1] + last + '=' * (len(token) - len(body)) for last in ALPHABET}
    for other in others - {token}:
        assert ring.open(other) is None, other
    assert ring.open(token) == claims(user_id=user_id)


def test_key_file_is_private_from_the_start(tmp_path):
    old = os.umask(0)
    try:
        ring = tokens.KeyRing(str(tmp_path / 'keys'))
        ring.stage()
        ring.promote()
    finally:
        os.umask(old)
    assert os.stat(ring.path).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / 'keys').st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path / 'keys') == [tokens.KEY_FILE]


def test_a_key_file_that_others_can_read_is_refused(tmp_path):
    ring = tokens.KeyRing(str(tmp_path))
    os.chmod(ring.path, 0o640)
    with pytest.raises(exception.NovaException, match='chmod 600'):
        tokens.KeyRing(str(tmp_path))


def test_processes_that_start_together_agree_on_a_key(tmp_path):
    rings = []
    threads = [threading.Thread(target=lambda: rings.append(tokens.KeyRing(str(tmp_path)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rings) == 8
    assert all(ring.open(rings[0].seal(claims())) for ring in rings)


def test_a_new_key_comes_in_steps(tmp_path):
    """Two hosts with copies of the files, changed one after the other: every token is good at every moment."""
    (tmp_path / 'one').mkdir()
    tokens.KeyRing(str(tmp_path / 'one'))
    shutil.copytree(tmp_path / 'one', tmp_path / 'two')
    one, two = (tokens.KeyRing(str(tmp_path / name)) for name in ('one', 'two'))
    sealed = []

    def all_good():
        sealed.extend((one.seal(claims()), two.seal(claims())))
        assert all(ring.open(token) for ring in (one, two) for token in sealed)

    def copy(name):
        shutil.copy2(tmp_path / 'one' / name, tmp_path / 'two' / name)
        all_good()
    all_good()
    with pytest.raises(exception.Conflict):
        one.promote()
    staged = one.stage()
    assert os.stat(staged).st_mode & 0o777 == 0o600
    with pytest.raises(exception.Conflict):
        one.stage()
    all_good()
    copy(tokens.KEY_FILE + tokens.STAGED)
    one.promote()
    all_good()                            # the other host opens what the new key seals, and seals with the old one
    copy(tokens.KEY_FILE)
    os.unlink(two.path + tokens.STAGED)
    all_good()
    assert not os.path.exists(staged)
    with pytest.raises(exception.Conflict, match='valid for up to'):
        one.retire(60)
    newest = one.seal(claims())
    assert one.retire() == 1 and one.retire() == 0
    assert one.open(newest) and two.open(newest) and one.open(sealed[0]) is None


def test_commands_that_run_together_lose_no_key(tmp_path):
    tokens.KeyRing(str(tmp_path))
    rings, outcomes = [tokens.KeyRing(str(tmp_path)) for _ in range(6)], []

    def stage(ring):
        try:
            ring.stage()
            outcomes.append('staged')
        except exception.Conflict:
            outcomes.append('refused')
    threads = [threading.Thread(target=stage, args=(ring,)) for ring in rings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ['refused'] * 5 + ['staged']


def test_a_token_has_one_spelling(tmp_path):
    """base64 passes over what is none of its characters, and leaves bits of the last one unused."""
    ring = tokens.KeyRing(str(tmp_path))
    for length in range(1, 40):
        token = ring.seal(claims(user_id='u' * length))
        assert ring.open(token) is not None
        for other in (token[:9] + '\t' + token[9:], token + '\n', token + '=', token[:20] + '!' + token[20:],
                      token.replace('-', '+').replace('_', '/')):
            assert other == token or ring.open(other) is None, other
        end = token.rstrip('=')
        if end != token:
            alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
            following = alphabet[alphabet.index(end[-1]) ^ 1]
            assert ring.open(end[:-1] + following + token[len(end):]) is None
