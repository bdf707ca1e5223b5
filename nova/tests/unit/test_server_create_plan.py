"""The plan of a server create, of a body and of facts that are made here."""
import dataclasses

import pytest

from nova import exception
from nova import states
from nova import utils
from nova.api.servers import create_plan
from nova.api.servers import devices
from nova.db.projects import quotas

FLAVOR = {'id': 1, 'flavor_id': '1', 'name': 'small', 'memory_mb': 512, 'vcpus': 1, 'root_gb': 1, 'ephemeral_gb': 0,
          'swap': 0, 'extra_specs': {}}
IMAGE = {'id': 'i', 'status': 'active', 'min_ram': 0, 'min_disk': 0, 'size': 1, 'properties': {'kernel_id': 'k'}}
LIMITS = quotas.Limits({'metadata_items': 1}, {})


def planned(server=None, **facts):
    request = create_plan.Request.of({'server': {'name': ' web ', **(server or {})}}, None)
    image = facts.get('image', IMAGE)
    given = create_plan.Facts(
        project_id='p', user_id='u', category='regular', hints=request.hints, flavor=FLAVOR, zero_disk=False, key=None,
        limits=LIMITS, image=image, devices=devices.parse(request.server, image, FLAVOR), sources=[None],
        references=[], networks=request.networks, groups=['default'], aliases={}, of_ports=[], named=False)
    return create_plan.plan(request, dataclasses.replace(given, **facts))


def test_plan_makes_one_row_for_each_server():
    plan = planned({'min_count': 2, 'max_count': 3})
    now = utils.utcnow()
    first, second = plan.rows(['a', 'b'], 'r-1', now)
    assert (plan.least, plan.most) == (2, 3)
    assert [(row['uuid'], row['display_name'], row['hostname'], row['launch_index']) for row in (first, second)] == [
        ('a', 'web-1', 'web-1', 0), ('b', 'web-2', 'web-2', 1)]
    assert first['created_at'] == now and first['reservation_id'] == 'r-1'
    assert (first['vm_state'], first['task_state'], first['image_id'], first['kernel_id']) == (
        states.BUILDING, states.SCHEDULING, 'i', 'k')
    assert plan.spec['image']['properties'] == {'kernel_id': 'k'} and plan.spec['block_devices'][0]['boot_index'] == 0


def test_a_server_from_a_volume_has_the_volumes_size_and_properties():
    server = {'block_device_mapping_v2': [{'source_type': 'volume', 'uuid': 'v', 'boot_index': 0}]}
    volume = {'id': 'v', 'bootable': True, 'multiattach': False, 'status': 'available', 'size': 7,
              'image_metadata': {'hw_x': '1', 'image_id': 'i'}}
    plan = planned(server, image=None, sources=[volume])
    assert plan.spec['block_devices'][0]['volume_size'] == 7 and plan.columns['image_id'] is None
    assert plan.columns['image_properties'] == {'hw_x': '1'} and plan.columns['volumes'][0]['id'] == 'v'
    with pytest.raises(exception.InvalidVolume, match="must be 'available'"):
        planned(server, image=None, sources=[{**volume, 'status': 'in-use'}])
    with pytest.raises(exception.InvalidBlockDevice, match='not bootable'):
        planned(server, image=None, sources=[{**volume, 'bootable': False}])


@pytest.mark.parametrize('server, facts, error', [
    ({}, {'image': {**IMAGE, 'status': 'queued'}}, exception.ImageInactive),
    ({}, {'image': {**IMAGE, 'min_ram': 1024}}, exception.FlavorTooSmall),
    ({}, {'flavor': {**FLAVOR, 'root_gb': 0}}, exception.Forbidden),
    ({}, {'references': [{**IMAGE, 'id': 'k', 'status': 'queued'}]}, exception.ImageInactive),
    ({'metadata': {'a': '1', 'b': '2'}}, {}, exception.LimitExceeded),
    ({}, {'flavor': {**FLAVOR, 'extra_specs': {'hw:numa_nodes': 'x'}}}, exception.NovaException)])
def test_unsuitable_server_is_refused_when_planned(server, facts, error):
    with pytest.raises(error):
        planned(server, **facts)
