"""The all-in-one started again in the directory of one that was killed: what is removed before the first request."""
import uuid
from concurrent import futures

import sqlalchemy as sa

from nova.db.tables import api as tables_api
from nova.db.tables import image as tables_image
from nova.tests.functional import cloud
from nova.tests.integration import servers
from nova.tests.support import waiting


def test_next_start_removes_partial_uploads_and_mappings_without_a_server(tmp_path):
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


def test_a_stop_in_the_middle_of_builds_does_not_wait_for_services_that_are_gone(tmp_path):
    """The scheduler used to stop before the conductor: one that asked it then waited a minute for the answer."""
    state, port = tmp_path / 'state', servers.free_port()
    options = {'http__port': port, 'quota__instances': -1, 'quota__cores': -1, 'quota__ram': -1}
    first = cloud.Cloud(state, **options)
    first.start()
    stops = [getattr(part, 'binary', type(part).__name__) for part in first.stop_order()]
    assert stops == ['nova-state-backup', 'Server', 'EmbeddedVolumes', 'Sessions', 'Dependencies', 'nova-compute',
                     'nova-conductor', 'nova-network', 'nova-scheduler']
    client = first.client()
    body = {'server': {'name': 'x', 'flavorRef': '1', 'imageRef': client.upload_image()}}
    with futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.post('/servers', body).status_code, range(40)))
    limit = waiting.Limit(20)
    assert first.stop(80) and not limit.is_over() and answers == [202] * 40
    with cloud.running(state, **options) as second:
        found = second.client().get('/servers').json()['servers']
        assert len(found) == 40
        for server in found:
            assert second.client().wait_for(server['id'])['status'] == 'ACTIVE'
