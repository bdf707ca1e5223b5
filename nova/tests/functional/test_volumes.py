"""Volumes of servers on a whole cloud: attached, detached, swapped, booted from, kept and deleted."""
import functools
import json
import threading

import pytest
import sqlalchemy as sa

from nova import exception
from nova.db.tables import cell as tables_cell
from nova.db.tables import volume as tables_volumes
from nova.rpc import inprocess
from nova.tests.support import volumes
from nova.tests.support.volumes import HOSTS
from nova.tests.support.volumes import attach
from nova.tests.support.volumes import attachments
from nova.tests.support.volumes import boot
from nova.tests.support.volumes import drivers
from nova.tests.support.volumes import gone
from nova.tests.support.volumes import guest_volumes
from nova.tests.support.volumes import show
from nova.tests.support.volumes import status
from nova.tests.support.volumes import volume
from nova.tests.support.waiting import wait_for
from nova.volume.embedded import EmbeddedVolumes

cloud = volumes.cloud
image_id = volumes.image_id
user = volumes.user


def actions(user, server_id):
    return {row['action']: row['message'] for row in
            user.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions']}


def test_volume_is_attached_and_detached(cloud, user, image_id):
    server_id, volume_id = boot(user, image_id), volume(user)
    answer = attach(user, server_id, volume_id, version='2.79', tag='data', delete_on_termination=True)
    assert answer.status_code == 200
    assert answer.json()['volumeAttachment'] == {
        'id': volume_id, 'volumeId': volume_id, 'serverId': server_id, 'device': '/dev/vdb', 'tag': 'data',
        'delete_on_termination': True}
    held, = status(user, volume_id, 'in-use')['attachments']
    assert (held['server_id'], held['device']) == (server_id, '/dev/vdb') and held['host_name'] in HOSTS
    assert guest_volumes(cloud, server_id) == {volume_id: '/dev/vdb'}
    shown, = attachments(user, server_id)
    assert shown['attachment_id'] == held['attachment_id'] and shown['tag'] == 'data' and 'id' not in shown
    # the volume is in use a moment before its server shows it
    wait_for(lambda: user.wait_for(server_id)['os-extended-volumes:volumes_attached'] == [
        {'id': volume_id, 'delete_on_termination': True}])
    assert user.get(f'/servers/{server_id}', version='2.1').json()['server'][
        'os-extended-volumes:volumes_attached'] == [{'id': volume_id}]
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
    status(user, volume_id, 'available')
    wait_for(lambda: not attachments(user, server_id))
    assert guest_volumes(cloud, server_id) == {}
    wait_for(lambda: actions(user, server_id).keys() >= {'attach_volume', 'detach_volume'})
    assert user.wait_for(server_id)['os-extended-volumes:volumes_attached'] == []
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 404


def test_a_volume_that_nobody_has_marked_as_in_use_is_detached(cloud, user, image_id):
    """A move ended while the block storage was away, and the conductor was restarted before it came back."""
    server_id, volume_id = boot(user, image_id), volume(user)
    assert attach(user, server_id, volume_id).status_code == 200
    status(user, volume_id, 'in-use')
    with cloud.api_db.writer() as conn:
        for table, column in ((tables_volumes.volume_attachments, 'volume_id'), (tables_volumes.volumes, 'id')):
            conn.execute(sa.update(table).where(table.c[column] == volume_id).values(status='attaching'))
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
    status(user, volume_id, 'available')
    wait_for(lambda: not attachments(user, server_id))


def test_invalid_attachments_are_refused(user, image_id):
    server_id, volume_id, other = boot(user, image_id), volume(user), volume(user)
    assert attach(user, server_id, volume_id).status_code == 200
    status(user, volume_id, 'in-use')
    assert attach(user, server_id, volume_id).status_code == 400                  # it has it
    assert attach(user, boot(user, image_id), volume_id).status_code == 400       # another one has it
    assert attach(user, server_id, other, device='/dev/vdb').status_code == 409
    assert attach(user, server_id, other, device='/dev/vda').status_code == 409
    assert attach(user, server_id, other, device='sdb').status_code == 400
    assert attach(user, server_id, image_id).status_code == 404                   # no volume at all
    assert status(user, other, 'available')['attachments'] == []
    shared = volume(user, multiattach=True)
    assert attach(user, server_id, shared, version='2.59').status_code == 400
    assert user.put(f'/servers/{server_id}/os-volume_attachments/{volume_id}',
                    {'volumeAttachment': {'volumeId': other}}).status_code == 403     # for services


def test_a_failed_attach_leaves_nothing(cloud, user, image_id):
    server_id, volume_id = boot(user, image_id), volume(user)
    for driver in drivers(cloud).values():
        driver.failures['attach_volume'] = 1.0
    try:
        assert attach(user, server_id, volume_id).status_code == 200
        wait_for(lambda: actions(user, server_id).get('attach_volume') == 'Error')
    finally:
        for driver in drivers(cloud).values():
            driver.failures.clear()
    assert attachments(user, server_id) == [] and status(user, volume_id, 'available')
    assert user.wait_for(server_id)['status'] == 'ACTIVE'
    assert attach(user, server_id, volume_id).status_code == 200
    status(user, volume_id, 'in-use')


def test_a_failed_detach_keeps_the_volume(cloud, user, image_id):
    server_id, volume_id = boot(user, image_id), volume(user)
    attach(user, server_id, volume_id)
    status(user, volume_id, 'in-use')
    for driver in drivers(cloud).values():
        driver.failures['detach_volume'] = 1.0
    try:
        assert user.delete(f'/servers/{server_id}/os-volume_attachments/{volume_id}').status_code == 202
        wait_for(lambda: actions(user, server_id).get('detach_volume') == 'Error')
    finally:
        for driver in drivers(cloud).values():
            driver.failures.clear()
    status(user, volume_id, 'in-use')
    assert len(attachments(user, server_id)) == 1 and guest_volumes(cloud, server_id) == {volume_id: '/dev/vdb'}


def test_attachment_is_swapped_and_updated(cloud, user, image_id):
    server_id, old, new, small = boot(user, image_id), volume(user, size=2), volume(user, size=3), volume(user)
    attach(user, server_id, old)
    status(user, old, 'in-use')
    admin, path = cloud.admin(version='2.60'), f'/servers/{server_id}/os-volume_attachments/{old}'

    def put(client, volume_id, version=None, **values):
        return client.put(path, {'volumeAttachment': {'volumeId': volume_id, **values}}, version=version).status_code
    assert put(admin, small) == 400 and put(admin, old) == 400 and put(admin, image_id) == 400
    assert status(user, old, 'in-use') and status(user, small, 'available')
    assert put(admin, new) == 202
    status(user, old, 'available'), status(user, new, 'in-use')
    wait_for(lambda: guest_volumes(cloud, server_id) == {new: '/dev/vdb'})
    wait_for(lambda: [each['volumeId'] for each in attachments(user, server_id)] == [new])
    path = f'/servers/{server_id}/os-volume_attachments/{new}'
    assert put(user, new, '2.84') == 403
    assert put(user, new, '2.85', tag='other') == 400
    assert put(user, new, '2.85', delete_on_termination=True) == 202
    assert attachments(user, server_id)[0]['delete_on_termination'] is True
    gone(user, server_id)
    assert show(user, new) is None and status(user, old, 'available')


def open_actions(cloud, server_id):
    table = tables_cell.instance_actions
    with cloud.cell_db.reader() as conn:
        return conn.execute(sa.select(table.c.action).where(
            table.c.instance_uuid == server_id, table.c.finished_at.is_(None))).scalars().all()


def test_a_volume_that_the_block_storage_moves_keeps_its_id(cloud, user, image_id, monkeypatch):
    """It asks for a swap and gives the new volume the id of the old one. The host went on with the id that is gone: a
    detach left the disk in the guest and gave the volume back."""
    server_id, old, new = boot(user, image_id), volume(user), volume(user)
    attach(user, server_id, old)
    status(user, old, 'in-use')
    monkeypatch.setattr(cloud.volumes, 'complete_migration', lambda ctx, volume_id, other, failed: volume_id)
    assert cloud.admin().put(f'/servers/{server_id}/os-volume_attachments/{old}',
                             {'volumeAttachment': {'volumeId': new}}).status_code == 202
    wait_for(lambda: not open_actions(cloud, server_id))
    assert actions(user, server_id)['swap_volume'] is None
    assert [each['volumeId'] for each in attachments(user, server_id)] == [old]
    assert guest_volumes(cloud, server_id) == {old: '/dev/vdb'}


def test_a_failed_swap_keeps_the_old_one(cloud, user, image_id):
    server_id, old, new = boot(user, image_id), volume(user), volume(user)
    attach(user, server_id, old)
    status(user, old, 'in-use')
    for driver in drivers(cloud).values():
        driver.failures['swap_volume'] = 1.0
    try:
        assert cloud.admin().put(f'/servers/{server_id}/os-volume_attachments/{old}',
                                 {'volumeAttachment': {'volumeId': new}}).status_code == 202
        wait_for(lambda: actions(user, server_id).get('swap_volume') == 'Error')
    finally:
        for driver in drivers(cloud).values():
            driver.failures.clear()
    status(user, new, 'available'), status(user, old, 'in-use')
    assert guest_volumes(cloud, server_id) == {old: '/dev/vdb'}


def _boot_device(**values):
    return {'boot_index': 0, 'destination_type': 'volume', 'volume_size': 1, **values}


def test_server_boots_from_volumes_of_every_source(cloud, user, image_id):
    data = volume(user)
    server_id = boot(user, None, block_device_mapping_v2=[
        _boot_device(source_type='image', uuid=image_id, delete_on_termination=True),
        {'source_type': 'volume', 'uuid': data, 'destination_type': 'volume', 'boot_index': -1},
        {'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 2, 'boot_index': None}])
    server = user.wait_for(server_id)
    assert server['image'] == '' and len(server['os-extended-volumes:volumes_attached']) == 3
    found = attachments(user, server_id)
    assert [each['device'] for each in found] == ['/dev/vda', '/dev/vdb', '/dev/vdc']
    root = show(user, found[0]['volumeId'])
    assert root['bootable'] == 'true' and root['volume_image_metadata']['image_id'] == image_id
    assert show(user, found[2]['volumeId'])['size'] == 2
    assert guest_volumes(cloud, server_id).keys() == {each['volumeId'] for each in found}
    # the root disk stays
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{root["id"]}').status_code == 403
    gone(user, server_id)
    assert show(user, root['id']) is None
    assert status(user, data, 'available') and status(user, found[2]['volumeId'], 'available')


def test_server_boots_with_a_blank_root_volume(user, image_id):
    """What boots then is another disk, or a rescue image."""
    server_id = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='blank')])
    assert user.wait_for(server_id)['image'] == ''
    root, = attachments(user, server_id)
    assert (root['device'], show(user, root['volumeId'])['bootable']) == ('/dev/vda', 'false')


def test_server_boots_from_an_empty_volume_with_an_image(user, image_id):
    """What openstacksdk's own test does: the image tells what the server is, the volume is its disk."""
    root = volume(user)
    refused = user.post('/servers', {'server': {
        'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
            _boot_device(source_type='volume', uuid=root)]}}, version='2.67')
    assert refused.status_code == 400 and 'not bootable' in refused.text
    server_id = boot(user, image_id, block_device_mapping_v2=[_boot_device(source_type='volume', uuid=root)])
    user.wait_for(server_id)
    assert [each['volumeId'] for each in attachments(user, server_id)] == [root]


