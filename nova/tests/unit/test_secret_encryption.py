"""The keys of encrypted disks as the database has them, and the file that opens them."""
import base64
import os
import stat

import pytest

from nova.runtime import secret_encryption

ONE, TWO = b'1' * 32, b'2' * 32
SERVER, OTHER = '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d11', '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d12'


def test_secret_is_decrypted_with_the_key_for_its_server_only():
    cipher = secret_encryption.SecretCipher([ONE])
    encrypted = cipher.encrypt('secret', SERVER)
    assert 'secret' not in encrypted and b'secret' not in base64.b64decode(encrypted)
    assert cipher.decrypt(cipher.first, encrypted, SERVER) == 'secret' and cipher.encrypt('secret', SERVER) != encrypted
    changed = ('B' if encrypted[0] == 'A' else 'A') + encrypted[1:]
    for name, text, server, why in ((cipher.first, encrypted, OTHER, 'belongs to another server'),
                                    (cipher.first, changed, SERVER, 'changed'),
                                    (cipher.first, 'no base64!', SERVER, 'changed'),
                                    (secret_encryption.SecretCipher([TWO]).first, encrypted, SERVER, 'does not have')):
        with pytest.raises(secret_encryption.Unusable, match=why):
            cipher.decrypt(name, text, server)


def test_the_first_key_encrypts_and_all_keys_decrypt():
    old = secret_encryption.SecretCipher([ONE])
    both = secret_encryption.SecretCipher([TWO, ONE])
    assert both.first != old.first
    assert both.decrypt(old.first, old.encrypt('secret', SERVER), SERVER) == 'secret'


def test_a_file_is_made_once_and_for_its_owner_alone(tmp_path):
    path = str(tmp_path / 'state' / 'disk-keys')
    assert secret_encryption.read(path) is None
    secret_encryption.make(path)
    keys = secret_encryption.read(path)
    secret_encryption.make(path)                                 # another process was faster
    assert len(keys[0]) == 32 and secret_encryption.read(path) == keys
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and os.listdir(tmp_path / 'state') == ['disk-keys']


@pytest.mark.parametrize(('content', 'mode', 'why'), [
    (base64.b64encode(ONE), 0o640, 'other than its owner'), (b'no key!', 0o600, 'a line that is not a key'),
    (base64.b64encode(b'short'), 0o600, '32 bytes'), (b'', 0o600, '32 bytes')])
def test_unusable_key_file_is_refused(tmp_path, content, mode, why):
    path = tmp_path / 'disk-keys'
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(secret_encryption.Unusable, match=why):
        secret_encryption.SecretCipher(secret_encryption.read(str(path)))
