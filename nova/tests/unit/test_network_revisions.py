"""The revision of what hosts are plumbed by: every change counts, nothing else does, and no commit is overlooked."""
import ast
import pathlib
import threading

import pytest
import sqlalchemy as sa

import nova
from nova import utils
from nova.db.networks import hosts
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import revisions
from nova.db.networks import routers
from nova.db.networks import security_groups
from nova.db.services import message_keys
from nova.db.tables import network as t
from nova.network import gateways
from nova.network.host import load as host_load
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit

# They write rows of addresses that no port has.
NO_PORTS = {'forget_resting', 'unreserve'}
# What is read besides: where hosts are has its own rule in hosts.py; whether a group is stateful is fixed while it has
# ports, and what it is called plumbs nothing.
BESIDES = {'network_hosts', 'security_groups'}


@pytest.fixture
def rig(tmp_path):
    made = unit.Rig(tmp_path)
    yield made
    made.db.dispose()


def current(db):
    """How many changes there were, of whatever kind."""
    with db.reader() as conn:
        return sum(revisions.current(conn))


def test_a_change_counts_once_a_transaction_and_not_when_it_is_rolled_back(rig):
    before = current(rig.db)
    instance = unit.make_instance()
    rig.allocate(instance)                          # a port, its address, its group
    assert current(rig.db) == before + 1
    with pytest.raises(ZeroDivisionError), rig.db.writer() as conn:
        ports.move(conn, instance.uuid, 'host9')
        raise ZeroDivisionError
    assert current(rig.db) == before + 1
    rig.deallocate(instance)
    assert current(rig.db) == before + 2
    rig.deallocate(instance)                        # nothing is there
    rig.db.run(networks.forget_resting, sa.func.now())
    assert current(rig.db) == before + 2


def test_rules_alone_count_apart(rig):
    with rig.db.reader() as conn:
        before = revisions.current(conn)
    group = rig.db.run(security_groups.ensure_default, 'p9')         # a group and its rules
    with rig.db.reader() as conn:
        rest, filters = revisions.current(conn)
    assert [rest, filters] == [before[0], before[1] + 1], 'a group without ports plumbs nothing'
    rig.allocate(unit.make_instance('p10'))                          # a group, its rules, and a port
    with rig.db.writer() as conn:
        networks.delete(conn, t.security_group_rules, group)         # none of that id
        assert revisions.after(conn) == revisions.current(conn) == [rest + 1, filters]
        revisions.changed(conn, revisions.FILTERS)
        assert revisions.after(conn) == [rest + 1, filters + 1]
        revisions.changed(conn)
        assert revisions.after(conn) == [rest + 2, filters]


def test_a_report_is_no_change_and_a_new_address_is_one(rig):
    rig.allocate(host='host7')
    before = current(rig.db)
    for host, address, more in (('host6', '192.0.2.6', 0), ('host6', '192.0.2.6', 0), ('host7', '192.0.2.7', 1),
                                ('host7', '192.0.2.7', 1), ('host6', '192.0.2.66', 2)):
        rig.db.run(hosts.seen, host, address, False)
        assert current(rig.db) == before + more, (host, address)


def test_host_report_returns_the_revision_after_its_own_changes(rig):
    found = gateways.Gateways(rig.conf, rig.db, 'host1', '192.0.2.1')
    rig.allocate(host='host2')
    assert sum(found.report_host('host2', '192.0.2.2', False)) == current(rig.db)
    assert sum(found.report_host('host2', '192.0.2.3', False)) == current(rig.db)


def test_routers_are_looked_for_now_and_then_however_many_hosts_report(rig):
    selects = []
    sa.event.listen(rig.db.engine, 'before_cursor_execute',
                    lambda *given: 'FROM routers' in given[2] and selects.append(given[2]))
    found = gateways.Gateways(rig.conf, rig.db, 'host1', '192.0.2.1')
    found.report()
    assert selects and found.others is False
    selects.clear()
    for number in range(20):
        found.report_host(f'host{number}', '192.0.2.9', False, interval_s=60)
    assert not selects and found.others is True         # it is notified of the next change
    found.report()
    assert selects and found.others is True


