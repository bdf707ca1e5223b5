"""What the driver nova-rabbit does in trouble, and beside oslo.messaging's own, over a real RabbitMQ."""
import contextlib
import logging
import socket
import sys
import threading
import time

import oslo_messaging
from pamqp import commands
import pytest

from nova import conf as nova_conf
from nova import exception
from nova.rpc import bus
from nova.rpc import priorities
from nova.rpc import transport_url
from nova.rpc.rabbit import driver as rabbit_driver
from nova.rpc.rabbit import link
from nova.rpc.rabbit import session as rabbit_session
from nova.rpc.rabbit import settings
from nova.tests import long_runs
from nova.tests.integration import rabbit_cluster
from nova.tests.integration import servers
from nova.tests.support.rpc import CONTEXT
from nova.tests.support.rpc import ECHO
from nova.tests.support.rpc import Manager
from nova.tests.support.waiting import wait_for


@pytest.fixture(scope='module')
def broker():
    servers._program('rabbitmq-server')
    with servers._directory('rabbitmq') as directory:
        node = rabbit_cluster.Node(directory, 'nova-test-cookie')
        try:
            node.start()
            node.control('await_startup')
            yield node
        finally:
            node.stop()


@pytest.fixture
def connect(broker):
    """function(driver, user, port, **options of [oslo_messaging_rabbit]) -> a bus."""
    with contextlib.ExitStack() as stack:
        def made(driver='nova-rabbit', user='guest', port=None, **options):
            conf = nova_conf.new(files=[])
            bus.register_options(conf)
            for name, value in options.items():
                conf.set_override(name, value, group='oslo_messaging_rabbit')
            found = bus.Bus(conf, f'{driver}://{user}:guest@127.0.0.1:{port or broker.port}/')
            stack.callback(found.close)
            return found
        yield made


def publish(made, key, body):
    """Send a body that no driver would send."""
    session = made._transport._driver._session
    session.publish(rabbit_session.Message(None, key, body, mandatory=True))


@contextlib.contextmanager
def served(made, name, manager=None):
    server = made.serve(ECHO, manager or Manager(name), name)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.wait(10)


@pytest.mark.parametrize('caller, called', [('rabbit', 'nova-rabbit'), ('nova-rabbit', 'rabbit')])
def test_a_fleet_rolls_from_one_driver_to_the_other(connect, caplog, caller, called):
    """Both declare the same queues, and read each other's calls, casts, errors and signs of life."""
    manager, kept = Manager('one'), {'amqp_durable_queues': True, 'rabbit_quorum_queue': True}
    with (caplog.at_level(logging.WARNING), served(connect(called, **kept), 'one', manager),
          served(connect(caller, **kept), 'two')):
        client = connect(caller, **kept).client(ECHO)
        assert client.echo(CONTEXT, server='one', value={'a': [1, 'ü']}) == {'a': [1, 'ü']}
        client.remember(CONTEXT, server='one', value=2)
        wait_for(lambda: manager.remembered == [2], seconds=60)
        with pytest.raises(exception.InstanceInvalidState):
            client.fail(CONTEXT, server='one', kind='domain')
        with pytest.raises(exception.RemoteError):
            client.fail(CONTEXT, server='one', kind='other')
        with pytest.raises(exception.ServiceUnavailable):
            client.echo(CONTEXT, server='nobody', value=1)
        assert {client.seen_by(CONTEXT, value={}) for _ in range(20)} == {'one', 'two'}      # one queue of the topic
    assert 'other properties' not in caplog.text and 'inequivalent' not in caplog.text


def test_a_call_that_takes_long_is_heard_of(connect, monkeypatch):
    monkeypatch.setattr(bus, 'KEEPALIVE_TIMEOUT_S', 4)
    with served(connect(), 'one'):
        assert connect().client(ECHO).long(CONTEXT, server='one', seconds=6) == 'late'


