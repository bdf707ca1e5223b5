"""Signed messages over a real RabbitMQ: what the broker and its driver do to a message leaves its signature good."""
import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import service
from nova.compute import interface as compute_interface
from nova.conductor.hosts import trusted_keys
from nova.db.servers import instances
from nova.db.services import message_keys
from nova.db.services import services
from nova.rpc import bus as rpc_bus
from nova.tests.integration import servers
from nova.tests.support import message_signatures as parts
from nova.tests.support import outside_services as outside


@pytest.fixture
def fleet(tmp_path):
    made = parts.Fleet(tmp_path, 'require', servers.virtual_host().url)
    yield made
    made.close()


def test_signatures_bind_messages_to_their_sender(fleet, monkeypatch):
    bus, _part = fleet.joined('host1')
    other, _part = fleet.joined('host2')
    assert parts.ask(bus) == []
    target, ctxt, message = bus._transport.seen[-1]
    parts.ignored_raw(bus, target, ctxt, message)
    ctxt['signature'][1], ctxt['is_admin'] = '0' * 24, False
    parts.refused_raw(bus, target, ctxt, message, 'the signature of key')
    with pytest.raises(exception.HostForbidden, match='Host host2'):
        parts.ask(other.of_host('host1'))
    fleet.serve(bus, compute_interface.INTERFACE, fleet.core.computes['host1'], 'host1')
    computes = compute_interface.INTERFACE
    ctx = context.RequestContext(user_id='ü', project_id='p', roles=['member'], overwrite=False)
    assert fleet.control.client(computes).ping(ctx, server='host1') == 'pong'
    parts.refused(lambda: other.client(computes).ping(ctx, server='host1'), 'not approved')
    other.signatures.key = None
    parts.refused(lambda: other.client(computes).ping(ctx, server='host1'), 'it is not signed')
    monkeypatch.setattr(trusted_keys, 'CACHE_LIFETIME_S', 0)
    fleet.core.api_db.run(message_keys.revoke, 'host1')
    parts.refused(lambda: parts.ask(bus), 'not approved: key')


def test_boot_of_a_server_sends_signed_messages_only(fleet):
    """Every message between the services of it, objects and all."""
    uuid = fleet.core.boot()
    bus, _part = fleet.joined('host1')
    with fleet.core.db.reader() as conn:
        home = instances.get(conn, uuid)['host']
    if home != 'host1':
        bus, _part = fleet.joined(home)
    found = parts.ask(bus, home)
    assert [entry['instance'].uuid for entry in found] == [uuid]
    spec = parts.conductor_of(bus).get_request_spec(context.admin_context(), instance_uuid=uuid)
    assert spec.instance_uuid == uuid
    parts.conductor_of(bus).update_instance(
        context.admin_context(), instance_uuid=uuid, expect={'host': [home]},
        values={'launched_at': home and found[0]['instance'].created_at, 'network_info': [{'id': 'é', 'n': 1.5}]})


def test_service_outside_of_this_tree_signs_its_messages(fleet, tmp_path):
    """It signs with the deployment's key, is in the list of services, and takes no message that is not signed."""
    databases = {'api_database__connection': str(fleet.core.api_db.url), 'database__connection': str(fleet.core.db.url)}
    conf = nova_conf.new(files=[], state_path=str(tmp_path / 'outside'), messages__signatures='require',
                         host='elsewhere', report_interval=1, **databases)
    rpc_bus.register_options(conf)
    for name, value in (('transport_url', fleet.url), ('control_exchange', fleet.exchange)):
        conf.set_override(name, value)
    made = service.Service.create(binary='nova-counter', manager=outside.CounterManager, conf=conf)
    made.start()
    try:
        client, caller = fleet.control.client(outside.COUNTER), context.admin_context()
        assert client.add(caller, number=3) == 3 and client.add(caller, number=4, server='elsewhere') == 7
        with fleet.core.db.reader() as conn:
            assert ('nova-counter', 'elsewhere') in {(row['binary'], row['host']) for row in services.list(conn)}
        other, _part = fleet.host('host1')
        parts.refused(lambda: other.client(outside.COUNTER).add(caller, number=1), 'it is not signed')
        assert client.add(caller, number=0) == 7
    finally:
        assert made.stop(10) is True
    assert made.manager.calls[-1] == 'cleanup_host'
