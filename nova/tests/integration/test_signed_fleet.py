"""A fleet of real daemons, RabbitMQ and MariaDB in which nobody takes a message without a signature."""
import contextlib
import json
import time

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.conductor import interface as conductor_interface
from nova.rpc import bus as rpc_bus
from nova.tests.integration import daemons
from nova.tests.integration import servers

BOUND_S = 60


@pytest.fixture(scope='module')
def fleet(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(servers.rabbitmq())
        database = stack.enter_context(servers.SHARED['mariadb']())
        yield daemons.Fleet(stack, tmp_path_factory.mktemp('signed'), broker, database, signed=True)


def _server(fleet, server_id):
    return fleet.load.json('GET', f'/servers/{server_id}')['server']


def test_servers_are_built(fleet):
    flavor = fleet.load.json('GET', '/flavors')['flavors'][0]['id']
    made = [fleet.load.json('POST', '/servers', {'server': {
        'name': f'signed{number}', 'imageRef': fleet.image, 'flavorRef': flavor}})['server']['id']
        for number in range(4)]
    deadline = time.monotonic() + BOUND_S
    while any(_server(fleet, one)['status'] != 'ACTIVE' for one in made):
        assert time.monotonic() < deadline, json.dumps([_server(fleet, one) for one in made])
        time.sleep(0.2)
    states = fleet.load.rows('api', 'SELECT state FROM message_keys')
    assert len(states) == 3 and {row['state'] for row in states} == {'approved'}


def test_a_process_with_the_account_of_the_broker_alone(fleet):
    """All that a host needed up to now."""
    made = rpc_bus.Bus(nova_conf.new(files=[], messages__signatures='off'), fleet.broker.url)
    made.pins.learn({})
    try:
        for bus in (made, made.of_host('compute1')):
            with pytest.raises(exception.MessageRefused, match='it is not signed'):
                bus.client(conductor_interface.INTERFACE).instances_on_host(context.admin_context(), host='compute1')
    finally:
        made.close()
