"""Passwords in the arguments of actions, as the database may have them."""
import pytest

from nova import conf as nova_conf
from nova.runtime import encrypted_passwords

ONE, TWO = '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d11', '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d12'
ARGUMENTS = {'image_id': 'i', 'admin_password': 'canary'}


def passwords(path):
    return encrypted_passwords.Passwords(nova_conf.new(files=[], state_path=str(path)))


@pytest.fixture
def own(tmp_path):
    return passwords(tmp_path)


def test_an_encrypted_password_is_bound_to_one_server(own):
    one, two = own.encrypted(ARGUMENTS, ONE, TWO)
    assert 'canary' not in str([one, two]) and one['image_id'] == two['image_id'] == 'i' and one != two
    assert own.decrypted(one, ONE) == own.decrypted(two, TWO) == ARGUMENTS
    assert own.decrypted(one, TWO) == {'image_id': 'i'}


def test_arguments_without_a_password_stay_as_they_are(own, tmp_path):
    assert own.encrypted({'admin_password': None, 'a': 1}, ONE) == [{'admin_password': None, 'a': 1}]
    assert own.decrypted(None, ONE) == {} and own.decrypted({'a': 1}, ONE) == {'a': 1}
    assert not (tmp_path / 'password-keys').exists()


def test_a_password_of_an_older_release_is_read(own):
    assert own.decrypted(ARGUMENTS, ONE) == ARGUMENTS


def test_another_key_does_not_decrypt(own, tmp_path, caplog):
    encrypted, = own.encrypted(ARGUMENTS, ONE)
    other = passwords(tmp_path / 'other')
    assert other.decrypted(encrypted, ONE) == {'image_id': 'i'} and 'the file does not exist' in caplog.text
    other.encrypted(ARGUMENTS, ONE)
    assert other.decrypted(encrypted, ONE) == {'image_id': 'i'} and 'canary' not in caplog.text


def test_without_a_usable_key_the_password_is_left_out(own, tmp_path, caplog):
    (tmp_path / 'password-keys').write_text('no key')
    (tmp_path / 'password-keys').chmod(0o600)
    assert own.encrypted(ARGUMENTS, ONE) == [{'image_id': 'i'}]
    assert 'are not kept' in caplog.text and 'canary' not in caplog.text
