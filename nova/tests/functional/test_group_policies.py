"""Placing members of groups with the policies network-proximity and host-capabilities, and with several at once."""
import collections

import pytest
import sqlalchemy as sa

from nova import states
from nova.db.placement import server_groups
from nova.db.tables import cell as tables_cell
from nova.scheduler import manager as scheduler_manager
from nova.tests import core
from nova.tests import races
from nova.tests.functional import cloud as whole
from nova.tests.support import core_evacuation as test_core_evacuation
from nova.tests.support import core_live_migration as test_core_live_migration
from nova.tests.support import core_shelve as test_core_shelve
from nova.tests.support import server_groups as test_server_groups
from nova.tests.support.server_groups import UNLIMITED
from nova.tests.support.server_groups import build
from nova.tests.support.server_groups import hosts_of
from nova.tests.support.server_groups import insert
from nova.tests.support.server_groups import members

hosts = test_server_groups.hosts             # a fixture: four hosts with room for 8 servers each
RACKS = {'host1': ['east'], 'host2': ['east'], 'host3': ['west'], 'host4': ['west']}


def group_of(cloud, *policies, metadata=None, **rules):
    with cloud.api_db.writer() as conn:
        return server_groups.create(conn, UNLIMITED, {
            'project_id': 'p', 'user_id': 'u', 'name': 'g', 'policies': policies, 'rules': rules,
            'metadata': metadata or {}})['uuid']


def aggregated(cloud, localities):
    """Let hosts be in aggregates of these network localities, as the API writes it."""
    services, nodes = tables_cell.services, tables_cell.compute_nodes
    with cloud.db.writer() as conn:
        for host, names in localities.items():
            conn.execute(sa.update(services).where(services.c.host == host, services.c.topic == 'compute').values(
                aggregates=[{'id': number, 'uuid': str(number), 'name': name, 'metadata': {'network_locality': name}}
                            for number, name in enumerate(names)]))
        conn.execute(sa.update(nodes).values(change_number=nodes.c.change_number + 1))


def reported(cloud, capabilities):
    """Let hosts report more capabilities: {host: {name: value}}."""
    nodes = tables_cell.compute_nodes
    with cloud.db.writer() as conn:
        for host, more in capabilities.items():
            own = conn.execute(sa.select(nodes.c.capabilities).where(nodes.c.host == host)).scalar()
            conn.execute(sa.update(nodes).where(nodes.c.host == host).values(
                capabilities={**own, **more}, change_number=nodes.c.change_number + 1))


def fault(cloud, group):
    """What the user reads of a member that finds no host."""
    uuid, = insert(cloud, group)
    cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=[uuid])
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR
    return cloud.row(uuid)['fault']['message']


# ---- network-proximity -----------------------------------------------------------

def test_network_proximity_places_members_in_one_locality(hosts):
    aggregated(hosts, RACKS)
    group = group_of(hosts, 'network-proximity')
    first, = build(hosts, group)
    near = {host for host in RACKS if RACKS[host] == RACKS[first]}
    found = build(hosts, group, 3) + build(hosts, group)
    assert set(found) == near                           # and the free memory spreads them there
    assert set(build(hosts, group, 11)) == near         # 16 servers fill the rack
    assert fault(hosts, group) == (
        'No valid host was found. 4 hosts: 2 are not in the network locality of the other servers of the group with '
        'the policy network-proximity, 2 have too little free memory (largest free 0 MB, asked 512 MB).')
    hosts.check()


def test_a_host_without_a_locality_is_in_none(hosts):
    group = group_of(hosts, 'network-proximity')
    assert fault(hosts, group) == (
        'No valid host was found. 4 hosts: 4 are in no network locality, which a group with the policy '
        'network-proximity needs.')
    aggregated(hosts, {'host2': ['east']})
    reported(hosts, {'host4': {'network_locality': 'east'}})         # the one as good as the other
    assert set(build(hosts, group, 16)) == {'host2', 'host4'}
    assert build(hosts, group) == [None]