def test_server_boots_from_a_volume_in_either_form(user, image_id):
    for version in ('2.1', '2.36'):
        root = volume(user, imageRef=image_id)
        made = user.post('/servers', {'server': {'name': 'vm', 'flavorRef': '42', 'block_device_mapping': [
            {'volume_id': root, 'device_name': 'vda', 'delete_on_termination': '1'}]}}, version=version)
        assert made.status_code == 202, made.text
        server_id = user.wait_for(made.json()['server']['id'])['id']
        assert [each['device'] for each in attachments(user, server_id)] == ['/dev/vda']
        gone(user, server_id)
        assert show(user, root) is None


def test_server_boots_from_a_volume_snapshot(user, image_id):
    root = volume(user, imageRef=image_id)
    status(user, root, 'available')
    data = volume(user)
    status(user, data, 'available')
    first, second = (user.post('/volume/v3/snapshots', {'snapshot': {'volume_id': ident}}).json()['snapshot']['id']
                     for ident in (root, data))
    for ident in (first, second):
        wait_for(
            lambda ident=ident: user.get(f'/volume/v3/snapshots/{ident}').json()['snapshot']['status'] == 'available')
    server_id = boot(user, None, block_device_mapping_v2=[
        _boot_device(source_type='snapshot', uuid=first, volume_size=2, delete_on_termination=True),
        {'source_type': 'snapshot', 'uuid': second, 'destination_type': 'volume', 'boot_index': -1}])
    assert user.wait_for(server_id)['image'] == ''
    made = [show(user, each['volumeId']) for each in attachments(user, server_id)]
    assert [(row['snapshot_id'], row['size'], row['bootable'], row['status']) for row in made] == [
        (first, 2, 'true', 'in-use'), (second, 1, 'false', 'in-use')]
    gone(user, server_id)
    wait_for(lambda: show(user, made[0]['id']) is None)
    assert status(user, made[1]['id'], 'available')
    # a server of one without a system was built, and its guest found nothing to start
    refused = user.post('/servers', {'server': {
        'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
            _boot_device(source_type='snapshot', uuid=second)]}}, version='2.67')
    assert refused.status_code == 400 and 'not bootable' in refused.text


