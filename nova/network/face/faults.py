"""Errors in the form of the Networking API: ``{"NeutronError": {"type", "message", "detail"}}``."""
from nova import exception
from nova.web import faults
from nova.web.request import Response

# our class -> the type that clients of the Networking API know
TYPES = {
    'BadRequest': 'HTTPBadRequest',
    'NotFound': 'HTTPNotFound',
    'MethodNotAllowed': 'HTTPMethodNotAllowed',
    'Unauthorized': 'HTTPUnauthorized',
    'TooLarge': 'HTTPRequestEntityTooLarge',
    'PolicyDenied': 'PolicyNotAuthorized',
    'FixedIpInUse': 'IpAddressAlreadyAllocated',
    'NoMoreFixedIps': 'IpAddressGenerationFailure',
    'NetworkRequestInvalid': 'InvalidInput',
    'Unavailable': 'ServiceUnavailable',
    'NovaException': 'HTTPInternalServerError',
}


class SubnetInUse(exception.Conflict):
    template = (
        'Unable to complete operation on subnet %(subnet_id)s: One or more ports have an IP allocation from '
        'this subnet.'
    )


class MacAddressInUse(exception.Conflict):
    template = 'Unable to complete operation for network %(network_id)s. The mac address %(mac)s is in use.'


class InvalidSharedSetting(exception.Conflict):
    template = (
        'Unable to reconfigure sharing settings for network %(network_id)s. Multiple tenants are using it.'
    )


class SecurityGroupRuleExists(exception.Conflict):
    template = 'Security group rule already exists. Rule id is %(rule_id)s.'


class SecurityGroupDefaultAlreadyExists(exception.Conflict):
    template = 'Default security group already exists.'


class SecurityGroupCannotRemoveDefault(exception.Conflict):
    template = 'Insufficient rights for removing default security group.'


class SecurityGroupCannotUpdateDefault(exception.Conflict):
    template = 'Updating default security group not allowed.'


class OverQuota(exception.Conflict):
    template = "Quota exceeded for resources: ['%(resource)s']."


_BY_CODE = {500: 'HTTPInternalServerError', 503: 'ServiceUnavailable'}     # of errors that are not ours


def answer(error: Exception, request_id: str | None) -> Response:
    """The answer to an error."""
    code, message, _english = faults.explain(error, request_id)
    name = type(error).__name__
    kind = TYPES.get(name, name) if isinstance(error, exception.NovaException) else _BY_CODE[code]
    return Response({'NeutronError': {'type': kind, 'message': message, 'detail': ''}}, code)
