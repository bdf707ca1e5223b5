"""What Keystone said of tokens is kept in the process, for as long as it may be, and no longer."""
import datetime
import socket
import threading
import time
import types

import pytest
import webob

from nova import conf as nova_conf
from nova import utils
from nova.identity import auth
from nova.identity import token_cache
from nova.tests.support import token_cache as shared_token_cache
from nova.tests.support.token_cache import guarded
from nova.web import paste_registry

keystone = shared_token_cache.keystone


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_an_answer_is_good_for_its_time():
    clock, asked = Clock(), []
    kept = token_cache.TokenCache(60, clock=clock)

    def ask(token):
        return kept.get(token, lambda: asked.append(token) or len(asked))
    assert [ask('a'), ask('a'), ask('b'), ask('a')] == [1, 1, 2, 1]
    clock.now += 59
    assert ask('a') == 1
    clock.now += 2
    assert [ask('a'), ask('b')] == [3, 4] and asked == ['a', 'b', 'a', 'b']


def test_an_error_is_not_kept():
    kept, answers = token_cache.TokenCache(60), iter((ValueError(), 'good'))

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer
    with pytest.raises(ValueError):
        kept.get('a', ask)
    assert [kept.get('a', ask), kept.get('a', ask)] == ['good', 'good']


def test_least_recently_used_token_is_evicted_first():
    kept, asked = token_cache.TokenCache(60, most=2), []
    for token in ('a', 'b', 'a', 'c', 'a', 'b'):
        kept.get(token, lambda token=token: asked.append(token) or token)
    assert asked == ['a', 'b', 'c', 'b'] and len(kept._kept) == 2


def test_derived_value_is_cached_only_with_its_own_answer():
    clock = Clock()
    kept = token_cache.TokenCache(60, most=2, clock=clock)
    first, second = {'answer': 1}, {'answer': 2}
    kept.derive('a', first, 'nobody asked')
    assert kept.derived('a') is None
    kept.get('a', lambda: first)
    kept.derive('a', second, 'of another answer')
    assert kept.derived('a') is None
    kept.derive('a', first, 'made')
    assert kept.derived('a') == 'made' and kept.derived('b') is None
    clock.now += 61
    assert kept.derived('a') is None
    kept.get('a', lambda: second)
    assert kept.derived('a') is None
    kept.derive('a', second, 'again')
    for token in ('b', 'c'):
        kept.get(token, lambda: first)
    assert kept.derived('a') is None and not kept._derived


@pytest.mark.parametrize('cache_time, shared, expected', [(300, False, 300), (300, True, 10), (5, True, 5),
                                                          (-1, False, -1), (-1, True, -1)])
def test_cache_time_depends_on_the_option_and_shared_revocation(cache_time, shared, expected):
    assert token_cache.seconds_for(cache_time, shared) == expected


def protected(keystone, tmp_path, more=''):
    """callable(token) -> (status, headers that the application got)."""
    (tmp_path / 'own.conf').write_text(
        f'[keystone_authtoken]\nauth_type = password\nauth_url = {keystone.address}/v3\nusername = nova\npassword = p\n'
        f'user_domain_id = default\nproject_name = service\nproject_domain_id = default\n{more}')
    conf, seen = nova_conf.new(files=[str(tmp_path / 'own.conf')]), []

    def behind(environ, start_response):
        seen.append({name for name in environ if name.startswith('HTTP_X_')})
        return webob.Response()(environ, start_response)
    application = auth.authtoken_factory({'conf': paste_registry.register(conf)}, delay_auth_decision='true')(
        auth.KeystoneContext(behind))

    def call(token):
        request = webob.Request.blank('/servers', headers={'X-Auth-Token': token})
        return request.get_response(application).status_int, seen and seen[-1]
    return call


def environments(keystone, tmp_path, status='200 OK'):
    """(function(headers) -> (environ that the application got, but what is of webob; answer), application)."""
    seen = []

    def behind(environ, start_response):
        seen.append({name: value for name, value in environ.items()
                     if name.startswith(('HTTP_', 'keystone.')) and name != 'keystone.token_auth'})
        return webob.Response(status=status)(environ, start_response)
    application = guarded(keystone, tmp_path, behind)

    def call(**headers):
        given = {'X-Auth-Token': 't', 'X-Roles': 'admin', 'X-Service-Roles': 'service', 'X-Role': 'admin', **headers}
        answer = webob.Request.blank('/servers', headers=given).get_response(application)
        return seen[-1], answer
    return call, application


def test_a_token_that_is_known_says_what_auth_token_says(keystone, tmp_path):
    """The headers of a client are lies, also behind a token that is known."""
    call, application = environments(keystone, tmp_path)
    first, _answer = call()
    assert application._known({'HTTP_X_AUTH_TOKEN': 't'}) is not None
    assert call()[0] == first == call(**{'X-User-Id': 'other', 'Openstack-System-Scope': 'all'})[0]
    assert first['HTTP_X_ROLES'] == 'member' and 'HTTP_X_SERVICE_ROLES' not in first
    assert first['HTTP_X_IDENTITY_STATUS'] == 'Confirmed' and len(keystone.asked) == 1


