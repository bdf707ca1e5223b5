"""The token of a pair of keys, which serves the requests of a minute."""
import base64
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


@pytest.fixture
def pair(cloud):
    made = cloud.service.credentials.create_ec2(cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo'))
    return json.loads(made['blob'])


def test_the_next_requests_take_the_token_of_the_last_one_where_nobody_gets_it(cloud, pair):
    token, data = by(cloud, pair, shared=True)
    assert by(cloud, pair, shared=True) == (token, data) and data.project_name == 'demo'
    assert by(cloud, pair)[0] != token                  # whoever is given one may revoke it


def test_a_token_that_was_ended_is_followed_by_another(cloud, pair):
    token, _data = by(cloud, pair, shared=True)
    cloud.service.tokens.revoke(token)
    assert by(cloud, pair, shared=True)[0] != token


def test_what_ends_the_pair_ends_its_token(cloud, pair):
    by(cloud, pair, shared=True)
    held = cloud.db.run(lambda conn: conn.exec_driver_sql('DELETE FROM identity_assignments').rowcount)
    assert held                                         # no roles are left
    with pytest.raises(exception.Unauthorized):
        by(cloud, pair, shared=True)


def test_a_deleted_pair_is_none(cloud, pair):
    by(cloud, pair, shared=True)
    row, = cloud.service.credentials.list(user_id=cloud.id_of('user', 'demo'))
    cloud.service.credentials.delete(row['id'])
    with pytest.raises(exception.Unauthorized):
        by(cloud, pair, shared=True)


def test_a_pair_that_changed_its_project_has_a_token_of_that(cloud, pair):
    by(cloud, pair, shared=True)
    row, = cloud.service.credentials.list(user_id=cloud.id_of('user', 'demo'))
    cloud.service.credentials.update(row['id'], {'project_id': cloud.id_of('project', 'admin')})
    with pytest.raises(exception.Unauthorized):         # he has no role there
        by(cloud, pair, shared=True)
