"""The driver for RabbitMQ without a broker: its frames as pamqp reads them, its messages as oslo.messaging does."""
import dataclasses
import json
import socket
import ssl
import sys
import threading

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies
import oslo_messaging
from oslo_messaging._drivers import common
import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame

from nova import conf as nova_conf
from nova import exception
from nova.rpc import bus
from nova.rpc import transport_url
from nova.rpc.rabbit import driver
from nova.rpc.rabbit import envelope
from nova.rpc.rabbit import frames
from nova.rpc.rabbit import link
from nova.rpc.rabbit import session as rabbit_session
from nova.rpc.rabbit import settings
from nova.rpc.rabbit import stream
from nova.runtime import certificates


def read(data):
    """The frames that pamqp finds."""
    found = []
    while data:
        used, channel, frame = pamqp_frame.unmarshal(data)
        found.append((channel, frame))
        data = data[used:]
    return found


@pytest.mark.parametrize('size', [2, 100, 5000])
@pytest.mark.parametrize('expires_ms', [None, 60000])
def test_a_message_is_what_the_specification_says(size, expires_ms):
    body = b'x' * size
    data = frames.publish(1, 'nova', 'compute.h1', body, 7, mandatory=True, expires_ms=expires_ms, limit=1024)
    (_, method), (_, header), *rest = read(data)
    assert (method.exchange, method.routing_key, method.mandatory, method.immediate) == (
        'nova', 'compute.h1', True, False)
    found = header.properties
    assert (found.content_type, found.content_encoding, found.delivery_mode, found.message_id) == (
        'application/json', 'utf-8', 2, '7')
    assert found.expiration == (None if expires_ms is None else '60000')
    assert header.body_size == size and b''.join(frame.value for _channel, frame in rest) == body
    assert {channel for channel, _frame in read(data)} == {1}
    _method, (_kind, _channel, payload), *_bodies = frames.Splitter(1 << 20).split(data)
    assert frames.number_of(payload) == 7


@hypothesis_settings(deadline=None)
@given(strategies.lists(strategies.binary(max_size=50), min_size=1, max_size=5), strategies.data())
def test_frames_come_in_any_pieces(bodies, data):
    written = b''.join(frames.publish(1, '', 'q', body, 1, mandatory=False, expires_ms=None, limit=64)
                       for body in bodies) + frames.HEARTBEAT_FRAME
    splitter, found = frames.Splitter(64), []
    while written:
        size = data.draw(strategies.integers(1, len(written)))
        found += splitter.split(written[:size])
        written = written[size:]
    assert found[-1] == (frames.HEARTBEAT, 0, b'')
    assert b''.join(payload for kind, _channel, payload in found if kind == frames.BODY) == b''.join(bodies)


@pytest.mark.parametrize('data', [b'\x01\x00\x01\x00\xff\xff\xff' + b'x' * 20, b'\x01\x00\x01\x00\x00\x00\x02xxx'])
def test_malformed_frame_closes_the_connection(data):
    with pytest.raises(ConnectionError):
        list(frames.Splitter(4096).split(data))


def test_small_frames_are_read_by_pamqp():
    (_, acknowledged), (_, rejected) = read(frames.acknowledge(2, 9, True) + frames.put_back(2, 10))
    assert (acknowledged.name, acknowledged.delivery_tag, acknowledged.multiple) == ('Basic.Ack', 9, True)
    (_, single), = read(frames.acknowledge(2, 9, False))
    assert (single.name, single.delivery_tag, single.multiple) == ('Basic.Ack', 9, False)
    assert (rejected.name, rejected.delivery_tag, rejected.requeue) == ('Basic.Reject', 10, True)


def payload(method):
    return pamqp_frame.marshal(method, 1)[7:-1]


def test_small_frames_of_pamqp_are_read():
    assert frames.delivery(payload(commands.Basic.Deliver('t1', 5, False, 'nova', 'compute'))) == ('t1', 5)
    assert frames.returned(payload(commands.Basic.Return(312, 'NO_ROUTE', 'nova', 'compute.x'))) == (312, 'NO_ROUTE')
    assert frames.confirm(payload(commands.Basic.Ack(3, True))) == (3, True)
    assert frames.confirm(payload(commands.Basic.Nack(4, False, True))) == (4, False)


def test_a_long_name_is_an_error_and_not_another_name():
    with pytest.raises(ValueError):
        frames.publish(1, 'nova', 'x' * 256, b'{}', 1, mandatory=False, expires_ms=None, limit=4096)