def test_a_host_may_be_in_several(hosts):
    """What members share gets less with each host, and is never nothing."""
    aggregated(hosts, {'host1': ['a', 'b'], 'host2': ['b', 'c'], 'host3': ['c'], 'host4': ['d']})
    group = group_of(hosts, 'network-proximity', 'anti-affinity')
    placed = [build(hosts, group, force_host=host) for host in ('host1', 'host2')]
    assert placed == [['host1'], ['host2']]
    assert build(hosts, group) == [None]                # host3 shares c with host2 alone
    other = group_of(hosts, 'network-proximity')
    assert build(hosts, other, force_host='host3') == ['host3']
    assert set(build(hosts, other, 6)) == {'host2', 'host3'}


def test_network_proximity_refuses_hosts_if_members_are_in_two_localities(hosts):
    aggregated(hosts, RACKS)
    group = group_of(hosts, 'network-proximity')
    for host in ('host1', 'host3'):                     # an administrator may
        assert build(hosts, group, force_host=host) == [host]
    assert fault(hosts, group).endswith(
        '4 hosts: 4 are not in one network locality with all the other servers of the group with the policy '
        'network-proximity.')


def test_a_request_for_many_looks_for_a_locality_with_room_for_all(hosts):
    """The best host for the first of them is in a locality that has no room for the others."""
    aggregated(hosts, {'host1': ['east'], 'host3': ['west'], 'host4': ['west']})
    nodes = tables_cell.compute_nodes
    with hosts.db.writer() as conn:
        conn.execute(sa.update(nodes).where(nodes.c.host.in_(['host3', 'host4'])).values(
            reserved_memory_mb=1024, change_number=nodes.c.change_number + 1))
    assert collections.Counter(build(hosts, group_of(hosts, 'network-proximity'), 12)) == {'host3': 6, 'host4': 6}


def placed_at_once(cloud, group, count):
    """Counter of the hosts that so many schedulers find, each with a table of its own; None: no host."""
    found = races.place(cloud, insert(cloud, group, count))
    assert hosts_of(cloud, group) == {host: number for host, number in found.items() if host}
    return found


def test_many_schedulers_place_all_in_one_locality(hosts):
    """All look before the first one claims, and every host is as good as the other."""
    aggregated(hosts, RACKS)
    found = placed_at_once(hosts, group_of(hosts, 'network-proximity'), 12)
    assert len({RACKS[host][0] for host in found}) == 1 and found.total() == 12


def test_many_schedulers_keep_several_policies(hosts):
    aggregated(hosts, RACKS)
    found = placed_at_once(hosts, group_of(hosts, 'network-proximity', 'anti-affinity'), 8)
    assert found.pop(None) == 6
    assert set(found.values()) == {1} and len({RACKS[host][0] for host in found}) == 1


def test_group_policy_is_checked_against_current_aggregates_at_the_claim(hosts):
    """The claim reads them again: a table that is behind breaks no policy."""
    aggregated(hosts, RACKS)
    group = group_of(hosts, 'network-proximity')
    assert build(hosts, group, force_host='host1') == ['host1']
    uuid, = insert(hosts, group)
    spec = hosts.conductor.methods.get_request_spec(None, uuid)
    scheduler = scheduler_manager.SchedulerManager(hosts.conf, hosts.api_db, hosts.cells)
    scheduler.start()
    services = tables_cell.services
    with hosts.db.writer() as conn:                     # nobody told the table
        conn.execute(sa.update(services).where(services.c.host == 'host2').values(aggregates=[]))
    selections, = scheduler.methods.select_destinations(hosts.ctx, spec, [uuid])
    assert selections[0].host == 'host1'


