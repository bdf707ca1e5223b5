"""Instance types: flavors of the compute API."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations


def _type(flavor: dict[str, Any]) -> dict[str, Any]:
    return {'InstanceType': flavor['name'], 'CurrentGeneration': True, 'BareMetal': False,
            'SupportedVirtualizationTypes': ['hvm'], 'VCpuInfo': {'DefaultVCpus': flavor['vcpus']},
            'MemoryInfo': {'SizeInMiB': flavor['ram']}, 'InstanceStorageSupported': flavor['disk'] > 0,
            'InstanceStorageInfo': {'TotalSizeInGB': flavor['disk']} if flavor['disk'] else None}


def describe_instance_types(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    flavors = req.pages('compute', '/flavors/detail', 'flavors')
    shown = [_type(flavor) for flavor in flavors]
    wanted: Sequence[str] = given.get('InstanceTypes') or ()
    for name in wanted:
        if name not in {row['InstanceType'] for row in shown}:
            raise errors.Ec2Error('InvalidInstanceType', f'The instance type {name[:255]!r} does not exist.')
    if wanted:
        shown = [row for row in shown if row['InstanceType'] in wanted]
    shown = filters.apply(shown, given.get('Filters'), {
        'instance-type': lambda row: row['InstanceType'], 'bare-metal': lambda row: False,
        'current-generation': lambda row: True, 'vcpu-info.default-vcpus': lambda row: row['VCpuInfo']['DefaultVCpus'],
        'memory-info.size-in-mib': lambda row: row['MemoryInfo']['SizeInMiB']})
    page, token = filters.page(shown, given, 'InstanceType')
    return {'InstanceTypes': page, 'NextToken': token}


OPERATIONS = [
    operations.row('DescribeInstanceTypes', describe_instance_types, 'InstanceTypes' + operations.PAGED),
]
