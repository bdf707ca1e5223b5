"""What a guest says of its network, however hostile, is a short list of addresses."""
import json

from nova.api.server_actions import guest
from nova.virt.libvirt.features import guest_network

NICS = {'eth0': {'hwaddr': 'FA:16:3e:00:00:01', 'addrs': [
    {'addr': '192.0.2.3', 'prefix': 24, 'type': 0}, {'addr': 'fe80::1', 'prefix': 64, 'type': 1}]}}


def test_addresses_of_a_guest_have_their_prefix():
    loopback = {'hwaddr': '00:00:00:00:00:00', 'addrs': [{'addr': '127.0.0.1', 'prefix': 8}]}
    second = {'hwaddr': 'fa:16:3e:00:00:02', 'addrs': None}
    assert guest_network.described({'lo': loopback, **NICS, 'eth1': second}) == [
        {'name': 'eth0', 'mac_address': 'fa:16:3e:00:00:01', 'addresses': ['192.0.2.3/24', 'fe80::1/64']},
        {'name': 'eth1', 'mac_address': 'fa:16:3e:00:00:02', 'addresses': []}]


def test_invalid_guest_data_is_omitted_and_long_data_is_cut():
    mac = 'fa:16:3e:00:00:01'
    for name, values in (('<b>', {'hwaddr': mac}), ('x' * 16, {'hwaddr': mac}), ('eth0', {'hwaddr': 'none'}),
                         ('eth0', 7), (3, {'hwaddr': mac}), ('eth0\n', {'hwaddr': mac})):
        assert guest_network.described({name: values}) == [], name
    for lie in ('x', {'addr': 'x', 'prefix': 24}, {'addr': '1.2.3.4', 'prefix': 99}, {'addr': '1.2.3.4'},
                {'addr': '9' * 10 ** 6, 'prefix': 1}, {'addr': '1.2.3.4', 'prefix': '1' * 5000}, None):
        assert guest_network.described({'e': {'hwaddr': mac, 'addrs': [lie]}})[0]['addresses'] == []
    assert guest_network.described(None) == guest_network.described([1]) == []
    flood = {f'e{number}': {'hwaddr': mac, 'addrs': [{'addr': '2001:db8::1', 'prefix': 64}] * 10000}
             for number in range(10000)}
    found = guest_network.described(flood)
    assert len(found) == guest_network.INTERFACES and len(json.dumps(found)) < 32768


def test_the_free_form_of_diagnostics_shows_them():
    facts = {'cpu_details': [], 'disk_details': [], 'nic_details': [], 'memory_details': {'maximum': 1, 'used': None}}
    assert 'guest0_name' not in guest.free_form(facts)
    shown = guest.free_form({**facts, 'guest_interfaces': guest_network.described(NICS)})
    assert shown['guest0_addresses'] == '192.0.2.3/24 fe80::1/64' and shown['guest0_name'] == 'eth0'
