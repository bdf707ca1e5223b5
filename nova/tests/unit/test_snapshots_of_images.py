"""Whose snapshots an image of volumes names: its properties are its owner's to write, while the system works on it."""
import json
import types

import pytest

from nova import exception
from nova.conductor.servers import volumes

SNAPSHOTS = {'mine': {'volume_id': 'v1', 'status': 'available'}, 'second': {'volume_id': 'v1', 'status': 'available'},
             'foreign': {'volume_id': 'x', 'status': 'available'}, 'old': {'volume_id': 'v1', 'status': 'deleting'}}


class Storage:
    """Block storage that shows everything to the system."""

    def get_snapshot(self, ctx, snapshot_id):
        if snapshot_id not in SNAPSHOTS:
            raise exception.VolumeSnapshotNotFound(snapshot_id=snapshot_id)
        return SNAPSHOTS[snapshot_id]


@pytest.mark.parametrize('named, taken', [
    (['mine'], ['mine']), ([], []), (['foreign'], []), (['mine', 'second'], []), (['mine', 'mine', 'foreign'], []),
    (['mine', 'foreign'], []), (['nothing'], []), (['old'], [])])
def test_only_one_snapshot_of_each_volume_of_the_server_is_taken(named, taken):
    services = types.SimpleNamespace(cell_db=None, volumes=Storage())
    image = {'properties': {'block_device_mapping': json.dumps([{'snapshot_id': each} for each in named])}}
    assert volumes.Volumes(services, None, None)._snapshots_of(None, image, {'v1'}) == taken


@pytest.mark.parametrize('text', ['', 'no json', '{}', '[1]', '[{"a": 1}]', 'null'])
def test_a_mapping_that_is_none_names_nothing(text):
    services = types.SimpleNamespace(cell_db=None, volumes=Storage())
    image = {'properties': {'block_device_mapping': text}}
    found = volumes.Volumes(services, None, None)._snapshots_of(None, image, {'v1'})
    assert found == []
