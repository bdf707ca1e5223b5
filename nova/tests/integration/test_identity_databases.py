"""The identity service on the database servers: what is done once is done once there, too, and answers are the same."""
import threading

import pytest

from nova import exception
from nova.identity import totp
from nova.identity.embedded import credentials
from nova.tests import identity_fixture
from nova.tests import identity_walk
from nova.tests.integration import servers

BLOB = 'GEZDGNBVGY3TQOJQGEZDGNBVGY'
NOW = 1_800_000_000


@pytest.fixture(scope='module', params=list(servers.SHARED))
def identity(request, tmp_path_factory):
    """An IdentityCloud on one of the servers, whose clock of codes stands still."""
    with servers.SHARED[request.param]() as url_of:
        made = identity_fixture.IdentityCloud(tmp_path_factory.mktemp('identity'), db_url=url_of('identity_totp'),
                                              clock=lambda: NOW)
        yield made
        made.db.dispose()


def together(number, function):
    """[result or error] of so many calls at once."""
    outcomes, ready = [], threading.Barrier(number)

    def call():
        ready.wait()
        try:
            outcomes.append(function())
        except exception.NovaException as error:
            outcomes.append(type(error))
    threads = [threading.Thread(target=call) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_a_code_is_taken_once(identity):
    user_id, step = identity.service.create_user('once')['id'], NOW // totp.STEP_S
    made = identity.service.credentials.create(user_id, 'totp', BLOB)
    secret = totp.secret_of(BLOB)
    for given in (step - 1, step):
        code = totp.code(secret, given)
        outcomes = together(8, lambda code=code: identity.service.credentials.take_code(user_id, code, NOW))
        assert sorted(outcomes) == [False] * 7 + [True]
    assert identity.service.credentials.take_code(user_id, totp.code(secret, step - 1), NOW) is False
    assert identity.service.credentials.get(made['id']) == made


def test_parallel_requests_respect_the_limit_of_credentials(identity):
    user_id = identity.service.create_user('many')['id']
    most = credentials.KINDS['totp'].most
    outcomes = together(most + 6, lambda: identity.service.credentials.create(user_id, 'totp', BLOB)['type'])
    assert outcomes.count('totp') == most and outcomes.count(exception.Forbidden) == 6
    assert len(identity.service.credentials.list(user_id=user_id)) == most


def test_secrets_outlive_keys(identity):
    ring, user_id = identity.service.keys, identity.service.create_user('kept')['id']
    made = {identity.service.credentials.create(user_id, 'totp', BLOB)['id'] for _ in range(3)}
    before = {row['id']: (row['blob'], row['encrypted_blob']) for row in identity.service.credentials.list()}
    ring.stage()
    ring.promote()
    assert ring.retire(reseal=lambda renewed: credentials.reseal(identity.db, renewed)) == 1
    after = {row['id']: (row['blob'], row['encrypted_blob']) for row in identity.service.credentials.list()}
    assert made <= before.keys() == after.keys()
    for key, (blob, sealed) in before.items():
        assert after[key][0] == blob and after[key][1] != sealed


def test_options_that_are_set_together_are_both_there(identity):
    changes = [{'multi_factor_auth_enabled': True}, {'multi_factor_auth_rules': [['password']]}]
    for number in range(5):
        user_id, left = identity.service.create_user(f'o{number}')['id'], list(changes)
        together(2, lambda user_id=user_id, left=left: identity.service.update_user(user_id, options=left.pop()))
        assert identity.service.get('user', user_id)['options'] == changes[0] | changes[1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize('kind', ['mariadb', 'postgresql'])
def test_the_api_answers_as_on_sqlite(kind, tmp_path):
    """Trees of projects, implied roles, groups, assignments, limits, trusts and revocations."""
    for name in ('here', 'there'):
        (tmp_path / name).mkdir()
    expected = identity_walk.answers(tmp_path / 'here', brief=True)
    with servers.SHARED[kind]() as url_of:
        made = identity_walk.answers(tmp_path / 'there', brief=True, db_url=url_of('identity_walk'))
    assert len(made) == len(expected) > 500
    assert [(request, wanted, found) for (request, wanted), (_request, found) in zip(expected, made)
            if found != wanted][:3] == []
