"""Subnet pools: with the unmodified clients, at the same time on every database, and as other projects."""
import concurrent.futures
import ipaddress
import os
import random
import socketserver
import threading
from wsgiref import simple_server

import pytest

from nova.network import ranges
from nova.tests import schemas
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_subnet_pools
from nova.tests.support.network_subnet_pools import MISSING
from nova.tests.support.network_subnet_pools import network
from nova.tests.support.network_subnet_pools import ok
from nova.tests.support.network_subnet_pools import pool
from nova.tests.support.network_subnet_pools import subnet

face = network_subnet_pools.face


class Threaded(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    request_queue_size = 64


def test_a_free_piece_is_the_first_that_meets_nothing():
    """Against a search that tries every piece."""
    chosen = random.Random(4)
    for _ in range(300):
        start = chosen.choice(('10.0.0.0/24', '10.0.0.64/26', 'fd00::/56'))
        prefix = ipaddress.ip_network(start)
        bits = min(6, prefix.max_prefixlen - prefix.prefixlen)
        pieces = list(prefix.subnets(new_prefix=prefix.prefixlen + bits))
        taken = chosen.sample(pieces, chosen.randint(0, len(pieces)))
        taken += [piece.supernet(chosen.randint(0, bits)) for piece in taken[:3]]
        length = prefix.prefixlen + chosen.randint(0, bits)
        wanted = next((each for each in prefix.subnets(new_prefix=length)
                       if not any(each.overlaps(other) for other in taken)), None)
        assert ranges.find_free([prefix], taken, length) == wanted
    small, great = ipaddress.ip_network('10.1.0.0/24'), ipaddress.ip_network('10.2.0.0/16')
    assert str(ranges.find_free([great, small], [], 26)) == '10.1.0.0/26'
    assert str(ranges.find_free([great, small], [], 23)) == '10.2.0.0/23'
    assert str(ranges.find_free([great, small], [small, *great.subnets(new_prefix=17)][:2], 26)) == '10.2.128.0/26'
    assert ranges.find_free([great, small], [], 8) is None


def test_openstackclient_manages_subnet_pools(face):
    made = face.cli('subnet', 'pool', 'create', '--pool-prefix', '10.90.0.0/17', '--pool-prefix', '10.90.128.0/17',
                    '--default-prefix-length', '26', '--min-prefix-length', '20', '--max-prefix-length', '28',
                    '--default', '--share', '--description', 'd', '--default-quota', '1024', '--tag', 't', 'pool')
    assert made['prefixes'] == ['10.90.0.0/16'] and made['is_default'] and made['shared'] and made['tags'] == ['t']
    assert (made['default_prefixlen'], made['min_prefixlen'], made['max_prefixlen']) == (26, 20, 28)
    assert [row['Name'] for row in face.cli('subnet', 'pool', 'list', '--default', user='demo')] == ['pool']
    assert face.cli('subnet', 'pool', 'list', '--no-default') == []
    net = network(face)
    first = face.cli('subnet', 'create', 'a', '--network', net, '--subnet-pool', 'pool', user='demo')
    second = face.cli('subnet', 'create', 'b', '--network', net, '--use-default-subnet-pool', '--prefix-length', '25',
                      user='demo')
    third = face.cli('subnet', 'create', 'c', '--network', net, '--subnet-pool', 'pool', '--subnet-range',
                     '10.90.9.0/28', '--gateway', '10.90.9.9', user='demo')
    assert (first['cidr'], second['cidr'], third['cidr']) == ('10.90.0.0/26', '10.90.0.128/25', '10.90.9.0/28')
    assert (first['gateway_ip'], third['gateway_ip']) == ('10.90.0.1', '10.90.9.9')
    assert {each['subnetpool_id'] for each in (first, second, third)} == {made['id']}
    listed = face.cli('subnet', 'list', '--subnet-pool', 'pool', user='demo')
    assert {row['Name'] for row in listed} == {'a', 'b', 'c'}
    code, text = face.cli('subnet', 'pool', 'delete', 'pool', check=False)
    assert code == 1 and 'still has subnets' in text
    face.cli('subnet', 'pool', 'set', '--pool-prefix', '10.91.0.0/16', '--no-default', '--default-prefix-length', '24',
             '--name', 'other', '--tag', 'u', 'pool')
    face.cli('subnet', 'pool', 'unset', '--tag', 't', 'other')
    shown = face.cli('subnet', 'pool', 'show', 'other')
    assert shown['prefixes'] == ['10.90.0.0/15'] and not shown['is_default'] and shown['tags'] == ['u']
    face.cli('subnet', 'delete', 'a', 'b', 'c', user='demo')
    face.cli('subnet', 'pool', 'delete', 'other')
    assert face.cli('subnet', 'pool', 'list') == []


def test_openstacksdk_manages_ipv6_subnet_pools(face):
    sdk = face.sdk('demo')
    made = sdk.network.create_subnet_pool(name='six', prefixes=['fd00:1::/48'], default_quota=2)
    assert (made.ip_version, made.minimum_prefix_length, made.maximum_prefix_length,
            made.default_prefix_length) == (6, 64, 128, 64)
    net = network(face)
    cut = [sdk.network.create_subnet(network_id=net, ip_version=6, subnet_pool_id=made.id, ipv6_ra_mode='slaac',
                                     ipv6_address_mode='slaac').cidr for _ in range(2)]
    assert cut == ['fd00:1::/64', 'fd00:1:0:1::/64']
    assert subnet(face, net, subnetpool_id=made.id, ip_version=6).json()['NeutronError']['type'] == (
        'SubnetPoolQuotaExceeded')
    assert 'it is for IPv6' in subnet(face, net, subnetpool_id=made.id).text
    extensions = {extension.alias for extension in sdk.network.extensions()}
    assert {'subnet_allocation', 'default-subnetpools', 'subnetpool-prefix-ops'} <= extensions
    assert 'address-scope' in extensions


def test_prefixes_are_merged_added_and_removed(face):
    made = pool(face, prefixes=['10.80.0.0/24', '10.80.1.0/24', '10.80.8.0/24'])
    assert made['prefixes'] == ['10.80.0.0/23', '10.80.8.0/24']
    path, net = f"subnetpools/{made['id']}", network(face)
    cut = ok(subnet(face, net, subnetpool_id=made['id'], prefixlen=24))
    assert cut['cidr'] == '10.80.8.0/24'
    assert ok(face('demo', 'PUT', path + '/add_prefixes', {'prefixes': ['10.80.9.0/24']}), 200) == [
        '10.80.0.0/23', '10.80.8.0/23']
    assert ok(face('demo', 'PUT', path + '/remove_prefixes', {'prefixes': ['10.80.0.0/25', '10.80.9.0/24']}), 200) == [
        '10.80.0.128/25', '10.80.1.0/24', '10.80.8.0/24']
    for gone, said in (['10.80.8.128/25'], 'in use'), (['10.99.0.0/24'], 'not in the pool'), (
            [], 'at least one range'), (['fd00::/64'], 'not in the pool'):
        answer = face('demo', 'PUT', path + '/remove_prefixes', {'prefixes': gone})
        assert answer.status_code == 400 and said in answer.text, answer.text
    assert face('demo', 'PUT', path + '/add_prefixes', {'prefixes': ['fd00::/64']}).status_code == 400
    smaller = face('demo', 'PUT', path, {'subnetpool': {'prefixes': ['10.80.8.0/24']}})
    assert smaller.status_code == 400 and 'cannot be removed' in smaller.text
    assert ok(face('demo', 'PUT', path, {'subnetpool': {'prefixes': ['10.80.0.0/16']}}), 200)['prefixes'] == [
        '10.80.0.0/16']
    face('demo', 'DELETE', f"subnets/{cut['id']}")
    assert face('demo', 'DELETE', path).status_code == 204


def test_prefix_lengths_are_updated_to_0_and_to_their_defaults(face):
    path = f"subnetpools/{pool(face, min_prefixlen=20, default_prefixlen=24, max_prefixlen=28)['id']}"

    def lengths(**values):
        shown = ok(face('demo', 'PUT', path, {'subnetpool': values}), 200)
        return [shown[f'{name}_prefixlen'] for name in ('min', 'default', 'max')]
    assert lengths(min_prefixlen=0) == [0, 24, 28]
    assert lengths(default_prefixlen=0) == [0, 0, 28]
    assert lengths(min_prefixlen=None, default_prefixlen=None, max_prefixlen=None) == [8, 8, 32]
    assert lengths(name='other') == [8, 8, 32]
    refused = face('demo', 'PUT', path, {'subnetpool': {'max_prefixlen': 0}})
    assert refused.status_code == 400 and 'not 8, 8, 0' in refused.text


@pytest.mark.parametrize('body', [
    {'prefixes': []}, {'prefixes': ['10.0.0.1/8']}, {'prefixes': ['10.0.0.0/8', 'fd00::/48']},
    {'prefixes': ['224.0.0.0/8']}, {'prefixes': ['0.0.0.0/0']}, {'prefixes': ['127.0.0.0/24']},
    {'prefixes': ['10.0.0.0/8'] * 101}, {'prefixes': 'x'}, {'prefixes': None}, {},
    {'prefixes': ['10.0.0.0/8'], 'min_prefixlen': 25, 'default_prefixlen': 24},
    {'prefixes': ['10.0.0.0/8'], 'max_prefixlen': 33}, {'prefixes': ['10.0.0.0/8'], 'default_prefixlen': -1},
    {'prefixes': ['10.0.0.0/8'], 'default_quota': -1}, {'prefixes': ['10.0.0.0/8'], 'address_scope_id': 7}])
def test_invalid_subnet_pools_return_400(face, body):
    answer = face('demo', 'POST', 'subnetpools', {'subnetpool': {'name': 'p', **body}})
    assert answer.status_code == 400, answer.text


def test_invalid_subnets_of_a_pool_are_refused(face):
    net, made = network(face), pool(face, prefixes=['10.80.0.0/24'], min_prefixlen=24, max_prefixlen=28)
    own = {'subnetpool_id': made['id']}
    for body, code, said in (
            ({}, 400, 'needs a cidr'), ({'prefixlen': 24}, 400, 'needs a cidr'),
            ({'cidr': '10.80.0.0/24', 'prefixlen': 24}, 400, 'needs a cidr'),
            ({**own, 'cidr': '10.80.0.0/24', 'prefixlen': 24}, 400, 'exclude each other'),
            ({**own, 'prefixlen': 23}, 400, 'prefix lengths from 24 to 28'),
            ({**own, 'prefixlen': 29}, 400, 'prefix lengths from 24 to 28'),
            ({**own, 'cidr': '10.81.0.0/24'}, 409, 'is not in the pool'),
            ({**own, 'cidr': 'x'}, 400, 'a network'), ({**own, 'cidr': '10.80.0.1/24'}, 400, 'a network'),
            ({**own, 'use_default_subnetpool': True}, 400, 'exclude each other'),
            ({'use_default_subnetpool': True}, 400, 'no default pool'),
            ({'subnetpool_id': 'prefix_delegation'}, 400, 'delegation is not supported'),
            ({'subnetpool_id': MISSING}, 404, 'could not be found'),
            ({**own, 'gateway_ip': '10.80.0.9'}, 400, 'give a cidr'),
            ({**own, 'allocation_pools': [{'start': '10.80.0.9', 'end': '10.80.0.10'}]}, 400, 'give a cidr')):
        answer = subnet(face, net, **body)
        assert answer.status_code == code and said in answer.text, (body, answer.text)
    ok(subnet(face, net, **own, prefixlen=28))
    assert 'no free range of /24' in subnet(face, net, **own, prefixlen=24).text
    assert 'is not free' in subnet(face, network(face), **own, cidr='10.80.0.0/28').text


def test_a_piece_meets_nothing_else_in_its_network(face):
    """A network's own subnets, and in the hosts' routing table those of all."""
    net, made = network(face), pool(face, prefixes=['10.80.0.0/16'], default_prefixlen=24)
    ok(subnet(face, net, cidr='10.80.0.0/24'))
    assert ok(subnet(face, net, subnetpool_id=made['id']))['cidr'] == '10.80.1.0/24'
    assert ok(subnet(face, network(face), subnetpool_id=made['id']))['cidr'] == '10.80.0.0/24'
    hosts = pool(face, user='admin', prefixes=['10.44.0.0/16'], default_prefixlen=24)    # 10.44.0.0/24 is the default
    flat = ok(face('admin', 'POST', 'networks', {'network': {'provider:network_type': 'flat'}}))['id']
    assert ok(subnet(face, flat, user='admin', subnetpool_id=hosts['id']))['cidr'] == '10.44.1.0/24'


def test_projects_use_what_is_theirs_or_shared(face):
    own, foreign = pool(face), pool(face, 'other', prefixes=['10.81.0.0/16'])
    shared = pool(face, 'admin', shared=True, is_default=True, default_quota=256, prefixes=['10.82.0.0/16'],
                  default_prefixlen=24)
    assert {row['id'] for row in ok(face('demo', 'GET', 'subnetpools'), 200)} == {own['id'], shared['id']}
    path, net = f"subnetpools/{foreign['id']}", network(face)
    for method, at, body in (('GET', path, None), ('DELETE', path, None), ('PUT', path, {'subnetpool': {'name': 'x'}}),
                             ('PUT', path + '/add_prefixes', {'prefixes': ['10.83.0.0/16']}),
                             ('PUT', path + '/remove_prefixes', {'prefixes': ['10.81.0.0/17']}),
                             ('GET', path + '/tags', None)):
        assert face('demo', method, at, body).status_code == 404, (method, at)
    assert subnet(face, net, subnetpool_id=foreign['id']).status_code == 404
    for method, more, body in (('DELETE', '', None), ('PUT', '', {'subnetpool': {'name': 'x'}}),
                               ('PUT', '/add_prefixes', {'prefixes': ['10.83.0.0/16']})):
        assert face('demo', method, f"subnetpools/{shared['id']}{more}", body).status_code == 403
    for name in ('shared', 'is_default'):
        assert face('demo', 'POST', 'subnetpools', {'subnetpool': {
            'name': 'p', 'prefixes': ['10.84.0.0/16'], name: True}}).status_code == 403
    assert face('demo', 'PUT', f"subnetpools/{own['id']}", {'subnetpool': {'is_default': True}}).status_code == 403
    ok(subnet(face, net, use_default_subnetpool=True))
    assert subnet(face, net, use_default_subnetpool=True).json()['NeutronError']['type'] == 'SubnetPoolQuotaExceeded'
    assert ok(subnet(face, network(face, 'other'), 'other', use_default_subnetpool=True))['cidr'] == '10.82.1.0/24'
    second = face('admin', 'POST', 'subnetpools', {'subnetpool': {
        'name': 'p', 'prefixes': ['10.85.0.0/16'], 'is_default': True}})
    assert second.status_code == 400 and 'already has a default pool' in second.text


def test_a_hidden_default_is_none(face):
    """Who does not see the pool is told the same as if there were none."""
    pool(face, 'admin', is_default=True)
    assert 'no default pool' in subnet(face, network(face), use_default_subnetpool=True).text


def test_quota_limits_subnet_pools(face):
    ok(face('admin', 'PUT', 'quotas/p1', {'quota': {'subnetpool': 1}}), 200)
    pool(face)
    answer = face('demo', 'POST', 'subnetpools', {'subnetpool': {'name': 'p', 'prefixes': ['10.0.0.0/8']}})
    assert answer.json()['NeutronError']['type'] == 'OverQuota'
    assert ok(face('admin', 'GET', 'quotas/p1/details'), 200)['subnetpool'] == {'limit': 1, 'used': 1, 'reserved': 0}


@pytest.fixture(params=['sqlite', 'mysql', 'postgresql'])
def loaded(request, tmp_path, used_urls):
    """The face on each database."""
    url = os.environ.get(f'NOVA_TEST_{request.param.upper()}_URL')
    if request.param != 'sqlite' and not url:
        pytest.skip(f'NOVA_TEST_{request.param.upper()}_URL is not set')
    if url:
        used_urls.add(url)
    rig = test_network_api.Face(tmp_path, url=None if request.param == 'sqlite' else url)
    server = simple_server.make_server('127.0.0.1', 0, rig._authenticated, Threaded, test_network_api.Quiet)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    rig.url = f'http://127.0.0.1:{server.server_port}/network'
    yield rig
    server.shutdown()
    server.server_close()
    if request.param != 'sqlite':
        schemas.empty(rig.db, 'api')
    rig.close()


def test_parallel_requests_get_separate_pieces(loaded):
    """Of 24 requests at once for 16 pieces, in networks of three projects' own, 16 get pieces that do not overlap."""
    made = pool(loaded, 'admin', shared=True, prefixes=['10.80.0.0/24'], default_prefixlen=28)
    users = ('demo', 'other', 'admin')
    nets = [(user, network(loaded, user)) for user in users for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda each: subnet(loaded, each[1], each[0], subnetpool_id=made['id']), nets))
    cut = [ipaddress.ip_network(answer.json()['subnet']['cidr']) for answer in answers if answer.status_code == 201]
    assert sorted({answer.status_code for answer in answers}) == [201, 409], [each.text for each in answers]
    assert len(cut) == 16 and len(set(cut)) == 16 and all(each.prefixlen == 28 for each in cut)
    kept = ranges.merged(cut)
    assert kept == [ipaddress.ip_network('10.80.0.0/24')]