def test_an_image_of_a_server_on_volumes_is_of_snapshots(cloud, user, image_id):
    first = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='image', uuid=image_id)])
    answer = user.post(f'/servers/{first}/action', {'createImage': {'name': 'copy'}})
    assert answer.status_code == 202
    copy = answer.json()['image_id']
    wait_for(lambda: user.get(f'/image/v2/images/{copy}').json()['status'] == 'active')
    image = user.get(f'/image/v2/images/{copy}').json()
    mapping, = json.loads(image['block_device_mapping'])
    assert image['size'] == 0 and mapping['source_type'] == 'snapshot'
    assert user.get(f'/volume/v3/snapshots/{mapping["snapshot_id"]}').json()['snapshot']['size'] == 1
    user.wait_for(first)
    second = boot(user, copy)
    assert user.wait_for(second)['image'] == ''
    own, = attachments(user, second)
    assert show(user, own['volumeId'])['snapshot_id'] == mapping['snapshot_id']
    # openstackclient names the image as a local root disk, too: it has no data for one
    third = boot(user, copy, block_device_mapping_v2=[{
        'source_type': 'image', 'destination_type': 'local', 'uuid': copy, 'boot_index': 0}])
    assert user.wait_for(third)['image'] == ''
    own, = attachments(user, third)
    assert show(user, own['volumeId'])['snapshot_id'] == mapping['snapshot_id']


