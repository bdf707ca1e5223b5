"""When live migrations between QEMUs are encrypted."""
import pytest

from nova import exception
from nova.virt.libvirt.moves import outgoing


def test_a_host_can_with_the_files_of_a_server_and_of_a_client(tmp_path):
    settings = {'default_tls_x509_cert_dir': f' {tmp_path} '}
    for name in outgoing.TLS_FILES:
        assert not outgoing.can_encrypt(None, settings)
        (tmp_path / name).touch()
    assert outgoing.can_encrypt(None, settings)
    assert not outgoing.can_encrypt(None, {**settings, 'migrate_tls_x509_cert_dir': str(tmp_path / 'other')})
    assert not outgoing.can_encrypt(False, settings) and outgoing.can_encrypt(True, {})


@pytest.mark.parametrize('wanted, here, demanded, there, result', [
    (None, True, False, True, True), (None, True, False, False, False), (None, False, False, True, False),
    (True, True, False, True, True), (True, True, False, False, None), (None, False, True, True, None),
    (False, False, True, True, None), (False, False, False, True, False),
])
def test_two_hosts_agree_or_refuse(wanted, here, demanded, there, result):
    if result is not None:
        assert outgoing.agree_on_tls(wanted, here, demanded, there) is result
        return
    with pytest.raises(exception.MigrationPreCheckError, match='native_tls'):
        outgoing.agree_on_tls(wanted, here, demanded, there)
