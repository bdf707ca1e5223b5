"""The token of a user that this service found good, and that the Image or Block Storage service does not take."""
import json

import pytest
import webob
from keystonemiddleware import auth_token

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import utils
from nova.cloud import assembly
from nova.identity import auth
from nova.tests import identity_fixture
from nova.tests import image_service
from nova.tests.functional import servers
from nova.tests.support.refused_tokens import END
from nova.tests.support.refused_tokens import Refusing
from nova.tests.support.refused_tokens import TOKEN
from nova.web import paste_registry


ABSENT = '99999999-2222-3333-4444-555555555555'


@pytest.fixture
def refusing():
    made = Refusing()
    with image_service.listening(made) as made.address:
        yield made


class Cloud(servers.Servers):
    """An API behind its own check of tokens, whose images and volumes are those of a service that refuses."""

    def __init__(self, directory, address):
        super().__init__(directory)
        conf = nova_conf.new(
            files=[], image__backend='glance', glance__endpoint_override=address, glance__auth_type='none',
            volume__backend='cinder', cinder__endpoint_override=address + '/v3', cinder__auth_type='none')
        self.services.images = assembly.images(conf, self.api_db)
        self.services.volumes = assembly.volumes(conf, self.api_db, self.services.images)
        (directory / 'identity').mkdir()
        self.identity = identity_fixture.IdentityCloud(directory / 'identity')
        self.application = auth.EmbeddedAuth(self.application, self.identity.service, is_admin=self.policy.is_admin)
        self.application.services = self.services

    def ask(self, method, path, body=None, token=None):
        headers = {'X-Auth-Token': token or self.identity.token('demo')}
        return self.client(project=None).request(method, path, body, headers=headers)

    def close(self):
        super().close()
        self.identity.db.dispose()


@pytest.fixture
def cloud(tmp_path, refusing):
    made = Cloud(tmp_path, refusing.address)
    yield made
    made.close()


VOLUME = {'uuid': ABSENT, 'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0}
CALLS = {
    'create': ('Image', 'POST', '/servers', lambda cloud: cloud.body()),
    'image': ('Image', 'GET', f'/images/{ABSENT}', None),
    'images': ('Image', 'GET', '/images', None),
    'image deleted': ('Image', 'DELETE', f'/images/{ABSENT}', None),
    'image metadata': ('Image', 'PUT', f'/images/{ABSENT}/metadata', lambda cloud: {'metadata': {'a': 'b'}}),
    'create from a volume': ('Block Storage', 'POST', '/servers', lambda cloud: cloud.body(
        imageRef='', block_device_mapping_v2=[VOLUME])),
}


@pytest.mark.parametrize('call', CALLS)
@pytest.mark.parametrize('code', [401, 503])
def test_a_service_that_cannot_check_tokens_is_away(cloud, refusing, caplog, call, code):
    """Its Keystone did not answer, and users were told that their tokens were bad."""
    refusing.code = code
    name, method, path, body = CALLS[call]
    answer = cloud.ask(method, path, body and body(cloud))
    assert refusing.tokens and answer.status == 503, answer.body
    key, _code, message = answer.fault
    assert (key, answer.headers['retry-after']) == ('serviceUnavailable', '5')
    assert f'The {name} service' in message and str(code) in message
    line, = [record.getMessage() for record in caplog.records if record.name == 'nova.web.faults']
    assert answer.headers['x-openstack-request-id'] in line and message in line


def test_a_bad_token_is_refused_here(cloud, refusing):
    answer = cloud.ask('POST', '/servers', cloud.body(), token='forged')
    assert answer.fault[:2] == ('unauthorized', 401) and refusing.tokens == []


@pytest.mark.parametrize('call', ['create', 'create from a volume'])
def test_token_that_expires_in_between_is_replaced(cloud, refusing, monkeypatch, call):
    """Between the check here and the one there: it is the token now."""
    token, now = cloud.identity.token('demo'), utils.utcnow()
    end = cloud.identity.service.validate(token).claims.expires_at

    def later():
        monkeypatch.setattr(utils, 'utcnow', lambda: end)
    refusing.before = later
    _name, method, path, body = CALLS[call]
    answer = cloud.ask(method, path, body(cloud), token)
    assert now < end and refusing.tokens and answer.fault[:2] == ('unauthorized', 401)


def test_the_end_of_a_token_of_keystone(monkeypatch):
    """It goes with the request to the services that do the rest of it."""
    found, conf = [], nova_conf.new(files=[])
    monkeypatch.setattr(auth_token.AuthProtocol, 'fetch_token', lambda self, text, **more: TOKEN)

    def behind(environ, start_response):
        found.append(environ['nova.context'])
        return webob.Response()(environ, start_response)
    authtoken = auth.authtoken_factory({'conf': paste_registry.register(conf)}, delay_auth_decision='true')
    request = webob.Request.blank('/', headers={'X-Auth-Token': 't'})
    assert request.get_response(authtoken(auth.KeystoneContext(behind))).status_int == 200
    far = context.RequestContext.from_dict(json.loads(json.dumps(found[0].to_dict())))
    assert far.token_expires_at == found[0].token_expires_at == END and not far.token_has_expired()


def ask_as_system(refusing, tmp_path, section):
    """What is asked for in the name of the system, and how."""
    ctx = context.admin_context()
    (tmp_path / 'own.conf').write_text(
        f'[image]\nbackend = glance\n[volume]\nbackend = cinder\n[{section}]\nauth_type = password\n'
        f'auth_url = {refusing.address}/keystone/v3\nusername = nova\npassword = p\nuser_domain_id = default\n'
        f'endpoint_override = {refusing.address}/v3\n')
    conf = nova_conf.new(files=[str(tmp_path / 'own.conf')])
    if section == 'glance':
        images = assembly.images(conf, None)
        return lambda: images.show(ctx, ABSENT)
    volumes = assembly.volumes(conf, None, None)
    return lambda: volumes.get(ctx, ABSENT)


@pytest.mark.parametrize('section', ['glance', 'cinder'])
def test_the_token_of_the_system_is_made_anew(refusing, tmp_path, section):
    """One that had been revoked was sent again and again until its end."""
    ask = ask_as_system(refusing, tmp_path, section)
    for _ in range(2):
        with pytest.raises(exception.Unavailable):
            ask()
    assert refusing.tokens == ['own-1', 'own-2'] and refusing.logins == 2
