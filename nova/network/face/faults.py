"""Errors in the form of the Networking API: ``{"NeutronError": {"type", "message", "detail"}}``."""
from nova import exception

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


def body(error):
    """(code, document) of a domain error."""
    name = type(error).__name__
    message = error.message if error.code < 500 or error.code == 503 else exception.NovaException.template
    return error.code, {'NeutronError': {'type': TYPES.get(name, name), 'message': message, 'detail': ''}}
