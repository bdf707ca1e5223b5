"""Users of RabbitMQ that are bound to hosts: what one of them may do with the queues of others."""
import contextlib

import amqp
import pytest

from nova import conf as nova_conf
from nova.rpc import broker_rights
from nova.rpc import bus as rpc_bus
from nova.rpc import interface as rpc_interface
from nova.runtime import certificates
from nova.tests import long_runs
from nova.tests.integration import rabbit_cluster
from nova.tests.integration import servers
from nova.tests.support.rpc import CONTEXT
from nova.tests.support.rpc import Manager

HOSTS = ('compute1', 'compute1.example.org')         # the second one begins like the first
SERVED = ('compute', 'network', 'network_agent')      # by the daemons of a host
METHODS = (rpc_interface.Method('echo', ('value',), call=True),)


def _interface(topic):
    return rpc_interface.Interface(topic, '1.0', *METHODS)


class Brokered:
    """Processes of hosts and of the control plane on one broker."""

    def __init__(self, broker, stack):
        self._broker, self._stack = broker, stack
        for host in HOSTS:
            broker.control('add_user', host, 'secret')
            for words in broker_rights.commands(host, host, rpc_bus.EXCHANGE, '/'):
                broker.control(*words)
        self.control = self.bus('guest', 'guest', 'controller')

    def bus(self, user, password, host, **rabbit):
        conf = nova_conf.new(files=[], host=host, messages__signatures='off')
        rpc_bus.register_options(conf)
        for name, value in rabbit.items():
            conf.set_override(name, value, group='oslo_messaging_rabbit')
        made = rpc_bus.Bus(conf, f'{servers.BUS}://{user}:{password}@127.0.0.1:{self._broker.port}/')
        made.pins.learn({})
        self._stack.callback(made.close)
        return made

    def serve(self, bus, topic, host):
        server = bus.serve(_interface(topic), Manager(), host)
        server.start()
        self._stack.callback(server.wait, 10)
        self._stack.callback(server.stop)

    def channel(self, host):
        """AMQP as a taken-over host speaks it: a channel ends with its first refusal."""
        connection = amqp.Connection(f'127.0.0.1:{self._broker.port}', userid=host, password='secret')
        connection.connect()
        self._stack.callback(connection.close)
        return connection.channel()


@pytest.fixture(scope='module')
def brokered():
    with contextlib.ExitStack() as stack:
        yield Brokered(stack.enter_context(rabbit_cluster.cluster(1))[0], stack)


@pytest.fixture(scope='module')
def fleet(brokered):
    for topic in ('conductor', 'network'):
        brokered.serve(brokered.control, topic, 'controller')
    brokered.hosts = {host: brokered.bus(host, 'secret', host) for host in HOSTS}
    for host, bus in brokered.hosts.items():
        for topic in SERVED:
            brokered.serve(bus, topic, host)
    return brokered


def _reply_queue(bus):
    driver = bus._transport._driver
    return driver.reply_queue if servers.BUS == 'nova-rabbit' else driver._get_reply_q()


def test_host_accounts_can_call_serve_and_receive_replies(fleet):
    for host, bus in fleet.hosts.items():
        for topic in ('conductor', 'network'):
            assert bus.client(_interface(topic)).echo(CONTEXT, value=host) == host
        for topic in SERVED:
            client = fleet.control.client(_interface(topic))
            assert client.echo(CONTEXT, server=host, value='down') == 'down'
        assert bus.client(_interface('network')).echo(CONTEXT, server=host, value='own') == 'own'
        assert _reply_queue(bus).startswith(f'reply_{host}:')


@pytest.mark.parametrize('queue', ['compute.compute1.example.org', 'network.compute1.example.org',
                                   'network_agent.compute1.example.org', 'conductor', 'conductor.controller',
                                   'scheduler', 'reply_controller:' + '0' * 32])
def test_a_host_reads_no_queue_of_others(fleet, queue):
    for act in (lambda channel: channel.basic_get(queue), lambda channel: channel.basic_consume(queue),
                lambda channel: channel.queue_purge(queue), lambda channel: channel.queue_delete(queue),
                lambda channel: channel.queue_declare(queue)):
        with pytest.raises(amqp.exceptions.AccessRefused):
            act(fleet.channel('compute1'))


def test_a_host_reads_no_answers_to_others(fleet):
    """Whom a service asks knows the name of the queue in which it waits for answers."""
    for bus in (fleet.control, fleet.hosts['compute1.example.org']):
        with pytest.raises(amqp.exceptions.AccessRefused):
            fleet.channel('compute1').basic_get(_reply_queue(bus))
        with pytest.raises(amqp.exceptions.AccessRefused):
            fleet.channel('compute1').queue_bind(_reply_queue(bus), rpc_bus.EXCHANGE, 'compute.compute1')


