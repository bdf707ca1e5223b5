"""Faults in the Networking API's format: ``{"NeutronError": {"type", "message", "detail"}}``."""
from nova import exception
from nova.web import faults
from nova.web.request import Response

KEY = 'NeutronError'
# exception class -> type in the Networking API
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
    template = ('Unable to complete operation on subnet %(subnet_id)s: One or more ports have an IP allocation from '
                'this subnet.')


class MacAddressInUse(exception.Conflict):
    template = 'Unable to complete operation for network %(network_id)s. The mac address %(mac)s is in use.'


class SecurityGroupRuleExists(exception.Conflict):
    template = 'Security group rule already exists. Rule id is %(rule_id)s.'


class AutoAllocationFailure(exception.Conflict):
    template = 'Deployment error: %(reason)s'


class DefaultExternalNetworkExists(exception.Conflict):
    template = 'A default external network already exists: %(net_id)s.'


class DefaultRuleNotFound(exception.NotFound):
    template = 'Default Security Group rule %(rule_id)s does not exist.'


class SecurityGroupDefaultAlreadyExists(exception.Conflict):
    template = 'Default security group already exists.'


class SecurityGroupCannotRemoveDefault(exception.Conflict):
    template = 'Insufficient rights for removing default security group.'


class SecurityGroupCannotUpdateDefault(exception.Conflict):
    template = 'Updating default security group not allowed.'


class GatewayIpInUse(exception.Conflict):
    template = 'Current gateway ip %(ip_address)s already in use by a router on subnet %(subnet_id)s. Unable to update.'


class RouterNotFound(exception.NotFound):
    template = 'Router %(router_id)s could not be found'


class RouterInUse(exception.Conflict):
    template = 'Router %(router_id)s still has ports'


class RouterInterfaceNotFound(exception.NotFound):
    template = 'Router %(router_id)s has no such interface: %(what)s'


class RouterInterfaceInUse(exception.Conflict):
    template = 'Subnet %(subnet_id)s is in use on router %(router_id)s: %(by)s'


class RouterExternalGatewayInUseByFloatingIp(exception.Conflict):
    template = 'The gateway of router %(router_id)s to network %(net_id)s is in use by floating IPs.'


class FloatingIPNotFound(exception.NotFound):
    template = 'Floating IP %(floatingip_id)s could not be found'


class FloatingIPPortAlreadyAssociated(exception.Conflict):
    template = 'Fixed IP %(address)s of port %(port_id)s has a floating IP of this network already.'


class ExternalGatewayForFloatingIPNotFound(exception.NotFound):
    template = 'No router connects subnet %(subnet_id)s of port %(port_id)s to external network %(network_id)s.'


class PortForwardingNotFound(exception.NotFound):
    template = 'Port Forwarding %(id)s could not be found.'


class FloatingIpInUse(exception.Conflict):
    template = 'Floating IP %(floatingip_id)s is in use: %(by)s'


class RbacPolicyNotFound(exception.NotFound):
    template = 'RBAC policy with ID %(policy_id)s not found'


class RbacPolicyInUse(exception.Conflict):
    template = 'RBAC policy on object %(object_id)s cannot be removed because other objects depend on it.'


class RbacPolicyExists(exception.Conflict):
    template = 'An RBAC policy already exists with those values.'


class NoNetworkAvailable(exception.Unavailable):
    template = 'Unable to create the network. All VLANs of [network] vlan_ranges are in use.'


class TunnelIdInUse(exception.Conflict):
    template = 'Segmentation id %(number)s of overlay networks is in use.'


class VlanIdInUse(exception.Conflict):
    template = 'VLAN %(vlan)s of physical network %(physical)s is in use.'


class AddressScopeNotFound(exception.NotFound):
    template = 'Address scope %(address_scope_id)s could not be found.'


class AddressScopeInUse(exception.Conflict):
    template = 'Address scope %(address_scope_id)s still has subnet pools.'


class AddressScopePrefixConflict(exception.Conflict):
    template = 'Prefix %(prefix)s is in use by another subnet pool of address scope %(address_scope_id)s.'


class AddressScopeUpdateError(exception.BadRequest):
    template = 'Cannot update address scope %(address_scope_id)s: %(reason)s'


class IllegalSubnetPoolAssociationToAddressScope(exception.BadRequest):
    template = 'Subnet pool %(subnetpool_id)s cannot join address scope %(address_scope_id)s: %(reason)s'


