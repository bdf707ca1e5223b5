"""The token of a pair of keys, which serves the requests of a minute; and how long a pair is trusted that was read."""
import base64
import datetime
import hmac
import json

import pytest

from nova import exception
from nova.tests import identity_fixture


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path, validation_cache_time=0)


def by(cloud, pair, **more):
    signature = base64.b64encode(hmac.digest(pair['secret'].encode(), b'text', 'sha1')).decode()
    return cloud.service.signed.authenticate_text(pair['access'], 'text', signature, **more)


@pytest.fixture(name='pair')
def pair_of_cloud(cloud):
    return pair_of(cloud)


def pair_of(cloud):
    made = cloud.service.credentials.create_ec2(cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo'))
    return json.loads(made['blob'])


def test_the_next_requests_take_the_token_of_the_last_one_where_nobody_gets_it(cloud, pair):
    token, data = by(cloud, pair, shared=True)
    assert by(cloud, pair, shared=True) == (token, data) and data.project_name == 'demo'
    assert by(cloud, pair)[0] != token                  # whoever is given one may revoke it


@pytest.mark.parametrize('shared', [True, False])
def test_token_of_a_signed_request_has_the_lifetime_of_tokens(cloud, pair, shared):
    """The import of an image uses it for longer than the 15 minutes in which a signature is valid."""
    claims = by(cloud, pair, shared=shared)[1].claims
    assert claims.expires_at - claims.issued_at == datetime.timedelta(hours=1)


def test_revoked_shared_token_is_replaced(cloud, pair):
    token, _data = by(cloud, pair, shared=True)
    cloud.service.tokens.revoke(token)
    assert by(cloud, pair, shared=True)[0] != token


def test_token_ends_with_the_role_assignments_of_its_key_pair(cloud, pair):
    by(cloud, pair, shared=True)
    held = cloud.db.run(lambda conn: conn.exec_driver_sql('DELETE FROM identity_assignments').rowcount)
    assert held                                         # no roles are left
    with pytest.raises(exception.Unauthorized):
        by(cloud, pair, shared=True)


def test_deleted_key_pair_is_refused(cloud, pair):
    by(cloud, pair, shared=True)
    row, = cloud.service.credentials.list(user_id=cloud.id_of('user', 'demo'))
    cloud.service.credentials.delete(row['id'])
    with pytest.raises(exception.Unauthorized):
        by(cloud, pair, shared=True)


def test_changed_project_of_a_key_pair_replaces_its_token(cloud, pair):
    by(cloud, pair, shared=True)
    row, = cloud.service.credentials.list(user_id=cloud.id_of('user', 'demo'))
    cloud.service.credentials.update(row['id'], {'project_id': cloud.id_of('project', 'admin')})
    with pytest.raises(exception.Unauthorized):         # he has no role there
        by(cloud, pair, shared=True)


@pytest.fixture
def trusting(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path, validation_cache_time=60)


def remove_elsewhere(cloud):
    """As another process does."""
    assert cloud.db.run(lambda conn: conn.exec_driver_sql('DELETE FROM identity_credentials').rowcount) == 1


def test_a_pair_is_read_once_in_the_seconds_for_which_a_token_is_trusted(trusting):
    made = pair_of(trusting)
    token, _data = by(trusting, made, shared=True)
    remove_elsewhere(trusting)
    assert by(trusting, made, shared=True)[0] == token
    with pytest.raises(exception.Unauthorized):         # the secret counts as before
        by(trusting, {**made, 'secret': '0' * 40}, shared=True)


def test_a_change_of_this_process_counts_at_once(trusting):
    made = pair_of(trusting)
    by(trusting, made, shared=True)
    row, = trusting.service.credentials.list(user_id=trusting.id_of('user', 'demo'))
    trusting.service.credentials.delete(row['id'])
    with pytest.raises(exception.Unauthorized):
        by(trusting, made, shared=True)


def test_a_pair_that_is_not_there_is_looked_for_each_time(trusting):
    made = pair_of(trusting)
    row, = trusting.service.credentials.list(user_id=trusting.id_of('user', 'demo'))
    trusting.service.credentials.delete(row['id'])
    for _again in range(2):
        with pytest.raises(exception.Unauthorized):
            by(trusting, made, shared=True)
    trusting.service.credentials.create(row['user_id'], 'ec2', row['blob'], row['project_id'])
    assert by(trusting, made, shared=True)[1].project_name == 'demo'
