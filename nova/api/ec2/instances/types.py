"""EC2 operations on instance types (flavors)."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations

PARTS_OF_NAMES = {'OpenStack-API-Version': 'compute 2.102'}           # supports the name filter of flavors


def _type(flavor: dict[str, Any]) -> dict[str, Any]:
    return {'InstanceType': flavor['name'], 'CurrentGeneration': True, 'BareMetal': False,
            'SupportedVirtualizationTypes': ['hvm'], 'VCpuInfo': {'DefaultVCpus': flavor['vcpus']},
            'MemoryInfo': {'SizeInMiB': flavor['ram']}, 'InstanceStorageSupported': flavor['disk'] > 0,
            'InstanceStorageInfo': {'TotalSizeInGB': flavor['disk']} if flavor['disk'] else None}


def describe_instance_types(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    flavors = req.pages('compute', '/flavors/detail', 'flavors')
    shown = [_type(flavor) for flavor in flavors]
    shown = filters.choose_named(shown, 'InstanceType', given.get('InstanceTypes'), 'InvalidInstanceType',
                                 'The instance type {} does not exist.')
    shown = filters.apply(shown, given.get('Filters'), {
        'instance-type': lambda row: row['InstanceType'], 'bare-metal': lambda row: False,
        'current-generation': lambda row: True, 'vcpu-info.default-vcpus': lambda row: row['VCpuInfo']['DefaultVCpus'],
        'memory-info.size-in-mib': lambda row: row['MemoryInfo']['SizeInMiB']})
    page, token = filters.page(shown, given, 'InstanceType')
    return {'InstanceTypes': page, 'NextToken': token}


def flavor_of(req: operations.Request, name: str | None) -> str:
    """Return the ID of the flavor with the name of an instance type.

    :raises Ec2Error: the flavor does not exist
    """
    if not name:
        raise errors.missing('InstanceType')
    for flavor in req.pages('compute', '/flavors', 'flavors', {'name': name}, headers=PARTS_OF_NAMES):
        if flavor['name'] == name:
            return str(flavor['id'])
    raise errors.Ec2Error('InvalidInstanceType', f'The instance type {name[:255]!r} does not exist.')


def describe_instance_type_offerings(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """List each flavor for the region or all zones; only the scheduler knows which hosts have room."""
    kind = given.get('LocationType') or 'region'
    if kind not in ('region', 'availability-zone', 'availability-zone-id'):
        raise errors.invalid('LocationType', kind)
    places = [req.region] if kind == 'region' else [
        zone['zoneName'] for zone in req.call('compute', 'GET', '/os-availability-zone')['availabilityZoneInfo']]
    shown = [{'InstanceType': flavor['name'], 'LocationType': kind, 'Location': place}
             for flavor in req.pages('compute', '/flavors', 'flavors') for place in places]
    shown = filters.apply(shown, given.get('Filters'), {
        'instance-type': lambda row: row['InstanceType'], 'location': lambda row: row['Location']})
    for row in shown:
        row['place'] = f'{row["InstanceType"]} {row["Location"]}'
    page, token = filters.page(shown, given, 'place')
    return {'InstanceTypeOfferings': [{name: value for name, value in row.items() if name != 'place'}
                                      for row in page], 'NextToken': token}


OPERATIONS = [
    operations.row('DescribeInstanceTypes', describe_instance_types, 'InstanceTypes' + operations.PAGED),
    operations.row('DescribeInstanceTypeOfferings', describe_instance_type_offerings,
                   'LocationType' + operations.PAGED),
]