def test_a_malformed_message_is_dropped_and_the_next_is_read(connect, caplog):
    """It ended the connection of each service that read it, and the broker sent it again."""
    with served(connect(), 'malformed'):
        made = connect()
        client = made.client(ECHO)
        assert client.echo(CONTEXT, server='malformed', value=1) == 1
        for body in (b'{"oslo.version": "2.0"}', b'{"oslo.version": "2.0", "oslo.message": 1}'):
            publish(made, 'echo.malformed', body)
            publish(made, made._transport._driver.reply_queue, body)
        assert client.echo(CONTEXT, server='malformed', value=2) == 2
    assert caplog.text.count('An unreadable message was dropped') == 2
    assert caplog.text.count('An unreadable reply was dropped') == 2 and 'ended' not in caplog.text


def test_a_consumer_that_fails_loses_its_message_alone(connect, caplog, monkeypatch):
    with served(connect(), 'failing') as server:
        client = connect().client(ECHO)
        assert client.echo(CONTEXT, server='failing', value=1) == 1
        with monkeypatch.context() as patch:
            patch.setattr(server._rpc.listener, 'on_incoming_callback', None)
            client.remember(CONTEXT, server='failing', value=1)
            wait_for(lambda: 'A message was dropped: its consumer failed.' in caplog.text, seconds=60)
        assert client.echo(CONTEXT, server='failing', value=2) == 2
    assert 'The connection' not in caplog.text


