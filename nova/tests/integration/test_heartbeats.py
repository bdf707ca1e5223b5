"""Heartbeats through the service's own queue of a real RabbitMQ."""
import amqp
import pytest

from nova import conf as nova_conf
from nova.rpc import bus
from nova.runtime import service
from nova.tests.support import waiting
from nova.tests.integration import servers
from nova.tests.support.rpc import CONTEXT
from nova.tests.support.rpc import ECHO
from nova.tests.support.rpc import Manager
from nova.tests.support.service import Conductor


@pytest.fixture(scope='module')
def broker():
    return servers.virtual_host()


class Told(Manager):
    lost = 0

    def messages_lost(self):
        self.lost += 1


@pytest.fixture
def running(broker, tmp_path):
    """(service, conductor that it reports to, client of it)."""
    conf = nova_conf.new(files=[], state_path=str(tmp_path), report_interval=1)
    made, conductor = bus.Bus(conf, broker.url), Conductor()
    part = service.Service(conf, 'nova-echo', 'one', ECHO, Told(), made, conductor)
    part.start()
    yield part, conductor, made.client(ECHO)
    part.stop(20)
    made.close()


def reports_again(conductor):
    """Wait for the next heartbeat."""
    before = len(conductor.heartbeats())
    waiting.wait_for(lambda: len(conductor.heartbeats()) > before, 60, 'a heartbeat')


def test_deleted_queue_of_a_running_service_is_declared_again(broker, running):
    part, conductor, client = running
    reports_again(conductor)
    before = part.manager.lost
    with amqp.Connection(f'127.0.0.1:{broker.port}', 'guest', 'guest', virtual_host=broker.name) as connection:
        connection.channel().queue_delete('echo.one')
    reports_again(conductor)
    assert client.echo(CONTEXT, server='one', value=1) == 1
    waiting.wait_for(lambda: part.manager.lost > before, 60, 'the manager to be told')


def test_stopped_consumer_subscribes_again(running, caplog):
    part, conductor, client = running
    part._server._rpc.listener.stop()
    waiting.wait_for(lambda: 'subscribes to its queues again' in caplog.text, 60, 'it to be noticed')
    reports_again(conductor)
    assert client.echo(CONTEXT, server='one', value=1) == 1