def test_image_without_data_starts_no_guest_and_fills_no_volume(user, image_id):
    """``openstack image create`` without a terminal makes such an image; Glance accepts it."""
    empty, server = user.upload_image(b''), boot(user, image_id)
    kernel = user.upload_image(kernel_id=empty)
    user.wait_for(server)
    for path, body in (
            ('/servers', {'server': {'name': 's', 'imageRef': empty, 'flavorRef': '42', 'networks': 'none'}}),
            ('/servers', {'server': {'name': 's', 'imageRef': kernel, 'flavorRef': '42', 'networks': 'none'}}),
            ('/servers', {'server': {'name': 's', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
                _boot_device(source_type='image', uuid=empty)]}}),
            (f'/servers/{server}/action', {'rebuild': {'imageRef': empty}}),
            (f'/servers/{server}/action', {'rescue': {'rescue_image_ref': empty}}),
            ('/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': empty}})):
        answer = user.post(path, body, version='2.67')
        assert answer.status_code == 400 and 'it has no data' in answer.text, (path, body, answer.text)


def test_a_volume_of_an_image_that_names_a_snapshot(cloud, user, image_id):
    """It was empty: a guest found nothing to start. Tempest found it on three hosts."""
    late = cloud.client()

    def ask(number, **values):
        return late.request('POST', '/volume/v3/volumes', {'volume': {'size': 1, **values}},
                            headers={'OpenStack-API-Version': f'volume 3.{number}'})
    first = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='image', uuid=image_id)])
    copy = user.post(f'/servers/{first}/action', {'createImage': {'name': 'copy'}}).json()['image_id']
    wait_for(lambda: user.get(f'/image/v2/images/{copy}').json()['status'] == 'active')
    mapping, = json.loads(user.get(f'/image/v2/images/{copy}').json()['block_device_mapping'])
    before = ask(45, imageRef=copy)
    assert before.status_code == 400 and 'requires microversion 3.46' in before.text
    made = ask(46, imageRef=copy)
    assert made.status_code == 202, made.text
    row = status(user, made.json()['volume']['id'], 'available')
    assert row['snapshot_id'] == mapping['snapshot_id'] and row['bootable'] == 'true'
    server = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='image', uuid=copy)])
    own, = attachments(user, user.wait_for(server)['id'])
    assert show(user, own['volumeId'])['snapshot_id'] == mapping['snapshot_id']
    for text, code in (('[]', 400), ('{"a": 1}', 400), ('[{"boot_index": 0}]', 400), ('[1]', 400), ('x', 400),
                       (json.dumps([{'boot_index': 0, 'snapshot_id': first}]), 404)):
        answer = user.request('PATCH', f'/image/v2/images/{copy}', [
            {'op': 'replace', 'path': '/block_device_mapping', 'value': text}],
            headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'})
        assert answer.status_code == 200, answer.text
        assert ask(46, imageRef=copy).status_code == code, text


@pytest.mark.parametrize('required', [True, False])
def test_guest_is_quiesced_while_its_volumes_are_copied(cloud, user, required):
    """Where the image has an agent; that it does not come to rest ends the image only when the image says so."""
    more = {'os_require_quiesce': 'yes'} if required else {}
    agents = user.upload_image(hw_qemu_guest_agent='yes', **more)
    server_id = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='image', uuid=agents)])
    user.wait_for(server_id)
    driver = next(driver for driver in drivers(cloud).values() if server_id in driver.guests())

    def copy():
        answer = user.post(f'/servers/{server_id}/action', {'createImage': {'name': 'copy'}})
        assert answer.status_code == 202, answer.text
        user.wait_for(server_id)
        return user.get(f'/image/v2/images/{answer.json()["image_id"]}').json().get('status')
    assert copy() == 'active' and driver.machine.guests[server_id]['rests'] is False
    # where QEMU copies, since this file system cannot clone: while the guest rests, and before the image is there
    assert all(rested for _volume, _path, rested in driver.machine.guests[server_id].get('copies', []))
    assert {row['status'] for row in user.get('/volume/v3/snapshots').json()['snapshots']} == {'available'}
    driver.failures['quiesce'] = 1.0
    try:
        assert copy() == (None if required else 'active')
    finally:
        del driver.failures['quiesce']
    gone(user, server_id)


