"""First start: users with random passwords, and a private file that tells of them."""
import os
import stat

import pytest
import yaml

from nova import exception
from nova.identity.embedded import bootstrap
from nova.tests import identity_fixture


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


def read(path):
    return yaml.safe_load(path.read_text())


def test_passwords_are_told_once(cloud):
    assert set(cloud.passwords) == {'admin', 'demo', 'nova'}
    assert len(set(cloud.passwords.values())) == 3 and min(map(len, cloud.passwords.values())) >= 32
    assert bootstrap.bootstrap(cloud.service) == {}
    assert cloud.token('demo')


def test_bootstrap_does_not_restore_a_user_that_the_operator_deleted(cloud):
    cloud.service.delete_user(cloud.id_of('user', 'demo'))
    assert bootstrap.bootstrap(cloud.service) == {}
    assert cloud.service.find('user', name='demo') is None


def test_a_process_that_dies_before_the_passwords_are_kept_leaves_no_user(cloud):
    for row in cloud.service.list('user'):
        cloud.service.delete_user(row['id'])

    def dies(passwords):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        bootstrap.bootstrap(cloud.service, dies)
    assert cloud.service.list('user') == []
    kept = {}
    assert bootstrap.bootstrap(cloud.service, kept.update) == kept != {}
    assert cloud.service.login('admin', kept['admin'], 'admin')


def test_lost_passwords_can_be_replaced(cloud):
    token = cloud.token('demo')
    assert cloud.service.login('demo', bootstrap.recover(cloud.service, 'demo'), 'demo')
    with pytest.raises(exception.Unauthorized):
        cloud.service.validate(token)


def test_the_file_is_private_at_every_moment(tmp_path, monkeypatch):
    modes = []
    real = os.replace
    monkeypatch.setattr(os, 'replace', lambda source, target: (
        modes.append(stat.S_IMODE(os.stat(source).st_mode)), real(source, target)))
    path = tmp_path / 'clouds.yaml'
    old = os.umask(0)
    try:
        bootstrap.write_clouds_yaml(str(path), 'http://h:1', {'admin': 'a', 'demo': 'd', 'nova': 'n'})
    finally:
        os.umask(old)
    assert modes == [0o600] and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ['clouds.yaml']


def test_a_new_url_keeps_passwords_and_foreign_clouds(tmp_path):
    path = tmp_path / 'clouds.yaml'
    bootstrap.write_clouds_yaml(str(path), 'http://h:1/', {'admin': 'a', 'demo': 'd', 'nova': 'n'})
    before = read(path)
    assert before['clouds']['nova-admin']['auth']['auth_url'] == 'http://h:1/identity/v3'
    before['clouds']['mine'] = {'auth': {'auth_url': 'http://elsewhere'}}
    path.write_text(yaml.safe_dump(before))
    bootstrap.write_clouds_yaml(str(path), 'http://h:2')
    after = read(path)
    assert after['clouds']['nova-demo']['auth']['auth_url'] == 'http://h:2/identity/v3'
    assert after['clouds']['nova-demo']['auth']['password'] == 'd'
    assert after['clouds']['mine'] == before['clouds']['mine']
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    inode = path.stat().st_ino
    bootstrap.write_clouds_yaml(str(path), 'http://h:2')
    assert path.stat().st_ino == inode          # nothing to change, nothing written


def test_cacert_of_the_operator_is_kept(tmp_path):
    path, own = tmp_path / 'clouds.yaml', str(tmp_path / 'tls/ca.pem')
    bootstrap.write_clouds_yaml(str(path), 'https://h:1', {'admin': 'a', 'demo': 'd', 'nova': 'n'}, own, own)
    clouds = read(path)
    assert [entry['cacert'] for entry in clouds['clouds'].values()] == [own] * 3
    clouds['clouds']['nova-demo']['cacert'] = '/etc/ssl/company.pem'
    path.write_text(yaml.safe_dump(clouds))
    bootstrap.write_clouds_yaml(str(path), 'https://h:1', None, None, own)         # with the operator's certificate
    assert {name: entry.get('cacert') for name, entry in read(path)['clouds'].items()} == {
        'nova-admin': None, 'nova-demo': '/etc/ssl/company.pem', 'nova-service': None}
    bootstrap.write_clouds_yaml(str(path), 'https://h:1', None, own, own)
    assert [entry['cacert'] for entry in read(path)['clouds'].values()] == [own] * 3


@pytest.mark.parametrize('text', ['clouds: {nova-admin: {profile: mine}, nova-demo: }\n', 'clouds:\n'])
def test_entry_without_auth_is_kept(tmp_path, text):
    path = tmp_path / 'clouds.yaml'
    path.write_text(text)
    bootstrap.write_clouds_yaml(str(path), 'http://h:1')
    assert (read(path)['clouds'] or {}) == (yaml.safe_load(text)['clouds'] or {})
    bootstrap.write_clouds_yaml(str(path), 'http://h:1', {'admin': 'a'})
    assert read(path)['clouds']['nova-admin']['auth']['password'] == 'a'


def test_without_file_and_passwords_nothing_is_invented(tmp_path, caplog):
    bootstrap.write_clouds_yaml(str(tmp_path / 'clouds.yaml'), 'http://h:1')
    assert os.listdir(tmp_path) == [] and 'clouds.yaml does not exist' in caplog.text


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path):
    victim = tmp_path / 'victim'
    victim.write_text('{}')
    (tmp_path / 'clouds.yaml').symlink_to(victim)
    bootstrap.write_clouds_yaml(str(tmp_path / 'clouds.yaml'), 'http://h:1', {'admin': 'a'})
    assert victim.read_text() == '{}'
    assert not (tmp_path / 'clouds.yaml').is_symlink()
