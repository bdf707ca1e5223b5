"""os-certificates of a whole cloud: nova-cert behind its queue, real HTTP and tokens; nova-manage cert beside it."""
import dataclasses
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.x509.oid import NameOID
import pytest

from nova import context
from nova import exception
from nova import policy
from nova.cert import authorities
from nova.cert import interface
from nova.cert import signing
from nova.cmd.manage import main as manage
from nova.tests.functional import cloud as whole

ROOT, ALL = '/os-certificates/root', '/os-certificates'
TEXT = '00112233445566778899aabbccddeeff'


@pytest.fixture(scope='module', autouse=True)
def small():
    """Keys are made faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, 'AUTHORITY_BITS', 1024)
        patch.setattr(signing, 'USER_BITS', 1024)
        yield


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('certificates'), api__nova_network_resources=True,
                       crypto__use_project_ca=True) as made:
        yield made


@pytest.fixture(scope='module')
def plain(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('plain')) as made:
        yield made


@pytest.fixture
def cert(cloud):
    """(client of the service, an administrator's context)"""
    return cloud.bus.client(interface.INTERFACE), context.admin_context()


def certificate(answer):
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {'certificate'}
    return answer.json()['certificate']


def value(name, kind):
    return name.get_attributes_for_oid(kind)[0].value


def run(cloud, capsys, *words):
    """(exit code, what it printed) of nova-manage cert on the files of the cloud."""
    config = cloud.state_path / 'manage.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\n[crypto]\nuse_project_ca = true\n')
    code = manage.main(['--config-file', str(config), 'cert', *words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_without_the_option_it_is_gone(plain):
    client = plain.client()
    for answer in (client.get(ROOT), client.post(ALL, {}), plain.admin().get(ROOT)):
        assert answer.status_code == 410, answer.text
    assert 'nova-cert' not in {part.binary for part in plain.services} and not (plain.state_path / 'CA').exists()


@pytest.mark.parametrize('version', [None, '2.1', '2.36', '2.102'])
def test_a_user_gets_a_certificate(cloud, version):
    client = cloud.client()
    root = certificate(client.get(ROOT, version=version))
    made = certificate(client.post(ALL, {'certificate': {}}, version=version))
    assert root.keys() == made.keys() == {'data', 'private_key'} and root['private_key'] is None
    project, above = x509.load_pem_x509_certificates(root['data'].encode())
    found = x509.load_pem_x509_certificate(made['data'].encode())
    found.verify_directly_issued_by(project)
    project.verify_directly_issued_by(above)
    assert value(project.subject, NameOID.ORGANIZATIONAL_UNIT_NAME) == client.project_id
    assert value(found.subject, NameOID.ORGANIZATIONAL_UNIT_NAME) == client.project_id
    assert value(found.subject, NameOID.COMMON_NAME) == client.user_id
    key = serialization.load_pem_private_key(made['private_key'].encode(), None)
    assert key.public_key() == found.public_key()


def test_certificate_is_issued_for_the_calling_user_and_project(cloud):
    """Nothing in a request names a project or a user; others have other authorities."""
    roots = [certificate(client.get(ROOT))['data'] for client in (cloud.client(), cloud.admin())]
    assert roots[0] != roots[1]
    body = {'certificate': {'project_id': cloud.admin().project_id, 'user_id': 'x'}}
    made = certificate(cloud.client().post(ALL, body))
    subject = x509.load_pem_x509_certificate(made['data'].encode()).subject
    assert value(subject, NameOID.ORGANIZATIONAL_UNIT_NAME) == cloud.client().project_id


def test_unsupported_certificate_requests_are_refused(cloud):
    client = cloud.client()
    answer = client.get('/os-certificates/other')
    assert answer.status_code == 501 and 'os-certificates/root' in answer.text
    assert client.session.get(f'{cloud.url}/compute/v2.1{ROOT}').status_code == 401
    assert client.get(ALL).status_code in (404, 405)


def test_a_reader_makes_none(cloud):
    """The rule of os-certificates is that of members; in a policy file it can be another one."""
    reader = context.RequestContext(user_id='r', project_id='p' * 32, roles=['reader'])
    rules = policy.Policy(cloud.conf)
    target = {'project_id': 'p' * 32, 'user_id': 'r'}
    assert rules.allows(reader, 'nova:certificates:show', target)
    assert not rules.allows(reader, 'nova:certificates:create', target)


def test_certificate_beyond_the_limit_returns_403(cloud, monkeypatch):
    monkeypatch.setattr(authorities, 'CERTIFICATES', 0)
    answer = cloud.client().post(ALL, {})
    assert answer.status_code == 403 and 'certificates' in answer.json()['forbidden']['message']


def test_the_service_decrypts_and_has_lists(cloud, cert):
    client, ctx = cert
    user = cloud.client()
    trusted = x509.load_pem_x509_certificates(client.fetch_ca(ctx, project_id=user.project_id).encode())
    for each in trusted:
        text = each.public_key().encrypt(TEXT.encode(), padding.PKCS1v15()).hex()
        assert client.decrypt_text(ctx, project_id=user.project_id, text=text) == TEXT
    text = trusted[0].public_key().encrypt(TEXT.encode(), padding.PKCS1v15()).hex()
    with pytest.raises(exception.InvalidInput, match='is not encrypted for'):
        client.decrypt_text(ctx, project_id='c' * 32, text=text)
    with pytest.raises(exception.InvalidInput, match='hexadecimal'):
        client.decrypt_text(ctx, project_id=user.project_id, text='0' * 2000)
    made = client.generate_x509_cert(ctx, user_id='someone', project_id=user.project_id)
    assert client.revoke_certs(ctx, user_id='someone', project_id=None) == 1
    serial = x509.load_pem_x509_certificate(made['certificate'].encode()).serial_number
    lists = client.fetch_crl(ctx, project_id=user.project_id).partition('-----END X509 CRL-----\n')
    found = x509.load_pem_x509_crl((lists[0] + lists[1]).encode())
    assert found.is_signature_valid(trusted[0].public_key())
    assert found.get_revoked_certificate_by_serial_number(serial) is not None
    with pytest.raises(exception.InvalidInput, match='specify the user or the project'):
        client.revoke_certs(ctx, user_id=None, project_id=None)
    with pytest.raises(exception.InvalidInput, match='not a valid ID'):
        client.fetch_ca(ctx, project_id='../..')


def test_it_is_among_the_services(cloud):
    rows = cloud.admin().get('/os-services').json()['services']
    assert [(row['state'], row['status']) for row in rows if row['binary'] == 'nova-cert'] == [('up', 'enabled')]


def test_an_operator_rotates_and_revokes(cloud, capsys):
    user = cloud.client()
    made = certificate(user.post(ALL, {}))
    serial = x509.load_pem_x509_certificate(made['data'].encode()).serial_number
    code, shown = run(cloud, capsys, 'list', '--project', user.project_id, '--user', user.user_id)
    line, = (line for line in shown.splitlines() if f'{serial:040x}' in line)
    ends = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=365)).strftime('%Y-%m-%d')
    assert not code and 'valid' in line and ends in line
    code, shown = run(cloud, capsys, 'revoke', '--serial', f'{serial:040x}')
    assert not code and shown.startswith('1 revoked')
    assert run(cloud, capsys, 'revoke', '--serial', f'{serial:040x}')[0] == 1
    for invalid in ('-1', '0x5', '1_0', '0' * 41):
        assert 'is not a serial number' in run(cloud, capsys, 'revoke', f'--serial={invalid}')[1]
    code, shown = run(cloud, capsys, 'list', '--project', user.project_id)
    assert 'revoked' in next(line for line in shown.splitlines() if f'{serial:040x}' in line)
    crl = run(cloud, capsys, 'crl', user.project_id)[1].partition('-----END X509 CRL-----\n')
    assert x509.load_pem_x509_crl((crl[0] + crl[1]).encode()).get_revoked_certificate_by_serial_number(serial)
    before = certificate(user.get(ROOT))['data']
    assert run(cloud, capsys, 'ca', user.project_id) == (0, before)
    code, shown = run(cloud, capsys, 'rotate', '--project', user.project_id)
    after = certificate(user.get(ROOT))['data']                    # the running service uses it at once
    assert not code and f'OU={user.project_id}' in shown and after != before
    assert len(x509.load_pem_x509_certificates(after.encode())) == 3
    found = x509.load_pem_x509_certificate(certificate(user.post(ALL, {}))['data'].encode())
    found.verify_directly_issued_by(x509.load_pem_x509_certificates(after.encode())[0])
    code, shown = run(cloud, capsys, 'rotate', '--project', user.project_id, '--forget')
    assert not code and 'need new certificates' in shown
    assert len(x509.load_pem_x509_certificates(certificate(user.get(ROOT))['data'].encode())) == 2