def test_a_guest_rests_until_a_late_request_for_a_copy_has_come(cloud, user, monkeypatch):
    """The message that asks the host for the copy may come behind the answer that it was sent."""
    agents = user.upload_image(hw_qemu_guest_agent='yes')
    server_id = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='image', uuid=agents)])
    user.wait_for(server_id)
    driver = next(driver for driver in drivers(cloud).values() if server_id in driver.guests())
    send = inprocess.Driver.send

    def late(sender, target, ctxt, message, *args, **kwargs):
        if message['method'] != 'create_volume_snapshot':
            return send(sender, target, ctxt, message, *args, **kwargs)
        threading.Timer(0.8, send, (sender, target, ctxt, message, *args), kwargs).start()
        return None
    monkeypatch.setattr(inprocess.Driver, 'send', late)
    answer = user.post(f'/servers/{server_id}/action', {'createImage': {'name': 'copy'}})
    assert answer.status_code == 202, answer.text
    user.wait_for(server_id)
    copies = driver.machine.guests[server_id].get('copies', [])
    if not copies:
        pytest.skip('The file system clones: no host copies.')
    assert all(rested for _volume, _path, rested in copies) and driver.machine.guests[server_id]['rests'] is False
    gone(user, server_id)


@pytest.mark.parametrize('devices, words', [
    ([_boot_device(source_type='image', volume_size=None)], 'size'),
    ([{'source_type': 'blank', 'destination_type': 'volume', 'boot_index': 0}], 'size'),
    ([_boot_device(source_type='image'), _boot_device(source_type='image')], 'Boot sequence'),
    ([_boot_device(source_type='image', boot_index=1)], 'Boot sequence'),
    ([_boot_device(source_type='volume', destination_type='local')], 'local'),
    ([_boot_device(source_type='snapshot')], 'Snapshot'),
    ([_boot_device(source_type='volume')], 'Volume'),
    ([_boot_device(source_type='image', volume_type='fast')], 'type'),
    ([_boot_device(source_type='volume', volume_type='fast')], 'volume_type'),
    ([_boot_device(source_type='image'), {'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1,
                                          'device_name': '../x'}], 'device_name'),
    ([_boot_device(source_type='image'), *[{'source_type': 'blank', 'destination_type': 'local'}] * 4], 'limit'),
])
def test_refusals_of_block_devices(user, image_id, devices, words):
    before = user.get('/volume/v3/volumes').json()['volumes']
    given = []
    for device in devices:
        device = {key: value for key, value in device.items() if value is not None}
        if device['source_type'] != 'blank':
            device.setdefault('uuid', image_id)
        given.append(device)
    answer = user.post('/servers', {'server': {
        'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': given}}, version='2.67')
    assert answer.status_code == 400 and words in answer.json()['badRequest']['message'], answer.text
    assert user.get('/volume/v3/volumes').json()['volumes'] == before


