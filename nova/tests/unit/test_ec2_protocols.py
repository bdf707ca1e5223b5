"""Protocols of security group rules as EC2 shows them."""
import pytest

from nova.ec2 import errors
from nova.ec2.networks import security_groups


@pytest.mark.parametrize('given, ethertype, shown', [
    ('6', 'IPv4', 'tcp'), ('tcp', None, 'tcp'), ('ipv6-icmp', 'IPv6', 'icmpv6'), ('icmp', 'IPv6', 'icmpv6'),
    ('icmp', 'IPv4', 'icmp'), ('112', 'IPv4', 'vrrp'), ('99', 'IPv4', '99'), (None, 'IPv4', '-1'),
    ('any', 'IPv4', '-1'), ('0', 'IPv6', '-1')])
def test_protocol_is_shown_by_its_name(given, ethertype, shown):
    assert security_groups.protocol(given, ethertype) == shown


def test_unknown_protocol_is_an_error_of_the_caller():
    with pytest.raises(errors.Ec2Error) as caught:
        security_groups.protocol('nothing', None)
    assert caught.value.code == 'InvalidParameterValue'
