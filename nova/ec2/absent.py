"""Describe operations for kinds of resources that the cloud does not have: they return an empty list.

Clients such as Terraform call these operations when they read or delete resources of other kinds.
"""
import re

from nova.ec2 import errors
from nova.ec2 import protocol

# names of the operations, without the prefix Describe; each response contains one list
OPERATIONS = frozenset(f'Describe{name}' for name in '''
AddressTransfers AddressesAttribute AggregateIdFormat ApplicationStatusCheckAssociations ApplicationStatusChecks
AwsNetworkPerformanceMetricSubscriptions BundleTasks ByoipCidrs CapacityBlockExtensionHistory
CapacityBlockExtensionOfferings CapacityBlockOfferings CapacityBlockStatus CapacityBlocks CapacityManagerDataExports
CapacityReservationBillingRequests CapacityReservationCancellationQuotes CapacityReservationDateChangeQuotes
CapacityReservationFleets CapacityReservationTopology CapacityReservations CarrierGateways ClassicLinkInstances
ClientVpnAuthorizationRules ClientVpnConnections ClientVpnEndpoints ClientVpnRoutes ClientVpnTargetNetworks CoipPools
ConversionTasks CustomerGateways DeclarativePoliciesReports EgressOnlyInternetGateways ElasticGpus ExportImageTasks
ExportTasks FastLaunchImages FastSnapshotRestores FleetHistory FleetInstances Fleets FlowLogs FpgaImages
HostReservationOfferings HostReservations Hosts IamInstanceProfileAssociations IdFormat IdentityIdFormat
ImageUsageReportEntries ImageUsageReports ImportImageTasks ImportSnapshotTasks InstanceConnectEndpoints
InstanceCreditSpecifications InstanceEventWindows InstanceSqlHaHistoryStates InstanceSqlHaStates InstanceTopology
IpamByoasn IpamExternalResourceVerificationTokens IpamInternetRegistryAssociations IpamPolicies IpamPoolAllocations
IpamPools IpamPrefixListResolverTargets IpamPrefixListResolvers IpamResourceDiscoveries
IpamResourceDiscoveryAssociations IpamScopes Ipams Ipv6Pools LocalGatewayRouteTableVirtualInterfaceGroupAssociations
LocalGatewayRouteTableVpcAssociations LocalGatewayRouteTables LocalGatewayVirtualInterfaceGroups
LocalGatewayVirtualInterfaces LocalGateways LockedSnapshots MacHosts MacModificationTasks ManagedPrefixLists
MetricCategories MovingAddresses NatGateways NetworkAcls NetworkInsightsAccessScopeAnalyses
NetworkInsightsAccessScopes NetworkInsightsAnalyses NetworkInsightsPaths NetworkInterfacePermissions
NetworkingFlexCostAllocationPolicies NetworkingFlexCostAllocationPolicyAssociations OutpostLags PrefixLists
PrincipalIdFormat PublicIpv4Pools ReplaceRootVolumeTasks ReservedInstances ReservedInstancesListings
ReservedInstancesModifications ReservedInstancesOfferings RouteServerEndpoints RouteServerPeers RouteServers
ScheduledInstanceAvailability ScheduledInstances SecondaryInterfaces SecondaryNetworks SecondarySubnets
SecurityGroupReferences SecurityGroupVpcAssociations ServiceLinkVirtualInterfaces SnapshotTierStatus
SpotFleetInstances SpotFleetRequestHistory SpotFleetRequests SpotInstanceRequests SpotPriceHistory StaleSecurityGroups
StoreImageTasks TrafficMirrorFilterRules TrafficMirrorFilters TrafficMirrorSessions TrafficMirrorTargets
TransitGatewayAttachments TransitGatewayConnectPeers TransitGatewayConnects TransitGatewayMeteringPolicies
TransitGatewayMulticastDomains TransitGatewayNetworkFunctionAttachments TransitGatewayPeeringAttachments
TransitGatewayPolicyTables TransitGatewayRouteTableAnnouncements TransitGatewayRouteTables
TransitGatewayVpcAttachments TransitGateways TrunkInterfaceAssociations VerifiedAccessEndpoints VerifiedAccessGroups
VerifiedAccessInstanceLoggingConfigurations VerifiedAccessInstances VerifiedAccessTrustProviders
VpcBlockPublicAccessExclusions VpcClassicLink VpcClassicLinkDnsSupport VpcEncryptionControls VpcEndpointAssociations
VpcEndpointConnectionNotifications VpcEndpointConnections VpcEndpointServiceConfigurations
VpcEndpointServicePermissions VpcEndpointServices VpcEndpoints VpcPeeringConnections VpnConcentrators VpnConnections
VpnGateways
'''.split())
# {parameter: error code in EC2's documentation}, if the code is not Invalid…ID.NotFound
_CODES = {'NatGatewayIds': 'NatGatewayNotFound', 'FlowLogIds': 'InvalidFlowLogId.NotFound',
          'VpcEndpointIds': 'InvalidVpcEndpointId.NotFound', 'FleetIds': 'InvalidFleetId.NotFound',
          'HostIds': 'InvalidHostID.NotFound', 'CapacityReservationIds': 'InvalidCapacityReservationId.NotFound'}
_IDS = re.compile('(.+)Ids?')
# parameters with IDs of resources that the cloud has; none of these has what is described, so the list is empty
_PRESENT = frozenset({'AllocationIds', 'AvailabilityZoneId', 'GroupId', 'ImageIds', 'InstanceIds', 'SnapshotIds',
                      'VpcId', 'VpcIds'})


def described(operation: str, given: protocol.Parameters) -> dict[str, list[str]]:
    """Return the empty response of an operation.

    :param given: parameters of the request
    :raises Ec2Error: the request names a resource
    """
    for name, value in given.items():
        if (found := _IDS.fullmatch(name)) and value and name not in _PRESENT:
            first = value[0] if isinstance(value, list) else value
            raise errors.Ec2Error(_CODES.get(name) or f'Invalid{found[1]}ID.NotFound',
                                  f'The {name.removesuffix("s")} {str(first)[:64]!r} does not exist.')
    shape = protocol.service().operation_model(operation).output_shape
    return {name: [] for name, member in shape.members.items() if member.type_name == 'list'}