@pytest.mark.parametrize('words, sentence', [
    (('revoke',), 'Specify what to revoke'), (('revoke', '--serial', 'x'), 'not a serial number'),
    (('revoke', '--project', '*'), 'not a valid ID'), (('ca', '../x'), 'not a valid ID')])
def test_an_operator_is_told(cloud, capsys, words, sentence):
    code, shown = run(cloud, capsys, *words)
    assert code == 1 and sentence in shown


def test_audit_log_records_the_creator_of_a_certificate(cloud):
    """The audit log has the serial number, and neither the key nor the certificate."""
    client = cloud.client()
    found = x509.load_pem_x509_certificate(certificate(client.post(ALL, {}))['data'].encode())
    records = client.get('/os-audit', version='2.102').json()['audit_records']
    record, = (each for each in records if each['target_id'] == f'{found.serial_number:040x}')
    assert record['action'] == 'nova:certificates:create' and record['user_id'] == client.user_id
    assert 'BEGIN' not in str(records)


def test_unavailable_certificate_service_returns_503(cloud, monkeypatch):
    """The last one here: it ends the service. Others are answered, and this with 503 and no long wait."""
    row = interface.INTERFACE.methods['fetch_ca']
    monkeypatch.setitem(interface.INTERFACE.methods, 'fetch_ca', dataclasses.replace(row, timeout=1))
    next(part for part in cloud.services if part.binary == 'nova-cert').stop(5)
    answer = cloud.client().get(ROOT)
    assert answer.status_code == 503, answer.text
    assert cloud.client().get('/servers').status_code == 200
