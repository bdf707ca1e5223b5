"""Numbers above 64 bits: shown in full where they are right, refused with a reason where they are not, in all APIs."""
import json

import pytest

from nova import utils
from nova.tests.functional import cloud as clouds
from nova.tests.support.floating_addresses import make

NUMBERS = (2 ** 31, 2 ** 63, 2 ** 64 - 1, 2 ** 64, 10 ** 30, 10 ** 400, -2 ** 63 - 1)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('numbers') / 'state') as made:
        made.boss = made.admin('2.96')
        made.image = made.boss.upload_image()
        made.network = make(made.boss, 'networks', name='n')['id']
        make(made.boss, 'subnets', network_id=made.network, cidr='10.22.0.0/24', ip_version=4)
        make(made.boss, 'subnets', network_id=made.network, cidr='2001:db8:3::/64', ip_version=6)
        make(made.boss, 'subnets', network_id=made.network, cidr='2001:db8:4::/64', ip_version=6)
        yield made


def test_json_has_large_numbers_in_full():
    for number in NUMBERS:
        assert json.loads(utils.encode_json({'n': number, 'é': '"\n'})) == {'n': number, 'é': '"\n'}
        assert json.loads(utils.dump_json([number])) == [number]
    with pytest.raises(TypeError):
        utils.encode_json({'n': 2 ** 64, 'x': object()})


def test_availability_counts_addresses_of_dual_stack_networks(cloud):
    """One such network of any project made the list fail for all."""
    path = '/network/v2.0/network-ip-availabilities'
    listed = cloud.boss.get(path)
    assert listed.status_code == 200, listed.text
    found, = [each for each in listed.json()['network_ip_availabilities'] if each['network_id'] == cloud.network]
    totals = {each['cidr']: each['total_ips'] for each in found['subnet_ip_availability']}
    # without the gateway, the router's anycast address and, of IPv4, network and broadcast
    assert totals == {'10.22.0.0/24': 253, '2001:db8:3::/64': 2 ** 64 - 2, '2001:db8:4::/64': 2 ** 64 - 2}
    assert found['total_ips'] == sum(totals.values()) and found['used_ips'] == 3         # DHCP has one in each
    assert cloud.boss.get(f'{path}/{cloud.network}').json()['network_ip_availability'] == found


@pytest.mark.parametrize('query, matches', [
    ('network_id={id}', True), ('network_name=n', True), ('project_id={project}', True), ('tenant_id={project}', True),
    ('ip_version=4', True), ('ip_version=6', True), ('network_id=x', False), ('network_name=other', False)])
def test_availability_filters_select_networks(cloud, query, matches):
    query = query.format(id=cloud.network, project=cloud.boss.project_id)
    found = cloud.boss.get('/network/v2.0/network-ip-availabilities?' + query).json()['network_ip_availabilities']
    assert (cloud.network in {each['network_id'] for each in found}) is matches
    if query.startswith('ip_version'):
        assert {str(subnet['ip_version']) for each in found for subnet in each['subnet_ip_availability']} == {query[-1]}


def test_unknown_filter_of_availability_is_refused(cloud):
    for query in ('ip_version=5', 'nothing=1'):
        assert cloud.boss.get('/network/v2.0/network-ip-availabilities?' + query).status_code == 400


