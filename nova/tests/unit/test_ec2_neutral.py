"""Tables of what the EC2 API lacks, compared with the model of botocore."""
from collections.abc import Mapping
import pathlib
import re

import botocore
import pytest

from nova.ec2 import absent
from nova.ec2 import errors
from nova.ec2 import key_pairs
from nova.ec2 import neutral
from nova.ec2 import protocol
from nova.ec2 import table
from nova.ec2 import unsupported
from nova.ec2.networks import subnets
from nova.ec2.volumes import types

ROOT = pathlib.Path(__file__).parents[3]
# operations whose answer would not be an empty list: images are in use, and instances have images
NOT_EMPTY = {'DescribeImageReferences', 'DescribeInstanceImageMetadata'}


def test_neutral_values_are_removed_from_a_request():
    given = {'EbsOptimized': False, 'EnclaveOptions': {'Enabled': False}, 'ImageId': 'ami-1', 'BlockDeviceMappings': [
        {'DeviceName': '/dev/vda', 'Ebs': {'Encrypted': False, 'VolumeSize': 1}}, {'Ebs': {'Encrypted': False}}],
        'Placement': {'Tenancy': 'default', 'AvailabilityZone': 'nova'}}
    assert neutral.without(given, neutral.LAUNCH) == {
        'ImageId': 'ami-1', 'Placement': {'AvailabilityZone': 'nova'},
        'BlockDeviceMappings': [{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}, {}]}


def test_other_values_are_kept_and_refused_with_their_path_and_a_reason():
    given = neutral.without({'CpuOptions': {'CoreCount': 2, 'AmdSevSnp': 'disabled'}, 'AdditionalInfo': ''},
                            neutral.LAUNCH)
    assert given == {'CpuOptions': {'CoreCount': 2}, 'AdditionalInfo': ''}
    with pytest.raises(errors.Ec2Error) as refused:
        neutral.refuse('RunInstances', given, ())
    assert refused.value.code == 'UnsupportedOperation' and str(refused.value) == (
        'The parameter CpuOptions.CoreCount of RunInstances is not supported. The flavor determines the processors.')
    neutral.refuse('RunInstances', given, ('CpuOptions',))


def test_each_rule_names_parameters_of_the_model():
    def check(rules, shape, path):
        shape = shape.member if shape.type_name == 'list' else shape
        for name, rule in rules.items():
            assert name in shape.members, f'{path}.{name}'
            if isinstance(rule, Mapping):
                check(rule, shape.members[name], f'{path}.{name}')
    model = protocol.service()
    for operation, rules in neutral.RULES.items():
        assert operation in table.OPERATIONS
        check(rules, model.operation_model(operation).input_shape, operation)
    template = model.shape_for('RequestLaunchTemplateData')
    common = {name: rule for name, rule in neutral.LAUNCH.items() if name in template.members}
    assert {'EbsOptimized', 'EnclaveOptions', 'HibernationOptions'} <= common.keys()


def test_each_describe_operation_of_the_model_works_or_is_absent():
    model = protocol.service()
    named = {name for name in model.operation_names if name.startswith('Describe')}
    lists = {name for name in named if (shape := model.operation_model(name).output_shape) and any(
        member.type_name == 'list' for member in shape.members.values())}
    assert absent.OPERATIONS <= lists
    bound = re.search('^botocore>=(.*)$', (ROOT / 'requirements.txt').read_text(), re.M)[1]
    if botocore.__version__ == bound:                # newer models may have further operations
        assert lists - table.OPERATIONS.keys() - NOT_EMPTY == absent.OPERATIONS
    assert not absent.OPERATIONS & (table.OPERATIONS.keys() | unsupported.OF.keys())


def test_an_absent_resource_that_a_request_names_does_not_exist():
    for name, given, code in (('DescribeNatGateways', {'NatGatewayIds': ['nat-1']}, 'NatGatewayNotFound'),
                              ('DescribeVpnGateways', {'VpnGatewayIds': ['vgw-1']}, 'InvalidVpnGatewayID.NotFound')):
        with pytest.raises(errors.Ec2Error) as refused:
            absent.described(name, given)
        assert refused.value.code == code
    assert absent.described('DescribeAddressesAttribute', {'AllocationIds': ['eipalloc-1']}) == {'Addresses': []}


def test_names_of_volume_types_survive_as_text():
    text = types.text_of({'/dev/vda': 'gp3', '/dev/vdb': None, '/dev/vdc': 'gp2', '/dev/vdd': 'io1'})
    assert text == '/dev/vda=gp3 /dev/vdc=gp2' and types.of_text(text) == {'/dev/vda': 'gp3', '/dev/vdc': 'gp2'}
    assert types.of_text(None) == types.of_text('=') == types.of_text('a=b x') == {}
    assert types.text_of({f'/dev/{"v" * 8}{number}': 'gp3' for number in range(40)}) == ''


@pytest.mark.parametrize(('alias', 'size', 'found'), [
    ('gp3', 1, {'Iops': 3000, 'Throughput': 125}), ('gp2', 1, {'Iops': 100}), ('gp2', 100, {'Iops': 300}),
    ('gp2', 9000, {'Iops': 16000}), ('standard', 1, {}), (None, 1, {})])
def test_nominal_performance_is_that_of_ec2(alias, size, found):
    assert types.performance(alias, size) == found


def test_free_addresses_of_a_subnet_are_counted():
    row = {'allocation_pools': [{'start': '10.0.0.2', 'end': '10.0.0.9'}, {'start': '10.0.0.20', 'end': '10.0.0.20'}]}
    assert subnets._available(row, []) == 9
    assert subnets._available(row, ['10.0.0.1', '10.0.0.2', '10.0.0.20', '10.0.0.15']) == 7


def test_a_key_of_another_type_has_no_fingerprint_of_ec2():
    assert key_pairs.fingerprint('ecdsa-sha2-nistp256 AAAA') is None
    assert key_pairs.fingerprint('ssh-ed25519') is key_pairs.fingerprint('ssh-rsa not-base64') is None
