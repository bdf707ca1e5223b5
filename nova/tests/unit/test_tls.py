"""Which TLS a listener has by its configuration."""
import errno
import logging
import tarfile
import threading

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.cmd.manage import main as manage
from nova.cmd.manage import tls as tls_commands
from nova.runtime import certificates
from nova.runtime import tls
from nova.virt.libvirt.moves import outgoing


def configured(**options):
    return nova_conf.new([], **{f'http__{name}': value for name, value in options.items()})


@pytest.mark.parametrize('listen, choice, wanted', [
    ('127.0.0.1', 'auto', False), ('::1', 'auto', False), ('localhost', 'auto', False), ('0.0.0.0', 'auto', True),
    ('::', 'auto', True), ('192.0.2.1', 'auto', True), ('cloud.example.org', 'auto', True),
    ('127.0.0.1', 'on', True), ('0.0.0.0', 'off', False)])
def test_a_cloud_speaks_tls_where_others_reach_it(tmp_path, listen, choice, wanted):
    made, authority = tls.of_cloud(configured(listen=listen, tls=choice), tmp_path)
    assert (made is not None, authority is not None) == (wanted, wanted)
    assert (tmp_path / 'tls').exists() == wanted


def test_the_certificate_names_all_ways_to_the_cloud(tmp_path):
    conf = configured(listen='0.0.0.0', public_url='https://cloud.example.org:8774/')
    conf.set_override('my_ip', '192.0.2.1')
    tls.of_cloud(conf, tmp_path)
    assert certificates.Authority(tmp_path / 'tls').status()[1].hosts == (
        'localhost', '127.0.0.1', '::1', '192.0.2.1', 'cloud.example.org')


def test_own_files_are_used_and_no_authority_is_made(tmp_path):
    pair = certificates.Authority(tmp_path / 'mine').pair('api', ['cloud.example.org'])
    conf = configured(cert_file=str(pair.certificate), key_file=str(pair.key))
    made, authority = tls.of_cloud(conf, tmp_path / 'state')
    assert made is not None and authority is None and not (tmp_path / 'state').exists()
    assert tls.of_daemon(conf) is not None


@pytest.mark.parametrize('options, reason', [
    ({'cert_file': '/x'}, 'set both cert_file and key_file'),
    ({'key_file': '/x'}, 'set both cert_file and key_file'), ({'tls': 'on'}, 'set cert_file'),
    ({'cert_file': '/no/x.pem', 'key_file': '/no/x.key'}, 'cannot be read')])
def test_a_daemon_says_what_is_missing(options, reason):
    with pytest.raises(exception.InvalidInput, match=reason):
        tls.of_daemon(configured(**options))


def test_a_daemon_without_tls_warns_where_others_reach_it(caplog):
    with caplog.at_level(logging.WARNING):
        assert tls.of_daemon(configured()) is None
        assert tls.of_daemon(configured(listen='0.0.0.0', tls='off')) is None
        assert not caplog.records
        assert tls.of_daemon(configured(listen='0.0.0.0')) is None
    assert 'without TLS' in caplog.text


def test_damaged_certificate_files_leave_the_listener_unchanged(tmp_path, caplog):
    pair = certificates.Authority(tmp_path).pair('api', ['cloud.example.org'])
    made = tls.given(configured(cert_file=str(pair.certificate), key_file=str(pair.key)))
    pair.certificate.write_text('nothing')
    made.reload()
    assert 'the previous one is kept' in caplog.text


def test_certificate_is_renewed_after_an_error_of_the_system(tmp_path, monkeypatch, caplog):
    """One check without a free descriptor ended the renewal."""
    monkeypatch.setattr(tls, 'CHECK_INTERVAL_S', 0.01)
    authority, failures, renewed = certificates.Authority(tmp_path), [], threading.Event()

    def pair():
        if failures:
            raise failures.pop()
        renewed.set()
        return authority.pair('api', ['cloud.example.org'])
    made = tls.Tls(pair)
    failures += [RuntimeError('odd'), OSError(errno.EMFILE, 'Too many open files')]
    renewed.clear()
    made.start()
    try:
        assert renewed.wait(10) and failures == []
        assert 'the previous one is kept: [Errno 24] Too many open files' in caplog.text
        assert 'The certificate is checked again later' in caplog.text
    finally:
        made.stop()