def test_messages_are_those_of_the_other_driver():
    body = envelope.pack({'method': 'echo', 'args': {'value': 1}}, {'request_id': 'r'}, _msg_id='m')
    inner = common.deserialize_msg(json.loads(body))
    assert inner.pop('_unique_id')
    assert inner == {'method': 'echo', 'args': {'value': 1}, '_context_request_id': 'r', '_msg_id': 'm'}
    theirs = common.serialize_msg({'method': 'echo', 'args': {}, '_context_request_id': 'r'})
    assert envelope.parts(envelope.unpack(json.dumps(theirs).encode())) == (
        {'request_id': 'r'}, {'method': 'echo', 'args': {}})


@pytest.mark.parametrize('body', [b'', b'{', b'[]', b'{"oslo.version": "3.0", "oslo.message": "{}"}',
                                  b'{"oslo.version": "2.0", "oslo.message": "[]"}', b'\xff',
                                  b'{"oslo.version": "2.0"}', b'{"oslo.version": "2.0", "oslo.message": {}}'])
def test_malformed_message_is_refused(body):
    with pytest.raises(ValueError):
        envelope.unpack(body)


def test_a_message_that_comes_again_is_known():
    numbers, remembered = envelope.Numbers(50), envelope.MAX_NUMBERS + 50
    assert numbers.is_new({'_unique_id': 'a'}) and not numbers.is_new({'_unique_id': 'a'})
    assert all(numbers.is_new({'_unique_id': str(number)}) for number in range(remembered - 1))
    assert not numbers.is_new({'_unique_id': 'a'})             # and is remembered as the last one
    assert all(numbers.is_new({'_unique_id': f'b{number}'}) for number in range(remembered))
    assert numbers.is_new({'_unique_id': 'a'})                 # forgotten at last
    assert numbers.is_new({}) and numbers.is_new({})           # without a number each is new
    long = 'a' * (envelope.MAX_NUMBER_LENGTH + 1)
    assert numbers.is_new({'_unique_id': long}) and numbers.is_new({'_unique_id': long})     # not kept


def configured(url='nova-rabbit://u:p%40@one,[fd00::1]:5673/v', **options):
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    for name, value in options.items():
        conf.set_override(name, value, group='oslo_messaging_rabbit')
    return conf, settings.of(conf.oslo_messaging_rabbit, transport_url.parse(conf, url))


def test_transport_urls_and_options_are_parsed():
    _conf, found = configured()
    assert [(each.host, each.port, each.user, each.password) for each in found.brokers] == [
        ('one', 5672, 'u', 'p@'), ('fd00::1', 5673, '', '')]
    assert (found.virtual_host, found.tls, found.certificate) == ('v', None, False)
    assert 'p@' not in repr(found)
    assert configured('nova-rabbit://one')[1].virtual_host == '/'
    assert found.prefetch == settings.PREFETCH and configured(rabbit_qos_prefetch_count=7)[1].prefetch == 7
    assert [found.waited(number) for number in (0, 1, 3)] == [0, 1, 9]


@pytest.mark.parametrize('hosts, found', [
    ('u:p@one,u:q@[fd00::1]:5673', [('one', None, 'u', 'p'), ('fd00::1', 5673, 'u', 'q')]),
    ('u:p@[fd00::1]:5673,[fd00::2],two:5674', [
        ('fd00::1', 5673, 'u', 'p'), ('fd00::2', None, None, None), ('two', 5674, None, None)]),
    ('[fd00::1]:5673,u:p%2F%5B@two', [('fd00::1', 5673, None, None), ('two', None, 'u', 'p/[')]),
    ('[fd00::1],', [('fd00::1', None, None, None)]),
    ('[::ffff:192.0.2.1]:5673', [('::ffff:192.0.2.1', 5673, None, None)]),
    ('u:p@one,two', [('one', None, 'u', 'p'), ('two', None, None, None)])])
@pytest.mark.parametrize('rest', ['', '/', '/v', '/v?ssl=true'])
def test_brokers_by_ipv6_address_are_parsed_with_every_python(hosts, found, rest):
    conf, _settings = configured()
    url = transport_url.parse(conf, f'nova-rabbit://{hosts}{rest}')
    assert [(host.hostname, host.port, host.username, host.password) for host in url.hosts] == found
    assert (url.transport, url.virtual_host) == ('nova-rabbit', {'': None, '/': ''}.get(rest, 'v'))
    assert url.query == ({'ssl': 'true'} if '?' in rest else {})