def test_policies_are_kept_by_every_move(hosts):
    aggregated(hosts, RACKS)
    group = group_of(hosts, 'network-proximity', 'anti-affinity')
    assert sorted([*build(hosts, group, force_host='host1'), *build(hosts, group, force_host='host2')]) == [
        'host1', 'host2']
    one, two = sorted(members(hosts, group), key=members(hosts, group).get)
    hosts.move(one)                                     # the other one has the only host that is near
    hosts.settle()
    assert hosts.state(one)[:2] == (states.ACTIVE, None) and members(hosts, group)[one] == 'host1'
    aggregated(hosts, {**RACKS, 'host3': ['east']})
    for what in (lambda: hosts.move(one), lambda: hosts.move(one, core.FLAVOR)):
        what()
        hosts.settle()
        hosts.end(one, 'confirmResize')
        hosts.settle()
        assert set(members(hosts, group).values()) < {'host1', 'host2', 'host3'}
        assert members(hosts, group)[one] != members(hosts, group)[two]
    test_core_live_migration.migrate(hosts, one)
    hosts.settle()
    assert members(hosts, group)[one] in {'host1', 'host3'}
    test_core_shelve.shelve(hosts, one)
    test_core_shelve.unshelve(hosts, one)
    hosts.settle()
    assert hosts.state(one)[0] == states.ACTIVE and members(hosts, group)[one] in {'host1', 'host3'}
    hosts.check()


def test_evacuation_keeps_policies(hosts):
    aggregated(hosts, RACKS)
    group = group_of(hosts, 'network-proximity')
    assert build(hosts, group, 2, force_host='host3') == ['host3'] * 2
    one, two = members(hosts, group)
    test_core_evacuation.die(hosts, 'host3')
    for uuid in (one, two):
        test_core_evacuation.evacuate(hosts, uuid)
    hosts.settle()
    assert set(members(hosts, group).values()) == {'host4'}


# ---- host-capabilities -----------------------------------------------------------

def test_host_capabilities_place_members_on_matching_hosts(hosts):
    reported(hosts, {'host1': {'ssd': True, 'nic': {'speed': '10000'}}, 'host2': {'ssd': True},
                     'host3': {'nic': {'speed': '25000'}}})
    group = group_of(hosts, 'host-capabilities', metadata={
        'capabilities:ssd': 'true', 'capabilities:nic:speed': '>= 10000', 'note': 'of ours alone'})
    assert build(hosts, group, 8) == ['host1'] * 8
    reported(hosts, {'host1': {'ssd': False}})
    assert fault(hosts, group) == (
        'No valid host was found. 4 hosts: 4 do not satisfy the metadata (capabilities:nic:speed, capabilities:ssd) of '
        'the group with the policy host-capabilities.')


@pytest.mark.parametrize(('metadata', 'placed'), [
    ({}, 4), ({'note': 'x'}, 4), ({'capabilities:hypervisor_type': 'fake'}, 4),
    ({'capabilities:hypervisor_type': '<or> qemu <or> fake'}, 4), ({'capabilities:hypervisor_type': 'qemu'}, 0),
    ({'capabilities:hypervisor_type': 's!= fake'}, 0), ({'capabilities:host': '<in> host'}, 4),
    ({'capabilities:host': 's> host2'}, 2), ({'capabilities:nothing': '1'}, 0), ({'capabilities:': 'x'}, 0)])
def test_host_capabilities_operators_select_hosts(hosts, metadata, placed):
    group = group_of(hosts, 'host-capabilities', 'anti-affinity', metadata=metadata)
    found = [host for _ in range(4) for host in build(hosts, group) if host]
    assert len(found) == len(set(found)) == placed


def test_it_is_for_groups_with_the_policy(hosts):
    group = group_of(hosts, 'anti-affinity', metadata={'capabilities:nothing': '1'})
    assert build(hosts, group) != [None]


def test_moves_keep_to_hosts_of_the_kind(hosts):
    reported(hosts, {'host1': {'ssd': True}, 'host4': {'ssd': True}})
    group = group_of(hosts, 'host-capabilities', metadata={'capabilities:ssd': 'true'})
    assert build(hosts, group, force_host='host1') == ['host1']
    uuid, = members(hosts, group)
    hosts.move(uuid)
    hosts.settle()
    hosts.end(uuid, 'confirmResize')
    hosts.settle()
    assert members(hosts, group) == {uuid: 'host4'}


