"""The networks' statements on database servers: what SQLite, with its one writer, does not show."""
import contextlib
import functools
import threading
import time
import types
import uuid

import pytest
import requests
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.db import engine
from nova.db import errors
from nova.db import grants
from nova.db.cells import cells
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import revisions
from nova.db.networks import security_groups
from nova.db.networks import tags
from nova.db.services import message_keys
from nova.db.tables import api as api_tables
from nova.db.tables import network as t
from nova.network import allocation
from nova.network import attach
from nova.network import fake
from nova.network import ipam
from nova.network import manager
from nova.network import setup
from nova.network.operators import networks as operators
from nova.network.rest import groups as rest_groups
from nova.network.rest import networks as rest_networks
from nova.tests import long_runs
from nova.tests.integration import servers
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit

LIMITED = 'nova_network_limited'

@pytest.fixture(scope='module', params=['mariadb', 'postgresql'])
def db(request):
    with servers.databases(request.param) as database:
        yield database('networks', 'api')


def current(db):
    with db.reader() as conn:
        return sum(revisions.current(conn))


def test_tags_that_the_database_compares_as_equal_are_refused(db):
    if db.engine.dialect.name == 'mysql':
        with pytest.raises(exception.BadRequest, match='only in case'):
            db.run(tags.replace, 'network', ['Blue', 'blue'])
    else:
        db.run(tags.replace, 'network', ['Blue', 'blue'])
        with db.reader() as conn:
            assert tags.of(conn, ['network']) == {'network': ['Blue', 'blue']}
    db.run(tags.replace, 'network', [])


def test_writers_at_the_same_time_all_count(db):
    before = current(db)

    def write():
        for _ in range(20):
            db.run(revisions.changed)
    threads = [threading.Thread(target=write) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert current(db) == before + 160


def test_revision_follows_the_order_of_commits(db):
    """A transaction that began before another one and ends after it is a change for who has read in between."""
    with db.writer() as first:
        security_groups.ensure_default(first, 'slow')
        db.run(security_groups.ensure_default, 'quick')
        seen = current(db)
        assert sum(revisions.after(first)) == seen + 1
    assert current(db) == seen + 1
    with db.reader() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(t.security_groups)).scalar() == 2


def test_ports_and_the_default_group_are_read_by_one_statement(db):
    group = db.run(security_groups.ensure_default, 'one')
    with db.reader() as conn:
        assert ports.for_allocation(conn, ['no such server'], 'one', 5) == ([], group, 5)
        assert ports.for_allocation(conn, ['no such server'], 'none', -1) == ([], None, None)