@pytest.mark.parametrize('url', ['nova-rabbit://u:secret@[fd00::1', 'nova-rabbit://u:secret@x[fd00::1]:5673/',
                                 'nova-rabbit://u:secret@[fd00::1]x,two/', 'nova-rabbit://u:secret@[10.0.0.1],two/'])
def test_an_ipv6_address_that_is_none_is_refused_without_the_password(url):
    with pytest.raises(exception.InvalidInput, match='transport_url: ') as refused:
        bus.Bus(configured()[0], url)
    assert 'secret' not in str(refused.value)


def test_tls_looks_at_the_certificate_and_its_name():
    context = configured(ssl=True)[1].tls
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname


@pytest.mark.parametrize('name, value', [('rabbit_ha_queues', True), ('use_queue_manager', True),
                                         ('kombu_compression', 'gzip'), ('ssl_ca_file', '/nowhere/ca.pem')])
def test_options_that_it_cannot_follow_are_refused(name, value):
    conf, _settings = configured()
    conf.set_override('ssl', name == 'ssl_ca_file', group='oslo_messaging_rabbit')
    conf.set_override(name, value, group='oslo_messaging_rabbit')
    with pytest.raises(exception.InvalidInput, match=name if name != 'ssl_ca_file' else 'certificates'):
        bus.Bus(conf, 'nova-rabbit://one/')


@pytest.mark.parametrize('pause, longer, longest', [(1, 2, 15), (1, 0, 30), (2, 2, 2), (5, 1, 3), (1, 2, 30)])
def test_attempts_without_bounds_are_counted_at_once(pause, longer, longest):
    """Notifications try for ever, by sys.maxsize: one by one, none was ever sent."""
    found = dataclasses.replace(configured()[1], pause=pause, longer=longer, longest=longest)
    for attempts in (0, 1, 2, 7, 8, 9, 40):
        assert found.waited(attempts) == sum(min(pause + number * longer, longest) for number in range(attempts))
    assert found.waited(sys.maxsize) > 1e18


def test_queue_durability_follows_the_topology_options():
    options = configured()[0].oslo_messaging_rabbit
    topology = settings.Topology(options, set())
    passing = topology.topic_queue('nova', 'compute.h1')
    assert not passing.durable and passing.exchange.durable and not passing.arguments
    notified = topology.notification_queue('nova', 'notifications.info')        # nobody sends it again
    assert notified.durable and notified.exchange.durable and notified.arguments == {'x-queue-type': 'quorum'}
    topology = settings.Topology(options, settings.DURABILITY_OPTIONS)
    queue = topology.topic_queue('nova', 'compute.h1')
    assert (queue.name, queue.key, queue.exchange.name, queue.exchange.kind) == (
        'compute.h1', 'compute.h1', 'nova', 'topic')
    assert queue.durable and queue.exchange.durable and queue.arguments == {'x-queue-type': 'quorum'}
    reply = topology.reply_queue('reply_h:1')
    assert (reply.exchange, reply.durable, reply.arguments) == (None, False, {'x-expires': 1800000})
    assert reply.as_durable() == dataclasses.replace(
        reply, durable=True, arguments={'x-queue-type': 'quorum', 'x-expires': 1800000})
    assert queue.as_durable() is queue
    assert passing.as_durable().arguments == {'x-queue-type': 'quorum'}
    fanout = topology.fanout_queue('compute')
    assert fanout.as_durable().exchange == dataclasses.replace(fanout.exchange, durable=True)
    assert fanout.own and fanout.exchange.auto_delete and fanout.name.startswith('compute_fanout_')


@pytest.fixture
def connected(tmp_path):
    """(a Stream with TLS, the broker's end of it)."""
    authority = certificates.Authority(tmp_path)
    context = certificates.server_context(authority.pair('broker', ['localhost']))
    ours, theirs = socket.socketpair()
    for side in (ours, theirs):
        side.settimeout(60)              # of a whole write
    broker = []
    thread = threading.Thread(target=lambda: broker.append(context.wrap_socket(theirs, server_side=True)))
    thread.start()
    made = stream.Stream(ours, ssl.create_default_context(cafile=authority.trusted), 'localhost')
    thread.join()
    yield made, broker[0]
    made.close()
    broker[0].close()