def test_refusals_of_volumes_at_create(user, image_id):
    plain, used = volume(user), volume(user)
    attach(user, boot(user, image_id), used)

    def create(volume_id, **fields):
        return user.post('/servers', {'server': {
            'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
                {'source_type': 'volume', 'uuid': volume_id, 'boot_index': 0}], **fields}})
    assert 'not bootable' in create(plain).text and create(plain).status_code == 400
    rooted = volume(user, imageRef=image_id)
    assert create(rooted, min_count=2).status_code == 400
    status(user, used, 'in-use')
    assert user.post('/servers', {'server': {
        'name': 'vm', 'imageRef': image_id, 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
            {'source_type': 'volume', 'uuid': used, 'boot_index': -1}]}}).status_code == 400
    assert status(user, rooted, 'available')


def test_a_build_that_fails_gives_volumes_back(cloud, user, image_id):
    data = volume(user)
    for driver in drivers(cloud).values():
        driver.failures['spawn'] = 1.0
    try:
        made = user.post('/servers', {'server': {
            'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
                _boot_device(source_type='image', uuid=image_id, delete_on_termination=True),
                {'source_type': 'volume', 'uuid': data, 'boot_index': -1, 'destination_type': 'volume'}]}})
        server_id = made.json()['server']['id']
        user.wait_for(server_id, 'ERROR')
    finally:
        for driver in drivers(cloud).values():
            driver.failures.clear()
    status(user, data, 'available')
    # the volume that was made for it, and should go with it, is gone
    wait_for(lambda: all(each['status'] != 'reserved' for each in
                      user.get('/volume/v3/volumes/detail').json()['volumes']))
    user.delete(f'/servers/{server_id}')
    wait_for(lambda: user.get(f'/servers/{server_id}').status_code == 404)
    status(user, data, 'available')


def test_a_volume_that_a_failed_server_does_not_hold_any_more_stays_with_its_new_project(cloud, user, image_id):
    """Its owner gave it away, and would have had it deleted with the rights of the deployment."""
    data, victim = volume(user), cloud.admin()
    for driver in drivers(cloud).values():
        driver.failures['spawn'] = 1.0
    try:
        server_id = user.post('/servers', {'server': {
            'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'imageRef': image_id, 'block_device_mapping_v2': [
                _boot_device(source_type='image', uuid=image_id, destination_type='local'),
                {'source_type': 'volume', 'uuid': data, 'boot_index': -1, 'destination_type': 'volume'}]}},
            ).json()['server']['id']
        user.wait_for(server_id, 'ERROR')
    finally:
        for driver in drivers(cloud).values():
            driver.failures.clear()
    status(user, data, 'available')
    assert user.put(f'/servers/{server_id}/os-volume_attachments/{data}', {'volumeAttachment': {
        'volumeId': data, 'delete_on_termination': True}}, version='2.85').status_code == 202
    given = user.post('/volume/v3/volume-transfers', {'transfer': {'volume_id': data}}).json()['transfer']
    assert victim.post(f'/volume/v3/volume-transfers/{given["id"]}/accept', {
        'accept': {'auth_key': given['auth_key']}}).status_code == 202
    user.delete(f'/servers/{server_id}')
    wait_for(lambda: user.get(f'/servers/{server_id}').status_code == 404)
    assert status(victim, data, 'available')


