"""The driver for RabbitMQ without a broker: its frames as pamqp reads them, its messages as oslo.messaging does."""
import dataclasses
import json
import ssl
import sys

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies
from oslo_messaging._drivers import common
import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame

from nova import conf as nova_conf
from nova import exception
from nova.rpc import bus
from nova.rpc import transport_url
from nova.rpc.rabbit import envelope
from nova.rpc.rabbit import frames
from nova.rpc.rabbit import settings


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
    (_, acknowledged), (_, rejected) = read(frames.acknowledge(2, 9) + frames.put_back(2, 10))
    assert (acknowledged.name, acknowledged.delivery_tag, acknowledged.multiple) == ('Basic.Ack', 9, True)
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
                                  b'{"oslo.version": "2.0", "oslo.message": "[]"}', b'\xff'])
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
