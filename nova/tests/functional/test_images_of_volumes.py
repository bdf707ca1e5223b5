"""Images of servers on volumes: snapshots while the block storage or the image service fails."""
import pytest

from nova import context
from nova import exception
from nova.db.servers import instance_actions
from nova.rpc import retrying_client
from nova.tests.support import volumes
from nova.tests.support.volumes import boot
from nova.tests.support.volumes import gone
from nova.tests.support.waiting import wait_for

cloud = volumes.cloud
image_id = volumes.image_id
user = volumes.user


@pytest.fixture
def conductor(cloud):
    return next(part.manager for part in cloud.services if part.binary == 'nova-conductor')


@pytest.fixture
def taken(conductor, monkeypatch):
    """{id: id of the request} of the snapshots that are created, in order."""
    found, create = {}, conductor.services.volumes.create_snapshot

    def call(ctx, *args):
        made = create(ctx, *args)
        found[made['id']] = ctx.request_id
        return made
    monkeypatch.setattr(conductor.services.volumes, 'create_snapshot', call)
    return found


def on_volumes(user, image_id, number=1):
    root = {'source_type': 'image', 'uuid': image_id, 'destination_type': 'volume', 'boot_index': 0, 'volume_size': 1,
            'delete_on_termination': False}
    more = [{'source_type': 'blank', 'destination_type': 'volume', 'boot_index': -1, 'volume_size': 1}] * (number - 1)
    server_id = boot(user, None, block_device_mapping_v2=[root, *more])
    user.wait_for(server_id)
    return server_id


def begin(user, server_id):
    answer = user.post(f'/servers/{server_id}/action', {'createImage': {'name': 'copy'}})
    assert answer.status_code == 202, answer.text
    return answer.json()['image_id']


def shown(user, image_id):
    return user.get(f'/image/v2/images/{image_id}').json().get('status')


def test_snapshots_are_kept_when_the_block_storage_does_not_answer_once(conductor, taken, user, image_id, monkeypatch):
    """They were deleted, and new ones were made of a guest that was not frozen any more."""
    server_id, storage = on_volumes(user, image_id, 2), conductor.services.volumes
    get, away = storage.get_snapshot, [exception.ServiceUnavailable(service='Block Storage')]

    def call(ctx, ident):
        if away and ctx.request_id in taken.values():          # the host's report of its copy is another request
            raise away.pop()
        return get(ctx, ident)
    monkeypatch.setattr(storage, 'get_snapshot', call)
    copy = begin(user, server_id)
    user.wait_for(server_id)
    assert not away and len(taken) == 2 and shown(user, copy) == 'active'
    assert {each['id'] for each in user.get('/volume/v3/snapshots').json()['snapshots']} >= {*taken}
    gone(user, server_id)


def test_snapshots_are_kept_when_the_block_storage_is_away_for_longer(conductor, taken, user, image_id, monkeypatch):
    """The image failed after 20 s, and nothing named its snapshots any more."""
    monkeypatch.setattr(retrying_client, 'RELAYED_RETRY_TIME_S', 0)
    server_id, storage = on_volumes(user, image_id, 2), conductor.services.volumes
    get, answers = storage.get_snapshot, ['creating'] * 2 + ['away'] * 2         # one call without an error: it polls

    def call(ctx, ident):
        if answers and ctx.request_id in taken.values():
            status = answers.pop(0)
            if status == 'away':
                raise exception.ServiceUnavailable(service='Block Storage')
            return {**get(ctx, ident), 'status': status}
        return get(ctx, ident)
    monkeypatch.setattr(storage, 'get_snapshot', call)
    copy = begin(user, server_id)
    user.wait_for(server_id)
    assert not answers and len(taken) == 2 and shown(user, copy) == 'active'
    gone(user, server_id)


def test_all_possible_snapshots_are_deleted_after_one_has_failed(cloud, conductor, taken, user, image_id, monkeypatch):
    """A snapshot that is being created cannot be deleted: the ones after it stayed, and the error was another one."""
    server_id, storage, deleted = on_volumes(user, image_id, 3), conductor.services.volumes, []
    get = storage.get_snapshot

    def status(ctx, ident):
        return {**get(ctx, ident), 'status': ('error', 'creating', 'available')[[*taken].index(ident)]}

    def delete(ctx, ident):
        if ident == [*taken][1]:
            raise exception.InvalidVolume(reason='the snapshot is being created or copied.')
        deleted.append(ident)
    monkeypatch.setattr(storage, 'get_snapshot', status)
    monkeypatch.setattr(storage, 'delete_snapshot', delete)
    copy = begin(user, server_id)
    user.wait_for(server_id)
    assert deleted == [*taken][::2] and len(taken) == 3 and shown(user, copy) is None
    with cloud.cell_db.reader() as conn:
        action = instance_actions.by_instance(conn, server_id)[0]
        event, = instance_actions.events(conn, action['id'])
    assert action['action'] == 'createImage' and 'a snapshot of a volume of the server failed' in event['details']
    gone(user, server_id)


def test_a_delete_does_not_wait_for_snapshots(conductor, taken, user, image_id, monkeypatch):
    """It waited for up to four hours."""
    server_id, storage = on_volumes(user, image_id, 2), conductor.services.volumes
    get = storage.get_snapshot
    monkeypatch.setattr(storage, 'get_snapshot', lambda *args: {**get(*args), 'status': 'creating'})
    copy = begin(user, server_id)
    wait_for(lambda: len(taken) == 2)
    system = context.admin_context()
    wait_for(lambda: all(get(system, ident)['status'] == 'available' for ident in taken))   # others cannot be deleted
    gone(user, server_id)
    assert shown(user, copy) is None
    wait_for(lambda: not {*taken} & {each['id'] for each in user.get('/volume/v3/snapshots').json()['snapshots']})