def test_another_host_builds_with_the_same_volumes(cloud, user, image_id):
    data = volume(user)
    first = min(drivers(cloud))
    drivers(cloud)[first].failures['spawn'] = 1.0
    try:
        servers = [boot(user, None, block_device_mapping_v2=[
            _boot_device(source_type='image', uuid=image_id, delete_on_termination=True),
            *([{'source_type': 'volume', 'uuid': data, 'boot_index': -1, 'destination_type': 'volume'}]
              if number == 0 else [])]) for number in range(2)]
    finally:
        drivers(cloud)[first].failures.clear()
    for server_id in servers:
        for each in attachments(user, server_id):
            held, = status(user, each['volumeId'], 'in-use')['attachments']
            assert held['host_name'] == max(HOSTS)
        gone(user, server_id)


def test_a_failed_build_whose_guest_remains_keeps_its_volumes(cloud, user, image_id):
    """They were connected to the next host too, while the first guest still wrote to them."""
    data = volume(user)

    def fails(server, driver):
        driver.failures['destroy'] = 1.0
        raise RuntimeError('canary')
    for driver in drivers(cloud).values():
        driver.power_state = functools.partial(fails, driver=driver)
    try:
        server_id = user.post('/servers', {'server': {
            'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
                _boot_device(source_type='image', uuid=image_id, delete_on_termination=True),
                {'source_type': 'volume', 'uuid': data, 'boot_index': -1, 'destination_type': 'volume'}]}},
            ).json()['server']['id']
        fault = user.wait_for(server_id, 'ERROR')['fault']
    finally:
        for driver in drivers(cloud).values():
            driver.failures.clear()
            del driver.power_state
    assert fault['code'] == 409 and 'did not remove its guest' in fault['message']
    held, = status(user, data, 'in-use')['attachments']
    assert held['server_id'] == server_id and drivers(cloud)[held['host_name']].guests()[server_id]
    assert data in guest_volumes(cloud, server_id)
    user.delete(f'/servers/{server_id}')
    wait_for(lambda: user.get(f'/servers/{server_id}').status_code == 404)
    status(user, data, 'available')
    assert guest_volumes(cloud, server_id) is None


def test_volumes_follow_a_shelved_server(cloud, user, image_id):
    server_id, data, more = boot(user, image_id), volume(user), volume(user)
    attach(user, server_id, data)
    status(user, data, 'in-use')
    user.post(f'/servers/{server_id}/action', {'shelve': None})
    user.wait_for(server_id, 'SHELVED_OFFLOADED')
    status(user, data, 'reserved')
    assert attach(user, server_id, more, version='2.19').status_code == 409
    assert attach(user, server_id, more).status_code == 200
    # a client waits for this: no host will ever take part in it
    assert status(user, more, 'in-use')['attachments'][0]['server_id'] == server_id
    assert {each['volumeId'] for each in attachments(user, server_id)} == {data, more}
    user.post(f'/servers/{server_id}/action', {'unshelve': None})
    user.wait_for(server_id)
    status(user, data, 'in-use'), status(user, more, 'in-use')
    assert guest_volumes(cloud, server_id).keys() == {data, more}
    user.post(f'/servers/{server_id}/action', {'shelve': None})
    user.wait_for(server_id, 'SHELVED_OFFLOADED')
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{more}').status_code == 202
    status(user, more, 'available')
    gone(user, server_id)
    status(user, data, 'available')


