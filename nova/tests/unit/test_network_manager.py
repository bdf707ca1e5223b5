"""The network service's database side: ports, addresses and groups of servers."""
import ipaddress
import threading
import time
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova.cmd.manage import differences
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.networks import trunks
from nova.db.tables import network as t
from nova.network import interface
from nova.network import ipam
from nova.network import manager
from nova.network import setup
from nova.network.host import load as host_load
from nova.objects import network_info
from nova.runtime import batching
from nova.tests.support.network_manager import PROJECT
from nova.tests.support.network_manager import Rig
from nova.tests.support.network_manager import address
from nova.tests.support.network_manager import make_instance


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, network__default_cidr='10.44.0.0/24')
    yield rig
    rig.db.dispose()


def test_manager_has_every_row_of_the_interface(rig):
    for method in interface.INTERFACE.methods.values():
        function = rig.methods[method.name]
        names = function.__code__.co_varnames[:function.__code__.co_argcount]
        assert names == ('self', 'context', *method.arguments)


def test_bootstrap_is_made_once(rig):
    assert setup.bootstrap(rig.conf, rig.db) == rig.network_id
    assert setup.metadata_address(rig.conf, rig.db) == ('10.44.0.1', rig.conf.metadata.port)


def test_network_info_has_the_form_of_the_model(rig):
    vif, = rig.allocate()
    assert vif['address'].startswith('fa:16:3e:') and vif['devname'] == 'tap' + vif['id'][:11]
    assert (
        len(vif['devname']) <= 15 and vif['type'] == 'bridge' and vif['active'] is True and vif['tag'] is None
    )
    subnet, = vif['network']['subnets']
    assert vif['network']['bridge'] == rig.conf.network.bridge and vif['network']['label'] == 'private'
    assert subnet['gateway'] == subnet['dhcp_server'] == '10.44.0.1' and subnet['dns'] == ['10.44.0.1']
    assert subnet['ips'][0]['type'] == 'fixed' and address(vif).startswith('10.44.0.')


def test_allocation_is_idempotent(rig):
    instance = make_instance()
    first = rig.allocate(instance)
    assert rig.allocate(instance) == first
    moved = rig.allocate(instance, host='host2')
    assert moved == first
    with rig.db.reader() as conn:
        assert [row['host'] for row in ports.of_device(conn, instance.uuid)] == ['host2']


def test_a_host_gives_back_what_no_other_one_has(rig):
    """A host that was taken for dead while it built, and undoes that, took the ports from the server elsewhere."""
    instance = make_instance()
    first = rig.allocate(instance)
    rig.allocate(instance, host='host2')
    rig.deallocate(instance, host='host1')
    assert rig.methods.network_info(rig.context, instance_uuid=instance.uuid) == first
    rig.deallocate(instance, host='host2')
    assert rig.methods.network_info(rig.context, instance_uuid=instance.uuid) == []
    rig.allocate(instance)
    rig.manager.unbind_ports(rig.context, instance_uuid=instance.uuid, host='host1')
    rig.deallocate(instance, host='host2')
    assert rig.methods.network_info(rig.context, instance_uuid=instance.uuid) == []


def test_allocation_takes_few_statements_and_one_transaction(rig):
    rig.allocate()
    statements, commits = [], []
    sa.event.listen(rig.db.engine, 'before_cursor_execute', lambda *args: statements.append(args[2]))
    sa.event.listen(rig.db.engine, 'commit', commits.append)
    rig.allocate()
    assert len(statements) <= 8, statements
    assert len(commits) == 1


