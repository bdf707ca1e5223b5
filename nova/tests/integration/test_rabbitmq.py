"""The bus over a real RabbitMQ, chosen by the transport URL alone."""
import contextlib
import itertools
import socket
import subprocess
import sys
import threading
import time
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova.rpc import bus
from nova.rpc import delivery
from nova.tests import long_runs
from nova.tests.integration import servers
from nova.tests.support.rpc import CONTEXT
from nova.tests.support.rpc import ECHO
from nova.tests.support.rpc import Manager
from nova.tests.support.waiting import wait_for


@pytest.fixture(scope='module')
def broker():
    with servers.rabbitmq() as running:
        yield running


@pytest.fixture(params=long_runs.rest(['nova-rabbit', 'rabbit']))
def driver(request):
    return request.param


@pytest.fixture
def served(broker, driver):
    """(client, manager) with one server 'one'."""
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    conf.set_override('transport_url', broker.url.replace(servers.BUS, driver))
    made = bus.Bus(conf)
    manager = Manager()
    server = made.serve(ECHO, manager, 'one')
    server.start()
    yield made.client(ECHO), manager
    server.stop()
    server.wait(10)
    made.close()


def test_calls_casts_and_errors_pass_the_broker(served):
    client, manager = served
    instance = objects.Instance(uuid=str(uuid.uuid4()), host='h')
    assert client.echo(CONTEXT, server='one', value=[instance])[0].as_dict() == instance.as_dict()
    assert context.RequestContext.from_dict(client.whoami(CONTEXT), overwrite=False).request_id == CONTEXT.request_id
    with pytest.raises(exception.InstanceInvalidState) as caught:
        client.fail(CONTEXT, kind='domain')
    assert caught.value.kwargs['state'] == 'paused'
    with pytest.raises(exception.RemoteError) as caught:
        client.fail(CONTEXT, kind='other')
    assert 'canary' not in str(caught.value)
    client.remember(CONTEXT, value={'a': 1})
    assert manager.event.wait(60)
    assert manager.remembered == [{'a': 1}]


def test_call_without_an_answer_in_time_raises(served):
    client, _manager = served
    with pytest.raises(exception.ServiceUnavailable):
        client.slow(CONTEXT, seconds=1)


SERVER = '''
import sys, time
from nova import conf as nova_conf
from nova.rpc import bus
from nova.rpc import delivery
from nova.tests.unit import test_rpc
made = bus.Bus(nova_conf.new(files=[]), sys.argv[1])
made.serve(test_rpc.ECHO, test_rpc.Manager(), 'mortal').start()
print('ready', flush=True)
time.sleep(60)
'''


def test_a_server_that_dies_in_a_call_is_not_waited_for(broker, served, monkeypatch):
    monkeypatch.setattr(bus, 'KEEPALIVE_TIMEOUT_S', 5)
    client, _manager = served
    assert client.long(CONTEXT, server='one', seconds=8) == 'late'           # one that works is
    with subprocess.Popen([sys.executable, '-c', SERVER, broker.url], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b'ready\n'
        threading.Timer(1, process.kill).start()
        begun = time.monotonic()
        with pytest.raises(exception.ServiceUnavailable):
            client.long(CONTEXT, server='mortal', seconds=60)
        assert time.monotonic() - begun < 40


def test_message_to_a_missing_server_fails_immediately(served):
    client, _manager = served
    for send in (client.echo, client.remember):
        begun = time.monotonic()
        with pytest.raises(exception.ServiceUnavailable):
            send(CONTEXT, server='nobody', value=1)
        assert time.monotonic() - begun < 20


def test_services_find_a_restarted_broker_and_what_it_took_is_not_lost(broker, served):
    client, manager = served
    assert client.echo(CONTEXT, value=1) == 1
    taken, enough = [], threading.Event()

    def cast():
        for number in itertools.count():
            if enough.is_set():
                return
            with contextlib.suppress(exception.Unavailable):
                client.remember(CONTEXT, value=number)
                taken.append(number)
    caster = threading.Thread(target=cast)
    caster.start()
    try:
        wait_for(lambda: len(taken) > 20, seconds=240)
        broker.kill()
        broker.stop()
        with pytest.raises(exception.Unavailable):
            client.echo(CONTEXT, value=2)
        broker.start()

        def answers():
            with contextlib.suppress(exception.Unavailable):
                return client.echo(CONTEXT, value=3) == 3
        wait_for(answers, seconds=240)
    finally:
        enough.set()
        caster.join()
    wait_for(lambda: set(taken) <= set(manager.remembered), seconds=240)


def test_silent_broker_is_given_up_after_a_timeout(monkeypatch, driver):
    """The driver let an error of its library through: computes gave up builds for it, users got a 500."""
    monkeypatch.setitem(delivery.OPTIONS, 'retry', 0)              # each attempt takes the driver's library 5 s
    with socket.create_server(('127.0.0.1', 0)) as silent:
        conf = nova_conf.new(files=[])
        bus.register_options(conf)
        conf.set_override('transport_url', f'{driver}://u:p@127.0.0.1:{silent.getsockname()[1]}/')
        conf.set_override('heartbeat_timeout_threshold', 2, group='oslo_messaging_rabbit')
        made = bus.Bus(conf)
        with pytest.raises(exception.ServiceUnavailable):
            made.client(ECHO).remember(CONTEXT, value=1)
        made.close()
