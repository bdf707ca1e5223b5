"""A cloud of the tree before the first release, stopped, and started with this one."""
import pytest

from nova.db import schema
from nova.tests.functional import cloud as clouds
from nova.tests.older_release import tree
from nova.tests.support import conversion
from nova.tests.support.conversion import CONFIG
from nova.tests.support.conversion import client_of
from nova.tests.support.waiting import wait_for

before = conversion.before


@pytest.mark.timeout(900)
def test_servers_and_volumes_of_the_tree_before_are_used(before, tmp_path):
    state = tmp_path / 'state'
    config = tmp_path / 'nova.conf'
    config.write_text(CONFIG.format(state=state, more=''))
    with tree.nova_all(before, config, 'fake'):
        client = client_of(state)
        image = client.upload_image()
        running, stopped, resized = (client.boot(image, name=name)['id'] for name in ('running', 'stopped', 'resized'))
        for uuid in (running, stopped, resized):
            client.wait_for(uuid)
        client.post(f'/servers/{stopped}/action', {'os-stop': None})
        client.wait_for(stopped, 'SHUTOFF')
        volumes = f'/volume/v3/{client.project_id}/volumes'
        volume = client.post(volumes, {'volume': {'size': 1, 'name': 'data'}}).json()['volume']['id']
        wait_for(lambda: client.get(f'{volumes}/{volume}').json()['volume']['status'] == 'available', 60, 'the volume')
        attached = client.post(f'/servers/{running}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
        assert attached.status_code == 200, attached.text
        names = {server['id']: server['name'] for server in client.get('/servers').json()['servers']}
    with clouds.running(state) as cloud:
        for db, branch in ((cloud.api_db, 'api'), (cloud.cell_db, 'cell')):
            assert schema.version(db) == schema.head(branch)
        client = cloud.client()
        assert {server['id']: server['name'] for server in client.get('/servers').json()['servers']} == names
        assert client.wait_for(running) and client.wait_for(stopped, 'SHUTOFF')
        client.post(f'/servers/{stopped}/action', {'os-start': None})
        client.post(f'/servers/{running}/action', {'os-stop': None})
        assert client.wait_for(stopped) and client.wait_for(running, 'SHUTOFF')
        assert client.get(f'{volumes}/{volume}').json()['volume']['attachments'][0]['server_id'] == running
        assert client.delete(f'/servers/{running}/os-volume_attachments/{volume}').status_code == 202
        wait_for(lambda: client.get(f'{volumes}/{volume}').json()['volume']['status'] == 'available', 60, 'its end')
        for uuid in names:
            assert client.delete(f'/servers/{uuid}').status_code == 204
        for uuid in names:
            client.wait_for(uuid, 'DELETED')
        new = client.boot(image)['id']
        client.wait_for(new)
    assert len(list(state.glob('*.before-conversion-*'))) == 2
    with clouds.running(state) as cloud:                     # the second start finds nothing to convert
        assert cloud.client().wait_for(new)
    assert len(list(state.glob('*.before-conversion-*'))) == 2
