"""The keys of encrypted disks as the database has them, and the file that opens them."""
import base64
import os
import stat

import pytest

from nova.runtime import sealing

ONE, TWO = b'1' * 32, b'2' * 32
SERVER, OTHER = '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d11', '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d12'


def test_only_the_deployment_and_only_for_its_server():
    sealer = sealing.Sealer([ONE])
    sealed = sealer.seal('secret', SERVER)
    assert 'secret' not in sealed and b'secret' not in base64.b64decode(sealed)
    assert sealer.open(sealer.first, sealed, SERVER) == 'secret' and sealer.seal('secret', SERVER) != sealed
    for name, text, server, why in ((sealer.first, sealed, OTHER, 'belongs to another server'),
                                    (sealer.first, ('B' if sealed[0] == 'A' else 'A') + sealed[1:], SERVER, 'changed'),
                                    (sealer.first, 'no base64!', SERVER, 'changed'),
                                    (sealing.Sealer([TWO]).first, sealed, SERVER, 'does not have')):
        with pytest.raises(sealing.Unusable, match=why):
            sealer.open(name, text, server)


def test_a_new_first_line_seals_and_the_old_one_opens():
    old = sealing.Sealer([ONE])
    both = sealing.Sealer([TWO, ONE])
    assert both.first != old.first
    assert both.open(old.first, old.seal('secret', SERVER), SERVER) == 'secret'


def test_a_file_is_made_once_and_for_its_owner_alone(tmp_path):
    path = str(tmp_path / 'state' / 'disk-keys')
    assert sealing.read(path) is None
    sealing.make(path)
    keys = sealing.read(path)
    sealing.make(path)                                 # another process was faster
    assert len(keys[0]) == 32 and sealing.read(path) == keys
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and os.listdir(tmp_path / 'state') == ['disk-keys']


@pytest.mark.parametrize(('content', 'mode', 'why'), [
    (base64.b64encode(ONE), 0o640, 'others'), (b'no key!', 0o600, 'something else'),
    (base64.b64encode(b'short'), 0o600, '32 bytes'), (b'', 0o600, '32 bytes')])
def test_a_file_that_cannot_be_one(tmp_path, content, mode, why):
    path = tmp_path / 'disk-keys'
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(sealing.Unusable, match=why):
        sealing.Sealer(sealing.read(str(path)))
