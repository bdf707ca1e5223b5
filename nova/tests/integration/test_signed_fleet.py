"""A fleet of real daemons over RabbitMQ in which nobody takes a message without a signature.

Its network service has an account of the databases with the rights of nova/db/grants.py alone.
"""
import contextlib
import json
import time

import pytest
import webob

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.api.metadata import app
from nova.cloud import assembly
from nova.conductor import interface as conductor_interface
from nova.db import engine
from nova.rpc import bus as rpc_bus
from nova.tests import long_runs
from nova.tests.integration import daemons
from nova.tests.integration import servers
from nova.tests.support.waiting import wait_for

BOUND_S = 60


# What differs between the databases is who may do what: with the second one in long runs alone.
@pytest.fixture(scope='module', params=['mariadb', *(['postgresql'] if long_runs.LONG else [])])
def fleet(request, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(servers.SHARED[request.param]())
        yield daemons.Fleet(stack, tmp_path_factory.mktemp('signed'), servers.virtual_host(), database,
                             signed=True)


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
    assert len(states) == 4 and {row['state'] for row in states} == {'approved'}


def test_process_with_a_broker_account_only_is_ignored(fleet):
    """All that a host needed up to now."""
    made = rpc_bus.Bus(nova_conf.new(files=[], messages__signatures='off'), fleet.broker.url)
    made.pins.learn({})
    try:
        for bus in (made, made.of_host('compute1')):
            with pytest.raises(exception.MessageRefused, match='it is not signed'):
                bus.client(conductor_interface.INTERFACE).instances_on_host(context.admin_context(), host='compute1')
    finally:
        made.close()


def test_network_database_account_suffices_for_a_server(fleet):
    """All that nova-network does with its few rights: a first group, ports, their end."""
    flavor = fleet.load.json('GET', '/flavors')['flavors'][0]['id']
    server = fleet.load.json('POST', '/servers', {'server': {
        'name': 'networked', 'imageRef': fleet.image, 'flavorRef': flavor}})['server']['id']
    wait_for(lambda: _server(fleet, server)['status'] == 'ACTIVE', seconds=BOUND_S)
    assert _server(fleet, server)['addresses']
    fleet.load.json('POST', f'/servers/{server}/os-interface', {'interfaceAttachment': {}})
    wait_for(
        lambda: len(fleet.load.json('GET', f'/servers/{server}/os-interface')['interfaceAttachments']) == 2,
        seconds=BOUND_S)
    fleet.load.json('DELETE', f'/servers/{server}')
    wait_for(lambda: not fleet.load.rows('api', f"SELECT id FROM ports WHERE device_id = '{server}'"), seconds=BOUND_S)
    # before there is a cell it may be refused the making of one, once
    assert not [line for line in fleet.daemons['network1'].last_words().splitlines()
                if 'denied' in line and 'Waiting for another daemon' not in line]


@pytest.mark.parametrize('kind, statement', [
    ('api', 'SELECT private FROM message_keys'),
    ('api', "UPDATE message_keys SET state = 'approved'"),
    ('api', 'SELECT secret FROM join_tokens'),
    ('api', 'SELECT password_hash FROM identity_users'),
    ('api', 'DELETE FROM instance_mappings'),
    ('cell1', "UPDATE instances SET host = 'compute1'"),
    ('cell1', 'SELECT * FROM block_device_mappings')])
def test_statements_beyond_the_network_database_account_are_denied(fleet, kind, statement):
    """With these who has the host of a nova-network would have the control plane."""
    db = engine.Database(fleet.limited_urls[kind])
    try:
        with pytest.raises(Exception, match='denied'), db.writer() as conn:
            conn.exec_driver_sql(statement)
    finally:
        db.dispose()


def test_the_metadata_service_works_with_that_account(fleet):
    flavor = fleet.load.json('GET', '/flavors')['flavors'][0]['id']
    server = fleet.load.json('POST', '/servers', {'server': {
        'name': 'described', 'imageRef': fleet.image, 'flavorRef': flavor}})['server']['id']
    wait_for(lambda: _server(fleet, server)['status'] == 'ACTIVE', seconds=BOUND_S)
    conf = nova_conf.new(files=[], api_database__connection=fleet.limited_urls['api'],
                         database__connection=fleet.limited_urls['cell1'])
    api_db, cells = assembly.checked_databases(conf)
    try:
        (addresses,) = _server(fleet, server)['addresses'].values()
        application = app.Application(conf, api_db, cells)

        def ask(method, path, body=b'', **headers):
            return webob.Request.blank(path, method=method, body=body, remote_addr=addresses[0]['addr'],
                                       headers=headers).get_response(application)
        token = ask('PUT', '/latest/api/token', **{'X-aws-ec2-metadata-token-ttl-seconds': '60'}).text
        found = ask('GET', '/openstack/latest/meta_data.json', **{'X-aws-ec2-metadata-token': token})
        assert found.json['name'] == 'described'
        assert ask('POST', '/openstack/latest/password', b'secret').status_int == 200
    finally:
        cells.close()
        api_db.dispose()
