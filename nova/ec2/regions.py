"""EC2 operations on regions, zones and account attributes."""

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.json_types import JsonDocument


def zones(req: operations.Request) -> list[str]:
    """Return the names of the availability zones."""
    return [zone['zoneName'] for zone in req.call('compute', 'GET', '/os-availability-zone')['availabilityZoneInfo']]


def describe_availability_zones(req: operations.Request, given: operations.Given) -> JsonDocument:
    rows = req.call('compute', 'GET', '/os-availability-zone')['availabilityZoneInfo']
    shown = [{'ZoneName': zone['zoneName'], 'ZoneId': zone['zoneName'], 'RegionName': req.region, 'Messages': [],
              'ZoneType': 'availability-zone', 'OptInStatus': 'opt-in-not-required', 'GroupName': req.region,
              'NetworkBorderGroup': req.region,
              'State': 'available' if zone['zoneState']['available'] else 'unavailable'} for zone in rows]
    for given_names in (given.get('ZoneNames'), given.get('ZoneIds')):
        for name in given_names or ():
            if name not in {zone['ZoneName'] for zone in shown}:
                raise errors.invalid('ZoneName', name)
        if given_names:
            shown = [zone for zone in shown if zone['ZoneName'] in given_names]
    return {'AvailabilityZones': filters.apply(shown, given.get('Filters'), {
        'zone-name': 'ZoneName', 'zone-id': 'ZoneId', 'state': 'State', 'region-name': 'RegionName',
        'zone-type': 'ZoneType', 'opt-in-status': 'OptInStatus', 'group-name': 'GroupName',
        **filters.unset('group-long-name message parent-zone-id parent-zone-name')})}


def describe_regions(req: operations.Request, given: operations.Given) -> JsonDocument:
    shown = [{'RegionName': req.region, 'Endpoint': req.url, 'OptInStatus': 'opt-in-not-required'}]
    for name in given.get('RegionNames') or ():
        if name != req.region:
            raise errors.invalid('RegionName', name)
    return {'Regions': filters.apply(shown, given.get('Filters'), {
        'region-name': 'RegionName', 'endpoint': 'Endpoint', 'opt-in-status': 'OptInStatus'})}


def describe_account_attributes(req: operations.Request, given: operations.Given) -> JsonDocument:
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