def test_failed_volume_change_of_an_offloaded_server_leaves_no_action(cloud, user, image_id, monkeypatch):
    server_id, data, more = boot(user, image_id), volume(user), volume(user)
    status(user, data, 'available'), status(user, more, 'available')
    user.post(f'/servers/{server_id}/action', {'shelve': None})
    user.wait_for(server_id, 'SHELVED_OFFLOADED')

    def recorded():
        found = user.get(f'/servers/{server_id}/os-instance-actions').json()
        return [row['action'] for row in found['instanceActions']]

    def failing(error, *names):
        def fail(*_arguments):
            raise error
        for name in names:
            monkeypatch.setattr(EmbeddedVolumes, name, fail)
    before, away = recorded(), exception.ServiceUnavailable(service='Block Storage')
    failing(exception.InvalidVolume(reason='in use'), 'attach')
    assert attach(user, server_id, data).status_code == 400 and recorded() == before
    monkeypatch.undo()
    failing(away, 'complete', 'detach')
    assert attach(user, server_id, data).status_code == 503
    monkeypatch.undo()
    assert recorded() == ['attach_volume', *before]                  # it is reserved, and can be detached
    assert user.delete(f'/servers/{server_id}/os-volume_attachments/{data}').status_code == 202
    status(user, data, 'available')
    failing(away, 'complete')
    before = recorded()
    assert attach(user, server_id, data).status_code == 503
    assert recorded() == before and attachments(user, server_id) == []
    monkeypatch.undo()
    assert attach(user, server_id, more).status_code == 200
    before, path = ['attach_volume', *before], f'/servers/{server_id}/os-volume_attachments/{more}'
    failing(away, 'detach')
    assert user.delete(path).status_code == 503 and recorded() == before
    assert [each['volumeId'] for each in attachments(user, server_id)] == [more]
    monkeypatch.undo()
    assert user.delete(path).status_code == 202 and recorded() == ['detach_volume', *before]
    assert {show(user, each)['status'] for each in (data, more)} == {'available'}


def test_a_rebuild_keeps_volumes(cloud, user, image_id):
    server_id, data = boot(user, image_id), volume(user)
    attach(user, server_id, data)
    status(user, data, 'in-use')
    assert user.post(f'/servers/{server_id}/action', {'rebuild': {'imageRef': image_id}}).status_code == 202
    user.wait_for(server_id)
    assert guest_volumes(cloud, server_id) == {data: '/dev/vdb'} and status(user, data, 'in-use')


def test_a_rebuild_from_another_image_changes_the_root_volume(cloud, user, image_id):
    other = user.upload_image(b'\1' * 1024, name='other', os_distro='other')
    server_id = boot(user, None, block_device_mapping_v2=[_boot_device(source_type='image', uuid=image_id)])
    root, = attachments(user, server_id)

    def rebuild(image, version):
        answer = user.post(f'/servers/{server_id}/action', {'rebuild': {'imageRef': image}}, version=version)
        if answer.status_code == 202:
            assert user.wait_for(server_id)['image'] == ''
        return answer.status_code
    assert rebuild(image_id, '2.92') == 202 and rebuild(other, '2.92') == 400
    assert rebuild(other, '2.93') == 202
    volume = status(user, root['volumeId'], 'in-use')
    assert volume['volume_image_metadata']['image_id'] == other
    assert [each['volumeId'] for each in attachments(user, server_id)] == [root['volumeId']]
    assert guest_volumes(cloud, server_id) == {root['volumeId']: '/dev/vda'}
    assert user.get(f'/servers/{server_id}', version='2.98').json()['server']['image'] == ''


def test_multiattach_volume_is_attached_to_two_servers(cloud, user, image_id):
    shared = volume(user, multiattach=True)
    servers = [boot(user, image_id) for _ in range(2)]
    for server_id in servers:
        assert attach(user, server_id, shared).status_code == 200
        wait_for(lambda server_id=server_id: guest_volumes(cloud, server_id) == {shared: '/dev/vdb'})
    wait_for(lambda: len(status(user, shared, 'in-use')['attachments']) == 2)
    assert user.delete(f'/servers/{servers[0]}/os-volume_attachments/{shared}').status_code == 202
    wait_for(lambda: len(show(user, shared)['attachments']) == 1)
    assert status(user, shared, 'in-use')
    assert guest_volumes(cloud, servers[1]) == {shared: '/dev/vdb'}


def test_other_projects_volumes_are_not_there(cloud, user, image_id):
    theirs = cloud.admin().post('/volume/v3/volumes', {'volume': {'size': 1}}).json()['volume']['id']
    server_id = boot(user, image_id)
    assert attach(user, server_id, theirs).status_code == 404
    assert user.get(f'/volume/v3/volumes/{theirs}').status_code == 404
    assert user.delete(f'/volume/v3/volumes/{theirs}').status_code == 404
    assert user.post('/servers', {'server': {
        'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
            {'source_type': 'volume', 'uuid': theirs, 'boot_index': 0}]}}).status_code == 400
    assert user.post('/volume/v3/snapshots', {'snapshot': {'volume_id': theirs}}).status_code == 404
    for source in ('source_volid', 'snapshot_id'):
        assert user.post('/volume/v3/volumes', {'volume': {'size': 1, source: theirs}}).status_code == 404
