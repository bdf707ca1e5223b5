"""VPN instances of a whole cloud with the fake driver: os-cloudpipe over HTTP, nova-manage vpn beside it."""
import base64
import concurrent.futures
import datetime
import itertools
import shutil
import subprocess

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
import pytest

from nova.cert import signing
from nova.cmd.manage import main as manage
from nova.db.projects import vpns
from nova.tests.support import waiting
from nova.tests.functional import callers
from nova.tests.functional import cloud as whole
from nova.vpn import script as vpn_script

NUMBERS = itertools.count()
PIPES, CATEGORY = '/os-cloudpipe', '/os-instance-categories/vpn'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    bits, signing.AUTHORITY_BITS = signing.AUTHORITY_BITS, 2048
    try:
        with whole.running(tmp_path_factory.mktemp('vpns'), api__nova_network_resources=True) as made:
            yield made
    finally:
        signing.AUTHORITY_BITS = bits


@pytest.fixture(scope='module')
def admin(cloud):
    return cloud.admin()


@pytest.fixture(scope='module')
def image(cloud, admin):
    """The image of the category, which is for administrators."""
    made = admin.upload_image(name='vpn', visibility='public')
    answer = admin.put(CATEGORY, {'instance_category': {'default_image': made, 'default_flavor': '42'}})
    assert answer.status_code == 200, answer.text
    return made


@pytest.fixture
def project(cloud, image):
    """A member of a project that is new in each test."""
    name = f'with-vpn-{next(NUMBERS)}'
    made = callers.Identity(cloud.admin()).in_project(name, 'member')
    made.project_name = name
    return made


def make(admin, project_id):
    answer = admin.post(PIPES, {'cloudpipe': {'project_id': project_id}})
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {'instance_id'}
    return answer.json()['instance_id']


def shown(admin, project_id):
    answer = admin.get(PIPES)
    assert answer.status_code == 200, answer.text
    return next((row for row in answer.json()['cloudpipes'] if row['project_id'] == project_id), None)


def run(cloud, capsys, *words):
    """(exit code, what it printed) of nova-manage vpn beside the cloud."""
    config = cloud.state_path / 'manage.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\n')
    capsys.readouterr()
    code = manage.main(['--config-file', str(config), 'vpn', *words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def script_of(cloud, admin, server):
    document = admin.get(f'/servers/{server}', version='2.96').json()['server']
    return base64.b64decode(document['OS-EXT-SRV-ATTR:user_data']).decode()


def pieces_of(script):
    """{name: text} of the files that a script writes, by what their paths end with."""
    return {name: script.partition(f"cat >{path} <<'END'\n")[2].partition('END\n')[0]
            for name, path in {**vpn_script.PIECES, 'revoked': '/etc/openvpn/revoked'}.items()}


def test_without_the_option_it_is_gone(tmp_path):
    with whole.running(tmp_path) as plain:
        admin = plain.admin()
        for answer in (admin.get(PIPES), admin.post(PIPES, {'cloudpipe': {}}),
                       admin.put(PIPES + '/configure-project', {})):
            assert answer.status_code == 410, answer.text


def test_an_image_is_asked_for(cloud, admin):
    """Before the fixture sets one."""
    if admin.get(CATEGORY).json()['instance_category']['default_image'] is None:
        answer = admin.post(PIPES, {'cloudpipe': {}})
        assert answer.status_code == 400 and 'default image' in answer.text


@pytest.mark.parametrize('version', [None, '2.1', '2.36', '2.91', '2.104'])
def test_vpn_instance_is_created_once_and_hidden_from_users(cloud, admin, project, version):
    """One server of the category in the project, which its users do not see; a second request finds it."""
    answer = admin.post(PIPES, {'cloudpipe': {'project_id': project.project_id}}, version=version)
    assert answer.status_code == 200, answer.text
    server = answer.json()['instance_id']
    assert make(admin, project.project_id) == server
    admin.wait_for(server)
    row = shown(admin, project.project_id)
    assert row.keys() == {'project_id', 'instance_id', 'internal_ip', 'public_ip', 'public_port', 'state', 'created_at'}
    assert row['instance_id'] == server and row['state'] == 'running' and row['public_port'] == vpn_script.PORT
    assert row['public_ip'] == row['internal_ip'] and row['internal_ip'].count('.') == 3
    document = admin.get(f'/servers/{server}', version='2.91').json()['server']
    assert document['os-instance-categories:category'] == 'vpn' and document['tenant_id'] == project.project_id
    assert {group['name'] for group in document['security_groups']} == {'default', f'vpn-{project.project_id}'}
    assert project.get(f'/servers/{server}').status_code == 404
    assert project.get('/servers').json()['servers'] == []
    assert admin.delete(f'/servers/{server}').status_code == 204
    admin.wait_for(server, 'DELETED')
    waiting.settled(lambda: _gone(admin, project))
    again = make(admin, project.project_id)
    assert again != server
    admin.delete(f'/servers/{again}')


def _gone(admin, project):
    assert shown(admin, project.project_id) is None


def test_its_certificate_is_a_servers_of_the_project(cloud, admin, project, tmp_path):
    """A client can look at the whole subject; who is revoked is in the script."""
    mine = project.post('/os-certificates', {}).json()['certificate']
    serial = x509.load_pem_x509_certificate(mine['data'].encode()).serial_number
    assert _cert(cloud, 'revoke', '--serial', f'{serial:040x}') == 0
    server = make(admin, project.project_id)
    script = script_of(cloud, admin, server)
    pieces = pieces_of(script)
    certificate = x509.load_pem_x509_certificate(pieces['certificate'].encode())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificates(pieces['ca'].encode())[0])
    assert certificate.subject.rfc4514_string() == f'CN=vpn,OU={project.project_id},O=nova'
    assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH]
    assert str(serial) in pieces['revoked'].split()
    path = tmp_path / 'script'
    path.write_text(script)
    assert subprocess.run(['sh', '-n', path], check=False).returncode == 0
    admin.delete(f'/servers/{server}')