# (method, path, body): N is the number
REQUESTS = [
    *(('GET', path, None) for path in (
        '/servers?limit=N', '/servers/detail?progress=N', '/servers/detail?launch_index=N', '/flavors?limit=N',
        '/flavors/detail?minRam=N', '/flavors/detail?minDisk=N', '/os-aggregates/N', '/os-services?limit=N',
        '/os-hypervisors?limit=N', '/os-migrations?limit=N', '/servers/x/migrations/N', '/os-keypairs?limit=N',
        '/os-volumes?offset=N', '/os-volumes/detail?offset=N', '/os-snapshots?offset=N',
        '/os-snapshots/detail?offset=N',
        '/os-simple-tenant-usage?limit=N', '/os-instance_usage_audit_log/N', '/os-server-groups?limit=N&offset=N',
        '/network/v2.0/networks?mtu=N', '/network/v2.0/networks?limit=N',
        '/network/v2.0/networks?provider:segmentation_id=N',
        '/network/v2.0/security-group-rules?port_range_min=N', '/network/v2.0/ports?revision_number=N',
        '/network/v2.0/subnets?ip_version=N', '/network/v2.0/subnetpools?default_quota=N',
        '/image/v2/images?min_ram=N', '/image/v2/images?size_min=N', '/image/v2/images?limit=N',
        '/volume/v3/{project}/volumes?limit=N', '/volume/v3/{project}/volumes?offset=N',
        '/volume/v3/{project}/volumes?size=N', '/volume/v3/{project}/snapshots?limit=N',
        '/identity/v3/users?limit=N', '/identity/v3/projects?limit=N')),
    *(('POST', '/flavors', {'flavor': {'name': 'f', 'ram': 1, 'vcpus': 1, 'disk': 1, name: 'N'}}) for name in (
        'ram', 'vcpus', 'disk', 'swap', 'OS-FLV-EXT-DATA:ephemeral', 'rxtx_factor', 'id')),
    *(('POST', '/servers', {'server': {
        'name': 's', 'flavorRef': '42', 'imageRef': 'IMAGE', 'networks': 'none', **more}})
      for more in ({'min_count': 'N'}, {'max_count': 'N'}, {'os:scheduler_hints': {'x': 'N'}},
                   {'block_device_mapping_v2': [{'source_type': 'image', 'uuid': 'IMAGE', 'boot_index': 0,
                                                 'destination_type': 'volume', 'volume_size': 'N'}]},
                   {'block_device_mapping_v2': [{'source_type': 'image', 'uuid': 'IMAGE', 'boot_index': 'N',
                                                 'destination_type': 'local'}]})),
    ('PUT', '/os-quota-sets/p', {'quota_set': {'cores': 'N'}}),
    ('PUT', '/os-quota-class-sets/default', {'quota_class_set': {'cores': 'N'}}),
    ('POST', '/os-aggregates/N/action', {'add_host': {'host': 'host1'}}),
    ('POST', '/network/v2.0/networks', {'network': {'mtu': 'N'}}),
    ('POST', '/network/v2.0/networks', {'network': {
        'provider:network_type': 'vxlan', 'provider:segmentation_id': 'N'}}),
    ('POST', '/network/v2.0/subnets', {'subnet': {'network_id': 'x', 'ip_version': 'N', 'prefixlen': 'N'}}),
    ('POST', '/network/v2.0/subnetpools', {'subnetpool': {
        'name': 'p', 'prefixes': ['10.0.0.0/8'], 'default_quota': 'N', 'min_prefixlen': 'N'}}),
    ('PUT', '/network/v2.0/quotas/p', {'quota': {'port': 'N'}}),
    *(('POST', '/image/v2/images', {'name': 'i', name: 'N'}) for name in ('min_disk', 'min_ram')),
    ('POST', '/volume/v3/{project}/volumes', {'volume': {'size': 'N'}}),
    ('PUT', '/volume/v3/{project}/os-quota-sets/p', {'quota_set': {'volumes': 'N'}}),
    ('POST', '/volume/v3/{project}/volumes/x/action', {'os-extend': {'new_size': 'N'}}),
]


@pytest.mark.parametrize('method, path, body', REQUESTS, ids=[
    f'{row[0]} {row[1]} {n}' for n, row in enumerate(REQUESTS)])
def test_large_number_in_a_request_is_no_failure_of_the_service(cloud, method, path, body):
    version = '2.35' if path.startswith(('/os-volumes', '/os-snapshots')) else None         # removed in 2.36
    for number in NUMBERS:
        text = json.dumps(body).replace('"IMAGE"', f'"{cloud.image}"') if body else ''
        for given in (str(number), f'"{number}"') if body else ('',):
            answer = cloud.boss.request(method, path.replace('N', str(number)).format(project=cloud.boss.project_id),
                                        json.loads(text.replace('"N"', given)) if body else None, version=version)
            assert answer.status_code < 500, (number, answer.text[:300])
