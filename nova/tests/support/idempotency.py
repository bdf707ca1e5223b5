"""What tests share with nova/tests/functional/test_idempotency.py."""
import datetime

import pytest
import sqlalchemy as sa

from nova import utils
from nova.api.servers import casts
from nova.api.servers import create as server_create
from nova.db.projects import attempts
from nova.db.tables import api as tables_api
from nova.tests.functional import servers

KEYS = tables_api.idempotency_keys


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def create(cloud, key, body=None, path='/servers', **more):
    return cloud.client().post(path, body or cloud.body(), headers={'Idempotency-Key': key}, **more)


def uuids(cloud):
    with cloud.api_db.reader() as conn:
        return set(conn.execute(sa.select(tables_api.instance_mappings.c.instance_uuid)).scalars())


def rows(cloud):
    with cloud.api_db.reader() as conn:
        return [dict(row) for row in conn.execute(sa.select(KEYS)).mappings()]


class Killed(BaseException):
    """What a process that ends there would be."""


def break_off(cloud, monkeypatch, where, body=None):
    """Serve a request up to a function, ``casts.send`` or one of server_create, and let the key's row be as a killed
    process leaves it.
    """
    def end(*_args, **_kwargs):
        raise Killed
    with monkeypatch.context() as patch:
        patch.setattr(casts if where == 'send' else server_create, where, end)
        patch.setattr(attempts.IDEMPOTENCY_KEYS, 'forget', lambda *_args: None)
        if where == '_insert':
            patch.setattr(server_create, '_give_back', lambda *_args: None)
        with pytest.raises(Killed):
            create(cloud, 'one', body)
    (row,) = rows(cloud)
    assert row['answer'] is None
    assert create(cloud, 'one', body).fault[2].endswith('still in progress.')
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(KEYS).values(
            attempted_at=utils.utcnow() - datetime.timedelta(seconds=attempts.ABANDONED_S + 1)))
