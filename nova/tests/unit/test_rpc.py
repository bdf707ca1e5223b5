"""The bus over the in-process driver: what arrives, what comes back, what happens when nobody answers."""
import datetime
import threading
import time
import uuid

import oslo_messaging
import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova.rpc import bus
from nova.rpc import errors
from nova.rpc import inprocess
from nova.rpc import serializer
from nova.rpc import signatures
from nova.rpc import versions
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.rpc.interface import Methods
from nova.rpc.interface import Newer
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.tests.support.rpc import CONTEXT
from nova.tests.support.rpc import ECHO
from nova.tests.support.rpc import Manager
from nova.tests.support.rpc import make_bus


@pytest.fixture
def served():
    """(client, manager, bus) with one server 'one'."""
    made = make_bus()
    manager = Manager()
    server = made.serve(ECHO, manager, 'one')
    server.start()
    yield made.client(ECHO), manager, made
    server.stop()
    server.wait(20)


@pytest.mark.parametrize('value', [
    None, 1, 'text', [1, {'a': [None, True]}], {'deep': {'er': ['x']}}, datetime.datetime(2026, 11, 21, 6, 30, 1, 5),
    {'launched_at': datetime.datetime(2026, 11, 21)}, b'\x00\xff', [b'', {'k': b'x'}],
])
def test_values_come_back_as_they_went(served, value):
    client, _manager, _bus = served
    assert client.echo(CONTEXT, value=value) == value


def test_objects_travel_and_are_copies(served):
    client, _manager, _bus = served
    instance = objects.Instance(uuid=str(uuid.uuid4()), host='h', metadata={'a': ['b']},
                                created_at=datetime.datetime(2026, 1, 2, 3, 4, 5))
    back, = client.echo(CONTEXT, value=[instance])
    assert isinstance(back, objects.Instance)
    assert back is not instance and back.metadata is not instance.metadata
    assert back.as_dict() == instance.as_dict()


def test_a_receiver_cannot_change_what_the_sender_holds(served):
    client, _manager, _bus = served
    value = {'seen': False}
    client.seen_by(CONTEXT, value=value)
    assert value == {'seen': False}


@pytest.mark.parametrize('value', [object(), {1, 2}, {'f': len}])
def test_unserializable_argument_is_refused_at_the_sender(served, value):
    client, _manager, _bus = served
    with pytest.raises(TypeError):
        client.echo(CONTEXT, value=value)


def test_the_context_goes_along(served):
    client, _manager, _bus = served
    seen = context.RequestContext.from_dict(client.whoami(CONTEXT), overwrite=False)
    for name in ('request_id', 'user_id', 'project_id', 'roles', 'remote_address', 'is_admin'):
        assert getattr(seen, name) == getattr(CONTEXT, name), name


def test_an_unknown_argument_is_a_type_error(served):
    client, _manager, _bus = served
    with pytest.raises(TypeError, match='colour'):
        client.echo(CONTEXT, value=1, colour='red')


def test_a_domain_error_comes_back_as_its_class(served):
    client, _manager, _bus = served
    with pytest.raises(exception.InstanceInvalidState) as caught:
        client.fail(CONTEXT, kind='domain')
    assert type(caught.value) is exception.InstanceInvalidState
    assert str(caught.value) == "Cannot 'stop' instance i while it is in vm_state paused"
    assert caught.value.kwargs['state'] == 'paused'


def test_error_of_a_class_of_the_server_arrives_as_its_base_class_with_its_text(served):
    client, _manager, _bus = served
    with pytest.raises(exception.VirtError, match='^The pool vms is full.$') as failure:
        client.fail(CONTEXT, kind='foreign')
    assert type(failure.value) is exception.VirtError


def test_messages_are_sent_while_no_thread_can_start(monkeypatch):
    """The call that was due to look for a new key or for newer services failed."""
    keys = signatures.Signatures(signatures.REQUIRE)
    key = signatures.Key()
    keys.follow(lambda: key)
    pins = versions.Pins(nova_conf.new(files=[]))
    pins.follow(lambda: {'compute': versions.VERSION})

    def fails(*arguments):
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(concurrency, 'spawn', fails)
    keys._due = pins._due = 0
    assert signatures.FIELD in keys.signed('echo', None, {}, {'method': 'echo'})
    assert pins.of('compute') is not None


