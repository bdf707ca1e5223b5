"""The driver of bare metal, as far as it needs no Bare Metal service: integration/test_ironic.py has a real one."""
import json
import types
import urllib.parse

import pytest
import requests

from nova import conf as nova_conf
from nova import exception
from nova.hardware import guest_options
from nova.hardware import machines
from nova.virt.ironic import client as ironic_client
from nova.virt.ironic import driver
from nova.virt.ironic import features
from nova.virt.ironic import nodes


@pytest.fixture
def answers(monkeypatch):
    """A Client, and the list of its requests: ``answers(function)`` answers (method, path, body) by (code, body)."""
    def make(answer):
        client, asked = ironic_client.Client(nova_conf.new(files=[])), []

        def request(_ctx, method, address, _headers, json=None):
            asked.append((method, address(), json))
            found = requests.Response()
            found.status_code, content = answer(method, address(), json)
            found._content = dumps(content).encode()
            return found
        monkeypatch.setattr(client, '_service', types.SimpleNamespace(request=request, endpoint=lambda: ''))
        return client, asked
    dumps = json.dumps
    return make


@pytest.mark.parametrize('most', [2, 3, 5, 500])
def test_lists_are_read_to_the_end_below_the_limit_of_the_service(answers, most):
    found = [{'uuid': f'node{number}'} for number in range(5)]

    def page(_method, path, _body):
        query = dict(urllib.parse.parse_qsl(path.partition('?')[2]))
        after = [node['uuid'] for node in found].index(query['marker']) + 1 if 'marker' in query else 0
        size = min(most, int(query['limit']))
        more = {'next': 'http://ironic/v1/nodes?marker=…'} if after + size < len(found) else {}
        return 200, {'nodes': found[after:after + size], **more}
    client, asked = answers(page)
    assert client.nodes() == found and len(asked) == -(-5 // most)


def test_refusal_of_a_power_change_is_an_error_with_its_reason(answers, monkeypatch):
    node = {'uuid': 'node', 'instance_uuid': 'server', 'instance_info': {nodes.OWNER: 'host1'},
            'power_state': 'power on', 'target_power_state': None, 'provision_state': 'active', 'last_error': None}
    refusal = {'error_message': json.dumps({'faultstring': 'ipmi_address is missing'})}

    def answer(method, path, body):
        if method == 'PUT':
            return 400, refusal
        return 200, {'nodes': [node]} if '?' in path else node
    client, asked = answers(answer)
    metal = driver.IronicDriver(nova_conf.new(files=[]), 'host1', None)
    monkeypatch.setattr(metal, '_client', client)
    monkeypatch.setattr(metal, '_nodes', nodes.Nodes(client, 'host1', 1))
    server = types.SimpleNamespace(uuid='server')
    for change, targets in ((lambda: metal.reboot(None, server, [], True), ['rebooting']),
                            (lambda: metal.reboot(None, server, [], False), ['soft rebooting', 'rebooting']),
                            (lambda: metal.power_off(server, 1), ['soft power off', 'power off'])):
        asked.clear()
        with pytest.raises(exception.VirtError, match='ipmi_address is missing'):
            change()
        assert [body['target'] for method, _path, body in asked if method == 'PUT'] == targets
    node['power_state'] = 'power off'
    with pytest.raises(exception.VirtError, match='ipmi_address is missing'):
        metal.power_on(None, server, [])


@pytest.mark.parametrize(('info', 'address'), [
    ({'type': 'socat', 'url': 'tcp://192.0.2.7:5901'}, ('192.0.2.7', 5901)),
    ({'type': 'socat', 'url': 'tcp://[2001:db8::7]:5901'}, ('2001:db8::7', 5901)),
    ({'type': 'socat', 'url': 'tcp://192.0.2.7'}, None),
    ({'type': 'socat', 'url': 'tcp://192.0.2.7:port'}, None),
    ({'type': 'shellinabox', 'url': 'http://192.0.2.7:5901'}, None),
    ({'type': 'socat', 'url': None}, None),
    ({}, None),
])
def test_serial_consoles_are_raw_tcp(info, address):
    assert features.console_address(info) == address


@pytest.mark.parametrize(('given', 'name'), [
    ('baremetal', 'CUSTOM_BAREMETAL'), ('bare.gold-2', 'CUSTOM_BARE_GOLD_2'), ('CUSTOM_GOLD', 'CUSTOM_GOLD'),
])
def test_resource_class_names_are_normalized(given, name):
    assert machines.class_name(given) == name


@pytest.mark.parametrize(('specs', 'wanted'), [
    ({'resources:CUSTOM_GOLD': '1'}, 'CUSTOM_GOLD'), ({'resources:CUSTOM_GOLD': ' 1 '}, 'CUSTOM_GOLD'),
    ({'resources:CUSTOM_GOLD': '0'}, None), ({'resources:CUSTOM_GOLD': '01'}, 'CUSTOM_GOLD'),
    ({'resources:VCPU': '1'}, None), ({}, None), (None, None),
])
def test_a_flavor_asks_for_a_machine(specs, wanted):
    assert machines.wanted(specs) == wanted


def test_only_a_machine_is_taken_without_counting():
    guest_options.check({'resources:CUSTOM_GOLD': '1', 'resources:VCPU': '0'}, {})
    with pytest.raises(exception.InvalidInput, match='which is only for bare metal'):
        guest_options.check({'resources:VCPU': '0'}, {})
    with pytest.raises(exception.InvalidInput, match='exactly one bare metal machine'):
        guest_options.check({'resources:CUSTOM_GOLD': '2'}, {})
