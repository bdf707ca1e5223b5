"""Ports that are a device of their host come to servers and go from them while they are there: fake hosts, fake cards,
a small Neutron."""
import concurrent.futures
import contextlib
import json
import threading
import types
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import utils
from nova.api.server_actions import external_events
from nova.db.placement import compute_nodes
from nova.db.placement import pci_devices
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import port_devices
from nova.db.tables import cell as tables_cell
from nova.objects import pci
from nova.tests import neutron_service
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support import pci as test_pci
from nova.virt import driver as virt

HOSTS = ['host1', 'host2']


def start(directory, neutron, address, functions=2):
    """A cloud whose hosts have a card of so many functions each."""
    card = [test_pci.CARD[0], *({**test_pci.CARD[1], 'address': f'0000:0a:00.{number}'}
                                for number in range(1, functions + 1))]
    made = clouds.Cloud(
        directory, HOSTS, network__backend='neutron', neutron__endpoint_override=address, neutron__auth_type='none',
        fake__pci_devices=[json.dumps(card)], pci__device_spec=test_pci.SPECS)
    made.start()
    made.neutron, made.demo, made.boss = neutron, made.client(version='2.72'), made.admin('2.90')
    known = {made.demo.token: made.demo.project_id, made.boss.token: None}
    neutron.project_of = lambda token: known.get(token, token)
    made.image = made.demo.upload_image()
    return made


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    neutron = neutron_service.Neutron(HOSTS)
    with neutron_service.listening(neutron) as address:
        made = start(tmp_path_factory.mktemp('ports'), neutron, address)
        made.network = neutron.network(made.demo.project_id, **{'provider:physical_network': 'net1'})
        yield made
        made.stop(5)


@pytest.fixture
def cloud(running):
    """Nobody has a device before and after."""
    assert taken(running) == {}
    yield running
    for row in running.demo.get('/servers').json()['servers']:
        running.demo.delete(f'/servers/{row["id"]}')
        running.demo.wait_for(row['id'], 'DELETED')
    assert taken(running) == {} and conductor(running).claim_check.audit() == []
    assert not running.neutron.ports(device_owner='compute:nova')


def conductor(cloud):
    return next(part.manager for part in cloud.services if part.binary == 'nova-conductor')


def taken(cloud):
    """{(host, address): port} of the devices that somebody has."""
    return {(row['host'], row['address']): row['request_id'] for row in test_pci.stored(cloud.cell_db)
            if row['instance_uuid']}


def port_of(cloud, kind='direct'):
    return cloud.neutron.port(cloud.demo.project_id, cloud.network, **{'binding:vnic_type': kind})


def boot(cloud):
    made = cloud.demo.boot(cloud.image, networks='none')['id']
    cloud.demo.wait_for(made)
    return made


def attach(cloud, server, port):
    return cloud.demo.post(f'/servers/{server}/os-interface', {'interfaceAttachment': {'port_id': port}})


def detach(cloud, server, port):
    return cloud.demo.delete(f'/servers/{server}/os-interface/{port}')


def message(answer):
    return next(iter(answer.json().values()))['message']


def act(cloud, server, status='ACTIVE', **body):
    answer = cloud.boss.post(f'/servers/{server}/action', body)
    assert answer.status_code in (202, 204), answer.text
    return cloud.boss.wait_for(server, status)


def row_of(cloud, server):
    with cloud.cell_db.reader() as conn:
        return instances.get(conn, server)


def driver_of(cloud, server):
    host = row_of(cloud, server)['host']
    return next(part.manager.driver for part in cloud.services
                if part.binary == 'nova-compute' and part.manager.host.name == host)


def given(cloud, server):
    """Addresses that the guest has."""
    return driver_of(cloud, server).machine.guests[server]['pci_devices']


def place(cloud, port):
    row = cloud.neutron.rows['ports'][port]
    return row['binding:host_id'], row['binding:profile'].get('pci_slot')


def no_task(cloud):
    table = tables_cell.instance_actions
    with cloud.cell_db.reader() as conn:
        return not conn.execute(sa.select(table.c.id).where(table.c.finished_at.is_(None))).all()


def settle(cloud):
    waiting.wait_for(lambda: no_task(cloud), 60, 'open actions')