def test_any_other_error_comes_back_without_its_text(served):
    client, _manager, _bus = served
    with pytest.raises(exception.RemoteError) as caught:
        client.fail(CONTEXT, kind='other')
    assert 'canary' not in str(caught.value)
    assert caught.value.kwargs['type'] == 'ZeroDivisionError'


def test_call_without_an_answer_in_time_raises(served):
    client, manager, _bus = served
    begun = time.monotonic()
    with pytest.raises(exception.ServiceUnavailable):
        client.slow(CONTEXT, seconds=60)
    assert 0.15 < time.monotonic() - begun < 30
    manager.go.set()


def test_a_call_that_nobody_took_is_not_done_later():
    """A server that starts after the caller gave up does not run the stale request."""
    made = make_bus()
    client = made.client(Interface('echo', '1.0', Method('slow', ('seconds',), call=True, timeout=0.1),
                                   Method('remember', ('value',))))
    with pytest.raises(exception.Unavailable):
        client.slow(CONTEXT, seconds=0)
    client.remember(CONTEXT, value='kept')
    manager = Manager()
    server = made.serve(ECHO, manager, 'one')
    server.start()
    assert manager.event.wait(20)
    server.stop()
    assert server.wait(20)
    assert manager.remembered == ['kept']


def test_an_unreachable_compute_is_named():
    compute = Interface('compute', '1.0', Method('ping', (), call=True, timeout=0.05))
    with pytest.raises(exception.HostUnavailable, match='host9'):
        make_bus().client(compute).ping(CONTEXT, server='host9')


def test_a_message_that_no_service_receives_is_logged_with_its_reason_once(served, monkeypatch, caplog):
    """oslo.messaging's error has no text: 'refresh_ports could not be sent to network:' said no more than that."""
    client, _manager, _bus = served

    def fail(*_args, **_more):
        raise oslo_messaging.MessageUndeliverable('312 NO_ROUTE', 'nova', 'echo', None)
    with caplog.at_level('DEBUG', logger='nova.rpc.bus'):
        for _attempt in range(3):
            with monkeypatch.context() as patched, pytest.raises(exception.ServiceUnavailable):
                patched.setattr(inprocess.Driver, 'send', fail)
                client.echo(CONTEXT, value=1)
        assert client.echo(CONTEXT, value=1) == 1                # a service is there: its loss is news again
        with monkeypatch.context() as patched, pytest.raises(exception.ServiceUnavailable):
            patched.setattr(inprocess.Driver, 'send', fail)
            client.echo(CONTEXT, value=1)
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if 'could not be sent' in record.msg]
    assert [level for level, _text in logged] == ['WARNING', 'DEBUG', 'DEBUG', 'WARNING']
    assert {text for _level, text in logged} == {'echo could not be sent to echo: no running service receives it'}


def test_a_notice_to_all_without_a_receiver_is_no_failure(monkeypatch, caplog):
    """Without agents each change of a port was a WARNING, and NovaMessagesFail fired."""
    bus = make_bus()
    notice = Interface('network_agent', '1.0', Method('changed', fanout=True))

    def fail(*_args, **_more):
        raise oslo_messaging.MessageUndeliverable('312 NO_ROUTE', 'nova', 'network_agent', None)
    monkeypatch.setattr(inprocess.Driver, 'send', fail)
    client = bus.client(notice)
    sent = metrics.RPC_SENT.labels('network_agent', 'changed', 'unavailable')._value
    before = sent.get()
    with caplog.at_level('INFO', logger='nova.rpc.bus'):
        assert client.changed(CONTEXT) is None
    assert sent.get() == before and not caplog.records
    with pytest.raises(exception.ServiceUnavailable):
        client.changed(CONTEXT, server='host1')


@pytest.mark.parametrize('error, reason', [
    (OSError(), 'OSError'), (ConnectionRefusedError(111, 'refused'), '[Errno 111] refused'),
    (oslo_messaging.MessageUndeliverable('x', 'nova', 'network', None), 'no running service receives it')])
def test_every_message_that_was_not_sent_has_a_reason(error, reason):
    assert errors.reason(error) == reason


