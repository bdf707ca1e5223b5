"""The driver of bare metal, as far as it needs no Bare Metal service: integration/test_ironic.py has a real one."""
import pytest

from nova import exception
from nova.hardware import guest_options
from nova.hardware import machines
from nova.virt.ironic import features


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
