"""Aggregates, flavors, images and hints decide where servers go, in a whole cloud over HTTP."""
import json

import pytest

from nova.tests.support import waiting
from nova.tests.functional import cloud

HOSTS = ('host1', 'host2', 'host3')


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    names = ['ComputeFilter', 'AvailabilityZoneFilter', 'ComputeCapabilitiesFilter', 'ImagePropertiesFilter',
             'AggregateInstanceExtraSpecsFilter', 'AggregateMultiTenancyIsolation', 'AggregateNumInstancesFilter',
             'SameHostFilter', 'DifferentHostFilter', 'SimpleCIDRAffinityFilter', 'JsonFilter', 'CoreFilter',
             'RamFilter', 'DiskFilter']
    with cloud.running(tmp_path_factory.mktemp('filters') / 'state', hosts=HOSTS, quota__instances=-1,
                       filter_scheduler__enabled_filters=names) as made:
        yield made


@pytest.fixture(scope='module')
def image(running):
    return running.client().upload_image(b'\0' * 4096)


def aggregate(admin, name, host, **metadata):
    number = admin.post('/os-aggregates', {'aggregate': {'name': name}}).json()['aggregate']['id']
    assert admin.post(f'/os-aggregates/{number}/action', {'add_host': {'host': host}}).status_code == 200
    assert admin.post(f'/os-aggregates/{number}/action', {'set_metadata': {'metadata': metadata}}).status_code == 200


def flavor(admin, name, **extra_specs):
    made = admin.post('/flavors', {'flavor': {'name': name, 'ram': 64, 'vcpus': 1, 'disk': 1}}).json()['flavor']['id']
    answer = admin.post(f'/flavors/{made}/os-extra_specs', {'extra_specs': extra_specs})
    assert answer.status_code == 200, answer.text
    return made


def test_scheduler_filters_place_servers_as_requested(running, image):
    admin, user = running.admin(), running.client()
    aggregate(admin, 'fast', 'host2', ssd='true', kind='a,b')
    aggregate(admin, 'small', 'host1', max_instances_per_host='1')
    aggregate(admin, 'theirs', 'host3', filter_tenant_id='nobody')

    def place(code=202, **fields):
        hints = fields.pop('hints', {})
        body = {'server': {'name': 's', 'imageRef': image, 'flavorRef': '42', 'networks': 'none', **fields},
                'os:scheduler_hints': hints}
        answer = user.post('/servers', body, version='2.37')
        assert answer.status_code == code, answer.text
        server = answer.json()['server']['id']

        def built():
            shown = admin.get(f'/servers/{server}').json()['server']
            return shown['status'] != 'BUILD' and shown
        shown = waiting.wait_for(built, 120, 'the server to be built')
        return server, shown['OS-EXT-SRV-ATTR:host'], shown.get('fault', {}).get('message')

    fast = flavor(admin, 'fast', **{'aggregate_instance_extra_specs:ssd': 'true',
                                    'aggregate_instance_extra_specs:kind': '<or> b <or> c'})
    for _ in range(2):
        assert place(flavorRef=fast)[1] == 'host2'
    # host3 is for others, host1 takes one
    first = place(hints={'query': json.dumps(['=', '$host', 'host1'])})
    assert first[1] == 'host1'
    assert place()[1] == 'host2'
    _, host, message = place(hints={'same_host': first[0]})
    assert host is None and '1 has as many servers as allowed, 1 has none of the servers that the hint' in message
    _, host, message = place(hints={'different_host': [place()[0]]})
    assert host is None
    nowhere = flavor(admin, 'nowhere', **{'capabilities:hypervisor_type': 'ironic'})
    assert "3 do not satisfy the flavor's extra specs (hypervisor_type)" in place(flavorRef=nowhere)[2]
    assert 'the network 198.51.100.1/24' in place(hints={'build_near_host_ip': '198.51.100.1'})[2]
    assert 'cannot be near 127.0.0.1/77, which is not a network' in place(
        hints={'build_near_host_ip': '127.0.0.1', 'cidr': '/77'})[2]
    assert 'it is not JSON' in place(hints={'query': '['})[2]


def test_servers_are_placed_in_their_zone(running, image):
    admin, user = running.admin(), running.client()
    made = admin.post('/os-aggregates', {'aggregate': {'name': 'z', 'availability_zone': 'east'}})
    number = made.json()['aggregate']['id']
    assert admin.post(f'/os-aggregates/{number}/action', {'add_host': {'host': 'host3'}}).status_code == 200

    def boot(zone):
        return user.post('/servers', {'server': {
            'name': 's', 'imageRef': image, 'flavorRef': '42', 'networks': 'none', 'availability_zone': zone}},
            version='2.37')
    answer = boot('nova,east')
    assert answer.status_code == 202, answer.text
    user.wait_for(answer.json()['server']['id'])
    assert boot('nova,west').status_code == boot('west').status_code == boot(',').status_code == 400