@pytest.mark.parametrize('more', [{'bind': {'kerberos': 'someone'}},
                                  {'application_credential': {'id': 'c', 'restricted': True, 'access_rules': [
                                      {'method': 'GET', 'path': '/servers', 'service': 'compute'}]},
                                   'catalog': [{'type': 'compute', 'name': 'nova', 'id': 'n', 'endpoints': []}]}])
def test_token_whose_validity_depends_on_the_request_is_not_cached(keystone, tmp_path, more):
    keystone.more = more
    call, application = environments(keystone, tmp_path)
    call()
    assert len(keystone.asked) == 1 and application._known({'HTTP_X_AUTH_TOKEN': 't'}) is None


def test_a_token_beside_a_service_s_is_checked_by_auth_token(keystone, tmp_path):
    call, application = environments(keystone, tmp_path)
    call()
    assert application._known({'HTTP_X_AUTH_TOKEN': 't', 'HTTP_X_SERVICE_TOKEN': 's'}) is None
    found, _answer = call(**{'X-Service-Token': 's'})
    assert found['HTTP_X_SERVICE_IDENTITY_STATUS'] == 'Invalid'             # it has no role of a service
    assert 'HTTP_X_SERVICE_IDENTITY_STATUS' not in call()[0]


def test_a_known_token_ends(keystone, tmp_path):
    call, _application = environments(keystone, tmp_path)
    call(**{'X-Auth-Token': 'another'})                                     # the first one takes longer
    for seconds in (2, 20):                                                 # a busy machine may take longer
        end = utils.utcnow() + datetime.timedelta(seconds=seconds)
        keystone.end, token = end.isoformat() + 'Z', {'X-Auth-Token': f't{seconds}'}
        found = [call(**token)[0]['HTTP_X_IDENTITY_STATUS'] for _ in range(2)]
        if utils.utcnow() < end:
            break
    assert found == ['Confirmed'] * 2
    time.sleep(max(0, (end - utils.utcnow()).total_seconds()) + 0.1)
    assert call(**token)[0]['HTTP_X_IDENTITY_STATUS'] == 'Invalid'


def test_a_401_of_the_application_says_where_to_get_a_token(keystone, tmp_path):
    call, _application = environments(keystone, tmp_path, '401 Unauthorized')
    answers = [call()[1].headers.getall('WWW-Authenticate') for _ in range(3)]
    assert answers == [['Keystone uri="http://keystone.test/"']] * 3 and len(keystone.asked) == 1


def test_keystone_is_asked_once_for_a_token(keystone, tmp_path):
    """And not for a catalog, which no request has in its headers."""
    call = protected(keystone, tmp_path)
    for _ in range(3):
        status, headers = call('t-1')
        assert status == 200 and 'HTTP_X_SERVICE_CATALOG' not in headers and 'HTTP_X_ROLES' in headers
    assert call('t-2')[0] == 200
    assert keystone.asked == [('t-1', 'nocatalog'), ('t-2', 'nocatalog')]


def test_a_token_that_has_ended_is_refused_from_then_on(keystone, tmp_path):
    """However long its answer would be kept."""
    end = utils.utcnow().replace(microsecond=0)
    call = protected(keystone, tmp_path)
    assert call('t')[0] == 200
    keystone.end = end.isoformat() + '.000000Z'
    assert [call('short')[0], call('short')[0], call('t')[0]] == [401, 401, 200]
    assert [token for token, _query in keystone.asked] == ['t', 'short']


def test_nothing_is_kept_where_the_configuration_says_so(keystone, tmp_path):
    call = protected(keystone, tmp_path, 'token_cache_time = -1\n')
    assert [call('t')[0] for _ in range(3)] == [200, 200, 200]
    assert len(keystone.asked) == 3


def test_no_answer_outlives_the_time_of_the_configuration(keystone, tmp_path, monkeypatch):
    """auth_token's own memory kept it once more, from the moment at which it was asked again."""
    clock = Clock()
    made = token_cache.TokenCache
    monkeypatch.setattr(token_cache, 'TokenCache', lambda seconds: made(seconds, clock=clock))
    call = protected(keystone, tmp_path)
    for later, asked in ((0, 1), (299, 1), (2, 2)):
        clock.now += later
        assert call('t')[0] == 200 and len(keystone.asked) == asked


def test_a_keystone_that_says_nothing_holds_no_thread_for_ever(tmp_path, monkeypatch):
    """It takes the connection, and does not answer; auth_token waits without an end, unless it is told otherwise."""
    monkeypatch.setattr(auth, 'KEYSTONE_S', 1)
    with socket.create_server(('127.0.0.1', 0)) as silent:
        found = []
        keystone = types.SimpleNamespace(address=f'http://127.0.0.1:{silent.getsockname()[1]}')
        call = protected(keystone, tmp_path, 'http_request_max_retries = 0\n')
        asking = threading.Thread(target=lambda: found.append(call('t-1')[0]), daemon=True)
        asking.start()
        asking.join(20)
    assert found == [503]
