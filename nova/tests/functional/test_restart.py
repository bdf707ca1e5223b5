"""The all-in-one started again in the directory of one that was killed: what is removed before the first request."""
import uuid

import sqlalchemy as sa

from nova.db import tables_api
from nova.db import tables_image
from nova.tests.functional import cloud
from nova.tests.integration import servers


def test_what_a_killed_process_left_is_gone_at_the_next_start(tmp_path):
    """An upload that was cut off stayed 'saving' and kept its file; a mapping without a server was counted by the
    quota for minutes."""
    state, port = tmp_path / 'state', servers.free_port()
    with cloud.running(state, http__port=port) as first:
        image_id = first.client().upload_image()
        with first.api_db.writer() as conn:
            image = dict(conn.execute(sa.select(tables_image.images).where(
                tables_image.images.c.id == image_id)).mappings().one())
            half = {**image, 'id': str(uuid.uuid4()), 'status': 'saving', 'data_id': str(uuid.uuid4())}
            conn.execute(sa.insert(tables_image.images).values(half))
            conn.execute(sa.insert(tables_api.instance_mappings).values(
                instance_uuid=str(uuid.uuid4()), cell_uuid=first.cells.default.uuid, project_id='p', user_id='u',
                vcpus=1, memory_mb=64, created_at=image['created_at']))
        files = state / 'images'
        (files / (half['data_id'] + '.part')).write_bytes(b'half')
    with cloud.running(state, http__port=port) as second, second.api_db.reader() as conn:
        assert {row.id: row.status for row in conn.execute(sa.select(tables_image.images))} == {
            image_id: 'active', half['id']: 'queued'}
        assert conn.execute(sa.select(tables_api.instance_mappings)).first() is None
        assert [path.name for path in files.iterdir()] == [image['data_id']]