def test_it_comes_moves_along_and_goes(cloud):
    server, first, second = boot(cloud), port_of(cloud), port_of(cloud, 'macvtap')
    for port in (first, second):
        answer = attach(cloud, server, port)
        assert answer.status_code == 200, answer.text
    assert set(taken(cloud).values()) == {first, second}
    host = row_of(cloud, server)['host']
    assert {place(cloud, first), place(cloud, second)} == set(taken(cloud)) and place(cloud, first)[0] == host
    assert sorted(given(cloud, server)) == ['0000:0a:00.1', '0000:0a:00.2']
    refused = attach(cloud, server, port_of(cloud))
    assert refused.status_code == 409 and 'has no free device for port' in message(refused)
    # the request that the server was made from knows nothing of the ports
    act(cloud, server, 'VERIFY_RESIZE', migrate=None)
    assert place(cloud, first)[0] != host and len(taken(cloud)) == 4
    act(cloud, server, confirmResize=None)
    assert set(taken(cloud).values()) == {first, second} and {each for each, _ in taken(cloud)} != {host}
    assert detach(cloud, server, first).status_code == 202
    settle(cloud)
    assert list(taken(cloud).values()) == [second] and place(cloud, first) == ('', None)
    assert given(cloud, server) == [place(cloud, second)[1]]
    assert [vif['id'] for vif in row_of(cloud, server)['network_info']] == [second]
    assert attach(cloud, server, first).status_code == 200        # once more
    assert set(taken(cloud).values()) == {first, second}


def test_a_server_that_is_unshelved_gets_devices_for_the_ports_that_it_has_then(cloud):
    """The request that it was made from says others: none came with it, and one has gone."""
    server, kept, gone, lost = boot(cloud), port_of(cloud), port_of(cloud), port_of(cloud)
    assert attach(cloud, server, kept).status_code == attach(cloud, server, gone).status_code == 200
    assert detach(cloud, server, gone).status_code == 202
    settle(cloud)
    assert attach(cloud, server, lost).status_code == 200
    act(cloud, server, 'SHELVED_OFFLOADED', shelve=None)
    assert taken(cloud) == {}
    del cloud.neutron.rows['ports'][lost]
    report(cloud, server, lost, code=422)
    act(cloud, server, unshelve=None)
    assert list(taken(cloud)) == [place(cloud, kept)] and given(cloud, server) == [place(cloud, kept)[1]]


def report(cloud, server, port, code=200):
    answer = cloud.boss.post('/os-server-external-events', {'events': [
        {'name': 'network-vif-deleted', 'server_uuid': server, 'tag': port}]})
    assert answer.json()['events'][0]['code'] == code


def test_a_port_that_its_owner_deletes_gives_the_device_back(cloud):
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    del cloud.neutron.rows['ports'][port]
    report(cloud, server, port)
    waiting.wait_for(lambda: taken(cloud) == {}, 20, 'the device')
    assert given(cloud, server) == [] and 'pci_requests' not in row_of(cloud, server)['flavor']


@pytest.mark.parametrize('after', ['ACTIVE', 'SHELVED_OFFLOADED'])
def test_a_port_that_goes_while_a_host_is_looked_for_leaves_no_claim(cloud, monkeypatch, after):
    """The scheduler has read what is needed before, and claims afterwards: nobody would have given that back."""
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    if after != 'ACTIVE':
        act(cloud, server, after, shelve=None)
    scheduler = next(part.manager for part in cloud.services if part.binary == 'nova-scheduler')
    claims = scheduler.methods.select_move.__self__._claim_loop
    run, lost = claims.run, []

    def decide_after_the_port_is_gone(request, *others):
        lost.append(cloud.neutron.rows['ports'].pop(port))
        report(cloud, server, port, code=200 if after == 'ACTIVE' else 422)
        waiting.wait_for(lambda: 'pci_requests' not in row_of(cloud, server)['flavor'], 20, 'the end of the port')
        return run(request, *others)
    monkeypatch.setattr(claims, 'run', decide_after_the_port_is_gone)
    if after == 'ACTIVE':
        act(cloud, server, 'VERIFY_RESIZE', migrate=None)
    else:
        act(cloud, server, unshelve=None)
    assert len(lost) == 1 and taken(cloud) == {} and given(cloud, server) == []


def test_the_device_of_a_port_stays_where_the_offloaded_server_has_got_a_host_meanwhile(cloud):
    """The API has read that it is offloaded; the guest may have the device by now."""
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    act(cloud, server, 'SHELVED_OFFLOADED', shelve=None)
    read = row_of(cloud, server)
    act(cloud, server, unshelve=None)
    external_events._forget_device(types.SimpleNamespace(db=cloud.cell_db), read, port)
    assert list(taken(cloud).values()) == [port] and port in pci.of_ports(row_of(cloud, server)['flavor'])