def test_two_services_never_give_an_address_twice_and_lose_none(db):
    """Each takes runs of neighbouring addresses of one small network; every second server comes to both."""
    conf = nova_conf.new(files=[], network__driver='fake', network__default_cidr='10.44.0.0/26')
    setup.bootstrap(conf, db)
    services = [manager.NetworkManager(conf, db, f'host{number}', fake.FakeDriver(conf)) for number in range(2)]
    ctx, found, errors_ = context.admin_context(), [], []

    def one(number, server):
        try:
            vifs = services[number].allocate_for_instance(ctx, instance=server, requested_networks=None,
                                                          security_groups=None, host='elsewhere')
            found.append((server.uuid, unit.address(vifs[0])))
        except Exception as error:
            errors_.append(error)

    def work(calls):
        threads = [threading.Thread(target=call) for call in calls]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    instances = [unit.make_instance('busy') for _ in range(30)]
    work([functools.partial(one, number, server) for place, server in enumerate(instances)
          for number in ((0, 1) if place % 2 else (place // 2 % 2,))])
    assert not errors_ and len(found) == 45
    assert len(set(found)) == len({address for _server, address in found}) == 30
    work([functools.partial(service.deallocate_for_instance, ctx, instance_uuid=server.uuid, host=None)
          for server in instances for service in services])
    with db.reader() as conn:
        assert not conn.execute(sa.select(t.ports.c.id).where(t.ports.c.project_id == 'busy')).all()
        rest, = conn.execute(sa.select(sa.func.count()).select_from(t.addresses).where(
            t.addresses.c.port_id.is_(None))).one()
    assert rest == 30


# ---- networks that change hands

def _bare(db, name):
    """A network for all, without a subnet."""
    ident = str(uuid.uuid4())
    with db.writer() as conn:
        networks.insert(conn, t.networks, [{
            'id': ident, 'project_id': '', 'name': name, 'shared': True, 'is_default': False, 'admin_state_up': True,
            'bridge': 'br' + ident[:8], 'mtu': 1400, 'network_type': networks.OVERLAY, 'description': ''}])
    return ident


def _later(function, *args):
    """The answer of a function that has to wait for the transaction of this thread."""
    answers = []

    def run():
        try:
            answers.append(function(*args))
        except exception.NovaException as error:
            answers.append(type(error))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive(), answers
    return thread, answers


def test_a_port_without_addresses_does_not_come_into_a_network_that_changes_hands(db):
    network = _bare(db, 'given')
    with db.writer() as conn:
        assert network in networks.usable(conn, 'first', {network}, lock=True)
        thread, answers = _later(operators.assign_network, db, network, 'second')
        networks.insert(conn, t.ports, [attach.new_port('first', networks.get(conn, t.networks, network), {})])
    thread.join(10)
    assert answers == [exception.NetworkInUse]

    def owner():
        return db.run(lambda conn: networks.usable(conn, 'first', {network}, lock=True)[network][0]['project_id'])
    with db.writer() as conn:
        ports.remove(conn, [port['id'] for port in ports.in_network(conn, network)])
        networks.lock_with_subnets(conn, network)
        thread, answers = _later(owner)
        operators.give(conn, network, 'second')
    thread.join(10)
    assert answers == ['second']
    db.run(networks.remove_network, network)


def _rest_delete(db, ident):
    def delete(conn):
        rest_networks.delete_network(conn, None, context.admin_context(), rest_networks.NETWORKS.get(conn, ident))
    db.run(delete)


@pytest.mark.parametrize('delete', [_rest_delete, operators.delete_network])
def test_a_network_that_gets_a_port_at_the_same_time_is_not_deleted(db, delete):
    network, subnet = _bare(db, 'crowded'), str(uuid.uuid4())
    with db.writer() as conn:
        networks.insert(conn, t.subnets, [{
            'id': subnet, 'project_id': '', 'network_id': network, 'name': '', 'cidr': '10.46.0.0/24', 'ip_version': 4,
            'gateway_ip': '10.46.0.1', 'enable_dhcp': False, 'description': '', 'dns_nameservers': [],
            'host_routes': [], 'allocation_pools': [{'start': '10.46.0.2', 'end': '10.46.0.9'}]}])
    with db.writer() as conn:
        found = networks.usable(conn, 'first', {network}, lock=True)[network]
        port = attach.new_port('first', found[0], {})
        ipam.claim(conn, network, found[1], port['id'], [], ipam.quarantine_cutoff(0))
        networks.insert(conn, t.ports, [port])
        thread, answers = _later(delete, db, network)
    thread.join(10)
    assert answers == [exception.NetworkInUse]
    with db.reader() as conn:
        assert networks.get(conn, t.networks, network) and networks.get(conn, t.subnets, subnet)
        assert [len(each) for each in networks.addresses_of(conn, [port['id']]).values()] == [1]

    def use():
        return network in db.run(lambda conn: networks.usable(conn, 'first', {network}, lock=True))
    db.run(ports.remove, [port['id']])
    with db.writer() as conn:
        networks.lock_with_subnets(conn, network)
        thread, answers = _later(use)
        networks.remove_network(conn, network)
    thread.join(10)
    assert answers == [False]


def test_concurrent_requests_for_any_free_network_get_different_networks(db):
    conf = nova_conf.new(files=[])
    idents = [_bare(db, f'any{number}') for number in range(2)]
    first, second = (context.RequestContext(user_id='u', project_id=name) for name in ('first', 'second'))
    with db.writer() as conn:
        taken = operators._free(conn, first)['id']
        thread, answers = _later(operators.add_network_to_project, conf, db, second, None)
        operators.give(conn, taken, 'first')
    thread.join(10)
    assert answers == [None]
    with db.reader() as conn:
        assert [networks.get(conn, t.networks, ident)['project_id'] for ident in idents] == ['first', 'second']
    with pytest.raises(exception.Conflict):
        operators.add_network_to_project(conf, db, second, None)


# ---- floating addresses

def test_a_floating_address_that_gets_a_port_at_the_same_time_is_released_with_the_port(db):
    (port, _other), _group = _ports_and_group(db)
    server, floating = str(uuid.uuid4()), str(uuid.uuid4())
    with db.writer() as conn:
        networks.update(conn, t.ports, port, {'device_id': server, 'created_by_compute': True})
        networks.insert(conn, t.floating_ips, [{
            'id': floating, 'project_id': 'first', 'floating_network_id': 'n', 'floating_ip_address': '192.0.2.9',
            'floating_port_id': 'p', 'status': 'DOWN', 'description': ''}])
    with db.writer() as conn:
        ports.lock_many(conn, [port])
        thread, answers = _later(db.run, allocation.release, [allocation.ReleaseRequest(server, None, None)])
        networks.update(conn, t.floating_ips, floating, {
            'port_id': port, 'fixed_ip_address': '10.0.0.5', 'router_id': 'r', 'status': 'ACTIVE'})
    thread.join(10)
    assert answers == [[1]]
    with db.reader() as conn:
        found = networks.get(conn, t.floating_ips, floating)
    assert (found['port_id'], found['router_id'], found['status']) == (None, None, 'DOWN')


# ---- security groups that are deleted

def _ports_and_group(db):
    """(ids of two ports without groups, id of a group)"""
    network, group = _bare(db, 'guarded'), str(uuid.uuid4())
    with db.writer() as conn:
        made = [attach.new_port('first', networks.get(conn, t.networks, network), {}) for _ in range(2)]
        networks.insert(conn, t.ports, made)
        networks.insert(conn, t.security_groups, [
            {'id': group, 'project_id': 'first', 'name': 'g', 'description': '', 'stateful': True}])
    return [port['id'] for port in made], group


def test_a_security_group_that_gets_a_port_at_the_same_time_is_not_deleted(db):
    (port, other), group = _ports_and_group(db)

    def delete():
        db.run(lambda conn: rest_groups.delete_group(
            conn, None, context.admin_context(), networks.get(conn, t.security_groups, group)))
    with db.writer() as conn:
        security_groups.bind(conn, [(port, group)])
        db.run(security_groups.bind, [(other, group)])               # without waiting
        thread, answers = _later(delete)
    thread.join(10)
    assert answers == [exception.SecurityGroupInUse]
    db.run(security_groups.unbind, [port, other])
    with db.writer() as conn:
        rest_groups.delete_group(conn, None, context.admin_context(), networks.get(conn, t.security_groups, group))
        thread, answers = _later(db.run, security_groups.bind, [(port, group)])
    thread.join(10)
    assert answers == [exception.SecurityGroupNotFound]


# ---- the account of nova-network on hosts that have databases (nova/db/grants.py)

@pytest.fixture(params=long_runs.rest(['mariadb', 'postgresql']))
def face(request, tmp_path):
    """The API's face with an account of everything, and in ``limited`` a network service with its own."""
    with servers.SHARED[request.param]() as url_of:
        url = sa.make_url(url_of('limited'))
        made = test_network_api.Face(tmp_path, url=url.render_as_string(hide_password=False))
        account = LIMITED if request.param == 'postgresql' else f"{LIMITED}@'127.0.0.1'"
        with made.db.writer() as conn:
            conn.exec_driver_sql(f"CREATE ROLE {LIMITED} LOGIN PASSWORD 'x'" if request.param == 'postgresql' else
                                 f"CREATE USER {account} IDENTIFIED BY 'x'")
            for statement in grants.statements(conn, grants.API, account):
                conn.exec_driver_sql(statement)
        limited = engine.Database(url.set(username=LIMITED, password='x').render_as_string(hide_password=False))
        made.limited_db = limited
        made.limited = manager.NetworkManager(made.conf, limited, 'host1', Reading(made.conf))
        yield made
        limited.dispose()
        made.close()
        with contextlib.ExitStack() as stack:
            again = engine.Database(url.render_as_string(hide_password=False))
            stack.callback(again.dispose)
            with again.writer() as conn:
                for statement in ([f'DROP OWNED BY {LIMITED}', f'DROP ROLE {LIMITED}'] if request.param == 'postgresql'
                                  else [f'DROP USER {account}']):
                    conn.exec_driver_sql(statement)


class Reading(fake.FakeDriver):
    """Touches no host, and reads what there is to plumb."""

    def refresh(self, load):
        self.state = load()
        return []


def test_a_limited_account_does_all_that_a_network_service_does(face):
    """Every method of the interface and every periodic task, with what the network API can make."""
    project = 'fresh'                                       # its first group is the service's to make
    ctx, service = context.admin_context(), face.limited
    service.start()
    instance = unit.make_instance(project)
    vif, = service.allocate_for_instance(ctx, instance=instance, requested_networks=None, security_groups=None,
                                         host='host1')
    assert service.driver.state.ports[0].id == vif['id']
    # what users made: a network between hosts, behind a router, with floating addresses and limits
    network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
    for cidr, version in (('10.0.0.0/24', 4), ('fd00:1::/64', 6)):
        subnet = face('demo', 'POST', 'subnets', {'subnet': {
            'network_id': network, 'cidr': cidr, 'ip_version': version,
            **({'ipv6_address_mode': 'slaac', 'ipv6_ra_mode': 'slaac'} if version == 6 else {})}}).json()['subnet']
        if version == 4:
            inside = subnet['id']
    outside = face('admin', 'POST', 'networks', {'network': {'router:external': True}}).json()['network']['id']
    face('admin', 'POST', 'subnets', {'subnet': {
        'network_id': outside, 'cidr': '172.24.4.0/24', 'ip_version': 4, 'enable_dhcp': False}})
    router = face('demo', 'POST', 'routers', {'router': {
        'external_gateway_info': {'network_id': outside}}}).json()['router']['id']
    face('demo', 'PUT', f'routers/{router}/add_router_interface', {'subnet_id': inside})
    policy = face('admin', 'POST', 'qos/policies', {'policy': {'name': 'slow', 'shared': True}}).json()['policy']['id']
    face('admin', 'POST', f'qos/policies/{policy}/bandwidth_limit_rules', {'bandwidth_limit_rule': {'max_kbps': 1000}})
    face('admin', 'PUT', f'networks/{network}', {'network': {'qos_policy_id': policy}})
    port = face('demo', 'POST', 'ports', {'port': {'network_id': network}}).json()['port']['id']
    fixed = face('demo', 'GET', f'ports/{port}').json()['port']['fixed_ips'][0]['ip_address']
    face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': outside, 'port_id': port}})
    shared = face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': outside}}).json()['floatingip']
    own = test_network_api.USERS['demo']['project_id']
    other = unit.make_instance(own)
    made, = service.allocate_for_instance(ctx, instance=other, requested_networks=[
        {'network_id': network, 'port_id': None, 'fixed_ip': None, 'tag': None}], security_groups=None, host='host1')
    assert {port.id: port.limits for port in service.driver.state.ports}[made['id']]
    assert face('demo', 'POST', f"floatingips/{shared['id']}/port_forwardings", {'port_forwarding': {
        'protocol': 'tcp', 'external_port': 2222, 'internal_port': 22, 'internal_port_id': made['id'],
        'internal_ip_address': made['network']['subnets'][0]['ips'][0]['address']}}).status_code == 201
    # a user's own port, one more port, one more address, and all of them back
    third = unit.make_instance(own)
    bound, = service.allocate_for_instance(ctx, instance=third, requested_networks=[
        {'network_id': None, 'port_id': port, 'fixed_ip': None, 'tag': None}], security_groups=None, host='host1')
    assert bound['id'] == port and fixed
    attachments, more = service.attachments, str(uuid.uuid4())
    attachments.attach_port(ctx, instance=third, request={'port_id': more, 'network_id': network, 'fixed_ip': None,
                                                          'tag': None}, attached_by='req-1', host='host1')
    assert attachments.find_port(ctx, instance_uuid=third.uuid, port_id=more, attached_by='req-1')
    attachments.add_address(ctx, instance_uuid=third.uuid, network_id=network, known_addresses=[], host='host1')
    attachments.remove_address(ctx, instance_uuid=third.uuid, address=fixed, host='host1')
    attachments.detach_port(ctx, instance_uuid=third.uuid, port_id=more, attached_by='req-1', host='host1')
    # moves
    service.prepare_for_instance(ctx, instance=third, host='host2')
    service.unprepare_for_instance(ctx, instance_uuid=third.uuid, host='host2')
    service.setup_for_instance(ctx, instance=third, host='host2')
    service.network_info(ctx, instance_uuid=third.uuid)
    service.unbind_ports(ctx, instance_uuid=third.uuid, host='host2')
    # hosts: one that is new, at another address, and silent with a router
    for address in ('192.0.2.2', '192.0.2.22'):
        service.gateways.report_host('host2', address, True)
    with face.db.writer() as conn:
        conn.execute(sa.update(t.routers).values(host='host9'))
    service.report()
    with face.db.reader() as conn:
        assert set(conn.execute(sa.select(t.routers.c.host)).scalars()) <= {'host1', 'host2'}
    service.sync()
    service.methods['host_state'](ctx, host='host2', physical_networks={}, address='192.0.2.22')
    service.audit(set())
    for each in (instance, other, third):
        service.deallocate_for_instance(ctx, instance_uuid=each.uuid, host=None)
    with face.db.reader() as conn:
        assert not conn.execute(sa.select(t.ports.c.id).where(t.ports.c.device_owner.like('compute:%'))).all()
        assert not conn.execute(sa.select(t.port_forwardings.c.id)).all()


def test_concurrent_changes_of_tags_keep_both(face):
    path = f"networks/{face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']}"
    ident = path.partition('/')[2]
    with face.db.writer() as conn:
        networks.lock(conn, t.networks, ident)
        thread, answers = _later(face, 'demo', 'PUT', f'{path}/tags/b')
        tags.replace(conn, ident, ['a'])
    thread.join(10)
    assert answers[0].status_code == 201 and face('demo', 'GET', f'{path}/tags').json() == {'tags': ['a', 'b']}
    with face.db.writer() as conn:
        networks.lock(conn, t.networks, ident)
        thread, answers = _later(face, 'demo', 'PUT', f'{path}/tags', {'tags': ['b', 'c']})
        tags.replace(conn, ident, ['c'])
    thread.join(10)
    assert answers[0].status_code == 200 and face('demo', 'GET', f'{path}/tags').json() == {'tags': ['b', 'c']}


def test_concurrent_requests_make_one_default_external_network(face):
    first, second = (face('admin', 'POST', 'networks', {'network': {'router:external': True}}).json()['network']['id']
                     for _ in range(2))
    for method, path, body in (('PUT', f'networks/{second}', {'network': {'is_default': True}}),
                               ('POST', 'networks', {'network': {'router:external': True, 'is_default': True}})):
        with face.db.writer() as conn:
            rest_networks._check_default(conn, {'id': first}, True)
            thread, answers = _later(face, 'admin', method, path, body)
            networks.update(conn, t.networks, first, {'is_default': True})
        thread.join(10)
        assert answers[0].status_code == 409, answers[0].text
        face.db.run(networks.update, t.networks, first, {'is_default': False})


def test_concurrent_updates_of_one_revision_are_done_once(face):
    network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']
    path, headers = f"{face.url}/v2.0/networks/{network['id']}", {
        'X-Auth-Token': 'demo', 'If-Match': f"revision_number={network['revision_number']}"}

    def later(method, body):
        return requests.request(method, path, json=body, headers=headers, timeout=30)
    for method, body in (('PUT', {'network': {'name': 'second'}}), ('DELETE', None)):
        with face.db.writer() as conn:
            networks.lock(conn, t.networks, network['id'])
            thread, answers = _later(later, method, body)
            networks.update(conn, t.networks, network['id'], {'name': 'first'})
        thread.join(10)
        assert answers[0].status_code == 412, answers[0].text
        changed = face('demo', 'GET', f"networks/{network['id']}").json()['network']
        assert changed['name'] == 'first'
        headers['If-Match'] = f"revision_number={changed['revision_number']}"


def test_a_limited_account_waits_for_the_first_cell(face, monkeypatch, caplog):
    """It was refused the INSERT into cells, and its daemon ended, when it was the first of a new fleet to start; then
    it tried that each second, and said so each time.
    """
    looks = []

    def others_start(_seconds):
        looks.append(caplog.messages[-1])
        if len(looks) > 2:
            assert cells.Cells(face.conf, face.db, face.db).default
    monkeypatch.setattr(cells, 'time', types.SimpleNamespace(monotonic=time.monotonic, sleep=others_start))
    found = cells.Cells(face.conf, face.limited_db, face.db).default
    assert found.uuid == cells.Cells(face.conf, face.db, face.db).default.uuid
    assert len(looks) == 3 and len([each for each in caplog.messages if 'Waiting' in each]) == 1
    look = looks[0]
    assert 'cells' in look and 'Waiting for another daemon' in look          # the operator reads which table
    with face.db.writer() as conn:
        conn.execute(sa.delete(api_tables.cells))
    monkeypatch.setattr(cells, 'REGISTERED_S', -1)
    with pytest.raises(exception.InvalidInput, match='start a nova-conductor'):
        assert cells.Cells(face.conf, face.limited_db, face.db).default


def test_missing_database_privilege_raises_forbidden(face):
    """On MariaDB it was one that is away for a while, so that who asks for a key got a traceback."""
    with pytest.raises(errors.Forbidden, match='message_keys'):
        face.limited_db.run(message_keys.signing_key, None)