class IllegalSubnetPoolUpdate(exception.BadRequest):
    template = 'Cannot change the address scope of subnet pool %(subnetpool_id)s: %(reason)s'


class NetworkAddressScopeAffinityError(exception.BadRequest):
    template = ('Network %(network_id)s has IPv%(version)s subnets of another address scope, or of none. Use a subnet '
                'pool of the same scope.')


class SubnetPoolNotFound(exception.NotFound):
    template = 'Subnet pool %(subnetpool_id)s could not be found.'


class SubnetPoolInUse(exception.Conflict):
    template = 'Subnet pool %(subnetpool_id)s still has subnets.'


class SubnetAllocationError(exception.Conflict):
    template = 'Failed to allocate subnet: %(reason)s'


class SubnetPoolQuotaExceeded(exception.Conflict):
    template = "The project's default_quota of subnet pool %(subnetpool_id)s is exceeded."


class TrunkNotFound(exception.NotFound):
    template = 'Trunk %(trunk_id)s could not be found.'


class SubPortNotFound(exception.NotFound):
    template = 'Port %(port_id)s is not a subport of trunk %(trunk_id)s.'


class ParentPortInUse(exception.Conflict):
    template = 'Port %(port_id)s is in use and cannot be the parent port of a trunk, or is the parent port of one.'


class TrunkPortInUse(exception.Conflict):
    template = 'Port %(port_id)s is a subport of trunk %(trunk_id)s.'


class PortInUseAsTrunkParent(exception.Conflict):
    template = 'Port %(port_id)s is the parent port of trunk %(trunk_id)s.'


class PortInUseAsSubPort(exception.Conflict):
    template = 'Port %(port_id)s is a subport of trunk %(trunk_id)s.'


class DuplicateSubPort(exception.Conflict):
    template = '%(segmentation_type)s %(segmentation_id)s is in use on trunk %(trunk_id)s.'


class TooManySubports(exception.Conflict):
    template = 'Trunk %(trunk_id)s can have at most %(limit)s subports.'


class SubPortMtuGreaterThanTrunkPortMtu(exception.Conflict):
    template = ('MTU %(port_mtu)s of the network of subport %(port_id)s is greater than MTU %(trunk_mtu)s of the '
                'network of parent port %(trunk_id)s.')


class TrunkInUse(exception.Conflict):
    template = 'Trunk %(trunk_id)s is in use: its parent port has a device. Detach the port first.'


class TrunkDisabled(exception.Conflict):
    template = 'Trunk %(trunk_id)s is disabled. Set admin_state_up before you change its subports or delete it.'


class QosPolicyNotFound(exception.NotFound):
    template = 'QoS policy %(policy_id)s could not be found.'


class QosPolicyInUse(exception.Conflict):
    template = 'QoS Policy %(policy_id)s is used by %(user)s.'


class QosRuleNotFound(exception.NotFound):
    template = 'QoS rule %(rule_id)s for policy %(policy_id)s could not be found.'


class QosRuleExists(exception.Conflict):
    template = 'QoS policy %(policy_id)s already limits the bandwidth of direction %(direction)s.'


class TagNotFound(exception.NotFound):
    template = 'Tag %(tag)s could not be found.'


class ServicePortInUse(exception.Conflict):
    template = 'Port %(port_id)s cannot be changed directly via the port API: %(reason)s.'


class PortSecurityPortHasSecurityGroup(exception.Conflict):
    template = 'A port without port security cannot have security groups or allowed address pairs.'


class RevisionNumberConstraintFailed(exception.NovaException):
    """If-Match does not match the current revision."""

    code = 412
    template = 'Constrained to %(expected)s, but current revision is: %(current)s'


class OverQuota(exception.Conflict):
    template = "Quota exceeded for resources: ['%(resource)s']."


_BY_CODE = {500: 'HTTPInternalServerError', 503: 'ServiceUnavailable'}     # types of errors that are not NovaExceptions


def answer(error: Exception, request_id: str | None) -> Response:
    """Return the answer to an error."""
    code, message, _english = faults.explain(error, request_id)
    name = type(error).__name__
    kind = TYPES.get(name, name) if isinstance(error, exception.NovaException) else _BY_CODE[code]
    return Response({KEY: {'type': kind, 'message': message, 'detail': ''}}, code)
