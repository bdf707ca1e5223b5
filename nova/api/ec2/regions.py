"""EC2 operations on regions, zones and account attributes."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations


def describe_availability_zones(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    zones = req.call('compute', 'GET', '/os-availability-zone')['availabilityZoneInfo']
    shown = [{'ZoneName': zone['zoneName'], 'ZoneId': zone['zoneName'], 'RegionName': req.region,
              'ZoneType': 'availability-zone', 'OptInStatus': 'opt-in-not-required',
              'State': 'available' if zone['zoneState']['available'] else 'unavailable'} for zone in zones]
    for given_names in (given.get('ZoneNames'), given.get('ZoneIds')):
        for name in given_names or ():
            if name not in {zone['ZoneName'] for zone in shown}:
                raise errors.invalid('ZoneName', name)
        if given_names:
            shown = [zone for zone in shown if zone['ZoneName'] in given_names]
    return {'AvailabilityZones': filters.apply(shown, given.get('Filters'), {
        'zone-name': lambda zone: zone['ZoneName'], 'zone-id': lambda zone: zone['ZoneId'],
        'state': lambda zone: zone['State'], 'region-name': lambda zone: zone['RegionName'],
        'zone-type': lambda zone: zone['ZoneType'], 'opt-in-status': lambda zone: zone['OptInStatus']})}


def describe_regions(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    shown = [{'RegionName': req.region, 'Endpoint': req.url, 'OptInStatus': 'opt-in-not-required'}]
    for name in given.get('RegionNames') or ():
        if name != req.region:
            raise errors.invalid('RegionName', name)
    return {'Regions': filters.apply(shown, given.get('Filters'), {
        'region-name': lambda region: region['RegionName'], 'endpoint': lambda region: region['Endpoint'],
        'opt-in-status': lambda region: region['OptInStatus']})}


def describe_account_attributes(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    limits = req.call('compute', 'GET', '/limits')['limits']['absolute']
    values = {'supported-platforms': ['VPC'], 'default-vpc': [req.vpc],
              'max-instances': [str(limits['maxTotalInstances'])]}
    wanted = given.get('AttributeNames') or values
    return {'AccountAttributes': [
        {'AttributeName': name, 'AttributeValues': [{'AttributeValue': value} for value in values[name]]}
        for name in wanted if name in values]}


OPERATIONS = [
    operations.row('DescribeAvailabilityZones', describe_availability_zones, 'ZoneNames ZoneIds Filters',
                   'AllAvailabilityZones'),
    operations.row('DescribeRegions', describe_regions, 'RegionNames Filters', 'AllRegions'),
    operations.row('DescribeAccountAttributes', describe_account_attributes, 'AttributeNames'),
]