# ---- others ----------------------------------------------------------------------

def test_a_group_without_policies_asks_for_nothing(hosts):
    group = group_of(hosts)
    assert None not in build(hosts, group, 4) and len(members(hosts, group)) == 4


def test_together_and_near_and_apart_as_far_as_the_policies_go(hosts):
    aggregated(hosts, RACKS)
    reported(hosts, {'host3': {'ssd': True}, 'host4': {'ssd': True}})
    group = group_of(hosts, 'affinity', 'network-proximity', 'host-capabilities', metadata={'capabilities:ssd': 'true'})
    found = build(hosts, group, 3) + build(hosts, group)
    assert len(set(found)) == 1 and found[0] in {'host3', 'host4'}
    spread = group_of(hosts, 'soft-anti-affinity', 'network-proximity')
    first, = build(hosts, spread)
    second, = build(hosts, spread)
    assert first != second and RACKS[first] == RACKS[second]
    packed = group_of(hosts, 'soft-affinity', 'anti-affinity', max_server_per_host=2)
    assert sorted(collections.Counter(build(hosts, packed, 4)).values()) == [2, 2]


def test_a_group_of_another_project_is_none_of_theirs(hosts):
    """An id may be made up anew, by anybody; who stood in the group before has nothing to do with it."""
    with hosts.api_db.writer() as conn:
        group = server_groups.create(conn, UNLIMITED, {
            'project_id': 'q', 'user_id': 'u', 'name': 'g', 'policies': ['network-proximity']})['uuid']
    assert build(hosts, group) != [None]


def test_network_proximity_works_over_http(tmp_path):
    """Over HTTP: racks are aggregates, and the group is made at the first version."""
    with whole.running(tmp_path, ['host1', 'host2', 'host3', 'host4']) as cloud:
        client, admin = cloud.client(version='2.71'), cloud.admin()
        image_id = admin.upload_image(visibility='public')
        for number, (rack, names) in enumerate((('east', ('host1', 'host2')), ('west', ('host3', 'host4'))), 1):
            admin.post('/os-aggregates', {'aggregate': {'name': rack}})
            admin.post(f'/os-aggregates/{number}/action', {'set_metadata': {'metadata': {'network_locality': rack}}})
            for host in names:
                assert admin.post(f'/os-aggregates/{number}/action', {'add_host': {'host': host}}).status_code == 200
        group = client.post('/os-server-groups', {'server_group': {'name': 'rack', 'policies': ['network-proximity']}},
                            version='2.1').json()['server_group']['id']

        def boot(count, hint, status='ACTIVE'):
            made = [client.post('/servers', {
                'server': {'name': 's', 'imageRef': image_id, 'flavorRef': '42', 'networks': 'none'},
                'os:scheduler_hints': {'group': hint}}).json()['server']['id'] for _ in range(count)]
            return [client.wait_for(uuid, status) for uuid in made]
        made = boot(3, 'rack')
        where = {admin.get(f'/servers/{server["id"]}').json()['server']['OS-EXT-SRV-ATTR:host'] for server in made}
        assert where in ({'host1', 'host2'}, {'host3', 'host4'})
        assert client.get(f'/os-server-groups/{group}').json()['server_group']['policy'] == 'network-proximity'
        kind = client.post('/os-server-groups', {
            'server_group': {'name': 'kind', 'policy': 'host-capabilities'}}).json()['server_group']['id']
        assert client.put(f'/os-server-groups/{kind}/metadata', {
            'metadata': {'capabilities:hypervisor_type': 'something else'}}).status_code == 200
        server, = boot(1, 'kind', 'ERROR')
        assert 'the metadata (capabilities:hypervisor_type) of the group' in server['fault']['message']