def test_a_port_that_goes_locks_the_server_before_any_node(cloud):
    """Whoever begins an attachment, or deletes a server, does: the other way round they waited for each other."""
    server, port, written = boot(cloud), port_of(cloud), []
    assert attach(cloud, server, port).status_code == 200

    def note(conn, cursor, statement, parameters, context, many):
        if statement.startswith('UPDATE'):
            written.append(statement.split()[1].strip('"'))
    with cloud.cell_db.writer() as conn:
        sa.event.listen(conn, 'before_cursor_execute', note)
        port_devices.release(conn, server, port)
        sa.event.remove(conn, 'before_cursor_execute', note)
    assert written == ['instances', 'pci_devices', 'compute_nodes'] and taken(cloud) == {}


def test_release_of_a_device_has_no_effect_if_the_server_is_deleted_before_it_is_locked(cloud, monkeypatch):
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    monkeypatch.setattr(instances, 'lock', lambda conn, uuid: conn.execute(       # as if the lock had to wait
        sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid)))
    with pytest.raises(_Undo), cloud.cell_db.writer() as conn:
        port_devices.release(conn, server, port)
        raise _Undo


class _Undo(Exception):
    """Rolls a transaction back."""


def test_a_request_detaches_a_port_that_is_gone_and_whose_device_the_guest_did_not_let_go(cloud):
    """The event is acted upon once; the network service knows nothing of the port any more, and so did no request."""
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    machine = driver_of(cloud, server).machine
    held = exception.VirtError(operation='unplug', reason='the guest does not let it go')
    machine.failures['detach_interface'] = held
    del cloud.neutron.rows['ports'][port]
    report(cloud, server, port)
    waiting.wait_for(lambda: held.__traceback__ is not None, 20, 'the event')
    with cloud.cell_db.writer() as conn:               # as former releases left it
        instances.set_where(conn, server, {'network_info': []})
    machine.failures.clear()
    assert list(taken(cloud).values()) == [port] and len(given(cloud, server)) == 1
    assert detach(cloud, server, str(uuidlib.uuid4())).status_code == 404
    assert detach(cloud, server, port).status_code == 202
    settle(cloud)
    assert taken(cloud) == {} and given(cloud, server) == []
    assert 'pci_requests' not in row_of(cloud, server)['flavor']
    assert detach(cloud, server, port).status_code == 404


def test_the_device_of_a_port_that_is_gone_is_taken_from_the_guest_by_a_detachment_that_waited(cloud):
    """What the server shows was read anew meanwhile, and has the port no more."""
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    with cloud.cell_db.writer() as conn:
        instances.set_where(conn, server, {'network_info': []})
    machine = driver_of(cloud, server).machine
    cloud.neutron.rows['ports'][port]['device_owner'] = 'network:other'
    assert detach(cloud, server, port).status_code == 202
    settle(cloud)
    assert taken(cloud) == {} and machine.guests[server]['pci_devices'] == []
    del cloud.neutron.rows['ports'][port]


def test_last_device_goes_to_one_of_parallel_attachments(cloud):
    servers = [boot(cloud) for _ in range(2)]
    for server in servers:                             # both on one host: one function of two is left for them
        if row_of(cloud, server)['host'] != 'host1':
            act(cloud, server, 'VERIFY_RESIZE', migrate={'host': 'host1'})
            act(cloud, server, confirmResize=None)
    ports = [port_of(cloud) for _ in range(3)]
    assert attach(cloud, servers[0], ports[0]).status_code == 200
    barrier = threading.Barrier(2)

    def one(number):
        barrier.wait()
        return attach(cloud, servers[number], ports[1 + number])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(one, range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    won = [port for port, answer in zip(ports[1:], answers) if answer.status_code == 200]
    assert set(taken(cloud).values()) == {ports[0], *won}
    assert not any(pci.of_ports(row_of(cloud, server)['flavor']).keys() - {ports[0], *won} for server in servers)


@pytest.mark.parametrize('step', ['the network service', 'the driver'])
def test_a_failed_attachment_gives_the_device_back(cloud, step):
    server, port = boot(cloud), port_of(cloud)
    driver = driver_of(cloud, server)
    if step == 'the driver':
        driver.machine.failures['attach_interface'] = exception.VirtError(operation='plug', reason='the guest is busy')
    else:
        cloud.neutron.hosts.clear()                    # no agent: the binding fails
    try:
        assert attach(cloud, server, port).status_code == 500
    finally:
        driver.machine.failures.pop('attach_interface', None)
        cloud.neutron.hosts.update(HOSTS)
    assert taken(cloud) == {} and place(cloud, port) == ('', None) and given(cloud, server) == []
    assert 'pci_requests' not in row_of(cloud, server)['flavor']
    assert attach(cloud, server, port).status_code == 200


def test_a_device_that_the_guest_holds_stays_its_own_until_it_lets_go(cloud):
    """It would be another guest's while this one writes into memory through it."""
    server, port = boot(cloud), port_of(cloud)
    machine = driver_of(cloud, server).machine
    held = exception.VirtError(operation='unplug', reason='the guest does not let it go')
    machine.failures.update(attach_interface=held, detach_interface=held)
    assert attach(cloud, server, port).status_code == 500
    assert list(taken(cloud).values()) == [port] and not no_task(cloud)
    refused = cloud.boss.post(f'/servers/{server}/action', {'migrate': None})
    assert refused.status_code == 409 and 'being attached or detached' in message(refused)
    machine.failures.clear()
    table = tables_cell.instance_actions
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(table).where(table.c.finished_at.is_(None)).values(deadline=utils.utcnow()))
    conductor(cloud).reconciler.reconcile()
    settle(cloud)
    assert taken(cloud) == {} and place(cloud, port) == ('', None)
    # a detachment that fails leaves all as it was
    assert attach(cloud, server, port).status_code == 200
    machine.failures['detach_interface'] = held
    assert detach(cloud, server, port).status_code == 202
    settle(cloud)
    machine.failures.clear()
    assert list(taken(cloud).values()) == [port] and given(cloud, server) == [place(cloud, port)[1]]