def test_a_server_gets_its_own_messages_and_the_topic_is_shared():
    made = make_bus()
    servers = []
    for name in ('one', 'two'):
        server = made.serve(ECHO, Manager(name), name)
        server.start()
        servers.append(server)
    client = made.client(ECHO)
    assert {client.seen_by(CONTEXT, server='two', value={}) for _ in range(4)} == {'two'}
    assert {client.seen_by(CONTEXT, value={}) for _ in range(4)} == {'one', 'two'}
    servers[0].stop()
    assert {client.seen_by(CONTEXT, value={}) for _ in range(4)} == {'two'}
    servers[0].wait(20)
    servers[1].stop()
    servers[1].wait(20)


def test_buses_of_other_names_do_not_hear_each_other(served):
    _client, manager, _bus = served
    make_bus().client(ECHO).remember(CONTEXT, value='elsewhere')
    time.sleep(0.05)
    assert manager.remembered == []


def test_a_stopping_server_finishes_what_runs():
    made = make_bus()
    manager = Manager()
    server = made.serve(ECHO, manager, 'one')
    server.start()
    with pytest.raises(exception.Unavailable):
        made.client(ECHO).slow(CONTEXT, seconds=60)
    server.stop()
    assert server.wait(0.01) is False
    manager.go.set()
    assert server.wait(20) is True
    assert manager.event.is_set()


def test_messages_wait_for_the_next_server(served):
    client, manager, made = served
    client.remember(CONTEXT, server='late', value=7)
    late = Manager()
    server = made.serve(ECHO, late, 'late')
    server.start()
    assert late.event.wait(20)
    assert late.remembered == [7] and manager.remembered == []
    server.stop()
    server.wait(20)


def test_a_server_of_an_older_version_refuses_a_newer_method():
    made = make_bus()
    older = Interface('echo', '1.1', *ECHO.methods.values())
    server = made.serve(older, Manager(), 'one')
    server.start()
    with pytest.raises(exception.Unsupported, match='newer needs services of a newer version'):
        made.client(ECHO).newer(CONTEXT)
    server.stop()
    server.wait(20)


def test_a_manager_must_have_every_method():
    with pytest.raises(TypeError, match='Half lacks .*echo'):
        make_bus().serve(ECHO, type('Half', (), {})(), 'one')


PAIR = Interface('pair', '1.1', Method('fetch', ('key',), call=True),
                 Method('put', ('key', 'note'), newer=(Newer('note', '1.1', optional=True),)))


def fetch(ctx, key):
    return key


def put(ctx, key, note=None):
    pass


def test_a_table_of_methods_is_called_by_name_and_by_attribute():
    methods = Methods(PAIR, {'fetch': fetch, 'put': put})
    assert methods['fetch'](None, key=1) == 1 and methods.put(None, 2) is None and set(methods) == {'fetch', 'put'}
    with pytest.raises(AttributeError):
        _ = methods.other


@pytest.mark.parametrize('table, error', [
    ({'fetch': fetch}, 'lacks put of the pair interface'),
    ({'fetch': fetch, 'put': put, 'other': fetch}, 'has other, which'),
    ({'fetch': fetch, 'put': fetch}, 'pair.put takes key, note, its callable key'),
    ({'fetch': fetch, 'put': lambda ctx, key, note: None}, 'pair.put: arguments that came later need a default')])
def test_a_table_that_does_not_fit_its_interface_is_refused(table, error):
    with pytest.raises(TypeError, match=error):
        Methods(PAIR, table)


@pytest.mark.parametrize('of', [dict, lambda table: type('Manager', (), {'methods': table})()])
def test_a_server_takes_a_table_of_methods_or_its_owner(of):
    made = make_bus()
    server = made.serve(PAIR, of(Methods(PAIR, {'fetch': fetch, 'put': put})), 'one')
    server.start()
    assert made.client(PAIR).fetch(CONTEXT, key='k') == 'k'
    server.stop()
    server.wait(20)


def test_only_the_rows_can_be_called(served):
    _client, _manager, made = served
    sneaky = made.client(Interface('echo', '1.0', Method('__init__', (), call=True),
                                   Method('name', (), call=True)))
    for name in ('__init__', 'name'):
        with pytest.raises(exception.RemoteError):
            sneaky._methods[name](CONTEXT)