def _cert(cloud, *words):
    config = cloud.state_path / 'manage.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\n')
    return manage.main(['--config-file', str(config), 'cert', *words]) or 0


@pytest.mark.parametrize('prefix, mask', [(8, '255.0.0.0'), (20, '255.255.240.0'), (24, '255.255.255.0'),
                                          (30, '255.255.255.252'), (32, '255.255.255.255')])
@pytest.mark.parametrize('shell', ['sh', 'bash', 'busybox'])
def test_network_mask_is_computed_in_the_shells_of_the_images(prefix, mask, shell):
    """In the shells of the images; the awk of Debian's busybox has no powers."""
    if not shutil.which(shell):
        pytest.skip(f'{shell} is not installed')
    script = vpn_script.script('p', 'a', 'b', 'c', ())
    start = script.index('mask=')
    line = script[start:script.index('\ncase', start)]
    words = [shell, *(['sh'] if shell == 'busybox' else [])]
    done = subprocess.run([*words, '-c', f'network=10.0.0.0/{prefix}\n{line}\necho "$mask"'], capture_output=True,
                          text=True, check=True)
    assert done.stdout.strip() == mask


def test_vpn_admits_unrevoked_certificates_of_its_project_only(tmp_path):
    """What OpenVPN calls with a client's certificate: of this project, and not revoked."""
    script = vpn_script.script('mine', 'a', 'b', 'c', (7, 123))
    body = script.partition("cat >/etc/openvpn/verify <<'END'\n")[2].partition('END\n')[0]
    (tmp_path / 'revoked').write_text('7\n123\n')
    (tmp_path / 'verify').write_text(body.replace('/etc/openvpn', str(tmp_path)))

    def code(depth, unit, serial):
        return subprocess.run(['sh', tmp_path / 'verify', depth, 'CN=x'], check=False, env={
            'PATH': '/bin:/usr/bin', 'X509_0_OU': unit, 'tls_serial_0': serial}).returncode
    assert code('0', 'mine', '8') == 0 and code('1', '', '') == 0
    assert code('0', 'other', '8') == 1 and code('0', 'mine', '123') == 1 and code('0', '', '8') == 1


def test_two_requests_make_one(cloud, admin, project):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: admin.post(PIPES, {'cloudpipe': {'project_id': project.project_id}}),
                                range(4)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    made = {answer.json()['instance_id'] for answer in answers if answer.status_code == 200}
    assert made == {make(admin, project.project_id)}
    with cloud.api_db.reader() as conn:
        assert len(vpns.servers(conn, 'vpn', project.project_id)) == 1
    admin.delete(f'/servers/{made.pop()}')


def test_vpn_group_without_rules_gets_the_rule_for_clients(admin, project):
    """An attempt that ended between the two requests left the group without its rule."""
    name = f'vpn-{project.project_id}'
    made = project.post('/os-security-groups', {'security_group': {'name': name, 'description': ''}}, version='2.35')
    group = made.json()['security_group']
    assert group['rules'] == []

    def rules():
        found = project.get(f'/os-security-groups/{group["id"]}', version='2.35').json()['security_group']['rules']
        return [(rule['ip_protocol'], rule['from_port'], rule['to_port'], rule['ip_range']) for rule in found]
    for _ in range(2):
        server = make(admin, project.project_id)
        assert rules() == [('udp', vpn_script.PORT, vpn_script.PORT, {'cidr': '0.0.0.0/0'})]
        admin.wait_for(server)
        admin.delete(f'/servers/{server}')
        admin.wait_for(server, 'DELETED')
        waiting.settled(lambda: _gone(admin, project))