def router_on(db, host, ident='r'):
    with db.writer() as conn:
        conn.execute(sa.insert(t.routers).values(id=ident, project_id='p', name='r', routes=[], host=host, **{
            name: value for name, value in (('description', ''), ('created_at', utils.utcnow()),
                                            ('updated_at', utils.utcnow())) if name in t.routers.c}))


def place(db):
    with db.reader() as conn:
        return conn.execute(sa.select(t.routers.c.host)).scalar_one()


def test_a_host_gets_no_routers_by_saying_that_it_may(rig):
    """A host whose key was stolen said that it is one of routers, and got those of all projects."""
    rig.conf.set_override('router_hosts', ['gate1', 'gate2'], group='network')
    found = gateways.Gateways(rig.conf, rig.db, 'control', '192.0.2.1')
    router_on(rig.db, 'stolen')                      # from before the option was set
    found.report_host('stolen', '192.0.2.66', True, interval_s=0)
    with rig.db.reader() as conn:
        assert gateways.choose(conn) == ''
    assert place(rig.db) == 'stolen', 'no other host is there'
    found.report_host('gate2', '192.0.2.3', True, interval_s=0)
    found.report_host('stolen', '192.0.2.66', True, interval_s=0)
    assert place(rig.db) == 'gate2'
    found.report_host('gate1', '192.0.2.2', False, interval_s=0)
    with rig.db.reader() as conn:
        assert gateways.choose(conn) == 'gate2', 'gate1 says that it may have none'


@pytest.mark.parametrize('gateway', [False, True])
def test_statements_of_a_report_do_not_grow_with_routers_without_a_host(rig, gateway):
    """Each report looked for a host twice for each router, while all hosts waited."""
    for number in range(30):
        router_on(rig.db, 'dead', f'r{number}')
    selects = []
    sa.event.listen(rig.db.engine, 'before_cursor_execute',
                    lambda *given: given[2].startswith('SELECT') and selects.append(given[2]))
    rig.db.run(hosts.seen, 'gate2', '192.0.2.3', gateway)
    selects.clear()
    gateways.Gateways(rig.conf, rig.db, 'control', '192.0.2.1').report_host('gate1', '192.0.2.2', gateway)
    assert len([text for text in selects if 'FROM network_hosts' in text or 'FROM routers' in text]) <= 5
    with rig.db.reader() as conn:
        places = routers.on_hosts(conn)
    assert places == ({'gate1': 15, 'gate2': 15} if gateway else {'dead': 30})


def test_a_host_with_a_revoked_key_gets_no_routers(rig):
    found = gateways.Gateways(rig.conf, rig.db, 'control', '192.0.2.1')

    def is_gateway():
        with rig.db.reader() as conn:
            return {row['host']: row['gateway'] for row in hosts.every(conn)}['stolen']
    with rig.db.writer() as conn:
        message_keys.add(conn, 'stolen', 'f' * 40, b'public', message_keys.APPROVED)
    found.report_host('stolen', '192.0.2.66', True)
    assert is_gateway()
    before = current(rig.db)
    with rig.db.writer() as conn:
        message_keys.revoke(conn, 'stolen')
        hosts.distrust(conn, 'stolen')
    assert not is_gateway() and current(rig.db) == before + 1
    found.report_host('stolen', '192.0.2.66', True)              # of a service that has not noticed yet
    assert not is_gateway()


def test_writers_at_the_same_time_all_count(rig):
    before = current(rig.db)

    def write():
        for _ in range(5):
            rig.db.run(revisions.changed)
    threads = [threading.Thread(target=write) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert current(rig.db) == before + 40
    with rig.db.reader() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(t.revisions)).scalar() > 1


