"""Errors of the EC2 API, and mapping of errors of other services."""
from collections.abc import Callable, Iterator
import contextlib

from nova.json_types import Json


class Ec2Error(Exception):
    """An error response of the EC2 API.

    :param code: error code as in EC2's documentation
    :param message: message for the user
    :param status: HTTP status code
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class NoService(Ec2Error):
    """The cloud does not have this service.

    :param service: key of calls.SERVICES
    """

    def __init__(self, service: str) -> None:
        super().__init__('UnsupportedOperation', f'This cloud has no {service} service.')


class ServiceRefused(Exception):
    """An error response of another service.

    :param status: HTTP status code
    :param message: message of the service
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class OnStatus:
    """Context manager: replace a service's error that has one of these HTTP status codes.

    :param make: function(ServiceRefused) -> error of the EC2 API
    """

    def __init__(self, status: int | tuple[int, ...], make: Callable[[ServiceRefused], Ec2Error]) -> None:
        self._statuses, self._make = status if isinstance(status, tuple) else (status,), make

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ServiceRefused) and error.status in self._statuses:
            raise self._make(error) from None


@contextlib.contextmanager
def ignored(status: int) -> Iterator[None]:
    """Context manager: ignore a service's error that has this HTTP status code, and leave the block."""
    try:
        yield
    except ServiceRefused as refused:
        if refused.status != status:
            raise


# {HTTP status of a service: (error code of EC2, HTTP status of the EC2 API)}
CODES = {
    400: ('InvalidParameterValue', 400), 401: ('AuthFailure', 401), 403: ('UnauthorizedOperation', 403),
    404: ('InvalidParameterValue', 400), 409: ('IncorrectState', 400), 413: ('ResourceLimitExceeded', 400),
    429: ('RequestLimitExceeded', 503), 503: ('Unavailable', 503),
}
# {ID prefix: (code for an unknown ID, code for a malformed ID, noun)}
NOT_FOUND = {
    'i': ('InvalidInstanceID.NotFound', 'InvalidInstanceID.Malformed', 'instance'),
    'ami': ('InvalidAMIID.NotFound', 'InvalidAMIID.Malformed', 'image'),
    'vol': ('InvalidVolume.NotFound', 'InvalidParameterValue', 'volume'),
    'snap': ('InvalidSnapshot.NotFound', 'InvalidParameterValue', 'snapshot'),
    'sg': ('InvalidGroup.NotFound', 'InvalidGroupId.Malformed', 'security group'),
    'sgr': ('InvalidSecurityGroupRuleId.NotFound', 'InvalidSecurityGroupRuleId.Malformed', 'security group rule'),
    'subnet': ('InvalidSubnetID.NotFound', 'InvalidSubnetID.Malformed', 'subnet'),
    'vpc': ('InvalidVpcID.NotFound', 'InvalidVpcID.Malformed', 'VPC'),
    'igw': ('InvalidInternetGatewayID.NotFound', 'InvalidInternetGatewayId.Malformed', 'internet gateway'),
    'rtb': ('InvalidRouteTableID.NotFound', 'InvalidRouteTableId.Malformed', 'route table'),
    'dopt': ('InvalidDhcpOptionsID.NotFound', 'InvalidDhcpOptionsId.Malformed', 'set of DHCP options'),
    'rtbassoc': ('InvalidAssociationID.NotFound', 'InvalidAssociationID.Malformed', 'association'),
    'eni': ('InvalidNetworkInterfaceID.NotFound', 'InvalidNetworkInterfaceId.Malformed', 'network interface'),
    'eipalloc': ('InvalidAllocationID.NotFound', 'InvalidAllocationID.Malformed', 'address'),
    'pg': ('InvalidPlacementGroup.Unknown', 'InvalidPlacementGroupId.Malformed', 'placement group'),
    'lt': ('InvalidLaunchTemplateId.NotFound', 'InvalidLaunchTemplateId.Malformed', 'launch template'),
    'key': ('InvalidKeyPair.NotFound', 'InvalidKeyPair.NotFound', 'key pair'),
}
QUOTA = {'server': 'InstanceLimitExceeded', 'volume': 'VolumeLimitExceeded', 'snapshot': 'SnapshotLimitExceeded',
         'floatingip': 'AddressLimitExceeded', 'security_group': 'SecurityGroupLimitExceeded',
         'security_group_rule': 'RulesPerSecurityGroupLimitExceeded', 'keypair': 'KeyPairLimitExceeded',
         'port': 'NetworkInterfaceLimitExceeded',
         'server_group': 'PlacementGroupLimitExceeded', 'router': 'VpcLimitExceeded',
         'subnet': 'SubnetLimitExceeded'}


def not_found(prefix: str, shown: str) -> Ec2Error:
    code, _malformed, noun = NOT_FOUND[prefix]
    return Ec2Error(code, f'The {noun} ID {shown!r} does not exist.')


def malformed(prefix: str, shown: str) -> Ec2Error:
    _code, code, noun = NOT_FOUND[prefix]
    return Ec2Error(code, f'{shown!r} is not the ID of a {noun}.')


def of_service(refused: ServiceRefused, noun: str | None = None) -> Ec2Error:
    """Convert an error of another service.

    :param noun: resource to be created, a key of QUOTA; its quota errors have a specific code
    """
    code, status = CODES.get(refused.status, ('InternalError', 500))
    if noun in QUOTA and refused.status in (403, 409, 413) and 'uota' in refused.message:
        code, status = QUOTA[noun], 400
    message = refused.message if refused.status < 500 else 'A required service does not respond.'
    return Ec2Error(code, message, status)


def missing(name: str) -> Ec2Error:
    return Ec2Error('MissingParameter', f'The request must contain the parameter {name}.')


def invalid(name: str, value: Json) -> Ec2Error:
    return Ec2Error('InvalidParameterValue', f'Value ({str(value)[:255]}) for parameter {name} is invalid.')


def unsupported(what: str) -> Ec2Error:
    return Ec2Error('UnsupportedOperation', what)
