"""The sections of services behind Keystone: what keystonemiddleware and keystoneauth1 register beside ours."""
import inspect
import socket

import pytest
import webob
from keystoneauth1 import loading
from oslo_config import cfg

from nova import conf as nova_conf
from nova import exception
from nova.cloud import ec2_account
from nova.conf.clients import keystoneauth
from nova.identity import auth
from nova.runtime import rest_client
from nova.web import paste_registry

FILE = '''
[{group}]
auth_type = password
auth_url = http://keystone.example/v3
username = nova
password = secret
project_name = service
'''


@pytest.mark.parametrize('group', ['glance', 'cinder'])
def test_a_password_login_is_loaded(tmp_path, group):
    """It was refused as a duplicate option."""
    (tmp_path / 'nova.conf').write_text(FILE.format(group=group))
    conf = nova_conf.new(files=[str(tmp_path / 'nova.conf')])
    plugin = loading.load_auth_from_conf_options(conf, group)
    assert plugin.auth_url == 'http://keystone.example/v3' and plugin._username == 'nova'
    assert {'auth_url', 'username', 'password'} <= {
        option.dest for name, options in nova_conf.list_opts() if name == group for option in options}


def test_the_options_are_those_of_the_library():
    """An option that a release of it adds, or changes, has to be in our table: names, types, defaults, older names."""
    own, theirs = ([_facts(option) for option in options] for options in (
        keystoneauth.SERVICE, [*loading.get_session_conf_options(), *loading.get_auth_common_conf_options(),
                               *loading.get_adapter_conf_options(include_deprecated=False)]))
    assert own == [facts for facts in theirs if facts[1] not in VERSIONS]


@pytest.mark.parametrize('option', [option.dest for option in keystoneauth.ADAPTER])
def test_each_option_of_a_service_is_read(option):
    assert f'options.{option}' in inspect.getsource(rest_client.Service)


VERSIONS = ('version', 'min-version', 'max-version')           # each client names the version of its API


def _facts(option):
    return (type(option), option.name, option.dest, option.default, option.secret, option.required,
            list(getattr(option.type, 'choices', None) or ()), repr(option.type),
            [(old.name, old.group) for old in option.deprecated_opts])


def test_the_texts_of_a_sample_are_the_librarys():
    theirs = {option.dest: option.help for option in loading.get_session_conf_options()}
    for name in ('glance', 'ec2', 'ironic'):
        [found] = [{option.dest: option.help for option in options} for group, options in nova_conf.list_opts()
                   if group == name]
        assert {dest: found[dest] for dest in theirs} == theirs and found['auth_url'] and found['auth_type']


def test_options_of_newer_keystoneauth_releases_are_registered():
    """keystoneauth1 reads all options of its release: one that our table does not have ended the start."""
    conf = cfg.ConfigOpts()
    conf.register_opts([option for option in keystoneauth.SERVICE if option.dest != 'tls_ciphers'], group='glance')
    conf([], default_config_files=[])
    session, login = rest_client.session_of(conf, 'glance', 7)
    assert (session.timeout, login, conf.glance.tls_ciphers) == (7, None, None)


def test_the_middleware_reads_the_configuration_of_the_process(tmp_path):
    """It read the files in the usual places, whichever the process was given."""
    (tmp_path / 'own.conf').write_text(
        '[keystone_authtoken]\nwww_authenticate_uri = http://keystone.example/v3\n'
        'auth_url = http://keystone.example/v3\nauth_type = password\n')
    conf = nova_conf.new(files=[str(tmp_path / 'own.conf')])
    factory = auth.authtoken_factory({'conf': paste_registry.register(conf)}, delay_auth_decision='true')
    middleware = factory(lambda environ, start_response: [])
    assert middleware._www_authenticate_uri == 'http://keystone.example/v3' and middleware._delay_auth_decision


def test_unavailable_keystone_is_not_reported_as_an_invalid_token(tmp_path):
    """Clients threw their tokens away for a 401, and logged in where nobody answered either."""
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        address = f'http://127.0.0.1:{nobody.getsockname()[1]}'
        (tmp_path / 'own.conf').write_text(
            f'[keystone_authtoken]\nauth_url = {address}\nauth_type = password\nusername = u\npassword = p\n'
            'http_request_max_retries = 0\n')
        conf = nova_conf.new(files=[str(tmp_path / 'own.conf')])
        middleware = auth.authtoken_factory({'conf': paste_registry.register(conf)}, delay_auth_decision='true')(
            webob.Response(b'served'))
        answer = webob.Request.blank('/', headers={'X-Auth-Token': 't'}).get_response(middleware)
        assert (answer.status_code, answer.headers['Retry-After']) == (503, '5')
        assert answer.json['serviceUnavailable']['code'] == 503
        assert webob.Request.blank('/').get_response(middleware).body == b'served'


@pytest.mark.parametrize('more, url', [
    ('', 'http://keystone.example/v3'), ('auth_type = none\n', None),
    ('auth_type = http_basic\nendpoint = http://k\n', None)])
def test_the_account_of_ec2_needs_an_identity_service(tmp_path, more, url):
    """Another auth_type ended nova-objectstore with an AttributeError."""
    (tmp_path / 'nova.conf').write_text(FILE.format(group='ec2') + more)
    conf = nova_conf.new(files=[str(tmp_path / 'nova.conf')])
    if url:
        assert ec2_account.session_of(conf)[1:] == (url, ec2_account.TIMEOUT_S)
    else:
        with pytest.raises(exception.InvalidInput, match=r'of \[ec2\] has no auth_url'):
            ec2_account.session_of(conf)