def test_exactly_the_tables_read_by_host_load_count_in_the_revision(tmp_path):
    """Each table that host_load reads is one whose changes count, and no other one."""
    face = test_network_api.Face(tmp_path)
    try:
        network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
        subnet = face('demo', 'POST', 'subnets', {'subnet': {
            'network_id': network, 'cidr': '10.0.0.0/24', 'ip_version': 4}}).json()['subnet']['id']
        policy = face('admin', 'POST', 'qos/policies', {'policy': {'name': 'slow'}}).json()['policy']['id']
        face('admin', 'POST', f'qos/policies/{policy}/bandwidth_limit_rules', {'bandwidth_limit_rule': {
            'max_kbps': 1000}})
        face('admin', 'PUT', f'networks/{network}', {'network': {'qos_policy_id': policy}})
        with face.db.writer() as conn:
            hosts.seen(conn, 'host1', '192.0.2.1', True)
        outside = face('admin', 'POST', 'networks', {'network': {'router:external': True}}).json()['network']['id']
        face('admin', 'POST', 'subnets', {'subnet': {
            'network_id': outside, 'cidr': '172.24.4.0/24', 'ip_version': 4, 'enable_dhcp': False}})
        router = face('demo', 'POST', 'routers', {'router': {
            'external_gateway_info': {'network_id': outside}}}).json()['router']['id']
        face('demo', 'PUT', f'routers/{router}/add_router_interface', {'subnet_id': subnet})
        made = face('demo', 'POST', 'ports', {'port': {'network_id': network}}).json()['port']
        port, ranges = made['id'], face('demo', 'POST', 'address-groups', {'address_group': {
            'name': 'g', 'addresses': ['192.0.2.0/24']}}).json()['address_group']['id']
        face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': made['security_groups'][0], 'direction': 'ingress',
            'remote_address_group_id': ranges}})
        face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': outside, 'port_id': port}})
        tagged = face('demo', 'POST', 'ports', {'port': {'network_id': network}}).json()['port']['id']
        face('demo', 'POST', 'trunks', {'trunk': {'port_id': port, 'sub_ports': [
            {'port_id': tagged, 'segmentation_type': 'vlan', 'segmentation_id': 7}]}})
        with face.db.writer() as conn:
            networks.update(conn, t.ports, port, {'host': 'host1', 'device_id': 'd', 'device_owner': 'compute:nova'})
        read = set()

        def note(_conn, statement, *_more):
            read.update(each.name for each in sa.sql.visitors.iterate(statement) if isinstance(each, sa.Table))
        with face.db.reader() as conn:
            sa.event.listen(face.db.engine, 'before_execute', note)
            state = host_load.load(conn, 'host1', lambda ident: 'tap', {}, '192.0.2.1')
        assert state.ports and state.overlays and state.routers and state.routers[0].floating_ips
    finally:
        face.close()
    assert read - BESIDES | {'network_vlans'} == {table.name for table in revisions.PLUMBED}


def _writes(tree):
    """(function, line) of what executes an INSERT, UPDATE or DELETE of a PLUMBED table besides revisions.execute."""
    plumbed = {name for name, value in vars(t).items() if isinstance(value, sa.Table) and value in revisions.PLUMBED}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            text = ast.unparse(node)
            if node.func.attr == 'execute' and not text.startswith('revisions.execute') and any(
                    f'sa.{kind}(t.{name})' in text for kind in ('insert', 'update', 'delete') for name in plumbed):
                yield function.name, node.lineno
            if node.func.attr.startswith('insert_') and any(f't.{name}, ' in text for name in plumbed) and (
                    'revisions.changed' not in ast.unparse(function)):
                yield function.name, node.lineno


def test_no_statement_writes_past_the_count():
    found = []
    for path in pathlib.Path(nova.__file__).parent.rglob('*.py'):
        if 'tests' not in path.parts and 'tables import network' in (text := path.read_text()):
            found += [(path.name, *each) for each in _writes(ast.parse(text)) if each[0] not in NO_PORTS]
    assert not found
    assert list(_writes(ast.parse('def f(conn):\n conn.execute(sa.delete(t.ports).where(t.ports.c.id == 1))')))
