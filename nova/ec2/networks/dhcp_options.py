"""EC2 operations on DHCP options: the name servers of the subnets of a VPC."""
import contextlib
import ipaddress
from typing import Any

from nova.db.ec2 import vpcs as db_vpcs
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.json_types import JsonDocument

SERVERS = 'domain-name-servers'
CLOUD = 'AmazonProvidedDNS'                        # value that selects the resolver of the cloud
DEFAULT = 'default'                                # pseudo ID that removes the DHCP options of a VPC
MAX_SERVERS = 4


def _name_servers(given: operations.Given) -> list[str]:
    """Return the name servers in a request; empty for the resolver of the cloud.

    :raises Ec2Error: unsupported option, or malformed address
    """
    configurations = given['DhcpConfigurations']
    others = [str(each.get('Key')) for each in configurations if each.get('Key') != SERVERS]
    if others or len(configurations) != 1:
        raise errors.unsupported(f'The only supported option is {SERVERS}, not {(others or ["none"])[0][:64]!r}.')
    values = [part.strip() for value in configurations[0].get('Values') or () for part in value.split(',')]
    if values == [CLOUD]:
        return []
    try:
        found = [str(ipaddress.IPv4Address(value)) for value in values]
    except ValueError:
        raise errors.invalid(SERVERS, ', '.join(values)) from None
    if not 1 <= len(found) <= MAX_SERVERS or len(set(found)) < len(found):
        raise errors.invalid(SERVERS, f'{len(found)} addresses; 1 to {MAX_SERVERS} distinct addresses are required')
    return found


def _shown(req: operations.Request, options: dict[str, list[str]]) -> list[dict[str, Any]]:
    names, kept = req.ids.shown('dopt', options), tags.of(req, 'dopt', list(options))
    return [{'DhcpOptionsId': names[ident], 'OwnerId': req.project_id, 'Tags': kept[ident], 'DhcpConfigurations': [
        {'Key': SERVERS, 'Values': [{'Value': value} for value in servers or [CLOUD]]}]}
            for ident, servers in options.items()]


def _find(req: operations.Request, known: db_vpcs.Known, shown: str) -> str:
    """Return the UUID of DHCP options.

    :raises Ec2Error: the options do not exist
    """
    ident = req.uuid('dopt', shown)
    if ident not in known.options:
        raise errors.not_found('dopt', shown)
    return ident


def create_dhcp_options(req: operations.Request, given: operations.Given) -> JsonDocument:
    servers, found = _name_servers(given), tags.given(given.get('TagSpecifications'), 'dhcp-options')
    req.writes()
    ident = req.api_db.run(db_vpcs.add_options, req.project_id, servers)
    if ident is None:
        raise errors.Ec2Error('DhcpOptionsLimitExceeded',
                              f'A project can have at most {db_vpcs.MAX_DHCP_OPTIONS} sets of DHCP options.')
    tags.put(req, 'dopt', ident, found)
    return {'DhcpOptions': _shown(req, {ident: servers})[0]}


def describe_dhcp_options(req: operations.Request, given: operations.Given) -> JsonDocument:
    shown = _shown(req, db_vpcs.known(req.api_db, req.project_id).options)
    return filters.answer('DhcpOptions', shown, given, 'DhcpOptionsId', {
        'dhcp-options-id': 'DhcpOptionsId', 'owner-id': 'OwnerId', 'key': 'DhcpConfigurations.Key',
        'value': 'DhcpConfigurations.Values.Value'}, prefix='dopt')


def associate_dhcp_options(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Associate DHCP options with a VPC; guests apply them with their next DHCP request."""
    known = db_vpcs.known(req.api_db, req.project_id)
    vpc = routing.find_vpc(req, known, given['VpcId'])
    ident = None if given['DhcpOptionsId'] == DEFAULT else _find(req, known, given['DhcpOptionsId'])
    req.writes()
    old = known.vpcs[vpc]['dhcp_options_id']
    req.api_db.run(db_vpcs.associate_options, vpc, ident)
    with contextlib.ExitStack() as undo:       # without the old options, a repetition would not reset the subnets
        undo.callback(_restore, req, vpc, old is None and ident is not None)
        undo.callback(req.api_db.run, db_vpcs.associate_options, vpc, old)
        _apply(req, vpc, ident is None and old is not None)
        undo.pop_all()
    return {}


def _apply(req: operations.Request, vpc: str, removed: bool) -> None:
    """Apply the DHCP options of a VPC to its subnets.

    :param removed: the VPC has no DHCP options any more
    """
    routing.write_routes(req, vpc)
    if removed:
        for subnet in routing.subnets(req, {
                fixed['subnet_id'] for port in routing.joins(req, [vpc]) for fixed in port['fixed_ips']}):
            req.call('network', 'PUT', f'/subnets/{subnet["id"]}', {'subnet': {'dns_nameservers': []}})


def _restore(req: operations.Request, vpc: str, removed: bool) -> None:
    with contextlib.suppress(errors.ServiceRefused, errors.Ec2Error):
        _apply(req, vpc, removed)


def delete_dhcp_options(req: operations.Request, given: operations.Given) -> JsonDocument:
    ident = _find(req, db_vpcs.known(req.api_db, req.project_id), given['DhcpOptionsId'])
    req.writes()
    if not req.api_db.run(db_vpcs.remove_options, ident):
        raise errors.Ec2Error('DependencyViolation', f"The dhcpOptions '{given['DhcpOptionsId']}' has dependencies and "
                                                     'cannot be deleted.')
    tags.forget(req, 'dopt', ident)
    return {}


OPERATIONS = [
    operations.row('CreateDhcpOptions', create_dhcp_options, 'DhcpConfigurations TagSpecifications'),
    operations.row('DescribeDhcpOptions', describe_dhcp_options, 'DhcpOptionsIds' + operations.PAGED),
    operations.row('AssociateDhcpOptions', associate_dhcp_options, 'DhcpOptionsId VpcId'),
    operations.row('DeleteDhcpOptions', delete_dhcp_options, 'DhcpOptionsId'),
]