def test_tls_commands_show_issue_and_renew_certificates(tmp_path, capsys):
    """nova-manage tls status, issue and renew."""
    def run(*arguments):
        code = manage.main(['tls', *arguments, '--state-path', str(tmp_path)])
        return code, *capsys.readouterr()
    assert run('status')[:2] == (0, f'{tmp_path}/tls has no certificates. nova-all creates them when it listens with '
                                    'TLS; nova-manage tls issue creates one for another server.\n')
    code, out, _err = run('issue', 'rabbit1', '--host', 'rabbit1.example.org', '--host', '192.0.2.5')
    assert code == 0 and f'{tmp_path}/tls/rabbit1.pem' in out
    for use, server, client in (('rabbitmq', 'ssl_options.certfile = /etc/rabbitmq/rabbit1.pem', 'ssl_ca_file'),
                                ('metadata', 'cert_file = /etc/nova/rabbit1.pem', 'auth_ca_cert')):
        code, out, _err = run('issue', 'rabbit1', '--host', 'rabbit1.example.org', '--host', '192.0.2.5', '--use', use)
        assert code == 0 and server in out and client in out
    code, out, _err = run('status')
    assert code == 0 and 'rabbit1.example.org, 192.0.2.5' in out
    before = (tmp_path / 'tls' / 'rabbit1.pem').read_bytes()
    assert run('renew')[:2] == (0, f'{tmp_path}/tls/rabbit1.pem\n')
    assert (tmp_path / 'tls' / 'rabbit1.pem').read_bytes() != before
    code, out, _err = run('renew', '--authority')
    assert code == 0 and 'new CA' in out
    assert [row.name for row in certificates.Authority(tmp_path / 'tls').status()] == ['ca', 'ca', 'rabbit1']
    archive = tmp_path / 'host.tar'
    code, out, _err = run('issue', 'rabbit1', '--host', '192.0.2.5', '--use', 'hypervisor', '--archive', str(archive))
    assert code == 0 and f'tar -C / -xpf {archive}' in out and archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as packed:
        found = {each.name: each for each in packed}
        assert packed.extractfile('etc/pki/qemu/server-cert.pem').read() == (
            tmp_path / 'tls' / 'rabbit1.pem').read_bytes()
        assert packed.extractfile('etc/pki/libvirt/private/clientkey.pem').read() == (
            tmp_path / 'tls' / 'rabbit1-client.key').read_bytes()
    assert {row.name: row.uses for row in certificates.Authority(tmp_path / 'tls').status() if row.hosts} == {
        'rabbit1': (certificates.SERVER,), 'rabbit1-client': (certificates.CLIENT,)}
    code, out, _err = run('issue', 'host1', '--host', 'host1.example.org', '--use', 'client')
    assert code == 0 and 'ssl_cert_file = /etc/nova/tls/host1-client.pem' in out
    assert f'{tmp_path}/tls/host1-client.pem' in out
    assert run('renew')[1].split() == [
        f'{tmp_path}/tls/{name}.pem' for name in ('host1-client', 'rabbit1-client', 'rabbit1')]
    uses = {row.name: row.uses for row in certificates.Authority(tmp_path / 'tls').status() if row.hosts}
    assert [row.subject for row in certificates.Authority(tmp_path / 'tls').status() if row.hosts] == [
        'host1', 'rabbit1', 'rabbit1']                        # by which the exports of volumes know a host
    assert uses == {'host1-client': (certificates.CLIENT,), 'rabbit1': (certificates.SERVER,),
                    'rabbit1-client': (certificates.CLIENT,)}
    assert {'etc/pki/qemu/' + name for name in outgoing.TLS_FILES} < set(found)
    assert {each.mode for each in found.values() if 'key.pem' in each.name} == {0o600, 0o640}
    assert (found['etc/pki/qemu/client-key.pem'].uname, found['etc/pki/qemu/client-key.pem'].gname) == (
        'root', 'libvirt-qemu')
    code, _out, err = run('issue', 'rabbit1', '--host', '192.0.2.5', '--use', 'api', '--archive', str(archive))
    assert code == 1 and 'needs --use hypervisor' in err
    for name in ('../x', 'ca'):
        code, _out, err = run('issue', name, '--host', 'a.org')
        assert code == 1 and 'cannot be the name of a certificate' in err


def test_certificate_is_not_replaced_by_one_for_another_use(tmp_path, capsys):
    def run(*arguments):
        return manage.main(['tls', 'issue', *arguments, '--state-path', str(tmp_path)]), *capsys.readouterr()
    authority = certificates.Authority(tmp_path / 'tls')
    for use in ('hypervisor', 'client', 'hypervisor'):            # a host of libvirt that is also a user of the broker
        assert run('host1', '--host', '192.0.2.5', '--use', use)[0] == 0
        assert {row.name: (row.uses, row.subject) for row in authority.status() if row.hosts} == {
            'host1': ((certificates.SERVER,), 'host1'), 'host1-client': ((certificates.CLIENT,), 'host1')}
    authority.renew('host2', ['192.0.2.6'], certificates.CLIENT)                     # as earlier releases named it
    before = authority.pair('host2', ['192.0.2.6'], use=certificates.CLIENT).certificate.read_bytes()
    for name, use in (('host2', 'hypervisor'), ('host2', 'api'), ('host1-client', 'rabbitmq')):
        code, _out, err = run(name, '--host', '192.0.2.6', '--use', use)
        assert code == 1 and f'{name}.pem is a certificate for the other use' in err
    assert (tmp_path / 'tls/host2.pem').read_bytes() == before
    assert run('host2', '--host', '192.0.2.6', '--use', 'client')[0] == 0


def test_printed_options_of_a_broker_user_name_the_files_of_the_tls_commands(capsys):
    assert manage.main(['host', 'rabbitmq', 'host1', '--certificate']) == 0
    lines = set(capsys.readouterr().out.splitlines())
    assert set(tls_commands.LINES['rabbitmq'][1].splitlines()[1:]) < lines
    assert set(tls_commands.LINES['client'][0].format(name='host1').splitlines()[3:5]) < lines