def test_a_broker_that_does_not_read_is_read_over_tls(connected):
    """Its Connection.Blocked was read after the timeout of the writer, when the connection was lost."""
    made, broker = connected
    sent = bytes(range(256)) * 8000
    writer = threading.Thread(target=made.write, args=(sent,))
    writer.start()
    writer.join(0.2)
    broker.sendall(b'blocked')
    assert made.read() == b'blocked' and writer.is_alive()
    got = bytearray()
    while len(got) < len(sent):
        got += broker.recv(1 << 20)
    writer.join()
    made.write(b'next')
    assert got == sent and broker.recv(100) == b'next'


# ---- acknowledgements

@pytest.fixture
def reading(monkeypatch):
    """(a Link without a broker, function that delivers a message to it, function that returns what it has written)."""
    made, written = object.__new__(link.Link), []
    made._settling, made._unsettled, made._settled, made._singly = threading.Lock(), set(), [], False
    made._reader, made._blocked, made._contents, kept = threading.get_ident(), False, {}, []
    made._asking, made._answer, made._answers = threading.Lock(), threading.Condition(), []
    monkeypatch.setattr(made, 'write', written.append)

    def take(body, acknowledge):
        kept.append(acknowledge)
        if body == b'now':
            acknowledge()
        return body != b'no'
    made._consumers = {'t': take}

    def deliver(tag, body):
        content = made._contents[link.CONSUMING] = link._Content(frames.DELIVER, payload(
            commands.Basic.Deliver('t', tag, False, 'nova', 'echo')))
        content.parts.append(body)
        made._arrived(link.CONSUMING)
        return kept[-1]

    def found():
        frames_found, written[:] = read(b''.join(written)), []
        return [(frame.name.partition('.')[2], frame.delivery_tag, getattr(frame, 'multiple', None))
                for _channel, frame in frames_found]
    return made, deliver, found


def in_a_worker(function):
    worker = threading.Thread(target=function)
    worker.start()
    worker.join()


def test_a_channel_that_the_broker_closes_ends_the_connection_unless_it_is_an_answer(reading):
    """The service got no message any more, for example after the broker's consumer timeout."""
    made, _deliver, _found = reading
    closed = commands.Channel.Close(406, 'PRECONDITION_FAILED - delivery acknowledgement timed out', 0, 0)
    with made._asking:
        made._rare(link.CONSUMING, closed)
    assert made._answers == [closed]
    with pytest.raises(ConnectionError, match='timed out'):
        made._rare(link.CONSUMING, closed)


def test_messages_that_are_acknowledged_on_receipt_get_one_frame(reading):
    made, deliver, found = reading
    again = [deliver(tag, b'now') for tag in (1, 2, 3)][-1]
    again()
    assert found() == []                      # before the next read
    made._acknowledge()
    again()
    made._acknowledge()
    assert found() == [('Ack', 3, True)]


def test_message_that_waits_is_acknowledged_by_its_worker(reading):
    """All messages were acknowledged on receipt: one process took the whole backlog of a queue."""
    made, deliver, found = reading
    deliver(1, b'now')
    later = deliver(2, b'later')
    deliver(3, b'now')
    made._acknowledge()
    assert found() == [('Ack', 1, False), ('Ack', 3, False)]
    in_a_worker(later)
    in_a_worker(later)                        # does nothing
    assert found() == [('Ack', 2, False)]     # at once: the reading thread may wait for the broker


def test_acknowledgements_wait_while_the_broker_reads_nothing(reading):
    made, deliver, found = reading
    later = deliver(1, b'later')
    made._blocked = True
    in_a_worker(later)
    made._acknowledge()
    assert found() == []
    made._blocked = False
    made._acknowledge()
    assert found() == [('Ack', 1, True)]


def test_refused_message_is_not_acknowledged(reading):
    made, deliver, found = reading
    deliver(1, b'no')()
    made._acknowledge()
    assert found() == [('Reject', 1, None)]


# ---- delivery

class Session(rabbit_session.Session):
    """A session without a broker: it records what it sends."""

    def __init__(self):
        super().__init__(configured()[1])
        self.sent, self._closed = [], True

    def publish(self, message):
        self.sent.append(message)

    def _deliver_later(self, message):
        """Do nothing: the test sends the message again."""

    def confirm(self, failure=None):
        """Confirm the last message, after it was returned if ``failure`` is not None."""
        self.sent[-1].failure = failure
        self._confirmed({1: self.sent[-1]}, 1, False, True)


GONE = oslo_messaging.MessageUndeliverable('312 NO_ROUTE', '', 'reply_x', None)