def test_a_server_that_is_deleted_in_the_middle_leaves_no_claim(cloud):
    server, port = boot(cloud), port_of(cloud)
    machine = driver_of(cloud, server).machine
    machine.delays['attach_interface'] = 0.5
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            attached = pool.submit(attach, cloud, server, port)
            waiting.wait_for(lambda: place(cloud, port)[1], 20, 'the port')
            assert cloud.demo.delete(f'/servers/{server}').status_code == 204
            attached.result()
    finally:
        machine.delays.clear()
    cloud.demo.wait_for(server, 'DELETED')
    assert taken(cloud) == {}
    waiting.wait_for(lambda: place(cloud, port) == ('', None), 20, 'the port')


def test_a_host_whose_driver_does_not_know_it_is_not_asked(cloud):
    server, port = boot(cloud), port_of(cloud)
    assert attach(cloud, server, port).status_code == 200
    table, host = tables_cell.compute_nodes, row_of(cloud, server)['host']
    with cloud.cell_db.writer() as conn:
        before = compute_nodes.capabilities_of(conn, host, host)
        without = {name: value for name, value in before.items() if name != 'port_devices'}
        conn.execute(sa.update(table).where(table.c.host == host).values(capabilities=without))
    try:
        for answer in (attach(cloud, server, port_of(cloud)), detach(cloud, server, port)):
            assert answer.status_code == 501 and 'does not support this' in message(answer)
    finally:
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.update(table).where(table.c.host == host).values(capabilities=before))
    assert list(taken(cloud).values()) == [port]


def test_claim_of_an_interrupted_attachment_is_settled(cloud):
    """Its server has left the host before that came back: what the network service knows of the port decides."""
    server, port = boot(cloud), port_of(cloud)
    with cloud.cell_db.writer() as conn:
        begin(conn, server, port)
        row = instances.get(conn, server)
        pci_devices.release(conn, row['host'], row['node'], server)
        conn.execute(sa.update(tables_cell.instance_actions).where(
            tables_cell.instance_actions.c.finished_at.is_(None)).values(deadline=utils.utcnow()))
        action = dict(conn.execute(sa.select(tables_cell.instance_actions).where(
            tables_cell.instance_actions.c.finished_at.is_(None))).mappings().one())
    conductor(cloud).reconciler._close_background(action, row)
    assert pci.of_ports(row_of(cloud, server)['flavor']) == {} and no_task(cloud)