def test_fifty_threads_never_share_an_address(rig):
    found, errors = [], []

    def one():
        try:
            found.append(address(rig.allocate()[0]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(50)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors and len(set(found)) == 50


def test_fifty_threads_for_one_server_make_one_port(rig):
    instance, found = make_instance(), []
    threads = [
        threading.Thread(target=lambda: found.append(rig.allocate(instance)[0]['id'])) for _ in range(50)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 50 and len(set(found)) == 1


def test_none_and_empty_requests_allocate_nothing(rig):
    assert rig.allocate(requested='none') == [] and rig.allocate(requested=[]) == []


def test_auto_is_the_default_network(rig):
    rig.add_network(shared=True)
    assert rig.allocate(requested='auto')[0]['network']['id'] == rig.network_id


def test_several_networks_and_no_default_are_ambiguous(rig):
    with rig.db.writer() as conn:
        networks.update(conn, t.networks, rig.network_id, {'is_default': False})
    rig.add_network()
    with pytest.raises(exception.NetworkAmbiguous):
        rig.allocate()


def test_interfaces_have_the_order_of_the_request(rig):
    other = rig.add_network()
    vifs = rig.allocate(requested=[{'network_id': other, 'tag': 'a'}, {'network_id': rig.network_id}])
    assert [vif['network']['id'] for vif in vifs] == [other, rig.network_id]
    assert [vif['tag'] for vif in vifs] == ['a', None]


def test_another_projects_network_is_not_found(rig):
    other = rig.add_network(project='p2')
    for ident in (other, str(uuid.uuid4())):
        with pytest.raises(exception.NetworkNotFound):
            rig.allocate(requested=[{'network_id': ident}])


def test_requested_fixed_ip_is_allocated_once(rig):
    request = [{'network_id': rig.network_id, 'fixed_ip': '10.44.0.77'}]
    assert address(rig.allocate(requested=request)[0]) == '10.44.0.77'
    with pytest.raises(exception.FixedIpInUse):
        rig.allocate(requested=request)
    with pytest.raises(exception.FixedIpInUse):
        rig.allocate(requested=[{'network_id': rig.network_id, 'fixed_ip': '10.44.0.1'}])
    for bad in ('10.45.0.1', '10.44.0.0', '10.44.0.255', 'x', '::1'):
        with pytest.raises(exception.NetworkRequestInvalid):
            rig.allocate(requested=[{'network_id': rig.network_id, 'fixed_ip': bad}])


def test_check_free_returns_whether_the_address_was_released(rig):
    request, instance = [{'network_id': rig.network_id, 'fixed_ip': '10.44.0.77'}], make_instance()

    def released():
        with rig.db.reader() as conn:
            subnet, = networks.many(conn, t.subnets, [rig.network_id], 'network_id')
            assert ipam.check_free(conn, [subnet], '10.44.0.77')[0] == subnet
            return ipam.check_free(conn, [subnet], '10.44.0.77')[1]
    assert released() is False
    rig.allocate(instance, request)
    rig.deallocate(instance)
    assert released() is True
    assert address(rig.allocate(requested=request)[0]) == '10.44.0.77'


def test_failed_request_leaves_nothing(rig):
    with pytest.raises(exception.NetworkNotFound):
        rig.allocate(requested=[{'network_id': rig.network_id}, {'network_id': 'nowhere'}])
    with rig.db.reader() as conn:
        assert (
            conn.execute(sa.select(t.ports)).all() == [] and conn.execute(sa.select(t.addresses)).all() == []
        )


def test_users_port_outlives_the_server(rig):
    port, instance = rig.add_port(rig.network_id), make_instance()
    vif, = rig.allocate(instance, requested=[{'port_id': port}])
    assert vif['id'] == port
    with pytest.raises(exception.PortInUse):
        rig.allocate(requested=[{'port_id': port}])
    rig.deallocate(instance)
    with rig.db.reader() as conn:
        row = networks.get(conn, t.ports, port)
    assert row['device_id'] == '' and row['host'] == '' and row['status'] == 'DOWN'


def test_port_requested_twice_is_refused(rig):
    port = rig.add_port(rig.network_id)
    with pytest.raises(exception.PortInUse):
        rig.allocate(requested=[{'port_id': port}, {'port_id': port}])


def test_another_projects_port_is_not_found(rig):
    port = rig.add_port(rig.network_id, project='p2')
    with pytest.raises(exception.PortNotFound):
        rig.allocate(requested=[{'port_id': port}])


def test_released_address_rests_and_the_oldest_is_taken_when_all_rest(rig):
    small = [{'network_id': rig.add_network()}]
    instances = [make_instance() for _ in range(5)]
    given = [address(rig.allocate(instance, small)[0]) for instance in instances]
    assert len(set(given)) == 5
    with pytest.raises(exception.NoMoreFixedIps):
        rig.allocate(requested=small)
    for instance in instances[:3]:
        rig.deallocate(instance)
        rig.deallocate(instance)
    assert address(rig.allocate(requested=small)[0]) == given[0]
    assert address(rig.allocate(requested=small)[0]) == given[1]


def test_a_fresh_address_is_preferred_to_a_resting_one(rig):
    small = [{'network_id': rig.add_network()}]
    instance, seen = make_instance(), set()
    for _ in range(5):
        seen.add(address(rig.allocate(instance, small)[0]))
        rig.deallocate(instance)
    assert len(seen) == 5


def test_security_groups_are_found_by_id_or_unique_name(rig):
    with rig.db.writer() as conn:
        networks.insert(
            conn,
            t.security_groups,
            [
                {'id': ident, 'project_id': project, 'name': name, 'description': ''}
                for ident, project, name in (
                    ('g1', PROJECT, 'web'),
                    ('g2', PROJECT, 'twice'),
                    ('g3', PROJECT, 'twice'),
                    ('g4', 'p2', 'theirs'),
                )
            ],
        )
    vif, = rig.allocate(groups=['web', 'default'])
    with rig.db.reader() as conn:
        groups = security_groups.of_ports(conn, [vif['id']])[vif['id']]
        assert 'g1' in groups and len(groups) == 2
        rules = networks.many(
            conn, t.security_group_rules, [g for g in groups if g != 'g1'], 'security_group_id'
        )
    assert sorted((r['direction'], r['ethertype'], r['remote_group_id'] is not None) for r in rules) == [
        ('egress', 'IPv4', False),
        ('egress', 'IPv6', False),
        ('ingress', 'IPv4', True),
        ('ingress', 'IPv6', True),
    ]
    for name, error in (('theirs', exception.SecurityGroupNotFound), ('g4', exception.SecurityGroupNotFound),
                        ('twice', exception.SecurityGroupAmbiguous)):
        with pytest.raises(error):
            rig.allocate(groups=[name])


def test_setup_gives_what_allocate_gave(rig):
    instance = make_instance()
    vifs = rig.allocate(instance)
    assert rig.manager.setup_for_instance(rig.context, instance=instance, host='host1') == vifs
    assert rig.manager.setup_for_instance(rig.context, instance=make_instance(), host='host1') == []


def test_late_allocations_of_deleted_servers_are_released(rig, monkeypatch):
    """Ports for a server that was gone by then stayed until the next search among all, up to twelve minutes."""
    live, gone, older = make_instance(), make_instance(), make_instance()
    rig.allocate(older)
    monkeypatch.setattr(manager, 'AUDIT_AGE_S', -1)
    assert rig.manager.recent_allocations() == {older.uuid} and rig.manager.recent_allocations() == set()
    monkeypatch.undo()
    rig.allocate(live), rig.allocate(gone)
    assert rig.manager.recent_allocations() == set()                  # too young
    monkeypatch.setattr(manager, 'AUDIT_AGE_S', -1)
    given = rig.manager.recent_allocations()
    assert given == {live.uuid, gone.uuid}
    assert rig.manager.audit({live.uuid}, given) == [gone.uuid]
    assert rig.manager.audit({live.uuid}, given) == []


def test_audit_gives_back_ports_of_servers_that_are_gone(rig, monkeypatch):
    live, gone = make_instance(), make_instance()
    rig.allocate(live), rig.allocate(gone)
    assert rig.manager.audit([live.uuid]) == []                 # too young
    monkeypatch.setattr(manager, 'AUDIT_AGE_S', -1)
    assert rig.manager.audit([live.uuid]) == [gone.uuid]
    assert rig.allocate(live) and rig.manager.audit([live.uuid]) == []


@pytest.mark.parametrize('secured', [True, False])
def test_port_of_a_record_has_the_security_of_its_network_and_the_name_of_its_server(rig, secured):
    network = rig.add_network()
    with rig.db.writer() as conn:
        networks.update(conn, t.networks, network, {'network_type': 'vxlan', 'port_security_enabled': secured})
    instance = make_instance()
    instance.hostname = 'Web'
    vifs = rig.allocate(instance, [{'network_id': network, 'port_id': None, 'fixed_ip': None, 'tag': None}])

    def port():
        with rig.db.reader() as conn:
            row, = ports.of_device(conn, instance.uuid)
            return {name: row[name] for name in ('port_security_enabled', 'dns_name', 'mac_address')}, len(
                security_groups.of_ports(conn, [row['id']]).get(row['id'], ()))
    before = port()
    rig.deallocate(instance)
    report = {'instance_uuid': instance.uuid, 'kind': 'unknown', 'host': 'host1', 'server': {
        'project_id': PROJECT, 'network_info': vifs, 'hostname': 'Web'}}
    assert differences._enter_ports(rig.db, differences.Difference(None, report, None)) == ''
    assert port() == before == ({**before[0], 'port_security_enabled': secured, 'dns_name': 'web'}, int(secured))


def test_combined_runs_cover_callers_that_wait():
    entered, go, runs = threading.Event(), threading.Event(), []

    def work():
        runs.append(1)
        entered.set()
        go.wait(20)

    combined = batching.CoalescedRun(work)
    first = threading.Thread(target=combined)
    first.start()
    entered.wait(20)
    rest = [threading.Thread(target=combined) for _ in range(10)]
    [thread.start() for thread in rest]
    while combined.waiting < 10:
        time.sleep(0.001)
    go.set()
    [thread.join() for thread in [first, *rest]]
    assert len(runs) == 2


# ---- one port of a server that is there ----------------------------------------------

def attach(rig, instance, attached_by='r1', **asked):
    request = {'port_id': str(uuid.uuid4()), 'network_id': None, 'fixed_ip': None, 'tag': None, **asked}
    return rig.methods.attach_port(rig.context, instance=instance, request=request, attached_by=attached_by,
                                   host='host1')


def detach(rig, instance, port_id, attached_by=None):
    rig.methods.detach_port(rig.context, instance_uuid=instance.uuid, port_id=port_id, attached_by=attached_by,
                            host='host1')


def ports_of(rig, instance):
    with rig.db.reader() as conn:
        return [port['id'] for port in ports.of_device(conn, instance.uuid)]


def test_repeated_attachment_attaches_one_port(rig):
    instance, asked = make_instance(), {'port_id': str(uuid.uuid4()), 'network_id': rig.network_id}
    first, = rig.allocate(instance)
    vif = attach(rig, instance, **asked)
    assert vif['id'] == asked['port_id'] and attach(rig, instance, **asked) == vif
    assert ports_of(rig, instance) == [first['id'], vif['id']]
    with rig.db.reader() as conn:
        assert security_groups.of_ports(conn, [vif['id']]) == {
            vif['id']: security_groups.of_ports(conn, [first['id']])[first['id']]}
    mine = {'port_id': rig.add_port(rig.network_id)}
    assert attach(rig, instance, 'r2', **mine)['id'] == mine['port_id']
    assert attach(rig, instance, 'r2', **mine)['id'] == mine['port_id']
    with pytest.raises(exception.PortInUse):
        attach(rig, instance, 'r3', **mine)


def test_attachment_is_undone_by_its_request_only(rig):
    instance, own = make_instance(), rig.add_port(rig.network_id)
    attach(rig, instance, 'r1', port_id=own)
    made = attach(rig, instance, 'r2', network_id=rig.network_id)['id']
    found = rig.methods.find_port(rig.context, instance_uuid=instance.uuid, port_id=own, attached_by='r1')
    assert found['id'] == own
    for other in ({'attached_by': 'r2'}, {'attached_by': None, 'instance_uuid': 'another'}):
        assert rig.methods.find_port(rig.context, **{'instance_uuid': instance.uuid, 'port_id': own, **other}) is None
    detach(rig, instance, own, 'r2')
    detach(rig, make_instance(), own)
    assert ports_of(rig, instance) == [own, made]
    detach(rig, instance, own, 'r1')
    detach(rig, instance, made)
    detach(rig, instance, made)
    assert ports_of(rig, instance) == []
    with rig.db.reader() as conn:
        assert set(ports.of_ids(conn, [own, made])) == {own}
    assert attach(rig, make_instance(), 'r3', port_id=own)['id'] == own


def test_attach_refuses_unusable_networks_ports_and_addresses(rig):
    instance = make_instance()
    taken = address(rig.allocate()[0])
    for asked, error in (
            ({'network_id': str(uuid.uuid4())}, exception.NetworkNotFound),
            ({'network_id': rig.add_network(project='p2')}, exception.NetworkNotFound),
            ({}, exception.PortNotFound),
            ({'port_id': rig.add_port(rig.network_id, project='p2')}, exception.PortNotFound),
            ({'network_id': rig.network_id, 'fixed_ip': taken}, exception.FixedIpInUse),
            ({'network_id': rig.network_id, 'fixed_ip': '10.9.9.9'}, exception.NetworkRequestInvalid)):
        with pytest.raises(error):
            attach(rig, instance, **asked)
    assert ports_of(rig, instance) == []


def test_parallel_attachments_respect_addresses_and_quota(rig):
    """More requests than a small network has addresses, and than the quota has ports: none is exceeded."""
    rig.conf.network.quota['port'] = 4
    network, instance, results = rig.add_network(), make_instance(), []

    def one(number):
        try:
            results.append(address(attach(rig, instance, f'r{number}', network_id=network)))
        except (exception.QuotaExceeded, exception.NoMoreFixedIps) as error:
            results.append(type(error))
    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    given = [result for result in results if isinstance(result, str)]
    assert len(given) == len(set(given)) == 4 and results.count(exception.QuotaExceeded) == 4
    rig.conf.network.quota['port'] = -1
    results.clear()
    threads = [threading.Thread(target=one, args=(number,)) for number in range(10, 16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(results) == 6 and results.count(exception.NoMoreFixedIps) == 5


def test_fixed_address_can_be_added_and_removed_repeatedly(rig):
    instance = make_instance()
    first = address(rig.allocate(instance)[0])
    for _ in range(2):                               # its answer was lost
        rig.methods.add_address(rig.context, instance_uuid=instance.uuid, network_id=rig.network_id,
                                known_addresses=[first], host='host1')
    vif, = rig.manager.setup_for_instance(rig.context, instance=instance, host='host1')
    assert len(network_info.fixed_ips(vif)) == 2
    for _ in range(2):
        rig.methods.remove_address(rig.context, instance_uuid=instance.uuid, address=first, host='host1')
    vif, = rig.manager.setup_for_instance(rig.context, instance=instance, host='host1')
    assert len(network_info.fixed_ips(vif)) == 1 and address(vif) != first
    with pytest.raises(exception.NetworkNotFound):
        rig.methods.add_address(rig.context, instance_uuid=instance.uuid, network_id=rig.add_network(),
                                known_addresses=[], host='host1')


def test_a_server_about_to_arrive_is_plumbed_at_both_ends(rig):
    """Filters and leases stand at the destination before the guest does, and at the source until it has left."""
    instance = make_instance()
    vifs = rig.allocate(instance)
    expected = [vif['id'] for vif in vifs]
    assert rig.methods.prepare_for_instance(rig.context, instance=instance, host='host2') == vifs
    assert _ports(rig, 'host1') == _ports(rig, 'host2') == expected
    rig.methods.unprepare_for_instance(rig.context, instance_uuid=instance.uuid, host='host3')
    assert _ports(rig, 'host2') == expected
    rig.methods.unprepare_for_instance(rig.context, instance_uuid=instance.uuid, host='host2')
    assert (_ports(rig, 'host1'), _ports(rig, 'host2')) == (expected, [])
    rig.methods.prepare_for_instance(rig.context, instance=instance, host='host2')
    assert rig.manager.setup_for_instance(rig.context, instance=instance, host='host2') == vifs
    assert (_ports(rig, 'host1'), _ports(rig, 'host2')) == ([], expected)
    assert rig.methods.prepare_for_instance(rig.context, instance=instance, host='host2') == vifs      # it is there
    assert rig.methods.network_info(rig.context, instance_uuid=instance.uuid) == vifs
    rig.deallocate(instance)
    assert _ports(rig, 'host2') == []


def _ports(rig, host):
    """Ids of the ports that a host has plumbed."""
    with rig.db.reader() as conn:
        return [port.id for port in host_load.load(conn, host, network_info.devname).ports]


def test_the_retry_of_a_failed_check_checks_the_whole_host(rig):
    class Driver:
        def __init__(self):
            self.seen, self.error = [], exception.NetworkPlumbingError(reason='no room')

        def refresh(self, load):
            self.seen.append('refresh')
            if self.error:
                raise self.error
            load()
            return []

        def follow(self, load):
            self.seen.append('follow')
            load()
            return []
    rig.manager.driver = driver = Driver()
    with pytest.raises(exception.NetworkPlumbingError):
        rig.manager.sync()
    driver.error = None
    rig.manager.report()
    rig.allocate()
    assert driver.seen == ['refresh', 'refresh', 'follow']


def test_unbound_ports_are_reported_to_other_hosts(rig):
    told = []

    class Services:
        def refresh_ports(self, ctx, port_ids):
            told.append(port_ids)
    instance = make_instance()
    rig.allocate(instance, host='host2')
    rig.manager._others, rig.manager.gateways.others = Services(), True
    rig.manager.unbind_ports(rig.context, instance_uuid=instance.uuid, host='host2')
    assert told == [[]]


def test_subports_of_a_trunk_follow_their_parent(rig):
    """Through binding, migration, shelving and release; a subport's address belongs to the parent's server."""
    parent, subport = rig.add_port(rig.network_id), rig.add_port(rig.network_id)
    with rig.db.writer() as conn:
        subnet, = networks.many(conn, t.subnets, [rig.network_id], 'network_id')
        networks.insert_addresses(conn, [{'subnet_id': subnet['id'], 'number': int(ipaddress.ip_address('10.44.0.77')),
                                          'address': '10.44.0.77', 'port_id': subport, 'released_at': None}])
        networks.insert(conn, t.trunks, [{'id': 't', 'project_id': PROJECT, 'name': '', 'port_id': parent,
                                          'admin_state_up': True, 'description': ''}])
        trunks.add(conn, 't', parent, [{'port_id': subport, 'trunk_id': 't', 'segmentation_type': 'vlan',
                                        'segmentation_id': 5}])

    def place():
        with rig.db.reader() as conn:
            row = ports.of_ids(conn, [subport])[subport]
            return row['host'], row['migrating_to'], row['status'], ports.device_at(conn, '10.44.0.77') or None
    instance = make_instance()
    assert place() == ('', '', 'DOWN', None)
    vif, = rig.allocate(instance, [{'network_id': None, 'port_id': parent, 'fixed_ip': None, 'tag': None}])
    assert vif['network']['bridge'] == network_info.trunk_bridge(parent)
    assert [(each['id'], each['vlan'], address(each)) for each in vif['subports']] == [(subport, 5, '10.44.0.77')]
    assert place() == ('host1', '', 'ACTIVE', instance.uuid)
    rig.manager.prepare_for_instance(rig.context, instance=instance, host='host2')
    assert place() == ('host1', 'host2', 'ACTIVE', instance.uuid)
    rig.manager.unprepare_for_instance(rig.context, instance_uuid=instance.uuid, host='host2')
    assert place() == ('host1', '', 'ACTIVE', instance.uuid)
    rig.manager.setup_for_instance(rig.context, instance=instance, host='host2')
    assert place() == ('host2', '', 'ACTIVE', instance.uuid)
    rig.manager.unbind_ports(rig.context, instance_uuid=instance.uuid, host='host2')
    assert place() == ('', '', 'ACTIVE', instance.uuid)
    rig.deallocate(instance)
    assert place() == ('', '', 'DOWN', None)
    with rig.db.writer() as conn:
        trunks.end(conn, [parent])
        assert trunks.of_ports(conn, [parent]) == trunks.of_subports(conn, [subport]) == {}
        assert ports.of_ids(conn, [subport])[subport]['device_owner'] == ''