def test_heartbeats_continue_after_the_caller_has_redeclared_its_queue():
    """After a restart of the broker the first returned heartbeat was the last one of the call."""
    session = Session()
    incoming = driver.Incoming(driver.Answers(session, 60), {
        'method': 'echo', envelope.CALL: 'n', envelope.REPLIES: 'reply_x', envelope.MONITORED: 60},
        lambda: None)
    incoming.heartbeat()
    session.confirm(GONE)                     # the caller has not redeclared its queue yet
    incoming.heartbeat()
    assert len(session.sent) == 1             # the session still delivers the first heartbeat
    session.confirm()
    incoming.heartbeat()
    assert len(session.sent) == 2


def test_heartbeats_end_if_the_queue_of_the_caller_stays_missing():
    session = Session()
    incoming = driver.Incoming(driver.Answers(session, 0), {
        'method': 'echo', envelope.CALL: 'n', envelope.REPLIES: 'reply_x', envelope.MONITORED: 60},
        lambda: None)
    incoming.heartbeat()
    session.confirm(GONE)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        incoming.heartbeat()


@pytest.mark.parametrize('call', [False, True])
def test_a_broker_that_takes_nothing_is_an_error_for_the_sender(monkeypatch, call):
    """A cast waited for the end of the broker's memory alarm, without a limit."""
    monkeypatch.setattr(driver, 'CONFIRM_S', 0.3)
    made = bus.Bus(configured()[0], 'nova-rabbit://localhost/')._transport._driver
    made._settings = dataclasses.replace(made._settings, pause=0, longer=0, longest=0)
    session, made._replies._queue = made._session, 'reply_x'
    session._thread = threading.current_thread()          # no connection begins
    session._link = object()
    session._taking(False)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match='alarm'):
        made.send(oslo_messaging.Target(topic='echo'), {}, {'method': 'echo'}, wait_for_reply=call, retry=3,
                  timeout=60 if call else None)
    assert session._parked == {}


def test_withdrawn_messages_are_not_sent_by_the_next_connection(monkeypatch):
    session, tried = rabbit_session.Session(configured()[1]), []
    messages = [rabbit_session.Message(None, 'q', b'', mandatory=False) for _ in range(3)]
    session._suspects, session._closed = list(messages), True

    def send(_link, message):
        tried.append(message)
        session._suspects.remove(message)
        session.withdraw(messages[2])         # its sender gives up meanwhile
    monkeypatch.setattr(session, '_try', send)
    session.withdraw(messages[0])
    session._prepare(None, {})
    session.publish(messages[0])
    assert tried == [messages[1]] and session._suspects == [] and session._parked == {}


class Written:
    """A link that counts the messages that are written to it."""

    def __init__(self):
        self.limit, self.count = 4096, 0

    def write(self, data):
        self.count += 1


@pytest.fixture
def unsent():
    """A session without a connection: messages are parked."""
    session = rabbit_session.Session(configured()[1])
    session._thread = threading.current_thread()          # no connection begins
    return session


def cast(key):
    return driver.Sent(settings.Exchange('nova', 'topic', False, False), key, b'{}', mandatory=True)


def test_a_message_with_a_long_name_takes_no_number(unsent):
    """The confirmation of each later message settled the message before it."""
    unsent._link = link = Written()
    bad, good = cast('x' * 256), cast('compute.h1')
    unsent.publish(bad)
    unsent.publish(good)
    assert isinstance(bad.error, oslo_messaging.MessageDeliveryFailure) and link.count == 1
    unsent._confirmed(unsent._unconfirmed, 1, False, True)
    assert good.settled.is_set() and good.error is None and unsent._unconfirmed == {}


def test_a_message_with_a_long_name_does_not_remove_other_parked_messages(unsent):
    messages = [cast('compute.h1'), cast('é' * 128), cast('compute.h2')]
    for message in messages:
        unsent.publish(message)
    unsent._unpark(Written())
    assert list(unsent._unconfirmed.values()) == [messages[0], messages[2]]
    assert isinstance(messages[1].error, oslo_messaging.MessageDeliveryFailure)


@pytest.mark.parametrize('queue', ['', 'q' * 256, 7, ['q'], None])
def test_a_message_with_an_impossible_reply_queue_gets_no_reply(queue):
    session = Session()
    incoming = driver.Incoming(driver.Answers(session, 60), {
        'method': 'echo', envelope.CALL: 'n', envelope.REPLIES: queue, envelope.MONITORED: 60}, lambda: None)
    incoming.reply(1)
    assert session.sent == [] and incoming.client_timeout is None