@pytest.mark.parametrize('host', ['down', 'gone', 'up'])
def test_claim_of_an_interrupted_detachment_is_released(cloud, host):
    """Its host gave the port back and died: an evacuation would need a device for it. A port that is the server's still
    keeps its device, and so does one whose host is up: the guest may have it, if its owner has deleted it."""
    server, gone, kept = boot(cloud), port_of(cloud), port_of(cloud)
    for port in (gone, kept):
        assert attach(cloud, server, port).status_code == 200
    neutron, table = cloud.neutron.rows['ports'], tables_cell.instance_actions
    neutron[gone].update({'device_id': '', 'device_owner': '', 'binding:host_id': '', 'binding:profile': {}})
    with cloud.cell_db.writer() as conn:
        for port in (gone, kept):
            instance_actions.insert(conn, context.admin_context('req-' + str(uuidlib.uuid4())), [server],
                                    'detach_interface', arguments={'port_id': port})
        row = instances.get(conn, server)
        waiting_for = [dict(each) for each in conn.execute(
            sa.select(table).where(table.c.finished_at.is_(None))).mappings()]
    reconciler = conductor(cloud).reconciler
    with forced_down(cloud, row['host']) if host == 'down' else contextlib.nullcontext():
        for action in waiting_for:
            if host == 'gone':
                reconciler._close_background(action, {**row, 'host': None})
            else:
                reconciler._give_up(action, row)
    left = {gone, kept} if host == 'up' else {kept}
    assert len(waiting_for) == 2 and no_task(cloud)
    assert set(taken(cloud).values()) == pci.of_ports(row_of(cloud, server)['flavor']).keys() == left


@contextlib.contextmanager
def forced_down(cloud, host):
    table = tables_cell.services
    change = sa.update(table).where(table.c.host == host, table.c.topic == 'compute')
    with cloud.cell_db.writer() as conn:
        conn.execute(change.values(forced_down=True))
    try:
        yield
    finally:
        with cloud.cell_db.writer() as conn:
            conn.execute(change.values(forced_down=False))


def begin(conn, server, port):
    """As the API begins to attach a port; the context of the request."""
    caller = context.RequestContext(user_id='u', project_id='p', request_id='req-' + str(uuidlib.uuid4()),
                                    overwrite=False)
    needed = pci.Request(1, ({'dev_type': pci.VIRTUAL, 'physical_network': 'net1'},), request_id=port)
    port_devices.begin(conn, caller, server, actions.ACTIONS['attach_interface'],
                       {'port_id': port, 'network_id': None, 'fixed_ip': None, 'tag': None}, needed, admin=True)
    return caller


def test_a_restart_takes_back_what_a_kill_interrupted(tmp_path):
    """Attachments: killed after the claim, after the port was bound, after the guest had it. Detachments: before the
    guest has let go of it, after that, after the port was given back."""
    neutron = neutron_service.Neutron(HOSTS)
    with neutron_service.listening(neutron) as address:
        cloud = start(tmp_path, neutron, address, functions=6)
        cloud.network = neutron.network(cloud.demo.project_id, **{'provider:physical_network': 'net1'})
        server, coming, going = boot(cloud), *([port_of(cloud) for _ in range(3)] for _ in range(2))
        for port in going:
            assert attach(cloud, server, port).status_code == 200
        leave_half_done(cloud, server, coming, going)
        assert set(taken(cloud).values()) == {*coming, *going} and len(given(cloud, server)) == 2
        cloud.stop(5)
        again = start(tmp_path, neutron, address, functions=6)
        try:
            settle(again)
            assert taken(again) == {} and given(again, server) == []
            assert {place(again, port) for port in (*coming, *going)} == {('', None)}
            assert row_of(again, server)['network_info'] == []
        finally:
            again.stop(5)


def leave_half_done(cloud, server, coming, going):
    """Do what API, compute and network service do until a kill, at three points of an attachment and a detachment."""
    driver, row = driver_of(cloud, server), row_of(cloud, server)
    network = next(part.manager.methods for part in cloud.services if part.binary == 'nova-network')
    shown = {vif['id']: vif for vif in row['network_info']}
    for step, port in enumerate(coming):
        with cloud.cell_db.writer() as conn:
            caller = begin(conn, server, port)
            instance = objects.Instance.from_row(instances.get(conn, server))
            instance.pci_devices = pci.dump(pci_devices.of_instance(conn, server, row['host']))
        vif = network.attach_port(caller, instance=instance, request={
            'port_id': port, 'network_id': None, 'fixed_ip': None, 'tag': None}, attached_by=caller.request_id,
            host=row['host']) if step else None
        if step == 2:
            driver.machine.guests[server]['networks'].append(vif['id'])
            driver.machine.guests[server]['pci_devices'].append(vif['pci_slot'])
            driver.machine.save()
    for step, port in enumerate(going):
        with cloud.cell_db.writer() as conn:
            instance_actions.insert(conn, context.admin_context('req-' + str(uuidlib.uuid4())), [server],
                                    'detach_interface', arguments={'port_id': port})
        if step:
            driver.features[virt.Interfaces].detach_interface(caller, instance, shown[port])
        if step == 2:
            network.detach_port(caller, instance_uuid=server, port_id=port, attached_by=None, host=row['host'])