def test_vpn_creation_of_a_stopped_process_is_taken_over_after_its_timeout(cloud, project):
    """Whoever asks after two minutes makes it; the slow one does not take that away."""
    now, year = cloud.api_db.run(_now), datetime.timedelta(days=366)
    before, after = now - year, now + year
    begin, ident = lambda *times: cloud.api_db.run(vpns.begin, project.project_id, *times), project.project_id
    assert begin(before, before) and not begin(now, before - year) and begin(now, now)
    cloud.api_db.run(vpns.end, ident, before)
    assert not begin(after, before)
    cloud.api_db.run(vpns.end, ident, now)
    assert begin(now, before)
    cloud.api_db.run(vpns.end, ident, now)


def _now(_conn):
    from nova import utils
    return utils.utcnow()


def test_vpn_endpoint_address_and_port_can_be_configured(cloud, admin, project, capsys):
    server = make(admin, project.project_id)
    assert run(cloud, capsys, 'change', project.project_id, '198.51.100.7', '4500')[0] == 0
    row = shown(admin, project.project_id)
    assert (row['public_ip'], row['public_port']) == ('198.51.100.7', 4500)
    manager = callers.Identity(admin).in_project(project.project_name, 'admin')
    answer = manager.put(PIPES + '/configure-project', {'configure_project': {
        'vpn_ip': '2001:DB8::1', 'vpn_port': '53'}})
    assert answer.status_code == 202 and answer.content == b''
    row = shown(admin, project.project_id)
    assert (row['public_ip'], row['public_port']) == ('2001:db8::1', 53)
    admin.delete(f'/servers/{server}')


@pytest.mark.parametrize('body', [
    {}, {'configure_project': {}}, {'configure_project': {'vpn_ip': 'x', 'vpn_port': 1}},
    {'configure_project': {'vpn_ip': '198.51.100.7', 'vpn_port': 0}},
    {'configure_project': {'vpn_ip': '198.51.100.7', 'vpn_port': 65536}},
    {'configure_project': {'vpn_ip': '198.51.100.7', 'vpn_port': '-1'}},
    {'configure_project': {'vpn_ip': '198.51.100.7', 'vpn_port': True}},
    {'configure_project': {'vpn_ip': '198.51.100.7\n', 'vpn_port': 1}}])
def test_invalid_vpn_address_returns_400(admin, body):
    assert admin.put(PIPES + '/configure-project', body).status_code == 400


@pytest.mark.parametrize('body, code', [
    ({'cloudpipe': {'project_id': 'f' * 32}}, 400), ({'cloudpipe': {'project_id': '../x'}}, 400),
    ({'cloudpipe': {'project_id': "x'\nrm -rf /"}}, 400), ({'cloudpipe': {'project_id': 'x\n'}}, 400),
    ({'cloudpipe': []}, 400), ({'cloudpipe': {'a': 1}}, 400)])
def test_invalid_project_of_a_vpn_is_refused(admin, image, body, code):
    answer = admin.post(PIPES, body)
    assert answer.status_code == code, answer.text


def test_vpn_management_requires_an_administrator(cloud, project):
    for answer in (project.get(PIPES), project.post(PIPES, {'cloudpipe': {}}),
                   project.put(PIPES + '/configure-project', {'configure_project': {
                       'vpn_ip': '198.51.100.7', 'vpn_port': 1}})):
        assert answer.status_code == 403, answer.text
    with cloud.api_db.reader() as conn:
        assert not vpns.servers(conn, 'vpn', project.project_id)
        assert project.project_id not in vpns.endpoints(conn)


def test_an_operator_runs_and_lists_them(cloud, admin, project, capsys):
    name = project.project_name
    code, shown_ = run(cloud, capsys, 'run', name)
    assert code == 0
    server = shown_.strip().splitlines()[-1]
    admin.wait_for(server)
    assert run(cloud, capsys, 'run', project.project_id) == (0, server + '\n')
    code, shown_ = run(cloud, capsys, 'list')
    line, = (line for line in shown_.splitlines() if project.project_id in line)
    assert code == 0 and server in line and 'running' in line and '1194' in line
    assert run(cloud, capsys, 'run', 'nobody')[0] == 1
    assert run(cloud, capsys, 'change', name, 'x', '1')[0] == 1
    admin.delete(f'/servers/{server}')


def test_an_operator_runs_all(cloud, admin, image, capsys):
    """Every project of the identity service gets one; a second time nothing is made."""
    code, first = run(cloud, capsys, 'spawn')
    names = {row['name'] for row in admin.get('/identity/v3/projects').json()['projects']}
    made = dict(line.split(': ', 1) for line in first.strip().splitlines() if ': ' in line)
    assert code == 0 and made.keys() == names
    assert run(cloud, capsys, 'spawn') == (0, first)
    for server in made.values():
        assert admin.delete(f'/servers/{server}').status_code == 204