@long_runs.only
def test_a_process_has_one_connection(connect, broker):
    made = connect()
    with served(made, 'one'), served(made, 'two'):
        threads = [threading.Thread(target=made.client(ECHO).echo, args=(CONTEXT,), kwargs={'value': number})
                   for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_for(lambda: len(broker.control('list_connections', '--no-table-headers', 'pid').split()) == 1, seconds=60)


def test_connections_that_are_cut_lose_and_double_nothing(connect, broker):
    """What was not confirmed is sent again, what was not acknowledged comes again and is known."""
    manager, sent, enough = Manager('one'), [], threading.Event()
    with served(connect(), 'one', manager):
        client = connect().client(ECHO)

        def cast(first):
            number = first
            while not enough.is_set():
                client.remember(CONTEXT, server='one', value=number)       # no error at all: a broker is there
                sent.append(number)
                number += 4
        threads = [threading.Thread(target=cast, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            wait_for(lambda had=len(sent): len(sent) > had + 100, seconds=60)
            broker.control('close_all_connections', 'test')
        wait_for(lambda had=len(sent): len(sent) > had + 100, seconds=60)
        enough.set()
        for thread in threads:
            thread.join()
        wait_for(lambda: len(manager.remembered) >= len(sent), seconds=60)
        assert sorted(manager.remembered) == sorted(sent)


def test_the_broker_keeps_a_long_backlog_for_other_processes(connect, broker, monkeypatch):
    """The first process that connected took it all."""
    monkeypatch.setattr(priorities, 'MAX_WAITING', 100)
    gate, count, options = threading.Event(), 1500, {'rabbit_qos_prefetch_count': 50}
    managers = [Manager('one'), Manager('two')]
    for manager in managers:
        manager.remember = lambda context, value, manager=manager: gate.wait(60) and manager.remembered.append(value)
    with served(connect(**options), 'one', managers[0]) as server:
        client = connect().client(ECHO)
        for number in range(count):
            client.remember(CONTEXT, value=number)
        threads = server._rpc.conf.executor_thread_pool_size

        def is_kept():
            lines = broker.control('list_queues', '--no-table-headers', 'name', 'messages', 'messages_unacknowledged')
            messages, unacknowledged = next(
                map(int, line.split()[1:]) for line in lines.splitlines() if line.split()[0] == 'echo')
            return unacknowledged == 50 and count - 100 - threads - 2 <= messages <= count - 100
        wait_for(is_kept, seconds=60)
        with served(connect(**options), 'two', managers[1]):
            gate.set()
            wait_for(lambda: sum(len(each.remembered) for each in managers) >= count, seconds=60)
            assert sorted(value for each in managers for value in each.remembered) == list(range(count))
            assert all(len(each.remembered) > 0 for each in managers)


class Line:
    """A way to a broker that can hold back what the client sends, and breaks off."""

    def __init__(self, port):
        self._port, self._open = port, threading.Event()
        self._open.set()
        self._pairs = []
        self._listening = socket.create_server(('127.0.0.1', 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self):
        self._open.clear()

    def cut(self):
        """Break off what is there; what was held back is lost, and the next connection is a good one."""
        pairs, self._pairs = self._pairs, []
        for each in (each for pair in pairs for each in pair):
            with contextlib.suppress(OSError):         # the other end was first
                each.shutdown(socket.SHUT_RDWR)
        self._open.set()

    def close(self):
        self._listening.close()
        self.cut()

    def _accept(self):
        with contextlib.suppress(OSError):             # closed
            while True:
                client = self._listening.accept()[0]
                pair = client, socket.create_connection(('127.0.0.1', self._port))
                self._pairs.append(pair)
                threading.Thread(target=self._carry, args=(pair, *pair, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(pair, *reversed(pair), False), daemon=True).start()

    def _carry(self, pair, source, target, held):
        with contextlib.suppress(OSError):             # cut
            while data := source.recv(65536):
                if held:
                    self._open.wait()
                if pair not in self._pairs:
                    break
                target.sendall(data)
        source.close()


@pytest.mark.parametrize('options', [{}, {'rabbit_qos_prefetch_count': 1000}])
def test_a_process_that_is_far_behind_does_nothing_twice(connect, broker, options):
    """More than it remembered was without an acknowledgement when a connection was lost, and was done again."""
    manager, line, count = Manager('far'), Line(broker.port), 2500
    name = f'far{options.get("rabbit_qos_prefetch_count", "")}'
    try:
        with served(connect(port=line.port, **options), name, manager):
            client = connect().client(ECHO)
            client.remember(CONTEXT, server=name, value=-1)
            wait_for(lambda: manager.remembered == [-1], seconds=60)
            line.hold()                                # its acknowledgements are on their way for a long time
            for number in range(count):
                client.remember(CONTEXT, server=name, value=number)
            had = -1
            while had != len(manager.remembered):
                had = len(manager.remembered)
                time.sleep(1)
            assert 200 < had < count                   # the broker waits for them
            line.cut()
            wait_for(lambda: set(manager.remembered) == set(range(-1, count)), seconds=60)
            time.sleep(1)                              # for one that comes late
            assert sorted(manager.remembered) == list(range(-1, count))
    finally:
        line.close()


@long_runs.only
def test_message_refused_by_the_broker_fails_for_its_sender_only(connect, broker):
    """A refusal closes the channel, on which others have sent as well."""
    broker.control('add_user', 'bound', 'guest')
    broker.control('set_permissions', 'bound', '.*', '.*', '.*')
    broker.control('set_topic_permissions', 'bound', 'nova', r'^echo\.one$', '.*')
    manager = Manager('one')
    with served(connect(), 'one', manager), served(connect(), 'two'):
        client, failed = connect(user='bound').client(ECHO), []

        def forbidden():
            for _ in range(3):
                with pytest.raises(exception.ServiceUnavailable):
                    client.remember(CONTEXT, server='two', value='no')
                failed.append(1)
        thread = threading.Thread(target=forbidden)
        thread.start()
        for number in range(200):
            client.remember(CONTEXT, server='one', value=number)
        thread.join()
        wait_for(lambda: len(manager.remembered) == 200, seconds=60)
        assert sorted(manager.remembered) == list(range(200)) and len(failed) == 3     # threads take them


@long_runs.only
def test_a_broker_whose_memory_is_full_takes_messages_again(connect, broker, monkeypatch):
    monkeypatch.setattr(rabbit_driver, 'CONFIRM_S', 3)
    manager = Manager('one')
    with served(connect(), 'one', manager):
        client = connect(rabbit_retry_interval=1, rabbit_retry_backoff=0).client(ECHO)
        assert client.echo(CONTEXT, value=1) == 1
        broker.control('set_vm_memory_high_watermark', '0.0000001')
        try:
            with pytest.raises(exception.ServiceUnavailable):
                for number in range(1000):
                    client.remember(CONTEXT, server='one', value=number)
                    time.sleep(0.01)
            for send in (client.remember, client.echo):          # they waited for the end of the alarm
                begun = time.monotonic()
                with pytest.raises(exception.ServiceUnavailable):
                    send(CONTEXT, server='one', value='late')
                assert time.monotonic() - begun < 15             # 3 attempts of 1 s, and CONFIRM_S
        finally:
            broker.control('set_vm_memory_high_watermark', '0.6')
        wait_for(lambda: _echoes(client), seconds=60)
        assert len(manager.remembered) == len(set(manager.remembered)) and 'late' not in manager.remembered


def _echoes(client):
    with contextlib.suppress(exception.Unavailable):
        return client.echo(CONTEXT, value=2) == 2


def test_fanout_without_receivers_is_no_error(connect):
    """The exchange goes with its last queue."""
    sender = connect()._transport._driver
    target = oslo_messaging.Target(exchange='nova', topic='echo', fanout=True)
    for _ in range(2):
        manager = Manager('one')
        sender.send(target, {}, {'method': 'remember', 'args': {'value': 'lost'}}, retry=3)
        with served(connect(), 'one', manager):
            sender.send(target, CONTEXT.to_dict(), {'method': 'remember', 'args': {'value': 'seen'}, 'version': '1.0'},
                        retry=3)
            wait_for(lambda found=manager.remembered: found == ['seen'], seconds=60)


def test_an_answer_whose_caller_has_died_is_dropped_with_a_line_in_the_log(connect, caplog):
    made = connect(kombu_missing_consumer_retry_timeout=1)
    answers = made._transport._driver._answers
    with caplog.at_level(logging.ERROR):
        for number in range(20):
            answers.send(f'reply_gone{number}', b'{}')
        wait_for(lambda: caplog.text.count('A reply was dropped') == 20, seconds=60)
    wait_for(lambda: not [each for each in threading.enumerate() if each.name == 'rabbit-undelivered'], seconds=60)


def test_a_queue_with_other_properties_is_used_with_a_warning(connect, caplog):
    """So that the kind of the queues can be changed, one after the other is deleted."""
    with served(connect(), 'new'):
        pass
    kept = {'amqp_durable_queues': True, 'rabbit_quorum_queue': True}
    with caplog.at_level(logging.WARNING), served(connect(**kept), 'new'):
        assert connect(**kept).client(ECHO).echo(CONTEXT, server='new', value=3) == 3
    assert 'echo.new exists with other properties' in caplog.text


@pytest.mark.parametrize('driver', ['nova-rabbit', 'rabbit'])
def test_a_broker_that_refuses_transient_queues_gets_quorum_queues(driver):
    """RabbitMQ refuses them by default since 4.3; 4.0 to 4.2 where it is configured."""
    servers._program('rabbitmq-server')
    with servers._directory('rabbitmq') as directory:
        node = rabbit_cluster.Node(directory, 'nova-test-cookie')
        if node.release < (4, 0):
            pytest.skip('RabbitMQ before 4.0 cannot refuse them.')
        (directory / 'rabbit.conf').write_text('deprecated_features.permit.transient_nonexcl_queues = false\n')
        try:
            node.start()
            node.control('await_startup')
            _serve_without_transient_queues(node, driver)
        finally:
            node.stop()


def _serve_without_transient_queues(node, driver):
    with contextlib.ExitStack() as stack:
        buses = []
        for _ in range(2):
            conf = nova_conf.new(files=[])
            bus.register_options(conf)
            if driver == 'rabbit':                     # which has an option instead
                conf.set_override('rabbit_transient_quorum_queue', True, group='oslo_messaging_rabbit')
            buses.append(bus.Bus(conf, f'{driver}://guest:guest@127.0.0.1:{node.port}/'))
            stack.callback(buses[-1].close)
        manager = Manager('one')
        stack.enter_context(served(buses[0], 'one', manager))
        client = buses[1].client(ECHO)
        assert client.echo(CONTEXT, server='one', value=1) == 1
        client.remember(CONTEXT, server='one', value={'cast': True})
        assert manager.event.wait(60) and manager.remembered == [{'cast': True}]
        lines = node.control('list_queues', '--no-table-headers', 'name', 'type', 'durable', 'arguments').splitlines()
        found = {name.partition('_')[2][:6] or name: (kind, durable, 'x-expires' in arguments)
                 for name, kind, durable, arguments in (line.split('\t') for line in lines)}
        assert found.pop('fanout') == ('quorum', 'true', True)
        replies = {name: row for name, row in found.items() if not name.startswith(ECHO.topic)}
        assert replies and set(replies.values()) == {('quorum', 'true', True)}
        assert {found[ECHO.topic], found[f'{ECHO.topic}.one']} == {('quorum', 'true', False)}


def test_a_channel_that_the_broker_closed_is_open_again_at_once(broker):
    """The answer to its opening was dropped where it came before the asker looked: a service that started hung."""
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    url = transport_url.parse(conf, f'nova-rabbit://guest:guest@127.0.0.1:{broker.port}/')
    options = settings.of(conf.oslo_messaging_rabbit, url)
    made, ready = [], threading.Event()

    def read():
        made.append(link.Link(options.brokers[0], options, confirmed=lambda *_args: None,
                              returned=lambda *_args: None, takes=lambda _takes: None))
        ready.set()
        with contextlib.suppress(OSError):
            made[0].run()
    reader = threading.Thread(target=read)
    reader.start()
    assert ready.wait(60)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(1000):
            with pytest.raises(link.Refused):
                made[0].ask(link.DECLARING, commands.Queue.Declare(0, f'nowhere{number}', True))
    finally:
        sys.setswitchinterval(interval)
        made[0].leave()
        reader.join()


def test_no_broker_is_said_after_the_attempts_that_were_asked_for():
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    conf.set_override('rabbit_retry_interval', 1, group='oslo_messaging_rabbit')
    conf.set_override('rabbit_retry_backoff', 1, group='oslo_messaging_rabbit')
    made = bus.Bus(conf, f'nova-rabbit://u:p@127.0.0.1:{servers.free_port()}/')
    begun = time.monotonic()
    with pytest.raises(exception.ServiceUnavailable):
        made.client(ECHO).echo(CONTEXT, value=1)
    assert time.monotonic() - begun < 20
    made.close()


def test_a_wrong_password_is_said_in_the_log(broker, caplog):
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    made = bus.Bus(conf, f'nova-rabbit://guest:canary@127.0.0.1:{broker.port}/')
    with caplog.at_level(logging.ERROR), pytest.raises(exception.ServiceUnavailable):
        made.client(ECHO).remember(CONTEXT, value=1)
    made.close()
    assert 'ACCESS_REFUSED' in caplog.text and 'canary' not in caplog.text


@long_runs.only
def test_queues_that_a_broker_lost_are_waited_for(connect, broker):
    """What is sent while others are not back yet is not refused as if nobody were there."""
    manager = Manager('one')
    sender, other = connect(), connect()
    client = sender.client(ECHO)
    with served(other, 'back', manager):
        assert client.echo(CONTEXT, server='back', value=1) == 1
        broker.control('close_all_connections', 'test')
        broker.control('delete_queue', 'echo.back')
        wait_for(lambda: _casts(client), seconds=60)
        wait_for(lambda: 2 in manager.remembered, seconds=60)


def _casts(client):
    with contextlib.suppress(exception.Unavailable):
        client.remember(CONTEXT, server='back', value=2)
        return True