@pytest.mark.parametrize('key', ['compute.compute1.example.org', 'network_agent.compute1.example.org', 'conductor',
                                 'scheduler', '#', 'conductor.controller'])
def test_a_host_gets_no_copies(fleet, key):
    channel = fleet.channel('compute1')
    with pytest.raises(amqp.exceptions.AccessRefused):
        channel.queue_bind('compute.compute1', rpc_bus.EXCHANGE, key)


@pytest.mark.parametrize('exchange, key', [
    (rpc_bus.EXCHANGE, 'compute.compute1.example.org'), (rpc_bus.EXCHANGE, 'compute'), (rpc_bus.EXCHANGE, 'scheduler'),
    (rpc_bus.EXCHANGE, 'network.compute1.example.org'), (rpc_bus.EXCHANGE, 'reply_controller'),
    (rpc_bus.EXCHANGE, 'network_agent.compute1.example.org'), ('network_agent_fanout', ''),
    ('compute_fanout', ''), ('amq.topic', 'any'), ('amq.direct', 'any')])
def test_a_host_sends_nothing_to_other_hosts(fleet, exchange, key):
    channel = fleet.channel('compute1')
    with pytest.raises(amqp.exceptions.AccessRefused):
        channel.basic_publish(amqp.Message(b'{}'), exchange, key)
        channel.queue_declare('compute.compute1', passive=True)      # a refusal comes when the next answer is read


def test_a_host_makes_nothing_of_its_own(fleet):
    for act in (lambda channel: channel.queue_declare('other'), lambda channel: channel.exchange_declare('x', 'topic'),
                lambda channel: channel.queue_declare('reply_' + '0' * 32)):
        with pytest.raises(amqp.exceptions.AccessRefused):
            act(fleet.channel('compute1'))


@long_runs.only
def test_broker_users_log_in_with_certificates(tmp_path):
    """A certificate of the deployment names its host: no password is left that could be used elsewhere."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(servers._directory('rabbitmq'))
        authority = certificates.Authority(tmp_path / 'tls')
        broker = rabbit_cluster.Node(directory, 'nova-test-cookie')
        servers.owned(authority, 'broker', ['127.0.0.1'], directory, 'rabbitmq')
        (directory / 'plugins').write_text('[rabbitmq_auth_mechanism_ssl].\n')
        (directory / 'rabbit.conf').write_text(
            f'listeners.tcp = none\nlisteners.ssl.default = {broker.port}\n'
            f'ssl_options.cacertfile = {directory}/ca.pem\nssl_options.certfile = {directory}/broker.pem\n'
            f'ssl_options.keyfile = {directory}/broker.key\nssl_options.verify = verify_peer\n'
            'ssl_options.fail_if_no_peer_cert = true\nauth_mechanisms.1 = EXTERNAL\n'
            'ssl_cert_login_from = common_name\n')
        for name in ('plugins', 'rabbit.conf'):
            (directory / name).chmod(0o644)
        stack.callback(broker.stop)
        broker.start()
        broker.control('await_startup')
        for name in ('compute1', 'controller'):
            broker.control('add_user', name, 'x')
            broker.control('clear_password', name)
        broker.control('set_permissions', 'controller', '.*', '.*', '.*')
        for words in broker_rights.commands('compute1', 'compute1', rpc_bus.EXCHANGE, '/'):
            broker.control(*words)
        made = Brokered.__new__(Brokered)
        made._broker, made._stack = broker, stack
        buses = {}
        for name in ('controller', 'compute1'):
            pair = authority.pair(name, [name], use=certificates.CLIENT)
            buses[name] = made.bus(name, 'wrong', name, ssl=True, ssl_ca_file=str(authority.trusted),
                                   ssl_cert_file=str(pair.certificate), ssl_key_file=str(pair.key),
                                   rabbit_login_method='EXTERNAL')
        made.serve(buses['controller'], 'conductor', 'controller')
        made.serve(buses['compute1'], 'compute', 'compute1')
        assert buses['compute1'].client(_interface('conductor')).echo(CONTEXT, value='up') == 'up'
        assert buses['controller'].client(_interface('compute')).echo(CONTEXT, server='compute1', value='x') == 'x'
        with pytest.raises(Exception, match='scheduler|ACCESS|answer|reached'):
            buses['compute1'].client(_interface('scheduler')).echo(CONTEXT, value='no')