def test_concurrent_calls_get_their_own_answers(served):
    client, _manager, _bus = served
    wrong = []

    def run(offset):
        for number in range(offset, offset + 50):
            if client.echo(CONTEXT, value=number) != number:
                wrong.append(number)
    threads = [threading.Thread(target=run, args=(1000 * index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_round_trip_waits_for_no_poll(served):
    client, _manager, _bus = served
    times = []
    for _ in range(500):
        begun = time.perf_counter()
        client.echo(CONTEXT, value={'a': 1})
        times.append(time.perf_counter() - begun)
    assert min(times) < 0.005                # in which nobody else had the processor; a poll takes 10 ms and longer


def test_the_serializer_refuses_what_json_lacks():
    with pytest.raises(TypeError, match='complex'):
        serializer.to_primitive({'x': 1j})


def test_a_bad_transport_url_is_a_sentence():
    with pytest.raises(exception.InvalidInput, match='nosuch'):
        bus.Bus(nova_conf.new(files=[]), 'nosuch://host/')


@pytest.mark.parametrize('url', [
    'rabbit://u:s3cret/x@h/', 'rabbit://u:s3cret#x@h/', 'rabbit://u:s3cret?x@h/', 'rabbit://u:s3cret,x@[fd00::1]/'])
def test_error_of_a_malformed_transport_url_has_no_part_of_the_password(url):
    with pytest.raises(exception.InvalidInput, match='percent-encode') as caught:
        bus.Bus(nova_conf.new(files=[]), url)
    assert 's3cret' not in str(caught.value) and caught.value.__cause__ is None


def test_a_probe_that_finds_no_broker_says_so(monkeypatch):
    """What kombu lets through of a connection that hangs is no error of the service."""
    from kombu import exceptions
    made = make_bus()
    server = made.serve(ECHO, Manager(), 'one')
    for error, raised in ((exceptions.OperationalError('timed out'), exception.ServiceUnavailable),
                          (ConnectionRefusedError(), exception.ServiceUnavailable), (KeyError('x'), KeyError)):
        def fail(*_args, error=error, **_more):
            raise error
        monkeypatch.setattr(inprocess.Driver, 'send', fail)
        with pytest.raises(raised):
            server.probe(CONTEXT, 'token')


NOW = datetime.datetime(2026, 11, 22, 6, 30)
TIME_LIKE = {'nova_time': '2026-01-01T00:00:00'}


@pytest.mark.parametrize('written', [
    TIME_LIKE, {'nova_time': 'x'}, {'nova_bytes': 'QUJD'}, {'nova_bytes': '!'}, {'nova_dict': [['a', 1]]},
    {'nova_object.name': 'Instance'}, {'a': [{'nova_object.name': 'x', 'b': TIME_LIKE}]},
    {'nova_object.name': 'Instance', 'nova_object.namespace': 'nova', 'nova_object.version': '1.0',
     'nova_object.data': {'uuid': 'x'}}])
def test_user_data_is_never_read_as_a_serializer_tag(written):
    """Metadata of a server with the key nova_time arrived as a datetime, or their message failed at its receiver."""
    sent = {'plain': written, 'at': NOW, 'instance': objects.Instance(metadata=written, vm_state='active'), 'b': b'x'}
    for manifest in (None, {'Instance': '1.0'}):
        found = serializer.from_primitive(serializer.to_primitive(sent, manifest))
        assert found['plain'] == written and found['at'] == NOW and found['b'] == b'x'
        assert found['instance'].metadata == written and found['instance'].vm_state == 'active'


def test_full_queue_of_a_stopped_server_does_not_keep_a_fanout_from_others(monkeypatch):
    monkeypatch.setattr(inprocess, 'QUEUE_LIMIT', 1)
    conf = nova_conf.new(files=[])
    driver = inprocess.Driver(conf, oslo_messaging.TransportURL.parse(conf, 'nova-inprocess:///full'), 'nova')
    received = []
    driver.listen(oslo_messaging.Target(topic='t', server='stopped'), 1, None)
    target = oslo_messaging.Target(topic='t', fanout=True)
    driver._broker.queue('nova', 't', 'stopped')
    driver.send(target, {}, {'method': 'first'})
    driver.listen(oslo_messaging.Target(topic='t', server='serves'), 1, None).start(
        lambda incoming: received.extend(each.message['method'] for each in incoming))
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        driver.send(target, {}, {'method': 'second'})
    assert received == ['second']
